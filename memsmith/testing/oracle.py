"""Both axes of time against brute force: every cell (what, valid when, believed when) of a history.

The oracle keeps what was asserted in plain lists and looks at all of it for every cell; it shares no
code with the library's rule. Subclass the machine, say how the backend is made, and hand its
`TestCase` to pytest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from memsmith.errors import MemsmithError
from memsmith.protocols import StorageBackend
from memsmith.store.store import MemoryStore
from memsmith.testing.clock import START, ManualClock
from memsmith.types import Accepted, Memory, MemoryStatus, PendingConfirmation, ProposalInput
from memsmith.validators.confidence import ConfidenceThreshold

T = TypeVar("T")

TICKS = 13
TICK = timedelta(hours=1)
WAITING, COUNTED, ASIDE, OUT = "waiting", "counted", "aside", "out"

Entity = tuple[str, str]
"""(scope, key); a fact without a key is its own: ("", its id)."""


def at(tick: int) -> datetime:
    """Return the moment of a tick."""
    return START + tick * TICK


@dataclass
class Fact:
    """What was asserted of one memory, and where it stands."""

    id: str
    entity: Entity
    value: str
    start: datetime
    end: datetime | None
    expires: datetime | None
    standing: str
    order: int = 0
    before: str = ""
    """While aside: where it stood."""
    cuts: list[tuple[datetime, datetime | None]] = field(default_factory=list[Any])

    def covers(self, moment: datetime) -> bool:
        """Tell whether it claims a moment."""
        return _within(moment, self.start, self.end) and not any(_within(moment, *cut) for cut in self.cuts)


def _within(moment: datetime, start: datetime, end: datetime | None) -> bool:
    return start <= moment and (end is None or moment < end)


@dataclass
class Oracle:
    """Every fact by id, as of now and as of each unit."""

    facts: dict[str, Fact] = field(default_factory=dict[str, Fact])
    past: dict[datetime, dict[str, Fact]] = field(default_factory=dict[datetime, dict[str, Fact]])
    asserted: int = 0

    def place(self, fact: Fact) -> None:
        """Give a fact its place: after all that were asserted before."""
        self.asserted += 1
        fact.standing, fact.order = COUNTED, self.asserted

    def values(self, moment: datetime, facts: dict[str, Fact]) -> dict[Entity, str]:
        """Return what holds at a moment of valid time, of facts as they were believed at one time."""
        found: dict[Entity, str] = {}
        for entity in {fact.entity for fact in facts.values()}:
            held = self.holder(entity, moment, facts)
            over = held is not None and held.expires is not None and moment >= held.expires
            # What is set aside by now is seen at no point, and nothing takes its place there.
            if held is not None and not over and self.facts[held.id].standing != ASIDE:
                found[entity] = held.value
        return found

    def holder(self, entity: Entity, moment: datetime, facts: dict[str, Fact]) -> Fact | None:
        """Return the fact that holds of an entity at a moment, expired or not."""
        rivals = [
            fact
            for fact in facts.values()
            if fact.entity == entity and fact.standing == COUNTED and fact.covers(moment)
        ]
        return max(rivals, key=lambda fact: (fact.start, fact.order), default=None)

    def is_superseded(self, fact: Fact, now: datetime) -> bool:
        """Tell whether others took over the rest of a fact's time by now: it looks at every stretch."""
        edges = {fact.start, now}
        for other in self.facts.values():
            edges |= {other.start, other.end or fact.start}
            edges |= {edge for cut in other.cuts for edge in cut if edge is not None}
        claimed = [edge for edge in sorted(edges) if fact.covers(edge)]
        held = [edge for edge in claimed if self.holder(fact.entity, edge, self.facts) is fact]
        return (not held or held[-1] < claimed[-1]) and not any(edge >= now for edge in held)


_ticks = st.integers(0, TICKS - 1)
_maybe = st.none() | _ticks
_values = st.sampled_from(["Rome", "Oslo", "Bern"])
_number = st.integers(0, 30)

_proposal = st.fixed_dictionaries(
    {
        "value": _values,
        "place": st.sampled_from([("", "a"), ("", "a"), ("", "b"), ("s", "a"), ("", None)]),
        "start": _maybe,
        "end": st.none() | _maybe,
        "expires": st.none() | _maybe,
        "held": st.sampled_from([False, False, False, True]),
    }
)
_stretch = st.tuples(_ticks, _maybe)
_changes = st.one_of(
    st.tuples(st.just("confirm"), _number, st.booleans()),
    st.tuples(st.just("reject"), _number, st.just(True)),
    st.tuples(st.just("retract"), _number, st.none()),
    st.tuples(st.just("retract_during"), _number, _stretch),
    st.tuples(st.just("amend"), _number, _stretch),
    st.tuples(st.just("revise"), _number, st.sampled_from(["Kyiv", "Lima"])),
    st.tuples(st.just("move"), _number, st.sampled_from(["a", "b"])),
    st.tuples(st.just("quarantine"), _number, st.none()),
    st.tuples(st.just("release"), _number, st.none()),
    st.tuples(st.just("confidence"), _number, st.sampled_from([0.95, 0.99])),
)


