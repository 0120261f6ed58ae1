"""The rows of the table that read: one store of 10,000 memories, read by all sides."""

from __future__ import annotations

import gc
import random
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import aiosqlite

from benchmarks.write import floor, ours
from benchmarks.write.legacy import Legacy
from memsmith import MemoryStore, Verdict
from memsmith.backends.sqlite.listing import compose
from memsmith.backends.sqlite.statements import SQL, joined
from memsmith.protocols import MemoryQuery
from memsmith.types import DEFAULT_TENANT

PAGE = 50
_NEWEST = 2**62


@dataclass(frozen=True, kw_only=True)
class ReadCase:
    """`count` items read, in `calls` calls of each side; 0.1.0 has no `verify`."""

    name: str
    count: int
    ours: Callable[[Shelf, int], Awaitable[float]]
    floor: Callable[[Shelf, int], Awaitable[float]]
    legacy: Callable[[Shelf, Legacy, int], Awaitable[float]] | None = None
    floor_target: float | None = None
    legacy_target: float | None = 1.0


@dataclass(frozen=True)
class Shelf:
    """The filled store, and what a floor needs: a connection to its file and its ledger in memory."""

    store: MemoryStore
    ids: list[str]
    order: list[int]
    connection: aiosqlite.Connection
    ledger: floor.Rows

    async def rows(self, statement: str, values: Sequence[Any]) -> list[sqlite3.Row]:
        """Fetch in one hop, as plain aiosqlite does."""
        return list(await self.connection.execute_fetchall(statement, values))


@asynccontextmanager
async def filled(path: Path, contents: Sequence[Any], legacy: Legacy | None) -> AsyncIterator[Shelf]:
    """Fill a store of each side with the same contents."""
    if legacy is not None:
        await legacy.ask("open", path=f"{path}-legacy", contents=list(contents))
    async with ours.opened(path) as store, aiosqlite.connect(path) as connection:
        ids = await ours.fill(store, contents)
        rows = await connection.execute_fetchall(SQL["ledger"], (DEFAULT_TENANT, 0, len(contents)))
        order = random.Random(0).sample(range(len(ids)), len(ids))
        yield Shelf(store, ids, order, connection, [tuple(row) for row in rows])
    if legacy is not None:
        await legacy.ask("close")


async def get(shelf: Shelf, count: int) -> float:
    wanted = [shelf.ids[place] for place in shelf.order[:count]]
    get = shelf.store.get
    gc.collect()
    started = perf_counter()
    for memory_id in wanted:
        await get(memory_id)
    return perf_counter() - started


async def get_floor(shelf: Shelf, count: int) -> float:
    wanted = [shelf.ids[place] for place in shelf.order[:count]]
    fetch, statement = shelf.connection.execute_fetchall, SQL["memory"]
    gc.collect()
    started = perf_counter()
    for memory_id in wanted:
        await fetch(statement, (DEFAULT_TENANT, memory_id))
    return perf_counter() - started


async def get_legacy(shelf: Shelf, legacy: Legacy, count: int) -> float:
    return float((await legacy.ask("get", order=shelf.order[:count]))["seconds"])


async def list_page(shelf: Shelf, count: int) -> float:
    gc.collect()
    started = perf_counter()
    for _ in range(count // PAGE):
        await shelf.store.list(limit=PAGE)
    return perf_counter() - started


async def list_floor(shelf: Shelf, count: int) -> float:
    statement, values = joined(*compose(DEFAULT_TENANT, MemoryQuery(limit=PAGE)))
    gc.collect()
    started = perf_counter()
    for _ in range(count // PAGE):
        await shelf.rows(statement, values)
    return perf_counter() - started


async def list_legacy(_: Shelf, legacy: Legacy, count: int) -> float:
    return float((await legacy.ask("list", times=count // PAGE))["seconds"])


async def audit_page(shelf: Shelf, count: int) -> float:
    gc.collect()
    started = perf_counter()
    for _ in range(count // PAGE):
        await shelf.store.audit(limit=PAGE)
    return perf_counter() - started


async def audit_floor(shelf: Shelf, count: int) -> float:
    gc.collect()
    started = perf_counter()
    for _ in range(count // PAGE):
        await shelf.rows(SQL["audit"], (DEFAULT_TENANT, _NEWEST, PAGE))
    return perf_counter() - started


async def audit_legacy(_: Shelf, legacy: Legacy, count: int) -> float:
    return float((await legacy.ask("audit", times=count // PAGE))["seconds"])


async def verify(shelf: Shelf, count: int) -> float:
    gc.collect()
    started = perf_counter()
    found = await shelf.store.verify()
    seconds = perf_counter() - started
    if found.verdict is not Verdict.SELF_CONSISTENT or found.rows != count:
        raise RuntimeError(f"expected {count} rows in order, found {found}")
    return seconds


async def verify_floor(shelf: Shelf, _: int) -> float:
    return floor.hash_ledger(DEFAULT_TENANT, shelf.ledger)


def read_cases(stored: int) -> tuple[ReadCase, ...]:
    """Return the rows for a store of `stored` memories; reads are counted in rows, pages in rows too."""
    return (
        ReadCase(
            name="point get", count=2000, ours=get, floor=get_floor, legacy=get_legacy, floor_target=0.6
        ),
        ReadCase(
            name=f"list page of {PAGE}",
            count=100 * PAGE,
            ours=list_page,
            floor=list_floor,
            legacy=list_legacy,
        ),
        ReadCase(
            name=f"audit page of {PAGE}",
            count=100 * PAGE,
            ours=audit_page,
            floor=audit_floor,
            legacy=audit_legacy,
        ),
        ReadCase(
            name="verify", count=stored, ours=verify, floor=verify_floor, floor_target=0.5, legacy_target=None
        ),
    )
