"""Opening a database file: looked at before it is touched, migrated, or refused with a reason."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from memsmith.backends._sql import Migration, load_migrations
from memsmith.backends.sqlite.rebuilding import rebuild
from memsmith.errors import (
    DamagedDatabaseError,
    LegacyDatabaseError,
    NotAMemsmithDatabaseError,
    ReadOnlyDatabaseError,
    SchemaTooNewError,
    StorageError,
    StoreBusyError,
)

APPLICATION_ID: Final = 0x4D534D54
"""``MSMT`` in the file header: this is a memsmith database."""

MIGRATIONS: Final = load_migrations("memsmith.backends.sqlite")
SCHEMA_VERSION: Final = MIGRATIONS[-1].version
REBUILDING: Final = frozenset({2})
"""After which steps what lies beside ledger and memories is made anew from the ledger."""
_MAGIC: Final = b"SQLite format 3\x00"
_HEADER_BYTES: Final = 100

_CREATE_LOG: Final = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL
)"""


def inspect_file(path: Path) -> None:
    """Raise unless the path is a memsmith database, an empty file, or nothing yet. Writes nothing."""
    if not path.parent.is_dir():
        raise StorageError(f"{path}: expected an existing folder, found none at {path.parent}")
    if path.is_dir():
        raise NotAMemsmithDatabaseError(f"{path}: expected a database file, found a folder")
    try:
        _inspect(path)
    except OSError as error:
        raise unusable(path, error) from error


def unusable(path: Path | str, error: OSError) -> StorageError:
    """Return the memsmith error for a file that the system won't let us use."""
    kind = ReadOnlyDatabaseError if isinstance(error, PermissionError) else StorageError
    return kind(f"{path}: {error.strerror or error}")


def _inspect(path: Path) -> None:
    if not path.exists():
        if not os.access(path.parent, os.W_OK):
            raise ReadOnlyDatabaseError(f"{path}: can't be created, its folder is read-only")
        return
    if not path.is_file():
        raise NotAMemsmithDatabaseError(f"{path}: expected a database file, found something else")
    _inspect_header(path)
    if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        raise ReadOnlyDatabaseError(f"{path}: the file or its folder is read-only")


def _inspect_header(path: Path) -> None:
    size = path.stat().st_size
    if size == 0:
        return
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if not header.startswith(_MAGIC):
        raise NotAMemsmithDatabaseError(f"{path}: expected an SQLite database, found another kind of file")
    page_size = int.from_bytes(header[16:18], "big")
    if len(header) < _HEADER_BYTES or page_size & (page_size - 1) or (page_size < 512 and page_size != 1):
        raise DamagedDatabaseError(f"{path}: the header of the database is damaged")
    version = int.from_bytes(header[60:64], "big")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        _inspect_stranger(path)
    elif version > SCHEMA_VERSION:
        raise SchemaTooNewError(version, SCHEMA_VERSION)


def _inspect_stranger(path: Path) -> None:
    """Tell a 0.1.0 database, a half-made one of ours and somebody else's apart."""
    try:
        with closing(open_to_read(path)) as connection:
            # After a crash all of our first transaction may still be in the WAL, the header's marks too.
            if connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID:
                return
            tables = {
                name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            }
    except sqlite3.DatabaseError as error:
        raise DamagedDatabaseError(f"{path}: {error}") from error
    if {"memories", "audit_log", "_migrations"} <= tables:
        raise LegacyDatabaseError(f"{path} was written by memsmith 0.1.0: run `memsmith upgrade {path}`")
    if tables:
        raise NotAMemsmithDatabaseError(f"{path}: an SQLite database, but not one of memsmith's")


def open_to_read(path: Path, timeout: float = 5.0) -> sqlite3.Connection:
    """Connect to a file that is only to be looked at, without leaving anything beside it."""
    with path.open("rb") as file:
        in_wal_mode = file.read(_HEADER_BYTES)[18:20] == b"\x02\x02"
    # To look at a database in WAL mode makes the two files of that mode, and a reader can't remove
    # them. Where there is no WAL nobody has it open, and the file alone is all there is.
    alone = in_wal_mode and not path.with_name(path.name + "-wal").exists()
    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if alone else ''}"
    return sqlite3.connect(uri, uri=True, timeout=timeout)


def is_current(connection: sqlite3.Connection) -> bool:
    """Tell, by reading alone, whether the database is in WAL mode and has every migration as we know it."""
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        return False
    if connection.execute("PRAGMA user_version").fetchone()[0] != SCHEMA_VERSION:
        return False
    applied = dict(connection.execute("SELECT version, checksum FROM schema_migrations"))
    return applied == {step.version: step.checksum for step in MIGRATIONS}


def migrate(connection: sqlite3.Connection, migrations: list[Migration] | None = None) -> None:
    """Bring the schema up to date in one transaction, or find it newer or altered and raise."""
    steps = MIGRATIONS if migrations is None else migrations
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found > steps[-1].version:
            raise SchemaTooNewError(found, steps[-1].version)
        connection.execute(_CREATE_LOG)
        applied = dict(connection.execute("SELECT version, checksum FROM schema_migrations"))
        for step in steps:
            if step.version not in applied:
                _apply(connection, step)
                if step.version in REBUILDING:
                    rebuild(connection)
            elif applied[step.version] != step.checksum:
                raise StorageError(
                    f"Migration {step.name} was applied in another wording: the schema is not ours"
                )
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _apply(connection: sqlite3.Connection, step: Migration) -> None:
    for statement in _statements(step.sql):
        connection.execute(statement)
    connection.execute(
        "INSERT INTO schema_migrations (version, name, checksum) VALUES (?, ?, ?)",
        (step.version, step.name, step.checksum),
    )
    # Pragmas take no bound values; both numbers are integers of our own.
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
    connection.execute(f"PRAGMA user_version = {step.version:d}")


def _statements(script: str) -> list[str]:
    """Split a script; `executescript` would commit the transaction it runs in."""
    statements: list[str] = []
    current = ""
    for line in script.splitlines():
        current += line + "\n"
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return statements


DRIVER_ERRORS: Final = (sqlite3.Error, UnicodeDecodeError)
"""What the driver raises; the latter where SQLite's complaint quotes bytes of a damaged file."""


def translated(error: sqlite3.Error | UnicodeDecodeError, path: str) -> Exception:
    """Return the memsmith error for a driver's error; the driver's is to be its cause."""
    if isinstance(error, UnicodeDecodeError):
        return DamagedDatabaseError(f"{path}: {error}")
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if primary in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return StoreBusyError(f"{path}: another process held the database for too long; try again")
    if primary in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return DamagedDatabaseError(f"{path}: {error}")
    if primary in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}:
        return ReadOnlyDatabaseError(f"{path}: {error}")
    return StorageError(f"{path}: {error}")


def is_busy(error: BaseException) -> bool:
    """Tell whether another connection was in the way, so that trying again helps."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
