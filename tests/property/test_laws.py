"""Laws of the pure parts: canonical bytes, normal forms, records, the golden ledger."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memsmith import Memory, MemoryStatus, Origin
from memsmith._canonical import canonical, normal_form, normalise, sha256_hex
from memsmith._clock import to_text
from memsmith.ledger import entry as ledger_entry
from memsmith.ledger.entry import ENCODING, GENESIS, Row, payload_digest, row_hash
from memsmith.ledger.record import (
    MEMORY_COLUMNS,
    memory_of,
    memory_of_row,
    memory_record,
    tombstone_of,
    tombstone_record,
)
from memsmith.ledger.replay import Replay
from memsmith.store.prepare import Digester
from memsmith.testing import strategies as ms
from memsmith.testing.clock import START
from memsmith.types import SENSITIVITIES, Tombstone

GOLDEN = Path(__file__).parent / "golden_ledger.json"


# -- canonical bytes -------------------------------------------------------------------------------


@given(ms.hashed_values())
@example({"\x7f": 1, "a": [], "A": {}, "": None, "a b": '\u2028\ud7ff\U0010ffff\x1f"\\/'})
@example([2**53 - 1, -(2**53 - 1), True, False, None])
def test_canonical_bytes_are_those_of_the_standard_library_and_of_rfc_8785(value: Any) -> None:
    # RFC 8785 inside the subset: keys by code unit, no white space, the shortest escapes, whole numbers.
    written = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert canonical(value) == written


@given(ms.json_values())
def test_canonical_text_does_not_depend_on_key_order_and_reads_back_the_same(value: Any) -> None:
    def reversed_keys(part: Any) -> Any:
        if isinstance(part, dict):
            return {k: reversed_keys(v) for k, v in reversed(part.items())}
        return [reversed_keys(item) for item in part] if isinstance(part, list) else part

    text = canonical(value)
    assert canonical(reversed_keys(value)) == text
    assert canonical(json.loads(text)) == text


@given(st.lists(ms.texts(), min_size=10, max_size=10), st.integers(1, 2**53 - 1))
def test_the_hash_of_a_row_is_over_its_canonical_form(texts: list[str], seq: int) -> None:
    tenant, ident, memory_id, action, before, after, time, actor, digest, prev = texts
    row = Row(seq, ident, memory_id, action, before, after, time, actor, None, None, digest, prev, "")
    fields = {
        "tenant": tenant, "seq": seq, "id": ident, "memory_id": memory_id, "action": action,
        "from_status": before, "to_status": after, "time": time, "actor": actor, "payload_digest": digest,
        "prev_hash": prev, "v": ENCODING,
    }  # fmt: skip
    assert row_hash(tenant, row) == sha256_hex(canonical(fields))


# -- the golden ledger -----------------------------------------------------------------------------


def test_the_ledgers_encoding_is_the_pinned_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, ledgers already written no longer verify: a new encoding needs a new version."""
    golden = json.loads(GOLDEN.read_text("utf-8"))
    salts = "".join(row["salt"] for row in golden["rows"])
    idents = iter(row["id"] for row in golden["rows"])
    monkeypatch.setattr(ledger_entry, "new_id", lambda: next(idents))
    monkeypatch.setattr(os, "urandom", lambda count: bytes.fromhex(salts)[:count])
    names = ("memory_id", "action", "from_status", "to_status", "time", "actor")
    drafts = [(*(row[name] for name in names), row["payload"].encode()) for row in golden["rows"]]
    sealed = ledger_entry.seal(golden["tenant"], drafts, 0, GENESIS)
    assert [row._asdict() for row in sealed] == golden["rows"]
    assert golden["encoding"] == ENCODING
    for row in sealed:
        assert payload_digest(row.salt or "", row.payload or "") == row.payload_digest
        assert row_hash(golden["tenant"], row) == row.hash


