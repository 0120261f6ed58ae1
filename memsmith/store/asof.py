"""Reading at a point on both axes of time, and how what is believed changed."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol, TypeVar

from memsmith._canonical import require_text
from memsmith._clock import to_text
from memsmith.errors import ArgumentError
from memsmith.protocols import Clock, Reads, Rows
from memsmith.store.reading import memory_query, next_cursor
from memsmith.temporal import FOREVER, Believed, until
from memsmith.types import (
    FACT,
    Difference,
    Memory,
    MemoryStatus,
    Page,
    Point,
    Rectangle,
    Slot,
    Span,
    Version,
)

T = TypeVar("T")


class Reader(Protocol):
    """Runs a read, inside the transaction under way if there is one."""

    async def __call__(self, read: Callable[[Reads], Awaitable[T]], /) -> T:
        """Return what the read returns."""
        ...


@dataclass
class Newest:
    """The newest unit's time that is known of, as text: no later unit is as early."""

    time: str = ""


@dataclass(frozen=True)
class Source:
    """What reading takes of a store: a way to its storage, and its clock."""

    tenant: str
    now: Clock
    enter: Callable[[], None]
    """Raises where the store can't be used."""
    read: Reader
    newest: Newest
    provisional: Callable[[], bool]
    """Tells whether reads see what a transaction under way may still undo."""

    async def ask(self, question: Callable[[Reads, str], Awaitable[T]]) -> T:
        """Answer a question to the reads, given the tenant."""
        self.enter()
        return await self.read(lambda reads: question(reads, self.tenant))


class AsOf:
    """Reads what was valid at one moment, as the store believed it at another.

    Made by `MemoryStore.as_of`. Without `valid_at` each read is about the moment it is made, without
    `system_at` it uses what is believed by then. A `system_at` later than the newest change is pinned
    to that by the first read outside a transaction, so that every read of the handle sees the same.
    """

    def __init__(self, source: Source, valid_at: datetime | None, system_at: datetime | None) -> None:
        self._source = source
        self._valid_at = valid_at
        self._asked = system_at
        self._pinned: datetime | None = None

    async def get(self, memory_id: str) -> Memory | None:
        """Return a memory in the version believed then, or None where it does not hold."""
        require_text("memory_id", memory_id)
        found = await self.list(field_filters={"id": memory_id}, kind=None, limit=1)
        return found[0] if found else None

    async def list(
        self,
        status: MemoryStatus | str | None = None,
        session_id: str | None = None,
        field_filters: Mapping[str, Any] | None = None,
        limit: int = 50,
        offset: int = 0,
        order_by: str = "created_at",
        *,
        descending: bool = False,
        cursor: str | None = None,
        kind: str | None = FACT,
    ) -> Page[Memory]:
        """Return the memories that hold, as `MemoryStore.list` does; statuses are those of then."""
        query = memory_query(
            status=status, session_id=session_id, field_filters=field_filters, limit=limit, offset=offset,
            order_by=order_by, descending=descending, cursor=cursor, kind=kind,
        )  # fmt: skip
        query = replace(query, at=await self._point())
        found = await self._source.ask(lambda reads, tenant: reads.list(tenant, query))
        return Page(found, next_cursor(query, found))

    async def count(
        self,
        status: MemoryStatus | str | None = None,
        session_id: str | None = None,
        field_filters: Mapping[str, Any] | None = None,
        *,
        kind: str | None = FACT,
    ) -> int:
        """Return how many memories `list` would give on all its pages."""
        query = memory_query(
            status=status, session_id=session_id, field_filters=field_filters, limit=0, offset=0,
            order_by="created_at", descending=False, cursor=None, kind=kind,
        )  # fmt: skip
        query = replace(query, at=await self._point())
        return await self._source.ask(lambda reads, tenant: reads.count(tenant, query))

    async def history(
        self, memory_id: str | None = None, *, key: str | None = None, scope: str = "", kind: str = FACT
    ) -> builtins.list[Version]:
        """Return the versions of a memory, or of all that had a key, that were known by then.

        Whatever its status was; but what is quarantined or erased today is seen at no point.
        """
        believed = await self._believed()
        versions = await history_of(self._source, memory_id, key, scope, kind)
        hidden = {v.memory.id for v in versions if v.system_to is None and v.memory.status in _OUT_OF_SIGHT}
        versions = [v for v in versions if v.memory.id not in hidden]
        if believed is None:
            return versions
        known = [v for v in versions if v.system_from <= believed]
        return [replace(v, system_to=None) if until(v.system_to) > believed else v for v in known]

    async def timeline(self, key: str, *, scope: str = "", kind: str = FACT) -> builtins.list[Span]:
        """Return a key's values over valid time as believed then, in order; gaps are left out."""
        believed = await self._believed()
        members = await members_of(self._source, Slot(kind, scope, key))
        versions, segments = await told_of(self._source, members)
        statuses = {v.memory.id: v.memory.status for v in versions if v.system_to is None}
        then = {v.memory.id: v.memory for v in versions if _covers(v.system_from, v.system_to, believed)}
        slot = (kind, scope, key)
        spans = [
            _span(b, then[b.segment.memory_id])
            for b in segments
            if b.slot[:3] == slot
            and _covers(b.system_from, b.system_to, believed)
            and statuses[b.segment.memory_id] not in _OUT_OF_SIGHT
        ]
        return sorted((s for s in spans if s is not None), key=lambda s: (s.valid_from, s.memory.id))

    async def _point(self) -> Point:
        believed = await self._believed()
        if self._valid_at is None:
            now = self._source.now()
            # A clock that lags behind the newest unit does not hide what that unit said.
            return Point(now if believed is None else max(now, believed), believed, present=believed is None)
        return Point(self._valid_at, believed)

    async def _believed(self) -> datetime | None:
        """Return the moment of belief; None stands for whatever is believed by now."""
        if self._asked is None:
            return None
        if self._pinned is None and to_text(self._asked) < self._source.newest.time:
            self._pinned = self._asked
        if self._pinned is None:
            head = await self._source.ask(lambda reads, tenant: reads.head(tenant))
            newest = None if head is None else head.time
            pinned = self._asked if newest is None else min(self._asked, newest)
            if self._source.provisional():
                return pinned
            self._pinned = pinned
        return self._pinned


