"""How SQLite answers: each hot query by its index, a batch in as many statements as one proposal."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import memsmith
from memsmith import ConfidenceThreshold, MemoryStore, ProposalInput, SQLiteBackend
from memsmith.backends._asking import Question
from memsmith.backends._listing import Few, Way
from memsmith.backends.sqlite.listing import compose, compose_count
from memsmith.backends.sqlite.opening import migrate
from memsmith.backends.sqlite.statements import SQL, joined
from memsmith.protocols import FILTER_COLUMNS, ORDERS, MemoryQuery
from memsmith.types import MemoryStatus, Point


@pytest.fixture(scope="module")
def empty() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection)
        yield connection


def plan(connection: sqlite3.Connection, statement: str) -> list[str]:
    names = re.findall(r":(\w+)", statement)
    values: Any = dict.fromkeys(names) if names else [None] * statement.count("?")
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]


def plans(connection: sqlite3.Connection, statements: list[Question]) -> list[list[str]]:
    return [
        [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
        for sql, values in map(joined, statements)
    ]


MEANT = ("wanted", "asked", "taken", "tail", "marked", "numbered", "(subquery", "given", "CONSTANT ROW")
"""What is meant to be read whole: lists of what is wanted, and what was found so far."""


def scans(steps: list[str]) -> list[str]:
    """Return the steps that read a whole table."""
    whole = [step.removeprefix("SCAN ") for step in steps if step.startswith("SCAN ")]
    return [step for step in whole if not step.startswith(MEANT)]


CHAIN = "tenant=? AND key=? AND scope=? AND kind=?"
PLACE = "tenant=? AND memory_id=? AND valid_from=? AND system_from=?"
CHANGED = "tenant=? AND changed_class=? AND created_at>? AND created_at<?"
HOT = {
    "head": "sqlite_autoindex_heads_1 (tenant=?)",
    "memory": "sqlite_autoindex_memories_1 (tenant=? AND id=?)",
    "memories_by_id": "sqlite_autoindex_memories_1 (tenant=? AND id=?)",
    "memories_by_value": "memories_value (tenant=? AND value_digest=?)",
    "memories_by_slot": f"memories_slot ({CHAIN} AND status=?)",
    "memories_beneath": f"memories_slot ({CHAIN} AND status=? AND valid_from<?)",
    "memories_handed_over": "memories_holding (tenant=? AND id>?)",
    "chain_segments": f"segments_current ({CHAIN} AND lane=? AND valid_from>?)",
    "chain_segments_joined": f"segments_current ({CHAIN} AND lane=? AND valid_from>? AND valid_from<?)",
    "close_segment": f"PRIMARY KEY ({PLACE})",
    "drop_segment": f"PRIMARY KEY ({PLACE})",
    "few_valid": "segments_valid (tenant=? AND class=? AND valid_from>? AND valid_from<?)",
    "few_believed": "segments_believed (tenant=? AND class=? AND system_from>? AND system_from<?)",
    "few_valid_on_key": f"segments_key_valid ({CHAIN} AND class=? AND valid_from>? AND valid_from<?)",
    "few_believed_on_key": f"segments_key_believed ({CHAIN} AND class=? AND system_from>? AND system_from<?)",
    "few_unkeyed": f"memories_changed_unkeyed ({CHANGED})",
    "few_changed": f"memories_changed ({CHANGED})",
    "segments": "PRIMARY KEY (tenant=? AND memory_id=?)",
    "members": f"history_key ({CHAIN})",
    "versions": "sqlite_autoindex_memory_history_1 (tenant=? AND id=?)",
    "row_time": "sqlite_autoindex_audit_log_1 (tenant=? AND seq=?)",
    "memories_due": "memories_due (tenant=? AND expires_at>? AND expires_at<?)",
    "update_memory": "sqlite_autoindex_memories_1 (tenant=? AND id=?)",
    "dependants": "PRIMARY KEY (tenant=? AND parent=?)",
    "tombstones_by_digest": "tombstones_digest (tenant=? AND digest=?)",
    "tombstones_by_id": "sqlite_autoindex_tombstones_1 (tenant=? AND id=?)",
    "tombstones": "sqlite_autoindex_tombstones_1 (tenant=? AND id>?)",
    "outcomes": "PRIMARY KEY (tenant=? AND actor=? AND verb=? AND idempotency_key=?)",
    "ledger": "sqlite_autoindex_audit_log_1 (tenant=? AND seq>?)",
    "audit": "sqlite_autoindex_audit_log_1 (tenant=? AND seq<?)",
    "audit_of_memory": "audit_memory (tenant=? AND memory_id=? AND seq<?)",
}


@pytest.mark.parametrize("name", HOT)
def test_a_hot_query_names_its_index_and_scans_nothing(empty: sqlite3.Connection, name: str) -> None:
    steps = plan(empty, SQL[name])
    assert any(step.endswith(HOT[name]) for step in steps), steps
    assert scans(steps) == []


@pytest.mark.parametrize("name", ["ledger", "audit", "audit_of_memory", "tombstones", "memories_due"])
def test_a_page_comes_in_the_order_of_its_index_without_sorting(empty: sqlite3.Connection, name: str) -> None:
    assert not [step for step in plan(empty, SQL[name]) if "TEMP B-TREE" in step]


@pytest.mark.parametrize(
    ("name", "index"),
    [
        # Where the chain's part begins, and what lies over all of an interval, are one step into an index.
        (
            "chain_segments",
            f"SEARCH first USING INDEX segments_current ({CHAIN} AND lane=? AND valid_from<?)",
        ),
        (
            "memories_beneath",
            f"SEARCH base USING INDEX memories_slot ({CHAIN} AND status=? AND valid_from<?)",
        ),
        ("chain_segments_joined", f"SEARCH m USING INDEX memories_lasting ({CHAIN} AND valid_from>?)"),
        ("memories_handed_over", "SEARCH s USING PRIMARY KEY (tenant=? AND memory_id=?)"),
        ("members", f"SEARCH memories USING INDEX memories_slot ({CHAIN})"),
        ("versions", "SEARCH m USING INDEX sqlite_autoindex_memories_1 (tenant=? AND id=?)"),
        ("versions", "SEARCH a USING INDEX sqlite_autoindex_audit_log_1 (tenant=? AND seq=?)"),
    ],
)
def test_the_inner_parts_of_a_hot_query_go_by_an_index_too(
    empty: sqlite3.Connection, name: str, index: str
) -> None:
    assert index in plan(empty, SQL[name])


LISTS = [
    (MemoryQuery(), "memories_created (tenant=?)"),
    (MemoryQuery(after=("2026", "m")), "memories_created (tenant=? AND (created_at,id)>(?,?))"),
    (MemoryQuery(descending=True), "memories_created (tenant=?)"),
    (MemoryQuery(session_id="s"), "memories_session (tenant=? AND session_id=?)"),
]


@pytest.mark.parametrize(("query", "index"), LISTS)
def test_a_list_page_is_read_in_index_order(
    empty: sqlite3.Connection, query: MemoryQuery, index: str
) -> None:
    (steps,) = plans(empty, compose("t", query))
    assert any(step.endswith(index) for step in steps), steps
    assert not any("TEMP B-TREE" in step for step in steps)


HELD = "SEARCH s USING PRIMARY KEY (tenant=? AND memory_id=? AND valid_from<?)"
OF_THEN = (
    "SEARCH memories USING INDEX sqlite_autoindex_memory_history_1 (tenant=? AND id=? AND system_from<?)"
)
NOW = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
EARLIER = datetime(2026, 2, 1, tzinfo=UTC)
POINTS = [Point(NOW, present=True), Point(EARLIER), Point(NOW, EARLIER), Point(EARLIER, NOW)]


@pytest.mark.parametrize("at", POINTS)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("after", [None, ("2026", "m")])
def test_a_page_at_a_point_is_read_in_index_order_and_what_held_is_found_by_memory(
    empty: sqlite3.Connection, at: Point, descending: bool, after: tuple[Any, str] | None
) -> None:
    halves = plans(empty, compose("t", MemoryQuery(at=at, descending=descending, after=after)))
    assert len(halves) == (1 if at.system_at is None else 2)
    for steps in halves:
        assert HELD in steps
        assert scans(steps) == []
        assert not any("TEMP B-TREE" in step for step in steps), steps
    assert all(OF_THEN in steps for steps in halves[1:])


@pytest.mark.parametrize("at", POINTS)
@pytest.mark.parametrize("columns", [{}, {"id": "m"}, {"session_id": "s"}])
def test_a_count_at_a_point_scans_nothing(
    empty: sqlite3.Connection, at: Point, columns: dict[str, Any]
) -> None:
    for steps in plans(empty, compose_count("t", MemoryQuery(at=at, columns=columns))):
        assert HELD in steps
        assert scans(steps) == []


@pytest.mark.parametrize("at", POINTS)
def test_one_memory_at_a_point_is_found_by_its_id(empty: sqlite3.Connection, at: Point) -> None:
    now, *past = plans(empty, compose("t", MemoryQuery(at=at, columns={"id": "m"}, kind=None)))
    assert "SEARCH memories USING INDEX sqlite_autoindex_memories_1 (tenant=? AND id=?)" in now
    assert all(OF_THEN in steps for steps in past)


@pytest.mark.parametrize("at", [Point(EARLIER), Point(EARLIER, NOW)])
@pytest.mark.parametrize("composed", [compose, compose_count])
def test_the_few_that_can_hold_at_a_point_are_found_by_their_ids(
    empty: sqlite3.Connection, at: Point, composed: Callable[..., list[Question]]
) -> None:
    unkeyed, few, *replaced = plans(
        empty, composed("t", MemoryQuery(at=at), Way(known=Few("[]"), past=Few("[]")))
    )
    assert unkeyed[0].startswith("SEARCH memories USING INDEX memories_unkeyed (tenant=?")
    assert few[0] == "SEARCH memories USING INDEX sqlite_autoindex_memories_1 (tenant=? AND id=?)"
    assert all(steps[0] == OF_THEN for steps in replaced)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("after", [None, ("x", "m")])
@pytest.mark.parametrize("at", [None, *POINTS])
def test_no_list_reads_other_tenants(
    empty: sqlite3.Connection,
    order: str,
    descending: bool,
    after: tuple[Any, str] | None,
    at: Point | None,
) -> None:
    query = MemoryQuery(
        status=MemoryStatus.ACTIVE,
        columns=dict.fromkeys(sorted(FILTER_COLUMNS)),
        paths={("a", "b"): 1},
        order_by=order,
        descending=descending,
        after=after,
        at=at,
    )
    for steps in plans(empty, compose("t", query)):
        assert scans(steps) == []


def test_every_query_can_be_prepared(empty: sqlite3.Connection) -> None:
    for statement in SQL.values():
        # Others are pieces that come after such a start.
        if not statement.startswith(("AND ", "ORDER BY ")):
            assert plan(empty, statement) is not None


# -- names -----------------------------------------------------------------------------------------


def _sources() -> str:
    root = Path(memsmith.__file__).parent / "backends"
    return "\n".join(path.read_text("utf-8") for path in root.rglob("*.py"))


def _composed() -> set[str]:
    wheres = {f"list_where_{name}" for name in {*FILTER_COLUMNS, "content"}}
    pages = {f"list_{part}_{o}_{d}" for part in ("after", "by") for o in ORDERS for d in ("asc", "desc")}
    past = {f"past_{part}_created_at_{d}" for part in ("after", "by") for d in ("asc", "desc")}
    return (
        wheres
        | pages
        | past
        | {f"{what}_{some}" for what in ("list", "count") for some in ("past", "few", "replaced")}
    )


def test_every_named_query_is_used() -> None:
    sources = _sources()
    unused = {name for name in SQL if f'"{name}"' not in sources} - _composed()
    assert unused == set()


def test_every_query_the_code_names_is_there() -> None:
    named = set(re.findall(r'(?<!COMMIT_)SQL\["(\w+)"\]', _sources()))
    assert named | _composed() <= set(SQL)


# -- how many statements ---------------------------------------------------------------------------

seen: list[str] = []


class Counting(sqlite3.Connection):
    """Notes each statement handed over; executemany is one, however many rows it binds."""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        seen.append(sql)
        return super().execute(sql, *values)

    def executemany(self, sql: str, rows: Any) -> sqlite3.Cursor:
        seen.append(sql)
        return super().executemany(sql, rows)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Counting))


def _plain(n: int) -> ProposalInput:
    return ProposalInput({"n": n}, 0.9)


def _varied(n: int) -> ProposalInput:
    content: Any = "never" if n % 7 == 3 else {"n": n % 50}
    key = f"user:{n}/city" if n % 2 else None
    return ProposalInput(
        content, 0.2 if n % 5 == 4 else 0.9, key=key, idempotency_key=f"k{n}" if n % 3 else None
    )


def _superseding(n: int) -> ProposalInput:
    return ProposalInput({"n": n}, 0.9, key=f"user:{n % 7}/city")


async def _statements(path: Path, item: Callable[[int], ProposalInput], size: int) -> Counter[str]:
    async with await MemoryStore.init(SQLiteBackend(path), [ConfidenceThreshold(0.5)]) as store:
        first = await store.propose("never", "s", 0.9)
        await store.reject(first.memory_id)
        seen.clear()
        await store.propose_many([item(n) for n in range(size)], "s")
        return Counter(seen)


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("item", [_plain, _varied, _superseding])
async def test_a_batch_takes_as_many_statements_whatever_its_size(
    tmp_path: Path, item: Callable[[int], ProposalInput]
) -> None:
    small = await _statements(tmp_path / "small.db", item, 20)
    large = await _statements(tmp_path / "large.db", item, 600)
    assert small == large
    assert 0 < small.total() < 15


@pytest.mark.usefixtures("counted")
async def test_concurrent_proposals_share_one_transaction(tmp_path: Path) -> None:
    async with await MemoryStore.init(SQLiteBackend(tmp_path / "m.db")) as store:
        seen.clear()
        await asyncio.gather(*(store.propose({"n": n}, "s", 0.9) for n in range(64)))
    assert seen.count("COMMIT") <= 3
