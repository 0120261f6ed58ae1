"""Bad input is a typed error or a typed result, writes nothing, and is the same on every backend."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from memsmith import MemoryStore, NotFoundError, ProposalInput
from memsmith.errors import (
    ArgumentError,
    ClosedError,
    ContentTooLargeError,
    IdempotencyConflictError,
    InvalidConfidenceError,
    InvalidContentError,
    InvalidIntervalError,
    InvalidScopeError,
    NaiveDatetimeError,
    QueryError,
)
from memsmith.testing.clock import START

NAIVE = START.replace(tzinfo=None)

Rows = Callable[[MemoryStore], Awaitable[Any]]


def _nested(depth: int, shape: str = "list") -> Any:
    value: Any = "deep"
    for _ in range(depth):
        value = [value] if shape == "list" else {"k": value}
    return value


def _circular() -> Any:
    value: list[Any] = ["a"]
    value.append({"again": value})
    return value


@dataclass
class Point:
    x: float


BAD_CONTENT = {
    "empty text": "",
    "spaces": "  ",
    "ideographic space and newline": "\u3000\n\t",
    "empty object": {},
    "empty list": [],
    "null": None,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "NaN inside": {"a": [1.0, float("nan")]},
    "NaN in a dataclass": Point(float("nan")),
    "bytes": b"bytes",
    "bytes inside": {"a": b"x"},
    "set": {1, 2},
    "object": object(),
    "complex": 1j,
    "datetime": datetime(2026, 1, 1, tzinfo=UTC),
    "decimal": Decimal("1.5"),
    "cycle": _circular(),
    "lone surrogate": "\ud800",
    "lone surrogate inside": {"a": ["\udfff"]},
    "lone surrogate in a key": {"\ud800": 1},
    "NUL": "a\x00b",
    "NUL inside": ["a\x00b"],
    "NUL in a key": {"a\x00": 1},
    "number as key": {1: "x"},
    "None as key": {None: "x"},
    "65 bits": 2**64,
    "65 bits below zero": [-(2**63) - 1],
    "65 lists": _nested(65),
    "65 objects": _nested(65, "object"),
    "10,000 lists": _nested(10_000),
}

content_cases = pytest.mark.parametrize("content", BAD_CONTENT.values(), ids=BAD_CONTENT)


@pytest.fixture
def writes_nothing(store: MemoryStore, rows_of: Rows) -> Callable[..., Awaitable[Any]]:
    """Return what makes a call and checks the error's type and that nothing was written."""

    async def check(call: Callable[[], Awaitable[object]], error: type[Exception]) -> Any:
        before = await rows_of(store)
        with pytest.raises(error) as caught:
            await call()
        assert await rows_of(store) == before
        return caught.value

    return check


Check = Callable[..., Awaitable[Any]]


@content_cases
async def test_bad_content_is_refused_at_every_door(
    store: MemoryStore, writes_nothing: Check, content: Any
) -> None:
    memory = await store.propose("fine", "s", 0.9)
    error = await writes_nothing(lambda: store.propose(content, "s", 0.9), InvalidContentError)
    assert error.argument.startswith("content")
    assert isinstance(error, ValueError)
    batch = [ProposalInput("good", 0.9), ProposalInput(content, 0.9)]
    await writes_nothing(lambda: store.propose_many(batch, "s"), InvalidContentError)
    await writes_nothing(lambda: store.revise(memory.memory_id, content), InvalidContentError)


