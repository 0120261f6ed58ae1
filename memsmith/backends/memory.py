"""The reference backend: plain Python, nothing durable. Other backends are compared with it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from memsmith._clock import next_time, to_text
from memsmith.errors import ClosedError, ImportRefusedError
from memsmith.ledger.entry import Row, payload_of
from memsmith.ledger.record import Record, memory_record
from memsmith.protocols import Clock, Memories, MemoryQuery, Rows, Segments, Tombstones, Versions
from memsmith.temporal import Believed, Place, covers, is_visible, until
from memsmith.types import LIVE, Head, Interval, Memory, MemoryStatus, Point, Slot, Tombstone, Version
from memsmith.unit import Settled, Unit, empty_head, settle
from memsmith.wants import Changes, Loaded, OutcomeKey, OutcomeRecord, Wants


@dataclass
class _Tenant:
    """Everything of one tenant; a copy is a snapshot, since the rows never change."""

    memories: dict[str, Memory] = field(default_factory=dict[str, Memory])
    rows: list[Row] = field(default_factory=list[Row])
    tombstones: dict[str, Tombstone] = field(default_factory=dict[str, Tombstone])
    outcomes: dict[OutcomeKey, OutcomeRecord] = field(default_factory=dict[OutcomeKey, OutcomeRecord])
    history: list[tuple[Memory, datetime]] = field(default_factory=list[tuple[Memory, datetime]])
    segments: dict[Place, Believed] = field(default_factory=dict[Place, Believed])
    head: Head | None = None

    def copy(self) -> _Tenant:
        return _Tenant(
            dict(self.memories), list(self.rows), dict(self.tombstones), dict(self.outcomes),
            list(self.history), {place: replace(b) for place, b in self.segments.items()}, self.head,
        )  # fmt: skip

    def apply(self, changes: Changes) -> None:
        self.memories.update({memory.id: _apart(memory) for memory, _ in changes.inserted})
        self.memories.update({memory.id: _apart(memory) for memory in changes.updated})
        self.history.extend((_apart(memory), over) for memory, over in changes.history)
        for believed in changes.dropped:
            del self.segments[believed.place]
        for believed in [*changes.closed, *changes.opened]:
            self.segments[believed.place] = replace(believed)
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
    found += [m for m in live if m.value_digest in wants.values]
    segments = [
        b
        for b in data.segments.values()
        if b.system_to is None
        and b.slot in wants.chains
        and until(b.segment.end) >= wants.chains[b.slot].moment
    ]
    slots = {slot._replace(lane="") for slot in [*wants.chains, *(w.slot for w in wants.beneath)]}
    on_slots = [m for m in memories if m.slot is not None and m.slot._replace(lane="") in slots]
    found += [m for m in on_slots if m.counted or m.status is MemoryStatus.PENDING_CONFIRMATION]
    handed_over: list[Memory] = []
    if wants.handed_over is not None:
        after, limit = wants.handed_over
        held = {
            b.segment.memory_id
            for b in data.segments.values()
            if b.system_to is None and _rests(data, b, now)
        }
        active = [m for m in memories if m.status is MemoryStatus.ACTIVE and m.key is not None and m.counted]
        handed_over = sorted((m for m in active if m.id > after and m.id not in held), key=lambda m: m.id)[
            :limit
        ]
    return Loaded(
        memories={m.id: _apart(m) for m in found + due + handed_over}.values(),
        tombstones=[
            t for t in data.tombstones.values() if t.digest in wants.blocks or t.id in wants.tombstones
        ],
        outcomes=[data.outcomes[key] for key in wants.outcomes if key in data.outcomes],
        dependants={
            parent: [m.id for m in memories if parent in m.depends_on] for parent in wants.dependants
        },
        due=[m.id for m in due],
        handed_over=[m.id for m in handed_over],
        segments=[replace(b) for b in sorted(segments, key=lambda b: b.segment.start)],
    )


def _rests(data: _Tenant, believed: Believed, now: datetime) -> bool:
    """Tell whether a segment keeps its member from being handed over: it goes on, or ends as asserted."""
    end = believed.segment.end
    return end is None or end > now or end == data.memories[believed.segment.memory_id].valid_to


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


def _versions(data: _Tenant, memory_id: str) -> list[tuple[Memory, datetime, datetime | None]]:
    """Return each version with the time it was believed from and to."""
    current = data.memories[memory_id]
    every = [(m, over) for m, over in data.history if m.id == memory_id] + [(current, None)]
    return [(m, m.system_from or m.updated_at, over) for m, over in every]


def _held(data: _Tenant, memory: Memory, system_at: datetime | None) -> list[Interval]:
    """Return what was effective of a memory by a moment of system time."""
    if memory.key is None:
        return covers(memory)
    return [
        Interval(b.segment.start, b.segment.end)
        for b in data.segments.values()
        if b.segment.memory_id == memory.id and _believed(b.system_from, b.system_to, system_at)
    ]


def _believed(since: datetime, over: datetime | None, system_at: datetime | None) -> bool:
    return over is None if system_at is None else since <= system_at < until(over)


def _visible(data: _Tenant, point: Point) -> list[Memory]:
    """Return the memories that hold at a point, each in the version believed then."""
    found: list[Memory] = []
    if point.present and data.head is not None and data.head.time is not None:
        point = replace(point, valid_at=max(point.valid_at, data.head.time))
    for memory_id, current in data.memories.items():
        for memory, since, over in _versions(data, memory_id):
            if _believed(since, over, point.system_at) and memory.counted:
                held = _held(data, memory, point.system_at)
                if is_visible(memory, current.status, held, point.valid_at):
                    found.append(memory)
    return found


def _list(data: _Tenant, query: MemoryQuery) -> list[Memory]:
    found = _found(data, query)
    return [_apart(memory) for memory in found[query.offset : query.offset + query.limit]]


def _found(data: _Tenant, query: MemoryQuery) -> list[Memory]:
    found: list[tuple[tuple[Any, str], Memory]] = []
    for memory in data.memories.values() if query.at is None else _visible(data, query.at):
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
    return [memory for _, memory in found]


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

    async def count(self, tenant: str, query: MemoryQuery) -> int:
        return len(_found(self._data(tenant), query))

    async def members(self, tenant: str, slot: Slot) -> Sequence[str]:
        data = self._data(tenant)
        now = {m.id for m in data.memories.values() if m.slot is not None and m.slot[:3] == slot[:3]}
        once = {m.id for m, _ in data.history if m.slot is not None and m.slot[:3] == slot[:3]}
        return sorted(now | once)

    async def versions(self, tenant: str, memory_ids: Sequence[str]) -> Versions:
        data = self._data(tenant)
        found: list[Version] = []
        for memory_id in sorted(set(memory_ids) & set(data.memories)):
            for memory, since, over in _versions(data, memory_id):
                row = data.rows[memory.seq - 1]
                reason = payload_of(row).get("reason")
                found.append(Version(_apart(memory), since, over, row.action, row.actor, reason))
        return found

    async def segments(self, tenant: str, memory_ids: Sequence[str]) -> Segments:
        wanted = set(memory_ids)
        found = [b for b in self._data(tenant).segments.values() if b.segment.memory_id in wanted]
        return [replace(b) for b in sorted(found, key=lambda b: b.place)]

    async def strays(self, tenant: str) -> Sequence[str]:
        data = self._data(tenant)
        named = {memory.id for memory, _ in data.history}
        named |= {believed.segment.memory_id for believed in data.segments.values()}
        return sorted(named - data.memories.keys())

    async def seq_at(self, tenant: str, moment: datetime) -> int:
        text = to_text(moment)
        return sum(row.time <= text for row in self._data(tenant).rows)

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
    newest = data.head or empty_head()
    moment = at or next_time(now, newest.time)
    steps = settle(tenant, units, newest, moment, at=at)
    try:
        wants = next(steps)
        while True:
            wants = steps.send(_fetch(data, wants, moment))
    except StopIteration as done:
        data.apply(done.value.changes)
        settled: list[Settled[Any]] = done.value.settled
        return settled


class _MemoryTransaction(_Reading):
    """Works on a copy that replaces the original at commit."""

    def __init__(self, tenant: str, data: _Tenant, now: datetime, end: Callable[[bool], None]) -> None:
        self._tenant = tenant
        self.data = data
        self._now = next_time(now, None if data.head is None else data.head.time)
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
