"""Saying it twice: within a session, a scope, a key, a batch; endorsing and corroborating."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from memsmith import (
    Accepted,
    Memory,
    MemoryStatus,
    MemoryStore,
    PendingConfirmation,
    ProposalInput,
    Reinforcement,
    Rejected,
)
from memsmith.errors import (
    TombstoneConflictError,
)
from memsmith.testing.clock import START

S = MemoryStatus
MemoryIn = Callable[..., Awaitable[Memory]]
Rows = Callable[[MemoryStore], Awaitable[Any]]
OpenStore = Callable[..., Awaitable[MemoryStore]]


async def test_an_unkeyed_value_is_a_duplicate_within_its_session_or_its_scope(open_store: OpenStore) -> None:
    by_session, by_scope = await open_store(), await open_store(dedup="scope", tenant="other")
    for store, across in ((by_session, Accepted), (by_scope, Rejected)):
        assert isinstance(await store.propose("Rome", "s", 0.9), Accepted)
        assert isinstance(await store.propose("Rome", "s", 0.1), Rejected)
        assert isinstance(await store.propose("Rome", "t", 0.9), across)
        assert isinstance(await store.propose("Rome", "s", 0.9, scope="a"), Accepted)
        assert isinstance(await store.propose("Rome", "s", 0.9, dedup=False), Accepted)
        assert isinstance(await store.propose("rome", "s", 0.9), Accepted)
        assert isinstance(await store.propose("Rome", "s", 0.9, kind="note"), Accepted)


async def test_a_keyed_value_is_a_duplicate_in_every_session_unless_it_starts_elsewhere(
    store: MemoryStore,
) -> None:
    first = await store.propose("Rome", "s", 0.9, key="city")
    again = await store.propose("Rome", "t", 0.9, key="city")
    assert isinstance(again, Rejected)
    assert (again.code, again.memory_id, again.memory) == ("duplicate", first.memory_id, first.memory)
    same = await store.propose("Rome", "t", 0.9, key="city", valid_from=first.memory.valid_from)
    assert isinstance(same, Rejected)
    earlier = await store.propose("Rome", "t", 0.9, key="city", valid_from=START - timedelta(9))
    assert isinstance(earlier, Accepted)
    assert isinstance(await store.propose("Rome", "s", 0.9, key="town"), Accepted)


async def test_a_duplicate_of_what_waits_is_a_duplicate_and_of_what_is_gone_is_not(
    store: MemoryStore,
) -> None:
    held = await store.propose("Rome", "s", 0.4)
    again = await store.propose("Rome", "s", 0.4)
    assert isinstance(again, Rejected)
    assert again.memory_id == held.memory_id
    await store.retract(held.memory_id, "outdated")
    assert isinstance(await store.propose("Rome", "s", 0.9), Accepted)


async def test_a_duplicate_of_higher_origin_endorses(store: MemoryStore) -> None:
    live = await store.propose("Rome", "s", 0.9, origin="agent")
    lower = await store.propose("Rome", "s", 0.9, origin="tool")
    assert lower.memory.origin == "agent"
    again = await store.propose("Rome", "s", 0.9, origin="owner")
    assert isinstance(again, Rejected)
    assert (again.memory_id, again.memory.origin) == (live.memory_id, "owner")
    assert [e.action for e in await store.audit(live.memory_id)] == ["endorsed", "proposed"]


async def test_the_owners_endorsement_confirms_what_waits_and_an_agents_does_not(store: MemoryStore) -> None:
    held = await store.propose("Rome", "s", 0.4, origin="untrusted", actor="ann")
    agents = await store.propose("Rome", "s", 0.4, origin="agent", actor="bob")
    assert (agents.memory.origin, agents.memory.status) == ("agent", S.PENDING_CONFIRMATION)
    owners = await store.propose("Rome", "s", 0.9)
    assert (owners.memory_id, owners.memory.origin, owners.memory.status) == (
        held.memory_id,
        "owner",
        S.ACTIVE,
    )


async def test_corroboration_from_another_session_raises_confidence_when_the_policy_says_so(
    open_store: OpenStore,
) -> None:
    plain = await open_store(tenant="plain")
    store = await open_store(reinforcement=Reinforcement(step=0.5, ceiling=0.9))
    for one in (plain, store):
        await one.propose("Rome", "s", 0.4, key="city")
    assert (await plain.propose("Rome", "t", 0.4, key="city")).memory.confidence == 0.4
    risen = await store.propose("Rome", "t", 0.4, key="city", source="chat", actor="bob")
    assert isinstance(risen, Rejected)
    assert risen.memory.confidence == pytest.approx(0.7)
    assert risen.memory.metadata["corroborated_by"] == [{"session_id": "t", "source": "chat", "actor": "bob"}]
    assert (await store.propose("Rome", "t", 0.4, key="city")).memory == risen.memory
    assert (await store.propose("Rome", "u", 0.4, key="city")).memory.confidence == pytest.approx(0.85)
    assert (await store.propose("Rome", "v", 0.4, key="city")).memory.confidence == 0.9
    assert (await store.replay()).identical


@pytest.mark.parametrize("told", ["x", 5, {"a": 1}, [1], [{"session_id": 5}], [{}]])
async def test_what_a_proposer_puts_in_place_of_corroborations_harms_nobody(
    open_store: OpenStore, told: Any
) -> None:
    store = await open_store(reinforcement=Reinforcement(), dedup="scope")
    await store.propose("Rome", "s", 0.4, metadata={"corroborated_by": told})
    again = await store.propose("Rome", "t", 0.4)
    assert isinstance(again, Rejected)
    assert again.memory.confidence > 0.4
    assert [w["session_id"] for w in again.memory.metadata["corroborated_by"]] == ["t"]


async def test_a_batch_dedups_against_itself_and_is_judged_in_order(store: MemoryStore) -> None:
    items = [ProposalInput(c, f) for c, f in (("a", 0.9), ("wrong", 0.9), ("b", 0.4), ("a", 0.9), ("b", 0.9))]
    results = await store.propose_many(items, "s", "t")
    assert [type(r) for r in results] == [Accepted, Rejected, PendingConfirmation, Rejected, Rejected]
    assert [r.memory_id for r in results[3:]] == [results[0].memory_id, results[2].memory_id]
    assert {m.thread_id for m in await store.list()} == {"t"}
    assert await store.propose_many([], "s") == []


async def test_rejecting_what_others_hold_too_names_them_and_changes_nothing(
    store: MemoryStore, rows_of: Rows
) -> None:
    one = (await store.propose("Rome", "s", 0.9)).memory_id
    same = (await store.propose(" ROME ", "t", 0.4)).memory_id
    below = (await store.propose("Rome", "s", 0.9, scope="a/b")).memory_id
    await store.propose("Rome", "s", 0.9, kind="note")
    before = await rows_of(store)
    with pytest.raises(TombstoneConflictError) as caught:
        await store.reject(one)
    assert set(caught.value.others) == {same, below}
    assert await rows_of(store) == before
    await store.reject(one, "never true", also=True)
    statuses = {m.id: m.status for m in await store.list()}
    assert statuses == dict.fromkeys([one, same, below], S.RETRACTED)


async def test_of_several_live_memories_of_one_value_a_duplicate_names_the_oldest(store: MemoryStore) -> None:
    first = await store.propose("Rome", "s", 0.9)
    second = await store.propose("Rome", "s", 0.9, dedup=False)
    again = await store.propose("Rome", "s", 0.9, depends_on=[second.memory_id])
    assert isinstance(again, Rejected)
    assert again.memory_id == first.memory_id
