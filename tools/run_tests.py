"""Run the tests with coverage, hold the coverage floors, and end with pytest's own closing line.

Arguments are handed on to pytest. Floors are looked at only when the whole suite ran.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
LINES: Final = 95.0
"""Percent of the package's lines."""

WHOLE: Final = ("memsmith/lifecycle.py", "memsmith/ledger/")
"""Files, or folders, of which every line and every branch must run."""


def run_pytest(arguments: list[str]) -> tuple[int, str]:
    """Run pytest and print its output but for the closing line, which is returned with the exit code."""
    command = [sys.executable, "-m", "pytest", "--cov", "--cov-report=", *arguments]
    color = ["--color=yes"] if sys.stdout.isatty() else []
    closing = ""
    with subprocess.Popen(command + color, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if closing:
                print(closing, end="", flush=True)
            closing = line
    return process.returncode, closing


def measure() -> dict[str, Any]:
    """Return coverage's JSON report of the run just made."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "coverage.json"
        subprocess.run(
            [sys.executable, "-m", "coverage", "json", "--quiet", "-o", str(report)], cwd=ROOT, check=True
        )
        found: dict[str, Any] = json.loads(report.read_text())
        return found


def below_floor(report: dict[str, Any]) -> list[str]:
    """Return what is below its floor, a sentence each."""
    totals = report["totals"]
    share = 100 * totals["covered_lines"] / totals["num_statements"]
    print(f"coverage: {share:.1f} % of the package's lines (floor {LINES:g} %)")
    complaints = [] if share >= LINES else [f"lines of the package: {share:.1f} %, floor {LINES:g} %"]
    for name, file in sorted(report["files"].items()):
        if not name.replace(os.sep, "/").startswith(WHOLE):
            continue
        missing, branches = file["missing_lines"], file["missing_branches"]
        if missing or branches:
            complaints.append(f"{name}: expected all, missing lines {missing}, branches {branches}")
    return complaints


def main(arguments: list[str]) -> int:
    """Return the exit code of the tests, or 1 where only coverage is below its floor."""
    # A subset of the tests says nothing about coverage of the whole.
    whole = not [a for a in arguments if Path(a.split("::")[0]).exists()]
    code, closing = run_pytest(arguments)
    if code == 0 and whole:
        complaints = below_floor(measure())
        for complaint in complaints:
            print(f"coverage below its floor: {complaint}")
        code = 1 if complaints else 0
    print(closing, end="", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
