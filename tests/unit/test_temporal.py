"""Intervals and chains: what holds when, and what changes when a member does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from memsmith.temporal import (
    Believed,
    Chains,
    Claim,
    Segment,
    effective,
    exposed,
    is_superseded,
    joined,
    rearranged,
    subtract,
)
from memsmith.testing.conformance.base import a_memory
from memsmith.types import Interval, MemoryStatus, Slot

DAY = timedelta(days=1)
START = datetime(2026, 1, 1, tzinfo=UTC)
SLOT = Slot("fact", "", "k")


def day(number: int) -> datetime:
    return START + number * DAY


def span(start: int, end: int | None) -> Interval:
    return Interval(day(start), None if end is None else day(end))


def claim(name: str, start: int, end: int | None = None, order: int = 1, *cuts: Interval) -> Claim:
    return Claim(name, span(start, end), order, cuts)


def drawn(segments: list[Segment]) -> list[tuple[str, int, int | None]]:
    return [
        (s.memory_id, (s.start - START).days, None if s.end is None else (s.end - START).days)
        for s in segments
    ]


def whole(*claims: Claim) -> list[Segment]:
    return effective(piece for each in claims for piece in each.covers())


@pytest.mark.parametrize(
    ("taken", "left"),
    [
        ([], [span(2, 8)]),
        ([span(0, 2)], [span(2, 8)]),
        ([span(8, None)], [span(2, 8)]),
        ([span(0, 4)], [span(4, 8)]),
        ([span(6, None)], [span(2, 6)]),
        ([span(4, 6)], [span(2, 4), span(6, 8)]),
        ([span(4, 6), span(3, 7)], [span(2, 3), span(7, 8)]),
        ([span(2, 8)], []),
        ([span(0, None)], []),
    ],
)
def test_what_is_taken_out_of_an_interval_leaves_the_rest(
    taken: list[Interval], left: list[Interval]
) -> None:
    assert subtract(span(2, 8), taken) == left


def test_nothing_but_a_portion_with_an_end_is_left_of_an_open_interval() -> None:
    assert subtract(span(2, None), [span(5, None)]) == [span(2, 5)]
    assert subtract(span(2, None), [span(4, 5)]) == [span(2, 4), span(5, None)]


def test_portions_that_touch_or_overlap_are_one() -> None:
    assert joined([span(4, 6), span(0, 2), span(2, 3), span(5, 9)]) == (span(0, 3), span(4, 9))
    assert joined([span(4, None), span(0, 5)]) == (span(0, None),)
    assert joined([span(0, None), span(3, 5)]) == (span(0, None),)
    assert joined([]) == ()


def test_an_open_fact_holds_until_the_next_one_begins() -> None:
    assert drawn(whole(claim("a", 0), claim("b", 5), claim("c", 9))) == [
        ("a", 0, 5),
        ("b", 5, 9),
        ("c", 9, None),
    ]


def test_a_bounded_fact_lies_over_an_open_one_which_holds_again_afterwards() -> None:
    assert drawn(whole(claim("home", 0), claim("trip", 5, 9))) == [
        ("home", 0, 5),
        ("trip", 5, 9),
        ("home", 9, None),
    ]


def test_of_two_that_begin_together_the_one_asserted_last_holds() -> None:
    assert drawn(whole(claim("first", 0, None, 1), claim("second", 0, 4, 2))) == [
        ("second", 0, 4),
        ("first", 4, None),
    ]


def test_gaps_stay_gaps() -> None:
    assert drawn(whole(claim("a", 0, 2), claim("b", 5, 6))) == [("a", 0, 2), ("b", 5, 6)]


def test_a_member_that_never_holds_has_no_segment() -> None:
    assert drawn(whole(claim("under", 0, 5, 1), claim("over", 0, None, 2))) == [("over", 0, None)]


def test_what_touches_and_is_one_members_is_joined() -> None:
    pieces = [*claim("a", 0, 5).covers(), *claim("a", 0, 9, 1, span(0, 5)).covers()]
    assert drawn(effective(pieces)) == [("a", 0, 9)]


def test_only_what_a_change_uncovers_is_asked_about() -> None:
    held = whole(claim("x", 5, 9, 1))
    assert exposed(held, None) == [span(5, 9)]
    assert exposed(held, claim("x", 5, 9, 2)) == []
    assert exposed(held, claim("x", 5, 9, 1, span(6, 7))) == [span(6, 7)]
    assert exposed(held, claim("x", 2, 9, 3)) == [span(5, 9)], "it began later, so others may begin between"


def test_what_lay_beneath_holds_again_where_a_member_goes() -> None:
    home, trip, next_home = claim("home", 0), claim("trip", 5, 9, 2), claim("next", 7, None, 1)
    before = whole(home, trip, next_home)
    assert drawn(before) == [("home", 0, 5), ("trip", 5, 7), ("next", 7, None)]
    assert rearranged(before, "trip", None, [home, next_home]) == whole(home, next_home)


def believed(*segments: Segment) -> list[Believed]:
    return [Believed(SLOT, segment, day(0)) for segment in segments]


def test_a_chain_is_loaded_from_some_moment_on_and_touching_segments_come_along() -> None:
    chains = Chains()
    stored = whole(claim("a", 0), claim("b", 5), claim("c", 9))
    chains.load([SLOT], believed(*stored))
    assert chains.from_on(SLOT, day(5)) == stored
    assert chains.from_on(SLOT, day(6)) == stored[1:]
    assert chains.from_on(Slot("fact", "", "another"), day(0)) == []


def test_only_what_changed_is_closed_and_opened() -> None:
    chains = Chains()
    old = whole(claim("a", 0), claim("b", 5))
    chains.load([SLOT], believed(*old))
    new = rearranged(old, "c", claim("c", 9))
    chains.begin()
    chains.replace(SLOT, old, new, day(1))
    assert [(b.segment, b.system_to) for b in chains.closed.values()] == [(old[1], day(1))]
    assert drawn([b.segment for b in chains.opened.values()]) == [("b", 5, 9), ("c", 9, None)]
    assert chains.from_on(SLOT, day(0)) == new


def test_undoing_a_change_leaves_no_trace_of_it() -> None:
    chains = Chains()
    old = whole(claim("a", 0))
    chains.load([SLOT], believed(*old))
    middle = rearranged(old, "b", claim("b", 5))
    chains.replace(SLOT, old, middle, day(1))
    chains.begin()
    undo = chains.replace(SLOT, middle, old, day(2))
    assert [b.system_to for b in chains.opened.values()] == [day(2), day(2), None]
    undo()
    assert chains.from_on(SLOT, day(0)) == middle
    assert [b.system_to for b in chains.opened.values()] == [None, None]
    assert [b.system_to for b in chains.closed.values()] == [day(1)]


def test_what_a_unit_closes_and_opens_again_was_never_closed() -> None:
    chains = Chains()
    old = whole(claim("a", 0))
    chains.load([SLOT], believed(*old))
    middle = rearranged(old, "b", claim("b", 5))
    chains.begin()
    chains.replace(SLOT, old, middle, day(1))
    undo = chains.replace(SLOT, middle, old, day(1))
    assert (chains.closed, chains.opened, chains.dropped) == ({}, {}, {})
    undo()
    assert [b.segment for b in chains.closed.values()] == old
    assert sorted(b.segment for b in chains.opened.values()) == middle


def test_what_an_earlier_verb_of_the_same_unit_stored_is_dropped() -> None:
    chains = Chains()
    old = whole(claim("a", 0))
    chains.load([SLOT], believed(*old))
    undo = chains.replace(SLOT, old, [], day(0))
    assert [b.segment for b in chains.dropped.values()] == old
    undo()
    assert chains.dropped == {}
    assert chains.from_on(SLOT, day(0)) == old


def test_a_second_load_does_not_bring_back_what_was_closed() -> None:
    chains = Chains()
    old = whole(claim("a", 0), claim("b", 5))
    chains.load([SLOT], believed(old[1]))
    chains.replace(SLOT, old[1:], [], day(1))
    chains.load([SLOT], believed(*old))
    assert chains.from_on(SLOT, day(0)) == old[:1]


def test_what_stands_for_several_gives_way_to_a_finer_load() -> None:
    chains = Chains()
    stored = whole(claim("a", 0), claim("b", 5), claim("c", 9))
    nameless = Segment("", day(5), None, (day(5), 1))
    chains.load([SLOT], believed(stored[0], nameless))
    assert chains.from_on(SLOT, day(0)) == [stored[0], nameless]
    chains.load([SLOT], believed(*stored))
    assert chains.from_on(SLOT, day(0)) == stored


def test_the_same_stretch_on_another_chain_is_another_segment() -> None:
    there = Slot("fact", "", "there")
    chains = Chains()
    old = whole(claim("a", 0))
    chains.load([SLOT], believed(*old))
    chains.replace(SLOT, old, [], day(1))
    chains.replace(there, [], old, day(1))
    assert [b.slot for b in chains.closed.values()] == [SLOT]
    assert [b.slot for b in chains] == [there]


@pytest.mark.parametrize(
    ("end", "held", "now", "superseded"),
    [
        (None, [(0, None)], 5, False),
        (None, [(0, 4)], 5, True),
        (None, [(0, 7)], 5, False),
        (None, [], 5, True),
        (3, [(0, 3)], 5, False),
        (3, [(0, 2)], 5, True),
        (3, [], 5, True),
        (9, [(0, 2), (7, 9)], 5, False),
    ],
)
def test_a_member_is_superseded_once_others_have_the_rest_of_its_time(
    end: int | None, held: list[tuple[int, int | None]], now: int, superseded: bool
) -> None:
    memory = a_memory("x").evolve(
        {
            "valid_from": day(0),
            "valid_to": None if end is None else day(end),
            "status": MemoryStatus.ACTIVE,
            "asserted_order": 1,
        }
    )
    segments = [Segment(memory.id, *span(*each), (day(0), 1)) for each in held]
    assert is_superseded(memory, segments, day(now)) is superseded
