"""Where the program runs makes no difference to what was valid when."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

SUITE = """
import os
import time

from memsmith import MemoryBackend, SQLiteBackend
from memsmith.testing.conformance import BackendConformance  # so that asserts say what they compared
from memsmith.testing.conformance.as_of import PastReads
from memsmith.testing.conformance.chaining import Chaining
from memsmith.testing.conformance.past_lists import PastLists
from memsmith.testing.conformance.remembering import Remembering
from memsmith.testing.conformance.timing import Timing


def test_the_local_time_is_that_of_the_zone():
    # Without a database of zones every zone is UTC, and the rest would prove nothing.
    assert time.localtime(0).tm_gmtoff == int(os.environ["OFFSET"]), f"no time zone {os.environ['TZ']} here"


class TestMemory(Timing, Chaining, PastReads, PastLists, Remembering):
    def make_backend(self, tmp_path):
        return MemoryBackend()


class TestSQLite(Timing, Chaining, PastReads, PastLists, Remembering):
    def make_backend(self, tmp_path):
        return SQLiteBackend(":memory:")
"""


@pytest.mark.parametrize(
    ("zone", "offset"), [("UTC", 0), ("Asia/Tokyo", 9 * 3600), ("America/Los_Angeles", -8 * 3600)]
)
async def test_both_axes_of_time_are_the_same_wherever_the_program_runs(
    tmp_path: Path, zone: str, offset: int
) -> None:
    suite = tmp_path / "test_suite.py"
    suite.write_text(SUITE)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(suite),
        cwd=tmp_path, env={**os.environ, "TZ": zone, "OFFSET": str(offset)},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    async with asyncio.timeout(120):
        output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
