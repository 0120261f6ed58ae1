"""A repeated call gives its first outcome; the same key on another call is a conflict."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from memsmith import (
    Accepted,
    MemoryStatus,
    MemoryStore,
    Outcome,
    PendingConfirmation,
    ProposalInput,
    Swept,
    TTLPolicy,
    TTLRule,
)
from memsmith.errors import IdempotencyConflictError, TombstonedError
from memsmith.store import change
from memsmith.testing.clock import START, ManualClock

S = MemoryStatus
OpenStore = Callable[..., Awaitable[MemoryStore]]
Rows = Callable[[MemoryStore], Awaitable[Any]]

Call = Callable[[MemoryStore, str], Awaitable[object]]

# verb → (confidence to propose with, prepared by, the call, the same key on another call)
VERBS: dict[str, tuple[float, str | None, Call, Call]] = {
    "confirm": (
        0.4, None,
        lambda store, ident: store.confirm(ident, reason="yes", idempotency_key="k"),
        lambda store, ident: store.confirm(ident, reason="no", idempotency_key="k"),
    ),
    "reject": (
        0.9, None,
        lambda store, ident: store.reject(ident, idempotency_key="k"),
        lambda store, ident: store.reject(ident, also=True, idempotency_key="k"),
    ),
    "retract": (
        0.9, None,
        lambda store, ident: store.retract(ident, idempotency_key="k"),
        lambda store, ident: store.retract(ident, cascade=True, idempotency_key="k"),
    ),
    "revise": (
        0.9, None,
        lambda store, ident: store.revise(ident, "Oslo", idempotency_key="k"),
        lambda store, ident: store.revise(ident, "Bern", idempotency_key="k"),
    ),
    "update_confidence": (
        0.5, None,
        lambda store, ident: store.update_confidence(ident, 0.75, idempotency_key="k"),
        lambda store, ident: store.update_confidence(ident, 0.9, idempotency_key="k"),
    ),
    "quarantine": (
        0.9, None,
        lambda store, ident: store.quarantine(ident, idempotency_key="k"),
        lambda store, ident: store.quarantine(ident, "odd", idempotency_key="k"),
    ),
    "release": (
        0.9, "quarantine",
        lambda store, ident: store.release(ident, idempotency_key="k"),
        lambda store, ident: store.release(ident, "fine", idempotency_key="k"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
async def test_a_verb_called_twice_under_one_key_happens_once(
    store: MemoryStore, rows_of: Rows, verb: str
) -> None:
    confidence, prepared, call, other = VERBS[verb]
    ident = (await store.propose("Rome", "s", confidence)).memory_id
    if prepared is not None:
        await store.quarantine(ident)
    first = await call(store, ident)
    before = await rows_of(store)
    assert await call(store, ident) == first
    assert await rows_of(store) == before
    with pytest.raises(IdempotencyConflictError) as caught:
        await other(store, ident)
    assert (caught.value.verb, caught.value.key) == (verb, "k")
    another = (await store.propose("another", "s", confidence)).memory_id
    before = await rows_of(store)
    with pytest.raises(IdempotencyConflictError):
        await call(store, another)
    assert await rows_of(store) == before
    outcome = await store.outcome("k", verb=verb)
    assert outcome is not None
    assert (outcome.verb, outcome.actor, outcome.memory_ids) == (verb, "owner", (ident,))


async def test_every_kind_of_result_of_a_proposal_comes_back_the_same(store: MemoryStore) -> None:
    await store.propose("there", "s", 0.9)
    gone = await store.propose("gone", "s", 0.9)
    await store.reject(gone.memory_id)
    cases = {"accepted": "new", "validation": "wrong", "duplicate": "there", "tombstoned": "gone"}
    for code, content in cases.items():
        first = await store.propose(content, "s", 0.9, idempotency_key=code)
        rows = (await store.verify()).rows
        again = await store.propose(content, "s", 0.9, idempotency_key=code)
        assert again == first
        assert code == ("accepted" if isinstance(first, Accepted) else getattr(first, "code", None))
        assert (await store.verify()).rows == rows
        outcome = await store.outcome(code)
        assert outcome is not None
        assert outcome.codes == (code,)
    held = await store.propose("maybe", "s", 0.4, idempotency_key="p")
    assert isinstance(held, PendingConfirmation)
    assert held.reasons
    await store.confirm(held.memory_id, reason="asked")
    again = await store.propose("maybe", "s", 0.4, idempotency_key="p")
    assert isinstance(again, PendingConfirmation)
    assert (again.memory_id, again.reasons) == (held.memory_id, held.reasons)
    items = [
        ProposalInput(content, 0.4 if content == "perhaps" else 0.9)
        for content in (*cases.values(), "perhaps")
    ]
    batch = await store.propose_many(items, "t", idempotency_key="b")
    assert await store.propose_many(items, "t", idempotency_key="b") == batch


async def test_a_call_is_the_same_whatever_validators_make_of_it(
    open_store: OpenStore, clock: ManualClock
) -> None:
    store = await open_store([TTLPolicy([TTLRule(ttl=timedelta(days=1))])])
    first = await store.propose_many([ProposalInput("Rome", 0.9)], "s", idempotency_key="k")
    clock.advance(timedelta(seconds=1))
    assert await store.propose_many([ProposalInput("Rome", 0.9)], "s", idempotency_key="k") == first


async def test_a_revision_is_the_same_call_wherever_the_memory_has_moved_since(store: MemoryStore) -> None:
    ident = (await store.propose("Rome", "s", 0.9, key="here")).memory_id
    await store.revise(ident, "Oslo", idempotency_key="k")
    moved = await store.revise(ident, "Oslo", key="there", idempotency_key="m")
    assert await store.revise(ident, "Oslo", idempotency_key="k") == moved
    with pytest.raises(IdempotencyConflictError):
        await store.revise(ident, "Oslo", key="elsewhere", idempotency_key="m")


@pytest.mark.parametrize(
    "other",
    [
        {"content": "Oslo"}, {"session_id": "t"}, {"confidence": 0.8}, {"source": "web"}, {"thread_id": "t"},
        {"dedup": False}, {"scope": "a"}, {"key": "k"}, {"kind": "note"}, {"origin": "tool"},
        {"sensitivity": "public"}, {"valid_from": START}, {"valid_to": START + timedelta(9)},
        {"expires_at": START + timedelta(9)}, {"ttl": timedelta(9)}, {"metadata": {"a": 1}},
    ],
    ids=lambda o: next(iter(o)),
)  # fmt: skip
async def test_a_proposal_that_differs_in_anything_is_another_call(
    store: MemoryStore, rows_of: Rows, other: dict[str, Any]
) -> None:
    call: dict[str, Any] = {"content": "Rome", "session_id": "s", "confidence": 0.9, "idempotency_key": "k"}
    await store.propose(**call)
    before = await rows_of(store)
    with pytest.raises(IdempotencyConflictError):
        await store.propose(**(call | other))
    assert await rows_of(store) == before


async def test_content_of_equal_meaning_is_the_same_call(store: MemoryStore) -> None:
    first = await store.propose({"a": 1, "b": 2}, "s", 0.9, idempotency_key="k")
    assert await store.propose({"b": 2, "a": 1}, "s", 0.9, idempotency_key="k") == first


async def test_a_key_belongs_to_its_actor_its_verb_and_its_tenant(open_store: OpenStore) -> None:
    store, other = await open_store(), await open_store(tenant="other")
    results = [
        await store.propose("Rome", "s", 0.9, idempotency_key="k"),
        await store.propose("Oslo", "s", 0.9, idempotency_key="k", actor="ann"),
        await other.propose("Bern", "s", 0.9, idempotency_key="k"),
        *await store.propose_many([ProposalInput("Bonn", 0.9)], "s", idempotency_key="k"),
    ]
    assert [type(r) for r in results] == [Accepted] * 4
    await store.retract(results[0].memory_id, idempotency_key="k")
    outcome = await store.outcome("k", actor="ann")
    assert outcome is not None
    assert outcome.memory_ids == (results[1].memory_id,)


async def test_a_batch_under_one_key_happens_once_and_as_a_whole(store: MemoryStore, rows_of: Rows) -> None:
    items = [ProposalInput("a", 0.9), ProposalInput("b", 0.4), ProposalInput("a", 0.9)]
    first = await store.propose_many(items, "s", idempotency_key="k")
    before = await rows_of(store)
    again = await store.propose_many(items, "s", idempotency_key="k")
    assert [(type(r), r.memory_id) for r in again] == [(type(r), r.memory_id) for r in first]
    with pytest.raises(IdempotencyConflictError):
        await store.propose_many(items[:2], "s", idempotency_key="k")
    assert await rows_of(store) == before
    outcome = await store.outcome("k", verb="propose_many")
    assert outcome == Outcome(
        "propose_many", "k", "owner", ("accepted", "pending", "duplicate"),
        tuple(r.memory_id for r in first), START,
    )  # fmt: skip


@pytest.mark.parametrize("other", [{"actor": "ann"}, {"idempotency_key": "mine"}], ids=ascii)
async def test_a_batch_whose_items_differ_in_anything_is_another_call(
    store: MemoryStore, rows_of: Rows, other: dict[str, Any]
) -> None:
    await store.propose_many([ProposalInput("a", 0.9)], "s", idempotency_key="k")
    before = await rows_of(store)
    with pytest.raises(IdempotencyConflictError):
        await store.propose_many([ProposalInput("a", 0.9, **other)], "s", idempotency_key="k")
    assert await rows_of(store) == before


async def test_items_of_a_batch_have_keys_of_their_own(store: MemoryStore) -> None:
    items = [ProposalInput("a", 0.9, idempotency_key="1"), ProposalInput("b", 0.9, idempotency_key="2")]
    first = await store.propose_many(items, "s")
    again = await store.propose_many([items[1], ProposalInput("c", 0.9, idempotency_key="3"), items[0]], "s")
    assert [r.memory_id for r in (again[0], again[2])] == [first[1].memory_id, first[0].memory_id]
    assert await store.propose("a", "s", 0.9, idempotency_key="1") == first[0]
    with pytest.raises(IdempotencyConflictError):
        await store.propose_many([ProposalInput("d", 0.9), ProposalInput("e", 0.9, idempotency_key="1")], "s")
    assert len(await store.list()) == 3


async def test_the_same_key_many_times_at_once_is_one_call(store: MemoryStore) -> None:
    results = await asyncio.gather(*(store.propose("Rome", "s", 0.9, idempotency_key="k") for _ in range(16)))
    assert all(isinstance(r, Accepted) for r in results)
    assert len({r.memory_id for r in results}) == 1
    assert (await store.verify()).rows == 1


async def test_two_stores_on_one_place_agree_on_a_key(open_store: OpenStore) -> None:
    one, two = await open_store(), await open_store()
    first = await one.propose("Rome", "s", 0.9, idempotency_key="k")
    assert await two.propose("Rome", "s", 0.9, idempotency_key="k") == first
    with pytest.raises(IdempotencyConflictError):
        await two.propose("Oslo", "s", 0.9, idempotency_key="k")
    assert await two.outcome("k") == await one.outcome("k")


async def test_a_call_that_failed_left_no_outcome_and_may_be_made_again(store: MemoryStore) -> None:
    wrong = await store.propose("Rome", "s", 0.9)
    await store.reject(wrong.memory_id)
    memory = await store.propose("Oslo", "s", 0.9)
    with pytest.raises(TombstonedError):
        await store.revise(memory.memory_id, "Rome", idempotency_key="k")
    assert await store.outcome("k", verb="revise") is None
    (stone,) = await store.tombstones()
    await store.lift_tombstone(stone.id)
    assert (await store.revise(memory.memory_id, "Rome", idempotency_key="k")).content == "Rome"


async def test_an_outcome_that_never_was_is_none(store: MemoryStore) -> None:
    await store.propose("Rome", "s", 0.9, idempotency_key="k")
    assert await store.outcome("other") is None
    assert await store.outcome("k", verb="confirm") is None
    assert await store.outcome("k", actor="ann") is None


async def test_an_outcome_is_undone_with_its_transaction(store: MemoryStore) -> None:
    async def undone() -> None:
        async with store.transaction():
            await store.propose("Rome", "s", 0.9, idempotency_key="k")
            raise LookupError

    with pytest.raises(LookupError):
        await undone()
    assert await store.outcome("k") is None
    assert isinstance(await store.propose("Oslo", "s", 0.9, idempotency_key="k"), Accepted)


async def test_a_cancelled_call_can_be_asked_about_and_repeated(store: MemoryStore) -> None:
    for n in range(12):
        task = asyncio.ensure_future(store.propose(["Rome", n], "s", 0.9, idempotency_key=f"k{n}"))
        for _ in range(n):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        again = await store.propose(["Rome", n], "s", 0.9, idempotency_key=f"k{n}")
        assert isinstance(again, Accepted)
        outcome = await store.outcome(f"k{n}")
        assert outcome is not None
        assert outcome.memory_ids == (again.memory_id,)
    assert (await store.verify()).rows == 12


async def test_a_lift_under_one_key_is_one_call_and_another_reason_another(store: MemoryStore) -> None:
    memory = await store.propose("Rome", "s", 0.9)
    await store.reject(memory.memory_id)
    (stone,) = await store.tombstones()

    first = await store.lift_tombstone(stone.id, "a mistake", idempotency_key="k")
    again = await store.lift_tombstone(stone.id, "a mistake", idempotency_key="k")

    assert again == first
    outcome = await store.outcome("k", verb="lift_tombstone")
    assert outcome is not None
    assert outcome.memory_ids == (stone.id,)
    with pytest.raises(IdempotencyConflictError):
        await store.lift_tombstone(stone.id, "no mistake", idempotency_key="k")


async def test_expiring_and_sweeping_again_under_one_key_gives_the_first_count(
    store: MemoryStore, rows_of: Rows, clock: ManualClock
) -> None:
    for content in ("Rome", "Oslo"):
        await store.propose(content, "s", 0.9, ttl=timedelta(minutes=1))
    clock.advance(timedelta(minutes=2))
    assert await store.expire_batch(idempotency_key="k") == 2
    await store.propose("Bern", "s", 0.9, ttl=timedelta(minutes=1))
    clock.advance(timedelta(minutes=2))
    before = await rows_of(store)
    assert await store.expire_batch(idempotency_key="k") == 2
    assert await rows_of(store) == before
    # The same word under another verb is another call.
    assert await store.sweep(idempotency_key="k") == Swept(1, 0)
    await store.propose("Kyiv", "s", 0.9, ttl=timedelta(minutes=1))
    clock.advance(timedelta(minutes=2))
    assert await store.sweep(idempotency_key="k") == Swept(1, 0)
    assert (await store.outcome("k", verb="sweep")).codes == ("1", "0")  # type: ignore[union-attr]  # it is there
    assert await store.expire_batch() == 1


async def test_a_sweep_of_many_units_under_one_key_counts_them_all(
    store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change, "SWEEP", 2)
    for number in range(5):
        await store.propose(f"fact {number}", "s", 0.9, ttl=timedelta(minutes=1))
    clock.advance(timedelta(minutes=2))
    assert [await store.expire_batch(idempotency_key="k") for _ in range(2)] == [5, 5]
