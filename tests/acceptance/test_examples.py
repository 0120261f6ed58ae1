"""Each example runs as a program, in an empty folder, and asserts its own claim."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

CLAIMS = {
    "agent_loop.py": [
        "I will remember 'Lisbon'",
        "I know that already",
        "tombstoned",
        "ACTIVE in the end: Lisbon, nuts",
    ],
    "as_of.py": ["known on 15    50        50", "known on 25    40        50", "validity_amended"],
    "human_review.py": ["what waits:", "not what you saw", "proposed again: Blocked", "lifted:"],
    "late_arriving_fact.py": [
        "Porto, from 01 Mar: SUPERSEDED",
        "01 Mar to 01 May      Porto",
        "today: Berlin",
    ],
    "quickstart.py": ["accepted ", "pending ", "rejected ", "SELF_CONSISTENT"],
    "sync_external_index.py": ["equal to the ACTIVE set", "when it commits", "rebuilt from nothing"],
}


def test_every_example_is_run() -> None:
    assert sorted(CLAIMS) == sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", sorted(CLAIMS))
def test_an_example_runs_in_an_empty_folder_and_says_what_it_shows(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name)],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for claim in CLAIMS[name]:
        assert claim in done.stdout
    assert list(tmp_path.iterdir()) == []
