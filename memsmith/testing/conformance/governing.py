# ruff: noqa: D102 - a test's name says what it tests
"""The governed write path over the backend: what a store's callers see."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from memsmith.backends.memory import MemoryBackend
from memsmith.errors import (
    IdempotencyConflictError,
    InvalidTransitionError,
    StaleVersionError,
    TombstoneConflictError,
)
from memsmith.ledger.verify import Verdict
from memsmith.protocols import StorageBackend
from memsmith.store.store import MemoryStore
from memsmith.testing.clock import ManualClock
from memsmith.testing.conformance.base import TENANT, Suite, everything
from memsmith.types import Accepted, MemoryStatus, PendingConfirmation, ProposalInput, Rejected
from memsmith.validators.confidence import ConfidenceThreshold

S = MemoryStatus


class Governing(Suite):
    """Stores over the backend."""

    async def test_a_memory_is_held_confirmed_revised_quarantined_released_and_retracted(
        self, storage: StorageBackend, clock: ManualClock
    ) -> None:
        async with await MemoryStore.init(
            storage, [ConfidenceThreshold(0.5)], clock=clock, tenant=TENANT
        ) as store:
            held = await store.propose({"city": "Rome"}, "s", 0.4)
            assert isinstance(held, PendingConfirmation)
            assert (await store.confirm(held.memory_id)).status is S.ACTIVE
            assert (await store.update_confidence(held.memory_id, 0.9)).confidence == 0.9
            assert (await store.revise(held.memory_id, {"city": "Oslo"})).content == {"city": "Oslo"}
            assert (await store.quarantine(held.memory_id)).status is S.QUARANTINED
            assert (await store.release(held.memory_id)).status is S.ACTIVE
            assert (await store.retract(held.memory_id, "moved")).status is S.RETRACTED
            assert [entry.action for entry in await store.audit(held.memory_id)] == [
                "retracted", "released", "quarantined", "revised", "confidence_updated", "confirmed",
                "proposed_pending",
            ]  # fmt: skip
            assert (await store.verify()).verdict is Verdict.SELF_CONSISTENT
            assert (await store.replay()).identical

    async def test_a_rejected_value_is_refused_when_it_comes_back_until_it_is_lifted(
        self, store: MemoryStore
    ) -> None:
        wrong = await store.propose({"City": "Rome"}, "s", 0.9)
        await store.reject(wrong.memory_id, "never true")
        (stone,) = await store.tombstones()
        again = await store.propose({"city": "  ROME "}, "t", 0.9)
        assert isinstance(again, Rejected)
        assert (again.code, again.tombstone_id, again.memory.content) == ("tombstoned", stone.id, None)
        (counted,) = await store.tombstones()
        assert counted.refused == 1
        await store.lift_tombstone(stone.id, "it was")
        assert isinstance(await store.propose({"city": "Rome"}, "t", 0.9), Accepted)
        assert await store.tombstones() == []
        assert (await store.replay()).identical

    async def test_rejecting_a_value_that_others_hold_takes_them_along_or_nothing(
        self, store: MemoryStore, storage: StorageBackend
    ) -> None:
        one, two = [await store.propose("Rome", session, 0.9) for session in ("s", "t")]
        before = await everything(storage)
        with pytest.raises(TombstoneConflictError) as caught:
            await store.reject(one.memory_id)
        assert caught.value.others == [two.memory_id]
        assert await everything(storage) == before
        await store.reject(one.memory_id, also=True)
        assert [m.status for m in await store.list()] == [S.RETRACTED, S.RETRACTED]

    async def test_the_same_proposal_sixty_four_times_at_once_is_accepted_once(
        self, store: MemoryStore
    ) -> None:
        results = await asyncio.gather(*(store.propose("Rome", "s", 0.9) for _ in range(64)))
        accepted = [r for r in results if isinstance(r, Accepted)]
        refused = [r for r in results if isinstance(r, Rejected)]
        assert (len(accepted), len(refused)) == (1, 63)
        assert {(r.code, r.memory_id) for r in refused} == {("duplicate", accepted[0].memory_id)}

    async def test_a_batch_is_one_unit_and_dedups_against_itself(self, store: MemoryStore) -> None:
        results = await store.propose_many([ProposalInput(c, 0.9) for c in ("a", "b", "a")], "s")
        assert [type(r) for r in results] == [Accepted, Accepted, Rejected]
        assert results[2].memory_id == results[0].memory_id
        assert len({m.created_at for m in await store.list()}) == 1

    async def test_a_repeated_call_gives_its_first_outcome_and_another_one_conflicts(
        self, store: MemoryStore
    ) -> None:
        first = await store.propose("Rome", "s", 0.9, idempotency_key="k")
        assert await store.propose("Rome", "s", 0.9, idempotency_key="k") == first
        with pytest.raises(IdempotencyConflictError):
            await store.propose("Oslo", "s", 0.9, idempotency_key="k")
        assert len(await store.audit()) == 1

    async def test_what_the_machine_does_not_allow_changes_nothing(
        self, store: MemoryStore, storage: StorageBackend
    ) -> None:
        memory = await store.propose("Rome", "s", 0.9)
        await store.retract(memory.memory_id)
        before = await everything(storage)
        with pytest.raises(InvalidTransitionError):
            await store.confirm(memory.memory_id)
        with pytest.raises(InvalidTransitionError):
            await store.reject(memory.memory_id)
        assert await everything(storage) == before

    async def test_of_two_edits_of_one_version_one_wins(self, store: MemoryStore) -> None:
        memory = await store.propose("Rome", "s", 0.9)
        results = await asyncio.gather(
            *(store.revise(memory.memory_id, city, expected_version=1) for city in ("Oslo", "Bern")),
            return_exceptions=True,
        )
        assert sorted(isinstance(r, StaleVersionError) for r in results) == [False, True]

    async def test_what_expires_is_expired_once(self, store: MemoryStore, clock: ManualClock) -> None:
        await store.propose("short", "s", 0.9, ttl=timedelta(seconds=1))
        await store.propose("long", "s", 0.9, ttl=timedelta(days=1))
        clock.advance(timedelta(seconds=1))
        assert [await store.expire_batch(), await store.expire_batch()] == [1, 0]
        assert [m.status for m in await store.list()] == [S.EXPIRED, S.ACTIVE]

    async def test_retracting_in_cascade_takes_all_that_depends(self, store: MemoryStore) -> None:
        root = (await store.propose("root", "s", 0.9)).memory_id
        child = (await store.propose("child", "s", 0.9, depends_on=[root])).memory_id
        leaf = (await store.propose("leaf", "s", 0.9, depends_on=[child, root])).memory_id
        other = (await store.propose("other", "s", 0.9)).memory_id
        assert {m.id for m in await store.dependants(root)} == {child, leaf}
        await store.retract(root, cascade=True)
        statuses = {m.id: m.status for m in await store.list()}
        assert [statuses[i] for i in (root, child, leaf, other)] == [S.RETRACTED] * 3 + [S.ACTIVE]

    async def test_a_transaction_keeps_or_undoes_all_its_verbs(self, store: MemoryStore) -> None:
        async def undone(verb: Callable[[], Awaitable[object]]) -> None:
            async with store.transaction():
                await verb()
                raise LookupError

        with pytest.raises(LookupError):
            await undone(lambda: store.propose("undone", "s", 0.9))
        async with store.transaction():
            kept = await store.propose("kept", "s", 0.9)
            with pytest.raises(LookupError):
                await undone(lambda: store.retract(kept.memory_id))
        assert [(m.content, m.status) for m in await store.list()] == [("kept", S.ACTIVE)]
        assert (await store.verify()).rows == 1

    async def test_pages_stay_right_while_rows_are_written_between_them(self, store: MemoryStore) -> None:
        await store.propose_many([ProposalInput(n, 0.5) for n in range(10)], "s")
        seen: list[object] = []
        cursor: str | None = None
        for n in range(100, 110):
            page = await store.list(limit=3, order_by="confidence", cursor=cursor)
            seen += [m.content for m in page]
            await store.propose(n, "s", 0.1)
            cursor = page.next_cursor
            if cursor is None:
                break
        assert [c for c in seen if c in range(10)] == list(range(10))

    async def test_a_replay_into_an_empty_backend_is_the_same_store(
        self, store: MemoryStore, storage: StorageBackend
    ) -> None:
        memory = await store.propose("Rome", "s", 0.9, key="city", depends_on=[])
        await store.revise(memory.memory_id, "Oslo")
        await store.reject(memory.memory_id)
        into = MemoryBackend()
        assert (await store.replay(into)).identical
        assert await everything(into) == await everything(storage)
        await into.close()