def test_the_golden_ledger_replays_to_the_pinned_records() -> None:
    golden = json.loads(GOLDEN.read_text("utf-8"))
    replay = Replay(golden["tenant"])
    replay.feed(Row(**row) for row in golden["rows"])
    records = {ident: memory_record(memory) for ident, memory in replay.memories.items()}
    assert records == golden["memories"]
    assert [tombstone_record(stone) for stone in replay.tombstones.values()] == golden["tombstones"]
    replaced = [(memory_record(memory), to_text(over)) for memory, over in replay.history]
    assert [[*map(was.get, ("id", "version", "status", "system_from")), over] for was, over in replaced] == (
        golden["history"]
    )
    effective = [(*b.slot[1:3], *b.segment[:3], b.system_from, b.system_to) for b in replay.segments]
    assert [[to_text(v) if isinstance(v, datetime) else v for v in row] for row in effective] == (
        golden["segments"]
    )


# -- normal forms ----------------------------------------------------------------------------------


@given(ms.json_values())
@example("cafe\u200d\u0301")
@example({"A": 1, "a": 2})
@example([1e15, 1e16, -0.0, 2.0**53])
def test_normalising_twice_is_normalising_once(value: Any) -> None:
    once = normalise(value)
    assert canonical(normalise(once)) == canonical(once)


def test_every_character_has_a_settled_normal_form_without_invisible_parts() -> None:
    for character in map(chr, range(sys.maxunicode + 1)):
        category = unicodedata.category(character)
        if category in {"Lo", "Co", "Cn", "Cs", "So"} and unicodedata.is_normalized("NFKC", character):
            continue  # nothing that folding could change, and most of Unicode
        folded = normalise(f"a{character}\u0301")
        assert normalise(folded) == folded
        assert not any(unicodedata.category(c) == "Cf" for c in folded)


@given(ms.json_values())
@example({"A": 1, "a": 2})
@example({"a": "x  y", "b": " z", "c": "Q"})
@example([1.0, 1e16, True, "TRUE"])
def test_the_short_way_to_a_normal_form_gives_the_same_bytes(value: Any) -> None:
    text = canonical(value)
    assert normal_form(json.loads(text), text) == canonical(normalise(json.loads(text)))


def _digest(value: Any, secret: bytes = b"secret" * 4, kind: str = "fact", session: str = "s") -> str:
    text = canonical(value)
    return Digester([("id", secret)]).value(kind, json.loads(text), text, session)


def _respelled(value: Any) -> Any:
    """Return the same value as somebody would spell it to get past a tombstone."""
    if isinstance(value, str):
        return f" {unicodedata.normalize('NFD', value).upper()}\u200b\t"
    if isinstance(value, dict):
        return {_respelled(k): _respelled(v) for k, v in reversed(value.items())}
    if isinstance(value, list):
        return [_respelled(item) for item in value]
    if type(value) is int and abs(value) < 2**53:
        return float(value)
    return value


_plain = st.text("abcdeé ß1-.", max_size=8)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-1000, 1000) | _plain,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcé"), inner, max_size=3)
        ),
    )
)
def test_case_spacing_form_key_order_and_whole_floats_share_a_digest(value: Any) -> None:
    assert _digest(_respelled(value)) == _digest(value)


def _meaning(value: Any) -> Any:
    """Return something equal exactly for values that a tombstone must not tell apart."""
    if isinstance(value, str):
        return "text", normalise(value)
    if isinstance(value, dict):
        return "object", frozenset((k, _meaning(v)) for k, v in normalise(value).items())
    if isinstance(value, list):
        return "list", tuple(map(_meaning, value))
    return (
        "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
    ), value


_small = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, 1.5, "", "a", "A", "1", "true", "null"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


@given(_small, _small)
def test_two_values_share_a_digest_only_if_they_are_one_value(one: Any, other: Any) -> None:
    assert (_digest(one) == _digest(other)) == (_meaning(one) == _meaning(other))


