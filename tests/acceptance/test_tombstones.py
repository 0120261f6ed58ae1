"""A rejected value does not come back, through any door, in any spelling, until somebody lifts it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from memsmith import (
    Accepted,
    Memory,
    MemoryStatus,
    MemoryStore,
    PendingConfirmation,
    ProposalInput,
    Rejected,
    SecretScan,
)
from memsmith.errors import TombstonedError
from memsmith.types import ValidationResult

S = MemoryStatus
OpenStore = Callable[..., Awaitable[MemoryStore]]
Rows = Callable[[MemoryStore], Awaitable[Any]]


async def _reject(store: MemoryStore, content: Any, **more: Any) -> str:
    """Have a value rejected and return its tombstone's id."""
    known = {t.id for t in await store.tombstones(limit=1000)}
    result = await store.propose(content, "rejected", 0.9, **more)
    await store.reject(result.memory_id, "never true", also=True)
    (new,) = {t.id for t in await store.tombstones(limit=1000)} - known
    return new


async def _code(store: MemoryStore, content: Any, session: str = "s", **more: Any) -> str:
    result = await store.propose(content, session, 0.9, **more)
    return result.code if isinstance(result, Rejected) else type(result).__name__


# -- doors -----------------------------------------------------------------------------------------


async def test_a_rejected_value_is_refused_when_it_comes_back(store: MemoryStore) -> None:
    stone = await _reject(store, "Rome")
    for session in ("rejected", "other"):
        again = await store.propose("Rome", session, 1.0)
        assert isinstance(again, Rejected)
        assert (again.code, again.tombstone_id) == ("tombstoned", stone)
        assert stone in again.reason


async def test_a_rejected_value_is_refused_inside_a_batch_and_its_neighbours_are_not(
    store: MemoryStore,
) -> None:
    stone = await _reject(store, "Rome")
    results = await store.propose_many([ProposalInput(c, 0.9) for c in ("Oslo", "Rome", "rome")], "s")
    assert isinstance(results[0], Accepted)
    for refused in results[1:]:
        assert isinstance(refused, Rejected)
        assert (refused.code, refused.tombstone_id) == ("tombstoned", stone)


@pytest.mark.parametrize("status", [S.ACTIVE, S.PENDING_CONFIRMATION, S.SUPERSEDED])
async def test_a_memory_is_not_revised_to_a_rejected_value(
    store: MemoryStore, memory_in: Callable[..., Awaitable[Memory]], status: MemoryStatus
) -> None:
    stone = await _reject(store, "Rome")
    memory = await memory_in(store, status, "Oslo")
    with pytest.raises(TombstonedError) as caught:
        await store.revise(memory.id, " ROME")
    assert caught.value.tombstone_id == stone
    assert await store.get(memory.id) == memory


async def _tombstoned_while_waiting(open_store: OpenStore, verb: str) -> tuple[MemoryStore, str]:
    """Return a store and a pending memory whose value a validator blocked since."""
    blocking = False

    async def judge(memory: Memory) -> ValidationResult:
        if memory.actor == "suspect":
            return ValidationResult(passed=not blocking, errors=["a lie"], tombstone=True)
        return ValidationResult(passed=memory.confidence >= 0.5, errors=["unsure"])

    store = await open_store([judge])
    held = await store.propose("Rome", "s", 0.4)
    if verb == "release":
        await store.quarantine(held.memory_id)
    blocking = True
    refused = await store.propose("ROME", "t", 0.9, actor="suspect")
    assert isinstance(refused, Rejected)
    assert refused.code == "validation"
    return store, held.memory_id


@pytest.mark.parametrize("verb", ["confirm", "release"])
async def test_what_waited_is_not_confirmed_or_released_once_its_value_is_blocked(
    open_store: OpenStore, verb: str
) -> None:
    store, ident = await _tombstoned_while_waiting(open_store, verb)
    before = await store.get(ident)
    act = store.confirm if verb == "confirm" else store.release
    for times in (1, 2):
        with pytest.raises(TombstonedError) as caught:
            await act(ident)
        (stone,) = await store.tombstones()
        assert (caught.value.tombstone_id, stone.refused) == (stone.id, times)
        assert (await store.audit(ident))[0].action == "blocked"
    assert await store.get(ident) == before
    await store.lift_tombstone(stone.id, "it was true")
    assert (await act(ident)).status in {S.ACTIVE, S.PENDING_CONFIRMATION}
    assert (await store.replay()).identical


