"""Reads over one SQLite connection: each a single hop to its thread."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from operator import index
from typing import Any, Final, TypeVar

import orjson

from memsmith._canonical import canonical
from memsmith._clock import from_text, to_text
from memsmith.backends._sql import load_queries
from memsmith.errors import LedgerError
from memsmith.ledger.entry import Row
from memsmith.ledger.record import TOMBSTONE_COLUMNS, memory_of_row, tombstone_of
from memsmith.protocols import Memories, MemoryQuery, Rows, Tombstones
from memsmith.types import Head, Memory, Outcome, Tombstone
from memsmith.wants import Loaded, OutcomeKey, OutcomeRecord, Wants

T = TypeVar("T")

SQL: Final = load_queries("memsmith.backends.sqlite")
_NEWEST: Final = 2**62
_PIECE: Final = 100
_row: Final[Callable[[Any], Row]] = partial(tuple.__new__, Row)  # pyright: ignore[reportUnknownMemberType]  # Row._make without its check
_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_JSON_TYPES: Final = {
    str: ("text", "text"),
    int: ("integer", "real"),
    float: ("integer", "real"),
    type(None): ("null", "null"),
}


def fetch(connection: sqlite3.Connection, tenant: str, wants: Wants, now: datetime) -> Loaded:
    """Load everything wanted; the number of statements does not depend on how much is."""

    def rows(name: str, wanted: object) -> list[Any]:
        return connection.execute(SQL[name], (canonical(wanted).decode(), tenant)).fetchall()

    found: list[Any] = []
    if wants.memories:
        found += rows("memories_by_id", list(wants.memories))
    if wants.values:
        found += rows("memories_by_value", list(wants.values))
    if wants.slots:
        found += rows("memories_by_slot", list(wants.slots))
    due: list[Any] = []
    if wants.due:
        due = connection.execute(SQL["memories_due"], (tenant, to_text(now), wants.due)).fetchall()
    stones: list[Any] = []
    if wants.blocks:
        stones += rows("tombstones_by_digest", list(wants.blocks))
    if wants.tombstones:
        stones += rows("tombstones_by_id", list(wants.tombstones))
    dependants: dict[str, list[str]] = {}
    if wants.dependants:
        for parent, child in rows("dependants", list(wants.dependants)):
            dependants.setdefault(parent, []).append(child)
    return Loaded(
        memories={row[1]: memory_of_row(row) for row in found + due}.values(),
        tombstones=[_tombstone(row) for row in stones],
        outcomes=[_outcome(row) for row in rows("outcomes", list(wants.outcomes))] if wants.outcomes else (),
        dependants=dependants,
        due=[row[1] for row in due],
    )


def _tombstone(row: Any) -> Tombstone:
    return tombstone_of(dict(zip(TOMBSTONE_COLUMNS, row, strict=True)))


def _outcome(row: Any) -> OutcomeRecord:
    actor, verb, key, codes, ids, digest, at = row
    outcome = Outcome(verb, key, actor, tuple(orjson.loads(codes)), tuple(orjson.loads(ids)), from_text(at))
    return OutcomeRecord(outcome, digest)


def head(connection: sqlite3.Connection, tenant: str) -> Head | None:
    """Return the head record."""
    row = connection.execute(SQL["head"], (tenant,)).fetchone()
    try:
        return None if row is None else Head(index(row[0]), row[1], from_text(row[2]))
    except (TypeError, ValueError) as error:
        raise LedgerError(f"The head record of tenant {tenant!r} was damaged: {error}") from error


def ledger(connection: sqlite3.Connection, tenant: str, after: int, limit: int) -> list[Any]:
    """Return ledger rows; text that is not UTF-8 comes with surrogates, for verification to stumble on."""
    values = (tenant, after, limit)
    try:
        return connection.execute(SQL["ledger"], values).fetchall()
    except sqlite3.OperationalError as error:
        if "decode" not in str(error):
            raise
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    try:
        return connection.execute(SQL["ledger"], values).fetchall()
    finally:
        connection.text_factory = str


def scan(
    connection: sqlite3.Connection, tenant: str, after: int, limit: int, visit: Callable[[Rows], object]
) -> int | None:
    """Hand ledger rows to `visit` in pieces small enough to stay in a core's cache."""
    last: int | None = None
    while limit > 0 and (rows := ledger(connection, tenant, after, min(_PIECE, limit))):
        visit(list(map(_row, rows)))
        last = after = rows[-1][0]
        limit -= len(rows)
    return last


