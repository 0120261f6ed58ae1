"""Reads over one SQLite connection: each a single hop to its thread."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

from memsmith._canonical import canonical
from memsmith.backends._asking import NEVER, NEWEST, Asking, fetch, seq_at, versions
from memsmith.backends._listing import counted, listed
from memsmith.backends._rows import ledger_row, segment_of, stone_of
from memsmith.backends.sqlite.listing import compose, compose_count
from memsmith.backends.sqlite.statements import SQL, answer, head
from memsmith.ledger.record import memory_of_row
from memsmith.protocols import Memories, MemoryQuery, Rows, Segments, Tombstones, Versions
from memsmith.types import Head, Memory, Slot
from memsmith.wants import Loaded, OutcomeKey, OutcomeRecord, Wants

T = TypeVar("T")

_PIECE: Final = 100


def ledger(connection: sqlite3.Connection, tenant: str, after: int, limit: int) -> list[Any]:
    """Return ledger rows; text that is not UTF-8 comes with surrogates, for verification to stumble on."""
    values = (tenant, after, limit)
    try:
        return connection.execute(SQL["ledger"], values).fetchall()
    except sqlite3.OperationalError as error:
        if "decode" not in str(error):
            raise
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    try:
        return connection.execute(SQL["ledger"], values).fetchall()
    finally:
        connection.text_factory = str


def scan(
    connection: sqlite3.Connection, tenant: str, after: int, limit: int, visit: Callable[[Rows], object]
) -> int | None:
    """Hand ledger rows to `visit` in pieces small enough to stay in a core's cache."""
    last: int | None = None
    while limit > 0 and (rows := ledger(connection, tenant, after, min(_PIECE, limit))):
        visit(list(map(ledger_row, rows)))
        last = after = rows[-1][0]
        limit -= len(rows)
    return last


def at_one_state(connection: sqlite3.Connection, asking: Asking[T]) -> T:
    """Answer a read of several statements, all of them at one state of the database."""
    within = connection.in_transaction
    if not within:
        connection.execute("BEGIN")
    try:
        return answer(connection, asking)
    finally:
        if connection.in_transaction and not within:
            connection.execute("COMMIT")


class SQLiteReads(ABC):
    """The reads of the backend protocol over any way to reach a connection."""

    @abstractmethod
    async def _hop(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function on a database thread."""

    async def fetch(self, tenant: str, wants: Wants, now: datetime) -> Loaded:
        return await self._hop(lambda c: answer(c, fetch(tenant, wants, now)))

    async def get(self, tenant: str, memory_id: str) -> Memory | None:
        row: Any = await self._hop(lambda c: c.execute(SQL["memory"], (tenant, memory_id)).fetchone())
        return None if row is None else memory_of_row(row)

    async def list(self, tenant: str, query: MemoryQuery) -> Memories:
        rows = await self._asked(query, listed(compose, tenant, query))
        return list(map(memory_of_row, rows))

    async def count(self, tenant: str, query: MemoryQuery) -> int:
        return await self._asked(query, counted(compose_count, tenant, query))

    async def _asked(self, query: MemoryQuery, asking: Asking[T]) -> T:
        return await self._hop(lambda c: (answer if query.at is None else at_one_state)(c, asking))

    async def members(self, tenant: str, slot: Slot) -> Sequence[str]:
        values = (tenant, slot.key, slot.scope, slot.kind) * 2
        rows = await self._hop(lambda c: c.execute(SQL["members"], values).fetchall())
        # Sorted here: asked to, the database would walk all memories in order of their ids.
        return sorted(row[0] for row in rows)

    async def versions(self, tenant: str, memory_ids: Sequence[str]) -> Versions:
        return await self._hop(lambda c: answer(c, versions(tenant, memory_ids)))

    async def segments(self, tenant: str, memory_ids: Sequence[str]) -> Segments:
        values = (canonical(list(memory_ids)).decode(), tenant)
        rows = await self._hop(lambda c: c.execute(SQL["segments"], values).fetchall())
        return [segment_of(row) for row in rows]

    async def strays(self, tenant: str) -> Sequence[str]:
        rows = await self._hop(lambda c: c.execute(SQL["strays"], (tenant, tenant)).fetchall())
        return sorted(row[0] for row in rows)

    async def seq_at(self, tenant: str, moment: datetime) -> int:
        return await self._hop(lambda c: answer(c, seq_at(tenant, moment)))

    async def audit(self, tenant: str, memory_id: str | None, limit: int, before: int | None) -> Rows:
        bounds = (NEWEST if before is None else before, limit)
        name, values = (
            ("audit", (tenant, *bounds))
            if memory_id is None
            else ("audit_of_memory", (tenant, memory_id, *bounds))
        )
        rows = await self._hop(lambda c: c.execute(SQL[name], values).fetchall())
        return list(map(ledger_row, rows))

    async def ledger(self, tenant: str, after: int, limit: int) -> Rows:
        rows = await self._hop(lambda connection: ledger(connection, tenant, after, limit))
        return list(map(ledger_row, rows))

    async def scan(self, tenant: str, after: int, limit: int, visit: Callable[[Rows], object]) -> int | None:
        return await self._hop(lambda connection: scan(connection, tenant, after, limit, visit))

    async def head(self, tenant: str) -> Head | None:
        return await self._hop(lambda connection: head(connection, tenant))

    async def tombstones(self, tenant: str, *, lifted: bool, after: str, limit: int) -> Tombstones:
        rows = await self._hop(
            lambda c: c.execute(SQL["tombstones"], (tenant, after, lifted, limit)).fetchall()
        )
        return [stone_of(row) for row in rows]

    async def outcome(self, tenant: str, key: OutcomeKey) -> OutcomeRecord | None:
        loaded = await self._hop(lambda c: answer(c, fetch(tenant, Wants(outcomes={key}), NEVER)))
        return next(iter(loaded.outcomes), None)
