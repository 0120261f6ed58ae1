"""Import into a used store: by the door, where validators, tombstones and deduplication stand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from stores_apart import SECRET, Stores, lines_of

from memsmith import (
    Accepted,
    ConfidenceThreshold,
    MemoryStatus,
    MemoryStore,
    PendingConfirmation,
    ProposalInput,
    Rejected,
)
from memsmith.errors import SecretRequiredError, TombstonedError
from memsmith.store.merging import WAITED
from memsmith.testing.clock import ManualClock
from memsmith.types import LIVE

S = MemoryStatus


async def settled(store: MemoryStore) -> tuple[Any, Any]:
    return await store.list(kind=None, limit=5000), await store.tombstones(lifted=True)


async def test_into_a_used_store_live_memories_are_proposed_as_they_were(
    source: MemoryStore, source_secret: bytes, stores: Stores
) -> None:
    used = await stores("used")
    await used.propose("already here", "s", 0.9)
    report = await used.import_lines(await lines_of(source), secret=source_secret)
    there = [m for m in await source.list(kind=None, limit=100) if m.status in LIVE]
    here = {
        m.metadata["imported_from"]["id"]: m
        for m in await used.list(kind=None, limit=100)
        if "imported_from" in m.metadata and m.status is not S.REJECTED
    }
    assert not report.restored
    assert report.outcomes == {"accepted": 3, "pending": 1}
    assert report.left_out == {
        "expired": 1, "superseded": 1, "rejected": 2, "retracted": 3, "quarantined": 1, "erased": 1,
        "lifted": 1,
    }  # fmt: skip
    assert report.planted == 1
    assert report.refused == ()
    assert here.keys() == {memory.id for memory in there}
    kept = (
        "content", "session_id", "thread_id", "scope", "key", "kind", "origin", "confidence", "source",
        "valid_from", "valid_to", "expires_at", "sensitivity", "actor", "status", "content_hash",
    )  # fmt: skip
    for memory in there:
        ours = here[memory.id]
        assert [getattr(ours, name) for name in kept] == [getattr(memory, name) for name in kept]
        whence = ours.metadata["imported_from"]
        assert ours.metadata == {**memory.metadata, "imported_from": whence}
        assert whence["tenant"] == "default"
        assert whence["created_at"].startswith("2026-03-01T09:3")
        assert ours.depends_on == [here[parent].id for parent in memory.depends_on]
    assert any(memory.depends_on for memory in here.values())
    assert (await used.verify()).ok
    assert (await used.replay()).identical


async def test_a_second_import_adds_nothing(
    source: MemoryStore, source_secret: bytes, stores: Stores
) -> None:
    lines = await lines_of(source)
    used = await stores("used")
    await used.propose("already here", "s", 0.9)
    await used.import_lines(lines, secret=source_secret)
    before, audit = await settled(used), await used.audit(limit=1000)
    again = await used.import_lines(lines, secret=source_secret)
    assert again.outcomes == {"duplicate": 4}
    assert again.planted == 0
    assert await settled(used) == before
    assert await used.audit(limit=1000) == audit


async def test_a_value_rejected_there_is_blocked_here(
    source: MemoryStore, source_secret: bytes, stores: Stores
) -> None:
    lines = await lines_of(source)
    used = await stores("used")
    held = await used.propose({"draft": True}, "s", 0.9)
    with pytest.raises(SecretRequiredError):
        await used.import_lines(lines)
    assert len(await used.list(kind=None)) == 1
    await used.import_lines(lines, secret=source_secret)
    (stone,) = await used.tombstones()
    assert stone.id == (await source.tombstones())[0].id
    for store in (used, await stores("used")):
        refused = await store.propose("a  Lie", "any", 0.9)
        assert isinstance(refused, Rejected)
        assert refused.tombstone_id == stone.id
        assert isinstance(await store.propose("an error", f"any{id(store)}", 0.9), Accepted)
    with pytest.raises(TombstonedError):
        await used.revise(held.memory_id, "a lie")
    bearer = await used.get(stone.memory_id)
    assert bearer is not None
    assert (bearer.status, bearer.content, bearer.code) == (S.REJECTED, None, "tombstoned")
    assert (await used.verify()).ok
    assert (await used.replay()).identical


async def test_an_imported_tombstone_that_was_lifted_here_stays_lifted(
    source: MemoryStore, source_secret: bytes, stores: Stores
) -> None:
    lines = await lines_of(source)
    used = await stores("used")
    await used.propose("already here", "s", 0.9)
    await used.import_lines(lines, secret=source_secret)
    (stone,) = await used.tombstones()
    await used.lift_tombstone(stone.id)
    assert (await used.import_lines(lines, secret=source_secret)).planted == 0
    assert await used.tombstones() == []
    assert isinstance(await used.propose("a lie", "s9", 0.9), Accepted)


async def test_a_value_that_is_blocked_here_already_is_not_blocked_twice(stores: Stores) -> None:
    one, two = await stores("one", secret=SECRET), await stores("two", secret=SECRET)
    for store in (one, two):
        await store.reject((await store.propose("a lie", "s", 0.9)).memory_id)
    assert (await two.import_lines(await lines_of(one))).planted == 0
    assert len(await two.tombstones()) == 1


async def test_a_tombstone_here_refuses_what_a_file_brings(stores: Stores) -> None:
    one, two = await stores("one"), await stores("two")
    kept = await one.propose("a lie", "s", 0.9)
    await two.reject((await two.propose("A lie", "t", 0.9)).memory_id, "we know better")
    report = await two.import_lines(await lines_of(one))
    (refusal,) = report.refused
    assert (refusal.memory_id, refusal.code) == (kept.memory_id, "tombstoned")
    assert "we know better" in refusal.reason
    assert report.outcomes == {"tombstoned": 1}
    assert await two.list("active") == []


async def test_the_validators_of_the_store_judge_what_a_file_brings(stores: Stores) -> None:
    one = await stores("one")
    await one.propose("sure", "s", 0.9)
    doubtful = await one.propose("doubtful", "s", 0.1)
    too_long = await one.propose("long" * 100, "s", 0.9)

    two = await stores("two", ConfidenceThreshold(0.5), max_content_bytes=100)
    await two.propose("already here", "s", 0.9)
    report = await two.import_lines(await lines_of(one))
    assert report.outcomes == {"accepted": 1, "pending": 1, "argument": 1}
    (refusal,) = report.refused
    assert (refusal.memory_id, refusal.code) == (too_long.memory_id, "argument")
    (waiting,) = await two.list("pending_confirmation")
    assert waiting.metadata["imported_from"]["id"] == doubtful.memory_id


async def test_what_waited_for_a_person_there_waits_here_too(stores: Stores) -> None:
    strict, lax = await stores("strict", ConfidenceThreshold(0.5)), await stores("lax")
    assert isinstance(await strict.propose("maybe", "s", 0.1, actor="agent"), PendingConfirmation)
    await lax.propose("already here", "s", 0.9)
    report = await lax.import_lines(await lines_of(strict))
    assert report.outcomes == {"pending": 1}
    (waiting,) = await lax.list("pending_confirmation")
    assert (await lax.audit(waiting.id))[0].metadata["errors"] == [WAITED]
    assert waiting.actor == "agent"


async def test_links_to_memories_that_were_left_out_are_kept_in_the_metadata(stores: Stores) -> None:
    one, two = await stores("one"), await stores("two")
    gone = await one.propose("premise", "s", 0.9)
    stays = await one.propose("other premise", "s", 0.9)
    await one.propose("conclusion", "s", 0.9, depends_on=[gone.memory_id, stays.memory_id])
    await one.retract(gone.memory_id)
    ours = await two.propose("other premise", "s", 0.9)
    report = await two.import_lines(await lines_of(one))
    assert report.outcomes == {"duplicate": 1, "accepted": 1}
    conclusion = (await two.list())[-1]
    assert conclusion.depends_on == [ours.memory_id]
    assert conclusion.metadata["imported_from"]["depends_on"] == [gone.memory_id]
    assert [m.id for m in await two.dependants(ours.memory_id)] == [conclusion.id]


async def test_what_ran_out_meanwhile_is_left_out(stores: Stores, clock: ManualClock) -> None:
    one, two = await stores("one"), await stores("two")
    await one.propose("soon over", "s", 0.9, ttl=timedelta(minutes=1))
    await two.propose("already here", "s", 0.9)
    clock.advance(timedelta(minutes=2))
    assert (await two.import_lines(await lines_of(one))).left_out == {"over": 1}


async def test_a_file_of_another_tenant_comes_in_through_the_door(stores: Stores) -> None:
    one = await stores("one", tenant="acme")
    await one.propose("x", "s", 0.9)
    two = await stores("two")
    report = await two.import_lines(await lines_of(one))
    assert (report.restored, report.outcomes) == (False, {"accepted": 1})
    (memory,) = await two.list()
    assert (memory.tenant, memory.metadata["imported_from"]["tenant"]) == ("default", "acme")


async def test_more_than_a_unit_of_memories_comes_in_whole(stores: Stores) -> None:
    one, two = await stores("one"), await stores("two")
    await one.propose_many([ProposalInput(f"value {n}", 0.9) for n in range(1200)], "s")
    last = await one.propose("last", "s", 0.9, depends_on=[(await one.list(limit=1))[0].id])
    await two.propose("value 7", "s", 0.9)
    heard: list[str] = []

    async def hear(memory_id: str, before: MemoryStatus, after: MemoryStatus) -> None:
        heard.append(after)

    two.on_transition(hear)
    report = await two.import_lines(await lines_of(one))
    assert report.outcomes == {"accepted": 1200, "duplicate": 1}
    assert heard == ["active"] * 1200
    found = await two.list(limit=2000)
    assert len(found) == 1201
    parent = next(m for m in found if m.content == "value 0")
    child = next(m for m in found if m.metadata.get("imported_from", {}).get("id") == last.memory_id)
    assert child.depends_on == [parent.id]
    assert (await two.verify()).ok


async def test_what_ran_out_on_a_key_comes_in_and_brings_nothing_older_back(
    stores: Stores, clock: ManualClock
) -> None:
    one, two = await stores("one"), await stores("two")
    await one.propose("Rome", "s", 0.9, key="ann/city")
    clock.advance(timedelta(days=5))
    await one.propose("Oslo", "s", 0.9, key="ann/city", ttl=timedelta(days=5))
    await two.propose("already here", "s", 0.9)
    clock.advance(timedelta(days=7))
    report = await two.import_lines(await lines_of(one))
    assert (report.outcomes, report.left_out) == ({"accepted": 2}, {})
    spans = [await store.timeline("ann/city") for store in (one, two)]
    assert [[(s.valid_from, s.valid_to, s.memory.content) for s in each] for each in spans][1:] == [
        [(s.valid_from, s.valid_to, s.memory.content) for s in spans[0]]
    ]
    assert await two.as_of().count(field_filters={"key": "ann/city"}) == 0
    assert {m.content: m.status for m in await two.list() if m.key} == {
        "Rome": S.SUPERSEDED, "Oslo": S.EXPIRED,
    }  # fmt: skip


async def test_of_values_that_begin_together_the_one_asserted_last_holds_after_a_merge(
    stores: Stores, clock: ManualClock
) -> None:
    one, two = await stores("one"), await stores("two")
    start = clock()
    first = await one.propose("Rome", "s", 0.9, key="k", valid_from=start, valid_to=start + timedelta(days=9))
    await one.propose("Oslo", "s", 0.9, key="k", valid_from=start)
    await one.amend_validity(first.memory_id, start, start + timedelta(days=10))
    await two.propose("already here", "s", 0.9)
    await two.import_lines(await lines_of(one))
    assert [span.memory.content for span in await two.timeline("k")] == ["Rome", "Oslo"]
    assert [span.memory.content for span in await one.timeline("k")] == ["Rome", "Oslo"]