async def test_content_up_to_the_limits_is_taken_and_beyond_them_refused(
    store: MemoryStore, writes_nothing: Check
) -> None:
    assert (await store.propose(_nested(64), "s", 0.9)).memory.content == _nested(64)
    limit = 256 * 1024
    assert (await store.propose("x" * (limit - 2), "s", 0.9)).memory.status == "active"
    for content in ("x" * (limit - 1), "é" * (limit // 2), ["x" * 1000] * 300):
        await writes_nothing(lambda c=content: store.propose(c, "s", 0.9), ContentTooLargeError)


async def test_models_dataclasses_and_numbers_of_sixty_four_bits_are_content(store: MemoryStore) -> None:
    for content, kept in (
        (Point(1.5), {"x": 1.5}),
        (2**64 - 1, 2**64 - 1),
        ((1, "a"), [1, "a"]),
        (False, False),
    ):
        assert (await store.propose(content, "s", 0.9)).memory.content == kept


@pytest.mark.parametrize(
    "confidence",
    [85, -1, float("nan"), float("inf"), None, "0.5", True, -1e-9, 1.0000001, Decimal("0.5"), [0.5]],
)
async def test_confidence_that_is_no_number_from_zero_to_one_is_refused(
    store: MemoryStore, writes_nothing: Check, confidence: Any
) -> None:
    memory = await store.propose("fine", "s", 0.5)
    await writes_nothing(lambda: store.propose("Rome", "s", confidence), InvalidConfidenceError)
    await writes_nothing(
        lambda: store.propose_many([ProposalInput("a", 0.9), ProposalInput("b", confidence)], "s"),
        InvalidConfidenceError,
    )
    await writes_nothing(
        lambda: store.update_confidence(memory.memory_id, confidence), InvalidConfidenceError
    )


@pytest.mark.parametrize("name", ["expires_at", "valid_from", "valid_to"])
@pytest.mark.parametrize("moment", [NAIVE, date(2027, 1, 1), "2027-01-01T00:00:00Z", 1_800_000_000], ids=repr)
async def test_a_time_without_a_zone_is_refused_by_the_name_of_its_argument(
    store: MemoryStore, writes_nothing: Check, name: str, moment: Any
) -> None:
    error = await writes_nothing(
        lambda: store.propose("Rome", "s", 0.9, **{name: moment}), NaiveDatetimeError
    )
    assert error.argument == name
    assert name in str(error)


@pytest.mark.parametrize("length", [timedelta(0), timedelta(microseconds=-1), timedelta(days=-400)])
async def test_an_interval_that_ends_before_it_begins_is_refused(
    store: MemoryStore, writes_nothing: Check, length: timedelta
) -> None:
    offset = START.astimezone(timezone(timedelta(hours=5)))
    for begin in (START, offset):
        await writes_nothing(
            lambda b=begin: store.propose("Rome", "s", 0.9, valid_from=b, valid_to=START + length),
            InvalidIntervalError,
        )
    await writes_nothing(
        lambda: store.propose("Rome", "s", 0.9, valid_to=START + length), InvalidIntervalError
    )


BAD_SCOPES = [
    "/",
    "a/",
    "/a",
    "a//b",
    "..",
    "a/../b",
    ".",
    "a/./b",
    " ",
    "a/ /b",
    "a\x00b",
    "\ud800",
    None,
    5,
    "a" * 1025,
]


@pytest.mark.parametrize("scope", BAD_SCOPES, ids=ascii)
async def test_a_scope_with_segments_that_are_none_is_refused(
    store: MemoryStore, writes_nothing: Check, scope: Any
) -> None:
    await writes_nothing(lambda: store.propose("Rome", "s", 0.9, scope=scope), InvalidScopeError)


BAD_ARGUMENTS: list[tuple[str, Any]] = [
    ("session_id", ""), ("session_id", " "), ("session_id", None), ("session_id", "a\x00b"),
    ("session_id", "\ud800"), ("session_id", 5),
    ("thread_id", "a\x00b"), ("thread_id", 5), ("source", "\ud800"), ("source", ["web"]),
    ("key", ""), ("key", " "), ("key", "\ud800"), ("key", 5), ("kind", ""), ("kind", "Fact"),
    ("kind", "a b"), ("kind", None), ("origin", "god"), ("origin", 1), ("sensitivity", "secret"),
    ("sensitivity", ["public"]), ("actor", ""), ("actor", 5), ("actor", "a\x00b"),
    ("dedup", 1), ("dedup", None),
    ("idempotency_key", ""), ("idempotency_key", "\ud800"), ("idempotency_key", 5),
    ("depends_on", "one-id"), ("depends_on", [5]), ("depends_on", [""]), ("depends_on", 5),
    ("metadata", [1]), ("metadata", "text"), ("metadata", {"a": float("nan")}), ("metadata", {1: 2}),
    ("metadata", {"a": "\ud800"}), ("metadata", {"a": "\x00"}), ("metadata", {"a": b""}),
    ("metadata", {"a": "x" * 70_000}), ("metadata", {"a": _nested(70)}),
    ("ttl", timedelta(0)), ("ttl", timedelta(seconds=-1)), ("ttl", 60), ("ttl", timedelta.max),
    ("expires_at", datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))),
    ("valid_from", datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), BAD_ARGUMENTS, ids=lambda v: ascii(v)[:40])
