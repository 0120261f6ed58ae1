"""Opening a database: looked at before it is touched, migrated, or refused with a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memsmith.backends._sql import Migration, load_migrations
from memsmith.errors import NotAMemsmithDatabaseError, SchemaTooNewError, StorageError

if TYPE_CHECKING:
    from memsmith.backends.postgres.statements import Connection

MIGRATIONS: Final = load_migrations("memsmith.backends.postgres")

_LOCK: Final = 0x4D534D54
"""``MSMT``: held by whoever migrates, until the end of the transaction."""

_TABLES: Final = "SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('memsmith')"
_LOG_COLUMNS: Final = """
SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute
WHERE attrelid = to_regclass('memsmith.schema_migrations') AND attnum > 0"""
_CREATE_LOG: Final = """
CREATE SCHEMA IF NOT EXISTS memsmith;
CREATE TABLE memsmith.schema_migrations (
    version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL
)"""


async def open_schema(connection: Connection, migrations: list[Migration] | None = None) -> None:
    """Bring the schema up to date in one transaction, or find it newer, altered or not ours and raise.

    One that is up to date is only read, so that opening waits for nobody.
    """
    steps = MIGRATIONS if migrations is None else migrations
    applied = await _applied(connection)
    if applied is not None and not _missing(applied, steps):
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        applied = await _applied(connection)
        if applied is None:
            await connection.execute(_CREATE_LOG)
        for step in _missing(applied or {}, steps):
            await connection.execute(step.sql)
            await connection.execute(
                "INSERT INTO memsmith.schema_migrations (version, name, checksum) VALUES ($1, $2, $3)",
                step.version, step.name, step.checksum,
            )  # fmt: skip


async def _applied(connection: Connection) -> dict[int, str] | None:
    """Return the checksum of every step that was applied; None where there is nothing of ours yet."""
    columns = await connection.fetchval(_LOG_COLUMNS)
    if columns is None:
        if await connection.fetchval(_TABLES):
            raise NotAMemsmithDatabaseError("The schema memsmith of this database holds other tables")
        return None
    if columns != "version name checksum":
        raise NotAMemsmithDatabaseError("The table memsmith.schema_migrations is not ours")
    rows = await connection.fetch("SELECT version, checksum FROM memsmith.schema_migrations")
    return {row[0]: row[1] for row in rows}


def _missing(applied: dict[int, str], steps: list[Migration]) -> list[Migration]:
    if applied and max(applied) > steps[-1].version:
        raise SchemaTooNewError(max(applied), steps[-1].version)
    for step in steps:
        if applied.get(step.version, step.checksum) != step.checksum:
            raise StorageError(
                f"Migration {step.name} was applied in another wording: the schema is not ours"
            )
    return [step for step in steps if step.version not in applied]