async def test_what_is_quarantined_may_still_be_rejected_or_retracted_once_its_value_is_blocked(
    store: MemoryStore,
) -> None:
    one = (await store.propose("Rome", "s", 0.9)).memory_id
    two = (await store.propose("Rome", "t", 0.9)).memory_id
    await store.quarantine(two)
    await store.reject(one)
    with pytest.raises(TombstonedError):
        await store.release(two)
    assert (await store.reject(two)).status is S.RETRACTED


# -- spellings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "variants"),
    [
        ("Straße in Rome", ["STRASSE IN ROME", "strasse  in\trome ", "ｓｔｒａßｅ in Rome",
          "Straße\u200b in\u00a0Rome"]),
        ("café", ["cafe\u0301", "CAFÉ", "CAFE\u0301", " café\n", "cafe\u200d\u0301"]),
        ({"City": "Rome", "n": 1}, [{"n": 1.0, "city": "ROME"}, {"CITY": " rome", "N": 1}]),
        (["a", {"b": None}], [["A", {"B": None}]]),
        ("東京", ["東\u200b京"]),
    ],
)  # fmt: skip
async def test_case_spacing_form_and_key_order_do_not_make_another_value(
    store: MemoryStore, value: Any, variants: list[Any]
) -> None:
    await _reject(store, value)
    for variant in variants:
        assert await _code(store, variant) == "tombstoned", repr(variant)


@pytest.mark.parametrize(
    ("value", "others"),
    [
        (True, [1, "true", 1.5, [True]]),
        (1, ["1", True, 1.25, 10]),
        ({"a": "x"}, [{"a": ["x"]}, {"b": "x"}, {"a": "x", "b": None}, "a"]),
        (["a", "b"], [["b", "a"], ["a"], "a b"]),
        ("Rome", ["Romé", "Rome.", "R ome", "Rom"]),
        ({"a": None}, [{"a": "null"}, {"a": False}]),
    ],
)
async def test_another_value_is_not_blocked(store: MemoryStore, value: Any, others: list[Any]) -> None:
    await _reject(store, value)
    for other in others:
        assert await _code(store, other) == "Accepted", repr(other)


# -- reach -----------------------------------------------------------------------------------------


async def test_a_tombstone_reaches_its_scope_and_below_and_asks_a_person_above(store: MemoryStore) -> None:
    await _reject(store, "Rome", scope="user:ann/project:atlas")
    for scope, code in (
        ("user:ann/project:atlas", "tombstoned"),
        ("user:ann/project:atlas/task:1", "tombstoned"),
        ("user:ann/project:atlas-2", "Accepted"),
        ("user:ann/project:other", "Accepted"),
        ("user:bob", "Accepted"),
        ("user:ann", "PendingConfirmation"),
        ("", "PendingConfirmation"),
    ):
        assert await _code(store, "Rome", scope=scope) == code, scope
    held = await store.propose("rome", "u", 0.9, scope="user:ann")
    assert isinstance(held, PendingConfirmation)
    assert "tombstone" in held.reasons[0]


async def test_a_tombstone_of_the_whole_tenant_reaches_every_scope_and_no_other_tenant(
    open_store: OpenStore,
) -> None:
    store, other = await open_store(), await open_store(tenant="other")
    await _reject(store, "Rome")
    assert await _code(store, "Rome", scope="any/where") == "tombstoned"
    assert await _code(other, "Rome") == "Accepted"


async def test_a_keyed_tombstone_blocks_its_key_and_no_key_but_not_another_key(store: MemoryStore) -> None:
    await _reject(store, "Rome", key="ann/city")
    assert await _code(store, "Rome", key="ann/city") == "tombstoned"
    assert await _code(store, "rome") == "tombstoned"
    assert await _code(store, "Rome", key="bob/city") == "Accepted"


async def test_a_tombstone_blocks_its_kind_only_and_episodes_by_session(store: MemoryStore) -> None:
    await _reject(store, "yes", kind="episode")
    assert await _code(store, "yes", "another", kind="episode") == "Accepted"
    assert await _code(store, "Yes ", "rejected", kind="episode") == "tombstoned"
    assert await _code(store, "yes", "rejected") == "Accepted"


