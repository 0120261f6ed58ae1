# ruff: noqa: D102 - a test's name says what it tests
"""What lies on the two axes of time: segments, versions, and what decisions are shown of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import product
from typing import Any

from memsmith._clock import MICROSECOND
from memsmith.lifecycle import Action
from memsmith.protocols import MemoryQuery, StorageBackend
from memsmith.state import State
from memsmith.store.supersede import settle
from memsmith.temporal import FOREVER, Believed, covers, until
from memsmith.testing.clock import START, ManualClock
from memsmith.testing.conformance.base import (
    TENANT,
    Suite,
    a_memory,
    adding,
    changing,
    committed,
    joining,
    leaving,
)
from memsmith.types import Displaced, Interval, Memory, MemoryStatus, Point, Slot
from memsmith.unit import Unit
from memsmith.wants import Beneath, Loaded, Tail, Wants

S = MemoryStatus
SLOT = Slot("fact", "", "k")
NAMES = "abcdefgh"


def day(number: float) -> datetime:
    """Return a moment so many days after the start of the clock."""
    return START + timedelta(days=number)


def fact(name: str, start: float, end: float | None = None, **more: Any) -> Memory:
    """Return a memory of the chain that most tests are about; its content is its name."""
    until_then = None if end is None else day(end)
    return a_memory(name, key="k", valid_from=day(start), valid_to=until_then, **more)


def unit_of(number: int) -> datetime:
    """Return the system time of the unit so numbered, on a clock that stands still."""
    return START + number * MICROSECOND


async def tail(
    backend: StorageBackend, moment: float, above: float | None = None, slot: Slot = SLOT
) -> Loaded:
    """Return what is fetched of a chain from a moment on."""
    last = FOREVER if above is None else day(above)
    wants = Wants(chains={slot: Tail(day(moment), last)})
    return await backend.fetch(TENANT, wants, START)


def told(segments: Sequence[Believed], names: dict[str, str]) -> list[tuple[str, float, float | None]]:
    """Return segments as (name, first day, last day); "?" is one under no name."""
    return [
        (names.get(ident, "?"), _days(start), None if end is None else _days(end))
        for ident, start, end, _ in (b.segment for b in segments)
    ]


def _days(moment: datetime) -> float:
    return (moment - START) / timedelta(days=1)


def names_of(*memories: Memory) -> dict[str, str]:
    """Return the names of facts by id."""
    return {memory.id: memory.content for memory in memories}


class Remembering(Suite):
    """What a backend keeps of chains and of what was believed before."""

    # -- chains --------------------------------------------------------------------------------

    async def test_of_a_chain_come_the_segments_that_end_at_or_after_a_moment(
        self, backend: StorageBackend
    ) -> None:
        facts = [fact("a", 0), fact("b", 2), fact("c", 4, 5), fact("d", 7, 8), fact("e", 7.5)]
        await committed(backend, *(joining(one) for one in facts))
        names = names_of(*facts)
        whole = [
            ("a", 0, 2), ("b", 2, 4), ("c", 4, 5), ("b", 5, 7), ("d", 7, 7.5), ("e", 7.5, None),
        ]  # fmt: skip
        for moment, first in ((-1, 0), (2, 0), (2.5, 1), (4, 1), (5, 2), (7.2, 4), (7.5, 4), (8, 5), (99, 5)):
            found = await tail(backend, moment)
            assert told(found.segments, names) == whole[first:], moment
            two = list(dict.fromkeys(b.segment.memory_id for b in found.segments))[:2]
            assert {m.id for m in found.memories} >= set(two)
            assert all(b.slot == SLOT and b.system_to is None for b in found.segments)

    async def test_neighbours_that_nobody_asked_for_come_whole_or_as_one(
        self, backend: StorageBackend
    ) -> None:
        facts = [
            fact(name, start, end)
            for name, start, end in zip(NAMES, range(7), [1, 2, None, 4, 5, None, 9], strict=False)
        ]
        await committed(backend, *(joining(one) for one in facts))
        begun = {one.id: one.valid_from or START for one in facts}
        whole = (await tail(backend, -1)).segments
        for above in (-1, 0, 2, 3.5, 6, 9):
            found = (await tail(backend, -1, above)).segments
            asked_for = [b.segment for b in whole if begun[b.segment.memory_id] <= day(above)]
            named = [b.segment for b in found if b.segment.memory_id]
            assert [s for s in named if begun[s.memory_id] <= day(above)] == asked_for
            assert _stretches(found) == _stretches(whole)

    async def test_each_of_many_values_has_a_lane_of_its_own(self, backend: StorageBackend) -> None:
        one, other = fact("one", 0, many=True), fact("other", 1, many=True)
        await committed(backend, joining(one), joining(other))
        for memory, start in ((one, 0), (other, 1)):
            found = await tail(backend, -1, slot=SLOT._replace(lane=memory.id))
            assert told(found.segments, names_of(memory)) == [(memory.content, start, None)]
        assert list((await tail(backend, -1)).segments) == []

    async def test_chains_of_other_kinds_scopes_and_keys_are_other_chains(
        self, backend: StorageBackend
    ) -> None:
        slots = [SLOT, SLOT._replace(kind="note"), SLOT._replace(scope="a"), SLOT._replace(key="l")]
        facts = [a_memory(slot.key, kind=slot.kind, scope=slot.scope, key=slot.key) for slot in slots]
        await committed(backend, *(joining(one) for one in facts))
        for one, slot in zip(facts, slots, strict=True):
            found = await tail(backend, -1, slot=slot)
            assert [b.segment.memory_id for b in found.segments] == [one.id]
            assert {m.id for m in found.memories} == {one.id}
        assert list((await tail(backend, -1, slot=SLOT._replace(scope="a/b"))).segments) == []

    async def test_with_a_chain_come_those_who_wait_on_it_and_what_is_believed_no_more_does_not(
        self, backend: StorageBackend
    ) -> None:
        home, gone, waiting = fact("home", 0), fact("gone", 2), fact("waiting", 3)
        await committed(backend, joining(home), joining(gone), adding(waiting, status=S.PENDING_CONFIRMATION))
        await committed(backend, leaving(gone.id, Action.RETRACT, S.RETRACTED))
        found = await tail(backend, 9)
        assert told(found.segments, names_of(home)) == [("home", 0, None)]
        assert {m.id for m in found.memories} == {home.id, waiting.id}

    async def test_what_lies_beneath_an_interval_is_what_would_hold_there(
        self, backend: StorageBackend
    ) -> None:
        facts = [
            fact("a", 0), fact("b", 1, 6), fact("c", 2), fact("d", 3, 5), fact("e", 4), fact("f", 5, 7),
            fact("g", 2.5, retracted_during=(Interval(day(6), day(7)),)),
        ]  # fmt: skip
        await committed(backend, *(joining(one) for one in facts))
        await committed(backend, changing(facts[2].id, Action.EXPIRE, status=S.EXPIRED))
        out = [fact("waits", 4, 5), fact("elsewhere", 4, scope="x"), fact("lane", 4, many=True)]
        await committed(backend, adding(out[0], status=S.PENDING_CONFIRMATION), *map(joining, out[1:]))
        quarantined = fact("quarantined", 4.5)
        await committed(backend, joining(quarantined))
        await committed(backend, leaving(quarantined.id, Action.QUARANTINE, S.QUARANTINED))
        ticks = [n / 2 for n in range(-1, 18)]
        intervals = [(start, end) for start, end in product(ticks, [*ticks, None]) if _follows(start, end)]
        for pruned, besides in product((False, True), ["nobody", *(one.id for one in facts[3:])]):
            asked = {_beneath(start, end, besides, pruned) for start, end in intervals}
            every = await backend.fetch(TENANT, Wants(beneath=asked), START)
            assert not {m.id for m in every.memories} & {out[1].id}
            for start, end in intervals[::7]:
                wants = Wants(beneath={_beneath(start, end, besides, pruned)})
                found = list((await backend.fetch(TENANT, wants, START)).memories)
                assert {m.id for m in found} <= {m.id for m in every.memories}
                others = [one for one in facts if one.id != besides]
                if not pruned:
                    needed = {one.id for one in others if _covers_any(one, start, end)}
                    assert needed <= {m.id for m in found}
                for tick in (n + 0.25 for n in ticks if start <= n and (end is None or n < end)):
                    counted = [m for m in found if m.counted and m.slot == SLOT and m.id != besides]
                    assert _holder(counted, tick) == _holder(others, tick), (start, end, tick, pruned)

    async def test_what_others_took_over_is_found_once_its_day_has_come(
        self, backend: StorageBackend
    ) -> None:
        home, next_home = fact("home", 0), fact("next", 5)
        trip, plan = a_memory("trip", key="t", valid_to=day(2)), fact("plan", 1, scope="p")
        alone, waits = a_memory("alone", valid_to=day(2)), fact("waits", 0, scope="q")
        await committed(backend, *(joining(m) for m in (home, next_home, trip, plan, alone)))
        await committed(backend, joining(waits, status=S.PENDING_CONFIRMATION))

        async def handed_over(at: float, after: str = "", limit: int = 9) -> list[str]:
            found = await backend.fetch(TENANT, Wants(handed_over=(after, limit)), day(at))
            assert {m.id for m in found.memories} >= set(found.handed_over)
            return list(found.handed_over)

        assert await handed_over(4.9) == []
        assert await handed_over(5) == [home.id]
        assert await handed_over(9) == [home.id]
        later = [fact("later", 6, scope="p"), fact("last", 7)]
        await committed(backend, *(joining(m) for m in later))
        over = [home.id, next_home.id, plan.id]
        assert await handed_over(9) == over
        assert await handed_over(9, limit=2) == over[:2]
        assert await handed_over(9, after=over[1]) == over[2:]
        assert await handed_over(6) == [home.id, plan.id]
        superseded = changing(home.id, Action.SUPERSEDE, status=S.SUPERSEDED)
        await committed(backend, superseded)
        assert await handed_over(6) == [plan.id]

    # -- segments ------------------------------------------------------------------------------

    async def test_a_segment_that_is_believed_no_longer_stays_with_its_end(
        self, backend: StorageBackend
    ) -> None:
        home, trip = fact("home", 0), fact("trip", 1, 2)
        await committed(backend, joining(home), joining(trip))
        await committed(backend, leaving(trip.id, Action.RETRACT, S.RETRACTED))
        found = await backend.segments(TENANT, [trip.id, "unknown", home.id])
        assert [
            (told([b], names_of(home, trip))[0], b.segment.rank, b.system_from, b.system_to) for b in found
        ] == [
            (("home", 0, None), (day(0), 1), unit_of(0), unit_of(1)),
            (("home", 0, 1), (day(0), 1), unit_of(1), unit_of(2)),
            (("home", 0, None), (day(0), 1), unit_of(2), None),
            (("home", 2, None), (day(0), 1), unit_of(1), unit_of(2)),
            (("trip", 1, 2), (day(1), 2), unit_of(1), unit_of(2)),
        ]

    async def test_what_a_transaction_takes_back_was_never_there(self, backend: StorageBackend) -> None:
        home, trip = fact("home", 0), fact("trip", 1)
        await committed(backend, joining(home))
        tx = await backend.begin(TENANT, ManualClock())
        for unit in (joining(trip), leaving(trip.id, Action.RETRACT, S.RETRACTED)):
            assert (await tx.run(unit, START)).error is None
        seen = await tx.segments(TENANT, [home.id, trip.id])
        await tx.commit()
        found = await backend.segments(TENANT, [home.id, trip.id])
        assert found == seen
        assert {b.segment.memory_id for b in found} == {home.id}
        assert [(b.system_from, b.system_to) for b in found if b.system_to is None] == [(unit_of(1), None)]
        assert all(b.system_to is None or b.system_from < b.system_to for b in found)
        assert (await tail_names(backend, 9, home)) == [("home", 0, None)]

    async def test_what_one_group_opens_and_closes_is_written_closed(self, backend: StorageBackend) -> None:
        home, trip = fact("home", 0), fact("trip", 1)
        leave = leaving(trip.id, Action.RETRACT, S.RETRACTED)
        answers = await committed(backend, joining(home), joining(trip), leave)
        assert [answer.error for answer in answers] == [None] * 3
        (gone,) = await backend.segments(TENANT, [trip.id])
        assert (gone.system_from, gone.system_to) == (unit_of(1), unit_of(2))
        assert await tail_names(backend, 9, home) == [("home", 0, None)]

    async def test_a_unit_that_fails_leaves_the_chain_as_it_was(self, backend: StorageBackend) -> None:
        home, trip = fact("home", 0), fact("trip", 1)
        await committed(backend, joining(home))
        before = await backend.segments(TENANT, [home.id])

        def fail(state: State) -> None:
            joining(trip).decide(state)
            leaving(home.id, Action.RETRACT, S.RETRACTED).decide(state)
            raise ValueError("no")

        (failed,) = await committed(backend, Unit(fail))
        assert isinstance(failed.error, ValueError)
        assert await backend.segments(TENANT, [home.id, trip.id]) == before
        assert len(await backend.versions(TENANT, [home.id, trip.id])) == 1

    # -- versions ------------------------------------------------------------------------------

    async def test_each_version_says_since_when_until_when_who_and_why(self, backend: StorageBackend) -> None:
        memory, other = a_memory("one"), a_memory("other")
        await committed(backend, adding(memory), adding(other))

        def raise_confidence(state: State) -> Memory:
            why = {"reason": "seen"}
            return state.change(
                state.memory(memory.id), Action.UPDATE_CONFIDENCE, {"confidence": 0.9}, dict(why), actor="ann"
            )

        await committed(backend, Unit(raise_confidence))
        await committed(backend, changing(memory.id, Action.RETRACT, status=S.RETRACTED))
        versions = await backend.versions(TENANT, [other.id, memory.id, "unknown"])
        assert [
            (v.memory.id, v.memory.version, v.memory.seq, v.system_from, v.system_to, v.action, v.actor)
            for v in versions
        ] == [
            (memory.id, 1, 1, unit_of(0), unit_of(2), "proposed", "owner"),
            (memory.id, 2, 3, unit_of(2), unit_of(3), "confidence_updated", "ann"),
            (memory.id, 3, 4, unit_of(3), None, "retracted", "owner"),
            (other.id, 1, 2, unit_of(1), None, "proposed", "owner"),
        ]
        assert [v.reason for v in versions] == [None, "seen", None, None]
        assert [(v.memory.confidence, v.memory.status) for v in versions[:3]] == [
            (0.5, S.ACTIVE), (0.9, S.ACTIVE), (0.9, S.RETRACTED),
        ]  # fmt: skip
        assert all(v.memory.system_from == v.system_from for v in versions)
        assert versions[2].memory == await backend.get(TENANT, memory.id)

    async def test_a_replaced_version_keeps_every_field(self, backend: StorageBackend) -> None:
        full = a_memory(
            {"π": [1, 2.5, None]}, key="k", scope="a", thread_id="t", source="chat", depends_on=["b", "a"],
            metadata={"m": {"n": 1}}, expires_at=day(9), valid_to=day(3), many=True,
            displaces=(Displaced("x", day(1), day(2)), Displaced(None, day(2), None)),
            retracted_during=(Interval(day(1), day(2)), Interval(day(2.5), None)),
        )  # fmt: skip
        await committed(backend, joining(full))
        before = await backend.get(TENANT, full.id)
        await committed(backend, changing(full.id, Action.UPDATE_CONFIDENCE, confidence=0.75))
        first, second = await backend.versions(TENANT, [full.id])
        assert first.memory == before
        assert second.memory == await backend.get(TENANT, full.id)

    async def test_of_several_changes_in_one_unit_the_history_keeps_the_last(
        self, backend: StorageBackend
    ) -> None:
        memory = a_memory()
        await committed(backend, adding(memory))

        def twice(state: State) -> None:
            for value in (0.6, 0.7):
                change = {"confidence": value}
                state.change(state.memory(memory.id), Action.UPDATE_CONFIDENCE, change, actor="owner")

        await committed(backend, Unit(twice))
        versions = await backend.versions(TENANT, [memory.id])
        assert [(v.memory.confidence, v.memory.version) for v in versions] == [(0.5, 1), (0.7, 3)]
        assert [row.action for row in await backend.ledger(TENANT, 0, 9)][1:] == ["confidence_updated"] * 2

    # -- other reads ---------------------------------------------------------------------------

    async def test_the_members_of_a_key_are_all_that_have_it_or_had_it_once(
        self, backend: StorageBackend
    ) -> None:
        stays, moves, lane = fact("stays", 0), fact("moves", 1), fact("lane", 0, many=True)
        refused, elsewhere = fact("refused", 0), fact("elsewhere", 0, scope="a")
        await committed(backend, *(joining(m) for m in (stays, moves, lane, elsewhere)))
        await committed(backend, adding(refused, status=S.REJECTED))

        def move(state: State) -> None:
            before = state.memory(moves.id)
            settle(state, before, state.change(before, Action.REVISE, {"key": "l"}, actor="owner"), "owner")

        await committed(backend, Unit(move))
        every = sorted([stays.id, moves.id, lane.id, refused.id])
        assert list(await backend.members(TENANT, SLOT)) == every
        assert list(await backend.members(TENANT, SLOT._replace(lane=lane.id))) == every
        assert list(await backend.members(TENANT, SLOT._replace(key="l"))) == [moves.id]
        assert list(await backend.members(TENANT, SLOT._replace(scope="a"))) == [elsewhere.id]
        assert list(await backend.members(TENANT, SLOT._replace(kind="note"))) == []

    async def test_the_ledger_row_of_a_moment_is_the_last_written_by_then(
        self, backend: StorageBackend
    ) -> None:
        clock = ManualClock()
        for size in (1, 3, 2):
            await committed(backend, adding(*(a_memory() for _ in range(size))), clock=clock)
            clock.advance(timedelta(hours=1))
        hours = [(-1, 0), (0, 1), (0.5, 1), (1, 4), (1.9, 4), (2, 6), (99, 6)]
        for hour, seq in hours:
            assert await backend.seq_at(TENANT, START + timedelta(hours=hour)) == seq
        assert await backend.seq_at(TENANT, START + timedelta(hours=1) - MICROSECOND) == 1

    async def test_a_count_is_the_length_of_the_list_without_its_limit(self, backend: StorageBackend) -> None:
        facts = [fact(name, n) for n, name in enumerate(NAMES)]
        await committed(backend, *(joining(one) for one in facts), adding(a_memory(), a_memory("note")))
        await committed(backend, leaving(facts[7].id, Action.RETRACT, S.RETRACTED))
        points = [
            None, Point(day(3)), Point(day(30)), Point(day(30), unit_of(0)), Point(day(3), unit_of(5)),
            Point(day(30), unit_of(8)), Point(day(-9)), Point(day(-9), day(-9)), Point(START, None, True),
        ]  # fmt: skip
        sessions: list[str | None] = [None, "s", "t"]
        for point, session, status in product(points, sessions, [None, S.ACTIVE, S.RETRACTED]):
            query = MemoryQuery(at=point, session_id=session, status=status, limit=100)
            found = await backend.list(TENANT, query)
            short = MemoryQuery(at=point, session_id=session, status=status, limit=1, offset=1)
            assert await backend.count(TENANT, query) == len(found)
            assert await backend.count(TENANT, short) == len(found)

    async def test_where_nothing_was_written_nothing_is_found(self, backend: StorageBackend) -> None:
        home, trip = fact("home", 0), fact("trip", 1)
        for tenant in ("other", TENANT):
            if tenant == TENANT:
                await backend.commit("other", [joining(home.evolve({"tenant": "other"}))], ManualClock())
                assert len(await backend.segments("other", [home.id])) == 1
            await self._nothing_is_found(backend, tenant, [home.id, trip.id])

    async def _nothing_is_found(self, backend: StorageBackend, tenant: str, ids: list[str]) -> None:
        wants = Wants(
            chains={SLOT: Tail(START)}, beneath={_beneath(0, None, "nobody", False)}, handed_over=("", 9)
        )
        found = await backend.fetch(tenant, wants, day(99))
        assert list(found.memories) == []
        assert list(found.segments) == []
        assert list(found.handed_over) == []
        assert list(await backend.members(tenant, SLOT)) == []
        assert await backend.versions(tenant, ids) == []
        assert await backend.segments(tenant, ids) == []
        assert await backend.seq_at(tenant, day(99)) == 0
        for point in (None, Point(day(9)), Point(day(9), day(9)), Point(day(9), None, True)):
            assert await backend.list(tenant, MemoryQuery(at=point)) == []
            assert await backend.count(tenant, MemoryQuery(at=point)) == 0


async def tail_names(backend: StorageBackend, moment: float, *memories: Memory) -> Any:
    """Return what holds on the chain from a moment on, by name."""
    return told((await tail(backend, moment)).segments, names_of(*memories))


def _stretches(segments: Sequence[Believed]) -> list[tuple[datetime, datetime]]:
    """Return where anybody holds: neighbours are one."""
    found: list[tuple[datetime, datetime]] = []
    for segment in (b.segment for b in segments):
        start = found.pop()[0] if found and found[-1][1] == segment.start else segment.start
        found.append((start, until(segment.end)))
    return found


def _follows(start: float, end: float | None) -> bool:
    return end is None or start < end


def _beneath(start: float, end: float | None, besides: str, pruned: bool) -> Beneath:
    return Beneath(SLOT, day(start), None if end is None else day(end), besides, pruned)


def _covers_any(memory: Memory, start: float, end: float | None) -> bool:
    last = FOREVER if end is None else day(end)
    return any(piece.start < last and day(start) < until(piece.end) for piece in covers(memory))


def _holder(members: Sequence[Memory], at: float) -> str | None:
    """Return who holds at a moment: of those that cover it, who began last."""
    moment = day(at)
    there = [m for m in members if any(p.start <= moment < until(p.end) for p in covers(m))]
    return max(there, key=lambda m: m.valid_from or START).id if there else None
