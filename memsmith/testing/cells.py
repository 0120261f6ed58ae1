"""Comparing cells: what a store answers for points on both axes, and what the oracle says.

`list` answers for all there is at once, so it is asked about every cell; the other reads take turns over
the points of a history. Several units share a tick of system time: cells are those of the last one, as the
tick left them, and what the others left is asked about at a third of the ticks, when they are made and at
the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import pairwise

from memsmith.protocols import Clock
from memsmith.store.asof import AsOf
from memsmith.store.store import MemoryStore
from memsmith.testing.clock import START
from memsmith.testing.oracle import (
    ASIDE,
    MANY,
    STATUSES,
    TICK,
    TICKS,
    Entity,
    Fact,
    Facts,
    Oracle,
    at,
    told_of,
    within,
)
from memsmith.types import Memory, Span, Version

KEYS = (("", "a"), ("", "b"), ("s", "a"), ("", MANY))
"""(scope, key) of every key in the histories."""


class Cells:
    """The cells of one store, beside those of the oracle."""

    def __init__(self, store: MemoryStore, oracle: Oracle, clock: Clock) -> None:
        self._store = store
        self._oracle = oracle
        self._clock = clock
        self._held: dict[tuple[datetime, datetime | None], dict[Entity, Fact]] = {}

    # -- after each step ------------------------------------------------------------------------

    async def compare_now(self) -> None:
        """Compare what holds now: the clock's now, or the newest unit's where that is later."""
        self._held.clear()
        now = max([self._clock(), *self._oracle.past])
        await self._compare_list(self._store.as_of(), now, None, "now")

    async def compare_refused(self, step: int) -> None:
        """Compare what holds now after a step that was refused, and what holds at one tick."""
        await self.compare_now()
        await self._compare_at(step % TICKS, None)

    async def compare_step(self, before: Facts, previous: datetime | None, step: int) -> None:
        """Compare what a unit could have changed: all ticks of what it touched, as believed now and before.

        What holds at all is compared now and at a third of the ticks, which take turns.
        """
        facts = self._oracle.facts
        touched = {ident for ident, fact in facts.items() if before.get(ident) is not fact}
        entities = {f.entity for ident in touched for f in (facts[ident], before.get(ident)) if f is not None}
        await self.compare_now()
        alone = any(not key for _, key, _ in entities)
        for tick in range(TICKS):
            if alone or tick % 3 == step % 3:
                await self._compare_at(tick, None)
        for place in sorted({(scope, key) for scope, key, _ in entities if key}):
            await self._compare_timeline(place, None)
            if previous is not None:
                await self._compare_timeline(place, previous)
        if previous is not None:
            await self._compare_at(step % TICKS, previous)
            for number, ident in enumerate(sorted(touched)):
                await self._compare_get(ident, (step + number) % TICKS, previous)

    # -- at the end -----------------------------------------------------------------------------

    async def compare_all(self) -> None:
        """Compare every cell: each entity, at each tick, as believed when each tick ended."""
        await self.compare_now()
        ids = list(self._oracle.facts)
        ends = self._ends()
        for row, believed in enumerate(self._oracle.past):
            handle = self._store.as_of(valid_at=believed, system_at=believed)
            await self._compare_list(handle, believed, believed, f"at {believed} as believed then")
            for tick in range(TICKS) if believed in ends else range(row % 3, TICKS, 3):
                await self._compare_at(tick, believed, counted=(row + tick) % 4 == 0)
                if ids and (row + tick) % 4 == 1:
                    await self._compare_get(ids[(row * TICKS + tick) // 4 % len(ids)], tick, believed)
            await self._compare_timeline(KEYS[row % len(KEYS)], believed)
            if ids:
                await self._compare_past_history(ids[row % len(ids)], believed)
        for place in KEYS:
            await self._compare_timeline(place, None)
            await self._compare_key_history(place)
        for ident in ids:
            self._compare_versions(ident, await self._store.history(ident))

    async def compare_with(self, original: MemoryStore, *, wholly: bool) -> None:
        """Compare a store that took in another: versions and rectangles, and cells in turns or wholly."""
        await self.compare_now()
        for ident in self._oracle.facts:
            assert await self._store.history(ident) == await original.history(ident)
        for scope, key in KEYS:
            found = await self._store.rectangles(key, scope=scope)
            assert found == await original.rectangles(key, scope=scope)
        if wholly:
            await self.compare_all()
            return
        for row, believed in enumerate([*self._oracle.past, None]):
            await self._compare_timeline(KEYS[row % len(KEYS)], believed)
            await self._compare_at(row % TICKS, believed)

    def _ends(self) -> set[datetime]:
        """Return the time of the last unit of each tick."""
        return set({(time - START) // TICK: time for time in self._oracle.past}.values())

    # -- one point ------------------------------------------------------------------------------

    def _facts_at(self, believed: datetime | None) -> Facts:
        return self._oracle.facts if believed is None else self._oracle.past[believed]

    def _holding(self, moment: datetime, believed: datetime | None) -> dict[Entity, Fact]:
        point = moment, believed
        if point not in self._held:
            self._held[point] = self._oracle.holding(moment, self._facts_at(believed))
        return self._held[point]

    async def _compare_at(self, tick: int, believed: datetime | None, *, counted: bool = False) -> None:
        handle = self._store.as_of(valid_at=at(tick), system_at=believed)
        where = f"at tick {tick} as believed at {believed or 'present'}"
        number = await self._compare_list(handle, at(tick), believed, where)
        if counted:
            found = await handle.count()
            assert found == number, f"the store counts {found} {where}, the oracle {number}"

    async def _compare_list(
        self, handle: AsOf, moment: datetime, believed: datetime | None, where: str
    ) -> int:
        expected = {entity: _cell(fact) for entity, fact in self._holding(moment, believed).items()}
        found: dict[Entity, tuple[str, str]] = {}
        for memory in await handle.list(limit=1000):
            entity = _entity(memory)
            assert entity not in found, f"{entity} has two values {where}"
            found[entity] = memory.id, memory.content
        assert found == expected, f"{where} the store has {found}, the oracle {expected}"
        return len(found)

    async def _compare_get(self, ident: str, tick: int, believed: datetime | None) -> None:
        facts = self._facts_at(believed)
        holds = ident in facts and self._holding(at(tick), believed).get(facts[ident].entity) is facts[ident]
        expected = _cell(facts[ident]) if holds else None
        memory = await self._store.as_of(valid_at=at(tick), system_at=believed).get(ident)
        found = None if memory is None else (memory.id, memory.content)
        assert found == expected, (
            f"at tick {tick} as believed at {believed or 'present'} get gives {found}, the oracle {expected}"
        )

    async def _compare_timeline(self, place: tuple[str, str], believed: datetime | None) -> None:
        scope, key = place
        spans = await self._store.timeline(key, scope=scope, system_at=believed)
        for tick in range(TICKS):
            holding = self._holding(at(tick), believed).items()
            expected = sorted(_cell(fact) for entity, fact in holding if entity[:2] == place)
            found = _spans_at(spans, at(tick))
            assert found == expected, (
                f"the timeline of {key} in {scope!r} has {found} at tick {tick} as believed at "
                f"{believed or 'present'}, the oracle {expected}"
            )

    # -- versions -------------------------------------------------------------------------------

    def _compare_versions(self, ident: str, versions: Iterable[Version]) -> None:
        """Compare a memory's versions with what was believed of it after each unit."""
        waiting = list(versions)
        for one, following in pairwise(waiting):
            assert one.system_from < following.system_from, f"{ident} has a version of no length"
            assert one.system_to == following.system_from, f"{ident} has a gap in its history"
        assert waiting[-1].system_to is None, f"{ident} has no version of now"
        assert all(version.system_from in self._oracle.past for version in waiting)
        for believed, facts in self._oracle.past.items():
            then = [v.memory for v in waiting if within(believed, v.system_from, v.system_to)]
            self._compare_told(ident, then, facts.get(ident), believed)

    def _compare_told(self, ident: str, then: list[Memory], fact: Fact | None, believed: datetime) -> None:
        found = [told_of(memory) for memory in then]
        expected = [] if fact is None else [fact.told()]
        assert found == expected, f"as believed at {believed} {ident} was {found}, the oracle has {expected}"
        for memory in then:
            assert fact is not None
            assert memory.status in STATUSES[fact.standing], f"{ident} was {memory.status} at {believed}"

    async def _compare_past_history(self, ident: str, believed: datetime) -> None:
        """Compare what the handle on a moment of belief knows of a memory's versions."""
        found = await self._store.as_of(system_at=believed).history(ident)
        hidden = self._oracle.facts[ident].standing == ASIDE
        fact = None if hidden else self._oracle.past[believed].get(ident)
        assert all(v.system_from <= believed for v in found)
        self._compare_told(ident, [v.memory for v in found if v.system_to is None], fact, believed)

    async def _compare_key_history(self, place: tuple[str, str]) -> None:
        """Compare whose versions a key's history has: of all that have it, or had it once."""
        scope, key = place
        facts = self._oracle.facts.values()
        had = {f.id for f in facts if (f.scope, f.key) == place}
        for past in self._oracle.past.values():
            had |= {f.id for f in past.values() if (f.scope, f.key) == place}
        versions = await self._store.history(key=key, scope=scope)
        found = {version.memory.id for version in versions}
        assert found == had, f"the history of {place} is of {found}, not of {had}"
        assert versions == sorted(versions, key=lambda v: (v.system_from, v.memory.seq))


def _cell(fact: Fact) -> tuple[str, str]:
    return fact.id, fact.value


def _entity(memory: Memory) -> Entity:
    return memory.scope, memory.key or "", memory.id if memory.key in {None, MANY} else ""


def _spans_at(spans: Iterable[Span], moment: datetime) -> list[tuple[str, str]]:
    held = [span.memory for span in spans if within(moment, span.valid_from, span.valid_to)]
    return sorted((memory.id, memory.content) for memory in held)
