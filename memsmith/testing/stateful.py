"""Hypothesis machines: a store against the model, and a store against another, step by step.

Subclass one, say how the backend is made, and hand its `TestCase` to pytest.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from copy import deepcopy
from datetime import timedelta
from typing import Any, TypeVar, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from memsmith.errors import MemsmithError
from memsmith.ledger.verify import Verdict
from memsmith.protocols import StorageBackend
from memsmith.store.store import MemoryStore
from memsmith.testing.clock import START, ManualClock
from memsmith.testing.model import OWNER, Entry, Model, Refused
from memsmith.types import (
    DEFAULT_TENANT,
    Accepted,
    Memory,
    Origin,
    PendingConfirmation,
    ProposalInput,
    ProposalResult,
    ValidationResult,
)
from memsmith.validators._base import SyncValidator
from memsmith.validators.confidence import ConfidenceThreshold

T = TypeVar("T")

TTL, STEP = 60, 45
"""In seconds: no multiple of STEP is ever the end of a lifetime, which begins within microseconds of one."""
SECOND = 1_000_000

Command = tuple[str, dict[str, Any]]

_values = st.sampled_from(["Rome", "rome ", "Oslo", "wrong Oslo"])
_number = st.integers(0, 30)
_actors = st.sampled_from([OWNER, "ann"])

_proposal = st.fixed_dictionaries(
    {
        "value": _values,
        "session": st.sampled_from(["s", "t"]),
        "scope": st.sampled_from(["", "a", "a/b", "ab"]),
        "key": st.sampled_from([None, None, "k", "l"]),
        "confidence": st.sampled_from([0.4, 0.8, 0.8]),
        "origin": st.sampled_from([1, 3, 3]),
        "actor": _actors,
        "parents": st.lists(_number, max_size=2),
        "lives": st.booleans(),
        "dedup": st.sampled_from([True, True, True, False]),
    }
)
_versions = st.sampled_from([None, None, "current", "stale"])

_commands = st.one_of(
    st.tuples(st.just("propose"), _proposal),
    st.tuples(st.just("propose"), _proposal),
    st.tuples(
        st.just("confirm"), st.fixed_dictionaries({"n": _number, "actor": _actors, "version": _versions})
    ),
    st.tuples(st.just("reject"), st.fixed_dictionaries({"n": _number, "also": st.booleans()})),
    st.tuples(st.just("retract"), st.fixed_dictionaries({"n": _number, "cascade": st.booleans()})),
    st.tuples(
        st.just("revise"), st.fixed_dictionaries({"n": _number, "value": _values, "version": _versions})
    ),
    st.tuples(
        st.just("update_confidence"),
        st.fixed_dictionaries({"n": _number, "value": st.sampled_from([0.5, 0.9])}),
    ),
    st.tuples(st.just("quarantine"), st.fixed_dictionaries({"n": _number})),
    st.tuples(st.just("release"), st.fixed_dictionaries({"n": _number})),
    st.tuples(st.just("lift"), st.fixed_dictionaries({"n": _number})),
    st.tuples(st.sampled_from(["expire", "sweep"]), st.just({})),
)


class _NothingWrong(SyncValidator):
    """Refuses values that contain "wrong"."""

    critical = True

    def check(self, memory: Memory) -> ValidationResult:
        return ValidationResult(passed="wrong" not in memory.content, errors=["it is wrong"])


class _Undo(Exception):
    """Leaves a transaction, and is caught around it."""


class Driver:
    """Runs commands on a store, on an event loop of its own; ids become numbers in order of creation."""

    def __init__(self, backend: StorageBackend) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.backend = backend
        self.clock = ManualClock()
        self.ids: list[str] = []
        self.stones: list[str] = []
        validators = [_NothingWrong(), ConfidenceThreshold(0.5)]
        self.store = self.run(MemoryStore.init(backend, validators, clock=self.clock, secret=b"a secret" * 4))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        return self._runner.run(coroutine)

    def close(self) -> None:
        """Close the store and its loop."""
        self.run(self.store.close())
        self._runner.close()

    async def act(self, command: Command) -> Any:
        """Return what a command answered: code and number, a status, a count, or the name of an error."""
        name, given = command
        try:
            return await self._act(name, dict(given))
        except MemsmithError as error:
            return type(error).__name__

    async def _act(self, name: str, given: dict[str, Any]) -> Any:
        if name == "propose":
            item = self._item(given)
            return self._told((await self.store.propose_many([item], given["session"]))[0])
        if name == "expire":
            return await self.store.expire_batch()
        if name == "sweep":
            swept = await self.store.sweep()
            return swept.expired, swept.superseded
        n = given.pop("n")
        if name == "lift":
            return None if not self.stones else bool(await self.store.lift_tombstone(_nth(self.stones, n)))
        if not self.ids:
            return None
        ident = _nth(self.ids, n)
        if "version" in given:
            given["expected_version"] = await self._version(ident, given.pop("version"))
        positional = [given.pop("value")] if "value" in given else []
        memory = await getattr(self.store, name)(ident, *positional, **given)
        if name == "reject":
            self.stones = [t.id for t in await self.store.tombstones(lifted=True, limit=10_000)]
        return cast(Memory, memory).status.value

    async def _version(self, ident: str, which: str | None) -> int | None:
        memory = await self.store.get(ident)
        assert memory is not None
        return None if which is None else memory.version + (which == "stale")

    async def batch(self, items: list[dict[str, Any]]) -> list[Any]:
        """Propose several at once; parents are those that were there before."""
        results = await self.store.propose_many([self._item(item) for item in items], "s")
        return [self._told(result) for result in results]

    async def transaction(self, commands: list[Command], keep: bool) -> list[Any]:
        """Run commands in one transaction, kept or undone."""
        before = list(self.ids), list(self.stones)
        answers: list[Any] = []
        try:
            async with self.store.transaction():
                answers += [await self.act(command) for command in commands]
                if not keep:
                    raise _Undo
        except _Undo:
            self.ids, self.stones = before
        return answers

    def _item(self, given: dict[str, Any]) -> ProposalInput:
        return ProposalInput(
            given["value"], given["confidence"], None, given["dedup"],
            scope=given["scope"], key=given["key"], actor=given["actor"],
            origin=_ORIGINS[int(given["origin"])],
            depends_on=[_nth(self.ids, n) for n in given["parents"]] if self.ids else [],
            ttl=timedelta(seconds=TTL) if given["lives"] else None,
        )  # fmt: skip

    def _told(self, result: ProposalResult) -> tuple[str, int]:
        if result.memory_id not in self.ids:
            self.ids.append(result.memory_id)
        number = self.ids.index(result.memory_id)
        if isinstance(result, Accepted):
            return "accepted", number
        return ("pending" if isinstance(result, PendingConfirmation) else result.code), number

    async def everything(self) -> tuple[list[Any], ...]:
        """Return all rows, ids replaced by the order in which they first appear."""
        numbers: dict[str, str] = {}

        def named(texts: list[str]) -> list[str]:
            return [_ID.sub(lambda m: numbers.setdefault(m[0], f"#{len(numbers)}"), text) for text in texts]

        def plain(rows: list[Any]) -> list[str]:
            fields: list[dict[str, Any]] = [row.__dict__ for row in rows]
            return named([repr(sorted((k, v) for k, v in row.items() if k not in _OWN)) for row in fields])

        audit = plain(await self.store.audit(limit=10_000))
        memories = plain(await self.store.list(kind=None, limit=10_000))
        versions = named([repr(v) for v in await self.backend.versions(DEFAULT_TENANT, self.ids)])
        segments = named([repr(b) for b in await self.backend.segments(DEFAULT_TENANT, self.ids)])
        stones = plain(await self.store.tombstones(lifted=True, limit=10_000))
        return memories, audit, versions, segments, stones


_ID = re.compile(r"\b[0-9a-f]{32}\b")
_OWN = {"hash", "prev_hash"}
"""What salt makes different in every store."""


_ORIGINS = [Origin.UNTRUSTED, Origin.TOOL, Origin.AGENT, Origin.OWNER]


def _nth(items: list[T], n: int) -> T:
    return items[n % len(items)]


class _Machine(RuleBasedStateMachine):
    """The rules; subclasses say what the answers are held against."""

    def answers(self, name: str, *arguments: Any) -> None:
        """Do one step everywhere and compare."""
        raise NotImplementedError

    @rule(command=_commands)
    def one(self, command: Command) -> None:
        """One verb."""
        self.answers("act", command)

    @rule(items=st.lists(_proposal.map(lambda p: p | {"session": "s"}), min_size=1, max_size=4))
    def batch(self, items: list[dict[str, Any]]) -> None:
        """One batch."""
        self.answers("batch", items)

    @rule(commands=st.lists(_commands, min_size=1, max_size=4), keep=st.booleans())
    def transaction(self, commands: list[Command], keep: bool) -> None:
        """Several verbs at once, kept or undone."""
        self.answers("transaction", commands, keep)


class ModelMachine(_Machine):
    """A store against the model of the lifecycle; every step compares answers, then all rows."""

    def make_backend(self) -> StorageBackend:
        """Return the backend to test, not initialized."""
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.driver = Driver(self.make_backend())

    def teardown(self) -> None:
        """Close the store."""
        self.driver.close()

    @rule()
    def time_passes(self) -> None:
        """Let some lifetimes run out."""
        self.driver.clock.advance(timedelta(seconds=STEP))
        self.model.now += STEP * SECOND

    def answers(self, name: str, *arguments: Any) -> None:
        """Compare the store's answer with the model's."""
        self.model.now += 1
        expected = getattr(self, f"_expect_{name}")(*arguments)
        found = self.driver.run(getattr(self.driver, name)(*arguments))
        assert found == expected, f"{name}{arguments}: the model says {expected}, the store {found}"

    def _expect_act(self, command: Command) -> Any:
        name, given = command
        model, arguments = self.model, dict(given)
        try:
            if name == "propose":
                return model.propose(self._entry(arguments), arguments["dedup"])
            if name == "expire":
                return model.expire()
            if name == "sweep":
                return model.expire(), 0  # what is taken over here is superseded at once
            n = arguments.pop("n")
            if name == "lift":
                if model.blocks:
                    model.lift(n % len(model.blocks))
                return True if model.blocks else None
            if not model.entries:
                return None
            entry = _nth(model.entries, n)
            if arguments.get("version"):
                arguments["version"] = entry.version + (arguments["version"] == "stale")
            getattr(model, name)(n % len(model.entries), **arguments)
        except Refused as refused:
            return str(refused)
        return entry.status

    def _entry(self, given: dict[str, Any], known: int | None = None) -> Entry:
        model = self.model
        known = len(model.entries) if known is None else known
        return Entry(
            given["value"], given["session"], given["scope"], given["key"], given["confidence"],
            given["origin"], given["actor"], [n % known for n in given["parents"]] if known else [],
            model.now + TTL * SECOND if given["lives"] else None,
        )  # fmt: skip

    def _expect_batch(self, items: list[dict[str, Any]]) -> list[Any]:
        known = len(self.model.entries)
        return [self.model.propose(self._entry(item, known), item["dedup"]) for item in items]

    def _expect_transaction(self, commands: list[Command], keep: bool) -> list[Any]:
        before = deepcopy(self.model)
        answers = [self._expect_act(command) for command in commands]
        if not keep:
            self.model = before
        return answers

    @invariant()
    def all_rows_agree(self) -> None:
        """Compare every memory and tombstone with the model's."""
        self.driver.run(self._all_rows_agree())

    async def _all_rows_agree(self) -> None:
        store, model = self.driver.store, self.model
        listed = {m.id: m for m in await store.list(kind=None, limit=10_000)}
        assert len(listed) == len(model.entries) == len(self.driver.ids)
        for ident, entry in zip(self.driver.ids, model.entries, strict=True):
            m = listed[ident]
            assert (m.status, m.version, m.content, m.confidence, m.origin.rank, m.held_status) == (
                entry.status, entry.version, entry.value, entry.confidence, entry.origin, entry.held,
            )  # fmt: skip
            whose = [] if entry.displaces is None else [model.number(entry.displaces[0])]
            assert [d.memory_id for d in m.displaces] == [
                None if n is None else self.driver.ids[n] for n in whose
            ]
            assert await store.get(ident) == m
        held = await store.as_of(valid_at=self.driver.clock() + timedelta(seconds=1)).list(limit=10_000)
        assert [m.id for m in held] == [self.driver.ids[n] for n in model.holding()]
        stones = await store.tombstones(lifted=True, limit=10_000)
        assert [(t.refused, t.lifted_at is not None) for t in stones] == [
            (block.refused, block.lifted) for block in model.blocks
        ]

    @invariant()
    def the_ledger_holds(self) -> None:
        """Verify the chain and replay it."""
        assert self.driver.run(self.driver.store.verify()).verdict is Verdict.SELF_CONSISTENT
        report = self.driver.run(self.driver.store.replay())
        assert report.identical, report.differences


