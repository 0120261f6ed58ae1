"""The README says nothing that does not run."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from doc_blocks import LANGUAGES, ROOT, blocks_of, run_document

from memsmith import MemoryStore
from memsmith.lifecycle import REACHABLE
from memsmith.types import MemoryStatus

README = ROOT / "README.md"


async def test_every_block_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert await run_document(README) >= 5


def test_the_conformance_file_passes_as_it_stands_and_is_short(tmp_path: Path) -> None:
    (code,) = [block.code for block in blocks_of(README) if "BackendConformance" in block.code]
    assert len(code.splitlines()) <= 16
    (tmp_path / "test_mine.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout


def test_every_block_names_a_language_that_is_checked() -> None:
    assert {block.language for block in blocks_of(README)} <= LANGUAGES


def test_the_two_commands_come_first() -> None:
    first = next(block for block in blocks_of(README) if block.language == "bash")
    assert [line.split("#")[0].strip() for line in first.code.splitlines()] == ["make demo", "make test"]


def test_the_diagram_has_every_move_of_the_machine_but_erasure_and_no_other() -> None:
    (diagram,) = [block.code for block in blocks_of(README) if block.language == "mermaid"]
    arrows = set(re.findall(r"^\s+(\S+) --> (\w+) :", diagram, re.MULTILINE))
    moves = {
        (source.name, target.name)
        for source, targets in REACHABLE.items()
        for target in targets
        if source is not MemoryStatus.PROPOSED and target is not MemoryStatus.ERASED
    }
    assert {arrow for arrow in arrows if arrow[0] != "[*]"} == moves
    assert {target for source, target in arrows if source == "[*]"} == {
        "ACTIVE",
        "PENDING_CONFIRMATION",
        "REJECTED",
    }


def test_the_table_of_verbs_has_exactly_the_public_methods_of_the_store() -> None:
    section = README.read_text(encoding="utf-8").split("## Verbs")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    methods = [name for name, _ in inspect.getmembers(MemoryStore, callable) if not name.startswith("_")]
    assert sorted(named) == sorted(methods)


def test_the_command_line_has_exactly_the_commands_the_readme_names() -> None:
    section = README.read_text(encoding="utf-8").split("## Command line")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    done = subprocess.run(
        [Path(sys.executable).parent / "memsmith", "--help"],
        capture_output=True, text=True, timeout=60, env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert set(re.findall(r"^│ ([a-z]+) ", done.stdout, re.MULTILINE)) == named
