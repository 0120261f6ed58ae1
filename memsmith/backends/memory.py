"""The reference backend: plain Python, nothing durable. Other backends are compared with it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from memsmith._clock import MICROSECOND
from memsmith.errors import ClosedError, ImportRefusedError
from memsmith.ledger.entry import Row
from memsmith.ledger.record import Record, memory_record
from memsmith.protocols import Clock, Memories, MemoryQuery, Rows, Tombstones
from memsmith.types import LIVE, Head, Memory, Tombstone
from memsmith.unit import Settled, Unit, empty_head, settle
from memsmith.wants import Changes, Loaded, OutcomeKey, OutcomeRecord, Wants


@dataclass
class _Tenant:
    """Everything of one tenant; a copy is a snapshot, since the rows never change."""

    memories: dict[str, Memory] = field(default_factory=dict[str, Memory])
    rows: list[Row] = field(default_factory=list[Row])
    tombstones: dict[str, Tombstone] = field(default_factory=dict[str, Tombstone])
    outcomes: dict[OutcomeKey, OutcomeRecord] = field(default_factory=dict[OutcomeKey, OutcomeRecord])
    head: Head | None = None

    def copy(self) -> _Tenant:
        return _Tenant(
            dict(self.memories), list(self.rows), dict(self.tombstones), dict(self.outcomes), self.head
        )

    def apply(self, changes: Changes) -> None:
        self.memories.update({memory.id: _apart(memory) for memory, _ in changes.inserted})
        self.memories.update({memory.id: _apart(memory) for memory in changes.updated})
        self.rows.extend(changes.rows)
        self.tombstones.update({stone.id: stone for stone in changes.tombstones})
        for record in changes.outcomes:
            o = record.outcome
            self.outcomes[o.actor, o.verb, o.idempotency_key] = record
        if changes.rows:
            self.head = changes.head


def _apart(memory: Memory) -> Memory:
    """Return a copy that shares nothing a caller could change, as a database would."""
    return memory.evolve(
        deepcopy({name: getattr(memory, name) for name in ("content", "metadata", "depends_on")})
    )


def _fetch(data: _Tenant, wants: Wants, now: datetime) -> Loaded:
    memories = list(data.memories.values())
    live = [m for m in memories if m.status in LIVE]
    due = sorted(
        (m for m in live if m.expires_at and m.expires_at <= now), key=lambda m: (m.expires_at, m.id)
    )
    due = due[: wants.due]
    found = [m for m in memories if m.id in wants.memories]
    found += [m for m in live if m.value_digest in wants.values or (m.kind, m.scope, m.key) in wants.slots]
    return Loaded(
        memories={m.id: _apart(m) for m in found + due}.values(),
        tombstones=[
            t for t in data.tombstones.values() if t.digest in wants.blocks or t.id in wants.tombstones
        ],
        outcomes=[data.outcomes[key] for key in wants.outcomes if key in data.outcomes],
        dependants={
            parent: [m.id for m in memories if parent in m.depends_on] for parent in wants.dependants
        },
        due=[m.id for m in due],
    )


def _matches(record: Record, query: MemoryQuery) -> bool:
    wanted = {
        name: value
        for name, value in (
            ("status", None if query.status is None else query.status.value),
            ("session_id", query.session_id),
            ("kind", query.kind),
        )
        if value is not None
    }
    return all(record[name] == value for part in (wanted, query.columns) for name, value in part.items())


def _at(content: Any, path: tuple[str, ...]) -> tuple[bool, Any]:
    here: Any = content
    for segment in path:
        if not isinstance(here, dict) or segment not in here:
            return False, None
        here = cast(dict[str, Any], here)[segment]
    return True, here


def _same_scalar(found: Any, wanted: Any) -> bool:
    if isinstance(found, bool) or isinstance(wanted, bool) or found is None or wanted is None:
        return found is wanted
    return isinstance(found, str) is isinstance(wanted, str) and bool(found == wanted)


def _list(data: _Tenant, query: MemoryQuery) -> list[Memory]:
    found: list[tuple[tuple[Any, str], Memory]] = []
    for memory in data.memories.values():
        record = memory_record(memory)
        if not _matches(record, query):
            continue
        if all(
            there and _same_scalar(value, wanted)
            for wanted, (there, value) in ((w, _at(memory.content, p)) for p, w in query.paths.items())
        ):
            found.append(((record[query.order_by], memory.id), memory))
    found.sort(key=lambda pair: pair[0], reverse=query.descending)
    if query.after is not None:
        after = query.after
        found = [p for p in found if (p[0] < after if query.descending else p[0] > after)]
    return [_apart(memory) for _, memory in found[query.offset : query.offset + query.limit]]


class _Reading(ABC):
    """Reads over whatever `_data` returns for a tenant."""

    @abstractmethod
    def _data(self, tenant: str) -> _Tenant: ...

    async def fetch(self, tenant: str, wants: Wants, now: datetime) -> Loaded:
        return _fetch(self._data(tenant), wants, now)

    async def get(self, tenant: str, memory_id: str) -> Memory | None:
        memory = self._data(tenant).memories.get(memory_id)
        return None if memory is None else _apart(memory)

    async def list(self, tenant: str, query: MemoryQuery) -> Memories:
        return _list(self._data(tenant), query)

    async def audit(self, tenant: str, memory_id: str | None, limit: int, before: int | None) -> Rows:
        rows: Iterable[Row] = reversed(self._data(tenant).rows)
        if memory_id is not None:
            rows = (row for row in rows if row.memory_id == memory_id)
        if before is not None:
            rows = (row for row in rows if row.seq < before)
        return [row for row, _ in zip(rows, range(limit), strict=False)]

    async def ledger(self, tenant: str, after: int, limit: int) -> Rows:
        start = max(after, 0)
        return self._data(tenant).rows[start : start + limit]

    async def scan(self, tenant: str, after: int, limit: int, visit: Callable[[Rows], object]) -> int | None:
        rows = await self.ledger(tenant, after, limit)
        if rows:
            await asyncio.to_thread(visit, rows)
        return rows[-1].seq if rows else None

    async def head(self, tenant: str) -> Head | None:
        return self._data(tenant).head

    async def tombstones(self, tenant: str, *, lifted: bool, after: str, limit: int) -> Tombstones:
        stones = sorted(self._data(tenant).tombstones.values(), key=lambda t: t.id)
        return [t for t in stones if t.id > after and (lifted or t.lifted_at is None)][:limit]

    async def outcome(self, tenant: str, key: OutcomeKey) -> OutcomeRecord | None:
        return self._data(tenant).outcomes.get(key)


class MemoryBackend(_Reading):
    """Holds everything in dictionaries for as long as the object lives."""

    def __init__(self) -> None:
        self._tenants: dict[str, _Tenant] = {}
        self._secrets: dict[str, bytes] = {}
        self._writer = asyncio.Lock()
        self._open = False

    async def initialize(self) -> None:
        self._open = True

    async def close(self) -> None:
        self._open = False

    def _data(self, tenant: str) -> _Tenant:
        if not self._open:
            raise ClosedError("The backend is closed")
        return self._tenants.setdefault(tenant, _Tenant())

    async def commit(self, tenant: str, units: Sequence[Unit[Any]], clock: Clock) -> list[Settled[Any]]:
        async with self._writer:
            data = self._data(tenant)
            return _settle(data, tenant, units, clock(), None)

    async def begin(self, tenant: str, clock: Clock) -> _MemoryTransaction:
        def end(kept: bool) -> None:
            if kept:
                self._tenants[tenant] = transaction.data
            self._writer.release()

        await self._writer.acquire()
        try:
            transaction = _MemoryTransaction(tenant, self._data(tenant).copy(), clock(), end)
        except BaseException:
            self._writer.release()
            raise
        return transaction

    async def secrets(self) -> dict[str, bytes]:
        return dict(self._secrets)

    async def add_secret(self, secret_id: str, secret: bytes | None) -> bool:
        if secret_id in self._secrets:
            return False
        self._secrets[secret_id] = secret or b""
        return True

    async def restore(self, tenant: str, changes: Changes, secrets: Sequence[tuple[str, bytes]] = ()) -> None:
        async with self._writer:
            data = self._data(tenant)
            if data.head is not None:
                raise ImportRefusedError(f"Tenant {tenant!r} is not empty")
            if secrets:
                if any(other.head is not None for other in self._tenants.values()):
                    raise ImportRefusedError("Other tenants are keyed with the secret of this storage")
                self._secrets = dict(secrets)
            data.apply(replace(changes))


def _settle(
    data: _Tenant, tenant: str, units: Sequence[Unit[Any]], now: datetime, at: datetime | None
) -> list[Settled[Any]]:
    steps = settle(tenant, units, data.head or empty_head(), now, at=at)
    try:
        wants = next(steps)
        while True:
            wants = steps.send(_fetch(data, wants, at or now))
    except StopIteration as done:
        data.apply(done.value.changes)
        settled: list[Settled[Any]] = done.value.settled
        return settled


class _MemoryTransaction(_Reading):
    """Works on a copy that replaces the original at commit."""

    def __init__(self, tenant: str, data: _Tenant, now: datetime, end: Callable[[bool], None]) -> None:
        self._tenant = tenant
        self.data = data
        last = None if data.head is None else data.head.time
        self._now = now if last is None else max(now, last + MICROSECOND)
        self._end = end
        self._saved: list[_Tenant] = []

    def _data(self, tenant: str) -> _Tenant:
        return self.data

    async def run(self, unit: Unit[Any], now: datetime) -> Settled[Any]:
        return _settle(self.data, self._tenant, [unit], now, self._now)[0]

    async def savepoint(self) -> None:
        self._saved.append(self.data.copy())

    async def release(self) -> None:
        self._saved.pop()

    async def rollback_to(self) -> None:
        self.data = self._saved.pop()

    async def commit(self) -> None:
        self._end(True)

    async def rollback(self) -> None:
        self._end(False)