def test_a_digest_depends_on_secret_and_kind_and_on_the_session_of_an_episode_alone() -> None:
    digests = {
        (kind, session, secret): _digest("yes", secret, kind, session)
        for secret in (b"a" * 16, b"b" * 16, b"a" * 100)
        for kind in ("fact", "note", "episode")
        for session in ("s", "t")
    }
    assert len(set(digests.values())) == 3 * (1 + 1 + 2)
    assert digests["fact", "s", b"a" * 16] == digests["fact", "t", b"a" * 16]


@given(ms.json_values())
def test_a_digest_under_the_current_secret_is_the_first_of_all_digests(value: Any) -> None:
    text = canonical(value)
    digester = Digester([("new", b"n" * 16), ("old", b"o" * 16)])
    memory = replace(_stamped(START), content=json.loads(text), value_digest="")
    first, second = digester.values(memory)
    assert first == digester.value("fact", memory.content, text, "s")
    assert second == _digest(value, b"o" * 16)


# -- records ---------------------------------------------------------------------------------------


def memories() -> st.SearchStrategy[Memory]:
    optional = st.none() | ms.texts()
    return st.builds(
        Memory,
        id=ms.words(), content=ms.json_values(), session_id=ms.words(), confidence=st.floats(0, 1),
        content_hash=ms.texts(), status=st.sampled_from(MemoryStatus), created_at=ms.moments(),
        updated_at=ms.moments(), thread_id=optional, source=optional,
        depends_on=st.lists(ms.words(), max_size=3), expires_at=st.none() | ms.moments(),
        retracted_at=st.none() | ms.moments(), retraction_reason=optional,
        tenant=ms.words(), kind=ms.words(), scope=ms.scopes(), key=optional, origin=st.sampled_from(Origin),
        sensitivity=st.sampled_from(SENSITIVITIES), valid_from=st.none() | ms.moments(),
        valid_to=st.none() | ms.moments(), metadata=st.dictionaries(ms.texts(8), ms.scalars(), max_size=3),
        actor=ms.words(), code=optional, version=st.integers(1, 2**53), seq=st.integers(0, 2**53),
        held_status=st.none() | st.sampled_from(MemoryStatus), value_digest=ms.texts(),
    )  # fmt: skip


@given(memories())
def test_a_record_has_its_columns_in_order_and_gives_the_memory_back(memory: Memory) -> None:
    record = memory_record(memory)
    assert tuple(record) == MEMORY_COLUMNS
    assert memory_of(record) == memory
    assert memory_of_row(record.values()) == memory
    assert memory_record(memory_of(record)) == record
    assert all(value is None or isinstance(value, str | int | float) for value in record.values())


@given(memories(), st.none() | ms.texts(), st.integers(0, 99), st.none() | ms.moments())
def test_a_tombstones_record_gives_it_back(
    memory: Memory, reason: str | None, refused: int, lifted: Any
) -> None:
    stone = Tombstone(
        "t", memory.id, memory.kind, memory.scope, memory.key, "d", "s", reason, memory.actor,
        memory.created_at, refused, lifted, reason, memory.tenant,
    )  # fmt: skip
    assert tombstone_of(tombstone_record(stone)) == stone
    assert tombstone_of(tombstone_record(replace(stone, created_at=START + timedelta(1)))) != stone


@given(st.lists(ms.moments(), min_size=2, max_size=2))
def test_the_order_of_stored_times_is_their_order(moments: list[Any]) -> None:
    one, other = (memory_record(_stamped(moment))["created_at"] for moment in moments)
    assert len(one) == len(other) == 27
    assert (one < other) == (moments[0] < moments[1])


def _stamped(moment: Any) -> Memory:
    return Memory(
        id="m", content=1, session_id="s", confidence=1, content_hash="", status=MemoryStatus.ACTIVE,
        created_at=moment, updated_at=moment,
    )  # fmt: skip
