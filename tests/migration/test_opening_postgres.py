"""A PostgreSQL database is opened, migrated, or refused with a reason and left as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import asyncpg
import pytest
from postgres import databases

from memsmith import MemoryStore, PostgresBackend
from memsmith.backends._sql import Migration, load_queries
from memsmith.backends.postgres.opening import MIGRATIONS, open_schema
from memsmith.errors import NotAMemsmithDatabaseError, SchemaTooNewError, StorageError

SQL_FOLDER = Path(__file__).resolve().parents[2] / "memsmith" / "backends" / "postgres" / "sql"

SHAPE = """
SELECT 'column' AS what, table_name || '.' || column_name AS name,
    concat_ws(' ', data_type, collation_name, is_nullable, column_default, generation_expression) AS text
FROM information_schema.columns WHERE table_schema = 'memsmith' AND table_name <> 'schema_migrations'
UNION ALL
SELECT 'index', indexname, indexdef FROM pg_indexes
WHERE schemaname = 'memsmith' AND tablename <> 'schema_migrations'
UNION ALL
SELECT 'constraint', conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'memsmith'::regnamespace
    AND conrelid IS DISTINCT FROM to_regclass('memsmith.schema_migrations')
UNION ALL
SELECT 'trigger', tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
UNION ALL
SELECT 'function', proname, pg_get_functiondef(p.oid) FROM pg_proc AS p
JOIN pg_language AS l ON l.oid = p.prolang
WHERE pronamespace = 'memsmith'::regnamespace AND l.lanname <> 'c'
ORDER BY 1, 2, 3"""


async def shape_of(dsn: str) -> list[Any]:
    connection = await asyncpg.connect(dsn)
    try:
        return [tuple(row) for row in await connection.fetch(SHAPE)]
    finally:
        await connection.close()


async def test_the_schema_is_the_sum_of_the_migrations(tmp_path: Path) -> None:
    migrated, made = databases.at(tmp_path / "migrated"), databases.at(tmp_path / "made")
    async with await MemoryStore.init(PostgresBackend(migrated)):
        pass
    databases.execute(tmp_path / "made", "DROP SCHEMA IF EXISTS memsmith CASCADE")
    databases.execute(tmp_path / "made", (SQL_FOLDER / "schema.sql").read_text("utf-8"))
    found = await shape_of(made)
    databases.execute(tmp_path / "made", "DROP SCHEMA memsmith CASCADE")
    assert await shape_of(migrated) == found
    assert len(found) > 100


def test_both_dialects_have_statements_of_the_same_names() -> None:
    ours, theirs = load_queries("memsmith.backends.postgres"), load_queries("memsmith.backends.sqlite")
    assert set(ours) == set(theirs)


async def test_opening_what_is_up_to_date_again_changes_nothing(tmp_path: Path) -> None:
    dsn = databases.at(tmp_path)
    for _ in range(2):
        async with await MemoryStore.init(PostgresBackend(dsn)) as store:
            await store.propose("Rome", "s", 0.9)
    async with await MemoryStore.init(PostgresBackend(dsn)) as store:
        assert len(await store.list()) == 1


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        (
            "INSERT INTO memsmith.schema_migrations VALUES (9999, 'later', 'x')",
            SchemaTooNewError,
        ),
        ("UPDATE memsmith.schema_migrations SET checksum = 'x'", StorageError),
        ("DROP TABLE memsmith.schema_migrations", NotAMemsmithDatabaseError),
        ("ALTER TABLE memsmith.schema_migrations ADD COLUMN more text", NotAMemsmithDatabaseError),
    ],
)
async def test_what_is_newer_altered_or_not_ours_is_refused(
    tmp_path: Path, statement: str, error: type[StorageError]
) -> None:
    dsn = databases.at(tmp_path)
    async with await MemoryStore.init(PostgresBackend(dsn)):
        pass
    databases.execute(tmp_path, statement)
    before = await shape_of(dsn)
    try:
        with pytest.raises(error):
            await PostgresBackend(dsn).initialize()
        assert await shape_of(dsn) == before
    finally:
        databases.execute(tmp_path, "DROP SCHEMA memsmith CASCADE")


async def test_a_step_that_fails_leaves_the_schema_as_it_was(tmp_path: Path) -> None:
    dsn = databases.at(tmp_path)
    async with await MemoryStore.init(PostgresBackend(dsn)):
        pass
    before = await shape_of(dsn)
    connection = await asyncpg.connect(dsn)
    try:
        bad = Migration(99, "0099_bad", "CREATE TABLE memsmith.more (id int); SELECT nothing")
        with pytest.raises(asyncpg.PostgresError):
            await open_schema(connection, [*MIGRATIONS, bad])
    finally:
        await connection.close()
    assert await shape_of(dsn) == before


async def test_a_server_that_is_not_there_is_an_error_that_names_it() -> None:
    with pytest.raises(StorageError, match=r"127\.0\.0\.1/nothing"):
        await PostgresBackend("postgresql://nobody@127.0.0.1:1/nothing").initialize()