def compose(tenant: str, query: MemoryQuery) -> tuple[str, list[Any]]:
    """Return the statement of a list and its values, put together from named parts alone."""
    parts = [SQL["list"]]
    values: list[Any] = [tenant]
    fixed = {
        "status": None if query.status is None else query.status.value,
        "session_id": query.session_id,
        "kind": query.kind,
    }
    wanted = [(name, value) for name, value in fixed.items() if value is not None]
    for name, value in [*wanted, *query.columns.items()]:
        parts.append(SQL[f"list_where_{name}"])
        values.append(value)
    for path, value in query.paths.items():
        parts.append(SQL["list_where_content"])
        at = "$" + "".join(f'."{segment}"' for segment in path)
        kinds = (str(value).lower(),) * 2 if isinstance(value, bool) else _JSON_TYPES[type(value)]
        values += [at, value, at, *kinds]
    direction = "desc" if query.descending else "asc"
    if query.after is not None:
        parts.append(SQL[f"list_after_{query.order_by}_{direction}"])
        values += query.after
    parts.append(SQL[f"list_by_{query.order_by}_{direction}"])
    values += [query.limit, query.offset]
    return "\n".join(parts), values


class SQLiteReads(ABC):
    """The reads of the backend protocol over any way to reach a connection."""

    @abstractmethod
    async def _hop(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function on a database thread."""

    async def fetch(self, tenant: str, wants: Wants, now: datetime) -> Loaded:
        return await self._hop(lambda connection: fetch(connection, tenant, wants, now))

    async def get(self, tenant: str, memory_id: str) -> Memory | None:
        row: Any = await self._hop(lambda c: c.execute(SQL["memory"], (tenant, memory_id)).fetchone())
        return None if row is None else memory_of_row(row)

    async def list(self, tenant: str, query: MemoryQuery) -> Memories:
        statement, values = compose(tenant, query)
        rows = await self._hop(lambda c: c.execute(statement, values).fetchall())
        return [memory_of_row(row) for row in rows]

    async def audit(self, tenant: str, memory_id: str | None, limit: int, before: int | None) -> Rows:
        bounds = (_NEWEST if before is None else before, limit)
        name, values = (
            ("audit", (tenant, *bounds))
            if memory_id is None
            else ("audit_of_memory", (tenant, memory_id, *bounds))
        )
        rows = await self._hop(lambda c: c.execute(SQL[name], values).fetchall())
        return list(map(_row, rows))

    async def ledger(self, tenant: str, after: int, limit: int) -> Rows:
        rows = await self._hop(lambda connection: ledger(connection, tenant, after, limit))
        return list(map(_row, rows))

    async def scan(self, tenant: str, after: int, limit: int, visit: Callable[[Rows], object]) -> int | None:
        return await self._hop(lambda connection: scan(connection, tenant, after, limit, visit))

    async def head(self, tenant: str) -> Head | None:
        return await self._hop(lambda connection: head(connection, tenant))

    async def tombstones(self, tenant: str, *, lifted: bool, after: str, limit: int) -> Tombstones:
        rows = await self._hop(
            lambda c: c.execute(SQL["tombstones"], (tenant, after, lifted, limit)).fetchall()
        )
        return [_tombstone(row) for row in rows]

    async def outcome(self, tenant: str, key: OutcomeKey) -> OutcomeRecord | None:
        loaded = await self._hop(lambda c: fetch(c, tenant, Wants(outcomes={key}), _NEVER))
        return next(iter(loaded.outcomes), None)
