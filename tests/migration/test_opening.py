"""What is no database of ours is refused and left untouched; what is ours has the schema it should."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from memsmith import MemoryStatus, MemoryStore, SQLiteBackend
from memsmith.backends._sql import Migration, load_migrations
from memsmith.backends.sqlite.opening import APPLICATION_ID, MIGRATIONS, SCHEMA_VERSION, migrate
from memsmith.errors import (
    DamagedDatabaseError,
    LegacyDatabaseError,
    NotAMemsmithDatabaseError,
    SchemaTooNewError,
    StorageError,
)
from memsmith.types import Origin

PACKAGE = "memsmith.backends.sqlite"


async def make(path: Path) -> None:
    async with await MemoryStore.init(SQLiteBackend(path)) as store:
        for n in range(50):
            await store.propose({"n": n, "text": "x" * 500}, "s", 0.9)
    path.with_name(path.name + "-lock").unlink(missing_ok=True)


def snapshot(folder: Path) -> dict[str, tuple[bytes, int] | None]:
    return {
        str(entry.relative_to(folder)): (entry.read_bytes(), entry.stat().st_mtime_ns)
        if entry.is_file()
        else None
        for entry in folder.rglob("*")
    }


# -- refusing -------------------------------------------------------------------------------------


def a_text_file(path: Path) -> None:
    path.write_text("Buy milk.\n" * 100)


def a_short_text_file(path: Path) -> None:
    path.write_text("x")


def an_empty_folder(path: Path) -> None:
    path.mkdir()


def another_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE recipes (id INTEGER PRIMARY KEY)")


def another_database_in_wal_mode(path: Path) -> None:
    another_database(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")


def a_database_of_an_application_of_its_own(path: Path) -> None:
    another_database(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA application_id = 77")
        connection.execute("PRAGMA user_version = 5")


def _patch(path: Path, at: int, data: bytes) -> None:
    asyncio.run(make(path))
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def a_damaged_magic(path: Path) -> None:
    _patch(path, 0, b"SQLite format 9\x00")


def a_damaged_page_size(path: Path) -> None:
    _patch(path, 16, b"\x03\x07")


def a_half_header(path: Path) -> None:
    _patch(path, 0, b"")
    os.truncate(path, 60)


def a_newer_schema(path: Path) -> None:
    _patch(path, 60, (SCHEMA_VERSION + 1).to_bytes(4, "big"))


def a_truncated_stranger(path: Path) -> None:
    another_database(path)
    os.truncate(path, 3000)


REFUSED: list[tuple[Callable[[Path], None], type[StorageError]]] = [
    (a_text_file, NotAMemsmithDatabaseError),
    (a_short_text_file, NotAMemsmithDatabaseError),
    (an_empty_folder, NotAMemsmithDatabaseError),
    (another_database, NotAMemsmithDatabaseError),
    (another_database_in_wal_mode, NotAMemsmithDatabaseError),
    (a_database_of_an_application_of_its_own, NotAMemsmithDatabaseError),
    (a_damaged_magic, NotAMemsmithDatabaseError),
    (a_damaged_page_size, DamagedDatabaseError),
    (a_half_header, DamagedDatabaseError),
    (a_newer_schema, SchemaTooNewError),
    (a_truncated_stranger, DamagedDatabaseError),
]


@pytest.mark.parametrize(("what", "error"), REFUSED, ids=[what.__name__ for what, _ in REFUSED])
def test_what_is_no_database_of_ours_is_refused_and_untouched(
    tmp_path: Path, what: Callable[[Path], None], error: type[StorageError]
) -> None:
    path = tmp_path / "file.db"
    what(path)
    before = snapshot(tmp_path)
    for _ in range(2):
        with pytest.raises(error) as caught:
            asyncio.run(MemoryStore.init(SQLiteBackend(path)))
        assert type(caught.value) is error
        assert snapshot(tmp_path) == before


def test_a_truncated_database_is_refused_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "file.db"
    asyncio.run(make(path))
    whole = path.read_bytes()
    for size in (len(whole) // 2, 4096 * 3, 5000, 4096, 100):
        path.write_bytes(whole[:size])
        with pytest.raises(DamagedDatabaseError):
            asyncio.run(MemoryStore.init(SQLiteBackend(path)))
        assert path.read_bytes() == whole[:size]


async def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "file.db")
    with pytest.raises(NotAMemsmithDatabaseError, match="expected a database file"):
        await MemoryStore.init(SQLiteBackend(tmp_path / "file.db"))


async def test_a_missing_folder_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="expected an existing folder"):
        await MemoryStore.init(SQLiteBackend(tmp_path / "none" / "file.db"))
    assert snapshot(tmp_path) == {}


async def test_an_empty_file_becomes_a_database(tmp_path: Path) -> None:
    path = tmp_path / "file.db"
    path.touch()
    await make(path)
    header = path.read_bytes()[:100]
    assert int.from_bytes(header[68:72], "big") == APPLICATION_ID
    assert int.from_bytes(header[60:64], "big") == SCHEMA_VERSION


async def test_a_closed_file_of_0_1_0_gets_nothing_beside_it(
    written_by_0_1_0: Callable[..., Any],
) -> None:
    old = written_by_0_1_0()
    before = snapshot(old.path.parent)
    with pytest.raises(LegacyDatabaseError):
        await MemoryStore.init(SQLiteBackend(old.path))
    assert snapshot(old.path.parent) == before


UNPRIVILEGED = """
import asyncio, os, sys
from memsmith import MemoryStore, SQLiteBackend
from memsmith.errors import ReadOnlyDatabaseError

