"""The governed side of every row."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from pydantic import BaseModel

from benchmarks.write.cases import WARM, Durability, WriteCase
from memsmith import Accepted, ConfidenceThreshold, MemoryStore, ProposalInput, ProposalResult, SchemaCheck
from memsmith.backends.sqlite import SQLiteBackend

SESSION = "session-1"
CONFIDENCE = 0.9


class Content(BaseModel):
    attribute: str
    value: str
    note: str


@asynccontextmanager
async def opened(
    path: Path, durability: Durability = "full", *, validators: bool = False
) -> AsyncIterator[MemoryStore]:
    """Open a store, with no validators or with two."""
    checks = [SchemaCheck(Content), ConfidenceThreshold(0.5)] if validators else None
    async with await MemoryStore.init(backend(path, durability), checks) as store:
        yield store


def backend(path: Path, durability: Durability) -> SQLiteBackend:
    """Return the backend that is measured."""
    return SQLiteBackend(path, durability=durability)


async def pragmas(path: Path) -> dict[str, int]:
    """Return the settings a floor must share, as the backend made them."""
    names = ("cache_size", "wal_autocheckpoint", "temp_store", "mmap_size")

    def read(connection: sqlite3.Connection) -> dict[str, int]:
        return {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names}

    backend = SQLiteBackend(path)
    await backend.initialize()
    try:
        return await backend.write_hop(read)
    finally:
        await backend.close()


async def write(case: WriteCase, path: Path, contents: Sequence[Any]) -> float:
    """Propose everything into a fresh file; return the seconds without opening and warming up."""
    async with opened(path, case.durability, validators=case.validators) as store:
        await fill(store, contents[:WARM])
        return await timed_write(case, store, contents[WARM:])


async def timed_write(case: WriteCase, store: MemoryStore, contents: Sequence[Any]) -> float:
    """Propose everything; return the seconds it took."""
    items = [ProposalInput(content, CONFIDENCE) for content in contents] if case.batch else []
    queue = iter(contents)

    async def client() -> None:
        for content in queue:
            accepted([await store.propose(content, SESSION, CONFIDENCE)])

    gc.collect()
    started = perf_counter()
    if case.batch:
        accepted(await store.propose_many(items, SESSION))
    elif case.clients == 1:
        await client()
    else:
        await asyncio.gather(*(client() for _ in range(case.clients)))
    return perf_counter() - started


async def fill(store: MemoryStore, contents: Sequence[Any], session: str = SESSION) -> list[str]:
    """Propose in one batch; return the ids."""
    results = await store.propose_many([ProposalInput(c, CONFIDENCE) for c in contents], session)
    accepted(results)
    return [result.memory_id for result in results]


def accepted(results: Sequence[ProposalResult]) -> None:
    """Raise unless everything proposed was accepted: a refusal is cheaper, and would flatter."""
    for result in results:
        if not isinstance(result, Accepted):
            raise RuntimeError(f"expected every proposal to be accepted, found {result}")
