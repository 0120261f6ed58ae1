"""Reads over a connection."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from memsmith._canonical import canonical
from memsmith.backends import _asking
from memsmith.backends._asking import NEVER, NEWEST, Asking, fetch, seq_at, versions
from memsmith.backends._listing import counted, listed
from memsmith.backends._rows import ledger_row, segment_of, stone_of
from memsmith.backends.postgres.listing import compose, compose_count
from memsmith.backends.postgres.statements import SQL, answer
from memsmith.ledger.record import memory_of_row
from memsmith.protocols import Memories, MemoryQuery, Rows, Segments, Tombstones, Versions
from memsmith.types import Head, Memory, Slot
from memsmith.wants import Loaded, OutcomeKey, OutcomeRecord, Wants

if TYPE_CHECKING:
    from memsmith.backends.postgres.statements import Connection

T = TypeVar("T")

_PIECE: Final = 1_000


class PostgresReads(ABC):
    """The reads of the backend protocol over any way to reach a connection."""

    @abstractmethod
    async def _reach(self, work: Callable[[Connection], Awaitable[T]], *, at_one_state: bool = False) -> T:
        """Let a function talk to the server, at one state of the database where it asks several times."""

    async def _answer(self, asking: Callable[[], Asking[T]], *, at_one_state: bool = False) -> T:
        # A generator is asked once, a conversation may have to be begun again.
        return await self._reach(lambda c: answer(c, asking()), at_one_state=at_one_state)

    async def _rows(self, name: str, *values: Any) -> Sequence[Any]:
        return await self._reach(lambda connection: connection.fetch(SQL[name], *values))

    async def fetch(self, tenant: str, wants: Wants, now: datetime) -> Loaded:
        return await self._answer(lambda: fetch(tenant, wants, now), at_one_state=True)

    async def get(self, tenant: str, memory_id: str) -> Memory | None:
        row = await self._reach(lambda connection: connection.fetchrow(SQL["memory"], tenant, memory_id))
        return None if row is None else memory_of_row(row)

    async def list(self, tenant: str, query: MemoryQuery) -> Memories:
        past = query.at is not None
        rows = await self._answer(lambda: listed(compose, tenant, query), at_one_state=past)
        return list(map(memory_of_row, rows))

    async def count(self, tenant: str, query: MemoryQuery) -> int:
        past = query.at is not None
        return await self._answer(lambda: counted(compose_count, tenant, query), at_one_state=past)

    async def members(self, tenant: str, slot: Slot) -> Sequence[str]:
        rows = await self._rows("members", *(tenant, slot.key, slot.scope, slot.kind) * 2)
        return sorted(row[0] for row in rows)

    async def versions(self, tenant: str, memory_ids: Sequence[str]) -> Versions:
        return await self._answer(lambda: versions(tenant, memory_ids))

    async def segments(self, tenant: str, memory_ids: Sequence[str]) -> Segments:
        rows = await self._rows("segments", canonical(list(memory_ids)).decode(), tenant)
        return [segment_of(row) for row in rows]

    async def strays(self, tenant: str) -> Sequence[str]:
        return sorted(row[0] for row in await self._rows("strays", tenant, tenant))

    async def seq_at(self, tenant: str, moment: datetime) -> int:
        return await self._answer(lambda: seq_at(tenant, moment), at_one_state=True)

    async def audit(self, tenant: str, memory_id: str | None, limit: int, before: int | None) -> Rows:
        bounds = (NEWEST if before is None else before, limit)
        rows = (
            await self._rows("audit", tenant, *bounds)
            if memory_id is None
            else await self._rows("audit_of_memory", tenant, memory_id, *bounds)
        )
        return list(map(ledger_row, rows))

    async def ledger(self, tenant: str, after: int, limit: int) -> Rows:
        return list(map(ledger_row, await self._rows("ledger", tenant, after, limit)))

    async def scan(self, tenant: str, after: int, limit: int, visit: Callable[[Rows], object]) -> int | None:
        last: int | None = None
        while limit > 0 and (rows := await self.ledger(tenant, after, min(_PIECE, limit))):
            await asyncio.to_thread(visit, rows)
            last = after = rows[-1].seq
            limit -= len(rows)
        return last

    async def head(self, tenant: str) -> Head | None:
        return await self._answer(lambda: _asking.head(tenant))

    async def tombstones(self, tenant: str, *, lifted: bool, after: str, limit: int) -> Tombstones:
        return [stone_of(row) for row in await self._rows("tombstones", tenant, after, lifted, limit)]

    async def outcome(self, tenant: str, key: OutcomeKey) -> OutcomeRecord | None:
        loaded = await self._answer(lambda: fetch(tenant, Wants(outcomes={key}), NEVER))
        return next(iter(loaded.outcomes), None)
