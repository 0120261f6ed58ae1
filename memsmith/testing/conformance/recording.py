# ruff: noqa: D102 - a test's name says what it tests
"""The ledger and what else is kept: tombstones, outcomes, secrets, and rows restored verbatim."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from memsmith.errors import ClosedError, ImportRefusedError, LedgerError
from memsmith.ledger.entry import Row
from memsmith.ledger.replay import Replay
from memsmith.ledger.verify import ChainVerifier, Verdict
from memsmith.lifecycle import Action
from memsmith.protocols import StorageBackend
from memsmith.state import State
from memsmith.store.replaying import restored
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
    everything,
    joining,
    stored,
)
from memsmith.types import MemoryStatus, Outcome, Tombstone
from memsmith.unit import Unit
from memsmith.wants import OutcomeRecord

S = MemoryStatus


async def _stones(
    backend: StorageBackend, *, lifted: bool = True, after: str = "", limit: int = 100
) -> list[str]:
    return [t.id for t in await backend.tombstones(TENANT, lifted=lifted, after=after, limit=limit)]


class Recording(Suite):
    """What is kept beside the memories."""

    async def test_the_ledger_reads_forwards_in_the_order_of_writing(self, backend: StorageBackend) -> None:
        memories = [a_memory(n) for n in range(7)]
        await committed(backend, *(adding(m) for m in memories))
        rows = await backend.ledger(TENANT, 0, 100)
        assert [(row.seq, row.memory_id) for row in rows] == list(enumerate((m.id for m in memories), 1))
        assert await backend.ledger(TENANT, 2, 3) == rows[2:5]
        assert await backend.ledger(TENANT, -5, 2) == rows[:2]
        assert await backend.ledger(TENANT, 7, 10) == []

    async def test_a_scan_hands_the_same_rows_to_a_visitor_off_the_event_loop(
        self, backend: StorageBackend
    ) -> None:
        await committed(backend, *(adding(a_memory(n)) for n in range(250)))
        seen: list[Row] = []
        threads: set[int] = set()

        def visit(rows: Sequence[Row]) -> None:
            seen.extend(rows)
            threads.add(threading.get_ident())

        assert await backend.scan(TENANT, 0, 220, visit) == 220
        assert await backend.scan(TENANT, 220, 220, visit) == 250
        assert await backend.scan(TENANT, 250, 220, visit) is None
        assert seen == await backend.ledger(TENANT, 0, 1000)
        assert threading.get_ident() not in threads

    async def test_what_a_visitor_raises_ends_the_scan(self, backend: StorageBackend) -> None:
        await committed(backend, adding(a_memory("one")))

        def visit(rows: Sequence[Row]) -> None:
            raise LedgerError(f"no use for {len(rows)} row")

        with pytest.raises(LedgerError, match="no use for 1 row"):
            await backend.scan(TENANT, 0, 10, visit)
        assert len(await backend.ledger(TENANT, 0, 10)) == 1

    async def test_audit_reads_backwards_for_all_or_for_one_memory(self, backend: StorageBackend) -> None:
        one, other = await stored(backend, a_memory("one"), a_memory("other"))
        for confidence in (0.6, 0.7):
            await committed(backend, changing(one.id, Action.UPDATE_CONFIDENCE, confidence=confidence))
        rows = list(reversed(await backend.ledger(TENANT, 0, 100)))
        assert await backend.audit(TENANT, None, 100, None) == rows
        assert await backend.audit(TENANT, None, 2, None) == rows[:2]
        assert await backend.audit(TENANT, None, 2, 3) == rows[2:4]
        assert [row.seq for row in await backend.audit(TENANT, one.id, 100, None)] == [4, 3, 1]
        assert [row.seq for row in await backend.audit(TENANT, one.id, 1, 4)] == [3]
        assert [row.seq for row in await backend.audit(TENANT, other.id, 100, None)] == [2]
        assert await backend.audit(TENANT, "unknown", 100, None) == []

    async def test_the_head_names_the_newest_row_and_the_chain_holds(self, backend: StorageBackend) -> None:
        assert await backend.head(TENANT) is None
        await stored(backend, *(a_memory(n) for n in range(5)))
        rows = await backend.ledger(TENANT, 0, 100)
        head = await backend.head(TENANT)
        assert head is not None
        assert (head.count, head.hash) == (5, rows[-1].hash)
        verifier = ChainVerifier(TENANT, head)
        verifier.feed(rows)
        assert verifier.finish(await backend.head(TENANT)).verdict is Verdict.SELF_CONSISTENT

    async def test_tombstones_come_in_pages_and_lifted_ones_on_request(self, backend: StorageBackend) -> None:
        (memory,) = await stored(backend, a_memory())
        stones = [a_stone(memory, scope=f"s{n}", reason="why", key=[None, "k"][n % 2]) for n in range(5)]
        lifted = replace(stones[2], lifted_at=START + timedelta(1), lift_reason="mistake", refused=3)

        def plant(state: State) -> None:
            state.note(state.memory(memory.id), Action.BLOCK, {}, actor="owner")
            for stone in stones:
                state.put_tombstone(stone)

        await decided(backend, plant)

        def lift(state: State) -> Tombstone:
            state.note(state.memory(memory.id), Action.LIFT_TOMBSTONE, {}, actor="owner")
            state.put_tombstone(lifted)
            return state.tombstone(lifted.id)

        assert await decided(backend, lift) == lifted
        ids = [stone.id for stone in stones]
        assert await _stones(backend) == ids
        assert await _stones(backend, lifted=False) == [i for i in ids if i != lifted.id]
        assert await _stones(backend, limit=2) == ids[:2]
        assert await _stones(backend, after=ids[1], limit=2) == ids[2:4]
        assert await _stones(backend, after=ids[1], limit=2, lifted=False) == ids[3:]
        found = await backend.tombstones(TENANT, lifted=True, after="", limit=10)
        assert found == [stones[0], stones[1], lifted, *stones[3:]]

    async def test_an_outcome_is_found_by_its_whole_key(self, backend: StorageBackend) -> None:
        record = OutcomeRecord(
            Outcome("propose_many", "k\u00e9y", "ann", ("accepted", "duplicate"), ("a", "b"), START), "digest"
        )
        (settled,) = await committed(backend, Unit(lambda state: state.put_outcome(record)))
        assert settled.error is None
        assert await backend.outcome(TENANT, ("ann", "propose_many", "kéy")) == record
        for key in (
            ("bob", "propose_many", "kéy"),
            ("ann", "propose", "kéy"),
            ("ann", "propose_many", "key"),
        ):
            assert await backend.outcome(TENANT, key) is None
        assert await backend.outcome("other", ("ann", "propose_many", "kéy")) is None

    async def test_secrets_come_back_oldest_first_and_the_first_of_a_name_stays(
        self, backend: StorageBackend
    ) -> None:
        assert await backend.secrets() == {}
        assert await backend.add_secret("zz", b"\x00\xff" * 16)
        assert await backend.add_secret("aa", None)
        assert not await backend.add_secret("zz", b"another")
        assert list((await backend.secrets()).items()) == [("zz", b"\x00\xff" * 16), ("aa", b"")]

    async def test_what_is_restored_is_the_same_row_for_row(self, backend: StorageBackend) -> None:
        parent, child = a_memory("p"), a_memory("c", depends_on=["p"], key="k", scope="a")
        await committed(backend, adding(parent), joining(child))
        await committed(backend, changing(parent.id, Action.RETRACT, status=S.RETRACTED, retracted_at=START))
        stone = a_stone(parent, refused=2)
        await decided(backend, lambda state: state.put_tombstone(stone))
        memories, rows, _, head, versions, segments = await everything(backend)
        replay = Replay("copy")
        replay.feed(rows)
        changes = replace(restored(rows, replay), tombstones=[replace(stone, tenant="copy")])
        await backend.restore("copy", changes)
        ids = [memory.id for memory in memories]
        assert await backend.ledger("copy", 0, 100) == rows
        assert await backend.head("copy") == head
        for memory in memories:
            assert await backend.get("copy", memory.id) == memory.evolve({"tenant": "copy"})
        assert [
            replace(version, memory=version.memory.evolve({"tenant": TENANT}))
            for version in await backend.versions("copy", ids)
        ] == versions
        assert await backend.segments("copy", ids) == segments
        assert (len(versions), [b.segment.memory_id for b in segments]) == (3, [child.id])
        assert await backend.tombstones("copy", lifted=True, after="", limit=9) == [
            replace(stone, tenant="copy")
        ]

    async def test_rows_are_restored_into_an_empty_tenant_only(self, backend: StorageBackend) -> None:
        await stored(backend, a_memory())
        before = await everything(backend)
        replay = Replay(TENANT)
        replay.feed(before[1])
        with pytest.raises(ImportRefusedError):
            await backend.restore(TENANT, restored(before[1], replay))
        assert await everything(backend) == before

    async def test_a_closed_backend_says_so_and_closing_twice_is_fine(self, backend: StorageBackend) -> None:
        await stored(backend, a_memory())
        await backend.close()
        await backend.close()
        with pytest.raises(ClosedError):
            await committed(backend, adding(a_memory()))
        with pytest.raises(ClosedError):
            await backend.get(TENANT, "any")
        for _ in range(2):  # the first must not keep the writer
            with pytest.raises(ClosedError):
                await backend.begin(TENANT, ManualClock())