async def open_it():
    try:
        await MemoryStore.init(SQLiteBackend(sys.argv[1]))
    except ReadOnlyDatabaseError as error:
        return str(error)
    return "it was opened"

async def warm_up():
    # Imports all there is to be imported, while one may.
    await asyncio.to_thread(int)
    await (await MemoryStore.init(SQLiteBackend())).close()

asyncio.run(warm_up())
if os.getuid() == 0:
    nobody = 65534
    os.setresgid(nobody, nobody, nobody)
    os.setresuid(nobody, nobody, nobody)
sys.stdout.write(asyncio.run(open_it()))
"""


@pytest.fixture
def seen_by_all() -> Iterator[Path]:
    """Return a folder that any user may enter; those of pytest belong to one user alone."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


@pytest.mark.parametrize("what", ["file", "folder", "folder without the file", "file nobody may read"])
def test_a_read_only_file_or_folder_is_refused_and_untouched(seen_by_all: Path, what: str) -> None:
    path = seen_by_all / "file.db"
    if what != "folder without the file":
        asyncio.run(make(path))
        path.chmod({"file": 0o444, "file nobody may read": 0o000}.get(what, 0o666))
    # Whoever is not root is refused by these modes alone; root becomes nobody, and owns nothing here.
    seen_by_all.chmod(0o777 if what.startswith("file") else 0o555)
    before = snapshot(seen_by_all)
    ran = subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED, str(path)],
        capture_output=True, text=True, check=False, timeout=60, cwd=seen_by_all,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ("Permission denied" if what == "file nobody may read" else "read-only") in ran.stdout
    assert snapshot(seen_by_all) == before


# -- the schema -----------------------------------------------------------------------------------


