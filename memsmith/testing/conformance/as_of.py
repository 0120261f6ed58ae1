# ruff: noqa: D102 - a test's name says what it tests
"""Both axes: on one date, what did we believe was true on another, and how did that change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from memsmith.errors import ArgumentError, InvalidIntervalError, NaiveDatetimeError
from memsmith.lifecycle import Action, next_status
from memsmith.protocols import StorageBackend
from memsmith.state import State
from memsmith.store.store import MemoryStore
from memsmith.store.supersede import settle
from memsmith.testing.clock import START, ManualClock
from memsmith.testing.conformance.base import TENANT, Suite
from memsmith.testing.conformance.timing import KEY, MICROSECOND, contents, day, say, told, value_at
from memsmith.types import Memory, MemoryStatus, PendingConfirmation
from memsmith.unit import Unit
from memsmith.validators.confidence import ConfidenceThreshold
from memsmith.wants import Wants

S = MemoryStatus


def _erasing(memory_id: str) -> Callable[[State], Memory]:
    """Return the transition to ERASED by itself: what it destroys is not what reads are about."""

    def decide(state: State) -> Memory:
        memory = state.memory(memory_id)
        status = next_status(memory_id, memory.status, Action.ERASE)
        changed = state.change(memory, Action.ERASE, {"status": status, "content": None}, {}, actor="owner")
        return settle(state, memory, changed, "owner")

    return decide


class PastReads(Suite):
    """What a handle on a point in both times answers."""

    async def test_a_point_on_both_axes_is_one_argument_each(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        await say(store, "Rome", 0)
        clock.set(day(10))
        await say(store, "Oslo", 5)
        points = {
            (4, 9): "Rome", (6, 9): "Rome", (4, 10): "Rome", (6, 10): "Oslo",
            (-1, 9): None, (-1, 10): None, (100, 9): "Rome", (100, 10): "Oslo",
        }  # fmt: skip
        for (valid, system), city in points.items():
            assert await value_at(store.as_of(valid_at=day(valid), system_at=day(system))) == city
        assert await value_at(store.as_of()) == "Oslo"
        assert await value_at(store.as_of(valid_at=day(6), system_at=day(10) - MICROSECOND)) == "Rome"

    async def test_before_anything_was_known_nothing_holds(self, store: MemoryStore) -> None:
        assert await contents(store.as_of(system_at=day(1))) == set()
        ident = await say(store, "Rome", -10)
        before = store.as_of(valid_at=day(0), system_at=START - MICROSECOND)
        assert await contents(before) == set()
        assert await before.get(ident) is None
        assert await before.history(ident) == []
        assert await before.timeline(KEY) == []

    async def test_what_expires_in_december_is_gone_in_june_and_still_held_the_june_before(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        def at(text: str) -> datetime:
            return datetime.fromisoformat(f"{text}T00:00:00Z")

        ident = await say(store, "trial", 0, expires_at=at("2026-12-01"))
        clock.set(at("2026-10-01"))
        for _ in range(2):
            assert await value_at(store.as_of(valid_at=at("2027-06-01"))) is None
            assert await value_at(store.as_of(valid_at=at("2026-06-01"))) == "trial"
            assert await value_at(store.as_of(valid_at=at("2026-12-01"))) is None
            assert await value_at(store.as_of(valid_at=at("2026-12-01") - MICROSECOND)) == "trial"
            early = store.as_of(valid_at=at("2026-06-01"), system_at=at("2026-10-01"))
            assert await value_at(early) == "trial"
            # Swept or not, the answers are the same.
            clock.set(at("2027-06-02"))
            await store.sweep()
        memory = await store.get(ident)
        assert memory is not None
        assert memory.status is S.EXPIRED

    async def test_a_moment_later_than_the_newest_change_is_pinned_to_it(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        ident = await say(store, "Rome", 0)
        pinned = store.as_of(valid_at=day(1), system_at=day(1000))
        assert await value_at(pinned) == "Rome"
        clock.set(day(2))
        await store.revise(ident, "Roma")
        await say(store, "Oslo", 0.5)
        assert await value_at(pinned) == "Rome"
        assert [s.memory.content for s in await pinned.timeline(KEY)] == ["Rome"]
        assert [v.memory.content for v in await pinned.history(ident)] == ["Rome"]
        assert await value_at(store.as_of(valid_at=day(1), system_at=day(1000))) == "Oslo"

    async def test_a_handle_without_times_follows_the_clock_and_what_is_believed(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        reader = store.as_of()
        assert await value_at(reader) is None
        await say(store, "Rome", 0)
        assert await value_at(reader) == "Rome"
        await say(store, "Oslo", 10)
        assert await value_at(reader) == "Rome"
        clock.set(day(10))
        assert await value_at(reader) == "Oslo"

    async def test_a_transaction_reads_what_it_wrote_and_forgets_it_when_undone(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        home = await say(store, "Rome", 0)
        clock.set(day(1))

        async def undone() -> None:
            async with store.transaction():
                moved = await say(store, "Oslo", 1)
                for believed in (None, day(1000)):
                    assert await told(store, system_at=believed) == [(0, 1, "Rome"), (1, None, "Oslo")]
                    assert await contents(store.as_of(system_at=believed)) == {"Oslo"}
                await store.retract(home)
                assert await told(store) == [(1, None, "Oslo")]
                assert await told(store, system_at=day(0.5)) == [(0, None, "Rome")]
                assert [v.action for v in await store.history(moved)] == ["proposed"]
                raise LookupError

        with pytest.raises(LookupError):
            await undone()
        assert await told(store) == [(0, None, "Rome")]
        assert [v.action for v in await store.history(key=KEY)] == ["proposed"]
        assert len(await store.rectangles(KEY)) == 1

    async def test_only_what_was_accepted_by_then_is_seen_and_statuses_are_those_of_then(
        self, storage: StorageBackend, clock: ManualClock
    ) -> None:
        validators = [ConfidenceThreshold(0.5)]
        async with await MemoryStore.init(storage, validators, clock=clock, tenant=TENANT) as store:
            held = await store.propose("held", "s", 0.1)
            assert isinstance(held, PendingConfirmation)
            home = await say(store, "Rome", 0)
            clock.set(day(1))
            await store.confirm(held.memory_id)
            clock.set(day(2))
            await say(store, "Oslo", 2)
            first, second = store.as_of(valid_at=day(0.5), system_at=day(0.5)), store.as_of(valid_at=day(0.5))
            assert await contents(first) == {"Rome"}
            assert await contents(second) == {"Rome", "held"}
            assert await contents(first, status=S.ACTIVE) == {"Rome"}
            assert await contents(second, status=S.ACTIVE) == {"held"}
            assert await contents(second, status=S.SUPERSEDED) == {"Rome"}
            then, by_now = await first.get(home), await second.get(home)
            assert then is not None
            assert by_now is not None
            assert (then.status, by_now.status) == (S.ACTIVE, S.SUPERSEDED)

    async def test_get_gives_the_version_of_then_and_none_where_it_does_not_hold(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        ident = await say(store, "Rome", 0, 10)
        written = await store.get(ident)
        clock.set(day(1))
        await store.revise(ident, "Roma", "spelling")
        await store.update_confidence(ident, 0.99)
        assert await store.as_of(valid_at=day(0), system_at=day(0.5)).get(ident) == written
        assert await store.as_of(valid_at=day(0)).get(ident) == await store.get(ident)
        assert await store.as_of(valid_at=day(10)).get(ident) is None
        assert await store.as_of().get("0" * 32) is None

    async def test_an_unkeyed_fact_holds_in_its_interval_less_what_was_taken_out(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        ident = await say(store, "Oslo", 0, 10, key=None)
        clock.set(day(1))
        await store.retract(ident, "elsewhere", during=(day(4), day(6)))
        points = {(-1): set[str](), 0: {"Oslo"}, 4: set[str](), 5: set[str](), 6: {"Oslo"}, 10: set[str]()}
        for at, expected in points.items():
            assert await contents(store.as_of(valid_at=day(at))) == expected
        assert await contents(store.as_of(valid_at=day(5), system_at=day(0.5))) == {"Oslo"}
        with pytest.raises(InvalidIntervalError):
            await store.retract(ident, during=(day(4), day(5)))
        clock.set(day(2))
        gone = await store.retract(ident, during=(day(0), None))
        assert gone.status is S.RETRACTED
        assert await contents(store.as_of(valid_at=day(0))) == set()
        assert await contents(store.as_of(valid_at=day(0), system_at=day(1.5))) == {"Oslo"}

    # -- how what is believed changed ----------------------------------------------------------------

    async def test_a_memorys_history_says_what_when_who_and_why(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        ident = await say(store, "Rome", 0, actor="ann")
        clock.set(day(1))
        await store.revise(ident, "Roma", "spelling", actor="bob")
        clock.set(day(2))
        await store.amend_validity(ident, day(-1), day(5), "earlier", actor="cat")
        versions = await store.history(ident)
        assert [
            (v.memory.content, v.memory.valid_from, v.memory.valid_to, v.system_from, v.system_to)
            for v in versions
        ] == [
            ("Rome", day(0), None, day(0), day(1)),
            ("Roma", day(0), None, day(1), day(2)),
            ("Roma", day(-1), day(5), day(2), None),
        ]
        assert [(v.action, v.actor, v.reason, v.memory.seq) for v in versions] == [
            ("proposed", "ann", None, 1),
            ("revised", "bob", "spelling", 2),
            ("validity_amended", "cat", "earlier", 3),
        ]
        assert versions[-1].memory == await store.get(ident)
        assert {e.seq: e.action for e in await store.audit(ident)} == {
            v.memory.seq: v.action for v in versions
        }
        known = await store.as_of(system_at=day(1)).history(ident)
        assert [(v.memory.content, v.system_to) for v in known] == [("Rome", day(1)), ("Roma", None)]

    async def test_a_keys_history_has_all_its_members_in_order_of_belief(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        rome = await say(store, "Rome", 0)
        clock.set(day(1))
        oslo = await say(store, "Oslo", 1, actor="ann")
        clock.set(day(2))
        await store.retract(oslo, "wrong", actor="bob")
        found = [
            (v.memory.id, v.memory.status, v.action, v.actor, v.system_from)
            for v in await store.history(key=KEY)
        ]
        assert found == [
            (rome, S.ACTIVE, "proposed", "owner", day(0)),
            (oslo, S.ACTIVE, "proposed", "ann", day(1)),
            (rome, S.SUPERSEDED, "superseded", "ann", day(1)),
            (oslo, S.RETRACTED, "retracted", "bob", day(2)),
            (rome, S.ACTIVE, "reinstated", "bob", day(2)),
        ]
        assert await store.history(key="unknown") == []
        assert await store.history("0" * 32) == []
        for arguments in ({}, {"memory_id": rome, "key": KEY}):
            with pytest.raises(ArgumentError):
                await store.history(**arguments)

    async def test_a_difference_says_what_was_learned_between_two_moments(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        rome, kept = await say(store, "Rome", 0), await say(store, "kept", 0, key="kept")
        gone = await say(store, "gone", 0, key="gone")
        clock.set(day(1))
        oslo = await say(store, "Oslo", 1)
        clock.set(day(2))
        await store.retract(gone)
        brief = await say(store, "brief", 2, key="brief")
        await store.retract(brief)
        found = {
            d.memory_id: (d.before and d.before.status, d.after and d.after.status)
            for d in await store.diff(day(0.5), day(5))
        }
        assert found == {
            oslo: (None, S.ACTIVE),
            rome: (S.ACTIVE, S.SUPERSEDED),
            gone: (S.ACTIVE, S.RETRACTED),
            brief: (None, S.RETRACTED),
        }
        assert [d.memory_id for d in await store.diff(day(0.5), day(1.5))] == [oslo, rome]
        assert {d.memory_id for d in await store.diff(day(-1), day(0.5))} == {rome, kept, gone}
        assert await store.diff(day(1.2), day(1.4)) == []
        assert await store.diff(day(5), day(6)) == []
        for later in (day(0), day(-1)):
            with pytest.raises(ArgumentError):
                await store.diff(day(0), later)

    async def test_a_timeline_leaves_out_the_gap_that_an_expiry_leaves(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        await say(store, "Rome", 0)
        await say(store, "Oslo", 5, expires_at=day(7))
        await say(store, "Bern", 10)
        clock.set(day(1))
        await say(store, "Paris", 20, expires_at=day(15))
        expected = [(0, 5, "Rome"), (5, 7, "Oslo"), (10, 20, "Bern")]
        assert await told(store) == expected
        clock.set(day(30))
        await store.sweep()
        assert await told(store) == expected
        assert await told(store, system_at=day(0.5)) == [(0, 5, "Rome"), (5, 7, "Oslo"), (10, None, "Bern")]

    async def test_what_is_erased_after_the_asked_moment_of_belief_is_suppressed_there_too(
        self, store: MemoryStore, storage: StorageBackend, clock: ManualClock
    ) -> None:
        home, erased = await say(store, "Rome", 0), await say(store, "Oslo", 5)
        plain = (await store.propose("plain", "s", 0.9, valid_from=day(0))).memory_id
        for n, ident in enumerate((erased, plain)):
            clock.set(day(10 + n))
            await storage.commit(TENANT, [Unit(_erasing(ident), Wants(memories={ident}))], clock)
        for believed in (day(1), day(10), day(11), day(20)):
            assert await told(store, system_at=believed) == [(0, 5, "Rome")]
            then = store.as_of(valid_at=day(6), system_at=believed)
            assert [await then.get(ident) for ident in (home, erased)] == [None, None]
            assert await contents(then) == set()
            assert await contents(store.as_of(valid_at=day(2), system_at=believed)) == {"Rome"}
        assert (await store.replay()).identical

    async def test_rectangles_keep_all_that_was_ever_effective(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        home = await say(store, "Rome", 0)
        clock.set(day(1))
        trip = await say(store, "Oslo", 10, 20)
        clock.set(day(2))
        await store.retract(trip)
        found = {
            (r.memory_id, r.valid_from, r.valid_to, r.system_from, r.system_to)
            for r in await store.rectangles(KEY)
        }
        assert found == {
            (home, day(0), None, day(0), day(1)),
            (home, day(0), day(10), day(1), day(2)),
            (trip, day(10), day(20), day(1), day(2)),
            (home, day(20), None, day(1), day(2)),
            (home, day(0), None, day(2), None),
        }

    async def test_system_times_rise_though_the_clock_steps_back(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        clock.set(day(10))
        await say(store, "Rome", 0)
        clock.set(day(5))
        await say(store, "Oslo", 1)
        clock.set(day(9))
        await say(store, "Bern", 2)
        times = [v.system_from for v in await store.history(key=KEY)]
        assert sorted(set(times)) == [day(10), day(10) + MICROSECOND, day(10) + 2 * MICROSECOND]
        cities = [
            await value_at(store.as_of(valid_at=day(20), system_at=day(10) + n * MICROSECOND))
            for n in range(-1, 3)
        ]
        assert cities == [None, "Rome", "Oslo", "Bern"]
        assert (await store.replay()).identical

    async def test_what_was_just_accepted_holds_now_though_the_clock_stands_still_or_steps_back(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        for city in ("Rome", "Oslo", "Bern"):
            result = await store.propose(city, "s", 0.9, key=KEY)
            assert await contents(store.as_of()) == {city}
            assert await store.as_of().get(result.memory_id) == result.memory
            clock.advance(timedelta(hours=-1))

    @pytest.mark.parametrize(
        "shown", [START.replace(tzinfo=None), START.replace(year=9000), START.replace(year=9999)]
    )
    async def test_a_clock_that_shows_no_usable_time_is_refused_and_nothing_is_written(
        self, storage: StorageBackend, shown: datetime
    ) -> None:
        async with await MemoryStore.init(storage, clock=lambda: shown, tenant=TENANT) as store:
            for attempt in (
                lambda: store.propose("Rome", "s", 0.9),
                lambda: store.propose("Rome", "s", 0.9, key=KEY, ttl=timedelta(days=1)),
                store.sweep,
                lambda: store.as_of().list(),
            ):
                with pytest.raises((ArgumentError, NaiveDatetimeError), match="clock"):
                    await attempt()
            with pytest.raises((ArgumentError, NaiveDatetimeError), match="clock"):
                async with store.transaction():
                    await store.propose("Rome", "s", 0.9)
            assert await store.list(kind=None) == []
            assert (await store.verify()).rows == 0

    async def test_naive_times_are_refused_by_name(self, store: MemoryStore) -> None:
        naive = START.replace(tzinfo=None)
        ident = await say(store, "Rome", 0)
        for name in ("valid_at", "system_at"):
            with pytest.raises(NaiveDatetimeError, match=name):
                store.as_of(**{name: naive})
        with pytest.raises(NaiveDatetimeError, match="system_from"):
            await store.diff(naive, day(1))
        with pytest.raises(NaiveDatetimeError, match="during"):
            await store.retract(ident, during=(day(0), naive))
        with pytest.raises(NaiveDatetimeError, match="valid_from"):
            await store.amend_validity(ident, naive, None)
