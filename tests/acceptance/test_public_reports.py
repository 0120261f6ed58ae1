"""Inputs that broke other libraries of this kind, by the number of the report."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest

from memsmith import (
    Accepted,
    HiddenText,
    MemoryStatus,
    MemoryStore,
    PendingConfirmation,
    ProposalInput,
    Rejected,
    Verdict,
)
from memsmith.errors import (
    ArgumentError,
    BaseChangedError,
    IdempotencyConflictError,
    InvalidConfidenceError,
    InvalidContentError,
    PermissionDeniedError,
    QueryError,
    StaleVersionError,
    TombstonedError,
)
from memsmith.ledger.entry import Row
from memsmith.ledger.verify import ChainVerifier
from memsmith.testing.clock import START, ManualClock

S = MemoryStatus
OpenStore = Callable[..., Awaitable[MemoryStore]]
Rows = Callable[[MemoryStore], Awaitable[Any]]


async def test_1_the_same_memory_twice_is_one_row_and_the_second_answer_names_it(store: MemoryStore) -> None:
    first = await store.propose("Rome", "s", 0.9)
    second = await store.propose("Rome", "s", 0.9)
    assert isinstance(second, Rejected)
    assert (second.code, second.memory_id, second.memory) == ("duplicate", first.memory_id, first.memory)
    assert await store.list() == [first.memory]
    assert len(await store.audit()) == 1


@pytest.mark.parametrize("tasks", [8, 64])
async def test_2_the_same_memory_by_many_tasks_at_once_is_accepted_once(
    store: MemoryStore, tasks: int
) -> None:
    results = await asyncio.gather(*(store.propose("Rome", "s", 0.9) for _ in range(tasks)))
    (accepted,) = [r for r in results if isinstance(r, Accepted)]
    refused = [r for r in results if isinstance(r, Rejected)]
    assert len(refused) == tasks - 1
    assert {(r.code, r.memory_id) for r in refused} == {("duplicate", accepted.memory_id)}
    assert (await store.verify()).rows == 1


async def test_4_other_keys_supersede_nothing(store: MemoryStore) -> None:
    for key, value in (("alice/city", "Paris"), ("bob/city", "Rome"), ("alice/language", "fr")):
        assert isinstance(await store.propose(value, "s", 0.9, key=key), Accepted)
    assert [m.status for m in await store.list()] == [S.ACTIVE] * 3


async def test_6_scripts_stay_apart_and_both_forms_of_an_accent_are_one_value(store: MemoryStore) -> None:
    texts = ["住在罗马", "ローマに住む", "로마에 산다", "живёт в Риме", "🏠🇮🇹", "é", "e\u0301"]
    results = await store.propose_many([ProposalInput(text, 0.9) for text in texts], "s")
    assert [type(r) for r in results] == [Accepted] * 7
    assert [m.content for m in await store.list()] == texts
    await store.reject(results[5].memory_id, also=True)
    assert isinstance(await store.propose("E\u0301", "t", 0.9), Rejected)
    assert [m.status for m in await store.list(limit=7)] == [S.ACTIVE] * 5 + [S.RETRACTED] * 2


@pytest.mark.parametrize("content", ["", "  ", {}, None, []], ids=repr)
async def test_7_content_that_says_nothing_is_refused(store: MemoryStore, content: Any) -> None:
    with pytest.raises(InvalidContentError):
        await store.propose(content, "s", 0.9)
    assert await store.list() == []


async def test_8_one_text_in_two_scopes_is_two_rows(store: MemoryStore) -> None:
    one = await store.propose("Rome", "s", 0.9, scope="a")
    two = await store.propose("Rome", "s", 0.9, scope="b")
    assert isinstance(two, Accepted)
    assert one.memory_id not in repr(two)
    again = await store.propose("Rome", "s", 0.9, scope="b")
    assert again.memory_id == two.memory_id
    assert one.memory_id not in repr(again)


async def test_9_an_idempotency_key_gives_the_first_result_or_a_conflict(open_store: OpenStore) -> None:
    one, two = await open_store(), await open_store()
    first = await one.propose("Rome", "s", 0.9, idempotency_key="k")
    for store in (one, two):
        assert await store.propose("Rome", "s", 0.9, idempotency_key="k") == first
        with pytest.raises(IdempotencyConflictError):
            await store.propose("Oslo", "s", 0.9, idempotency_key="k")


@pytest.mark.parametrize("confidence", [85, -1, float("nan"), float("inf"), None, True], ids=repr)
async def test_10_confidence_out_of_range_is_refused_and_none_is_dropped_silently(
    store: MemoryStore, confidence: Any
) -> None:
    with pytest.raises(InvalidConfidenceError):
        await store.propose("Rome", "s", confidence)
    with pytest.raises(InvalidConfidenceError):
        await store.propose_many([ProposalInput("a", 0.9), ProposalInput("b", confidence)], "s")
    missing: Any = store.propose
    with pytest.raises(TypeError):
        await missing("Rome", "s")
    assert await store.list() == []


async def test_11_the_first_audit_row_of_a_memory_comes_from_nothing(store: MemoryStore) -> None:
    for content, confidence in (("a", 0.9), ("b", 0.4), ("wrong", 0.9)):
        result = await store.propose(content, "s", confidence)
        (entry,) = await store.audit(result.memory_id)
        assert entry.from_status is S.PROPOSED


@pytest.mark.parametrize("text", ["a\u0000b", "\ud800"], ids=ascii)
async def test_12_text_no_database_holds_gets_the_same_typed_answer_everywhere(
    store: MemoryStore, text: str
) -> None:
    for arguments in (
        {"content": text}, {"content": {"k": text}}, {"metadata": {"k": text}}, {"metadata": {text: 1}},
        {"session_id": text}, {"scope": text}, {"key": text}, {"source": text}, {"actor": text},
    ):  # fmt: skip
        call: dict[str, Any] = {"content": "Rome", "session_id": "s", "confidence": 0.9} | arguments
        with pytest.raises(ArgumentError) as caught:
            await store.propose(**call)
        str(caught.value).encode()
    assert await store.audit() == []


async def test_13_a_revision_with_an_old_version_conflicts_and_the_later_edit_survives(
    store: MemoryStore, clock: ManualClock
) -> None:
    memory = (await store.propose("Rome", "s", 0.9)).memory
    later = await store.revise(memory.id, "Oslo")
    clock.advance(timedelta(minutes=2))
    with pytest.raises(StaleVersionError):
        await store.revise(memory.id, "Bern", expected_version=memory.version)
    assert await store.get(memory.id) == later


async def test_14_a_rejected_value_is_blocked_at_every_door_until_it_is_lifted(store: MemoryStore) -> None:
    wrong = await store.propose("Lives in Rome", "s", 0.9)
    other = await store.propose("Oslo", "s", 0.9)
    await store.reject(wrong.memory_id, "never true")
    (stone,) = await store.tombstones()
    spellings = ["Lives in Rome", "lives  in ROME", " LIVES IN ROME\n"]
    alone = [await store.propose(spelling, "t", 0.9) for spelling in spellings]
    batched = await store.propose_many([ProposalInput(spelling, 0.9) for spelling in spellings], "u")
    for refused in (*alone, *batched):
        assert isinstance(refused, Rejected)
        assert (refused.code, refused.tombstone_id) == ("tombstoned", stone.id)
    with pytest.raises(TombstonedError) as caught:
        await store.revise(other.memory_id, spellings[1])
    assert caught.value.tombstone_id == stone.id
    await store.lift_tombstone(stone.id, "it was true")
    assert (await store.audit(limit=1))[0].action == "tombstone_lifted"
    assert isinstance(await store.propose("Lives in Rome", "t", 0.9), Accepted)


async def test_15_a_value_retracted_as_outdated_may_be_proposed_again(store: MemoryStore) -> None:
    for _ in range(3):
        memory = await store.propose("Rome", "s", 0.9, key="city")
        assert isinstance(memory, Accepted)
        await store.retract(memory.memory_id, "outdated")


async def test_21_segments_of_scopes_match_exactly_and_are_literal(store: MemoryStore) -> None:
    wrong = await store.propose("Rome", "s", 0.9, scope="acme")
    await store.reject(wrong.memory_id)
    assert isinstance(await store.propose("Rome", "s", 0.9, scope="acme/x"), Rejected)
    for scope in ("acme-corp", "%", "acm_", "ACME", "acme:x"):
        assert isinstance(await store.propose("Rome", "s", 0.9, scope=scope), Accepted)
        found = await store.list(field_filters={"scope": scope})
        assert [m.scope for m in found] == [scope]


async def test_23_an_unknown_filter_is_refused(store: MemoryStore) -> None:
    with pytest.raises(QueryError, match="colour"):
        await store.list(field_filters={"colour": "red"})


async def test_26_a_rare_match_is_found_and_rows_of_one_time_come_once(store: MemoryStore) -> None:
    await store.propose_many([ProposalInput({"type": "A", "n": n}, 0.9) for n in range(50)], "s")
    await store.propose({"type": "B"}, "s", 0.9)
    assert len(await store.list(field_filters={"content.type": "B"}, limit=10)) == 1
    await store.propose_many([ProposalInput(n, 0.9) for n in range(15)], "t")
    first = await store.list(session_id="t", limit=10)
    second = await store.list(session_id="t", limit=10, cursor=first.next_cursor)
    assert [m.content for m in (*first, *second)] == list(range(15))


async def test_29_a_chain_with_rows_missing_is_never_verified(store: MemoryStore, open_store: Any) -> None:
    for n in range(6):
        await store.propose(n, "s", 0.9)
    storage = open_store.handles[id(store)]
    rows, head = await storage.ledger("default", 0, 100), await storage.head("default")

    def verdict(kept: Iterable[Row], claimed: Any = head) -> Verdict:
        verifier = ChainVerifier("default", claimed)
        verifier.feed(kept)
        return verifier.finish(claimed).verdict

    assert verdict(rows) is Verdict.SELF_CONSISTENT
    for kept in (rows[:-1], rows[1:], [], rows[3:], rows[:2] + rows[3:], [rows[1], rows[0], *rows[2:]]):
        assert verdict(kept) is Verdict.FAILED
    assert verdict(rows, None) is Verdict.FAILED
    assert Verdict.VERIFIED not in {(await store.verify()).verdict}


async def test_30_two_stores_writing_at_once_do_not_fork_the_chain(open_store: OpenStore) -> None:
    one, two = await open_store(), await open_store()
    await asyncio.gather(*((one, two)[n % 2].propose(n, "s", 0.9) for n in range(50)))
    for store in (one, two):
        found = await store.verify()
        assert (found.verdict, found.rows) == (Verdict.SELF_CONSISTENT, 50)
        assert [e.seq for e in await store.audit(limit=100)] == list(range(50, 0, -1))


async def test_31_times_of_any_precision_and_offset_leave_the_chain_whole(
    open_store: OpenStore, clock: ManualClock
) -> None:
    store = await open_store()
    for n, part in enumerate((0, 1, 100_000, 999_999)):
        clock.set((START + timedelta(seconds=n, microseconds=part)).astimezone())
        await store.propose(
            n, "s", 0.9, expires_at=(START + timedelta(days=9, microseconds=part)).astimezone()
        )
    assert (await store.verify()).ok
    assert (await store.replay()).identical
    (again, *_) = await store.list()
    assert again.expires_at == START + timedelta(days=9)


async def test_35_hidden_characters_wait_for_a_person_and_are_shown_escaped(open_store: OpenStore) -> None:
    store = await open_store([HiddenText()])
    for text in ("pay\u200bpal", "\u202etxt.exe"):
        held = await store.propose(text, "s", 0.9)
        assert isinstance(held, PendingConfirmation)
        reasons = " ".join(held.reasons)
        assert held.reasons
        assert reasons.isprintable()
        assert not {"\u200b", "\u202e"} & set(reasons)


async def test_36_a_confirmation_whose_base_changed_is_judged_again(store: MemoryStore) -> None:
    held = await store.propose("Rome", "s", 0.4)
    await store.propose("Rome", "s", 0.9, dedup=False)
    with pytest.raises(BaseChangedError) as caught:
        await store.confirm(held.memory_id)
    again = await store.get(held.memory_id)
    assert again is not None
    assert again.status is S.PENDING_CONFIRMATION
    assert (await store.confirm(held.memory_id, expected_version=caught.value.version)).status is S.ACTIVE


async def test_37_a_proposer_does_not_confirm_its_own_item(store: MemoryStore, rows_of: Rows) -> None:
    held = await store.propose("Rome", "s", 0.4, actor="agent-1")
    before = await rows_of(store)
    with pytest.raises(PermissionDeniedError):
        await store.confirm(held.memory_id, actor="agent-1")
    assert await rows_of(store) == before


async def test_40_hooks_hear_after_the_commit_and_never_of_what_was_rolled_back(store: MemoryStore) -> None:
    heard: list[str] = []

    async def bad(memory_id: str, before: MemoryStatus, after: MemoryStatus) -> None:
        raise RuntimeError("down")

    async def hook(memory_id: str, before: MemoryStatus, after: MemoryStatus) -> None:
        assert await store.get(memory_id) is not None
        heard.append(memory_id)

    async def undone() -> None:
        async with store.transaction():
            await store.propose("undone", "s", 0.9)
            raise LookupError

    store.on_transition(bad)
    store.on_transition(hook)
    with pytest.raises(LookupError):
        await undone()
    kept = await store.propose("kept", "s", 0.9)
    assert heard == [kept.memory_id]
