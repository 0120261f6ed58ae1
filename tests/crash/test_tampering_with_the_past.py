"""Whatever is done to history and segments behind the store's back, replay finds it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from backends import Place
from tampered import EDITS, differences, reopened

Copy = Callable[[], Place]


async def test_an_edited_column_of_a_replaced_version_is_found_by_replay(fresh_copy: Copy) -> None:
    place = fresh_copy()
    with place.tampered() as connection:
        (memory_id, seq, since) = connection.execute(
            "SELECT id, seq, system_from FROM memory_history ORDER BY id, system_from LIMIT 1"
        ).fetchone()
        async with reopened(place) as store:
            edits = {**EDITS, "system_to": "2040-01-01T00:00:00.000000Z"}
            for column, value in edits.items():
                # Named by what is not edited.
                which = f"system_from = '{since}'" if column == "seq" else f"seq = {seq}"
                which = f"id = '{memory_id}' AND {which}"
                ((before,),) = connection.execute(f"SELECT {column} FROM memory_history WHERE {which}")
                assert before != value
                change = f"UPDATE memory_history SET {column} = ? WHERE {which}"
                connection.execute(change, (value,))
                assert (await store.replay()).differences == {memory_id: ["history"]}, column
                connection.execute(change, (before,))
            assert (await store.replay()).identical


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM memory_segments WHERE {one}",
        "UPDATE memory_segments SET valid_from = '2020-01-01T00:00:00.000000Z' WHERE {one}",
        "UPDATE memory_segments SET valid_to = '2040-01-01T00:00:00.000000Z' WHERE {one}",
        "UPDATE memory_segments SET key = 'other' WHERE {one}",
        "UPDATE memory_segments SET asserted_order = 99 WHERE {one}",
        "UPDATE memory_segments SET system_from = '2020-01-01T00:00:00.000000Z' WHERE {one}",
        "UPDATE memory_segments SET system_to = '2040-01-01T00:00:00.000000Z' WHERE {one}",
    ],
)
async def test_an_edited_or_dropped_segment_is_found_by_replay(fresh_copy: Copy, change: str) -> None:
    place = fresh_copy()
    with place.tampered() as connection:
        (memory_id,) = connection.execute(
            "SELECT min(memory_id) FROM memory_segments WHERE system_to IS NULL"
        ).fetchone()
        one = f"memory_id = '{memory_id}' AND system_to IS NULL"
        assert connection.execute(change.format(one=one)).rowcount
    assert await differences(place) == {memory_id: ["segments"]}


async def test_versions_dropped_or_moved_to_no_memory_are_found_by_replay(fresh_copy: Copy) -> None:
    place = fresh_copy()
    with place.tampered() as connection:
        (memory_id,) = connection.execute("SELECT min(id) FROM memory_history").fetchone()
        connection.execute("UPDATE memory_history SET id = 'nobody' WHERE id = ?", (memory_id,))
    assert await differences(place) == {memory_id: ["history"], "nobody": ["unknown to the ledger"]}
