"""Every verb, every legal move, every illegal one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from memsmith import (
    Accepted,
    InvalidTransitionError,
    Memory,
    MemoryStatus,
    MemoryStore,
    PendingConfirmation,
    ProposalInput,
    Rejected,
)
from memsmith.errors import (
    BaseChangedError,
    PermissionDeniedError,
    StaleVersionError,
)
from memsmith.testing.clock import START, ManualClock

S = MemoryStatus
MemoryIn = Callable[..., Awaitable[Memory]]
Rows = Callable[[MemoryStore], Awaitable[Any]]
OpenStore = Callable[..., Awaitable[MemoryStore]]

VERBS: dict[str, Callable[[MemoryStore, str], Awaitable[Memory]]] = {
    "confirm": lambda store, ident: store.confirm(ident),
    "reject": lambda store, ident: store.reject(ident),
    "retract": lambda store, ident: store.retract(ident),
    "revise": lambda store, ident: store.revise(ident, "new"),
    "update_confidence": lambda store, ident: store.update_confidence(ident, 0.99),
    "quarantine": lambda store, ident: store.quarantine(ident),
    "release": lambda store, ident: store.release(ident),
}

STAYS = {s: s for s in (S.PENDING_CONFIRMATION, S.ACTIVE, S.SUPERSEDED)}

# Section 3 of the design, by hand: verb → where it leads from each status that allows it.
LEGAL: dict[str, dict[MemoryStatus, MemoryStatus]] = {
    "confirm": {S.PENDING_CONFIRMATION: S.ACTIVE},
    "reject": dict.fromkeys([*STAYS, S.QUARANTINED], S.RETRACTED),
    "retract": dict.fromkeys([*STAYS, S.QUARANTINED], S.RETRACTED),
    "revise": STAYS,
    "update_confidence": STAYS,
    "quarantine": dict.fromkeys([*STAYS, S.EXPIRED], S.QUARANTINED),
    "release": {S.QUARANTINED: S.ACTIVE},
}

STORED = [s for s in S if s is not S.PROPOSED]


@pytest.mark.parametrize("status", STORED)
@pytest.mark.parametrize("verb", VERBS)
async def test_a_verb_moves_a_memory_where_the_table_says_or_is_refused_and_changes_nothing(
    store: MemoryStore, memory_in: MemoryIn, rows_of: Rows, verb: str, status: MemoryStatus
) -> None:
    memory = await memory_in(store, status)
    before = await rows_of(store)
    target = LEGAL[verb].get(status)
    if target is None:
        with pytest.raises(InvalidTransitionError) as caught:
            await VERBS[verb](store, memory.id)
        error = caught.value
        assert (error.memory_id, error.from_status) == (memory.id, status)
        assert all(
            word in str(error) for word in (memory.id, status.value, MemoryStatus(error.to_status).value)
        )
        assert await rows_of(store) == before
    else:
        changed = await VERBS[verb](store, memory.id)
        assert changed == await store.get(memory.id)
        assert (changed.status, changed.version) == (target, memory.version + 1)
        (entry,) = await store.audit(memory.id, limit=1)
        assert (entry.from_status, entry.to_status, entry.seq) == (status, target, changed.seq)


@pytest.mark.parametrize("status", STORED)
async def test_only_what_is_live_expires(
    store: MemoryStore, memory_in: MemoryIn, clock: ManualClock, status: MemoryStatus
) -> None:
    end = None if status is S.EXPIRED else START + timedelta(hours=1)
    memory = await memory_in(store, status, expires_at=end)
    clock.set(START + timedelta(hours=1))
    await store.expire_batch()
    after = await store.get(memory.id)
    assert after is not None
    live = status in {S.ACTIVE, S.PENDING_CONFIRMATION}
    assert after.status is (S.EXPIRED if live else status)


async def test_a_proposal_writes_one_row_that_comes_from_proposed(store: MemoryStore) -> None:
    for content, confidence, action, status in (
        ("a", 0.9, "proposed", S.ACTIVE),
        ("b", 0.4, "proposed_pending", S.PENDING_CONFIRMATION),
        ("wrong", 0.9, "proposed_rejected", S.REJECTED),
    ):
        result = await store.propose(content, "s", confidence)
        assert result.memory.status is status
        (entry,) = await store.audit(result.memory_id)
        assert (entry.action, entry.from_status, entry.to_status) == (action, S.PROPOSED, status)


async def test_what_is_held_says_why_and_what_is_refused_keeps_its_content(store: MemoryStore) -> None:
    held = await store.propose("Rome", "s", 0.4)
    assert isinstance(held, PendingConfirmation)
    assert "0.4" in held.reasons[0]
    refused = await store.propose("wrong", "s", 0.4)
    assert isinstance(refused, Rejected)
    assert (refused.code, refused.memory.content, refused.memory.code) == (
        "validation",
        "wrong",
        "validation",
    )
    assert "it is wrong" in refused.reason
    assert (await store.audit(refused.memory_id))[0].metadata["code"] == "validation"


async def test_every_argument_of_a_proposal_is_on_the_memory(store: MemoryStore) -> None:
    parent = (await store.propose("parent", "s", 0.9)).memory_id
    given: dict[str, Any] = {
        "thread_id": "t", "source": "web", "scope": "user:ann/project:atlas", "key": "user:ann/city",
        "kind": "note", "origin": "tool", "sensitivity": "restricted", "valid_from": START - timedelta(1),
        "valid_to": START + timedelta(9), "expires_at": START + timedelta(3), "depends_on": [parent],
        "metadata": {"a": [1]}, "actor": "ann",
    }  # fmt: skip
    alone = await store.propose("Rome", "s", 0.8, **given)
    given_to_another = given | {"key": "user:bob/city"}
    (batched,) = await store.propose_many([ProposalInput("Oslo", 0.8, **given_to_another)], "s")
    for result, fields in ((alone, given), (batched, given_to_another)):
        assert {name: getattr(result.memory, name) for name in fields} == fields
        assert result.memory == await store.get(result.memory_id)


async def test_a_batch_lends_its_thread_and_actor_to_items_that_name_none(store: MemoryStore) -> None:
    items = [ProposalInput("a", 0.9, thread_id="own", actor="bob"), ProposalInput("b", 0.9)]
    results = await store.propose_many(items, "s", "shared", actor="ann")
    assert [(r.memory.thread_id, r.memory.actor) for r in results] == [("own", "bob"), ("shared", "ann")]


async def test_releasing_what_is_not_quarantined_says_so(store: MemoryStore) -> None:
    ident = (await store.propose("Rome", "s", 0.9)).memory_id
    with pytest.raises(InvalidTransitionError, match="is active and can't be released"):
        await store.release(ident)


async def test_a_lifetime_counts_from_the_moment_of_writing(store: MemoryStore) -> None:
    memory = (await store.propose("Rome", "s", 0.8, ttl=timedelta(hours=1))).memory
    assert memory.expires_at == memory.created_at + timedelta(hours=1)
    assert memory.valid_from == memory.created_at


async def test_what_a_caller_does_to_a_memory_it_was_given_changes_nothing_stored(store: MemoryStore) -> None:
    accepted = await store.propose({"a": [1]}, "s", 0.9, metadata={"tags": ["x"]})
    given = [accepted.memory, await store.get(accepted.memory_id), (await store.list())[0]]
    for memory in given:
        assert memory is not None
        memory.content["a"].append(2)
        memory.metadata["tags"].clear()

    stored = await store.get(accepted.memory_id)
    assert stored is not None
    assert (stored.content, stored.metadata) == ({"a": [1]}, {"tags": ["x"]})


# -- confirming ------------------------------------------------------------------------------------


async def test_nobody_but_the_owner_confirms_what_they_proposed(store: MemoryStore, rows_of: Rows) -> None:
    ann = (await store.propose("Rome", "s", 0.4, actor="ann")).memory_id
    own = (await store.propose("Oslo", "s", 0.4)).memory_id
    before = await rows_of(store)
    with pytest.raises(PermissionDeniedError):
        await store.confirm(ann, actor="ann")
    assert await rows_of(store) == before
    assert (await store.confirm(ann, actor="bob")).status is S.ACTIVE
    assert (await store.confirm(own)).status is S.ACTIVE


async def test_confirming_raises_the_origin_to_the_confirmers(store: MemoryStore) -> None:
    held = await store.propose("Rome", "s", 0.4, origin="tool", actor="ann")
    assert (await store.confirm(held.memory_id)).origin == "owner"


async def test_a_confirmation_whose_base_changed_comes_back_until_it_names_the_version(
    store: MemoryStore, rows_of: Rows
) -> None:
    held = await store.propose("Rome", "s", 0.4)
    live = await store.propose("Rome", "s", 0.9, dedup=False)
    assert isinstance(live, Accepted)
    before = await rows_of(store)
    with pytest.raises(BaseChangedError) as caught:
        await store.confirm(held.memory_id)
    assert live.memory_id in caught.value.difference
    assert await rows_of(store) == before
    with pytest.raises(StaleVersionError):
        await store.confirm(held.memory_id, expected_version=caught.value.version + 1)
    assert (await store.confirm(held.memory_id, expected_version=caught.value.version)).status is S.ACTIVE


async def test_what_ran_out_while_it_waited_is_not_confirmed(store: MemoryStore, clock: ManualClock) -> None:
    held = await store.propose("Rome", "s", 0.4, ttl=timedelta(minutes=1))
    clock.advance(timedelta(minutes=1))
    with pytest.raises(InvalidTransitionError):
        await store.confirm(held.memory_id)


@pytest.mark.parametrize("other", ["reject", "retract", "quarantine"])
async def test_of_two_people_who_decide_at_once_one_wins_and_the_other_is_told(
    store: MemoryStore, other: str
) -> None:
    held = await store.propose("Rome", "s", 0.4)
    verbs = [VERBS[other](store, held.memory_id), VERBS["confirm"](store, held.memory_id)]
    results = await asyncio.gather(*verbs, return_exceptions=True)
    assert [type(r) for r in results] == [Memory, InvalidTransitionError]
    assert (await store.verify()).rows == 2


# -- quarantine -------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [S.PENDING_CONFIRMATION, S.ACTIVE, S.SUPERSEDED, S.EXPIRED])
async def test_what_is_released_is_again_what_it_was(
    store: MemoryStore, memory_in: MemoryIn, status: MemoryStatus
) -> None:
    memory = await memory_in(store, status)
    held = await store.quarantine(memory.id, "odd")
    assert held.held_status is status
    released = await store.release(memory.id, "fine")
    assert (released.status, released.held_status) == (status, None)


async def test_what_ran_out_in_quarantine_is_released_as_expired(
    store: MemoryStore, clock: ManualClock
) -> None:
    memory = await store.propose("Rome", "s", 0.9, ttl=timedelta(minutes=1))
    await store.quarantine(memory.memory_id)
    clock.advance(timedelta(minutes=1))
    assert await store.expire_batch() == 0
    assert (await store.release(memory.memory_id)).status is S.EXPIRED


# -- expiry ----------------------------------------------------------------------------------------


async def test_expiry_takes_what_is_over_to_the_microsecond_and_in_any_number(
    store: MemoryStore, clock: ManualClock
) -> None:
    await store.propose_many(
        [ProposalInput(n, 0.9, expires_at=START + timedelta(hours=1)) for n in range(2100)], "s"
    )
    late = await store.propose("late", "s", 0.9, expires_at=START + timedelta(hours=1, milliseconds=1))
    held = await store.propose("held", "s", 0.4, expires_at=START + timedelta(minutes=30))
    clock.set(START + timedelta(hours=1) - timedelta(microseconds=1))
    assert await store.expire_batch() == 1
    assert (await store.audit(held.memory_id))[0].action == "expired"
    clock.set(START + timedelta(hours=1))
    assert await store.expire_batch() == 2100
    assert await store.expire_batch() == 0
    assert [m.id for m in await store.list(status="active")] == [late.memory_id]


async def test_sweeps_run_by_themselves_when_asked_for(open_store: OpenStore, clock: ManualClock) -> None:
    store = await open_store(sweep_every=timedelta(milliseconds=5))
    heard = asyncio.Event()

    async def hook(memory_id: str, before: MemoryStatus, after: MemoryStatus) -> None:
        if after is S.EXPIRED:
            heard.set()

    store.on_transition(hook)
    await store.propose("Rome", "s", 0.9, ttl=timedelta(minutes=1))
    clock.advance(timedelta(minutes=1))
    async with asyncio.timeout(10):
        await heard.wait()


async def test_a_value_that_ran_out_may_be_proposed_again_before_any_sweep(
    store: MemoryStore, clock: ManualClock
) -> None:
    await store.propose("Rome", "s", 0.9, ttl=timedelta(seconds=1))
    await store.propose("Oslo", "s", 0.9, key="city", ttl=timedelta(seconds=1))
    clock.advance(timedelta(seconds=2))
    assert isinstance(await store.propose("Rome", "s", 0.9), Accepted)
    assert isinstance(await store.propose("Oslo", "s", 0.9, key="city"), Accepted)


# -- dependants -------------------------------------------------------------------------------------


async def test_a_cascade_takes_what_depends_directly_or_not_and_says_because_of_what(
    store: MemoryStore,
) -> None:
    root = (await store.propose("root", "s", 0.9)).memory_id
    left = (await store.propose("left", "s", 0.9, depends_on=[root])).memory_id
    right = (await store.propose("right", "s", 0.4, depends_on=[root])).memory_id
    leaf = (await store.propose("leaf", "s", 0.9, depends_on=[left, right])).memory_id
    gone = (await store.propose("gone", "s", 0.9, depends_on=[root])).memory_id
    await store.retract(gone, "earlier")
    other = (await store.propose("other", "s", 0.9)).memory_id
    assert [m.id for m in await store.dependants(root)] == [left, right, gone]
    assert await store.dependants(leaf) == []
    await store.retract(root, "moved", cascade=True)
    assert (await store.verify()).rows == 11
    for ident in (root, left, right, leaf):
        memory = await store.get(ident)
        assert memory is not None
        assert (memory.status, memory.retraction_reason) == (S.RETRACTED, "moved")
    assert (await store.audit(leaf))[0].metadata["because_of"] == root
    assert [(await store.get(i)).status for i in (gone, other)] == [S.RETRACTED, S.ACTIVE]  # type: ignore[union-attr]  # both exist


async def test_without_a_cascade_what_depends_stays(store: MemoryStore) -> None:
    root = (await store.propose("root", "s", 0.9)).memory_id
    child = (await store.propose("child", "s", 0.9, depends_on=[root])).memory_id
    await store.retract(root)
    (left,) = await store.dependants(root)
    assert (left.id, left.status) == (child, S.ACTIVE)


async def test_long_work_tells_how_far_it_is(store: MemoryStore) -> None:
    await store.propose_many([ProposalInput(n, 0.9) for n in range(1500)], "s")
    for work in (store.verify, store.replay):
        told: list[tuple[int, int]] = []
        await work(progress=lambda done, total, told=told: told.append((done, total)))
        assert (told[0], told[-1]) == ((1000, 1500), (1500, 1500))
