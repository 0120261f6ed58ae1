"""What the driver raises becomes one of our errors, with the driver's as its cause."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memsmith import MemoryStore, SQLiteBackend
from memsmith.backends.sqlite.opening import is_busy, translated
from memsmith.errors import (
    ArgumentError,
    DamagedDatabaseError,
    ReadOnlyDatabaseError,
    StorageError,
    StoreBusyError,
)


def driver_error(code: int | None) -> sqlite3.Error:
    error = sqlite3.OperationalError("as the driver says")
    if code is not None:
        error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (sqlite3.SQLITE_BUSY, StoreBusyError),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreBusyError),
        (sqlite3.SQLITE_BUSY_RECOVERY, StoreBusyError),
        (sqlite3.SQLITE_LOCKED, StoreBusyError),
        (sqlite3.SQLITE_CORRUPT, DamagedDatabaseError),
        (sqlite3.SQLITE_NOTADB, DamagedDatabaseError),
        (sqlite3.SQLITE_READONLY, ReadOnlyDatabaseError),
        (sqlite3.SQLITE_READONLY_DBMOVED, ReadOnlyDatabaseError),
        (sqlite3.SQLITE_CANTOPEN, ReadOnlyDatabaseError),
        (sqlite3.SQLITE_PERM, ReadOnlyDatabaseError),
        (sqlite3.SQLITE_FULL, StorageError),
        (sqlite3.SQLITE_IOERR_FSYNC, StorageError),
        (None, StorageError),
    ],
)
def test_each_driver_error_has_its_own_kind_and_names_the_file(
    code: int | None, expected: type[StorageError]
) -> None:
    error = translated(driver_error(code), "/srv/m.db")
    assert type(error) is expected
    assert "/srv/m.db" in str(error)


def test_a_complaint_that_quotes_the_bytes_of_a_damaged_file_is_one_about_damage() -> None:
    with pytest.raises(UnicodeDecodeError) as caught:
        b"\x84".decode()
    error = translated(caught.value, "/srv/m.db")
    assert type(error) is DamagedDatabaseError
    assert "/srv/m.db" in str(error)


@pytest.mark.parametrize("path", [None, 5, "a\x00b"])
def test_a_path_that_is_none_is_refused(path: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^path: "):
        SQLiteBackend(path)


@pytest.mark.parametrize(
    "url",
    [
        5, None, "", "store.db", "mysql://x", "sqlite:store.db", "sqlite:/store.db", "sqlite://host/store.db",
        "sqlite:///", "sqlite:///?durability=full", "sqlite:///a#b.db", "memory://a", "memory:///a", "memory://#a",
        "sqlite:///a.db?durability=full&durability=normal", "sqlite:///a.db?mode=ro", "memory://?durability=full",
    ],
)  # fmt: skip
async def test_a_url_that_would_be_misread_is_refused(url: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^url: "):
        await MemoryStore.open(url)


@pytest.mark.parametrize("code", [sqlite3.SQLITE_BUSY, sqlite3.SQLITE_BUSY_SNAPSHOT, sqlite3.SQLITE_LOCKED])
def test_being_in_each_others_way_is_worth_another_try(code: int) -> None:
    assert is_busy(driver_error(code))


@pytest.mark.parametrize("error", [driver_error(sqlite3.SQLITE_FULL), driver_error(None), ValueError("no")])
def test_nothing_else_is_worth_another_try(error: Exception) -> None:
    assert not is_busy(error)


async def test_a_page_damaged_while_the_store_is_open_raises_with_the_driver_error_as_cause(
    tmp_path: Path,
) -> None:
    path = tmp_path / "m.db"
    async with await MemoryStore.init(SQLiteBackend(path)) as store:
        for n in range(40):
            await store.propose({"n": n, "text": "x" * 400}, "s", 0.9)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    with pytest.raises(DamagedDatabaseError) as caught:
        async with await MemoryStore.init(SQLiteBackend(path)) as store:
            await store.list()
    assert isinstance(caught.value.__cause__, sqlite3.DatabaseError)


async def test_a_failed_write_raises_with_the_driver_error_as_cause_and_writes_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "m.db"
    async with await MemoryStore.init(SQLiteBackend(path)) as store:
        await store.propose("first", "s", 0.9)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(
                "CREATE TRIGGER no_more BEFORE INSERT ON audit_log BEGIN SELECT RAISE(ABORT, 'no more'); END"
            )
        with pytest.raises(StorageError, match="no more") as caught:
            await store.propose("second", "s", 0.9)
        assert isinstance(caught.value.__cause__, sqlite3.IntegrityError)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("DROP TRIGGER no_more")
        assert [memory.content for memory in await store.list()] == ["first"]
        assert (await store.propose("second", "s", 0.9)).memory.seq == 2


async def test_a_file_whose_first_transaction_still_lies_in_the_wal_is_ours(tmp_path: Path) -> None:
    path, copy = tmp_path / "m.db", tmp_path / "copy.db"
    async with await MemoryStore.init(SQLiteBackend(path)) as store:
        await store.propose("x", "s", 0.9)
        # As a kill leaves it: nothing was checkpointed, the main file has an empty header.
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
    assert int.from_bytes(copy.read_bytes()[68:72], "big") == 0
    async with await MemoryStore.init(SQLiteBackend(copy)) as store:
        assert [memory.content for memory in await store.list()] == ["x"]
        assert (await store.verify()).ok
