"""Laws of chains: against brute force over ticks, and a part gives what the whole gives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from memsmith.temporal import Chains, Claim, Segment, effective, exposed, rearranged, subtract, until
from memsmith.types import Interval, Slot

TICKS = range(-1, 14)
START = datetime(2026, 1, 1, tzinfo=UTC)
SLOT = Slot("fact", "", "k")


def at(tick: int) -> datetime:
    return START + timedelta(hours=tick)


def _interval(pair: tuple[int, int | None]) -> Interval:
    return Interval(at(pair[0]), None if pair[1] is None else at(pair[1]))


_pairs = st.tuples(st.integers(0, 12), st.none() | st.integers(0, 13)).filter(
    lambda pair: pair[1] is None or pair[1] > pair[0]
)
intervals = _pairs.map(_interval)


@st.composite
def chains(draw: st.DrawFn) -> list[Claim]:
    """Members of a chain, each with its own place in the order."""
    stretches = draw(st.lists(st.tuples(intervals, st.lists(intervals, max_size=2)), max_size=7))
    orders = draw(st.permutations(range(1, len(stretches) + 1)))
    return [
        Claim(f"m{order}", asserted, order, tuple(cuts))
        for order, (asserted, cuts) in zip(orders, stretches, strict=True)
    ]


def whole(claims: list[Claim]) -> list[Segment]:
    return effective(piece for claim in claims for piece in claim.covers())


def inside(moment: datetime, interval: Interval) -> bool:
    return interval.start <= moment < until(interval.end)


def holder(claims: list[Claim], moment: datetime) -> str | None:
    covering = [
        claim
        for claim in claims
        if inside(moment, claim.asserted) and not any(inside(moment, cut) for cut in claim.retracted)
    ]
    return max(covering, key=lambda claim: claim.rank).memory_id if covering else None


@given(intervals, st.lists(intervals, max_size=4))
def test_what_is_left_of_an_interval_is_what_nothing_takes(interval: Interval, taken: list[Interval]) -> None:
    left = subtract(interval, taken)
    assert left == sorted(left, key=lambda piece: piece.start)
    for moment in map(at, TICKS):
        expected = inside(moment, interval) and not any(inside(moment, out) for out in taken)
        assert sum(inside(moment, piece) for piece in left) == expected


@given(chains())
def test_at_every_tick_the_member_that_began_last_holds(claims: list[Claim]) -> None:
    segments = whole(claims)
    for moment in map(at, TICKS):
        held = [s.memory_id for s in segments if inside(moment, Interval(s.start, s.end))]
        expected = holder(claims, moment)
        assert held == ([] if expected is None else [expected])


@given(chains())
def test_segments_are_disjoint_in_order_and_as_few_as_can_be(claims: list[Claim]) -> None:
    segments = whole(claims)
    for one, following in pairwise(segments):
        assert until(one.end) <= following.start
        assert one.end != following.start or one.memory_id != following.memory_id
    assert all(until(s.end) > s.start for s in segments)


@given(chains(), st.data())
def test_the_order_in_which_members_are_given_changes_nothing(
    claims: list[Claim], data: st.DataObject
) -> None:
    assert whole(data.draw(st.permutations(claims))) == whole(claims)


@settings(max_examples=500)
@given(chains(), intervals, st.lists(intervals, max_size=2), st.data())
def test_a_change_seen_through_its_window_gives_what_the_whole_chain_gives(
    claims: list[Claim], asserted: Interval, cuts: list[Interval], data: st.DataObject
) -> None:
    """One member comes, goes, or claims something else; only the tail of the chain is looked at."""
    changed = data.draw(st.sampled_from([*claims, None]))
    goes = changed is not None and data.draw(st.booleans())
    memory_id = "new" if changed is None else changed.memory_id
    order = data.draw(st.sampled_from([100] if changed is None else [changed.order, 100]))
    now = None if goes else Claim(memory_id, asserted, order, tuple(cuts))
    others = [claim for claim in claims if claim is not changed]
    before = whole(claims)
    starts = [claim.asserted.start for claim in (changed, now) if claim is not None]
    tail = [segment for segment in before if until(segment.end) >= min(starts)]
    gaps = exposed([s for s in tail if s.memory_id == memory_id], now)
    beneath = [
        claim
        for claim in others
        if any(
            claim.asserted.start < until(gap.end) and until(claim.asserted.end) > gap.start for gap in gaps
        )
    ]
    found = before[: len(before) - len(tail)] + rearranged(tail, memory_id, now, beneath)
    assert found == whole(others if now is None else [*others, now])


@given(st.lists(chains(), min_size=2, max_size=4))
def test_segments_of_a_group_are_believed_one_after_the_other_and_undone_without_trace(
    states: list[list[Claim]],
) -> None:
    kept = Chains()
    current: list[Segment] = []
    for number, claims in enumerate(states):
        kept.begin()
        new, now = whole(claims), at(100 + number)
        before = [(b.place, b.segment, b.system_to) for b in kept]
        undo = kept.replace(SLOT, current, new, now)
        undo()
        assert [(b.place, b.segment, b.system_to) for b in kept] == before
        kept.replace(SLOT, current, new, now)
        current = new
        assert kept.from_on(SLOT, at(-10)) == new
    for number, claims in enumerate(states):
        moment = at(100 + number)
        believed = [b.segment for b in kept if b.system_from <= moment < until(b.system_to)]
        assert sorted(believed) == sorted(whole(claims))
