"""Valid time: intervals, and which member of a chain holds when. Pure.

The rule, known here alone: at any moment a chain's value is that of the member which covers the
moment and began last; of several that began together, the one asserted last. `effective` turns that
into segments, `Chain` keeps them while members come, go and change, touching only what changes.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeAlias

from memsmith._clock import LAST
from memsmith.types import Displaced, Interval, Memory, MemoryStatus, Slot

BEGINNING: Final = datetime.min.replace(tzinfo=UTC)
FOREVER: Final = LAST
"""Stands for an open end where ends are compared."""


def until(end: datetime | None) -> datetime:
    """Return an end that can be compared."""
    return FOREVER if end is None else end


def subtract(interval: Interval, taken: Iterable[Interval]) -> list[Interval]:
    """Return what is left of an interval, in order."""
    left = [interval]
    for out in taken:
        stop = until(out.end)
        remaining: list[Interval] = []
        for piece in left:
            if stop <= piece.start or out.start >= until(piece.end):
                remaining.append(piece)
                continue
            if piece.start < out.start:
                remaining.append(Interval(piece.start, out.start))
            if stop < until(piece.end):
                remaining.append(Interval(stop, piece.end))
        left = remaining
    return left


Rank: TypeAlias = tuple[datetime, int]
"""(asserted start, asserted order): the greater holds."""


def subtract_all(intervals: Iterable[Interval], taken: Sequence[Interval]) -> list[Interval]:
    """Return what is left of each of several intervals, in order."""
    return [piece for interval in intervals for piece in subtract(interval, taken)]


class Segment(NamedTuple):
    """A stretch of valid time in which a member holds: what is effective of it, or a part of that."""

    memory_id: str
    start: datetime
    end: datetime | None
    rank: Rank


@dataclass(frozen=True, slots=True)
class Claim:
    """What a counted member asserts: an interval, less the portions retracted from it."""

    memory_id: str
    asserted: Interval
    order: int
    retracted: tuple[Interval, ...] = ()

    @property
    def rank(self) -> Rank:
        """Its place among the members of its chain."""
        return self.asserted.start, self.order

    def covers(self) -> list[Segment]:
        """Return the stretches it would hold if it were alone, in order."""
        pieces = subtract(self.asserted, self.retracted)
        return [Segment(self.memory_id, start, end, self.rank) for start, end in pieces]


def effective(pieces: Iterable[Segment]) -> list[Segment]:
    """Return which of overlapping pieces holds when: disjoint, in order, neighbours of one member joined."""
    waiting = sorted(pieces, key=lambda piece: piece.start)
    # Reversed, so that the heap's smallest is the piece that holds.
    alive: list[_Reversed] = []
    found: list[Segment] = []
    position = 0
    at: datetime | None = None
    while position < len(waiting) or alive:
        if not alive:
            at = waiting[position].start
        assert at is not None
        while position < len(waiting) and waiting[position].start <= at:
            heapq.heappush(alive, _Reversed(waiting[position]))
            position += 1
        while alive and until(alive[0].piece.end) <= at:
            heapq.heappop(alive)
        if not alive:
            continue
        holds = alive[0].piece
        stop = until(holds.end)
        # It holds until it ends or a greater one starts.
        following = position
        while following < len(waiting) and waiting[following].start < stop:
            if waiting[following].rank > holds.rank:
                stop = waiting[following].start
                break
            following += 1
        _extend(found, Segment(holds.memory_id, at, None if stop == FOREVER else stop, holds.rank))
        while position < len(waiting) and waiting[position].start < stop:
            heapq.heappush(alive, _Reversed(waiting[position]))
            position += 1
        if stop == FOREVER:
            break
        at = stop
    return found


@dataclass(slots=True)
class _Reversed:
    piece: Segment

    def __lt__(self, other: _Reversed) -> bool:
        return self.piece.rank > other.piece.rank


def _extend(found: list[Segment], segment: Segment) -> None:
    if found:
        last = found[-1]
        if last.memory_id == segment.memory_id and last.rank == segment.rank and last.end == segment.start:
            found[-1] = last._replace(end=segment.end)
            return
    found.append(segment)


# -- members and chains ---------------------------------------------------------------------------


def claim_of(memory: Memory) -> Claim | None:
    """Return what a memory asserts on its chain; None while it has no part in it."""
    if not memory.counted:
        return None
    start = memory.valid_from
    assert start is not None
    return Claim(memory.id, Interval(start, memory.valid_to), memory.asserted_order, memory.retracted_during)


def covers(memory: Memory) -> list[Interval]:
    """Return the stretches a memory asserts, in order, whether it is counted or not."""
    start = memory.valid_from
    assert start is not None
    return subtract(Interval(start, memory.valid_to), memory.retracted_during)


def joined(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Return the same stretches, in order, with what overlaps or touches as one."""
    found: list[Interval] = []
    for interval in sorted(intervals, key=lambda each: each.start):
        if found and interval.start <= until(found[-1].end):
            if until(interval.end) > until(found[-1].end):
                found[-1] = found[-1]._replace(end=interval.end)
        else:
            found.append(interval)
    return tuple(found)