_OUT_OF_SIGHT = {MemoryStatus.QUARANTINED, MemoryStatus.ERASED}


def _covers(start: datetime, end: datetime | None, moment: datetime | None) -> bool:
    return end is None if moment is None else start <= moment < until(end)


def _span(believed: Believed, memory: Memory) -> Span | None:
    """Return where a segment's memory holds: no longer than it lives."""
    start, end = believed.segment.start, until(believed.segment.end)
    end = min(end, until(memory.expires_at))
    return Span(start, None if end == FOREVER else end, memory) if start < end else None


async def members_of(source: Source, slot: Slot) -> Sequence[str]:
    """Return the ids of all that ever had a key."""
    require_text("key", slot.key)
    require_text("scope", slot.scope, blank=True)
    require_text("kind", slot.kind)
    return await source.ask(lambda reads, tenant: reads.members(tenant, slot))


async def told_of(source: Source, ids: Sequence[str]) -> tuple[list[Version], list[Believed]]:
    """Return all versions of memories, and all that was ever effective of them."""
    versions = await versions_of(source, ids)
    return versions, await source.ask(lambda reads, tenant: reads.segments(tenant, ids))


async def versions_of(source: Source, ids: Sequence[str]) -> list[Version]:
    """Return all versions of memories."""
    return await source.ask(lambda reads, tenant: reads.versions(tenant, ids))


async def history_of(
    source: Source, memory_id: str | None, key: str | None, scope: str, kind: str
) -> list[Version]:
    """Return every version of a memory, or of all that had a key, as they came to be."""
    if (memory_id is None) == (key is None):
        raise ArgumentError("memory_id", "either a memory's id or a key", "both" if key else "neither")
    if key is not None:
        ids = await members_of(source, Slot(kind, scope, key))
    else:
        ids = [require_text("memory_id", memory_id)]
    versions = await versions_of(source, ids)
    return sorted(versions, key=lambda v: (v.system_from, v.memory.seq))


async def rectangles_of(source: Source, slot: Slot) -> list[Rectangle]:
    """Return what was ever effective on a key, in order of belief."""
    _, segments = await told_of(source, await members_of(source, slot))
    found = [
        Rectangle(b.segment.memory_id, b.segment.start, b.segment.end, b.system_from, b.system_to)
        for b in believed_together(segments)
        if b.slot[:3] == slot[:3]
    ]
    return sorted(found, key=lambda r: (r.system_from, r.valid_from, r.memory_id))


def believed_together(segments: Iterable[Believed]) -> list[Believed]:
    """Return segments with those joined that only the verbs of one transaction parted."""
    found: list[Believed] = []
    for believed in sorted(segments, key=lambda b: b.place):
        last = found[-1] if found else None
        if (
            last is not None
            and (last.slot, last.segment) == (believed.slot, believed.segment)
            and last.system_to == believed.system_from
        ):
            found[-1] = replace(last, system_to=believed.system_to)
        else:
            found.append(believed)
    return found


async def differences(source: Source, since: datetime, to: datetime) -> list[Difference]:
    """Return how memories changed between two moments of belief, in the order of their first change."""
    if to <= since:
        raise ArgumentError("system_to", f"a time after system_from ({to_text(since)})", to_text(to))
    first = await source.ask(lambda reads, tenant: reads.seq_at(tenant, since))
    last = await source.ask(lambda reads, tenant: reads.seq_at(tenant, to))
    touched: dict[str, None] = {}

    def visit(rows: Rows) -> None:
        touched.update((row.memory_id, None) for row in rows)

    at: int | None = first
    while at is not None and at < last:
        at = await source.ask(_scanning(at, min(PAGE, last - at), visit))
    ids = list(touched)
    found: list[Difference] = []
    for start in range(0, len(ids), PAGE):
        page = ids[start : start + PAGE]
        versions = await versions_of(source, page)
        before = {v.memory.id: v.memory for v in versions if _covers(v.system_from, v.system_to, since)}
        after = {v.memory.id: v.memory for v in versions if _covers(v.system_from, v.system_to, to)}
        for ident in page:
            was, became = before.get(ident), after.get(ident)
            if (was and was.version) != (became and became.version):
                found.append(Difference(ident, was, became))
    return found


def _scanning(
    after: int, limit: int, visit: Callable[[Rows], None]
) -> Callable[[Reads, str], Awaitable[int | None]]:
    return lambda reads, tenant: reads.scan(tenant, after, limit, visit)


PAGE = 1000
"""How many ledger rows, or memories, one question is about."""
