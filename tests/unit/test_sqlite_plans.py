"""How SQLite answers: each hot query by its index, a batch in as many statements as one proposal."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import memsmith
from memsmith import ConfidenceThreshold, MemoryStore, ProposalInput, SQLiteBackend
from memsmith.backends.sqlite.opening import migrate
from memsmith.backends.sqlite.reading import SQL, compose
from memsmith.protocols import FILTER_COLUMNS, ORDERS, MemoryQuery
from memsmith.types import MemoryStatus


@pytest.fixture(scope="module")
def empty() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection)
        yield connection


def plan(connection: sqlite3.Connection, statement: str) -> list[str]:
    names = re.findall(r":(\w+)", statement)
    values: Any = dict.fromkeys(names) if names else [None] * statement.count("?")
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]


def scans(steps: list[str]) -> list[str]:
    """Return the steps that read a whole table; the list of what is wanted is meant to be."""
    return [step for step in steps if step.startswith("SCAN") and not step.startswith("SCAN wanted")]


HOT = {
    "head": "sqlite_autoindex_heads_1 (tenant=?)",
    "memory": "sqlite_autoindex_memories_1 (tenant=? AND id=?)",
    "memories_by_id": "sqlite_autoindex_memories_1 (tenant=? AND id=?)",
    "memories_by_value": "memories_value (tenant=? AND value_digest=?)",
    "memories_by_slot": "memories_slot (tenant=? AND key=? AND scope=? AND kind=?)",
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
    steps = plan(empty, compose("t", query)[0])
    assert any(step.endswith(index) for step in steps), steps
    assert not any("TEMP B-TREE" in step for step in steps)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("after", [None, ("x", "m")])
def test_no_list_reads_other_tenants(
    empty: sqlite3.Connection, order: str, descending: bool, after: tuple[Any, str] | None
) -> None:
    query = MemoryQuery(
        status=MemoryStatus.ACTIVE,
        columns=dict.fromkeys(sorted(FILTER_COLUMNS)),
        paths={("a", "b"): 1},
        order_by=order,
        descending=descending,
        after=after,
    )
    steps = plan(empty, compose("t", query)[0])
    assert scans(steps) == []


def test_every_query_can_be_prepared(empty: sqlite3.Connection) -> None:
    for name, statement in SQL.items():
        if not name.startswith("list_"):
            assert plan(empty, statement) is not None


# -- names -----------------------------------------------------------------------------------------


def _sources() -> str:
    root = Path(memsmith.__file__).parent / "backends"
    return "\n".join(path.read_text("utf-8") for path in root.rglob("*.py"))


def _composed() -> set[str]:
    wheres = {f"list_where_{name}" for name in {*FILTER_COLUMNS, "content"}}
    return wheres | {
        f"list_{part}_{o}_{d}" for part in ("after", "by") for o in ORDERS for d in ("asc", "desc")
    }


def test_every_named_query_is_used() -> None:
    sources = _sources()
    unused = {name for name in SQL if f'"{name}"' not in sources} - _composed()
    assert unused == set()


def test_every_query_the_code_names_is_there() -> None:
    named = set(re.findall(r'SQL\["(\w+)"\]', _sources()))
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


async def _statements(path: Path, item: Callable[[int], ProposalInput], size: int) -> Counter[str]:
    async with await MemoryStore.init(SQLiteBackend(path), [ConfidenceThreshold(0.5)]) as store:
        first = await store.propose("never", "s", 0.9)
        await store.reject(first.memory_id)
        seen.clear()
        await store.propose_many([item(n) for n in range(size)], "s")
        return Counter(seen)


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("item", [_plain, _varied])
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
