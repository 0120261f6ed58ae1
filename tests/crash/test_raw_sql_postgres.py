"""PostgreSQL holds the line too: a key has one value, what was believed stays, and the head only moves on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest
from backends import Place
from raw import Raw

from memsmith import MemoryStore
from memsmith.testing.clock import ManualClock

START = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
KEY = "user:ann/lives_in"
TABLES = ("memories", "memory_history", "memory_segments", "audit_log", "heads")


def day(number: int) -> str:
    return (START + timedelta(days=number)).isoformat()


@pytest.fixture
async def place(tmp_path: Path) -> Place:
    """Return Rome [0, 10), Oslo [10, 20), Rome [20, …) on a key, a gap [30, 40) and closed segments."""
    place, clock = Place("postgres", tmp_path), ManualClock(START)
    async with await MemoryStore.init(place.connect(), clock=clock) as store:
        home = await store.propose("Rome", "s", 0.9, key=KEY, valid_from=START)
        clock.set(START + timedelta(days=1))
        ten, twenty, thirty, forty = (START + timedelta(days=n) for n in (10, 20, 30, 40))
        await store.propose("Oslo", "s", 0.9, key=KEY, valid_from=ten, valid_to=twenty)
        clock.set(START + timedelta(days=2))
        await store.retract(home.memory_id, "away", during=(thirty, forty))
        await store.update_confidence(home.memory_id, 0.95)
        clock.set(START + timedelta(days=3))
        # The newest unit is about something else.
        await store.propose("tea", "s", 0.9, key="user:ann/drinks")
    return place


@pytest.fixture
def raw(place: Place) -> Generator[Raw]:
    with place.raw() as connection:
        yield connection


@pytest.fixture(autouse=True)
async def _it_is_as_before(place: Place) -> AsyncIterator[None]:
    yield
    async with await MemoryStore.init(place.connect()) as store:
        assert (await store.verify()).ok


def stored(connection: Raw) -> dict[str, list[object]]:
    return {name: sorted(connection.execute(f"SELECT t::text FROM {name} AS t")) for name in TABLES}


def refused(connection: Raw, sql: str, match: str) -> None:
    before = stored(connection)
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match=match):
        connection.execute(sql)
    assert stored(connection) == before


def a_segment(start: str, end: str | None, lane: str = "") -> str:
    until = "NULL" if end is None else f"'{end}'"
    return (
        f"INSERT INTO memory_segments (tenant, memory_id, kind, scope, key, lane, valid_from, valid_to, "
        f"asserted_from, asserted_order, system_from, system_to, created_at, class) "
        f"VALUES ('default', 'intruder', 'fact', '', '{KEY}', '{lane}', '{start}', {until}, '{start}', 99, "
        f"'{day(9)}', NULL, '{day(9)}', 0)"
    )


def a_copy(table: str, connection: Raw, **values: str) -> str:
    """Return what inserts a copy of a table's first row with some columns as SQL says."""
    names = [
        name
        for (name,) in connection.execute(
            "SELECT column_name::text FROM information_schema.columns WHERE table_schema = 'memsmith' "
            "AND table_name = ? AND is_generated = 'NEVER' ORDER BY ordinal_position",
            (table,),
        )
    ]
    columns = [values.get(name, name) for name in names]
    return f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(columns)} FROM {table} LIMIT 1"


@pytest.mark.parametrize(
    ("start", "end"),
    [(10, 20), (12, 15), (5, 25), (-5, 5), (-5, None), (15, 16), (29, 31), (39, 41), (45, 46), (50, None)],
)
def test_a_second_current_value_at_any_moment_is_refused(raw: Raw, start: int, end: int | None) -> None:
    refused(raw, a_segment(day(start), None if end is None else day(end)), "do_not_overlap")


def test_a_value_where_there_was_none_is_not_refused(raw: Raw) -> None:
    raw.execute(a_segment(day(33), day(35)))
    raw.execute("SET session_replication_role = replica")
    raw.execute("DELETE FROM memory_segments WHERE memory_id = 'intruder'")


@pytest.mark.parametrize("start", [10, 5])
def test_an_empty_or_inverted_segment_is_refused(raw: Raw, start: int) -> None:
    with pytest.raises((asyncpg.IntegrityConstraintViolationError, asyncpg.DataError)):
        raw.execute(a_segment(day(10), day(start)))