class TwoAxesMachine(RuleBasedStateMachine):
    """A store against the oracle: after each step what holds now, at the end every cell of both axes."""

    def make_backend(self) -> StorageBackend:
        """Return the backend to test, not initialized."""
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.clock = ManualClock()
        self.oracle = Oracle()
        self.seq = 0
        checks = [ConfidenceThreshold(0.5)]
        self.store = self._run(MemoryStore.init(self.make_backend(), checks, clock=self.clock))

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(coroutine)

    def teardown(self) -> None:
        """Compare every cell, and close."""
        try:
            self._run(self._compare_all())
        finally:
            self._run(self.store.close())
            self._runner.close()

    @rule(ticks=st.sampled_from([1, 1, 2, 3]))
    def time_passes(self, ticks: int) -> None:
        """Move the clock, within the ticks."""
        self.clock.set(min(at(TICKS - 1), self.clock.advance(ticks * TICK)))

    @rule(given=_proposal)
    def propose(self, given: dict[str, Any]) -> None:
        """One fact: now, late, to come, bounded or held."""
        self._run(self._unit([("propose", given)]))

    @rule(change=_changes)
    def change(self, change: tuple[Any, ...]) -> None:
        """One verb about one memory."""
        self._run(self._unit([change]))

    @rule(items=st.lists(_proposal, min_size=2, max_size=3))
    def batch(self, items: list[dict[str, Any]]) -> None:
        """Several facts as one unit."""
        self._run(self._unit([("batch", items)]))

    @rule(first=_changes, given=_proposal, last=_changes)
    def transaction(self, first: tuple[Any, ...], given: dict[str, Any], last: tuple[Any, ...]) -> None:
        """Several verbs as one unit."""
        self._run(self._transaction([first, ("propose", given), last]))

    @rule()
    def sweep(self) -> None:
        """Bring statuses up to date, and compare them."""
        self._run(self._unit([("sweep",)]))
        self._run(self._compare_statuses())

    # -- doing --------------------------------------------------------------------------------

    async def _transaction(self, steps: list[tuple[Any, ...]]) -> None:
        async with self.store.transaction():
            told = [(step, await self._do(step)) for step in steps]
        await self._learn(told)

    async def _unit(self, steps: list[tuple[Any, ...]]) -> None:
        await self._learn([(step, await self._do(step)) for step in steps])

    async def _do(self, step: tuple[Any, ...]) -> Any:
        """Do one step; return what the store answered, None where it refused."""
        try:
            if step[0] == "propose":
                return await self.store.propose_many([self._item(step[1])], "s")
            if step[0] == "batch":
                return await self.store.propose_many([self._item(given) for given in step[1]], "s")
            if step[0] == "sweep":
                return await self.store.sweep()
            return await self._change(*step)
        except MemsmithError:
            return None

    async def _change(self, verb: str, number: int, given: Any) -> Memory | None:
        ids = list(self.oracle.facts)
        if not ids:
            return None
        ident, store = ids[number % len(ids)], self.store
        verbs: dict[str, Callable[[str], Awaitable[Memory]]] = {
            "retract": store.retract,
            "quarantine": store.quarantine,
            "release": store.release,
        }
        if verb == "confirm":
            memory = await store.get(ident)
            return await store.confirm(ident, expected_version=memory.version if given and memory else None)
        if verb == "reject":
            return await store.reject(ident, also=given)
        if verb == "retract_during":
            return await store.retract(ident, during=_moments(given))
        if verb == "amend":
            return await store.amend_validity(ident, *_moments(given))
        if verb == "move":
            kept = await store.get(ident)
            return None if kept is None else await store.revise(ident, kept.content, key=given)
        if verb == "revise":
            return await store.revise(ident, given)
        if verb == "confidence":
            return await store.update_confidence(ident, given)
        return await verbs[verb](ident)

    def _item(self, given: dict[str, Any]) -> ProposalInput:
        start, end, expires = (
            None if given[n] is None else at(given[n]) for n in ("start", "end", "expires")
        )
        if start is not None and end is not None and end <= start:
            end = None
        if start is None and end is not None and end <= self.clock() + TICK / 2:
            end = None
        scope, key = given["place"]
        return ProposalInput(
            given["value"], 0.4 if given["held"] else 0.9, scope=scope, key=key,
            valid_from=start, valid_to=end, expires_at=expires,
        )  # fmt: skip

    # -- learning -----------------------------------------------------------------------------

    async def _learn(self, told: list[tuple[tuple[Any, ...], Any]]) -> None:
        """Let the oracle hear of a unit, if it was one, and compare what holds now."""
        newest = await self.store.audit(limit=1)
        if newest and newest[0].seq > self.seq:
            self.seq, time = newest[0].seq, newest[0].timestamp
            for step, answer in told:
                if answer is not None:
                    self._hear(step, answer, time)
            for memory in await self.store.list(status=MemoryStatus.RETRACTED, limit=1000):
                self.oracle.facts[memory.id].standing = OUT
            self.oracle.past[time] = deepcopy(self.oracle.facts)
        now = max([self.clock(), *self.oracle.past])
        await self._compare(self.store.as_of(), self.oracle.values(now, self.oracle.facts), "now")

    def _hear(self, step: tuple[Any, ...], answer: Any, time: datetime) -> None:
        if step[0] in {"propose", "batch"}:
            items = [step[1]] if step[0] == "propose" else step[1]
            for given, result in zip(items, answer, strict=True):
                self._hear_proposal(self._item(given), result, time)
        elif step[0] == "sweep":
            for fact in self.oracle.facts.values():
                if fact.standing == WAITING and fact.expires is not None and fact.expires <= time:
                    fact.standing = OUT
        else:
            self._hear_change(step[0], step[2], answer, time)

    def _hear_proposal(self, item: ProposalInput, result: Any, time: datetime) -> None:
        if not isinstance(result, Accepted | PendingConfirmation):
            return
        entity = (item.scope, item.key or result.memory_id)
        start = item.valid_from or time
        fact = Fact(result.memory_id, entity, item.content, start, item.valid_to, item.expires_at, WAITING)
        self.oracle.facts[fact.id] = fact
        if isinstance(result, Accepted):
            self.oracle.place(fact)

    def _hear_change(self, verb: str, given: Any, memory: Memory, time: datetime) -> None:
        oracle = self.oracle
        fact = oracle.facts[memory.id]
        if verb == "confirm":
            oracle.place(fact)
        elif verb == "retract_during":
            fact.cuts.append(_moments(given))
        elif verb == "amend":
            fact.start, fact.end = _moments(given)
            if fact.standing == COUNTED:
                oracle.place(fact)
        elif verb == "revise":
            fact.value = given
        elif verb == "move":
            fact.entity = (fact.entity[0], given)
        elif verb == "quarantine":
            fact.before, fact.standing = fact.standing, ASIDE
        elif verb == "release":
            over = fact.expires is not None and fact.expires <= time
            fact.standing = OUT if fact.before == WAITING and over else fact.before

    # -- comparing ----------------------------------------------------------------------------

    async def _compare(self, handle: Any, expected: dict[Entity, str], where: str) -> None:
        found: dict[Entity, str] = {}
        for memory in await handle.list(limit=1000):
            entity = (memory.scope, memory.key or memory.id)
            assert entity not in found, f"{entity} has two values {where}"
            found[entity] = memory.content
        assert found == expected, f"{where} the store has {found}, the oracle {expected}"

    async def _compare_all(self) -> None:
        """Compare every cell: each entity, at each tick, as believed after each unit."""
        for believed, facts in self.oracle.past.items():
            for tick in range(TICKS):
                handle = self.store.as_of(valid_at=at(tick), system_at=believed)
                expected = self.oracle.values(at(tick), facts)
                await self._compare(handle, expected, f"at tick {tick} as believed at {believed}")
            await self._compare_timelines(believed, facts)
        assert (await self.store.replay()).identical

    async def _compare_timelines(self, believed: datetime, facts: dict[str, Fact]) -> None:
        for scope, key in (("", "a"), ("", "b"), ("s", "a")):
            spans = await self.store.timeline(key, scope=scope, system_at=believed)
            for tick in range(TICKS):
                held = [s.memory.content for s in spans if _within(at(tick), s.valid_from, s.valid_to)]
                expected = self.oracle.values(at(tick), facts).get((scope, key))
                assert held == ([] if expected is None else [expected]), (
                    f"the timeline of {key} in {scope!r} has {held} at tick {tick} as believed at "
                    f"{believed}, the oracle {expected}"
                )

    async def _compare_statuses(self) -> None:
        now = max([self.clock(), *self.oracle.past])
        for memory in await self.store.list(limit=1000):
            fact = self.oracle.facts.get(memory.id)
            if fact is None or fact.standing != COUNTED or memory.status is MemoryStatus.EXPIRED:
                continue
            expected = (
                MemoryStatus.SUPERSEDED if self.oracle.is_superseded(fact, now) else MemoryStatus.ACTIVE
            )
            assert memory.status is expected, f"{memory.id} is {memory.status}, expected {expected}"


def _moments(stretch: tuple[int, int | None]) -> tuple[datetime, datetime | None]:
    first, last = stretch
    return at(first), None if last is None else at(last)
