"""A store in the hands of somebody who owns its database: raw SQL, in one form for every database.

Statements take `?` for values and name tables without a schema; times are texts in stored form.
"""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import asyncpg
from postgres import on_own_loop

from memsmith.backends.postgres.connecting import stored_form

REFUSALS: Final = (sqlite3.IntegrityError, asyncpg.DataError, asyncpg.IntegrityConstraintViolationError)
"""What a database raises for what it does not hold with."""

Row = Sequence[Any]


class Answer(Protocol):
    """What there is of a cursor."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Raw(Protocol):
    """What there is of a connection."""

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> Answer: ...


class _Answer:
    def __init__(self, rows: list[Row], status: str) -> None:
        self._rows = rows
        self.rowcount = int(status.split()[-1]) if status[-1:].isdigit() else -1

    def fetchone(self) -> Any:
        return self._rows[0] if self._rows else None

    def fetchall(self) -> list[Any]:
        return self._rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)


class _Postgres:
    def __init__(self, connection: asyncpg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> _Answer:
        pieces = sql.split("?")
        numbered = "".join(f"{piece}${n}" for n, piece in enumerate(pieces[:-1], 1)) + pieces[-1]
        return on_own_loop(self._asked(numbered, values))

    async def _asked(self, sql: str, values: Sequence[Any]) -> _Answer:
        statement = await self._connection.prepare(sql)
        rows = [tuple(row) for row in await statement.fetch(*values)]
        return _Answer(rows, statement.get_statusmsg())


@contextmanager
def raw_sqlite(path: Path) -> Generator[Raw]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


@contextmanager
def raw_postgres(dsn: str) -> Generator[Raw]:
    connection = on_own_loop(_connected(dsn))
    try:
        yield _Postgres(connection)
    finally:
        on_own_loop(connection.close())


async def _connected(dsn: str) -> asyncpg.Connection[Any]:
    connection = await asyncpg.connect(
        dsn, server_settings={"search_path": "memsmith", "timezone": "UTC", "datestyle": "ISO"}
    )
    await connection.set_type_codec(
        "timestamptz", schema="pg_catalog", encoder=str, decoder=stored_form, format="text"
    )
    return connection


# -- all of a database, to be put into others ------------------------------------------------------

_COLUMNS: Final = """
SELECT table_name, array_agg(column_name::text) FROM information_schema.columns
WHERE table_schema = 'memsmith' AND is_generated = 'NEVER' AND table_name <> 'schema_migrations'
GROUP BY table_name"""

Dump = dict[str, tuple[list[str], bytes]]


async def dumped(dsn: str) -> Dump:
    """Return the rows of every table of ours."""
    connection = await asyncpg.connect(dsn)
    try:
        found: Dump = {}
        for table, columns in await connection.fetch(_COLUMNS):
            rows = io.BytesIO()
            await connection.copy_from_table(
                table, schema_name="memsmith", columns=columns, output=rows, format="binary"
            )
            found[table] = (columns, rows.getvalue())
        return found
    finally:
        await connection.close()


async def filled(dsn: str, dump: Dump) -> None:
    """Put rows into the empty tables of a database."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("SET session_replication_role = replica")
        for table, (columns, rows) in dump.items():
            await connection.copy_to_table(
                table, schema_name="memsmith", columns=columns, source=io.BytesIO(rows), format="binary"
            )
    finally:
        await connection.close()
