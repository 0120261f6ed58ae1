"""Revising: new content under the same id, past every check a proposal passes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from memsmith import (
    InvalidTransitionError,
    Memory,
    MemoryStatus,
    MemoryStore,
    PendingConfirmation,
    Rejected,
    ValidationError,
    ValidationResult,
)
from memsmith.errors import (
    ConfidenceMonotonicityError,
    DuplicateError,
    ReviewRequiredError,
    StaleVersionError,
)
from memsmith.testing.clock import START, ManualClock

S = MemoryStatus
MemoryIn = Callable[..., Awaitable[Memory]]
Rows = Callable[[MemoryStore], Awaitable[Any]]
OpenStore = Callable[..., Awaitable[MemoryStore]]


async def test_a_revision_passes_every_check_a_proposal_passes(store: MemoryStore, rows_of: Rows) -> None:
    memory = (await store.propose("Rome", "s", 0.9)).memory
    other = (await store.propose("Oslo", "s", 0.9)).memory
    unsure = await store.confirm((await store.propose("Bern", "s", 0.4)).memory_id)
    before = await rows_of(store)
    with pytest.raises(ValidationError, match="it is wrong"):
        await store.revise(memory.id, "wrong")
    with pytest.raises(ReviewRequiredError):
        await store.revise(unsure.id, "Basel")
    with pytest.raises(DuplicateError) as caught:
        await store.revise(memory.id, "Oslo")
    assert caught.value.other_id == other.id
    assert await rows_of(store) == before


async def test_a_stale_edit_is_refused_and_the_later_one_survives(
    store: MemoryStore, clock: ManualClock
) -> None:
    memory = (await store.propose("Rome", "s", 0.9)).memory
    later = await store.revise(memory.id, "Oslo", expected_version=memory.version)
    clock.advance(timedelta(minutes=2))
    with pytest.raises(StaleVersionError) as caught:
        await store.revise(memory.id, "Bern", expected_version=memory.version)
    assert (caught.value.expected, caught.value.found) == (1, 2)
    assert await store.get(memory.id) == later


async def test_a_revision_keeps_everything_but_the_content(store: MemoryStore) -> None:
    memory = (
        await store.propose(
            "Rome", "s", 0.9, key="city", scope="a", metadata={"m": 1}, actor="ann", source="x"
        )
    ).memory
    revised = await store.revise(memory.id, {"city": "Oslo"}, "moved", actor="bob")
    assert revised.content == {"city": "Oslo"}
    changed = {n for n, v in vars(revised).items() if v != getattr(memory, n)}
    assert changed == {
        "content", "content_hash", "value_digest", "updated_at", "version", "seq", "system_from",
    }  # fmt: skip
    (entry, _) = await store.audit(memory.id)
    assert (entry.actor, entry.metadata["reason"]) == ("bob", "moved")


async def test_a_revision_is_judged_with_everything_the_memory_has(open_store: OpenStore) -> None:
    seen: list[Memory] = []

    async def look(memory: Memory) -> ValidationResult:
        seen.append(memory)
        return ValidationResult(passed=True)

    store = await open_store([look])
    told: dict[str, Any] = {
        "metadata": {"m": 1}, "sensitivity": "public", "source": "x", "thread_id": "t", "origin": "tool",
        "valid_to": START + timedelta(9), "ttl": timedelta(5), "scope": "a", "key": "city",
    }  # fmt: skip
    memory = (await store.propose("Rome", "s", 0.9, **told)).memory
    await store.revise(memory.id, "Oslo", actor="bob")
    judged = seen[-1]
    assert (judged.content, judged.status, judged.actor) == ("Oslo", S.PROPOSED, "bob")
    changed = {n for n, v in vars(judged).items() if v != getattr(memory, n)}
    assert changed == {"content", "content_hash", "value_digest", "status", "actor"}


async def test_confidence_only_rises(store: MemoryStore, rows_of: Rows) -> None:
    memory = (await store.propose("Rome", "s", 0.8)).memory
    before = await rows_of(store)
    for value in (0.8, 0.1):
        with pytest.raises(ConfidenceMonotonicityError):
            await store.update_confidence(memory.id, value)
    assert await rows_of(store) == before
    assert (await store.update_confidence(memory.id, 1)).confidence == 1.0


async def test_a_value_a_validator_blocks_for_good_stays_blocked_when_it_comes_by_revision(
    open_store: OpenStore,
) -> None:
    async def never_rome(memory: Memory) -> ValidationResult:
        fine = memory.content != {"city": "Rome"}
        return ValidationResult(passed=fine, errors=[] if fine else ["not Rome"], tombstone=not fine)

    store = await open_store(validators=[never_rome])
    paris = await store.propose({"city": "Paris"}, "s", 0.9)
    with pytest.raises(ValidationError, match="not Rome"):
        await store.revise(paris.memory_id, {"city": "Rome"})

    (stone,) = await store.tombstones()
    again = await store.propose({"city": " ROME "}, "t", 0.9)
    assert isinstance(again, Rejected)
    assert again.tombstone_id == stone.id
    kept = await store.get(paris.memory_id)
    assert kept is not None
    assert kept.content == {"city": "Paris"}
    assert (await store.replay()).identical


async def test_a_revision_leaves_no_two_live_memories_of_one_value_on_one_key(store: MemoryStore) -> None:
    rome = await store.propose({"city": "Rome"}, "s", 0.9, key="alice/city")
    paris = await store.propose({"city": "Paris"}, "s", 0.9, key="alice/city", origin="tool")
    assert isinstance(paris, PendingConfirmation)

    for one, other, city in ((paris, rome, "Rome"), (rome, paris, "Paris")):
        with pytest.raises(DuplicateError) as caught:
            await store.revise(one.memory_id, {"city": city})
        assert caught.value.other_id == other.memory_id


async def test_a_superseded_fact_can_be_revised_and_stays_superseded(store: MemoryStore) -> None:
    rome = await store.propose({"city": "Rom"}, "s", 0.9, key="alice/city")
    await store.propose({"city": "Paris"}, "s", 0.9, key="alice/city")
    revised = await store.revise(rome.memory_id, {"city": "Rome"})
    assert (revised.content, revised.status) == ({"city": "Rome"}, S.SUPERSEDED)
    assert [span.memory.content["city"] for span in await store.timeline("alice/city")] == ["Rome", "Paris"]


async def test_a_refused_move_that_changes_no_status_says_what_can_not_be_done(store: MemoryStore) -> None:
    memory = await store.propose({"a": 1}, "s", 0.9)
    await store.retract(memory.memory_id)

    with pytest.raises(InvalidTransitionError, match="is retracted and can't be revised"):
        await store.revise(memory.memory_id, {"a": 2})


async def test_a_revision_that_would_shorten_what_someone_more_trusted_said_asks_for_a_person(
    store: MemoryStore,
) -> None:
    owners = await store.propose("Rome", "s", 0.9, key="city")
    other = await store.propose("Oslo", "s", 0.9, key="other", origin="untrusted", actor="bot")
    with pytest.raises(ReviewRequiredError) as caught:
        await store.revise(other.memory_id, "Bern", key="city", actor="bot")
    assert owners.memory_id in str(caught.value)
    assert [span.memory.content for span in await store.timeline("city")] == ["Rome"]
    # The owner is that person.
    assert (await store.revise(other.memory_id, "Bern", key="city")).key == "city"