@pytest.mark.parametrize(
    "change",
    [
        f"valid_to = '{day(15)}'",
        f"valid_from = '{day(-5)}'",
        "key = 'user:bob/lives_in'",
        "scope = 'user:ann'",
        "kind = 'note'",
        "lane = memory_id",
        "tenant = 'other'",
        "memory_id = 'intruder'",
        "asserted_order = 99",
        f"asserted_from = '{day(-5)}'",
        f"system_from = '{day(-5)}'",
        f"created_at = '{day(-5)}'",
    ],
)
def test_a_current_segment_is_never_changed_but_closed(raw: Raw, change: str) -> None:
    bounded = f"system_to IS NULL AND key = '{KEY}' AND valid_to = '{day(10)}'"
    refused(raw, f"UPDATE memory_segments SET {change} WHERE {bounded}", "closed, never changed")


@pytest.mark.parametrize(
    "change", ["system_to = NULL", f"system_to = '{day(9)}'", f"valid_to = '{day(9)}'", "asserted_order = 99"]
)
def test_a_closed_segment_is_neither_opened_nor_changed(raw: Raw, change: str) -> None:
    refused(raw, f"UPDATE memory_segments SET {change} WHERE system_to IS NOT NULL", "closed, never changed")


def test_a_segment_is_not_closed_in_the_past(raw: Raw) -> None:
    sql = f"UPDATE memory_segments SET system_to = '{day(2)}' WHERE system_to IS NULL AND key = '{KEY}'"
    refused(raw, sql, "not in the past")


@pytest.mark.parametrize("which", ["system_to IS NOT NULL", f"system_to IS NULL AND key = '{KEY}'", "true"])
def test_a_segment_is_never_deleted_once_another_unit_followed(raw: Raw, which: str) -> None:
    refused(raw, f"DELETE FROM memory_segments WHERE {which}", "append-only")


@pytest.mark.parametrize("table", ["memory_history", "audit_log"])
@pytest.mark.parametrize(
    ("statement", "match"),
    [
        ("UPDATE {table} SET actor = 'nobody'", "append-only"),
        ("DELETE FROM {table} WHERE seq = 1", "append-only"),
        ("TRUNCATE {table}", "append-only"),
        ("INSERT INTO {table} SELECT * FROM {table}", "unique"),
        (
            "INSERT INTO {table} SELECT * FROM {table} ON CONFLICT ON CONSTRAINT {table}_pkey "
            "DO UPDATE SET actor = 'nobody'",
            "append-only",
        ),
    ],
)
def test_history_and_the_ledger_are_append_only(raw: Raw, table: str, statement: str, match: str) -> None:
    refused(raw, statement.format(table=table), match)


def test_what_was_believed_in_the_past_is_not_forged(raw: Raw) -> None:
    past = {"system_from": f"'{day(0)}'", "system_to": f"'{day(1)}'"}
    refused(raw, a_copy("memory_history", raw, id="'intruder'", **past), "append-only")
    refused(raw, a_copy("memory_segments", raw, memory_id="'intruder'", **past), "append-only")
    refused(raw, a_copy("memory_segments", raw, memory_id="'intruder'", key="'free'", **past), "append-only")
    refused(raw, a_copy("audit_log", raw, seq="0"), "append-only")


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM heads",
        "TRUNCATE heads",
        "UPDATE heads SET count = count - 1",
        f"UPDATE heads SET time = '{day(0)}'",
        "UPDATE heads SET tenant = 'other'",
        f"INSERT INTO heads (tenant, count, hash, time) VALUES ('default', 1, '', '{day(9)}') "
        "ON CONFLICT (tenant) DO UPDATE SET count = 1",
    ],
)
def test_the_head_neither_goes_nor_steps_back(raw: Raw, sql: str) -> None:
    refused(raw, sql, "heads only move on")


def test_a_second_value_is_not_smuggled_in_by_a_lane_of_its_own(raw: Raw) -> None:
    refused(raw, a_segment(day(12), day(15), "intruder"), "do not overlap")
    refused(raw, f"UPDATE memories SET many = 1 WHERE key = '{KEY}'", "cardinality")
