"""Files written by memsmith 0.1.0 itself, which can't be imported beside ours and so runs apart."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

WRITER = Path(__file__).with_name("write_0_1_0.py")
INSTALL_SECONDS = 300


@pytest.fixture(scope="session")
def library_0_1_0(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install memsmith 0.1.0 into a folder of its own, once for all workers of a session."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    folder, done = shared / "memsmith-0.1.0", shared / "memsmith-0.1.0-installed"
    with (shared / "memsmith-0.1.0-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            # What it needs (pydantic, aiosqlite) we need too.
            command = ["install", "--quiet", "--no-deps", "--target", str(folder), "memsmith==0.1.0"]
            ran = subprocess.run(
                [sys.executable, "-m", "pip", "--disable-pip-version-check", *command],
                capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS,
            )  # fmt: skip
            assert ran.returncode == 0, ran.stderr
            done.touch()
    return folder


@dataclass
class Old:
    """A file of 0.1.0, and what 0.1.0 says is in it."""

    path: Path
    memories: list[dict[str, Any]]
    audit: list[dict[str, Any]]


@pytest.fixture(scope="session")
def originals(library_0_1_0: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Old]:
    """Have 0.1.0 write two files: one closed as it should be, one killed while its WAL is full."""

    def write(killed: bool) -> Old:
        path = tmp_path_factory.mktemp("written") / "old.db"
        ran = subprocess.run(
            [sys.executable, str(WRITER), str(path), *(["kill"] if killed else [])],
            env={**os.environ, "PYTHONPATH": str(library_0_1_0)},
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        told = json.loads(ran.stdout)
        assert told["version"] == "0.1.0"
        assert path.with_name("old.db-wal").exists() is killed
        return Old(path, told["memories"], told["audit"])

    return {killed: write(killed) for killed in (False, True)}


@pytest.fixture
def written_by_0_1_0(originals: dict[bool, Old], tmp_path: Path) -> Callable[..., Old]:
    """Return what gives a test its own copy of a file of 0.1.0."""

    def copied(*, killed: bool = False) -> Old:
        original = originals[killed]
        for suffix in ("", "-wal") if killed else ("",):
            shutil.copyfile(f"{original.path}{suffix}", tmp_path / f"old.db{suffix}")
        return replace(original, path=tmp_path / "old.db")

    return copied
