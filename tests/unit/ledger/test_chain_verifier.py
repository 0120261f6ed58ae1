"""The chain verifier on rows in memory: each way to tamper, its first bad seq and its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsmith._canonical import canonical
from memsmith._clock import from_text
from memsmith.ledger.entry import GENESIS, Draft, Row, payload_digest, row_hash, seal
from memsmith.ledger.verify import ChainVerifier, Fault, Verdict, Verification
from memsmith.lifecycle import Action
from memsmith.types import Head

TENANT = "acme"
COUNT = 12
TIME = "2026-03-01T09:30:00.{:06d}Z"


def _draft(n: int, memory_id: str = "", actor: str = "owner") -> Draft:
    payload = canonical({"set": {"content": str(n)}})
    return memory_id or f"m{n}", "proposed", "proposed", "active", TIME.format(n), actor, payload


def _erasure(memory_id: str, n: int) -> Draft:
    return memory_id, Action.ERASE.value, "active", "erased", TIME.format(n), "owner", b"{}"


def _drafts(count: int) -> list[Draft]:
    return [_draft(n) for n in range(1, count + 1)]


def _head(rows: list[Row]) -> Head:
    return Head(rows[-1].seq, rows[-1].hash, from_text(rows[-1].time))


ROWS = seal(TENANT, _drafts(COUNT), 0, GENESIS)
HEAD = _head(ROWS)
assert HEAD.time is not None


def verify(
    rows: list[Row], head: Head | None = HEAD, later: Head | None = HEAD, page: int = 5
) -> Verification:
    verifier = ChainVerifier(TENANT, head)
    for start in range(0, len(rows), page):
        verifier.feed(rows[start : start + page])
    return verifier.finish(later)


def fault(answer: Verification) -> tuple[Fault | None, int | None]:
    assert answer.verdict is Verdict.FAILED
    assert not answer.ok
    assert answer.expected != answer.found
    return answer.fault, answer.seq


def test_what_was_expected_and_what_is_there_are_told() -> None:
    forged = ROWS[3]._replace(actor="eve")
    answer = verify([*ROWS[:3], forged, *ROWS[4:]])
    assert (answer.expected, answer.found) == (f"hash {forged.hash}", f"hash {row_hash(TENANT, forged)}")
    blob = edited(ROWS[3], actor=b"eve")
    assert verify([*ROWS[:3], blob, *ROWS[4:]]).found == "what no ledger row can hold"
    written, salt = '{"set":{}}', ROWS[3].salt
    assert salt is not None
    answer = verify([*ROWS[:3], ROWS[3]._replace(payload=written), *ROWS[4:]])
    assert answer.expected == f"a payload with digest {ROWS[3].payload_digest}"
    assert payload_digest(salt, written) in answer.found
    for half in (edited(ROWS[3], salt=None), edited(ROWS[3], payload=b"{}"), edited(ROWS[3], salt="zz")):
        assert verify([*ROWS[:3], half, *ROWS[4:]]).found == "none that can be read with its salt"


def edited(row: Row, **values: Any) -> Row:
    """Return a row as a database may hand it out: any value in any column."""
    return Row(**{**row._asdict(), **values})


def rehashed(row: Row, **changes: Any) -> Row:
    row = row._replace(**changes)
    return row._replace(hash=row_hash(TENANT, row))


def renumbered(rows: list[Row], by: int) -> list[Row]:
    return [row._replace(seq=row.seq + by) for row in rows]


def stranger(seq: int, prev_hash: str) -> Row:
    return seal(TENANT, [_draft(1, "forged")], seq - 1, prev_hash)[0]


positions = st.integers(min_value=1, max_value=COUNT)
pages = st.integers(min_value=1, max_value=COUNT + 3)


# -- chains that hold ------------------------------------------------------------------------------


@given(pages)
def test_an_untouched_chain_is_self_consistent_and_no_more(page: int) -> None:
    answer = verify(list(ROWS), page=page)
    assert answer == Verification(Verdict.SELF_CONSISTENT, COUNT, ROWS[-1].hash)
    assert answer.ok


def test_an_empty_log_without_a_head_is_self_consistent() -> None:
    assert verify([], None, None) == Verification(Verdict.SELF_CONSISTENT, 0, GENESIS)


def test_a_forged_chain_with_its_head_is_only_self_consistent_never_verified() -> None:
    forged = seal(TENANT, [_draft(n, actor="mallory") for n in range(1, COUNT + 1)], 0, GENESIS)
    assert verify(forged, _head(forged), _head(forged)).verdict is Verdict.SELF_CONSISTENT


@given(positions)
def test_a_tail_dropped_together_with_the_head_is_only_self_consistent(kept: int) -> None:
    head = _head(ROWS[:kept])
    assert verify(ROWS[:kept], head, head).verdict is Verdict.SELF_CONSISTENT


# -- rows written while the check runs -------------------------------------------------------------


@given(positions, pages)
def test_rows_written_after_the_head_was_read_are_not_held_against_the_chain(seen: int, page: int) -> None:
    answer = verify(list(ROWS), _head(ROWS[:seen]), HEAD, page)
    assert answer == Verification(Verdict.SELF_CONSISTENT, seen, ROWS[seen - 1].hash)


def test_the_first_rows_of_a_log_may_appear_while_the_check_runs() -> None:
    assert verify(list(ROWS), None, HEAD).verdict is Verdict.SELF_CONSISTENT


def test_a_row_past_both_heads_is_inserted() -> None:
    old = _head(ROWS[: COUNT - 4])
    assert fault(verify(list(ROWS), old, _head(ROWS[: COUNT - 2]))) == (Fault.INSERTED, COUNT - 1)


def test_reading_may_stop_once_every_row_up_to_the_head_was_seen() -> None:
    verifier = ChainVerifier(TENANT, _head(ROWS[:4]))
    verifier.feed(ROWS[:4])
    assert not verifier.satisfied
    verifier.feed(ROWS[4:5])
    assert verifier.satisfied


def test_an_erasure_recorded_past_the_head_explains_a_payload_gone_below_it() -> None:
    drafts = [*_drafts(3), _erasure("m2", 4)]
    rows = seal(TENANT, drafts, 0, GENESIS)
    rows[1] = rows[1]._replace(payload=None, salt=None)
    assert verify(rows, _head(rows[:3]), _head(rows)).ok
    verifier = ChainVerifier(TENANT, _head(rows[:2]))
    verifier.feed(rows[:3])
    assert not verifier.satisfied


# -- changed ---------------------------------------------------------------------------------------


def _flipped(value: str) -> str:
    return value[:-1] + ("0" if value[-1] != "0" else "1")


TEXT_COLUMNS = [name for name in Row._fields if name != "seq"]


@given(positions, st.sampled_from(TEXT_COLUMNS), pages)
def test_a_flipped_column_is_changed_at_its_row(at: int, column: str, page: int) -> None:
    rows = list(ROWS)
    rows[at - 1] = edited(rows[at - 1], **{column: _flipped(getattr(rows[at - 1], column))})
    assert fault(verify(rows, page=page)) == (Fault.CHANGED, at)


@given(positions, st.sampled_from(TEXT_COLUMNS), st.sampled_from([b"\x00\xff", 7, 1.5, "\udc80"]))
def test_a_value_that_no_row_can_hold_is_changed_at_its_row(at: int, column: str, value: object) -> None:
    rows = list(ROWS)
    rows[at - 1] = edited(rows[at - 1], **{column: value})
    assert fault(verify(rows)) == (Fault.CHANGED, at)


@given(positions)
def test_a_salt_in_another_spelling_is_changed(at: int) -> None:
    rows = list(ROWS)
    salt = rows[at - 1].salt
    assert salt is not None
    rows[at - 1] = rows[at - 1]._replace(salt=" " + salt)
    assert fault(verify(rows)) == (Fault.CHANGED, at)


@given(positions, st.sampled_from(["payload", "salt"]))
def test_half_an_erasure_is_changed_even_where_an_erasure_is_recorded(at: int, column: str) -> None:
    drafts = [*_drafts(COUNT), _erasure(f"m{at}", 99)]
    rows = seal(TENANT, drafts, 0, GENESIS)
    rows[at - 1] = edited(rows[at - 1], **{column: None})
    assert fault(verify(rows, _head(rows), _head(rows))) == (Fault.CHANGED, at)


@given(positions)
def test_a_payload_gone_without_an_erasure_is_changed(at: int) -> None:
    rows = list(ROWS)
    rows[at - 1] = rows[at - 1]._replace(payload=None, salt=None)
    assert fault(verify(rows)) == (Fault.CHANGED, at)


def test_a_payload_gone_after_the_erasure_is_not_explained_by_it() -> None:
    drafts = [
        _drafts(1)[0],
        _erasure("m1", 2),
        ("m1", Action.LIFT_TOMBSTONE.value, "erased", "erased", TIME.format(3), "owner", b"{}"),
    ]
    rows = seal(TENANT, drafts, 0, GENESIS)
    rows[0] = rows[0]._replace(payload=None, salt=None)
    assert verify(rows, _head(rows), _head(rows)).ok
    rows[2] = rows[2]._replace(payload=None, salt=None)
    assert fault(verify(rows, _head(rows), _head(rows))) == (Fault.CHANGED, 3)


@given(positions)
def test_a_row_rewritten_with_its_own_hash_is_changed_at_that_row(at: int) -> None:
    rows = list(ROWS)
    rows[at - 1] = rehashed(rows[at - 1], actor="mallory")
    assert fault(verify(rows)) == (Fault.CHANGED, at)


@given(positions)
def test_a_row_relinked_with_its_own_hash_is_changed_at_that_row(at: int) -> None:
    rows = list(ROWS)
    rows[at - 1] = rehashed(rows[at - 1], prev_hash="f" * 64)
    assert fault(verify(rows)) == (Fault.CHANGED, at)


def test_a_chain_that_starts_from_another_beginning_is_changed_at_its_first_row() -> None:
    rows = seal(TENANT, _drafts(3), 0, "f" * 64)
    assert fault(verify(rows, _head(rows), _head(rows))) == (Fault.CHANGED, 1)


@given(positions)
def test_a_row_overwritten_with_a_copy_of_its_successor_is_changed(at: int) -> None:
    rows = list(ROWS)
    source = rows[at % COUNT]
    rows[at - 1] = source._replace(seq=at)
    assert fault(verify(rows)) == (Fault.CHANGED, at)


def test_the_first_of_two_changes_is_named() -> None:
    rows = list(ROWS)
    rows[3] = rows[3]._replace(payload="{}")
    rows[4] = rows[4]._replace(payload="[]")
    rows[7] = rows[7]._replace(actor="mallory")
    assert fault(verify(rows)) == (Fault.CHANGED, 4)


def test_a_stranger_before_a_changed_payload_is_named_first() -> None:
    rows = [ROWS[0]._replace(seq=0), *ROWS]
    rows[3] = rows[3]._replace(payload="{}")
    assert fault(verify(rows)) == (Fault.INSERTED, 0)


# -- missing and truncated -------------------------------------------------------------------------


@given(st.integers(1, COUNT - 1), pages)
def test_a_dropped_row_is_missing(at: int, page: int) -> None:
    rows = [row for row in ROWS if row.seq != at]
    assert fault(verify(rows, page=page)) == (Fault.MISSING, at)


@given(st.integers(1, COUNT - 1), pages)
def test_a_dropped_row_is_missing_even_if_the_rest_moved_up(at: int, page: int) -> None:
    rows = [*ROWS[: at - 1], *renumbered(ROWS[at:], -1)]
    assert fault(verify(rows, page=page)) == (Fault.MISSING, at)


@given(st.integers(0, COUNT - 1), pages)
def test_a_dropped_tail_is_truncated(kept: int, page: int) -> None:
    assert fault(verify(ROWS[:kept], page=page)) == (Fault.TRUNCATED, kept + 1)


# -- reordered -------------------------------------------------------------------------------------


@given(st.lists(positions, min_size=2, max_size=2, unique=True), pages)
def test_two_swapped_rows_are_reordered_at_the_first(pair: list[int], page: int) -> None:
    first, second = sorted(pair)
    rows = list(ROWS)
    rows[first - 1], rows[second - 1] = (
        ROWS[second - 1]._replace(seq=first),
        ROWS[first - 1]._replace(seq=second),
    )
    assert fault(verify(rows, page=page)) == (Fault.REORDERED, first)


@given(st.integers(1, COUNT - 1), st.integers(COUNT + 1, COUNT + 9))
def test_a_row_moved_to_the_end_is_reordered(at: int, number: int) -> None:
    rows = [row for row in ROWS if row.seq != at] + [ROWS[at - 1]._replace(seq=number)]
    assert fault(verify(rows)) == (Fault.REORDERED, at)


def test_a_last_row_with_a_higher_number_is_reordered() -> None:
    rows = [*ROWS[:-1], ROWS[-1]._replace(seq=COUNT + 7)]
    assert fault(verify(rows)) == (Fault.REORDERED, COUNT)


@given(st.integers(-5, 0))
def test_a_first_row_with_a_lower_number_is_reordered(number: int) -> None:
    rows = [ROWS[0]._replace(seq=number), *ROWS[1:]]
    assert fault(verify(rows)) == (Fault.REORDERED, 1)


# -- inserted --------------------------------------------------------------------------------------


FORGERIES: dict[str, Callable[[int], Row]] = {
    "linked": lambda at: stranger(at, ROWS[at - 2].hash if at > 1 else GENESIS),
    "unlinked": lambda at: stranger(at, "f" * 64),
    "without its own hash": lambda at: stranger(at, "f" * 64)._replace(actor="mallory"),
    "a copy of another row": lambda at: ROWS[at % COUNT]._replace(seq=at),
}


@pytest.mark.parametrize("forgery", FORGERIES)
@given(at=positions, page=pages)
def test_a_row_put_between_is_inserted(forgery: str, at: int, page: int) -> None:
    rows = [*ROWS[: at - 1], FORGERIES[forgery](at), *renumbered(ROWS[at - 1 :], 1)]
    assert fault(verify(rows, page=page)) == (Fault.INSERTED, at)


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_row_put_at_the_end_is_inserted(forgery: str) -> None:
    rows = [*ROWS, FORGERIES[forgery](COUNT + 1)]
    assert fault(verify(rows)) == (Fault.INSERTED, COUNT + 1)


@given(positions)
def test_several_chained_strangers_are_inserted_at_the_first(at: int) -> None:
    strangers = seal(TENANT, _drafts(3), at - 1, ROWS[at - 2].hash if at > 1 else GENESIS)
    rows = [*ROWS[: at - 1], *strangers, *renumbered(ROWS[at - 1 :], 3)]
    assert fault(verify(rows)) == (Fault.INSERTED, at)


@given(positions)
def test_a_forged_tail_longer_than_the_head_says_is_inserted_past_the_head(at: int) -> None:
    tail = seal(TENANT, _drafts(COUNT - at + 2), at - 1, ROWS[at - 2].hash if at > 1 else GENESIS)
    assert fault(verify([*ROWS[: at - 1], *tail])) == (Fault.INSERTED, COUNT + 1)


@pytest.mark.parametrize("number", [0, -3])
def test_a_stranger_below_the_first_row_is_inserted(number: int) -> None:
    assert fault(verify([stranger(number, GENESIS), *ROWS])) == (Fault.INSERTED, number)


def test_a_stranger_below_a_lost_first_row_is_inserted() -> None:
    assert fault(verify([stranger(0, "f" * 64), *ROWS[1:]])) == (Fault.INSERTED, 0)


@pytest.mark.parametrize(("number", "place"), [(2.5, 2), ("2", COUNT), (b"2", COUNT)])
def test_a_stranger_whose_number_is_none_is_inserted(number: Any, place: int) -> None:
    rows = [*ROWS[:place], stranger(1, "f" * 64)._replace(seq=number), *ROWS[place:]]
    assert fault(verify(rows)) == (Fault.INSERTED, place + 1)


def test_a_stranger_whose_number_is_none_is_inserted_where_the_next_row_is_gone_too() -> None:
    number: Any = 2.5
    rows = [*ROWS[:2], stranger(1, "f" * 64)._replace(seq=number), *ROWS[3:]]
    assert fault(verify(rows)) == (Fault.INSERTED, 3)


# -- the head record -------------------------------------------------------------------------------


def test_a_dropped_head_record_is_missing() -> None:
    assert fault(verify(list(ROWS), None, None)) == (Fault.MISSING, COUNT)


def test_a_dropped_head_record_does_not_hide_a_changed_row() -> None:
    rows = list(ROWS)
    rows[4] = rows[4]._replace(actor="mallory")
    assert fault(verify(rows, None, None)) == (Fault.CHANGED, 5)


@given(st.integers(1, 9))
def test_a_head_that_counts_too_many_rows_is_a_truncated_log(more: int) -> None:
    head = replace(HEAD, count=COUNT + more)
    assert fault(verify(list(ROWS), head, head)) == (Fault.TRUNCATED, COUNT + 1)


@given(st.integers(-2, COUNT - 1))
def test_a_head_that_counts_too_few_rows_leaves_inserted_ones(count: int) -> None:
    head = replace(HEAD, count=count)
    assert fault(verify(list(ROWS), head, head)) == (Fault.INSERTED, max(count, 0) + 1)


@pytest.mark.parametrize("time", [HEAD.time + timedelta(seconds=1), None])
def test_a_head_with_another_time_is_changed(time: Any) -> None:
    head = replace(HEAD, time=time)
    assert fault(verify(list(ROWS), head, head)) == (Fault.CHANGED, COUNT)


def test_a_head_with_another_hash_is_changed() -> None:
    head = replace(HEAD, hash="f" * 64)
    assert fault(verify(list(ROWS), head, head)) == (Fault.CHANGED, COUNT)


def test_a_head_of_no_rows_with_a_hash_of_its_own_is_changed() -> None:
    head = replace(HEAD, count=0)
    assert fault(verify([], head, head)) == (Fault.CHANGED, 1)


def test_the_salt_binds_the_payload() -> None:
    row = ROWS[0]
    assert row.salt is not None
    assert row.payload is not None
    assert payload_digest(row.salt, row.payload) == row.payload_digest
    assert payload_digest("00" * 32, row.payload) != row.payload_digest
