"""The command line as a program: in a process of its own, with real files and pipes."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memsmith import __version__

MEMSMITH = (sys.executable, "-W", "error", "-m", "memsmith")


def run(folder: Path, *args: str, given: str | None = None, **environment: str) -> Any:
    clean = {name: value for name, value in os.environ.items() if name not in {"FORCE_COLOR", "NO_COLOR"}}
    return subprocess.run(
        [*MEMSMITH, *args], cwd=folder, input=given, capture_output=True, text=True, timeout=60,
        env={**clean, "PYTHONIOENCODING": "utf-8", **environment},
    )  # fmt: skip


def test_a_store_lives_from_one_process_to_the_next(tmp_path: Path) -> None:
    done = run(tmp_path, "propose", '{"city": "Lisbon"}', "--json")
    assert (done.returncode, done.stderr) == (0, "")
    ident = json.loads(done.stdout)["memory_id"]
    assert (tmp_path / "memsmith.db").is_file()
    shown = run(tmp_path, "list")
    assert ident in shown.stdout
    assert "\x1b" not in shown.stdout
    assert run(tmp_path, "verify", "memsmith.db").returncode == 0
    again = run(tmp_path, "propose", "-", "--json", given='{"city": "Lisbon"}')
    assert (again.returncode, json.loads(again.stdout)["code"]) == (1, "duplicate")
    missing = run(tmp_path, "show", "nope", "--json")
    assert (missing.returncode, missing.stdout) == (4, "")
    assert json.loads(missing.stderr)["type"] == "NotFoundError"


def test_looking_for_a_store_that_is_not_there_makes_none(tmp_path: Path) -> None:
    done = run(tmp_path, "list")
    assert done.returncode == 7
    assert "there is no store" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_installed_program_and_its_version(tmp_path: Path) -> None:
    program = Path(sys.executable).parent / "memsmith"
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"memsmith {__version__}\n"


def test_a_terminal_without_utf_8_gets_escapes_not_a_traceback(tmp_path: Path) -> None:
    run(tmp_path, "propose", '{"city": "東京"}')
    done = run(tmp_path, "list", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u6771" in done.stdout
    found = run(tmp_path, "list", "--json", PYTHONIOENCODING="ascii")
    assert json.loads(found.stdout)["items"][0]["content"] == {"city": "東京"}


def on_a_terminal(folder: Path, *args: str, **environment: str) -> str:
    """Return what a command writes to a terminal."""
    primary, secondary = pty.openpty()
    clean = {name: value for name, value in os.environ.items() if name not in {"FORCE_COLOR", "NO_COLOR"}}
    process = subprocess.Popen(
        [*MEMSMITH, *args], cwd=folder, stdout=secondary, stderr=secondary, stdin=subprocess.DEVNULL,
        env={**clean, "TERM": "xterm", "COLUMNS": "100", **environment},
    )  # fmt: skip
    os.close(secondary)
    written = bytearray()
    with contextlib.suppress(OSError):  # the terminal hangs up with the process
        while part := os.read(primary, 65536):
            written += part
    os.close(primary)
    assert process.wait(timeout=60) == 0
    return written.decode()


def test_a_terminal_gets_colour_unless_it_says_no(tmp_path: Path) -> None:
    run(tmp_path, "propose", '"tea"')
    assert "\x1b[1;32mACTIVE" in on_a_terminal(tmp_path, "list")
    assert "\x1b[1;32m" not in on_a_terminal(tmp_path, "list", NO_COLOR="1")


def test_a_terminal_sees_the_progress_of_long_work(tmp_path: Path) -> None:
    run(tmp_path, "propose", '"tea"')
    assert "Checking the ledger" in on_a_terminal(tmp_path, "verify")
    assert "Checking the ledger" not in run(tmp_path, "verify").stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_are_taught_to_complete(tmp_path: Path, shell: str) -> None:
    variable = {"_MEMSMITH_COMPLETE": f"source_{shell}"}
    assert "memsmith" in run(tmp_path, **variable).stdout
    if shell == "bash":
        words = {"_MEMSMITH_COMPLETE": "complete_bash", "COMP_WORDS": "memsmith pro", "COMP_CWORD": "1"}
        assert run(tmp_path, **words).stdout.strip() == "propose"


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    run(tmp_path, "propose", "-", given=json.dumps("x" * 200_000))
    process = subprocess.Popen(
        [*MEMSMITH, "list", "--json"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    process.wait(timeout=60)
    assert b"Traceback" not in error
