"""`make bench`: its rows run. What they measure is never asserted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("only", "part"),
    [
        ("serial, normal", "rows"),
        ("point get", "rows"),
        ("PostgreSQL: batch", "rows"),
        ("growth", "growth"),
        ("chains", "comparisons"),
    ],
)
def test_every_kind_of_row_runs_and_is_reported(tmp_path: Path, only: str, part: str) -> None:
    report = tmp_path / "results.json"
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "--alone", "--only", only, "--json", str(report)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert orjson.loads(report.read_bytes())[part]
