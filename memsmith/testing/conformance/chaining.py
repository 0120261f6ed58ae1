# ruff: noqa: D102 - a test's name says what it tests
"""Chains: which facts are of one key, who gives way to whom, and what a person is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from memsmith.policy.keys import KeyedBy
from memsmith.protocols import StorageBackend, ValidationContext
from memsmith.store.store import MemoryStore
from memsmith.testing.clock import ManualClock
from memsmith.testing.conformance.base import TENANT, Suite
from memsmith.testing.conformance.timing import KEY, Told, day, say, status_of, told, value_at
from memsmith.types import (
    Accepted,
    Memory,
    MemoryStatus,
    PendingConfirmation,
    Rejected,
    ValidationResult,
)
from memsmith.validators.confidence import ConfidenceThreshold

S = MemoryStatus

ALLEN: dict[str, tuple[tuple[int, int], Told, tuple[bool, bool]]] = {
    "before": ((2, 5), [(2, 5, "new"), (10, 20, "old")], (False, False)),
    "meets": ((5, 10), [(5, 10, "new"), (10, 20, "old")], (False, False)),
    "overlaps": ((5, 15), [(5, 10, "new"), (10, 20, "old")], (False, True)),
    "starts": ((10, 15), [(10, 15, "new"), (15, 20, "old")], (False, False)),
    "during": ((12, 15), [(10, 12, "old"), (12, 15, "new"), (15, 20, "old")], (False, False)),
    "finishes": ((15, 20), [(10, 15, "old"), (15, 20, "new")], (True, False)),
    "equals": ((10, 20), [(10, 20, "new")], (True, False)),
    "finished by": ((5, 20), [(5, 10, "new"), (10, 20, "old")], (False, True)),
    "contains": ((5, 25), [(5, 10, "new"), (10, 20, "old"), (20, 25, "new")], (False, False)),
    "started by": ((10, 25), [(10, 25, "new")], (True, False)),
    "overlapped by": ((15, 25), [(10, 15, "old"), (15, 25, "new")], (True, False)),
    "met by": ((20, 25), [(10, 20, "old"), (20, 25, "new")], (False, False)),
    "after": ((25, 30), [(10, 20, "old"), (25, 30, "new")], (False, False)),
}
"""By how the new interval lies to the old one, [10, 20): what the key says, and who is superseded."""


@dataclass
class Home:
    """Content whose model knows its key."""

    person: str
    city: str

    def memory_key(self) -> str | None:
        return f"home/{self.person}" if self.person else None


class Chaining(Suite):
    """Members of chains, and chains beside one another."""

    @pytest.mark.parametrize("relation", list(ALLEN))
    async def test_the_new_interval_lies_over_the_old_one_from_where_it_begins(
        self, store: MemoryStore, clock: ManualClock, relation: str
    ) -> None:
        (start, end), expected, superseded = ALLEN[relation]
        statuses = [S.SUPERSEDED if gone else S.ACTIVE for gone in superseded]
        ahead = [await say(store, "old", 10, 20), await say(store, "new", start, end)]
        assert await told(store) == expected
        clock.set(day(50))
        past = [
            await say(store, "old", 10, 20, key="past"),
            await say(store, "new", start, end, key="past"),
        ]
        assert await told(store, "past") == expected
        assert await status_of(store, *past) == statuses
        await store.sweep()
        assert await status_of(store, *ahead) == statuses
        await store.retract(past[1])
        assert await told(store, "past") == [(10, 20, "old")]
        assert await status_of(store, *past) == [S.ACTIVE, S.RETRACTED]

    async def test_other_subjects_scopes_kinds_and_tenants_are_never_touched(
        self, storage: StorageBackend, store: MemoryStore, clock: ManualClock
    ) -> None:
        elsewhere: list[dict[str, Any]] = [
            {"key": "user:bob/lives_in"},
            {"key": KEY.upper()},
            {"scope": "user:ann"},
            {"kind": "note"},
        ]
        others = [await say(store, "Rome", 0, **where) for where in elsewhere]
        unkeyed = await say(store, "Rome", 0, key=None)
        other_tenant = await MemoryStore.init(storage, clock=clock, tenant="other")
        apart = await say(other_tenant, "Rome", 0)
        clock.set(day(1))
        await say(store, "Rome", 0)
        await say(store, "Oslo", 1)
        assert await status_of(store, *others, unkeyed) == [S.ACTIVE] * 5
        assert {len(await store.audit(ident)) for ident in (*others, unkeyed)} == {1}
        assert await told(store, scope="user:ann") == [(0, None, "Rome")]
        assert await told(store, "user:bob/lives_in") == [(0, None, "Rome")]
        assert [s.memory.id for s in await store.timeline(KEY, kind="note")] == [others[3]]
        assert [m.status for m in await other_tenant.list()] == [S.ACTIVE]
        assert await told(other_tenant) == [(0, None, "Rome")]
        assert len(await other_tenant.audit(apart)) == 1

    async def test_retracted_is_wrong_at_all_times_and_superseded_was_true_in_its_own(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        true, wrong = await say(store, "Rome", 0), await say(store, "Bern", 0, key="wrong")
        clock.set(day(10))
        await say(store, "Oslo", 10)
        await store.retract(wrong, "never was")
        assert await status_of(store, true, wrong) == [S.SUPERSEDED, S.RETRACTED]
        then = store.as_of(valid_at=day(5))
        assert [m.content for m in await then.list()] == ["Rome"]
        believed = store.as_of(valid_at=day(5), system_at=day(5))
        assert {m.content for m in await believed.list()} == {"Rome", "Bern"}
        assert await then.get(wrong) is None
        memory = await believed.get(wrong)
        assert memory is not None
        assert memory.status is S.ACTIVE

    async def test_a_rejected_fact_gives_its_time_back_and_does_not_return(self, store: MemoryStore) -> None:
        home, wrong = await say(store, "Rome", 0), await say(store, "Bern", 10)
        await store.reject(wrong, "never true")
        assert await told(store) == [(0, None, "Rome")]
        again = await store.propose("Bern", "t", 0.9, key=KEY)
        assert isinstance(again, Rejected)
        assert again.code == "tombstoned"
        assert await status_of(store, home, wrong) == [S.ACTIVE, S.RETRACTED]

    async def test_the_current_value_is_a_duplicate_and_an_older_one_is_not(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        await say(store, "Rome", 0)
        clock.set(day(1))
        current = await say(store, "Oslo", 1)
        again = await store.propose("Oslo", "another session", 0.9, key=KEY)
        assert isinstance(again, Rejected)
        assert (again.code, again.memory_id) == ("duplicate", current)
        since = await store.propose("Oslo", "s", 0.9, key=KEY, valid_from=day(-5))
        assert isinstance(since, Accepted)
        assert await told(store) == [(-5, 0, "Oslo"), (0, 1, "Rome"), (1, None, "Oslo")]

    async def test_a_revised_key_moves_a_fact_and_both_chains_settle(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        first, moved, there = (
            await say(store, "Rome", 0),
            await say(store, "Oslo", 10),
            await say(store, "Bern", 5, key="there"),
        )
        clock.set(day(20))
        await store.sweep()
        await store.revise(moved, "Oslo", "of another person", key="there")
        assert await told(store) == [(0, None, "Rome")]
        assert await told(store, "there") == [(5, 10, "Bern"), (10, None, "Oslo")]
        assert await status_of(store, first, moved, there) == [S.ACTIVE, S.ACTIVE, S.SUPERSEDED]
        assert await told(store, system_at=day(15)) == [(0, 10, "Rome"), (10, None, "Oslo")]
        assert await told(store, "there", system_at=day(15)) == [(5, None, "Bern")]
        assert {v.memory.id for v in await store.history(key=KEY)} == {first, moved}

    async def test_a_key_taken_away_leaves_the_chain(self, store: MemoryStore) -> None:
        await say(store, "Rome", 0)
        moved = await say(store, "Oslo", 10)
        await store.revise(moved, "Oslo", key=None)
        assert await told(store) == [(0, None, "Rome")]
        found = await store.as_of(valid_at=day(12)).list()
        assert {m.content for m in found} == {"Rome", "Oslo"}

    # -- quarantine ---------------------------------------------------------------------------------

    async def test_a_successor_accepted_meanwhile_keeps_its_place_when_the_tail_is_released(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        first, tail = await say(store, "Rome", 0), await say(store, "Oslo", 10)
        clock.set(day(12))
        await store.quarantine(tail)
        assert await told(store) == [(0, None, "Rome")]
        assert await status_of(store, first) == [S.ACTIVE]
        clock.set(day(20))
        successor = await say(store, "Bern", 20)
        clock.set(day(25))
        released = await store.release(tail)
        assert released.status is S.SUPERSEDED
        assert await told(store) == [(0, 10, "Rome"), (10, 20, "Oslo"), (20, None, "Bern")]
        assert await status_of(store, first, tail, successor) == [S.SUPERSEDED, S.SUPERSEDED, S.ACTIVE]

    async def test_release_gives_the_status_that_the_chain_and_the_clock_give(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        await say(store, "Rome", 0)
        clock.set(day(1))
        tail = await say(store, "Oslo", 1)
        await store.quarantine(tail)
        assert (await store.release(tail)).status is S.ACTIVE
        short = await say(store, "short", 1, key="short", expires_at=day(5))
        superseded = await say(store, "early", 0)
        assert await status_of(store, superseded) == [S.SUPERSEDED]
        for ident in (short, superseded):
            await store.quarantine(ident)
        clock.set(day(6))
        await store.retract(tail)
        assert [(await store.release(ident)).status for ident in (short, superseded)] == [S.EXPIRED, S.ACTIVE]
        assert await told(store) == [(0, None, "early")]
        assert await told(store, "short") == [(1, 5, "short")]

    async def test_what_is_quarantined_today_is_seen_at_no_point_and_comes_back_when_released(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        ident = await say(store, "Rome", 0)
        clock.set(day(1))
        await store.quarantine(ident)
        clock.set(day(2))
        for believed in (None, day(0.5), day(1.5)):
            assert await told(store, system_at=believed) == []
            assert await value_at(store.as_of(valid_at=day(0.5), system_at=believed)) is None
        await store.release(ident)
        told_now = [await told(store, system_at=believed) for believed in (None, day(0.5), day(1.5))]
        assert told_now == [[(0, None, "Rome")], [(0, None, "Rome")], []]

    async def test_a_sweep_tells_members_of_one_key_apart_that_are_over_at_different_times(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        cut = await say(store, "Rome", 0)
        await store.retract(cut, during=(day(1), None))
        succeeded = await say(store, "Oslo", 2)
        successor = await say(store, "Bern", 3)
        clock.set(day(4))
        assert (await store.sweep()).superseded == 1
        assert await status_of(store, cut, succeeded, successor) == [S.ACTIVE, S.SUPERSEDED, S.ACTIVE]

    async def test_the_history_of_a_key_has_what_waited_there_and_moved_on(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        home = await say(store, "Rome", 0)
        waiting = await store.propose("Oslo", "s", 0.9, key=KEY, origin="tool")
        clock.set(day(1))
        await store.revise(waiting.memory_id, "Oslo", key="user/work")
        found = {version.memory.id for version in await store.history(key=KEY)}
        assert found == {home, waiting.memory_id}

    async def test_a_sweep_expires_what_is_over_by_the_time_it_is_written_at(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        ident = await say(store, "Rome", 0, expires_at=day(5))
        clock.set(day(6))
        await store.propose("tea", "s", 0.9)
        clock.set(day(1))
        assert (await store.sweep()).expired == 1
        assert await status_of(store, ident) == [S.EXPIRED]

    async def test_what_leaves_its_key_for_none_is_superseded_by_nobody(
        self, storage: StorageBackend, clock: ManualClock
    ) -> None:
        async with await MemoryStore.init(
            storage, clock=clock, tenant=TENANT, keyed_by=KeyedBy("subject")
        ) as store:
            first = await say(store, {"subject": "ann", "city": "Rome"}, 0, key=None)
            second = await say(store, {"subject": "ann", "city": "Oslo"}, 0, key=None)
            assert await status_of(store, first, second) == [S.SUPERSEDED, S.ACTIVE]
            moved = await store.revise(first, {"city": "Rome"})
            assert (moved.key, moved.status) == (None, S.ACTIVE)
            assert len(await store.as_of().list()) == 2
            assert (await store.replay()).identical

    # -- where keys come from, and how many values they hold ---------------------------------------

    async def test_a_key_of_many_values_supersedes_nothing_and_refuses_the_same_value(
        self, storage: StorageBackend, clock: ManualClock
    ) -> None:
        async with await MemoryStore.init(
            storage, clock=clock, tenant=TENANT, cardinality={"user:*/hobby": "many"}
        ) as store:
            ids = [await say(store, hobby, 0, key="user:ann/hobby") for hobby in ("chess", "golf", "tea")]
            again = await store.propose("golf", "t", 0.9, key="user:ann/hobby")
            assert isinstance(again, Rejected)
            assert (again.code, again.memory_id) == ("duplicate", ids[1])
            await store.amend_validity(ids[1], day(0), day(5))
            await store.retract(ids[2], during=(day(3), day(4)))
            seen = [
                sorted(m.content for m in await store.as_of(valid_at=day(at)).list()) for at in (2, 3.5, 6)
            ]
            assert seen == [["chess", "golf", "tea"], ["chess", "golf"], ["chess", "tea"]]
            assert await status_of(store, *ids) == [S.ACTIVE] * 3
            spans = await store.timeline("user:ann/hobby")
            assert {s.memory.id for s in spans} == set(ids)
            clock.set(day(10))
            assert (await store.sweep()).superseded == 0
            assert (await store.replay()).identical

    async def test_a_key_is_given_or_comes_from_the_contents_model_or_from_its_fields(
        self, storage: StorageBackend, clock: ManualClock
    ) -> None:
        async with await MemoryStore.init(
            storage, clock=clock, tenant=TENANT, keyed_by=KeyedBy("subject", "predicate")
        ) as store:
            contents: list[tuple[Any, str | None, str | None]] = [
                ({"subject": "Ann", "predicate": "Lives in", "object": "Rome"}, None, "ann/lives in"),
                ({"subject": "Bob", "predicate": "lives in", "object": "Rome"}, "given", "given"),
                (Home("ann", "Rome"), None, "home/ann"),
                (Home("", "Rome"), None, None),
                ({"subject": "Ann"}, None, None),
                ("Rome", None, None),
            ]
            results = [await store.propose(content, "s", 0.9, key=key) for content, key, _ in contents]
            assert [r.memory.key for r in results] == [key for _, _, key in contents]
            moved = await store.propose(
                {"subject": " ann ", "predicate": "LIVES  in", "object": "Oslo"}, "s", 0.9, valid_from=day(5)
            )
            assert isinstance(moved, Accepted)
            assert [(a, b, c["object"]) for a, b, c in await told(store, "ann/lives in")] == [
                (0, 5, "Rome"),
                (5, None, "Oslo"),
            ]

    async def test_a_validator_is_shown_every_current_value_of_a_key_and_those_that_wait(
        self, storage: StorageBackend, clock: ManualClock
    ) -> None:
        shown: list[list[Any]] = []

        async def look(memory: Memory, context: ValidationContext) -> ValidationResult:
            shown.append([m.content for m in context.live_on_key])
            return ValidationResult(passed=True)

        async with await MemoryStore.init(
            storage, [look, ConfidenceThreshold(0.5)], clock=clock, tenant=TENANT,
            cardinality={"user:*/hobby": "many"},
        ) as store:  # fmt: skip
            ids = [await say(store, hobby, 0, key="user:ann/hobby") for hobby in ("chess", "golf", "tea")]
            await store.retract(ids[1])
            assert isinstance(await store.propose("ski", "s", 0.1, key="user:ann/hobby"), PendingConfirmation)
            await say(store, "tea", 0, scope="elsewhere", key="user:ann/hobby")
            await say(store, "go", 0, key="user:ann/hobby")
            assert shown[-1] == ["chess", "tea", "ski"]
            await say(store, "Rome", 0)
            await say(store, "Oslo", 5)
            await say(store, "Bern", -5)
            assert shown[-3:] == [[], ["Rome"], ["Rome"]]
            clock.set(day(10))
            await say(store, "Paris", 9)
            assert shown[-1] == ["Oslo"]