# -- what is kept ----------------------------------------------------------------------------------


async def test_a_refusal_keeps_the_code_and_no_content(store: MemoryStore) -> None:
    await _reject(store, "needle")
    again = await store.propose("NEEDLE ", "s", 0.9, key=None, source="needle", metadata={"x": "needle"})
    memory = await store.get(again.memory_id)
    assert memory is not None
    assert memory == again.memory
    assert (memory.status, memory.code, memory.content, memory.content_hash) == (
        S.REJECTED,
        "tombstoned",
        None,
        "",
    )
    assert (memory.source, memory.metadata) == (None, {})
    assert "needle" not in str(memory).lower()
    assert "needle" not in str(await store.audit(memory.id)).lower()


@pytest.mark.parametrize("field", ["content", "source", "key", "thread_id", "metadata"])
async def test_a_refused_secret_is_kept_nowhere(open_store: OpenStore, field: str) -> None:
    store = await open_store([SecretScan()])
    secret = "ghp_" + "a1B2" * 9
    told: dict[str, Any] = {"content": "fine", field: {"a": secret} if field == "metadata" else secret}
    refused = await store.propose(told.pop("content"), "s", 0.9, **told)
    assert isinstance(refused, Rejected)
    stored = [line async for line in store.export()]
    assert secret.encode() not in b"".join(stored)


async def test_each_refused_retry_is_counted_and_audited(store: MemoryStore) -> None:
    await _reject(store, "Rome")
    other = (await store.propose("Oslo", "s", 0.9)).memory_id
    for _ in range(3):
        await store.propose("Rome", "s", 0.9)
    with pytest.raises(TombstonedError):
        await store.revise(other, "Rome")
    (stone,) = await store.tombstones()
    assert stone.refused == 4
    actions = [e.action for e in await store.audit()]
    assert actions == ["blocked", *["proposed_rejected"] * 3, "proposed", "rejected", "proposed"]
    assert (await store.replay()).identical


async def test_only_an_audited_lift_opens_a_value_and_lifting_twice_changes_nothing(
    store: MemoryStore, rows_of: Rows
) -> None:
    stone = await _reject(store, "Rome")
    lifted = await store.lift_tombstone(stone, "a mistake", actor="ann")
    assert (lifted.lift_reason, lifted.lifted_at is None) == ("a mistake", False)
    (entry,) = await store.audit(limit=1)
    assert (entry.action, entry.actor, entry.memory_id) == ("tombstone_lifted", "ann", lifted.memory_id)
    before = await rows_of(store)
    assert await store.lift_tombstone(stone, "again") == lifted
    assert await rows_of(store) == before
    assert await store.tombstones() == []
    assert await store.tombstones(lifted=True) == [lifted]
    assert await _code(store, "Rome") == "Accepted"


async def test_a_retracted_value_may_come_back(store: MemoryStore) -> None:
    for key in (None, "city"):
        memory = await store.propose("Rome", "s", 0.9, key=key)
        await store.retract(memory.memory_id, "outdated")
        assert await _code(store, "Rome", key=key) == "Accepted"
    assert await store.tombstones() == []


async def test_a_validators_verdict_about_the_value_blocks_it_and_one_about_its_shape_does_not(
    open_store: OpenStore,
) -> None:
    strict = True

    async def judge(memory: Memory) -> ValidationResult:
        value = str(memory.content)
        return ValidationResult(passed=not strict, errors=["no"], critical=True, tombstone=value == "a lie")

    store = await open_store([judge])
    assert await _code(store, "a lie") == "validation"
    assert await _code(store, "a shape") == "validation"
    strict = False
    assert await _code(store, "A LIE") == "tombstoned"
    assert await _code(store, "a shape") == "Accepted"


async def test_a_person_may_reject_twice_what_was_lifted_between(store: MemoryStore) -> None:
    first = await _reject(store, "Rome")
    await store.lift_tombstone(first)
    second = await _reject(store, "Rome")
    assert first != second
    assert await _code(store, "Rome") == "tombstoned"
    assert len(await store.tombstones(lifted=True)) == 2
    assert [t.id for t in await store.tombstones(lifted=True, limit=1)] == [first]