async def test_an_argument_of_no_sense_is_refused_by_its_name(
    store: MemoryStore, writes_nothing: Check, name: str, value: Any
) -> None:
    arguments: dict[str, Any] = {"content": "Rome", "session_id": "s", "confidence": 0.9, name: value}
    error = await writes_nothing(lambda: store.propose(**arguments), ArgumentError)
    assert name in error.argument


async def test_a_lifetime_and_an_end_together_are_refused(store: MemoryStore, writes_nothing: Check) -> None:
    await writes_nothing(
        lambda: store.propose("Rome", "s", 0.9, ttl=timedelta(1), expires_at=START + timedelta(1)),
        ArgumentError,
    )


VERBS: dict[str, Callable[[MemoryStore, Any], Awaitable[object]]] = {
    "confirm": lambda store, ident: store.confirm(ident),
    "reject": lambda store, ident: store.reject(ident),
    "retract": lambda store, ident: store.retract(ident),
    "retract in cascade": lambda store, ident: store.retract(ident, cascade=True),
    "revise": lambda store, ident: store.revise(ident, "new"),
    "update_confidence": lambda store, ident: store.update_confidence(ident, 0.9),
    "quarantine": lambda store, ident: store.quarantine(ident),
    "release": lambda store, ident: store.release(ident),
    "lift_tombstone": lambda store, ident: store.lift_tombstone(ident),
    "dependants": lambda store, ident: store.dependants(ident),
}

