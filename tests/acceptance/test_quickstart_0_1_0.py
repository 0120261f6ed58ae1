"""Every call that the documentation of memsmith 0.1.0 shows still works.

The quick start is 0.1.0's with three mends: `SQLiteBackent` is spelled right, PendingConfirmation is
imported, and step 6 uses the result of step 4 instead of an ellipsis.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from memsmith import (
    Accepted,
    AuditEntry,
    ConfidenceMonotonicityError,
    ConfidenceThreshold,
    InvalidTransitionError,
    Memory,
    MemoryStatus,
    MemoryStore,
    MemsmithError,
    NotFoundError,
    PendingConfirmation,
    ProposalInput,
    ProposalResult,
    Rejected,
    SchemaCheck,
    SQLiteBackend,
    TransitionHandler,
    ValidationError,
    ValidationResult,
    Validator,
    ValidatorFn,
    ValidatorSpec,
)


class UserFact(BaseModel):
    attribute: str
    value: str


FACT = {"attribute": "language", "value": "Python"}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[MemoryStore]:
    store = await MemoryStore.init(
        storage=SQLiteBackend(str(tmp_path / "demo.db")), validators=[ConfidenceThreshold(0.5)]
    )
    yield store
    await store.close()


async def test_the_quick_start_runs_from_top_to_bottom(tmp_path: Path) -> None:
    store = await MemoryStore.init(
        storage=SQLiteBackend(str(tmp_path / "demo.db")),
        validators=[
            SchemaCheck(UserFact, strict=False),
            ConfidenceThreshold(0.5),
        ],
    )

    result: ProposalResult = await store.propose(
        content={"attribute": "language", "value": "Python"},
        session_id="session-1",
        confidence=0.9,
    )
    assert (type(result).__name__, result.memory_id) == ("Accepted", result.memory.id)
    assert isinstance(result, Accepted)

    result = pending = await store.propose(
        content={"attribute": "os", "value": "Linux"},
        session_id="session-1",
        confidence=0.3,
    )
    assert type(result).__name__ == "PendingConfirmation"

    result = await store.propose(
        content={"bad": "data"},
        session_id="session-1",
        confidence=0.9,
    )
    assert type(result).__name__ == "Rejected"
    assert isinstance(result, Rejected)
    assert "attribute" in result.reason

    result = pending
    assert isinstance(result, PendingConfirmation)
    memory: Memory | None = await store.confirm(result.memory_id)
    assert memory is not None
    assert memory.status is MemoryStatus.ACTIVE

    await store.retract(memory.id, reason="Outdated")

    memory = await store.get(memory.id)
    assert memory is not None
    assert memory.status is MemoryStatus.RETRACTED
    assert memory.retraction_reason == "Outdated"
    memories = await store.list(session_id="session-1")
    assert [m.status.value for m in memories] == ["active", "retracted", "rejected"]
    audit = await store.audit(memory_id=memory.id)
    assert [entry.action for entry in audit] == ["retracted", "confirmed", "proposed_pending"]

    heard: list[tuple[str, Any, Any]] = []

    async def sync_to_vector_db(memory_id: str, from_status: Any, to_status: Any) -> None:
        heard.append((memory_id, from_status, to_status))

    store.on_transition(sync_to_vector_db)
    late = await store.propose({"attribute": "editor", "value": "vi"}, "session-1", 0.9)
    assert heard == [(late.memory_id, MemoryStatus.PROPOSED, MemoryStatus.ACTIVE)]

    await store.close()


async def test_init_takes_storage_validators_and_hooks_by_position(tmp_path: Path) -> None:
    heard: list[MemoryStatus] = []

    async def hook(memory_id: str, from_status: MemoryStatus, to_status: MemoryStatus) -> None:
        heard.append(to_status)

    hooks: list[TransitionHandler] = [hook]
    store = await MemoryStore.init(
        SQLiteBackend(str(tmp_path / "a.db")), [ValidatorSpec(ConfidenceThreshold(0.5))], hooks
    )
    await store.propose(FACT, "s", 0.9)
    await store.close()
    assert heard == [MemoryStatus.ACTIVE]
    bare = await MemoryStore.init(SQLiteBackend(":memory:"), None, None)
    await bare.close()


async def test_propose_takes_its_six_arguments_by_position(store: MemoryStore) -> None:
    result = await store.propose(FACT, "s", 0.9, "thread", "user", True)
    assert isinstance(result, Accepted)
    memory = result.memory
    assert (memory.content, memory.session_id, memory.confidence) == (FACT, "s", 0.9)
    assert (memory.thread_id, memory.source) == ("thread", "user")


async def test_dedup_false_stores_the_same_content_twice(store: MemoryStore) -> None:
    first = await store.propose(content=FACT, session_id="s", confidence=0.9)
    again = await store.propose(content=FACT, session_id="s", confidence=0.9)
    assert isinstance(again, Rejected)
    assert (again.memory_id, again.reason) == (first.memory_id, "Duplicate content")
    assert isinstance(await store.propose(FACT, "s", 0.9, dedup=False), Accepted)


async def test_propose_many_takes_items_session_and_thread_by_position(store: MemoryStore) -> None:
    items = [
        ProposalInput(content={"n": 1}, confidence=0.9),
        ProposalInput({"n": 2}, 0.3, "user", False),
        ProposalInput(content={"n": 3}, confidence=1.0, source="web", dedup=True),
    ]
    results = await store.propose_many(items, "s", "thread")
    assert [type(r) for r in results] == [Accepted, PendingConfirmation, Accepted]
    assert [r.memory.thread_id for r in results] == ["thread"] * 3
    assert [r.memory.source for r in results] == [None, "user", "web"]


async def test_the_verbs_take_an_id_and_a_reason_by_position(store: MemoryStore) -> None:
    ids = [(await store.propose({"n": n}, "s", 0.9)).memory_id for n in range(3)]
    revised = await store.revise(ids[0], {"n": "changed"}, "typo")
    assert (revised.status, revised.content) == (MemoryStatus.ACTIVE, {"n": "changed"})
    assert (await store.update_confidence(ids[0], 0.95)).confidence == 0.95
    assert (await store.retract(ids[1], "old")).status is MemoryStatus.RETRACTED
    assert (await store.reject(ids[2], "wrong")).status is MemoryStatus.RETRACTED
    waiting = await store.propose({"n": "unsure"}, "s", 0.1)
    assert (await store.confirm(waiting.memory_id)).status is MemoryStatus.ACTIVE


async def test_expire_batch_returns_how_many_it_expired(tmp_path: Path) -> None:
    now = [datetime(2026, 3, 1, tzinfo=UTC)]
    store = await MemoryStore.init(SQLiteBackend(str(tmp_path / "a.db")), clock=lambda: now[0])
    await store.propose(FACT, "s", 0.9, expires_at=now[0] + timedelta(hours=1))
    assert await store.expire_batch() == 0
    now[0] += timedelta(hours=2)
    assert await store.expire_batch() == 1
    assert [m.status for m in await store.list()] == [MemoryStatus.EXPIRED]
    await store.close()


async def test_get_returns_none_for_an_unknown_id(store: MemoryStore) -> None:
    assert await store.get("no such id") is None


async def test_list_takes_its_six_arguments_by_position(store: MemoryStore) -> None:
    for number in range(4):
        await store.propose({"attribute": "n", "value": str(number)}, "s", 0.5 + number / 10, source="user")
    await store.propose({"attribute": "n", "value": "elsewhere"}, "t", 0.9)
    active = MemoryStatus.ACTIVE
    page = await store.list(active, "s", {"source": "user"}, 2, 1, "confidence")
    assert isinstance(page, list)
    assert [m.content["value"] for m in page] == ["1", "2"]


@pytest.mark.parametrize("order", ["created_at", "updated_at", "confidence", "status", "session_id"])
async def test_list_orders_by_every_documented_column(store: MemoryStore, order: str) -> None:
    for number in range(3):
        await store.propose({"n": number}, f"s{2 - number}", 0.4 + number / 10)
    found = await store.list(order_by=order)
    values = [getattr(m, order) for m in found]
    assert values == sorted(values)
    assert len(values) == 3


async def test_field_filters_take_columns_and_content_paths(store: MemoryStore) -> None:
    parent = await store.propose(
        {"attribute": "language", "value": {"name": "Python"}}, "s", 0.9, "t", "user"
    )
    await store.propose({"attribute": "language", "value": {"name": "C"}}, "s", 0.8, "t", "web")
    for filters in (
        {"content.value.name": "Python"},
        {"source": "user"},
        {"confidence": 0.9},
        {"id": parent.memory_id, "thread_id": "t"},
        {"content.attribute": "language", "source": "user", "session_id": "s"},
        {"content_hash": parent.memory.content_hash, "status": "active"},
        {"created_at": parent.memory.created_at},
    ):
        found = await store.list(field_filters=filters)
        assert [m.id for m in found] == [parent.memory_id], filters
    assert await store.list(field_filters={"content.value.name": "Rust"}) == []


async def test_audit_is_newest_first_and_takes_an_id_and_a_limit(store: MemoryStore) -> None:
    ids = [(await store.propose({"n": n}, "s", 0.9)).memory_id for n in range(3)]
    await store.revise(ids[0], {"n": "changed"}, "typo")
    entries = await store.audit()
    assert all(isinstance(entry, AuditEntry) for entry in entries)
    assert [e.action for e in entries] == ["revised", "proposed", "proposed", "proposed"]
    assert [e.action for e in await store.audit(ids[0], 1)] == ["revised"]
    (newest,) = await store.audit(memory_id=ids[0], limit=1)
    assert newest.metadata["reason"] == "typo"
    assert (newest.from_status, newest.to_status) == (MemoryStatus.ACTIVE, MemoryStatus.ACTIVE)
    assert newest.timestamp.tzinfo is not None


async def test_audit_names_the_actions_as_0_1_0_did(store: MemoryStore) -> None:
    kept = await store.propose({"n": 1}, "s", 0.6)
    held = await store.propose({"n": 2}, "s", 0.1)
    await store.update_confidence(kept.memory_id, 0.7)
    await store.revise(kept.memory_id, {"n": 3})
    await store.confirm(held.memory_id)
    await store.retract(held.memory_id)
    await store.reject(kept.memory_id)
    assert [entry.action for entry in reversed(await store.audit())] == [
        "proposed", "proposed_pending", "confidence_updated", "revised", "confirmed", "retracted", "rejected",
    ]  # fmt: skip


async def test_a_hook_that_raises_changes_nothing(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(memory_id: str, from_status: MemoryStatus, to_status: MemoryStatus) -> None:
        raise RuntimeError("the index is down")

    store.on_transition(broken)
    assert isinstance(await store.propose(FACT, "s", 0.9), Accepted)
    assert "the index is down" in caplog.text


async def test_results_are_frozen_and_match_patterns(store: MemoryStore) -> None:
    result = await store.propose(FACT, "s", 0.9)
    match result:
        case Accepted(memory_id, memory):
            assert memory_id == memory.id
        case _:
            raise AssertionError(f"expected Accepted, found {result}")
    with pytest.raises(FrozenInstanceError):
        result.memory_id = "another"  # type: ignore[misc]  # what the test is about
    refused = Rejected(memory_id="m", memory=result.memory, reason="r")
    assert refused.reason == "r"
    assert PendingConfirmation(memory_id="m", memory=result.memory).memory is result.memory


class MyValidator:
    async def __call__(self, memory: Memory) -> ValidationResult:
        if "sensitive" in str(memory.content):
            return ValidationResult(passed=False, errors=["Sensitive content blocked"])
        return ValidationResult(passed=True)


@pytest.mark.parametrize(("critical", "outcome"), [(True, Rejected), (False, PendingConfirmation)])
async def test_a_custom_validator_rejects_if_critical_and_holds_if_not(
    tmp_path: Path, critical: bool, outcome: type
) -> None:
    fn: ValidatorFn = MyValidator()
    assert isinstance(fn, Validator)
    store = await MemoryStore.init(
        storage=SQLiteBackend(str(tmp_path / "a.db")),
        validators=[ValidatorSpec(fn=fn, timeout=5.0, critical=critical)],
    )
    result = await store.propose({"says": "sensitive"}, "s", 0.9)
    assert isinstance(result, outcome)
    (entry,) = await store.audit()
    assert entry.metadata["errors"] == ["Sensitive content blocked"]
    assert isinstance(await store.propose({"says": "plain"}, "s", 0.9), Accepted)
    await store.close()


def test_a_validator_spec_waits_ten_seconds_unless_told_otherwise() -> None:
    assert ValidatorSpec(fn=MyValidator()).timeout == 10.0


async def test_validators_can_be_called_by_themselves() -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    memory = Memory(
        id="m", content=FACT, session_id="s", confidence=0.6, content_hash="", status=MemoryStatus.PROPOSED,
        created_at=now, updated_at=now,
    )  # fmt: skip
    assert (await SchemaCheck(UserFact)(memory)).passed
    verdict = await ConfidenceThreshold(0.7)(memory)
    assert (verdict.passed, len(verdict.errors)) == (False, 1)


def test_the_six_statuses_keep_their_names_and_values() -> None:
    for name in ("PROPOSED", "PENDING_CONFIRMATION", "ACTIVE", "REJECTED", "RETRACTED", "EXPIRED"):
        assert MemoryStatus[name].value == name.lower()
        assert MemoryStatus(name.lower()) == name.lower()


async def test_unknown_ids_raise_not_found_with_the_id(store: MemoryStore) -> None:
    for call in (
        store.confirm("nobody"),
        store.reject("nobody"),
        store.retract("nobody"),
        store.revise("nobody", FACT),
        store.update_confidence("nobody", 0.9),
    ):
        with pytest.raises(NotFoundError) as caught:
            await call
        assert caught.value.memory_id == "nobody"


async def test_an_illegal_transition_carries_memory_from_and_to(store: MemoryStore) -> None:
    memory_id = (await store.propose(FACT, "s", 0.9)).memory_id
    await store.retract(memory_id)
    with pytest.raises(InvalidTransitionError) as caught:
        await store.confirm(memory_id)
    error = caught.value
    assert (error.memory_id, error.from_status, error.to_status) == (memory_id, "retracted", "active")


async def test_confidence_that_does_not_rise_carries_both_values(store: MemoryStore) -> None:
    memory_id = (await store.propose(FACT, "s", 0.9)).memory_id
    with pytest.raises(ConfidenceMonotonicityError) as caught:
        await store.update_confidence(memory_id, 0.9)
    error = caught.value
    assert (error.memory_id, error.current, error.attempted) == (memory_id, 0.9, 0.9)


async def test_a_revision_that_fails_a_critical_check_carries_its_errors(tmp_path: Path) -> None:
    store = await MemoryStore.init(SQLiteBackend(str(tmp_path / "a.db")), [SchemaCheck(UserFact)])
    memory_id = (await store.propose(FACT, "s", 0.9)).memory_id
    with pytest.raises(ValidationError) as caught:
        await store.revise(memory_id, {"bad": "data"})
    assert caught.value.memory_id == memory_id
    assert len(caught.value.errors) == 2
    await store.close()


def test_the_errors_can_be_made_and_caught_as_documented() -> None:
    errors: list[MemsmithError] = [
        NotFoundError("m"),
        InvalidTransitionError("m", MemoryStatus.REJECTED, MemoryStatus.ACTIVE),
        ConfidenceMonotonicityError("m", 0.9, 0.5),
        ValidationError(["a", "b"]),
        ValidationError(errors=["a"], memory_id="m"),
    ]
    assert all(isinstance(error, MemsmithError) and str(error) for error in errors)


@pytest.mark.parametrize(
    ("verb", "names"),
    [
        ("init", ["storage", "validators", "hooks"]),
        ("propose", ["content", "session_id", "confidence", "thread_id", "source", "dedup"]),
        ("propose_many", ["memories", "session_id", "thread_id"]),
        ("confirm", ["memory_id"]),
        ("reject", ["memory_id", "reason"]),
        ("retract", ["memory_id", "reason"]),
        ("revise", ["memory_id", "new_content", "reason"]),
        ("update_confidence", ["memory_id", "new_value"]),
        ("expire_batch", []),
        ("get", ["memory_id"]),
        ("list", ["status", "session_id", "field_filters", "limit", "offset", "order_by"]),
        ("audit", ["memory_id", "limit"]),
        ("on_transition", ["callback"]),
    ],
)
def test_positional_arguments_are_those_of_0_1_0_in_its_order(verb: str, names: list[str]) -> None:
    parameters = inspect.signature(getattr(MemoryStore, verb)).parameters.values()
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "self"]
    assert positional == names
