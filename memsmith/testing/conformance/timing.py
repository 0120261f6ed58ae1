# ruff: noqa: D102 - a test's name says what it tests
"""Valid time: what a key's value is when, as facts come late, early, bounded, corrected and taken back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final, TypeAlias

import pytest

from memsmith.errors import InvalidIntervalError
from memsmith.protocols import StorageBackend
from memsmith.store.asof import AsOf
from memsmith.store.store import MemoryStore
from memsmith.testing.clock import START, ManualClock
from memsmith.testing.conformance.base import TENANT, Suite
from memsmith.types import Accepted, MemoryStatus, ProposalInput

S = MemoryStatus
KEY: Final = "user:ann/lives_in"
MICROSECOND: Final = timedelta(microseconds=1)

Told: TypeAlias = list[tuple[float, float | None, Any]]
"""What a key says: from which day to which (None: open), and what."""


def day(number: float) -> datetime:
    """Return a moment so many days after the start of the clock."""
    return START + timedelta(days=number)


def number_of(moment: datetime) -> float:
    """Return how many days after the start of the clock a moment is."""
    return (moment - START) / timedelta(days=1)


async def say(store: MemoryStore, content: Any, start: float, end: float | None = None, **more: Any) -> str:
    """Propose what is accepted as valid from one day to another, and return its id."""
    given: dict[str, Any] = {"session_id": "s", "confidence": 0.9, "key": KEY}
    until = None if end is None else day(end)
    result = await store.propose(content, valid_from=day(start), valid_to=until, **(given | more))
    assert isinstance(result, Accepted), result
    return result.memory_id


async def contents(reader: AsOf, **query: Any) -> set[Any]:
    """Return the contents that a reader lists, having seen that it counts as many."""
    found = await reader.list(limit=1000, **query)
    assert await reader.count(**query) == len(found)
    return {memory.content for memory in found}


async def value_at(reader: AsOf, key: str = KEY, **where: Any) -> Any:
    """Return what a key says at the point a handle reads; None where it says nothing."""
    found = await reader.list(field_filters={"key": key, **where})
    assert len(found) <= 1, found
    assert await reader.count(field_filters={"key": key, **where}) == len(found)
    return found[0].content if found else None


async def told(
    store: MemoryStore, key: str = KEY, *, scope: str = "", system_at: datetime | None = None
) -> Told:
    """Return a key's timeline; that reads at each of its borders agree with it is asserted."""
    spans = await store.timeline(key, scope=scope, system_at=system_at)
    expected: dict[datetime, Any] = {}
    for span in spans:
        assert expected.get(span.valid_from) is None, "spans overlap"
        expected |= {span.valid_from: span.memory.content, span.valid_from + MICROSECOND: span.memory.content}
        if span.valid_to is not None:
            expected |= {span.valid_to - MICROSECOND: span.memory.content, span.valid_to: None}
    for at, content in expected.items():
        reader = store.as_of(valid_at=at, system_at=system_at)
        assert await value_at(reader, key, scope=scope) == content, at
    return [
        (number_of(s.valid_from), None if s.valid_to is None else number_of(s.valid_to), s.memory.content)
        for s in spans
    ]


async def status_of(store: MemoryStore, *ids: str) -> list[MemoryStatus]:
    """Return where memories stand."""
    found = [await store.get(ident) for ident in ids]
    return [memory.status for memory in found if memory is not None]


