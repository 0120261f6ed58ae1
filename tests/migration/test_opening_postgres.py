"""A PostgreSQL database is opened, migrated, or refused with a reason and left as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from postgres import databases

from memsmith import MemoryStore, PostgresBackend
from memsmith.backends._sql import Migration, load_queries
from memsmith.backends.postgres.opening import MIGRATIONS, open_schema
from memsmith.errors import NotAMemsmithDatabaseError, ReadOnlyDatabaseError, SchemaTooNewError, StorageError

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


ROLE = """
DO $$ BEGIN
    CREATE ROLE memsmith_test_app LOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END $$;
GRANT USAGE ON SCHEMA memsmith TO memsmith_test_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA memsmith TO memsmith_test_app;
REVOKE INSERT, UPDATE, DELETE ON memsmith.schema_migrations FROM memsmith_test_app;"""


async def test_who_owns_nothing_can_write_and_not_take_the_guards_away(tmp_path: Path) -> None:
    dsn = databases.at(tmp_path)
    async with await MemoryStore.init(PostgresBackend(dsn)):
        pass
    databases.execute(tmp_path, ROLE)
    app = urlsplit(dsn)
    app_dsn = urlunsplit(app._replace(netloc=f"memsmith_test_app@{app.netloc.rpartition('@')[2]}"))
    async with await MemoryStore.init(PostgresBackend(app_dsn)) as store:
        first = await store.propose("Rome", "s", 0.9, key="city")
        await store.propose("Oslo", "s", 0.9, key="city")
        await store.reject(first.memory_id)
        assert (await store.verify()).ok
        assert (await store.replay()).identical
    connection = await asyncpg.connect(app_dsn)
    try:
        for statement in (
            "ALTER TABLE memsmith.audit_log DISABLE TRIGGER ALL",
            "DROP TRIGGER audit_log_is_append_only ON memsmith.audit_log",
            "SET session_replication_role = replica",
            "TRUNCATE memsmith.audit_log",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
    finally:
        await connection.close()


async def test_who_may_not_make_a_schema_is_told_so(tmp_path: Path) -> None:
    dsn = databases.at(tmp_path)
    async with await MemoryStore.init(PostgresBackend(dsn)):
        pass
    databases.execute(tmp_path, ROLE)
    databases.execute(tmp_path, "DROP SCHEMA memsmith CASCADE")
    app = urlsplit(dsn)
    app_dsn = urlunsplit(app._replace(netloc=f"memsmith_test_app@{app.netloc.rpartition('@')[2]}"))
    with pytest.raises(ReadOnlyDatabaseError, match="permission denied"):
        await PostgresBackend(app_dsn).initialize()


async def test_sessions_may_be_shared_between_transactions(tmp_path: Path) -> None:
    backend = PostgresBackend(databases.at(tmp_path), statement_cache_size=0)
    async with await MemoryStore.init(backend) as store:
        async with store.transaction():
            await store.propose("Rome", "s", 0.9, key="city")
        await store.propose("Oslo", "s", 0.9, key="city")
        assert backend._pool is not None
        async with backend._pool.acquire() as connection:
            held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
            assert await connection.fetchval(held) == 0
            assert (
                await connection.fetchval("SELECT count(*) FROM pg_prepared_statements WHERE NOT from_sql")
                <= 1
            )
            assert await connection.fetchval("SHOW synchronous_commit") == "on"
            assert await connection.fetchval("SHOW lock_timeout") == "0"
