"""The database holds the line: what would give a key two values, or rewrite what was believed, is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memsmith import MemoryStore, SQLiteBackend
from memsmith.testing.clock import ManualClock

START = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
KEY = "user:ann/lives_in"
TABLES = ("memories", "memory_history", "memory_segments", "audit_log", "heads")


def day(number: int) -> str:
    """Return a day as stored; `NULL` stands for an open end."""
    return (START + timedelta(days=number)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def _fill(path: Path) -> None:
    """Leave Rome [0, 10), Oslo [10, 20), Rome [20, …) on a key, a gap [30, 40) and closed segments."""
    clock = ManualClock(START)

    def on(number: int) -> datetime:
        return START + timedelta(days=number)

    async with await MemoryStore.init(SQLiteBackend(path, durability="normal"), clock=clock) as store:
        home = await store.propose("Rome", "s", 0.9, key=KEY, valid_from=on(0))
        clock.set(on(1))
        await store.propose("Oslo", "s", 0.9, key=KEY, valid_from=on(10), valid_to=on(20))
        clock.set(on(2))
        await store.retract(home.memory_id, "away", during=(on(30), on(40)))
        await store.update_confidence(home.memory_id, 0.95)
        clock.set(on(3))
        # The newest unit is about something else.
        await store.propose("tea", "s", 0.9, key="user:ann/drinks")


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    await _fill(path)
    return path


@pytest.fixture
def raw(path: Path) -> Generator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def stored(connection: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in TABLES}


def refused(connection: sqlite3.Connection, sql: str, match: str) -> None:
    before = stored(connection)
    with pytest.raises(sqlite3.IntegrityError, match=match):
        connection.execute(sql)
    assert stored(connection) == before


def a_segment(start: str, end: str | None, *, how: str = "INSERT", memory: str = "intruder") -> str:
    until = "NULL" if end is None else f"'{end}'"
    return (
        f"{how} INTO memory_segments (tenant, memory_id, kind, scope, key, lane, valid_from, valid_to, "
        f"asserted_from, asserted_order, system_from, system_to, created_at) "
        f"VALUES ('default', '{memory}', 'fact', '', '{KEY}', '', '{start}', {until}, '{start}', 99, "
        f"'{day(9)}', NULL, '{day(9)}')"
    )


# -- no two current values -------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE", "REPLACE"])
@pytest.mark.parametrize(
    ("start", "end"),
    [(10, 20), (12, 15), (5, 25), (-5, 5), (-5, None), (15, 16), (29, 31), (39, 41), (45, 46), (50, None)],
)
def test_a_second_current_value_at_any_moment_is_refused(
    raw: sqlite3.Connection, start: int, end: int | None, how: str
) -> None:
    refused(raw, a_segment(day(start), None if end is None else day(end), how=how), "do not overlap")


@pytest.mark.parametrize(("start", "end"), [(-5, 0), (30, 40), (33, 35)])
def test_a_value_where_there_was_none_is_not_refused(raw: sqlite3.Connection, start: int, end: int) -> None:
    raw.execute(a_segment(day(start), day(end)))
    assert raw.execute("SELECT count(*) FROM memory_segments WHERE memory_id = 'intruder'").fetchone() == (1,)


@pytest.mark.parametrize("start", [10, 5])
def test_an_empty_or_inverted_segment_is_refused(raw: sqlite3.Connection, start: int) -> None:
    refused(raw, a_segment(day(10), day(start)), "CHECK|do not overlap")
    refused(raw, a_segment(day(35), day(start)), "CHECK")


@pytest.mark.parametrize("how", ["UPDATE", "UPDATE OR REPLACE", "UPDATE OR IGNORE"])
@pytest.mark.parametrize(
    "change",
    [
        f"valid_to = '{day(15)}'",
        "valid_to = NULL",
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
def test_a_current_segment_is_never_changed_but_closed(
    raw: sqlite3.Connection, change: str, how: str
) -> None:
    # One that `valid_to = NULL` would not leave as it is.
    bounded = f"system_to IS NULL AND key = '{KEY}' AND valid_to = '{day(10)}'"
    assert raw.execute(f"SELECT count(*) FROM memory_segments WHERE {bounded}").fetchone() == (1,)
    refused(raw, f"{how} memory_segments SET {change} WHERE {bounded}", "closed, never changed")


@pytest.mark.parametrize(
    "change", ["system_to = NULL", f"system_to = '{day(9)}'", f"valid_to = '{day(9)}'", "asserted_order = 99"]
)
def test_a_closed_segment_is_neither_opened_nor_changed(raw: sqlite3.Connection, change: str) -> None:
    refused(raw, f"UPDATE memory_segments SET {change} WHERE system_to IS NOT NULL", "closed, never changed")


@pytest.mark.parametrize("which", ["system_to IS NOT NULL", f"system_to IS NULL AND key = '{KEY}'", "true"])
def test_a_segment_is_never_deleted_once_another_unit_followed(raw: sqlite3.Connection, which: str) -> None:
    refused(raw, f"DELETE FROM memory_segments WHERE {which}", "append-only")


@pytest.mark.parametrize("which", ["system_to IS NOT NULL", f"key = '{KEY}' AND system_to IS NULL"])
def test_a_segment_is_never_replaced(raw: sqlite3.Connection, which: str) -> None:
    for how in ("INSERT OR REPLACE", "REPLACE", "INSERT OR IGNORE"):
        refused(
            raw,
            f"{how} INTO memory_segments SELECT * FROM memory_segments WHERE {which}",
            "append-only|do not overlap",
        )


# -- nothing that was believed is rewritten --------------------------------------------------------


@pytest.mark.parametrize("table", ["memory_history", "audit_log"])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {table} SET actor = 'nobody'",
        "UPDATE OR REPLACE {table} SET actor = 'nobody' WHERE seq = 1",
        "UPDATE OR IGNORE {table} SET seq = seq + 100",
        "DELETE FROM {table}",
        "DELETE FROM {table} WHERE seq = 1",
        "INSERT OR REPLACE INTO {table} SELECT * FROM {table} WHERE seq = 1",
        "REPLACE INTO {table} SELECT * FROM {table}",
        "INSERT OR IGNORE INTO {table} SELECT * FROM {table} WHERE seq = 1",
        "INSERT INTO {table} SELECT * FROM {table} WHERE true ON CONFLICT DO UPDATE SET actor = 'nobody'",
    ],
)
def test_history_and_the_ledger_are_append_only(raw: sqlite3.Connection, table: str, statement: str) -> None:
    refused(raw, statement.format(table=table), f"{table} is append-only")


@pytest.mark.parametrize("table", ["memory_history", "audit_log"])
def test_a_row_is_not_replaced_by_one_that_takes_its_place_in_the_file(
    raw: sqlite3.Connection, table: str
) -> None:
    names = [name for _, name, *_ in raw.execute(f"PRAGMA table_info({table})")]
    # Another key, but the same rowid: where the table has any, "OR REPLACE" would put it in its place.
    columns = ["tenant || 'x'" if name == "tenant" else name for name in names]
    before = stored(raw)
    with pytest.raises(sqlite3.Error, match=r"append-only|no column named rowid"):
        raw.execute(
            f"INSERT OR REPLACE INTO {table} (rowid, {', '.join(names)}) "
            f"SELECT rowid, {', '.join(columns)} FROM {table} WHERE seq = 1"
        )
    assert stored(raw) == before


def test_a_version_that_was_believed_for_no_time_is_refused(raw: sqlite3.Connection) -> None:
    names = [name for _, name, *_ in raw.execute("PRAGMA table_info(memory_history)")]
    columns = ["system_from" if name == "system_to" else name for name in names]
    columns[names.index("id")] = "'intruder'"
    sql = f"INSERT INTO memory_history SELECT {', '.join(columns)} FROM memory_history WHERE seq = 1"
    refused(raw, sql, "CHECK|append-only")


def forged(connection: sqlite3.Connection, table: str, **values: str) -> str:
    """Return what inserts a copy of a table's first row with some columns as SQL says."""
    names = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
    columns = [values.get(name, name) for name in names]
    return f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(columns)} FROM {table} LIMIT 1"