def exposed(current: Iterable[Segment], claim: Claim | None) -> list[Interval]:
    """Return where a member of a chain that now claims `claim` may give way to what lies beneath.

    `current` are the segments it holds so far.
    """
    held = [Interval(s.start, s.end) for s in current if claim is None or claim.rank < s.rank]
    if claim is None:
        return held
    kept = [Interval(piece.start, piece.end) for piece in claim.covers()]
    for segment in current:
        if claim.rank >= segment.rank:
            held += subtract(Interval(segment.start, segment.end), kept)
    return held


def rearranged(
    current: Sequence[Segment], memory_id: str, claim: Claim | None, beneath: Iterable[Claim] = ()
) -> list[Segment]:
    """Return a chain's segments after one member changed to `claim` (None: it is out).

    `current` may be a part of the chain from some moment on, if nothing before it changes.
    `beneath` are the members that cover what the change exposes; others are not asked.
    """
    own = [segment for segment in current if segment.memory_id == memory_id]
    pieces = [segment for segment in current if segment.memory_id != memory_id]
    if claim is not None:
        pieces += claim.covers()
    gaps = exposed(own, claim)
    for other in beneath:
        for piece in other.covers():
            for gap in gaps:
                start = max(piece.start, gap.start)
                end = min(until(piece.end), until(gap.end))
                if start < end:
                    pieces.append(piece._replace(start=start, end=None if end == FOREVER else end))
    return effective(pieces)


def taken(current: Sequence[Segment], held: Iterable[Segment]) -> tuple[Displaced, ...]:
    """Return whose place a newcomer takes in the segments it would hold; both are in order."""
    found: list[Displaced] = []
    for own in held:
        at = own.start
        for segment in current:
            start, end = max(segment.start, at), min(until(segment.end), until(own.end))
            if start >= end:
                continue
            if at < start:
                found.append(Displaced(None, at, start))
            found.append(Displaced(segment.memory_id, start, None if end == FOREVER else end))
            at = end
        if at < until(own.end):
            found.append(Displaced(None, at, own.end))
    return tuple(found)


def is_superseded(memory: Memory, held: Iterable[Segment], now: datetime) -> bool:
    """Tell whether others have taken over the rest of a member's time by `now`.

    `held` are its current segments; those that ended before both `now` and what changed last may be
    left out.
    """
    last = until(covers(memory)[-1].end)
    return not any(until(segment.end) > now or until(segment.end) == last for segment in held)


def is_visible(memory: Memory, status_now: MemoryStatus, held: Iterable[Interval], at: datetime) -> bool:
    """Tell whether a memory holds at a moment of valid time.

    `memory` is the version believed and `held` what was effective of it by then; that it was
    quarantined or erased since counts at every point.
    """
    return (
        memory.counted
        and status_now not in {MemoryStatus.QUARANTINED, MemoryStatus.ERASED}
        and memory.status is not MemoryStatus.ERASED
        and (memory.expires_at is None or at < memory.expires_at)
        and any(start <= at < until(end) for start, end in held)
    )


Place: TypeAlias = tuple[str, datetime, datetime]
"""What tells stored segments apart: memory id, start, and since when it is believed."""


@dataclass(slots=True)
class Believed:
    """A segment of a chain, and how long it was believed."""

    slot: Slot
    segment: Segment
    system_from: datetime
    system_to: datetime | None = None

    @property
    def place(self) -> Place:
        """Return what tells it apart."""
        return self.segment.memory_id, self.segment.start, self.system_from


