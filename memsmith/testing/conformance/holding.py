# ruff: noqa: D102 - a test's name says what it tests
"""Transactions held open: what they show, keep and undo."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from memsmith.lifecycle import Action
from memsmith.protocols import MemoryQuery, StorageBackend, Transaction
from memsmith.state import State
from memsmith.testing.clock import START, ManualClock
from memsmith.testing.conformance.base import (
    TENANT,
    Suite,
    a_memory,
    a_stone,
    adding,
    committed,
    everything,
    joining,
    leaving,
    stored,
)
from memsmith.types import Memory, MemoryStatus, Outcome
from memsmith.unit import Unit
from memsmith.wants import OutcomeRecord

S = MemoryStatus


async def _ids(reads: StorageBackend | Transaction) -> list[str]:
    return [m.id for m in await reads.list(TENANT, MemoryQuery())]


async def _add(tx: Transaction, memory: Memory) -> str:
    settled = await tx.run(adding(memory), START)
    assert settled.error is None
    return memory.id


async def _write(backend: StorageBackend, memory: Memory) -> None:
    await committed(backend, adding(memory))


async def _begin(backend: StorageBackend) -> Transaction:
    return await backend.begin(TENANT, ManualClock())


class Holding(Suite):
    """What `begin` gives."""

    async def test_a_committed_transaction_stays(self, backend: StorageBackend) -> None:
        tx = await backend.begin(TENANT, ManualClock())
        ids = [await _add(tx, a_memory(1)), await _add(tx, a_memory(2))]
        await tx.commit()
        assert await _ids(backend) == sorted(ids)
        assert [row.memory_id for row in await backend.ledger(TENANT, 0, 10)] == ids

    async def test_a_rolled_back_transaction_leaves_everything_as_it_was(
        self, backend: StorageBackend
    ) -> None:
        memory = a_memory("there", key="k")
        await committed(backend, joining(memory))
        before = await everything(backend)

        def more(state: State) -> None:
            state.put_tombstone(a_stone(memory))
            outcome = Outcome("propose", "key", "owner", ("accepted",), (memory.id,), START)
            state.put_outcome(OutcomeRecord(outcome, "digest"))

        tx = await backend.begin(TENANT, ManualClock())
        await _add(tx, a_memory("new"))
        await tx.run(joining(a_memory("after", key="k", valid_from=START + timedelta(1))), START)
        await tx.run(leaving(memory.id, Action.RETRACT, S.RETRACTED), START)
        await tx.run(Unit(more), START)
        assert await everything(tx) != before
        await tx.rollback()
        assert await everything(backend) == before
        assert await backend.outcome(TENANT, ("owner", "propose", "key")) is None

    async def test_a_transaction_reads_its_own_writes(self, backend: StorageBackend) -> None:
        await stored(backend, a_memory("there"))
        tx = await backend.begin(TENANT, ManualClock())
        memory = a_memory("new", depends_on=["p"])
        await _add(tx, memory)
        await tx.run(Unit(lambda state: state.put_tombstone(a_stone(memory))), START)
        found = await tx.get(TENANT, memory.id)
        assert found is not None
        assert len(await _ids(tx)) == 2
        assert [row.seq for row in await tx.audit(TENANT, None, 10, None)] == [2, 1]
        assert [row.seq for row in await tx.ledger(TENANT, 1, 10)] == [2]
        head = await tx.head(TENANT)
        assert head is not None
        assert head.count == 2
        assert len(await tx.tombstones(TENANT, lifted=False, after="", limit=5)) == 1
        await tx.rollback()

    async def test_what_is_written_after_the_last_savepoint_can_be_undone_alone(
        self, backend: StorageBackend
    ) -> None:
        tx = await backend.begin(TENANT, ManualClock())
        kept = [await _add(tx, a_memory(1))]
        await tx.savepoint()
        kept.append(await _add(tx, a_memory(2)))
        await tx.savepoint()
        await _add(tx, a_memory("undone"))
        await tx.rollback_to()
        kept.append(await _add(tx, a_memory(3)))
        await tx.release()
        await tx.savepoint()
        await _add(tx, a_memory("undone too"))
        await tx.savepoint()
        await _add(tx, a_memory("and this"))
        await tx.release()
        await tx.rollback_to()
        kept.append(await _add(tx, a_memory(4)))
        await tx.commit()
        rows = await backend.ledger(TENANT, 0, 10)
        assert [row.memory_id for row in rows] == kept
        assert [row.seq for row in rows] == [1, 2, 3, 4]
        assert [row.prev_hash for row in rows[1:]] == [row.hash for row in rows[:-1]]
        assert set(await _ids(backend)) == set(kept)

    async def test_a_unit_that_fails_inside_undoes_itself_alone(self, backend: StorageBackend) -> None:
        def fail(state: State) -> None:
            state.insert(a_memory("lost"), {"status": S.ACTIVE}, Action.ACCEPT, {})
            raise ValueError("no")

        tx = await backend.begin(TENANT, ManualClock())
        kept = await _add(tx, a_memory("kept"))
        failed = await tx.run(Unit(fail), START)
        assert isinstance(failed.error, ValueError)
        await tx.commit()
        assert await _ids(backend) == [kept]

    async def test_all_of_a_transaction_happens_at_one_time_after_what_was_there(
        self, backend: StorageBackend
    ) -> None:
        clock = ManualClock()
        await committed(backend, adding(a_memory(0)), clock=clock)
        tx = await backend.begin(TENANT, clock)
        await _add(tx, a_memory(1))
        await _add(tx, a_memory(2))
        await tx.commit()
        await committed(backend, adding(a_memory(3)), clock=clock)
        times = [row.time for row in await backend.ledger(TENANT, 0, 10)]
        assert times[0] < times[1] == times[2] < times[3]

    async def test_other_writers_wait_until_a_transaction_ends(self, backend: StorageBackend) -> None:
        tx = await backend.begin(TENANT, ManualClock())
        inside = await _add(tx, a_memory("inside"))
        outside = a_memory("outside")
        writing = asyncio.create_task(_write(backend, outside))
        beginning = asyncio.create_task(_begin(backend))
        done, _ = await asyncio.wait([writing, beginning], timeout=0.05)
        assert not done
        await tx.commit()

        async def undo() -> None:
            await (await beginning).rollback()

        # Either may be the next.
        async with asyncio.timeout(10):
            await asyncio.gather(writing, undo())
        assert [row.memory_id for row in await backend.ledger(TENANT, 0, 10)] == [inside, outside.id]

    async def test_an_ended_transaction_lets_the_next_one_in(self, backend: StorageBackend) -> None:
        for n in range(4):
            tx = await backend.begin(TENANT, ManualClock())
            await _add(tx, a_memory(n))
            await (tx.commit() if n % 2 else tx.rollback())
        assert [m.content for m in await backend.list(TENANT, MemoryQuery())] == [1, 3]


class Isolation(Suite):
    """What others see of a transaction: nothing, and without waiting."""

    async def test_nobody_outside_sees_a_transaction_before_it_is_committed(
        self, backend: StorageBackend
    ) -> None:
        (there,) = await stored(backend, a_memory("there"))
        tx = await backend.begin(TENANT, ManualClock())
        inside = await _add(tx, a_memory("inside"))
        async with asyncio.timeout(5):
            assert await _ids(backend) == [there.id]
            assert await backend.get(TENANT, inside) is None
            assert len(await backend.ledger(TENANT, 0, 10)) == 1
        await tx.commit()
        assert await _ids(backend) == [there.id, inside]
