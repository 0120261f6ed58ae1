"""The rows on PostgreSQL, each beside its floor: the same rows by bare asyncpg in as many transactions.

A server of the benchmarks' own is started with its settings as they come, fsync included; or
`MEMSMITH_TEST_DSN` names one. Of a batch the floor is COPY.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import asyncpg

from benchmarks.report import Row
from benchmarks.write import ours
from benchmarks.write.cases import WARM, WriteCase
from benchmarks.write.content import contents
from memsmith import MemoryStore, PostgresBackend
from memsmith.backends.postgres.statements import SQL
from memsmith.types import DEFAULT_TENANT

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
import postgres as servers  # how the tests find or start a server

CASES: Final = (
    WriteCase(name="PostgreSQL: serial", count=400),
    WriteCase(name="PostgreSQL: 16 concurrent", count=1600, clients=16),
    WriteCase(name="PostgreSQL: 64 concurrent", count=3200, clients=64),
    WriteCase(name="PostgreSQL: batch of 10,000", count=10_000, batch=True, floor_target=0.4),
)
GETS: Final = 2000
GET: Final = "PostgreSQL: point get"
NAMES: Final = (*(case.name for case in CASES), GET)

Records = dict[str, list[tuple[Any, ...]]]
TABLES: Final = ("memories", "audit_log")
_COLUMNS: Final = """
SELECT column_name::text FROM information_schema.columns
WHERE table_schema = 'memsmith' AND table_name = $1 AND is_generated = 'NEVER' ORDER BY ordinal_position"""


@contextmanager
def served() -> Iterator[servers.Databases]:
    """Start a server that waits for the disk, as servers do."""
    servers.begin_run()
    given = os.environ.get("MEMSMITH_TEST_DSN")
    try:
        if given is None:
            cluster = servers.Cluster(Path(os.environ[servers.FOLDER], "bench", "cluster"), {"fsync": "on"})
            cluster.create()
            os.environ["MEMSMITH_TEST_DSN"] = cluster.start()
        yield servers.Databases(*servers.ANY)
    finally:
        if given is None:
            os.environ.pop("MEMSMITH_TEST_DSN", None)
        servers.end_run()


async def measure(
    databases: servers.Databases,
    folder: Path,
    only: str,
    rounds: int,
    divisor: int,
    tell: Callable[[str], None],
) -> list[Row]:
    """Return every row whose name holds `only`."""
    rows: list[Row] = []
    for case in CASES:
        if only in case.name:
            tell(case.name)
            count = case.count if case.batch else case.count // divisor
            row = Row(case.name, count, case.floor_target)
            for number in range(rounds):
                mine = await _at(databases, folder / f"{case.name} {number}")
                floor = await _at(databases, folder / f"{case.name} {number}, floor")
                made = contents(count + WARM, number)
                row.ours.append(await _ours(case, mine, made))
                row.floor.append(await _floor(case, mine, floor))
            rows.append(row)
    if only in GET:
        tell(GET)
        rows.append(await _gets(await _at(databases, folder / "gets"), rounds))
    return rows


async def _at(databases: servers.Databases, place: Path) -> str:
    return await asyncio.to_thread(databases.at, place)


async def _ours(case: WriteCase, dsn: str, made: Sequence[Any]) -> float:
    async with await MemoryStore.init(PostgresBackend(dsn)) as store:
        await ours.fill(store, made[:WARM])
        return await ours.timed_write(case, store, made[WARM:])


async def _floor(case: WriteCase, source: str, dsn: str) -> float:
    connection = await asyncpg.connect(source)
    columns = {table: [row[0] for row in await connection.fetch(_COLUMNS, table)] for table in TABLES}
    records: Records = {}
    for table in TABLES:
        found = await connection.fetch(
            f"SELECT {', '.join(columns[table])} FROM memsmith.{table} ORDER BY seq"
        )
        records[table] = [tuple(row) for row in found]
    await connection.close()
    await _prepared(dsn)
    pool = await asyncpg.create_pool(dsn, min_size=1, max_size=1, reset=_nothing)
    async with pool.acquire() as connection:
        await _copied(connection, columns, {table: rows[:WARM] for table, rows in records.items()})
        rest = {table: rows[WARM:] for table, rows in records.items()}
        gc.collect()
        started = perf_counter()
        if case.batch:
            await _copied(connection, columns, rest)
        else:
            await _inserted(connection, columns, rest, case.group)
        seconds = perf_counter() - started
    await pool.close()
    return seconds


async def _nothing(_: object) -> None:
    """Spare the round trip that undoes settings of a session: none are made."""


async def _prepared(dsn: str) -> None:
    backend = PostgresBackend(dsn)
    await backend.initialize()
    await backend.close()


async def _copied(connection: Any, columns: dict[str, list[str]], records: Records) -> None:
    async with connection.transaction():
        for table in TABLES:
            await connection.copy_records_to_table(
                table, schema_name="memsmith", columns=columns[table], records=records[table]
            )
        await _head(connection, records["audit_log"][-1], columns["audit_log"])


async def _inserted(connection: Any, columns: dict[str, list[str]], records: Records, group: int) -> None:
    statements = {
        table: f"INSERT INTO memsmith.{table} ({', '.join(columns[table])}) "
        f"VALUES ({', '.join(f'${n}' for n in range(1, len(columns[table]) + 1))})"
        for table in TABLES
    }
    for start in range(0, len(records["audit_log"]), group):
        async with connection.transaction():
            for table in TABLES:
                await connection.executemany(statements[table], records[table][start : start + group])
            await _head(connection, records["audit_log"][start : start + group][-1], columns["audit_log"])


async def _head(connection: Any, row: tuple[Any, ...], columns: list[str]) -> None:
    named = dict(zip(columns, row, strict=True))
    await connection.execute(
        "INSERT INTO memsmith.heads (tenant, count, hash, time) VALUES ($1, $2, $3, $4::text::timestamptz) "
        "ON CONFLICT (tenant) DO UPDATE "
        "SET count = excluded.count, hash = excluded.hash, time = excluded.time",
        named["tenant"], named["seq"], named["hash"], named["time"],
    )  # fmt: skip


async def _gets(dsn: str, rounds: int) -> Row:
    row = Row(GET, GETS, 0.6)
    async with await MemoryStore.init(PostgresBackend(dsn)) as store:
        ids = await ours.fill(store, contents(GETS, 0))
        order = random.Random(0).sample(ids, len(ids))
        connection = await asyncpg.connect(dsn)
        for _ in range(rounds):

            async def fetch(memory_id: str) -> object:
                return await connection.fetchrow(SQL["memory"], DEFAULT_TENANT, memory_id)

            row.ours.append(await _timed(store.get, order))
            row.floor.append(await _timed(fetch, order))
        await connection.close()
    return row


async def _timed(one: Callable[[str], Coroutine[Any, Any, object]], order: Sequence[str]) -> float:
    gc.collect()
    started = perf_counter()
    for memory_id in order:
        await one(memory_id)
    return perf_counter() - started