class Timing(Suite):
    """One chain, on the axis of valid time."""

    # -- late, early, corrected ---------------------------------------------------------------------

    async def test_a_fact_holds_from_the_moment_it_is_told_unless_it_says_otherwise(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        clock.set(day(3))
        result = await store.propose("Rome", "s", 0.9, key=KEY)
        assert result.memory.valid_from == result.memory.system_from == day(3)
        assert await told(store) == [(3, None, "Rome")]
        assert await value_at(store.as_of(valid_at=day(2))) is None

    async def test_a_late_fact_from_before_all_others_is_accepted_and_superseded_at_once(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        heard: list[tuple[str, str, str]] = []
        await say(store, "Rome", 0)
        clock.set(day(20))

        async def hear(memory_id: str, source: MemoryStatus, target: MemoryStatus) -> None:
            heard.append((memory_id, source.value, target.value))

        store.on_transition(hear)
        late = await store.propose("Bern", "s", 0.9, key=KEY, valid_from=day(-5))
        assert isinstance(late, Accepted)
        assert late.memory.status is S.SUPERSEDED
        assert await told(store) == [(-5, 0, "Bern"), (0, None, "Rome")]
        assert [e.action for e in await store.audit(late.memory_id)] == ["superseded", "proposed"]
        assert heard == [(late.memory_id, "proposed", "active"), (late.memory_id, "active", "superseded")]

    async def test_a_late_fact_from_in_between_holds_until_the_next_one_began(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        ids = [await say(store, "Rome", 0), await say(store, "Oslo", 10)]
        clock.set(day(20))
        ids.append(await say(store, "Bern", 5))
        assert await told(store) == [(0, 5, "Rome"), (5, 10, "Bern"), (10, None, "Oslo")]
        assert await status_of(store, *ids) == [S.SUPERSEDED, S.ACTIVE, S.SUPERSEDED]

    async def test_a_late_fact_from_after_all_others_holds_now(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        ids = [await say(store, "Rome", 0)]
        clock.set(day(10))
        ids.append(await say(store, "Oslo", 10))
        clock.set(day(20))
        ids.append(await say(store, "Bern", 15))
        assert await told(store) == [(0, 10, "Rome"), (10, 15, "Oslo"), (15, None, "Bern")]
        assert await status_of(store, *ids) == [S.SUPERSEDED, S.SUPERSEDED, S.ACTIVE]

    async def test_of_facts_that_begin_together_the_one_told_last_holds(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        wrong = await say(store, "Rome", 0)
        clock.set(day(1))
        right = await say(store, "Roma", 0)
        assert await told(store) == [(0, None, "Roma")]
        assert await told(store, system_at=day(0.5)) == [(0, None, "Rome")]
        assert await status_of(store, wrong, right) == [S.SUPERSEDED, S.ACTIVE]

    async def test_the_earlier_of_two_that_begin_together_does_not_win_again_by_an_edit(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        earlier, later = await say(store, "Rome", 0), await say(store, "Oslo", 0)
        clock.set(day(1))
        await store.update_confidence(earlier, 0.99)
        await store.revise(earlier, "Roma", "spelling")
        assert await told(store) == [(0, None, "Oslo")]
        assert await status_of(store, earlier, later) == [S.SUPERSEDED, S.ACTIVE]
        await store.amend_validity(earlier, day(0), None, "it was so")
        assert await told(store) == [(0, None, "Roma")]

    async def test_a_value_that_comes_back_makes_three_intervals_and_one_current(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        ids: list[str] = []
        for number, city in enumerate(("Rome", "Oslo", "Rome")):
            clock.set(day(number))
            ids.append((await store.propose(city, "s", 0.9, key=KEY)).memory_id)
        assert await told(store) == [(0, 1, "Rome"), (1, 2, "Oslo"), (2, None, "Rome")]
        assert await status_of(store, *ids) == [S.SUPERSEDED, S.SUPERSEDED, S.ACTIVE]
        assert len(set(ids)) == 3

    async def test_a_trip_lies_over_home_which_holds_again_afterwards(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        home, trip = await say(store, "Rome", 0), await say(store, "Oslo", 10, 24)
        assert await told(store) == [(0, 10, "Rome"), (10, 24, "Oslo"), (24, None, "Rome")]
        clock.set(day(17))
        assert await value_at(store.as_of()) == "Oslo"
        assert await status_of(store, home, trip) == [S.ACTIVE, S.ACTIVE]
        clock.set(day(24))
        assert await value_at(store.as_of()) == "Rome"
        swept = await store.sweep()
        assert (swept.expired, swept.superseded) == (0, 0)
        assert await status_of(store, home, trip) == [S.ACTIVE, S.ACTIVE]

    async def test_a_successor_of_the_future_leaves_the_present_alone_until_its_day(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        now, then = await say(store, "Rome", 0), await say(store, "Oslo", 10)
        clock.set(day(10) - MICROSECOND)
        assert await value_at(store.as_of()) == "Rome"
        assert (await store.sweep()).superseded == 0
        assert await status_of(store, now, then) == [S.ACTIVE, S.ACTIVE]
        clock.set(day(10))
        assert await value_at(store.as_of()) == "Oslo"
        assert await status_of(store, now, then) == [S.ACTIVE, S.ACTIVE]
        assert [(await store.sweep()).superseded for _ in range(2)] == [1, 0]
        assert await status_of(store, now, then) == [S.SUPERSEDED, S.ACTIVE]
        (newest, *_) = await store.audit(now)
        assert (newest.action, newest.actor) == ("superseded", "library")
        assert await told(store) == [(0, 10, "Rome"), (10, None, "Oslo")]

    # -- taking out ---------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("which", "left", "statuses"),
        [
            ("tail", [(0, 10, "Rome"), (10, None, "Oslo")], [S.SUPERSEDED, S.ACTIVE, S.RETRACTED]),
            ("middle", [(0, 20, "Rome"), (20, None, "Bern")], [S.SUPERSEDED, S.RETRACTED, S.ACTIVE]),
            ("head", [(10, 20, "Oslo"), (20, None, "Bern")], [S.RETRACTED, S.SUPERSEDED, S.ACTIVE]),
            ("all", [], [S.RETRACTED] * 3),
        ],
    )
    async def test_what_is_retracted_leaves_its_time_to_what_it_covered(
        self, store: MemoryStore, clock: ManualClock, which: str, left: Told, statuses: list[MemoryStatus]
    ) -> None:
        ids: list[str] = []
        for number, city in ((0, "Rome"), (10, "Oslo"), (20, "Bern")):
            clock.set(day(number))
            ids.append(await say(store, city, number))
        before = await told(store)
        clock.set(day(30))
        doomed = {"head": ids[:1], "middle": ids[1:2], "tail": ids[2:], "all": ids}[which]
        for ident in doomed:
            await store.retract(ident, "wrong")
        assert await told(store) == left
        assert await status_of(store, *ids) == statuses
        assert await told(store, system_at=day(25)) == before

    async def test_a_portion_retracted_under_a_later_fact_stays_out_when_that_one_goes(
        self, store: MemoryStore
    ) -> None:
        home, trip = await say(store, "Rome", 0), await say(store, "Oslo", 10, 20)
        await store.retract(home, "away", during=(day(5), day(25)))
        assert await told(store) == [(0, 5, "Rome"), (10, 20, "Oslo"), (25, None, "Rome")]
        await store.retract(trip)
        assert await told(store) == [(0, 5, "Rome"), (25, None, "Rome")]

    async def test_retracting_during_all_that_is_left_is_retracting(self, store: MemoryStore) -> None:
        trip = await say(store, "Oslo", 0, 20)
        await store.retract(trip, during=(day(0), day(10)))
        assert await status_of(store, trip) == [S.ACTIVE]
        assert await told(store) == [(10, 20, "Oslo")]
        await store.retract(trip, "all of it", during=(day(5), None))
        assert await status_of(store, trip) == [S.RETRACTED]
        assert await told(store) == []

    async def test_a_portion_that_a_fact_does_not_cover_is_refused(self, store: MemoryStore) -> None:
        trip = await say(store, "Oslo", 10, 20)
        for during in ((day(0), day(10)), (day(20), None)):
            with pytest.raises(InvalidIntervalError):
                await store.retract(trip, during=during)
        assert len(await store.audit(trip)) == 1

    async def test_retracted_portions_stay_out_when_the_validity_is_amended(self, store: MemoryStore) -> None:
        ident = await say(store, "Oslo", 10, 20)
        await store.retract(ident, during=(day(14), day(16)))
        await store.amend_validity(ident, day(5), day(25), "longer")
        assert await told(store) == [(5, 14, "Oslo"), (16, 25, "Oslo")]
        with pytest.raises(InvalidIntervalError):
            await store.amend_validity(ident, day(14), day(15))
        assert await told(store) == [(5, 14, "Oslo"), (16, 25, "Oslo")]

    async def test_a_fact_whose_time_runs_out_brings_nothing_older_back(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        home = await say(store, "Rome", 0)
        clock.set(day(5))
        short = await say(store, "Oslo", 5, ttl=timedelta(days=5))
        expected = [(0, 5, "Rome"), (5, 10, "Oslo")]
        assert await told(store) == expected
        clock.set(day(12))
        assert await value_at(store.as_of()) is None
        swept = await store.sweep()
        assert (swept.expired, swept.superseded) == (1, 0)
        assert await status_of(store, home, short) == [S.SUPERSEDED, S.EXPIRED]
        assert await told(store) == expected
        assert await value_at(store.as_of()) is None

    # -- at the door --------------------------------------------------------------------------------

    async def test_an_empty_or_inverted_interval_is_refused_everywhere(self, store: MemoryStore) -> None:
        ident = await say(store, "Rome", 0)
        for end in (day(10), day(9)):
            with pytest.raises(InvalidIntervalError):
                await store.propose("Oslo", "s", 0.9, key=KEY, valid_from=day(10), valid_to=end)
            with pytest.raises(InvalidIntervalError):
                await store.amend_validity(ident, day(10), end)
            with pytest.raises(InvalidIntervalError):
                await store.retract(ident, during=(day(10), end))
        with pytest.raises(InvalidIntervalError):
            await store.propose("Oslo", "s", 0.9, key=KEY, valid_to=START)
        assert len(await store.audit()) == 1

    async def test_microseconds_are_kept_on_the_way_in_and_out(self, store: MemoryStore) -> None:
        start, end = day(1) + 123_457 * MICROSECOND, day(1) + 123_458 * MICROSECOND
        result = await store.propose("Oslo", "s", 0.9, key=KEY, valid_from=start, valid_to=end)
        memory = await store.get(result.memory_id)
        assert memory is not None
        assert (memory.valid_from, memory.valid_to) == (start, end)
        moments = (start - MICROSECOND, start, end)
        assert [await value_at(store.as_of(valid_at=at)) for at in moments] == [None, "Oslo", None]
        (span,) = await store.timeline(KEY)
        assert (span.valid_from, span.valid_to) == (start, end)

    async def test_times_with_offsets_are_ordered_by_instant(self, store: MemoryStore) -> None:
        kolkata, new_york = timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-5))
        # As texts they stand in another order than as instants.
        first = datetime(2026, 3, 2, 3, 0, tzinfo=kolkata)  # 2026-03-01T21:30Z
        second = datetime.fromisoformat("2026-03-01T22:00:00Z")
        third = datetime(2026, 3, 1, 18, 0, tzinfo=new_york)  # 2026-03-01T23:00Z
        for city, start in (("third", third), ("first", first), ("second", second)):
            await store.propose(city, "s", 0.9, key=KEY, valid_from=start)
        spans = await store.timeline(KEY)
        assert [s.memory.content for s in spans] == ["first", "second", "third"]
        assert [s.valid_from for s in spans] == [first, second, third]
        assert {s.valid_from.utcoffset() for s in spans} == {timedelta(0)}
        for zone in (UTC, kolkata, new_york):
            at = datetime(2026, 3, 1, 22, 59, 59, tzinfo=UTC).astimezone(zone)
            assert await value_at(store.as_of(valid_at=at)) == "second"

    # -- one unit -----------------------------------------------------------------------------------

    async def test_two_changes_in_one_batch_leave_no_zero_length_version(self, store: MemoryStore) -> None:
        items = [ProposalInput(city, 0.9, key=KEY) for city in ("Rome", "Oslo")]
        first, second = await store.propose_many(items, "s")
        assert isinstance(first, Accepted)
        assert isinstance(second, Accepted)
        versions = await store.history(key=KEY)
        assert {(v.memory.content, v.memory.status, v.system_to) for v in versions} == {
            ("Rome", S.SUPERSEDED, None),
            ("Oslo", S.ACTIVE, None),
        }
        assert len(versions) == 2
        (rectangle,) = await store.rectangles(KEY)
        assert (rectangle.memory_id, rectangle.system_to) == (second.memory_id, None)

    async def test_two_verbs_of_one_transaction_leave_one_version(self, store: MemoryStore) -> None:
        async with store.transaction():
            ident = (await store.propose("Rome", "s", 0.5, key=KEY)).memory_id
            await store.update_confidence(ident, 0.6)
            await store.revise(ident, "Roma")
            other = (await store.propose("Oslo", "s", 0.5, key=KEY, valid_from=day(5))).memory_id
            await store.retract(other)
        assert len(await store.audit(ident)) == 3
        (version,) = await store.history(ident)
        assert (version.memory.content, version.memory.confidence) == ("Roma", 0.6)
        assert [(r.memory_id, r.system_to) for r in await store.rectangles(KEY)] == [(ident, None)]
        assert await told(store) == [(0, None, "Roma")]

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ((0, None), (5, None)),
            ((5, None), (0, None)),
            ((5, None), (5, None)),
            ((0, 10), (5, None)),
            ((0, None), (5, 10)),
            ((5, 10), (0, 20)),
            ((-10, -5), (-8, None)),
        ],
    )
    async def test_a_batch_and_its_items_one_by_one_agree_ever_after(
        self,
        storage: StorageBackend,
        clock: ManualClock,
        first: tuple[float, float | None],
        second: tuple[float, float | None],
    ) -> None:
        async with await MemoryStore.init(storage, clock=clock, tenant=TENANT) as store:
            items = [
                ProposalInput(
                    city, 0.9, key=KEY, valid_from=day(start), valid_to=None if end is None else day(end)
                )
                for city, (start, end) in (("Rome", first), ("Oslo", second))
            ]
            for item in items:
                item.scope = "together"
            await store.propose_many(items, "s")
            for item in items:
                item.scope = "apart"
                await store.propose_many([item], "s")
            clock.set(day(2))
            for scope in ("together", "apart"):
                await say(store, "Bern", 7, 8, scope=scope)
            for believed in (day(1), None):
                together = await told(store, scope="together", system_at=believed)
                assert together == await told(store, scope="apart", system_at=believed)
                assert together
            statuses = [
                [m.status for m in await store.list(field_filters={"scope": scope}, order_by="created_at")]
                for scope in ("together", "apart")
            ]
            assert statuses[0] == statuses[1]

    # -- as other stores have it ----------------------------------------------------------------------

    async def test_two_puts_make_three_rectangles(self, store: MemoryStore, clock: ManualClock) -> None:
        one = await say(store, "Rome", 0)
        clock.set(day(2))
        two = await say(store, "Oslo", 5)
        found = [
            (r.memory_id, r.valid_from, r.valid_to, r.system_from, r.system_to)
            for r in await store.rectangles(KEY)
        ]
        assert found == [
            (one, day(0), None, day(0), day(2)),
            (one, day(0), day(5), day(2), None),
            (two, day(5), None, day(2), None),
        ]

    @pytest.mark.parametrize(
        ("taken", "left"),
        [
            ((15, 20), [(0, 5, 0), (5, 10, 1), (10, 15, 2), (20, 25, 4), (25, 30, 5)]),
            ((2, 10), [(0, 2, 0), (10, 15, 2), (15, 20, 3), (20, 25, 4), (25, 30, 5)]),
            ((20, 27), [(0, 5, 0), (5, 10, 1), (10, 15, 2), (15, 20, 3), (27, 30, 5)]),
        ],
    )
    async def test_a_portion_deleted_of_six_rows_of_five_minutes_cuts_the_rows_at_its_borders(
        self, store: MemoryStore, taken: tuple[int, int], left: list[tuple[int, int, int]]
    ) -> None:
        def minute(number: int) -> datetime:
            return START + timedelta(minutes=number)

        for row in range(6):
            first, last = minute(5 * row), minute(5 * row + 5)
            await store.propose(row, "s", 0.9, key=KEY, valid_from=first, valid_to=last)
        start, end = map(minute, taken)
        for held in await store.timeline(KEY):
            assert held.valid_to is not None
            if held.valid_from < end and start < held.valid_to:
                await store.retract(held.memory.id, during=(start, end))
        spans = [(s.valid_from, s.valid_to, s.memory.content) for s in await store.timeline(KEY)]
        assert spans == [(minute(a), minute(b), row) for a, b, row in left]
        for number in range(30):
            said = [row for a, b, row in left if a <= number < b]
            assert await value_at(store.as_of(valid_at=minute(number))) == (said[0] if said else None)
