"""Reads over one SQLite connection: each a single hop to its thread."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar

import orjson

from memsmith._canonical import canonical
from memsmith._clock import from_text, to_text
from memsmith.backends.sqlite.listing import compose, compose_count, found, merged
from memsmith.backends.sqlite.statements import SQL, head
from memsmith.errors import DamagedRecordError, LedgerError
from memsmith.ledger.entry import Row
from memsmith.ledger.record import TOMBSTONE_COLUMNS, memory_of_row, tombstone_of
from memsmith.protocols import Memories, MemoryQuery, Rows, Segments, Tombstones, Versions
from memsmith.temporal import Believed, Segment
from memsmith.types import Head, Memory, Outcome, Slot, Tombstone, Version
from memsmith.wants import Beneath, Loaded, OutcomeKey, OutcomeRecord, Wants

T = TypeVar("T")

_NEWEST: Final = 2**62
_PIECE: Final = 100
_row: Final[Callable[[Any], Row]] = partial(tuple.__new__, Row)  # pyright: ignore[reportUnknownMemberType]  # Row._make without its check
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def fetch(connection: sqlite3.Connection, tenant: str, wants: Wants, now: datetime) -> Loaded:
    """Load everything wanted; the number of statements does not depend on how much is."""

    def rows(name: str, wanted: object, tenants: int = 1) -> list[Any]:
        return connection.execute(SQL[name], (canonical(wanted).decode(), *[tenant] * tenants)).fetchall()

    found: list[Any] = []
    if wants.memories:
        found += rows("memories_by_id", list(wants.memories))
    if wants.values:
        found += rows("memories_by_value", list(wants.values))
    segments: list[Believed] = []
    if wants.chains or wants.beneath:
        segments = _fetch_chains(rows, wants, now, found)
    handed_over: list[Any] = []
    if wants.handed_over is not None:
        after, limit = wants.handed_over
        values = (tenant, after, to_text(now), limit)
        handed_over = connection.execute(SQL["memories_handed_over"], values).fetchall()
    due: list[Any] = []
    if wants.due:
        due = connection.execute(SQL["memories_due"], (tenant, to_text(now), wants.due)).fetchall()
    stones: list[Any] = []
    if wants.blocks:
        stones += rows("tombstones_by_digest", list(wants.blocks))
    if wants.tombstones:
        stones += rows("tombstones_by_id", list(wants.tombstones))
    dependants: dict[str, list[str]] = {}
    if wants.dependants:
        for parent, child in rows("dependants", list(wants.dependants)):
            dependants.setdefault(parent, []).append(child)
    return Loaded(
        memories={row[1]: memory_of_row(row) for row in found + due + handed_over}.values(),
        tombstones=[_tombstone(row) for row in stones],
        outcomes=[_outcome(row) for row in rows("outcomes", list(wants.outcomes))] if wants.outcomes else (),
        dependants=dependants,
        due=[row[1] for row in due],
        handed_over=[row[1] for row in handed_over],
        segments=segments,
    )


def _fetch_chains(
    rows: Callable[[str, object, int], list[Any]], wants: Wants, now: datetime, found: list[Any]
) -> list[Believed]:
    """Return the segments wanted; the memories go to `found`."""
    segments: list[Believed] = []
    if wants.chains:
        asked = [[*slot, to_text(t.moment), to_text(t.above)] for slot, t in wants.chains.items()]
        # Joining takes longer than it spares where little is to be joined: of what begins from now on.
        late = to_text(now)
        for name, some in (
            ("chain_segments", [one for one in asked if one[-1] >= late]),
            ("chain_segments_joined", [one for one in asked if one[-1] < late]),
        ):
            segments += [segment_of(row) for row in rows(name, some, 2)] if some else []
        found += rows("memories_by_slot", asked, 1)
        if first := _first_two(segments):
            found += rows("memories_by_id", first, 1)
    if wants.beneath:
        found += rows("memories_beneath", [_asked(one) for one in wants.beneath], 2)
    return segments


def _asked(wanted: Beneath) -> list[Any]:
    slot, start, end, besides, pruned = wanted
    last = None if end is None else to_text(end)
    return [slot.kind, slot.scope, slot.key, to_text(start), last, pruned, besides]


def segment_of(row: Any) -> Believed:
    """Rebuild a segment from its columns; `system_to` comes last, where it is asked for."""
    kind, scope, key, lane, memory_id, valid_from, valid_to, begun, order, since, *until = row
    start, end = from_text(valid_from), None if valid_to is None else from_text(valid_to)
    segment = Segment(memory_id, start, end, (start if begun == valid_from else from_text(begun), order))
    over = from_text(until[0]) if until and until[0] is not None else None
    return Believed(Slot(kind, scope, key, lane), segment, from_text(since), over)


def _first_two(segments: Sequence[Believed]) -> list[str]:
    """Return the members a change is most likely about: the first two of each chain."""
    seen: dict[Slot, list[str]] = {}
    for believed in segments:
        ids = seen.setdefault(believed.slot, [])
        if len(ids) < 2:
            ids.append(believed.segment.memory_id)
    return [ident for ids in seen.values() for ident in ids]


def _tombstone(row: Any) -> Tombstone:
    return tombstone_of(dict(zip(TOMBSTONE_COLUMNS, row, strict=True)))


def _outcome(row: Any) -> OutcomeRecord:
    actor, verb, key, codes, ids, digest, at = row
    outcome = Outcome(verb, key, actor, tuple(orjson.loads(codes)), tuple(orjson.loads(ids)), from_text(at))
    return OutcomeRecord(outcome, digest)


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
        visit(list(map(_row, rows)))
        last = after = rows[-1][0]
        limit -= len(rows)
    return last


def versions(connection: sqlite3.Connection, tenant: str, memory_ids: Sequence[str]) -> Versions:
    """Return every version of memories, by id and then by time."""
    ids = canonical(list(memory_ids)).decode()
    rows = connection.execute(SQL["versions"], (ids, tenant, ids, tenant)).fetchall()
    return sorted(map(_version, rows), key=lambda v: (v.memory.id, v.system_from))


def _version(row: Any) -> Version:
    *columns, system_to, action, actor, payload = row
    memory = memory_of_row(columns)
    try:
        over = None if system_to is None else from_text(system_to)
        reason = None if payload is None else orjson.loads(payload).get("reason")
    except (AttributeError, TypeError, ValueError) as error:
        raise DamagedRecordError(f"a version of memory {memory.id}", error) from error
    return Version(memory, memory.system_from or memory.updated_at, over, action, actor, reason)


def seq_at(connection: sqlite3.Connection, tenant: str, moment: datetime) -> int:
    """Find the last ledger row written by a moment: times rise with the numbers."""
    newest = head(connection, tenant)
    text = to_text(moment)
    low, high = 0, 0 if newest is None else newest.count
    while low < high:
        middle = (low + high + 1) // 2
        row = connection.execute(SQL["row_time"], (tenant, middle)).fetchone()
        if row is None:
            raise LedgerError(f"Ledger row {middle} is missing; ask verify()")
        low, high = (middle, high) if row[0] <= text else (low, middle - 1)
    return low


class SQLiteReads(ABC):
    """The reads of the backend protocol over any way to reach a connection."""

    @abstractmethod
    async def _hop(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function on a database thread."""

    async def fetch(self, tenant: str, wants: Wants, now: datetime) -> Loaded:
        return await self._hop(lambda connection: fetch(connection, tenant, wants, now))

    async def get(self, tenant: str, memory_id: str) -> Memory | None:
        row: Any = await self._hop(lambda c: c.execute(SQL["memory"], (tenant, memory_id)).fetchone())
        return None if row is None else memory_of_row(row)

    async def list(self, tenant: str, query: MemoryQuery) -> Memories:
        halves = await self._hop(lambda connection: found(connection, compose, tenant, query))
        return [memory_of_row(row) for row in merged(halves, query)]

    async def count(self, tenant: str, query: MemoryQuery) -> int:
        parts = await self._hop(lambda connection: found(connection, compose_count, tenant, query))
        return sum(rows[0][0] for rows in parts)

    async def members(self, tenant: str, slot: Slot) -> Sequence[str]:
        values = (tenant, slot.key, slot.scope, slot.kind) * 2
        rows = await self._hop(lambda c: c.execute(SQL["members"], values).fetchall())
        # Sorted here: asked to, the database would walk all memories in order of their ids.
        return sorted(row[0] for row in rows)

    async def versions(self, tenant: str, memory_ids: Sequence[str]) -> Versions:
        return await self._hop(lambda connection: versions(connection, tenant, memory_ids))

    async def segments(self, tenant: str, memory_ids: Sequence[str]) -> Segments:
        values = (canonical(list(memory_ids)).decode(), tenant)
        rows = await self._hop(lambda c: c.execute(SQL["segments"], values).fetchall())
        return [segment_of(row) for row in rows]

    async def strays(self, tenant: str) -> Sequence[str]:
        rows = await self._hop(lambda c: c.execute(SQL["strays"], (tenant, tenant)).fetchall())
        return sorted(row[0] for row in rows)

    async def seq_at(self, tenant: str, moment: datetime) -> int:
        return await self._hop(lambda connection: seq_at(connection, tenant, moment))

    async def audit(self, tenant: str, memory_id: str | None, limit: int, before: int | None) -> Rows:
        bounds = (_NEWEST if before is None else before, limit)
        name, values = (
            ("audit", (tenant, *bounds))
            if memory_id is None
            else ("audit_of_memory", (tenant, memory_id, *bounds))
        )
        rows = await self._hop(lambda c: c.execute(SQL[name], values).fetchall())
        return list(map(_row, rows))

    async def ledger(self, tenant: str, after: int, limit: int) -> Rows:
        rows = await self._hop(lambda connection: ledger(connection, tenant, after, limit))
        return list(map(_row, rows))

    async def scan(self, tenant: str, after: int, limit: int, visit: Callable[[Rows], object]) -> int | None:
        return await self._hop(lambda connection: scan(connection, tenant, after, limit, visit))

    async def head(self, tenant: str) -> Head | None:
        return await self._hop(lambda connection: head(connection, tenant))

    async def tombstones(self, tenant: str, *, lifted: bool, after: str, limit: int) -> Tombstones:
        rows = await self._hop(
            lambda c: c.execute(SQL["tombstones"], (tenant, after, lifted, limit)).fetchall()
        )
        return [_tombstone(row) for row in rows]

    async def outcome(self, tenant: str, key: OutcomeKey) -> OutcomeRecord | None:
        loaded = await self._hop(lambda c: fetch(c, tenant, Wants(outcomes={key}), _NEVER))
        return next(iter(loaded.outcomes), None)
