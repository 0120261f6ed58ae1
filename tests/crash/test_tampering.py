"""Whatever is done to the file behind the store's back, verify or replay finds it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from backends import KINDS, Place
from hypothesis import given, settings
from hypothesis import strategies as st
from raw import REFUSALS, Raw
from tampered import EDITS, differences, reopened

from memsmith import MemoryStore, Verdict, Verification
from memsmith.ledger.entry import GENESIS, Draft, Row, row_hash, seal
from memsmith.ledger.record import MEMORY_COLUMNS
from memsmith.ledger.verify import Fault

ROWS = 39
TENANT = "default"
COLUMNS = Row._fields
NAMES = ", ".join(COLUMNS)
MARKS = ", ".join("?" * len(COLUMNS))

Copy = Callable[[], Place]
few = settings(max_examples=15)
positions = st.integers(1, ROWS)


async def verified(place: Path) -> Verification:
    async with reopened(place) as store:
        return await store.verify()


async def fault(place: Path) -> tuple[Fault | None, int | None]:
    answer = await verified(place)
    assert answer.verdict is Verdict.FAILED
    return answer.fault, answer.seq


def row_of(connection: Raw, seq: int) -> Row:
    return Row._make(connection.execute(f"SELECT {NAMES} FROM audit_log WHERE seq = ?", (seq,)).fetchone())


def update(connection: Raw, seq: int, **values: Any) -> None:
    changes = ", ".join(f"{name} = ?" for name in values)
    connection.execute(f"UPDATE audit_log SET {changes} WHERE seq = ?", (*values.values(), seq))


def insert(connection: Raw, row: Row) -> None:
    connection.execute(f"INSERT INTO audit_log (tenant, {NAMES}) VALUES (?, {MARKS})", (TENANT, *row))


def renumber(connection: Raw, above: int, by: int) -> None:
    # Twice, for the primary key is checked row by row.
    connection.execute("UPDATE audit_log SET seq = seq + 10000 WHERE seq > ?", (above,))
    connection.execute("UPDATE audit_log SET seq = seq - 10000 + ? WHERE seq > 10000", (by,))


def forged(seq: int, prev_hash: str) -> Row:
    draft: Draft = ("m", "proposed", "proposed", "active", "2026-03-01T09:30:00.000000Z", "owner", b"{}")
    return seal(TENANT, [draft], seq - 1, prev_hash)[0]


async def test_an_untouched_file_is_self_consistent_and_identical_to_its_replay(fresh_copy: Copy) -> None:
    place = fresh_copy()
    answer = await verified(place)
    assert answer.verdict is Verdict.SELF_CONSISTENT
    assert answer.rows == ROWS
    assert await differences(place) == {}


# -- the ledger ------------------------------------------------------------------------------------


@few
@given(at=positions, column=st.sampled_from([c for c in COLUMNS if c != "seq"]))
async def test_a_flipped_column_is_changed_at_its_row(fresh_copy: Copy, at: int, column: str) -> None:
    place = fresh_copy()
    with place.tampered() as connection:
        value = getattr(row_of(connection, at), column)
        flipped = value[:-2] + ("0" if value[-2] != "0" else "1") + value[-1]
        update(connection, at, **{column: flipped})
    assert await fault(place) == (Fault.CHANGED, at)


@few
@given(
    at=positions,
    column=st.sampled_from([c for c in COLUMNS if c != "seq"]),
    value=st.one_of(st.binary(min_size=1, max_size=8), st.text(max_size=8), st.integers(-5, 5), st.floats()),
)
async def test_a_column_overwritten_with_anything_is_changed_at_its_row(
    fresh_copy: Copy, at: int, column: str, value: object
) -> None:
    place = fresh_copy()
    with place.tampered() as connection:
        try:
            update(connection, at, **{column: value})
        except REFUSALS:  # NaN is NULL to SQLite, which most columns refuse; PostgreSQL takes text alone
            return
    assert await fault(place) == (Fault.CHANGED, at)


@few
@given(at=positions, column=st.sampled_from(["payload", "salt", "actor", "hash", "id"]))
async def test_bytes_that_are_not_utf_8_are_changed_at_their_row(
    fresh_file: Copy, at: int, column: str
) -> None:
    place = fresh_file()
    with place.tampered() as connection:
        connection.execute(
            f"UPDATE audit_log SET {column} = CAST(X'80FF' || {column} AS TEXT) WHERE seq = ?", (at,)
        )
    assert await fault(place) == (Fault.CHANGED, at)


async def test_a_row_given_to_another_tenant_is_missing(fresh_copy: Copy) -> None:
    place = fresh_copy()
    with place.tampered() as connection:
        connection.execute("UPDATE audit_log SET tenant = 'other' WHERE seq = 5")
    assert await fault(place) == (Fault.MISSING, 5)
    async with await MemoryStore.init(place.connect(), tenant="other") as other:
        assert not (await other.verify()).ok


@pytest.mark.parametrize("at", [1, 20, ROWS - 1])
async def test_a_dropped_row_is_missing(fresh_copy: Copy, at: int) -> None:
    place = fresh_copy()
    with place.tampered() as connection:
        connection.execute("DELETE FROM audit_log WHERE seq = ?", (at,))
    assert await fault(place) == (Fault.MISSING, at)


@pytest.mark.parametrize("at", [1, 20, ROWS - 1])
async def test_a_dropped_row_is_missing_even_if_the_rest_moved_up(fresh_copy: Copy, at: int) -> None:
    place = fresh_copy()
    with place.tampered() as connection:
        connection.execute("DELETE FROM audit_log WHERE seq = ?", (at,))
        renumber(connection, at, -1)
    assert await fault(place) == (Fault.MISSING, at)


@pytest.mark.parametrize("kept", [0, 1, 20, ROWS - 1])
async def test_a_dropped_tail_is_truncated(fresh_copy: Copy, kept: int) -> None:
    place = fresh_copy()
    with place.tampered() as connection:
        connection.execute("DELETE FROM audit_log WHERE seq > ?", (kept,))
    assert await fault(place) == (Fault.TRUNCATED, kept + 1)


@pytest.mark.parametrize("kept", [1, ROWS - 1])
async def test_a_tail_dropped_with_its_head_passes_verify_but_not_replay(fresh_copy: Copy, kept: int) -> None:
    place = fresh_copy()
    with place.tampered() as connection:
        connection.execute("DELETE FROM audit_log WHERE seq > ?", (kept,))
        last = row_of(connection, kept)
        connection.execute("UPDATE heads SET count = ?, hash = ?, time = ?", (kept, last.hash, last.time))
    assert (await verified(place)).verdict is Verdict.SELF_CONSISTENT
    assert await differences(place)


async def test_a_ledger_dropped_with_its_head_leaves_memories_unknown_to_it(fresh_copy: Copy) -> None:
    place = fresh_copy()
    with place.tampered() as connection:
        connection.execute("DELETE FROM audit_log")
        connection.execute("DELETE FROM heads")
        memories = connection.execute("SELECT count(*) FROM memories").fetchone()[0]
    assert (await verified(place)).verdict is Verdict.SELF_CONSISTENT
    found = await differences(place)
    assert list(found.values()).count(["unknown to the ledger"]) == memories


@few
@given(pair=st.lists(positions, min_size=2, max_size=2, unique=True))
async def test_two_swapped_rows_are_reordered_at_the_first(fresh_copy: Copy, pair: list[int]) -> None:
    place = fresh_copy()
    with place.tampered() as connection:
        connection.execute("UPDATE audit_log SET seq = -1 WHERE seq = ?", (pair[0],))
        connection.execute("UPDATE audit_log SET seq = ? WHERE seq = ?", pair)
        connection.execute("UPDATE audit_log SET seq = ? WHERE seq = -1", (pair[1],))
    assert await fault(place) == (Fault.REORDERED, min(pair))


@few
@given(at=positions, number=st.integers(-9, 99).filter(lambda n: not 1 <= n <= ROWS))
async def test_a_row_with_a_number_of_its_own_is_reordered(fresh_copy: Copy, at: int, number: int) -> None:
    place = fresh_copy()
    with place.tampered() as connection:
        connection.execute("UPDATE audit_log SET seq = ? WHERE seq = ?", (number, at))
    found, seq = await fault(place)
    if number < at and at > 1:
        assert (found, seq) == (Fault.INSERTED, number)
    elif at == ROWS:
        assert (found, seq) in {(Fault.REORDERED, at), (Fault.INSERTED, number)}
    else:
        assert (found, seq) == (Fault.REORDERED, at)


@few
@given(at=positions, linked=st.booleans(), whole=st.booleans())
async def test_a_row_put_between_is_inserted(fresh_copy: Copy, at: int, linked: bool, whole: bool) -> None:
    place = fresh_copy()
    with place.tampered() as connection:
        before = row_of(connection, at - 1).hash if at > 1 else GENESIS
        row = forged(at, before if linked else "f" * 64)
        renumber(connection, at - 1, 1)
        insert(connection, row if whole else row._replace(actor="mallory"))
    assert await fault(place) == (Fault.INSERTED, at)


@pytest.mark.parametrize("whole", [True, False])
async def test_a_row_put_at_the_end_is_inserted(fresh_copy: Copy, whole: bool) -> None:
    place = fresh_copy()
    with place.tampered() as connection:
        row = forged(ROWS + 1, row_of(connection, ROWS).hash)
        insert(connection, row if whole else row._replace(hash="f" * 64))
    assert await fault(place) == (Fault.INSERTED, ROWS + 1)


@pytest.mark.parametrize("number", [0, -7])
async def test_a_row_numbered_outside_the_log_is_inserted(fresh_copy: Copy, number: int) -> None:
    place = fresh_copy()
    with place.tampered() as connection:
        insert(connection, forged(1, "f" * 64)._replace(seq=number))
    assert await fault(place) == (Fault.INSERTED, number)


@pytest.mark.parametrize(("number", "expected"), [(2.5, 3), ("zz", ROWS + 1)])
async def test_a_row_with_no_number_is_inserted(fresh_file: Copy, number: Any, expected: int) -> None:
    place = fresh_file()
    with place.tampered() as connection:
        insert(connection, forged(1, "f" * 64)._replace(seq=number))
    assert await fault(place) == (Fault.INSERTED, expected)


async def test_a_chain_forged_anew_with_its_head_is_never_called_verified(fresh_copy: Copy) -> None:
    place = fresh_copy()
    with place.tampered() as connection:
        previous = GENESIS
        for seq in range(1, ROWS + 1):
            row = row_of(connection, seq)._replace(actor="mallory", prev_hash=previous)
            previous = row_hash(TENANT, row)
            update(connection, seq, actor="mallory", prev_hash=row.prev_hash, hash=previous)
        connection.execute("UPDATE heads SET hash = ?", (previous,))
    assert (await verified(place)).verdict is Verdict.SELF_CONSISTENT


@few
@given(at=positions)
async def test_a_payload_gone_without_an_erasure_is_changed(fresh_copy: Copy, at: int) -> None:
    place = fresh_copy()
    with place.tampered() as connection:
        update(connection, at, payload=None, salt=None)
    assert await fault(place) == (Fault.CHANGED, at)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("DELETE FROM heads", (Fault.MISSING, ROWS)),
        ("UPDATE heads SET count = count + 2", (Fault.TRUNCATED, ROWS + 1)),
        ("UPDATE heads SET count = count - 2", (Fault.INSERTED, ROWS - 1)),
        ("UPDATE heads SET hash = payload_digest FROM audit_log", (Fault.CHANGED, ROWS)),
        ("UPDATE heads SET time = '2030-01-01T00:00:00.000000Z'", (Fault.CHANGED, ROWS)),
    ],
)
async def test_a_tampered_head_record_is_found(
    fresh_copy: Copy, statement: str, expected: tuple[Fault, int | None]
) -> None:
    place = fresh_copy()
    with place.tampered() as connection:
        connection.execute(statement)
    assert await fault(place) == expected


@pytest.mark.parametrize("change", ["time = 'yesterday'", "count = 'many'"])
async def test_a_head_record_that_is_none_is_found(fresh_file: Copy, change: str) -> None:
    place = fresh_file()
    with place.tampered() as connection:
        connection.execute(f"UPDATE heads SET {change}")
    assert await fault(place) == (Fault.CHANGED, None)


async def test_the_ledger_refuses_update_and_delete_from_raw_sql(fresh_copy: Copy) -> None:
    place = fresh_copy()
    with place.raw() as connection:
        for statement in ("UPDATE audit_log SET actor = 'x'", "DELETE FROM audit_log WHERE seq = 1"):
            with pytest.raises(REFUSALS, match="append-only"):
                connection.execute(statement)
    assert (await verified(place)).ok


# -- memories and tombstones -----------------------------------------------------------------------


def test_every_column_of_a_memory_is_tampered_with() -> None:
    assert {*EDITS, "tenant", "id"} == set(MEMORY_COLUMNS)


async def test_an_edited_column_of_a_memory_is_found_by_replay(fresh_copy: Copy) -> None:
    place = fresh_copy()
    with place.tampered() as connection:
        ids = [row[0] for row in connection.execute("SELECT id FROM memories ORDER BY id")]
    async with reopened(place) as store:
        for column, memory_id in zip(EDITS, [*ids, *ids], strict=False):
            with place.raw() as connection:
                statement = f"SELECT {column} FROM memories WHERE id = ?"
                before = connection.execute(statement, (memory_id,)).fetchone()[0]
                change = f"UPDATE memories SET {column} = ? WHERE id = ?"
                connection.execute(change, (EDITS[column], memory_id))
                assert (await store.replay()).differences == {memory_id: [column]}
                connection.execute(change, (before, memory_id))
        assert (await store.replay()).identical


async def test_dropped_added_and_renamed_memories_are_found_by_replay(fresh_copy: Copy) -> None:
    place = fresh_copy()
    with place.tampered() as connection:
        first, second = (row[0] for row in connection.execute("SELECT id FROM memories ORDER BY id LIMIT 2"))
        connection.execute("DELETE FROM memories WHERE id = ?", (first,))
        connection.execute("UPDATE memories SET id = 'renamed' WHERE id = ?", (second,))
    assert await differences(place) == {
        first: ["missing"],
        second: ["missing"],
        "renamed": ["unknown to the ledger"],
    }


@pytest.mark.parametrize(
    "change", ["refused = refused + 1", "reason = 'x'", "lifted_at = NULL", "scope = 'x'"]
)
async def test_an_edited_tombstone_is_found_by_replay(fresh_copy: Copy, change: str) -> None:
    place = fresh_copy()
    with place.tampered() as connection:
        (stone,) = connection.execute("SELECT id FROM tombstones WHERE lifted_at IS NOT NULL").fetchone()
        connection.execute(f"UPDATE tombstones SET {change} WHERE id = ?", (stone,))
    assert await differences(place) == {stone: ["tombstone"]}


async def test_a_dropped_tombstone_is_found_by_replay(fresh_copy: Copy) -> None:
    place = fresh_copy()
    with place.tampered() as connection:
        stones = {row[0]: ["missing"] for row in connection.execute("SELECT id FROM tombstones")}
        connection.execute("DELETE FROM tombstones")
    assert await differences(place) == stones


# -- while others write ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_verifying_while_others_write_reports_no_fault(kind: str, tmp_path: Path) -> None:
    async with await MemoryStore.init(Place(kind, tmp_path).connect()) as store:

        async def write(worker: int) -> None:
            for n in range(60):
                await store.propose({"worker": worker, "n": n}, f"s{worker}", 0.9)

        writers = [asyncio.create_task(write(worker)) for worker in range(3)]
        answers: list[Verification] = []
        while not all(writer.done() for writer in writers):
            answers.append(await store.verify())
            await asyncio.sleep(0)  # an empty log in memory is read without ever giving way
        await asyncio.gather(*writers)
        answers.append(await store.verify())
    assert len(answers) > 3
    assert answers[-1].rows == 180
    assert {answer.verdict for answer in answers} == {Verdict.SELF_CONSISTENT}
    assert [answer.rows for answer in answers] == sorted(answer.rows for answer in answers)