OTHERS: dict[str, Callable[[MemoryStore], Awaitable[object]]] = {
    "propose": lambda store: store.propose("Rome", "s", 0.9),
    "propose_many": lambda store: store.propose_many([ProposalInput("Rome", 0.9)], "s"),
    "expire_batch": lambda store: store.expire_batch(),
    "get": lambda store: store.get("id"),
    "list": lambda store: store.list(),
    "audit": lambda store: store.audit(),
    "tombstones": lambda store: store.tombstones(),
    "outcome": lambda store: store.outcome("key"),
    "verify": lambda store: store.verify(),
    "replay": lambda store: store.replay(),
    "transaction": lambda store: store.transaction().__aenter__(),
    "async with": lambda store: store.__aenter__(),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_an_unknown_id_is_not_found(store: MemoryStore, writes_nothing: Check, verb: str) -> None:
    error = await writes_nothing(lambda: VERBS[verb](store, "0" * 32), NotFoundError)
    assert "0" * 32 in str(error)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("ident", ["", "a\x00b", "\ud800", None, 5], ids=ascii)
async def test_an_id_that_is_none_is_refused(
    store: MemoryStore, writes_nothing: Check, verb: str, ident: Any
) -> None:
    await writes_nothing(lambda: VERBS[verb](store, ident), ArgumentError)


async def test_reading_what_is_not_there_is_none_and_depending_on_it_is_not_found(
    store: MemoryStore, writes_nothing: Check
) -> None:
    assert await store.get("unknown") is None
    assert await store.audit("unknown") == []
    await writes_nothing(lambda: store.propose("Rome", "s", 0.9, depends_on=["unknown"]), NotFoundError)
    batch = [ProposalInput("a", 0.9), ProposalInput("b", 0.9, depends_on=["unknown"])]
    await writes_nothing(lambda: store.propose_many(batch, "s"), NotFoundError)


@pytest.mark.parametrize("reason", ["a\x00b", "\ud800", 5, "x" * 10_001], ids=lambda r: ascii(r)[:20])
async def test_a_reason_no_ledger_can_hold_is_refused(
    store: MemoryStore, writes_nothing: Check, reason: Any
) -> None:
    ident = (await store.propose("Rome", "s", 0.4)).memory_id
    await writes_nothing(lambda: store.confirm(ident, reason=reason), ArgumentError)
    await writes_nothing(lambda: store.reject(ident, reason), ArgumentError)
    await writes_nothing(lambda: store.retract(ident, reason), ArgumentError)
    await writes_nothing(lambda: store.revise(ident, "new", reason), ArgumentError)
    await writes_nothing(lambda: store.quarantine(ident, reason), ArgumentError)


async def test_flags_that_are_not_booleans_are_refused(store: MemoryStore, writes_nothing: Check) -> None:
    ident = (await store.propose("Rome", "s", 0.9)).memory_id
    flag: Any = 1
    await writes_nothing(lambda: store.reject(ident, also=flag), ArgumentError)
    await writes_nothing(lambda: store.retract(ident, cascade=flag), ArgumentError)


async def test_an_idempotency_key_with_another_payload_is_a_conflict(
    store: MemoryStore, writes_nothing: Check
) -> None:
    await store.propose("Rome", "s", 0.9, idempotency_key="k")
    await writes_nothing(
        lambda: store.propose("Oslo", "s", 0.9, idempotency_key="k"), IdempotencyConflictError
    )


BAD_QUERIES: list[dict[str, Any]] = [
    {"order_by": "content"}, {"order_by": "id; DROP TABLE memories"}, {"order_by": None},
    {"order_by": ["id"]},
    {"status": "gone"}, {"status": 5}, {"limit": -1}, {"limit": True}, {"limit": "5"}, {"limit": 10_001},
    {"limit": 1.5}, {"offset": -1}, {"offset": 2**63}, {"offset": None},
    {"cursor": "garbage"}, {"cursor": ""}, {"cursor": 5}, {"cursor": "é"}, {"cursor": "WzFd"},
    {"session_id": 5}, {"session_id": "\ud800"}, {"session_id": "a\x00b"}, {"kind": 5}, {"kind": "\ud800"},
    {"field_filters": {"unknown": 1}}, {"field_filters": {"content": "x"}},
    {"field_filters": {"tenant": "x"}},
    {"field_filters": {"id = '' OR 1=1 --": 1}}, {"field_filters": {1: 2}}, {"field_filters": [("id", 1)]},
    {"field_filters": {"content.": 1}}, {"field_filters": {"content.a..b": 1}},
    {"field_filters": {'content.a"b': 1}}, {"field_filters": {"content.a\\b": 1}},
    {"field_filters": {"content.a": [1]}}, {"field_filters": {"content.a": float("nan")}},
    {"field_filters": {"content.a": 2**63}}, {"field_filters": {"content.a": "\ud800"}},
    {"field_filters": {"content.a": b"x"}}, {"field_filters": {"source": {"a": 1}}},
    {"field_filters": {"source": "a\x00b"}}, {"field_filters": {"status": "gone"}},
    {"field_filters": {"created_at": "yesterday"}}, {"field_filters": {"version": 2**63}},
    {"field_filters": {"version": "1"}}, {"field_filters": {"confidence": "0.5"}},
    {"field_filters": {"confidence": True}},
    {"field_filters": {"source": 5}}, {"field_filters": {"session_id": True}},
    {"field_filters": {"depends_on": [5]}}, {"field_filters": {"depends_on": ["\ud800"]}},
]  # fmt: skip


@pytest.mark.parametrize("query", BAD_QUERIES, ids=lambda q: ascii(q)[:60])
async def test_a_question_that_lists_do_not_know_is_refused(
    store: MemoryStore, writes_nothing: Check, query: dict[str, Any]
) -> None:
    await store.propose("Rome", "s", 0.9)
    await writes_nothing(lambda: store.list(**query), QueryError)


@pytest.mark.parametrize("moment", [NAIVE, "2026-01-01T00:00:00"])
async def test_a_filter_for_a_time_without_a_zone_is_refused(
    store: MemoryStore, writes_nothing: Check, moment: Any
) -> None:
    await writes_nothing(lambda: store.list(field_filters={"created_at": moment}), NaiveDatetimeError)


async def test_cursors_are_for_the_list_they_came_from_and_can_not_be_made_up(
    store: MemoryStore, writes_nothing: Check
) -> None:
    await store.propose_many([ProposalInput(n, 0.9) for n in range(4)], "s")
    cursor = (await store.list(limit=2)).next_cursor
    await writes_nothing(lambda: store.list(order_by="confidence", cursor=cursor), QueryError)
    await writes_nothing(lambda: store.list(descending=True, cursor=cursor), QueryError)
    for order, forged in (
        ("confidence", '["confidence",false,"x","id"]'),
        ("confidence", '["confidence",false,true,"id"]'),
        ("confidence", '["confidence",false,null,"id"]'),
        ("confidence", '["confidence",false,18446744073709551615,"id"]'),
        ("created_at", '["created_at",false,5,"id"]'),
        ("session_id", '["session_id",false,18446744073709551615,"id"]'),
        ("session_id", '["session_id",false,"s",5]'),
    ):
        made_up = base64.urlsafe_b64encode(forged.encode()).decode().rstrip("=")
        await writes_nothing(lambda o=order, c=made_up: store.list(order_by=o, cursor=c), QueryError)


@pytest.mark.parametrize(
    "question",
    [
        {"limit": -1}, {"limit": True}, {"limit": 10_001}, {"before": "5"}, {"before": 2**70},
        {"before": True},
        {"memory_id": "\ud800"}, {"memory_id": 5}, {"memory_id": "a\x00b"},
    ],
    ids=ascii,
)  # fmt: skip
async def test_a_question_that_audit_does_not_know_is_refused(
    store: MemoryStore, writes_nothing: Check, question: dict[str, Any]
) -> None:
    await store.propose("Rome", "s", 0.9)
    await writes_nothing(lambda: store.audit(**question), ArgumentError)


async def test_other_questions_of_no_sense_are_refused(store: MemoryStore, writes_nothing: Check) -> None:
    bad: Any = "\ud800"
    await writes_nothing(lambda: store.tombstones(limit=-1), QueryError)
    await writes_nothing(lambda: store.tombstones(cursor=bad), ArgumentError)
    await writes_nothing(lambda: store.outcome(""), ArgumentError)
    await writes_nothing(lambda: store.outcome("k", verb=bad), ArgumentError)
    await writes_nothing(lambda: store.outcome("k", actor=bad), ArgumentError)


@pytest.mark.parametrize("version", ["1", True, 1.0, object()], ids=lambda v: type(v).__name__)
async def test_a_version_that_is_no_number_is_refused(
    store: MemoryStore, writes_nothing: Check, version: Any
) -> None:
    ident = (await store.propose("Rome", "s", 0.4)).memory_id
    more: dict[str, Any] = {"expected_version": version, "idempotency_key": "k"}
    for call in (
        lambda: store.confirm(ident, **more),
        lambda: store.revise(ident, "Oslo", **more),
        lambda: store.amend_validity(ident, START, None, **more),
    ):
        error = await writes_nothing(call, ArgumentError)
        assert error.argument == "expected_version"


@pytest.mark.parametrize("batch", [None, 5, "Rome", {"content": "Rome"}, ["Rome"], [{"content": "Rome"}]])
async def test_a_batch_of_something_else_is_refused(
    store: MemoryStore, writes_nothing: Check, batch: Any
) -> None:
    error = await writes_nothing(lambda: store.propose_many(batch, "s"), ArgumentError)
    assert error.argument == "memories"


async def test_a_tombstone_that_is_not_there_is_called_one(store: MemoryStore, writes_nothing: Check) -> None:
    error = await writes_nothing(lambda: store.lift_tombstone("nowhere"), NotFoundError)
    assert str(error) == "Tombstone not found: nowhere"


@pytest.mark.parametrize("verb", [*VERBS, *OTHERS])
async def test_a_closed_store_says_so(store: MemoryStore, verb: str) -> None:
    await store.close()
    await store.close()
    with pytest.raises(ClosedError):
        await (VERBS[verb](store, "id") if verb in VERBS else OTHERS[verb](store))
