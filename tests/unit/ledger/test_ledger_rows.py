"""Ledger rows: what is hashed, what a payload may be, and what a replay makes of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsmith._canonical import canonical, sha256_hex
from memsmith._clock import from_text, to_text
from memsmith.errors import LedgerError
from memsmith.ledger.entry import ENCODING, GENESIS, Draft, Row, audit_entry, payload_of, row_hash, seal
from memsmith.ledger.record import (
    MEMORY_COLUMNS,
    TOMBSTONE_COLUMNS,
    field_record,
    memory_of,
    memory_record,
    tombstone_of,
    tombstone_record,
)
from memsmith.ledger.replay import Replay, differing
from memsmith.temporal import BEGINNING, Believed, Segment
from memsmith.types import Displaced, Interval, Memory, MemoryStatus, Origin, Slot, Tombstone

NOW = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
LATER = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
TIME = "2026-03-01T09:30:00.000000Z"
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def _row(payload: dict[str, Any], memory_id: str = "m1", to_status: str = "active") -> Row:
    return seal(
        "acme", [(memory_id, "proposed", "proposed", to_status, TIME, "ann", canonical(payload))], 0, GENESIS
    )[0]


def _replayed(*rows: Row) -> Replay:
    replay = Replay("acme")
    replay.feed(rows)
    return replay


MEMORY = Memory(
    id="m1",
    content={"city": "Rome", "since": 1.5},
    session_id="s",
    confidence=0.9,
    content_hash="c0ffee",
    status=MemoryStatus.QUARANTINED,
    created_at=NOW,
    updated_at=NOW,
    thread_id="t",
    source="web",
    depends_on=["m0"],
    expires_at=NOW,
    retracted_at=NOW,
    retraction_reason="moved",
    tenant="acme",
    key="k",
    origin=Origin.TOOL,
    valid_from=NOW,
    valid_to=NOW,
    metadata={"a": 1},
    held_status=MemoryStatus.ACTIVE,
    seq=1,
    retracted_during=(Interval(NOW, LATER), Interval(LATER, None)),
    asserted_order=1,
    displaces=(Displaced("m2", NOW, LATER), Displaced(None, LATER, None)),
    system_from=NOW,
)
STONE = Tombstone("t1", "m1", "fact", "", "k", "d1", "s1", "no", "ann", from_text(TIME), tenant="acme")
PLANTED = {
    "id": "t1", "kind": "fact", "scope": "", "key": "k", "digest": "d1", "secret_id": "s1", "reason": "no",
}  # fmt: skip


# -- hashing ---------------------------------------------------------------------------------------


@given(st.lists(text, min_size=11, max_size=11), st.integers(0, 2**53 - 1), text)
def test_the_hash_is_sha_256_over_the_canonical_form_of_the_clear_columns(
    values: list[str], seq: int, tenant: str
) -> None:
    row = Row._make([seq, *values[:7], None, None, *values[7:10]])
    hashed = row._asdict() | {"tenant": tenant, "v": ENCODING}
    for name in ("payload", "salt", "hash"):
        del hashed[name]
    assert row_hash(tenant, row) == sha256_hex(canonical(hashed))


def test_sealed_rows_are_numbered_and_linked() -> None:
    drafts: list[Draft] = [(f"m{n}", "proposed", "proposed", "active", TIME, "ann", b"{}") for n in range(3)]
    rows = seal("acme", drafts, 7, "aa")
    assert [row.seq for row in rows] == [8, 9, 10]
    assert [row.prev_hash for row in rows] == ["aa", rows[0].hash, rows[1].hash]
    assert all(row.hash == row_hash("acme", row) for row in rows)
    assert len({row.salt for row in rows}) == 3
    assert seal("acme", [], 7, "aa") == []


# -- payloads --------------------------------------------------------------------------------------


def test_an_erased_payload_reads_as_empty() -> None:
    assert payload_of(_row({"reason": "x"})._replace(payload=None, salt=None)) == {}


@pytest.mark.parametrize("payload", ["{", "", "[1]", "7", "null"])
def test_a_payload_that_is_no_json_object_raises_with_its_seq(payload: str) -> None:
    with pytest.raises(LedgerError, match="ledger row 1"):
        payload_of(_row({})._replace(payload=payload))


@pytest.mark.parametrize(
    "values", [{"time": "yesterday"}, {"to_status": "nonsense"}, {"payload": '{"notes":"{"}'}, {"time": None}]
)
def test_an_audit_entry_of_a_row_nobody_can_read_raises_with_its_seq(values: dict[str, Any]) -> None:
    with pytest.raises(LedgerError, match="ledger row 1 can't be read"):
        audit_entry(Row(**{**_inserted()._asdict(), **values}))


def test_an_audit_entry_shows_notes_and_reason_and_nothing_replay_alone_needs() -> None:
    row = _row({"set": {"content": "1"}, "notes": '{"old_value":0.5}', "reason": "seen", "errors": []})
    entry = audit_entry(row)
    assert entry.metadata == {"old_value": 0.5, "reason": "seen"}
    assert (entry.seq, entry.actor, entry.timestamp, entry.hash) == (1, "ann", from_text(TIME), row.hash)
    assert (entry.from_status, entry.to_status) == (MemoryStatus.PROPOSED, MemoryStatus.ACTIVE)


# -- records ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "memory",
    [
        MEMORY,
        replace(
            MEMORY,
            content=None,
            depends_on=[],
            metadata={},
            held_status=None,
            valid_from=None,
            valid_to=None,
            expires_at=None,
            retracted_at=None,
        ),
    ],
)
def test_a_memory_survives_its_stored_form(memory: Memory) -> None:
    record = memory_record(memory)
    assert tuple(record) == MEMORY_COLUMNS
    assert memory_of(record) == memory
    assert memory_record(memory, record["content"]) == record


def test_whom_a_memory_displaces_is_read_where_nothing_was_kept_of_when() -> None:
    memory = memory_of({**memory_record(MEMORY), "displaces": '["m2"]'})
    assert memory.displaces == (Displaced("m2", BEGINNING, None),)
    assert memory_of(memory_record(memory)) == memory


@pytest.mark.parametrize("stone", [STONE, replace(STONE, lifted_at=NOW, lift_reason="mistake", refused=2)])
def test_a_tombstone_survives_its_stored_form(stone: Tombstone) -> None:
    record = tombstone_record(stone)
    assert tuple(record) == TOMBSTONE_COLUMNS
    assert tombstone_of(record) == stone


@pytest.mark.parametrize("name", MEMORY_COLUMNS)
def test_one_field_is_recorded_as_the_whole_record_has_it(name: str) -> None:
    whole = memory_record(MEMORY)[name]
    assert field_record(name, getattr(MEMORY, name)) == (repr(whole) if name == "confidence" else whole)


def test_an_absent_field_is_recorded_as_absent() -> None:
    assert field_record("expires_at", None) is None


# -- replay ----------------------------------------------------------------------------------------


def _inserted(**changes: Any) -> Row:
    record = memory_record(replace(MEMORY, status=MemoryStatus.ACTIVE, **changes))
    for name in ("tenant", "id", "status", "seq", "version", "created_at", "updated_at", *_THE_STORES):
        del record[name]
    return _row({"set": record | {"confidence": repr(record["confidence"])}})


def _later(action: str, to_status: str = "active", **changes: Any) -> Row:
    row = _row({"set": changes}, to_status=to_status)
    return row._replace(seq=2, action=action, time=to_text(LATER))


_THE_STORES = ("asserted_order", "system_from")


def test_a_replayed_memory_equals_the_one_recorded() -> None:
    replayed = _replayed(_inserted()).memories["m1"]
    assert differing(replayed, replace(MEMORY, status=MemoryStatus.ACTIVE)) == []


def test_a_replayed_memory_differs_by_the_columns_edited_behind_its_back() -> None:
    replayed = _replayed(_inserted()).memories["m1"]
    stored = replace(MEMORY, status=MemoryStatus.ACTIVE, content="else", confidence=0.1)
    assert differing(replayed, stored) == ["content", "confidence"]


def test_a_later_row_changes_what_it_names_and_counts_the_version() -> None:
    before = _replayed(_inserted()).memories["m1"]
    replay = _replayed(_inserted(), _later("confidence_updated", confidence="0.95"))
    after = replay.memories["m1"]
    assert differing(before, after) == ["confidence", "updated_at", "version", "seq", "system_from"]
    assert (after.confidence, after.version, after.seq, after.system_from) == (0.95, 2, 2, LATER)
    assert replay.history == [(before, LATER)]


def test_what_a_row_asserts_takes_its_place_in_the_chain_and_what_takes_it_out_ends_that() -> None:
    rows = [
        _inserted(valid_to=None, retracted_during=()),
        _later("validity_amended", valid_to=to_text(LATER)),
    ]
    (whole,) = _replayed(*rows[:1]).segments
    assert whole == Believed(Slot("fact", "", "k"), Segment("m1", NOW, None, (NOW, 1)), NOW)
    replay = _replayed(*rows)
    assert replay.memories["m1"].asserted_order == 2
    assert replay.segments == [
        replace(whole, system_to=LATER),
        Believed(whole.slot, Segment("m1", NOW, LATER, (NOW, 2)), LATER),
    ]
    gone = _replayed(rows[0], _later("retracted", "retracted"))
    assert gone.memories["m1"].asserted_order == 1
    assert gone.segments == [replace(whole, system_to=LATER)]


def test_a_tombstone_is_planted_counted_and_lifted_by_the_ledger() -> None:
    rows = [
        _row({"tombstone": PLANTED}),
        _row({"refused_by": "t1"}, "m2", "rejected"),
        _row({"lifted": "t1", "reason": "mistake"}),
    ]
    (stone,) = _replayed(*rows).tombstones.values()
    lifted = from_text(TIME)
    assert stone == replace(STONE, refused=1, lifted_at=lifted, lift_reason="mistake")


@pytest.mark.parametrize("payload", [{"refused_by": "t9"}, {"lifted": "t9"}])
def test_a_row_that_names_an_unknown_tombstone_raises(payload: dict[str, str]) -> None:
    with pytest.raises(LedgerError, match="t9"):
        _replayed(_row(payload))


@pytest.mark.parametrize("payload", [{"set": 5}, {"set": "xy"}, {"tombstone": {"id": "t1"}}])
def test_a_payload_of_another_shape_raises_with_its_seq(payload: dict[str, Any]) -> None:
    with pytest.raises(LedgerError, match="ledger row 1"):
        _replayed(_row(payload))


@pytest.mark.parametrize(
    "values",
    [{"to_status": "nonsense"}, {"time": "yesterday"}, {"payload": '{"set":{"confidence":"high"}}'}],
)
def test_a_memory_that_no_store_can_hold_raises_with_its_id(values: dict[str, Any]) -> None:
    row = Row(**{**_inserted()._asdict(), **values})
    with pytest.raises(LedgerError, match="memory m1"):
        assert _replayed(row).memories
