"""The advisory lock beside a database whose SQLite has the WAL-reset bug."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from memsmith import Accepted, MemoryStore, SQLiteBackend
from memsmith.backends.sqlite import backend as backend_module
from memsmith.backends.sqlite.filelock import FileLock, has_wal_reset_bug
from memsmith.errors import StorageError, StoreBusyError


@pytest.mark.parametrize(
    ("version", "affected"),
    [
        ((3, 6, 23), False),
        ((3, 7, 0), True),
        ((3, 40, 1), True),
        ((3, 43, 9), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 0), True),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 52, 0), False),
        ((4, 0, 0), False),
    ],
)
def test_which_sqlite_versions_have_the_bug(version: tuple[int, int, int], affected: bool) -> None:
    assert has_wal_reset_bug(version) is affected


def test_a_lock_is_taken_once_and_free_again_after_release(tmp_path: Path) -> None:
    one, two = FileLock(str(tmp_path / "m.db")), FileLock(str(tmp_path / "m.db"))
    one.acquire(1)
    with pytest.raises(StoreBusyError, match=r"0\.02 s") as caught:
        two.acquire(0.02)
    assert caught.value.retryable
    one.release()
    two.acquire(1)
    two.close()
    one.acquire(1)
    one.close()


def test_a_link_to_a_database_leads_to_its_lock(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "m.db")
    one, two = FileLock(str(tmp_path / "m.db")), FileLock(str(tmp_path / "link.db"))
    one.acquire(1)
    with pytest.raises(StoreBusyError):
        two.acquire(0.02)
    one.close()
    two.close()


async def test_what_stands_in_the_place_of_the_lock_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.db-lock").mkdir()
    with pytest.raises(StorageError, match=r"m\.db-lock: "):
        await SQLiteBackend(tmp_path / "m.db").initialize()


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    database = str(tmp_path / "m.db")
    code = (
        "import sys; from memsmith.backends.sqlite.filelock import FileLock\n"
        "lock = FileLock(sys.argv[1]); lock.acquire(1); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, database], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        lock = FileLock(database)
        with pytest.raises(StoreBusyError):
            lock.acquire(0.02)
        holder.kill()
        holder.wait()
        lock.acquire(5)
        lock.close()


@contextmanager
def held(path: Path) -> Generator[None]:
    """Hold the lock file as another process would."""
    lock = FileLock(str(path))
    lock.acquire(5)
    try:
        yield
    finally:
        lock.close()


@contextmanager
def writing(path: Path) -> Generator[None]:
    """Hold SQLite's own write lock as another process would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def bug(monkeypatch: pytest.MonkeyPatch, present: bool) -> None:
    def answer(version: tuple[int, int, int]) -> bool:
        return present

    monkeypatch.setattr(backend_module, "has_wal_reset_bug", answer)


@pytest.mark.parametrize("present", [True, False])
async def test_the_log_says_so_once_where_the_bug_is_there_and_nothing_where_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, present: bool
) -> None:
    bug(monkeypatch, present)
    with caplog.at_level(logging.INFO, logger="memsmith"):
        async with await MemoryStore.init(SQLiteBackend(tmp_path / "m.db")) as store:
            await store.propose("x", "s", 0.9)
    said = [record.getMessage() for record in caplog.records if "WAL-reset" in record.getMessage()]
    assert len(said) == present
    assert (tmp_path / "m.db-lock").exists() is present
    assert all(sqlite3.sqlite_version in line and "m.db-lock" in line for line in said)


@pytest.mark.parametrize("present", [True, False])
async def test_a_write_kept_out_too_long_raises_a_retryable_error_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, present: bool
) -> None:
    bug(monkeypatch, present)
    path = tmp_path / "m.db"
    async with await MemoryStore.init(SQLiteBackend(path, busy_seconds=0.2)) as store:
        await store.propose("before", "s", 0.9)
        with held(path) if present else writing(path):
            with pytest.raises(StoreBusyError) as caught:
                await store.propose("during", "s", 0.9, idempotency_key="k")
            with pytest.raises(StoreBusyError):
                async with store.transaction():
                    raise AssertionError("nobody gets in")
            # Readers never wait for a writer.
            assert [m.content for m in await asyncio.wait_for(store.list(), 2)] == ["before"]
        assert caught.value.retryable
        assert isinstance(caught.value, StorageError)
        assert await store.outcome("k") is None
        assert isinstance(await store.propose("during", "s", 0.9, idempotency_key="k"), Accepted)
        assert (await store.verify()).rows == 2


@pytest.mark.parametrize("present", [True, False])
async def test_two_stores_on_one_file_take_turns_and_read_while_the_other_holds_a_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, present: bool
) -> None:
    bug(monkeypatch, present)
    path = tmp_path / "m.db"
    async with (
        await MemoryStore.init(SQLiteBackend(path)) as one,
        await MemoryStore.init(SQLiteBackend(path)) as two,
    ):
        await asyncio.gather(*(store.propose({"n": n}, "s", 0.9) for n, store in enumerate([one, two] * 20)))
        async with one.transaction():
            await one.propose("inside", "s", 0.9)
            seen = await asyncio.wait_for(two.list(limit=100), 2)
            assert len(seen) == 40
            waiting = asyncio.create_task(two.propose("inside", "s", 0.9))
            await asyncio.wait([waiting], timeout=0.05)
            assert not waiting.done()
        assert (await waiting).memory_id == (await two.list(descending=True, limit=1))[0].id
        assert len(await two.list(limit=100)) == 41
        assert (await one.verify()) == (await two.verify())
        assert (await two.verify()).ok


async def test_a_store_closes_although_another_process_keeps_the_lock_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch, True)
    path = tmp_path / "m.db"
    store = await MemoryStore.init(SQLiteBackend(path, busy_seconds=0.1))
    await store.propose("x", "s", 0.9)
    with held(path):
        await store.close()
    open_files = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    assert not any("m.db" in name for name in open_files)
    async with await MemoryStore.init(SQLiteBackend(path)) as again:
        assert (await again.verify()).rows == 1