class ComparisonMachine(_Machine):
    """Two backends, the same steps at the same times: the same answers and rows, but for the ids."""

    def make_backends(self) -> tuple[StorageBackend, StorageBackend]:
        """Return the two backends, not initialized."""
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.drivers = [Driver(backend) for backend in self.make_backends()]

    def teardown(self) -> None:
        """Close the stores."""
        for driver in self.drivers:
            driver.close()

    @rule(seconds=st.sampled_from([STEP, 3600, -30]))
    def time_passes(self, seconds: int) -> None:
        """Move both clocks, sometimes back."""
        for driver in self.drivers:
            driver.clock.set(max(START, driver.clock.advance(timedelta(seconds=seconds))))

    def answers(self, name: str, *arguments: Any) -> None:
        """Compare the answers of the two."""
        one, other = (driver.run(getattr(driver, name)(*arguments)) for driver in self.drivers)
        assert one == other, f"{name}{arguments}: one says {one}, the other {other}"

    @invariant()
    def all_rows_agree(self) -> None:
        """Compare memories, ledger and tombstones."""
        one, other = (driver.run(driver.everything()) for driver in self.drivers)
        for ours, theirs in zip(one, other, strict=True):
            assert len(ours) == len(theirs)
            different = next(((a, b) for a, b in zip(ours, theirs, strict=True) if a != b), None)
            assert different is None, different
