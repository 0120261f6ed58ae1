# ruff: noqa: D102 - a test's name says what it tests
"""Groups of units: order, isolation, what decisions are shown, and time."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import pytest

from memsmith._clock import MICROSECOND
from memsmith.errors import NotFoundError
from memsmith.lifecycle import Action
from memsmith.protocols import StorageBackend
from memsmith.state import State
from memsmith.testing.clock import START, ManualClock
from memsmith.testing.conformance.base import (
    TENANT,
    Suite,
    a_memory,
    a_stone,
    adding,
    changing,
    committed,
    decided,
    enter,
    everything,
    joining,
    stored,
)
from memsmith.types import Displaced, Interval, MemoryStatus, Origin, Outcome, Slot
from memsmith.unit import Unit
from memsmith.wants import Beneath, OutcomeRecord, Tail, Wants

S = MemoryStatus

UNICODE = [
    "她住在罗马",
    "東京に住んでいる",
    "서울에 산다",
    "Она живёт в Риме",
    "👩‍👩‍👧‍👦🏳️‍🌈",
    "é",
    "e\u0301",
    "\u202eRTL\u200b",
    {"ключ": ["значение", None, True, 1, 1.5, -0.0, 1e300, 2**63 - 1, -(2**63)], "": {"": ""}},
    {'quote"back\\slash': "tab\tline\nend", "$": "%_", "a.b": "'; --"},
]


class Committing(Suite):
    """What `commit` does."""

    async def test_what_a_unit_wrote_is_there_when_commit_returns(self, backend: StorageBackend) -> None:
        memory = a_memory()
        (settled,) = await committed(backend, adding(memory))
        assert settled.error is None
        found = await backend.get(TENANT, memory.id)
        assert found is not None
        assert settled.result == [found]
        assert found.status is S.ACTIVE
        assert await backend.ledger(TENANT, 0, 10) == list(settled.rows)
        head = await backend.head(TENANT)
        assert head is not None
        assert (head.count, head.hash) == (1, settled.rows[0].hash)

    async def test_an_empty_group_and_a_unit_that_decides_nothing_write_nothing(
        self, backend: StorageBackend
    ) -> None:
        assert list(await committed(backend)) == []
        (settled,) = await committed(backend, Unit(lambda state: "looked"))
        assert (settled.result, list(settled.rows)) == ("looked", [])
        assert await everything(backend) == ([], [], [], None, [], [])

    async def test_each_unit_of_a_group_sees_what_its_predecessors_left(
        self, backend: StorageBackend
    ) -> None:
        memory = a_memory(key="city", depends_on=["parent"])
        waiting = a_memory("waits", key="city")
        stone = a_stone(memory)
        slot = Slot("fact", "", "city")

        def look(state: State) -> tuple[object, ...]:
            current = state.current_on(slot)
            return (
                state.memory(memory.id).status,
                [m.id for m in state.live_with_value(memory.value_digest)],
                None if current is None else current.id,
                [s.memory_id for s in state.segments(slot, START)],
                [m.id for m in state.waiting_on(slot)],
                [m.id for m in state.beneath(slot, START, None, "another")],
                state.dependants("parent"),
                [t.id for t in state.blocks([stone.digest])],
            )

        plant = Unit(lambda state: state.put_tombstone(stone))
        held = adding(waiting, status=S.PENDING_CONFIRMATION)
        first, *_, last = await committed(backend, joining(memory), held, plant, Unit(look))
        assert first.error is None
        ids = [memory.id]
        assert last.result == (S.ACTIVE, ids, memory.id, ids, [waiting.id], ids, ids, [stone.id])

    async def test_a_unit_that_fails_leaves_no_trace_and_does_not_fail_the_others(
        self, backend: StorageBackend
    ) -> None:
        (kept,) = await stored(backend, a_memory("kept"))
        before, other, after = a_memory("before"), a_memory("other"), a_memory("after")

        def fail(state: State) -> None:
            enter(state, other)
            state.change(state.memory(kept.id), Action.RETRACT, {"status": S.RETRACTED}, actor="owner")
            state.put_tombstone(a_stone(other))
            state.put_outcome(_outcome("lost"))
            raise ValueError("no")

        first, failed, last = await committed(backend, adding(before), Unit(fail), adding(after))
        assert first.error is None
        assert last.error is None
        assert isinstance(failed.error, ValueError)
        assert list(failed.rows) == []
        assert await backend.get(TENANT, other.id) is None
        assert await backend.get(TENANT, kept.id) == kept
        assert await backend.tombstones(TENANT, lifted=True, after="", limit=10) == []
        assert await backend.outcome(TENANT, ("owner", "propose", "lost")) is None
        assert [row.seq for row in await backend.ledger(TENANT, 0, 10)] == [1, 2, 3]
        assert {row.memory_id for row in await backend.ledger(TENANT, 0, 10)} == {
            kept.id,
            before.id,
            after.id,
        }

    async def test_a_decision_gets_what_it_touches_though_it_asked_for_nothing_beforehand(
        self, backend: StorageBackend
    ) -> None:
        parent = a_memory("parent")
        child = a_memory("child", depends_on=[parent.id], key="k", scope="a/b", kind="note")
        over = a_memory("over", expires_at=START - timedelta(hours=1))
        waiting = a_memory("waiting", key="k", scope="a/b", kind="note")
        await committed(backend, adding(parent), joining(child), adding(over))
        await committed(backend, adding(waiting, status=S.PENDING_CONFIRMATION))
        slot = Slot("note", "a/b", "k")
        stone = a_stone(parent)
        await decided(backend, lambda state: state.put_tombstone(stone))
        await decided(backend, lambda state: state.put_outcome(_outcome("k1")))

        def look(state: State) -> tuple[object, ...]:
            known = state.outcome(("owner", "propose", "k1"))
            return (
                [m.id for m in state.waiting_on(slot)],
                [s.memory_id for s in state.segments(slot, START)],
                [m.id for m in state.beneath(slot, START, None, "another")],
                [m.id for m in state.beneath(slot, START, None, child.id)],
                state.handed_over("", 5),
                [m.id for m in state.live_with_value(parent.value_digest)],
                state.dependants(parent.id),
                state.memory(child.id).content,
                [t.id for t in state.blocks([stone.digest, "unknown"])],
                state.has("unknown"),
                None if known is None else known.digest,
                state.outcome(("owner", "confirm", "k1")),
                list(state.due(5)),
            )

        assert await decided(backend, look) == (
            [waiting.id], [child.id], [child.id], [], [], [parent.id], [child.id], "child", [stone.id],
            False, "digest", None, [over.id],
        )  # fmt: skip

    async def test_an_unknown_id_is_the_units_own_error(self, backend: StorageBackend) -> None:
        with pytest.raises(NotFoundError):
            await decided(backend, lambda state: state.memory("unknown"))
        with pytest.raises(NotFoundError):
            await decided(backend, lambda state: state.tombstone("unknown"))

    async def test_values_find_live_memories_only_and_ids_find_all(self, backend: StorageBackend) -> None:
        memories = {status: a_memory(key="city") for status in (S.ACTIVE, S.PENDING_CONFIRMATION, S.REJECTED)}
        for status, memory in memories.items():
            await committed(backend, adding(memory, status=status))
        gone = a_memory(key="city")
        await stored(backend, gone)
        await committed(backend, changing(gone.id, Action.RETRACT, status=S.RETRACTED))
        live = {memories[S.ACTIVE].id, memories[S.PENDING_CONFIRMATION].id}
        ids = {gone.id, *(m.id for m in memories.values())}

        async def fetched(wants: Wants) -> set[str]:
            return {m.id for m in (await backend.fetch(TENANT, wants, START)).memories}

        assert await fetched(Wants(values={gone.value_digest})) == live
        assert await fetched(Wants(memories=ids | {"unknown"})) == ids
        assert await fetched(Wants()) == set()

    async def test_what_is_due_comes_longest_overdue_first_and_no_more_than_asked(
        self, backend: StorageBackend
    ) -> None:
        ends = [3, 1, 2, -1, 0]
        memories = [a_memory(n, expires_at=START - timedelta(hours=h)) for n, h in enumerate(ends)]
        never, gone = a_memory("never"), a_memory("gone", expires_at=START - timedelta(days=1))
        await stored(backend, *memories, never, gone)
        await committed(backend, changing(gone.id, Action.RETRACT, status=S.RETRACTED))
        all_due = (await backend.fetch(TENANT, Wants(due=10), START)).due
        assert list(all_due) == [memories[n].id for n in (0, 2, 1, 4)]
        two = await backend.fetch(TENANT, Wants(due=2), START)
        assert list(two.due) == [memories[0].id, memories[2].id]
        assert {m.id for m in two.memories} == set(two.due)

    async def test_dependants_are_found_by_each_of_their_parents(self, backend: StorageBackend) -> None:
        both, one = a_memory("both", depends_on=["p", "q"]), a_memory("one", depends_on=["q"])
        await stored(backend, both, one)
        found = (await backend.fetch(TENANT, Wants(dependants={"p", "q", "r"}), START)).dependants
        assert {parent: set(ids) for parent, ids in found.items() if ids} == {
            "p": {both.id},
            "q": {both.id, one.id},
        }

    async def test_every_field_of_a_memory_comes_back_as_it_was(self, backend: StorageBackend) -> None:
        full = a_memory(
            {"city": "Rome"}, session_id="s 1", confidence=0.1 + 0.2, thread_id="t", source="chat",
            depends_on=["b", "a"], expires_at=START + timedelta(microseconds=1), kind="note", scope="a/b",
            key="k", origin=Origin.TOOL, sensitivity="restricted", valid_from=START - timedelta(days=400),
            valid_to=START + timedelta(days=1), metadata={"π": [1, 2.5, None]}, actor="ann", code="policy",
            retraction_reason="why", retracted_at=START, held_status=S.ACTIVE,
            displaces=(Displaced("b", START, None), Displaced(None, START, START + timedelta(1))),
            retracted_during=(Interval(START - timedelta(9), START), Interval(START + timedelta(1), None)),
            many=True,
        )  # fmt: skip
        bare = a_memory("bare", valid_from=None)
        answers = await committed(backend, adding(full), adding(bare))
        for answer, memory in zip(answers, (full, bare), strict=True):
            assert answer.result is not None
            (written,) = answer.result
            assert await backend.get(TENANT, memory.id) == written
            assert written == memory.evolve(
                {
                    "status": S.ACTIVE,
                    "seq": written.seq,
                    "asserted_order": written.seq,
                    "created_at": written.created_at,
                    "updated_at": written.created_at,
                    "system_from": written.created_at,
                }
            )

    async def test_every_field_that_can_change_is_changed(self, backend: StorageBackend) -> None:
        (memory,) = await stored(backend, a_memory())
        changes = {
            "content": {"new": 1}, "content_hash": "h", "value_digest": "d", "confidence": 0.75,
            "origin": Origin.AGENT, "metadata": {"m": 1}, "expires_at": START, "source": "elsewhere",
            "key": "k", "valid_from": START - timedelta(1), "valid_to": START, "retraction_reason": "r",
            "retracted_during": (Interval(START, None),), "many": True,
            "displaces": (Displaced("m", START, None),),
        }  # fmt: skip
        await committed(backend, changing(memory.id, Action.REVISE, **changes))
        changed = await backend.get(TENANT, memory.id)
        assert changed is not None
        assert changed == memory.evolve(
            {
                **changes,
                "version": 2,
                "seq": 2,
                "updated_at": START + MICROSECOND,
                "system_from": START + MICROSECOND,
            }
        )

    async def test_content_in_any_script_comes_back_to_the_character(self, backend: StorageBackend) -> None:
        memories = [a_memory(content, metadata={"copy": content}) for content in UNICODE]
        await committed(backend, adding(*memories))
        for memory in memories:
            found = await backend.get(TENANT, memory.id)
            assert found is not None
            # As text, because 1 == True == 1.0; the order of keys is nobody's concern.
            assert json.dumps(found.content, sort_keys=True) == json.dumps(memory.content, sort_keys=True)
            assert json.dumps(found.metadata, sort_keys=True) == json.dumps(memory.metadata, sort_keys=True)

    async def test_a_batch_of_thousands_is_one_unit(self, backend: StorageBackend) -> None:
        memories = [a_memory({"n": n}) for n in range(3000)]
        (settled,) = await committed(backend, adding(*memories))
        assert [row.seq for row in settled.rows] == list(range(1, 3001))
        ids = {m.id for m in memories}
        found = await backend.fetch(TENANT, Wants(memories=ids), START)
        assert {m.id: m.content["n"] for m in found.memories} == {m.id: n for n, m in enumerate(memories)}
        assert {m.created_at for m in found.memories} == {START}

    async def test_times_rise_with_every_unit_whatever_the_clock_does(self, backend: StorageBackend) -> None:
        clock = ManualClock()
        await committed(backend, adding(a_memory(1)), adding(a_memory(2)), clock=clock)
        clock.advance(timedelta(days=-1))
        await committed(backend, adding(a_memory(3)), clock=clock)
        clock.set(START + timedelta(hours=1))
        await committed(backend, adding(a_memory(4)), clock=clock)
        rows = await backend.ledger(TENANT, 0, 10)
        assert [row.time for row in rows] == [
            "2026-03-01T09:30:00.000000Z",
            "2026-03-01T09:30:00.000001Z",
            "2026-03-01T09:30:00.000002Z",
            "2026-03-01T10:30:00.000000Z",
        ]
        head = await backend.head(TENANT)
        assert head is not None
        assert head.time == START + timedelta(hours=1)

    async def test_commits_at_once_make_one_chain(self, backend: StorageBackend) -> None:
        await asyncio.gather(*(committed(backend, adding(a_memory(n))) for n in range(20)))
        rows = await backend.ledger(TENANT, 0, 100)
        assert [row.seq for row in rows] == list(range(1, 21))
        assert [row.prev_hash for row in rows[1:]] == [row.hash for row in rows[:-1]]

    async def test_a_cancelled_commit_has_happened_wholly_or_not_at_all(
        self, backend: StorageBackend
    ) -> None:
        for n in range(10):
            task = asyncio.ensure_future(committed(backend, adding(a_memory([n, 1]), a_memory([n, 2]))))
            for _ in range(n):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        await committed(backend, adding(a_memory("after")))
        memories, rows, _, head, *_ = await everything(backend)
        assert head.count == len(rows) == len(memories)
        assert len(memories) % 2 == 1

    async def test_tenants_do_not_see_each_other(self, backend: StorageBackend) -> None:
        memory = a_memory(key="k", depends_on=["p"], expires_at=START)
        slot = Slot("fact", "", "k")
        await committed(backend, joining(memory))
        wants = Wants(
            memories={memory.id},
            values={memory.value_digest},
            chains={slot: Tail(START)},
            beneath={Beneath(slot, START, None, "another", False)},
            dependants={"p"},
            due=5,
        )
        found = await backend.fetch("other", wants, START)
        assert (list(found.memories), list(found.due), list(found.segments)) == ([], [], [])
        assert not any(found.dependants.values())
        assert await backend.get("other", memory.id) is None
        assert await backend.ledger("other", 0, 10) == []
        assert await backend.head("other") is None
        (other,) = await backend.commit("other", [adding(memory.evolve({"tenant": "other"}))], ManualClock())
        assert other.rows[0].seq == 1


def _outcome(key: str) -> OutcomeRecord:
    return OutcomeRecord(Outcome("propose", key, "owner", ("accepted",), ("m",), START), "digest")
