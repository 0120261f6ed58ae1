# ruff: noqa: D102 - a test's name says what it tests
"""Members of chains that wait for a person: who waits, what is shown, and what confirming does."""

from __future__ import annotations

from typing import Any

import pytest

from memsmith.errors import BaseChangedError
from memsmith.protocols import StorageBackend
from memsmith.store.store import MemoryStore
from memsmith.testing.clock import ManualClock
from memsmith.testing.conformance.base import TENANT, Suite
from memsmith.testing.conformance.timing import KEY, day, say, status_of, told
from memsmith.types import Displaced, MemoryStatus, Origin, PendingConfirmation, Rejected
from memsmith.validators.confidence import ConfidenceThreshold

S = MemoryStatus


async def _held(store: MemoryStore, content: Any, **more: Any) -> str:
    given: dict[str, Any] = {"session_id": "s", "confidence": 0.9, "key": KEY}
    result = await store.propose(content, **(given | more))
    assert isinstance(result, PendingConfirmation), result
    return result.memory_id


class Confirming(Suite):
    """What a person is asked about a chain, and is told again."""

    async def test_what_would_shorten_what_someone_more_trusted_said_waits_for_a_person(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        home = await say(store, "Rome", 0)
        clock.set(day(10))
        held = await store.propose("Oslo", "s", 0.9, key=KEY, origin="tool")
        assert isinstance(held, PendingConfirmation)
        assert home in held.reasons[0]
        assert held.memory.displaces == (Displaced(home, day(10), None),)
        assert await told(store) == [(0, None, "Rome")]
        confirmed = await store.confirm(held.memory_id)
        assert (confirmed.status, confirmed.origin, confirmed.displaces) == (S.ACTIVE, Origin.OWNER, ())
        assert await told(store) == [(0, 10, "Rome"), (10, None, "Oslo")]

    async def test_what_shortens_nobody_is_accepted_whoever_says_it(self, store: MemoryStore) -> None:
        await say(store, "Rome", 0, 10)
        await say(store, "Bern", -5, origin="untrusted")
        await say(store, "Oslo", 10, origin="tool")
        assert await told(store) == [(-5, 0, "Bern"), (0, 10, "Rome"), (10, None, "Oslo")]
        assert await status_of(store, await _held(store, "Paris", valid_from=day(5), origin="agent")) == [
            S.PENDING_CONFIRMATION
        ]

    async def test_origins_protect_nothing_where_the_store_says_so(
        self, storage: StorageBackend, clock: ManualClock
    ) -> None:
        async with await MemoryStore.init(storage, clock=clock, tenant=TENANT, protect_origin=False) as store:
            await say(store, "Rome", 0)
            await say(store, "Oslo", 10, origin="untrusted")
            assert await told(store) == [(0, 10, "Rome"), (10, None, "Oslo")]

    async def test_a_confirmation_that_would_do_something_else_by_now_is_refused_with_the_difference(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        first = await say(store, "Rome", 0)
        clock.set(day(10))
        held = await _held(store, "Oslo", origin="tool")
        clock.set(day(11))
        second = await say(store, "Bern", 5)
        with pytest.raises(BaseChangedError) as caught:
            await store.confirm(held)
        assert first in str(caught.value)
        assert second in str(caught.value)
        assert await status_of(store, held) == [S.PENDING_CONFIRMATION]
        assert await told(store) == [(0, 5, "Rome"), (5, None, "Bern")]
        memory = await store.get(held)
        assert memory is not None
        await store.confirm(held, expected_version=memory.version)
        # Its start was fixed when it was proposed.
        assert await told(store) == [(0, 5, "Rome"), (5, 10, "Bern"), (10, None, "Oslo")]

    async def test_a_confirmation_goes_through_where_the_base_changed_elsewhere(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        await say(store, "Rome", 0)
        clock.set(day(10))
        held = await _held(store, "Oslo", origin="tool")
        clock.set(day(12))
        await say(store, "Bern", -5)
        await say(store, "Paris", 5, 6)
        await store.confirm(held)
        assert await told(store) == [
            (-5, 0, "Bern"), (0, 5, "Rome"), (5, 6, "Paris"), (6, 10, "Rome"), (10, None, "Oslo"),
        ]  # fmt: skip

    async def test_a_confirmation_that_would_give_way_at_once_to_what_came_meanwhile_is_refused(
        self, storage: StorageBackend, clock: ManualClock
    ) -> None:
        validators = [ConfidenceThreshold(0.5)]
        async with await MemoryStore.init(storage, validators, clock=clock, tenant=TENANT) as store:
            held = await _held(store, "Oslo", confidence=0.1)
            clock.set(day(11))
            later = await say(store, "Bern", 5)
            with pytest.raises(BaseChangedError, match="that nobody holds by now"):
                await store.confirm(held)
            assert await told(store) == [(5, None, "Bern")]
            assert await status_of(store, held, later) == [S.PENDING_CONFIRMATION, S.ACTIVE]

    async def test_a_confirmation_that_would_take_another_portion_of_the_same_memory_is_refused(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        home = await say(store, "Rome", 0)
        clock.set(day(10))
        held = await _held(store, "Oslo", origin="tool")
        await store.retract(home, during=(day(12), day(14)))
        with pytest.raises(BaseChangedError, match=f"from memory {home}"):
            await store.confirm(held)
        assert await status_of(store, held) == [S.PENDING_CONFIRMATION]

    async def test_what_waits_is_judged_again_when_its_own_time_or_key_changes(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        home = await say(store, "Rome", 0)
        work = await say(store, "lab", 0, key="user/work")
        clock.set(day(10))
        held = await _held(store, "Oslo", origin="tool")
        amended = await store.amend_validity(held, day(12), day(20))
        assert amended.displaces == (Displaced(home, day(12), day(20)),)
        portioned = await store.retract(held, during=(day(13), day(14)))
        assert portioned.displaces == (
            Displaced(home, day(12), day(13)),
            Displaced(home, day(14), day(20)),
        )
        moved = await store.revise(held, "mill", key="user/work")
        assert [d.memory_id for d in moved.displaces] == [work, work]
        await store.confirm(held)
        assert await told(store) == [(0, None, "Rome")]
        assert await told(store, "user/work") == [
            (0, 12, "lab"), (12, 13, "mill"), (13, 14, "lab"), (14, 20, "mill"), (20, None, "lab"),
        ]  # fmt: skip

    async def test_what_waits_has_no_part_in_its_chain_until_it_is_confirmed(
        self, storage: StorageBackend, clock: ManualClock
    ) -> None:
        validators = [ConfidenceThreshold(0.5)]
        async with await MemoryStore.init(storage, validators, clock=clock, tenant=TENANT) as store:
            await say(store, "Rome", 0)
            held = await _held(store, "Oslo", confidence=0.1, valid_from=day(10))
            refused = await _held(store, "Bern", confidence=0.1, valid_from=day(15))
            assert await told(store) == [(0, None, "Rome")]
            await store.reject(refused)
            await store.amend_validity(held, day(12), None)
            assert await told(store) == [(0, None, "Rome")]
            clock.set(day(1))
            await store.confirm(held)
            assert await told(store) == [(0, 12, "Rome"), (12, None, "Oslo")]
            assert await told(store, system_at=day(0.5)) == [(0, None, "Rome")]

    async def test_what_is_confirmed_by_being_repeated_takes_its_place_in_its_chain(
        self, storage: StorageBackend, clock: ManualClock
    ) -> None:
        validators = [ConfidenceThreshold(0.5)]
        async with await MemoryStore.init(storage, validators, clock=clock, tenant=TENANT) as store:
            home = await say(store, "Rome", 0, origin="tool")
            clock.set(day(10))
            held = await _held(store, "Oslo", confidence=0.1, origin="agent")
            again = await store.propose("Oslo", "t", 0.9, key=KEY)
            assert isinstance(again, Rejected)
            assert (again.code, again.memory_id, again.memory.status) == ("duplicate", held, S.ACTIVE)
            assert await told(store) == [(0, 10, "Rome"), (10, None, "Oslo")]
            assert await status_of(store, home, held) == [S.SUPERSEDED, S.ACTIVE]