def schema_of(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    rows = connection.execute(
        "SELECT type, name, sql FROM sqlite_master"
        " WHERE name NOT LIKE 'sqlite_%' AND name <> 'schema_migrations' ORDER BY type, name"
    ).fetchall()
    # A comment of a migration tells what was meant then.
    return [(kind, name, re.sub(r"--.*", "", sql)) for kind, name, sql in rows]


def migrated() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    return connection


def test_the_schema_file_is_the_sum_of_the_migrations() -> None:
    with closing(migrated()) as summed, closing(sqlite3.connect(":memory:")) as written:
        written.executescript(files(PACKAGE).joinpath("sql/schema.sql").read_text("utf-8"))
        assert schema_of(written) == schema_of(summed)
        tables = [name for kind, name, _ in schema_of(written) if kind == "table"]
        assert {"memories", "audit_log", "heads", "tombstones"} <= set(tables)
        for table in tables:
            columns = f"SELECT * FROM pragma_table_xinfo('{table}')"
            assert written.execute(columns).fetchall() == summed.execute(columns).fetchall()


def test_migrations_are_numbered_without_gaps_and_named_for_what_they_do() -> None:
    folder = files(PACKAGE).joinpath("sql/migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    assert all(re.fullmatch(r"\d{4}_[a-z0-9]+(_[a-z0-9]+)*\.sql", name) for name in names)
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    assert [step.name for step in MIGRATIONS] == [name.removesuffix(".sql") for name in names]
    assert names[-1].startswith(f"{SCHEMA_VERSION:04d}")


def test_migrating_twice_changes_nothing() -> None:
    with closing(migrated()) as connection:
        before = list(connection.iterdump())
        migrate(connection)
        assert list(connection.iterdump()) == before


async def test_a_migration_applied_in_another_wording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.db"
    await make(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE schema_migrations SET checksum = 'another'")
    with pytest.raises(StorageError, match="another wording"):
        await MemoryStore.init(SQLiteBackend(path))
    with closing(sqlite3.connect(path)) as connection:
        kept = connection.execute("SELECT checksum FROM schema_migrations").fetchall()
    assert kept == [("another",)] * SCHEMA_VERSION


async def test_a_newer_schema_that_still_lies_in_the_wal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.db"
    await make(path)
    with closing(sqlite3.connect(path)) as newer:
        newer.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1:d}")
        with pytest.raises(SchemaTooNewError) as caught:
            await MemoryStore.init(SQLiteBackend(path))
    assert (caught.value.found, caught.value.known) == (SCHEMA_VERSION + 1, SCHEMA_VERSION)


def test_a_migration_that_fails_leaves_the_schema_as_it_was() -> None:
    statements = "CREATE TABLE extra (id TEXT);\nCREATE TABLE memories (id TEXT);\n"
    broken = Migration(SCHEMA_VERSION + 1, "0003_broken", statements)
    with closing(migrated()) as connection:
        before = schema_of(connection)
        with pytest.raises(sqlite3.OperationalError, match="already exists"):
            migrate(connection, [*load_migrations(PACKAGE), broken])
        assert schema_of(connection) == before
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)


def values_checked(column: str) -> set[str]:
    with closing(migrated()) as connection:
        (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'memories'").fetchone()
    # Lists of words live in two places, the enum and the CHECK: change both, by a migration.
    (words,) = re.findall(rf"CHECK \(\s*{column} IN \(([^)]*)\)", sql)
    return set(re.findall(r"'(\w+)'", words))


def test_the_database_knows_every_status_but_the_one_nothing_rests_in() -> None:
    assert values_checked("status") == {status.value for status in MemoryStatus} - {"proposed"}


def test_the_database_knows_every_origin() -> None:
    assert values_checked("origin") == {origin.value for origin in Origin}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_log SET actor = 'somebody else' WHERE seq = 1",
        "UPDATE audit_log SET payload = NULL, salt = NULL",
        "UPDATE OR IGNORE audit_log SET seq = seq + 1000",
        "DELETE FROM audit_log WHERE seq = 50",
        "DELETE FROM audit_log",
    ],
)
async def test_the_ledger_refuses_update_and_delete_from_raw_sql(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "file.db"
    await make(path)
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT * FROM audit_log").fetchall()
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
        connection.rollback()
        assert connection.execute("SELECT * FROM audit_log").fetchall() == rows
    async with await MemoryStore.init(SQLiteBackend(path)) as store:
        assert (await store.verify()).ok
