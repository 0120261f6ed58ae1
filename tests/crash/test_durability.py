"""What the system calls say: at durability="full" a result is on disk before anybody sees it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from memsmith import MemoryStore, SQLiteBackend

WRITER = Path(__file__).with_name("writer.py")
CALLS = "openat,open,close,write,pwrite64,fdatasync,fsync"


def strace() -> str:
    found = shutil.which("strace")
    assert found, "these tests watch system calls: install strace (Debian, Ubuntu: apt-get install strace)"
    return found


def traced(tmp_path: Path, durability: str, count: int, *options: str) -> tuple[int, list[str]]:
    """Run the writer under strace; return its exit code and the calls, in order."""
    log = tmp_path / "calls"
    done = subprocess.run(
        [
            strace(), "-f", "-y", "-qq", "-s", "64", "-e", f"trace={CALLS}", *options, "-o", str(log),
            sys.executable, str(WRITER), f"sqlite:///{tmp_path / 'traced.db'}", durability, str(count), "w",
        ],
        capture_output=True,
        timeout=60,
        check=False,
    )  # fmt: skip
    return done.returncode, log.read_text("utf-8", "replace").splitlines()


def steps(calls: list[str]) -> str:
    """Reduce the calls to letters: w for a write to the WAL, s for a sync of it, p for a printed result."""
    letters = [
        (re.compile(r"pwrite64\(\d+<[^>]*-wal>"), "w"),
        (re.compile(r"(fdatasync|fsync)\(\d+<[^>]*-wal>\).* = 0|<\.\.\. f(data)?sync resumed>\).* = 0"), "s"),
        (re.compile(r'write\(1<[^>]*>, "[0-9a-f]{32} '), "p"),
    ]
    return "".join(letter for call in calls for pattern, letter in letters if pattern.search(call))


def test_at_full_durability_the_wal_is_synced_before_each_printed_result(tmp_path: Path) -> None:
    code, calls = traced(tmp_path, "full", 5)
    assert code == 0
    seen = steps(calls)
    assert seen.count("p") == 10
    for before in seen.split("p")[:-1]:
        # Whatever a result wrote was synced when it was printed, and something was.
        assert re.fullmatch(r"(w*s)*w+s", before), seen


def test_at_normal_durability_commits_do_not_wait_for_the_disk(tmp_path: Path) -> None:
    code, calls = traced(tmp_path, "normal", 5)
    assert code == 0
    assert re.search(r"(pw+){9}", steps(calls))


@pytest.mark.parametrize(
    ("call", "error"), [("fdatasync", "EIO"), ("pwrite64", "ENOSPC"), ("pwrite64", "EIO"), ("fsync", "EIO")]
)
@pytest.mark.parametrize("nth", [1, 3, 9])
async def test_a_failing_disk_raises_a_storage_error_and_leaves_the_file_whole(
    tmp_path: Path, call: str, error: str, nth: int
) -> None:
    path = tmp_path / "traced.db"
    async with await MemoryStore.init(SQLiteBackend(path)) as store:
        await store.propose("before", "s", 0.9)
    log = tmp_path / "calls"
    done = subprocess.run(  # noqa: ASYNC221  # nothing else runs on this loop
        [
            strace(), "-f", "-qq", "-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={nth}+",
            "-o", str(log), sys.executable, str(WRITER), f"sqlite:///{path}", "full", "6", "w",
        ],
        capture_output=True,
        timeout=60,
        check=False,
    )  # fmt: skip
    injected = "(INJECTED)" in log.read_text("utf-8", "replace")
    complaint = done.stderr.decode()
    assert not injected or done.returncode == 0 or "memsmith.errors." in complaint, complaint
    printed = [line.split()[0] for line in done.stdout.decode().splitlines()[1:]]
    await whole(path, printed)


async def whole(path: Path, printed: list[str]) -> None:
    async with await MemoryStore.init(SQLiteBackend(path)) as store:
        assert (await store.verify()).ok
        assert (await store.replay()).identical
        for memory_id in printed:
            assert await store.get(memory_id) is not None
        await store.propose("after", "s", 0.9)