class Chains:
    """The current segments of chains, and what is to be written of their changes.

    Of a chain no more need be loaded than its segments from some moment on.
    """

    def __init__(self) -> None:
        self._current: dict[Slot, list[Segment]] = {}
        self._believed: dict[tuple[Slot, Segment], Believed] = {}
        self._known: set[Place] = set()
        self._just_closed: dict[tuple[Slot, Segment], Believed] = {}
        self.opened: dict[Place, Believed] = {}
        """Segments to be added, those closed again later among them."""
        self.closed: dict[Place, Believed] = {}
        """Stored segments that are no longer believed."""
        self.dropped: dict[Place, Believed] = {}
        """Stored segments of the very unit under way that are to go without a trace."""

    def begin(self) -> None:
        """Start another unit."""
        self._just_closed.clear()

    def load(self, slots: Iterable[Slot], stored: Iterable[Believed]) -> None:
        """Take current segments of chains from storage; those known already keep what became of them here.

        One under no name stands for several, which nobody may change; it gives way to a later load.
        """
        for slot in slots:
            if slot in self._current:
                self._current[slot] = [s for s in self._current[slot] if s.memory_id]
        for believed in stored:
            if believed.segment.memory_id == "":
                current = self._current.setdefault(believed.slot, [])
                current.insert(bisect_left(current, believed.segment.start, key=_start), believed.segment)
            elif believed.place not in self._known:
                self._known.add(believed.place)
                self._believed[believed.slot, believed.segment] = believed
                current = self._current.setdefault(believed.slot, [])
                at = bisect_left(current, believed.segment.start, key=_start)
                current.insert(at, believed.segment)

    def from_on(self, slot: Slot, moment: datetime) -> list[Segment]:
        """Return the current segments that end at or after a moment, in order."""
        current = self._current.get(slot)
        if not current:
            return []
        # Disjoint and in order, so the ends are in order too.
        return current[bisect_left(current, moment, key=_end) :]

    def replace(
        self, slot: Slot, old: Sequence[Segment], new: Sequence[Segment], now: datetime
    ) -> Callable[[], None]:
        """Put `new` in place of `old`, as returned by `from_on`; returns how to undo it."""
        current = self._current.setdefault(slot, [])
        first = len(current) - len(old)
        self._current[slot] = [*current[:first], *new]
        undo: list[Callable[[], object]] = [lambda: self._current.__setitem__(slot, current)]
        kept = set(new)
        for segment in old:
            if segment not in kept:
                undo.append(self._close((slot, segment), now))
        kept = set(old)
        for segment in new:
            if segment not in kept:
                undo.append(self._open((slot, segment), now))

        def undo_all() -> None:
            for step in reversed(undo):
                step()

        return undo_all

    def _close(self, held: tuple[Slot, Segment], now: datetime) -> Callable[[], object]:
        believed = self._believed.pop(held)
        place = believed.place
        stored = place not in self.opened
        if believed.system_from == now:
            if stored:
                self.dropped[place] = believed
            else:
                del self.opened[place]
        else:
            believed.system_to = now
            self._just_closed[held] = believed
            if stored:
                self.closed[place] = believed

        def undo() -> None:
            believed.system_to = None
            self._believed[held] = believed
            self._just_closed.pop(held, None)
            self.dropped.pop(place, None)
            self.closed.pop(place, None)
            if not stored:
                self.opened[place] = believed

        return undo

    def _open(self, held: tuple[Slot, Segment], now: datetime) -> Callable[[], object]:
        again = self._just_closed.pop(held, None)
        if again is not None:
            # Closed and opened within one unit: nothing happened to it.
            stored = self.closed.pop(again.place, None)
            again.system_to = None
            self._believed[held] = again

            def close_again() -> None:
                again.system_to = now
                self._just_closed[held] = again
                del self._believed[held]
                if stored is not None:
                    self.closed[again.place] = again

            return close_again
        believed = Believed(*held, now)
        self._believed[held] = believed
        self.opened[believed.place] = believed

        def undo() -> None:
            del self._believed[held], self.opened[believed.place]

        return undo

    def __iter__(self) -> Iterator[Believed]:
        """Iterate over every segment ever opened here."""
        return iter(self.opened.values())


def _start(segment: Segment) -> datetime:
    return segment.start


def _end(segment: Segment) -> datetime:
    return until(segment.end)
