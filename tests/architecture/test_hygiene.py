"""What no file of the project may have."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
MOST_LINES: Final = 450

# In pieces, or this file would hold what it looks for.
PATTERNS: Final = {
    "a path of one machine": r"/(?:ro" + r"ot/|ho" + r"me/\w|wo" + r"rk/[a-z.]|fa" + r"rm/|t" + r"mp/[a-z])",
    "a host of a package index": r"py" + r"pi\.org|python" + r"hosted\.org|npm" + r"js\.(?:org|com)",
    "a private key": r"-----BEGIN (?:[A-Z]+ )?PRIVATE " + r"KEY-----",
    "a token of a code host": r"\bgh[pousr]_" + r"[A-Za-z0-9]{36}\b",
    "a key of a cloud": r"\bAK" + r"IA[0-9A-Z]{16}\b",
    "a mark of unfinished work": r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b",
}  # fmt: skip


def own_files() -> list[Path]:
    """Return the files of the project: tracked, or new and not ignored; all of them in an sdist."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.splitlines()  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        listed = [
            str(path.relative_to(ROOT))
            for folder in ("memsmith", "tests", "examples", "docs", "benchmarks", "tools")
            for path in (ROOT / folder).rglob("*")
        ]
    files = [ROOT / name for name in listed if (ROOT / name).is_file() and "__pycache__" not in name]
    assert len(files) > 50
    return files


def text_of(path: Path) -> str:
    data = path.read_bytes()
    return "" if b"\0" in data else data.decode("utf-8")


@pytest.mark.parametrize("what", PATTERNS)
def test_no_file_holds(what: str) -> None:
    pattern = re.compile(PATTERNS[what])
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in own_files()
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if pattern.search(line)
    ]
    assert not found


def test_no_module_is_longer_than_one_can_keep_in_mind() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(text_of(path).splitlines())
        for path in own_files()
        if path.suffix == ".py"
    }
    assert not {name: length for name, length in lengths.items() if length > MOST_LINES}


def test_no_test_is_skipped_or_expected_to_fail() -> None:
    marks = re.compile(r"pytest\.(?:mark\.)?(?:skip|xfail|importorskip)")
    found = [
        str(path.relative_to(ROOT))
        for path in own_files()
        if path.suffix == ".py" and path != Path(__file__) and marks.search(text_of(path))
    ]
    assert not found


def test_no_rule_is_switched_off_without_naming_it() -> None:
    bare = re.compile(r"#\s*(?:type: ignore(?!\[)|noqa(?!:)|pyright: ignore(?!\[))")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in own_files()
        if path.suffix == ".py" and path != Path(__file__)
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if bare.search(line)
    ]
    assert not found
