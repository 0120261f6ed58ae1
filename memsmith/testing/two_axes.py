"""A hypothesis machine: random histories of a store, held against the oracle of both axes of time.

Subclass it and say how the backend is made; `run_histories` runs it under seeds that can be run again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar
from unittest.mock import patch

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, get_state_machine_test, rule

from memsmith.errors import MemsmithError
from memsmith.protocols import StorageBackend
from memsmith.store.store import MemoryStore
from memsmith.testing.cells import Cells
from memsmith.testing.clock import START, ManualClock
from memsmith.testing.oracle import (
    ASIDE,
    COUNTED,
    MANY,
    OUT,
    STATUSES,
    TICK,
    TICKS,
    WAITING,
    Fact,
    Facts,
    Oracle,
    Stretch,
    at,
    told_of,
)
from memsmith.types import (
    Accepted,
    Memory,
    MemoryStatus,
    Origin,
    PendingConfirmation,
    ProposalInput,
    Rejected,
)
from memsmith.validators.confidence import ConfidenceThreshold

T = TypeVar("T")
Step = tuple[str, Any]

HISTORIES_A_SEED = 20
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
STEPS = 50
SECRET = b"the secret of both stores"

_ticks = st.integers(0, TICKS - 1)
_maybe = st.none() | _ticks
_stretch = st.tuples(_ticks, _maybe)
_origins = st.sampled_from([Origin.OWNER, Origin.OWNER, Origin.AGENT, Origin.TOOL])

_proposal = st.fixed_dictionaries(
    {
        "value": st.sampled_from(["Rome", "Oslo", "Bern"]),
        "place": st.sampled_from([("", "a"), ("", "a"), ("", "b"), ("s", "a"), ("", MANY), ("", None)]),
        "start": _maybe,
        "end": st.none() | _maybe,
        "expires": st.none() | _maybe,
        # A lifetime ends between ticks: it begins microseconds after one, and a clock may be behind that.
        "ttl": st.sampled_from([None, None, None, 0.5, 2.5]),
        "held": st.sampled_from([False, False, False, True]),
        "origin": _origins,
    }
)


def _verb(name: str, **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.tuples(st.just(name), st.fixed_dictionaries({"n": st.integers(0, 30), **given}))


_changes = st.one_of(
    _verb("confirm", expecting=st.booleans()),
    _verb("reject", also=st.booleans()),
    _verb("retract"),
    _verb("retract_during", stretch=_stretch),
    _verb("amend", stretch=_stretch),
    _verb("revise", value=st.sampled_from(["Kyiv", "Lima", "Rome"])),
    _verb("move", key=st.sampled_from(["a", "b", MANY, None])),
    _verb("quarantine"),
    _verb("release"),
    _verb("update_confidence", value=st.sampled_from([0.95, 0.99])),
)

_FITTING = {"confirm": {WAITING}, "release": {ASIDE}, "update_confidence": {WAITING, COUNTED}}
"""Where a fact stands that a verb can do something to; others take all that is not out."""


class _Undo(Exception):
    """Leaves a transaction, and is caught around it."""


class TwoAxesMachine(RuleBasedStateMachine):
    """A store against the oracle: after each step what it could have changed, at the end every cell."""

    def make_backend(self) -> StorageBackend:
        """Return a fresh backend of the kind under test, not initialized."""
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.clock = ManualClock()
        self.oracle = Oracle()
        self.ids: list[str] = []
        self.seq = self.steps = 0
        self.store = self._run(self._opened())
        self.cells = Cells(self.store, self.oracle, self.clock)

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        self._whole = False
        result = self._runner.run(coroutine)
        self._whole = True
        return result

    async def _opened(self) -> MemoryStore:
        return await MemoryStore.init(
            self.make_backend(), [ConfidenceThreshold(0.5)], clock=self.clock, secret=SECRET,
            cardinality={MANY: "many"},
        )  # fmt: skip

    def teardown(self) -> None:
        """Compare every cell, here and in a store that took in an export, and close."""
        try:
            if self._whole:
                self._run(self._compare_all())
        finally:
            self._run(self.store.close())
            self._runner.close()

    async def _compare_all(self) -> None:
        await self.cells.compare_all()
        assert (await self.store.replay()).identical
        lines = [line async for line in self.store.export()]
        if self.oracle.past:
            async with await self._opened() as taken_in:
                await taken_in.import_lines(lines)
                await Cells(taken_in, self.oracle, self.clock).compare_with(
                    self.store, wholly=len(lines) % 5 == 0
                )

    @rule(ticks=st.sampled_from([1, 1, 2, 3, -1]))
    def time_passes(self, ticks: int) -> None:
        """Move the clock, within the ticks, sometimes back."""
        self.clock.set(max(START, min(at(TICKS - 1), self.clock.advance(ticks * TICK))))
        self._run(self.cells.compare_now())

    @rule(given=_proposal)
    def propose(self, given: dict[str, Any]) -> None:
        """One fact: now, late, to come, bounded or held."""
        self._run(self._unit([("propose", [given])]))

    @rule(change=_changes)
    def change(self, change: Step) -> None:
        """One verb about one memory."""
        self._run(self._unit([change]))

    @rule(change=_changes)
    def change_more(self, change: Step) -> None:
        """Another: changes are as frequent as all that proposes."""
        self._run(self._unit([change]))

    @rule(items=st.lists(_proposal, min_size=2, max_size=3))
    def batch(self, items: list[dict[str, Any]]) -> None:
        """Several facts as one unit."""
        self._run(self._unit([("propose", items)]))

    @rule(first=_changes, given=_proposal, last=_changes, keep=st.sampled_from([True, True, True, False]))
    def transaction(self, first: Step, given: dict[str, Any], last: Step, keep: bool) -> None:
        """Several verbs as one unit, kept or undone."""
        self._run(self._transaction([first, ("propose", [given]), last], keep))

    @rule(verb=st.sampled_from(["sweep", "expire_batch"]))
    def sweep(self, verb: str) -> None:
        """Bring statuses up to date; no cell changes."""
        self._run(self._unit([(verb, None)]))
        if verb == "sweep":
            self._run(self._compare_statuses())

    # -- doing --------------------------------------------------------------------------------

    async def _unit(self, steps: list[Step]) -> None:
        await self._learn([(step, await self._do(step)) for step in steps])

    async def _transaction(self, steps: list[Step], keep: bool) -> None:
        before = list(self.ids)
        done: list[tuple[Step, Any]] = []
        try:
            async with self.store.transaction():
                for step in steps:
                    done.append((step, await self._do(step)))
                if not keep:
                    raise _Undo
        except _Undo:
            self.ids, done = before, []
        await self._learn(done)

    async def _do(self, step: Step) -> Any:
        """Do one step; return what the store answered, None where it refused."""
        verb, given = step
        try:
            if verb == "propose":
                answer = await self.store.propose_many([self._item(item) for item in given], "s")
                self.ids += [r.memory_id for r in answer if isinstance(r, Accepted | PendingConfirmation)]
                return answer
            if verb in {"sweep", "expire_batch"}:
                return await getattr(self.store, verb)()
            return await self._change(verb, dict(given))
        except MemsmithError:
            return None

    async def _change(self, verb: str, given: dict[str, Any]) -> Memory | None:
        store, number = self.store, given.pop("n")
        ident = self._chosen(number, _FITTING.get(verb, {WAITING, COUNTED, ASIDE}))
        memory = None if ident is None else await store.get(ident)
        if ident is None or memory is None:
            return None
        match verb:
            case "confirm":
                version = memory.version if given["expecting"] else None
                return await store.confirm(ident, expected_version=version)
            case "reject":
                return await store.reject(ident, also=given["also"])
            case "retract_during":
                return await store.retract(ident, during=_moments(given["stretch"]))
            case "amend":
                return await store.amend_validity(ident, *_moments(given["stretch"]))
            case "revise":
                return await store.revise(ident, given["value"])
            case "move":
                return await store.revise(ident, memory.content, key=given["key"])
            case "update_confidence":
                return await store.update_confidence(ident, given["value"])
            case _:
                found: Memory = await getattr(store, verb)(ident)
                return found

    def _chosen(self, number: int, fitting: set[str]) -> str | None:
        """Return one of the facts that a verb fits, newest first, or of all where it fits none."""
        facts = self.oracle.facts
        fit = [ident for ident in self.ids if ident not in facts or facts[ident].standing in fitting]
        among = fit or self.ids
        return among[-1 - number % len(among)] if among else None

    def _item(self, given: dict[str, Any]) -> ProposalInput:
        start, end, expires = (
            None if given[n] is None else at(given[n]) for n in ("start", "end", "expires")
        )
        if end is not None and end <= (self.clock() + TICK / 2 if start is None else start):
            end = None
        ttl = given["ttl"] if expires is None else None
        scope, key = given["place"]
        return ProposalInput(
            given["value"], 0.4 if given["held"] else 0.9, scope=scope, key=key, origin=given["origin"],
            valid_from=start, valid_to=end, expires_at=expires, ttl=None if ttl is None else ttl * TICK,
        )  # fmt: skip

    # -- learning -----------------------------------------------------------------------------

    async def _learn(self, done: list[tuple[Step, Any]]) -> None:
        """Let the oracle hear of a unit, if it was one, and compare what it could have changed."""
        self.steps += 1
        before = dict(self.oracle.facts)
        previous = next(reversed(self.oracle.past), None)
        rows = await self.store.audit(limit=1)
        if not rows or rows[0].seq == self.seq:
            await self.cells.compare_refused(self.steps)
            await self._compare_standings()
            return
        rows = await self.store.audit(limit=rows[0].seq - self.seq)
        self.seq = rows[0].seq
        times = sorted({row.timestamp for row in rows})
        rejected: list[Fact] = []
        for step, answer in done:
            if answer is not None:
                due = [row.timestamp for row in rows if row.action == "expired"]
                self._hear(step, answer, due[0] if due else times[-1])
                if step[0] == "reject" and step[1]["also"]:
                    rejected.append(self.oracle.facts[answer.id])
        await self._compare_standings(rejected, alone=len(done) == 1)
        self.oracle.remember(times)
        await self.cells.compare_step(before, previous, self.steps)

    def _hear(self, step: Step, answer: Any, time: datetime) -> None:
        verb, given = step
        if verb == "propose":
            for item, result in zip(given, answer, strict=True):
                self._hear_proposal(self._item(item), result, time)
        elif verb in {"sweep", "expire_batch"}:
            self.oracle.expire(time)
        else:
            self._hear_change(verb, given, answer.id, time)

    def _hear_proposal(self, item: ProposalInput, result: Any, time: datetime) -> None:
        oracle, ident, origin = self.oracle, result.memory_id, Origin(item.origin or "owner")
        if isinstance(result, Rejected):
            if result.code == "duplicate":
                oracle.endorse(ident, origin)
            return
        expires = item.expires_at if item.ttl is None else time + item.ttl
        oracle.facts[ident] = Fact(
            ident, item.scope, item.key, item.content, item.valid_from or time, item.valid_to, expires, origin
        )
        if isinstance(result, Accepted):
            oracle.place(ident)

    def _hear_change(self, verb: str, given: dict[str, Any], ident: str, time: datetime) -> None:
        oracle = self.oracle
        match verb:
            case "confirm":
                oracle.place(ident, origin=Origin.OWNER)
            case "retract_during":
                oracle.cut(ident, _moments(given["stretch"]))
            case "amend":
                oracle.amend(ident, *_moments(given["stretch"]))
            case "revise":
                oracle.change(ident, value=given["value"])
            case "move":
                oracle.change(ident, key=given["key"])
            case "quarantine":
                oracle.set_aside(ident)
            case "release":
                oracle.take_back(ident, time)
            case "reject" | "retract":
                oracle.change(ident, standing=OUT)
            case _:
                assert verb == "update_confidence"

    # -- where memories stand -----------------------------------------------------------------

    async def _compare_standings(self, rejected: list[Fact] | None = None, alone: bool = False) -> None:
        """Compare what the bare store has of each memory; what `rejected` took along is out now."""
        memories = {
            m.id: m for m in await self.store.list(limit=1000) if m.status is not MemoryStatus.REJECTED
        }
        facts = self.oracle.facts
        for memory in memories.values():
            fact = facts[memory.id]
            if memory.status is MemoryStatus.RETRACTED and fact.standing != OUT:
                assert any(each.blocks(fact) for each in rejected or []), f"{memory} is retracted"
                self.oracle.change(fact.id, standing=OUT)
        for each in rejected or []:
            left = [m for m in memories.values() if each.blocks(facts[m.id]) and m.status in _LIVE]
            assert not alone or not left, f"{left} say what was rejected with {each.id}"
        _compare_all_told(memories, facts)

    async def _compare_statuses(self) -> None:
        """Compare who is superseded: after a sweep nothing lags behind the clock."""
        now = max([self.clock(), *self.oracle.past])
        for memory in await self.store.list(limit=1000):
            fact = self.oracle.facts.get(memory.id)
            if fact is None or fact.standing != COUNTED or memory.status is MemoryStatus.EXPIRED:
                continue
            gone = self.oracle.is_superseded(fact, now)
            expected = MemoryStatus.SUPERSEDED if gone else MemoryStatus.ACTIVE
            assert memory.status is expected, f"{memory.id} is {memory.status}, expected {expected}"


_LIVE = {MemoryStatus.ACTIVE, MemoryStatus.PENDING_CONFIRMATION}


def _compare_all_told(memories: dict[str, Memory], facts: Facts) -> None:
    assert memories.keys() == facts.keys()
    for ident, fact in facts.items():
        memory = memories[ident]
        assert memory.status in STATUSES[fact.standing], f"{ident} is {memory.status}, expected {fact}"
        assert told_of(memory) == fact.told(), f"{ident} is {told_of(memory)}, expected {fact.told()}"


def _moments(stretch: tuple[int, int | None]) -> Stretch:
    first, last = stretch
    return at(first), None if last is None else at(last)


class _NoConstants:
    """Stands in for the constants that hypothesis finds in modules."""

    def set_for_type(self, _: str) -> tuple[()]:
        """Return none of any type."""
        return ()


@contextmanager
def _whatever_is_loaded() -> Generator[None]:
    """Have a seed mean the same whatever else is loaded: hypothesis also draws what stands in its modules."""
    providers, cache = "hypothesis.internal.conjecture.providers", dict[Any, Any]()
    with (
        patch(f"{providers}._get_local_constants", _NoConstants, create=True),
        patch(f"{providers}.CONSTANTS_CACHE", cache, create=True),
    ):
        yield


def run_histories(
    machine: type[TwoAxesMachine],
    first_seed: int,
    histories: int = HISTORIES_A_SEED,
    *,
    steps: int = STEPS,
    shrink: bool = False,
) -> None:
    """Run random histories, HISTORIES_A_SEED for each seed from the first on.

    What fails carries a note that names its seed: run with that one alone, the same histories are
    made and the same one fails. `shrink` looks for the shortest that does, which takes minutes.
    """
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    for number in range(first_seed, first_seed + -(-histories // HISTORIES_A_SEED)):
        chosen = settings(
            max_examples=min(histories, HISTORIES_A_SEED), stateful_step_count=steps, phases=phases,
            deadline=None, database=None, report_multiple_bugs=False, suppress_health_check=_SLOW,
        )  # fmt: skip
        try:
            with _whatever_is_loaded():
                seed(number)(get_state_machine_test(machine, settings=chosen))()
        except Exception as error:
            error.add_note(f"The history was made with seed {number}.")
            raise
