"""Both axes of time by brute force: (what, valid when, believed when) → what holds there.

The oracle keeps what was asserted in plain dictionaries and looks at all of it for every cell; it
shares no code with the library's rule. It hears of a verb once the store did it, and works out for
itself what that means; which verbs the store refuses is not its business.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from memsmith.testing.clock import START
from memsmith.types import Memory, MemoryStatus, Origin

S = MemoryStatus

TICKS = 13
TICK = timedelta(hours=1)
WAITING, COUNTED, ASIDE, OUT = "waiting", "counted", "aside", "out"

STATUSES = {
    WAITING: {S.PENDING_CONFIRMATION},
    COUNTED: {S.ACTIVE, S.SUPERSEDED, S.EXPIRED},
    ASIDE: {S.QUARANTINED},
    OUT: {S.RETRACTED, S.EXPIRED},
}
"""Which statuses a memory can have in the store, by where it stands here."""

MANY = "hobby"
"""The key that holds many values; every other holds one."""

Entity = tuple[str, str, str]
"""(scope, key, id); the id is empty but for facts that have no rivals: without a key, or of MANY."""

Stretch = tuple[datetime, datetime | None]
Facts = dict[str, "Fact"]


def at(tick: int) -> datetime:
    """Return the moment of a tick."""
    return START + tick * TICK


def within(moment: datetime, start: datetime, end: datetime | None) -> bool:
    """Tell whether a moment lies in a half-open stretch."""
    return start <= moment and (end is None or moment < end)


@dataclass(frozen=True)
class Fact:
    """What was asserted of one memory, and where it stands."""

    id: str
    scope: str
    key: str | None
    value: str
    start: datetime
    end: datetime | None
    expires: datetime | None
    origin: Origin = Origin.OWNER
    standing: str = WAITING
    order: int = 0
    before: str = ""
    """While aside: where it stood."""
    cuts: tuple[Stretch, ...] = ()

    @property
    def entity(self) -> Entity:
        """Return what it is about."""
        return self.scope, self.key or "", self.id if self.key in {None, MANY} else ""

    def covers(self, moment: datetime) -> bool:
        """Tell whether it claims a moment."""
        return within(moment, self.start, self.end) and not any(within(moment, *cut) for cut in self.cuts)

    def claims_nothing(self) -> bool:
        """Tell whether all of its time was taken out: what is left begins where it does, or a cut ends."""
        return not any(map(self.covers, [self.start, *(end for _, end in self.cuts if end is not None)]))

    def is_over(self, moment: datetime) -> bool:
        """Tell whether its lifetime is over."""
        return self.expires is not None and moment >= self.expires

    def edges(self) -> Iterable[datetime]:
        """Return every moment at which something about it begins or ends."""
        ends = [self.end, self.expires, *(edge for cut in self.cuts for edge in cut)]
        return [self.start, *(end for end in ends if end is not None)]

    def told(self) -> tuple[Any, ...]:
        """Return what a stored version says of it too."""
        return self.scope, self.key, self.value, self.start, self.end, self.expires, self.origin

    def blocks(self, other: Fact) -> bool:
        """Tell whether rejecting it blocks another: the same value, at or below it, on its key or none."""
        below = self.scope in {"", other.scope} or other.scope.startswith(self.scope + "/")
        return self.value == other.value and below and other.key in {None, self.key}


def told_of(memory: Memory) -> tuple[Any, ...]:
    """Return of a stored version what `Fact.told` returns of a fact."""
    stretch = memory.valid_from, memory.valid_to, memory.expires_at
    return memory.scope, memory.key, memory.content, *stretch, memory.origin


@dataclass
class Oracle:
    """Every fact by id, as of now and as of each unit."""

    facts: Facts = field(default_factory=dict[str, Fact])
    past: dict[datetime, Facts] = field(default_factory=dict[datetime, dict[str, Fact]])
    asserted: int = 0

    def holding(self, moment: datetime, facts: Facts) -> dict[Entity, Fact]:
        """Return what holds at a moment of valid time, of facts as they were believed at one time."""
        greatest: dict[Entity, Fact] = {}
        for fact in facts.values():
            if fact.standing == COUNTED and fact.covers(moment):
                rival = greatest.get(fact.entity, fact)
                greatest[fact.entity] = max(rival, fact, key=lambda each: (each.start, each.order))
        # What is set aside by now is seen at no point, and nothing takes its place there.
        return {
            entity: fact
            for entity, fact in greatest.items()
            if not fact.is_over(moment) and self.facts[fact.id].standing != ASIDE
        }

    def is_superseded(self, fact: Fact, now: datetime) -> bool:
        """Tell whether others took over the rest of a fact's time by now: it looks at every stretch."""
        rivals = {ident: each for ident, each in self.facts.items() if each.entity == fact.entity}
        edges = sorted({now, *(edge for each in rivals.values() for edge in each.edges())})
        claimed = [edge for edge in edges if fact.covers(edge)]
        counted = {ident: replace(each, expires=None) for ident, each in rivals.items()}
        held = [e for e in claimed if self.holding(e, counted).get(fact.entity) == counted[fact.id]]
        return (not held or held[-1] < claimed[-1]) and not any(edge >= now for edge in held)

    # -- what the verbs mean ----------------------------------------------------------------------

    def change(self, ident: str, **changes: Any) -> None:
        """Have a fact as changed from now on."""
        self.facts[ident] = replace(self.facts[ident], **changes)

    def place(self, ident: str, **changes: Any) -> None:
        """Give a fact its place: after all that were asserted before."""
        self.asserted += 1
        self.change(ident, standing=COUNTED, order=self.asserted, **changes)

    def endorse(self, ident: str, origin: Origin) -> None:
        """Let someone say again what a fact says: of more trust, it raises it and confirms what waits."""
        fact = self.facts[ident]
        if origin.rank > fact.origin.rank:
            self.change(ident, origin=origin)
            if fact.standing == WAITING:
                self.place(ident)

    def amend(self, ident: str, start: datetime, end: datetime | None) -> None:
        """Assert anew when a fact holds; what waits takes its place when it is confirmed."""
        self.change(ident, start=start, end=end)
        if self.facts[ident].standing == COUNTED:
            self.place(ident)

    def cut(self, ident: str, stretch: Stretch) -> None:
        """Take a portion out; of nothing left, nothing stays."""
        self.change(ident, cuts=(*self.facts[ident].cuts, stretch))
        if self.facts[ident].claims_nothing():
            self.change(ident, standing=OUT)

    def set_aside(self, ident: str) -> None:
        """Put a fact out of sight."""
        self.change(ident, standing=ASIDE, before=self.facts[ident].standing)

    def take_back(self, ident: str, now: datetime) -> None:
        """Return what was set aside to where it stood; what waited too long is out."""
        fact = self.facts[ident]
        late = fact.before == WAITING and fact.is_over(now)
        self.change(ident, standing=OUT if late else fact.before, before="")

    def expire(self, now: datetime) -> None:
        """Take out what waited too long; what was asserted only ends."""
        for fact in list(self.facts.values()):
            if fact.standing == WAITING and fact.is_over(now):
                self.change(fact.id, standing=OUT)

    def remember(self, times: Iterable[datetime]) -> None:
        """Keep what is believed now as what was believed from each of these times on."""
        for time in times:
            self.past[time] = dict(self.facts)