def test_what_was_believed_in_the_past_is_not_forged(raw: sqlite3.Connection) -> None:
    past = {"system_from": f"'{day(0)}'", "system_to": f"'{day(1)}'"}
    refused(raw, forged(raw, "memory_history", id="'intruder'", **past), "append-only")
    refused(raw, forged(raw, "memory_segments", memory_id="'intruder'", **past), "append-only")
    refused(raw, forged(raw, "memory_segments", memory_id="'intruder'", key="'free'", **past), "append-only")
    refused(raw, forged(raw, "audit_log", seq="0"), "append-only")


def test_a_segment_is_not_closed_in_the_past(raw: sqlite3.Connection) -> None:
    for how in ("UPDATE", "UPDATE OR REPLACE", "UPDATE OR IGNORE"):
        sql = f"{how} memory_segments SET system_to = '{day(2)}' WHERE system_to IS NULL AND key = '{KEY}'"
        refused(raw, sql, "not in the past")


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM heads",
        "UPDATE heads SET count = count - 1",
        f"UPDATE heads SET time = '{day(0)}'",
        "UPDATE heads SET tenant = 'other'",
        f"REPLACE INTO heads (tenant, count, hash, time) VALUES ('default', 1, '', '{day(9)}')",
        f"INSERT OR REPLACE INTO heads (tenant, count, hash, time) VALUES ('default', 99, '', '{day(0)}')",
        f"REPLACE INTO heads (rowid, tenant, count, hash, time) VALUES (1, 'other', 99, '', '{day(9)}')",
        f"INSERT INTO heads (tenant, count, hash, time) VALUES ('default', 1, '', '{day(9)}') "
        "ON CONFLICT (tenant) DO UPDATE SET count = 1",
    ],
)
def test_the_head_neither_goes_nor_steps_back(raw: sqlite3.Connection, sql: str) -> None:
    refused(raw, sql, "heads only move on")


def test_a_second_value_is_not_smuggled_in_by_a_lane_of_its_own(raw: sqlite3.Connection) -> None:
    sql = a_segment(day(12), day(15)).replace("'', '2026", "'intruder', '2026", 1)
    assert "'intruder', '2026" in sql
    refused(raw, sql, "do not overlap")
    refused(raw, f"UPDATE memories SET many = 1 WHERE key = '{KEY}'", "cardinality")


async def test_after_all_that_was_refused_the_store_reads_as_before(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        refused(raw, a_segment(day(12), day(15)), "do not overlap")
        refused(raw, "DELETE FROM memory_history", "append-only")
    async with await MemoryStore.init(SQLiteBackend(path), clock=ManualClock(START)) as store:
        spans = [
            ((s.valid_from - START).days, None if s.valid_to is None else (s.valid_to - START).days)
            for s in await store.timeline(KEY)
        ]
        assert spans == [(0, 10), (10, 20), (20, 30), (40, None)]
        assert (await store.verify()).ok
        assert (await store.replay()).identical
