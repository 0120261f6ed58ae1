"""Lists and counts: statements put together from named parts, and which parts answer soonest.

What holds at a point of the past may be few among many, such as one member of each long chain. Then
the few are found by what covers the point, and looked at by their ids; where they are many, walking
through all in the order of the list meets them soon.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

from memsmith._canonical import canonical
from memsmith._clock import to_text
from memsmith.backends.sqlite.statements import SQL, head
from memsmith.ledger.record import MEMORY_COLUMNS
from memsmith.protocols import MemoryQuery
from memsmith.types import Point

Statement: TypeAlias = tuple[str, list[Any]]
"""SQL and the values it binds."""

FEW: Final = 5_000
"""Up to so many are looked at by their ids: about as long as a walk that meets one in a thousand."""

_AFTER_ALL: Final = "~"
"""A text that comes after every time."""
_LONGEST: Final = 12
"""How many digits ten thousand years have, in seconds."""
_JSON_TYPES: Final = {
    str: ("text", "text"),
    int: ("integer", "real"),
    float: ("integer", "real"),
    type(None): ("null", "null"),
}


class Way(NamedTuple):
    """How a list at a point is found; JSON lists of ids, None for a walk."""

    active: bool = False
    """Whether only ACTIVE memories can hold there."""
    known: str | None = None
    """Which keyed memories can, of those that did not change since."""
    past: str | None = None
    """Which can, of those that did."""


WALK: Final = Way()


def compose(tenant: str, query: MemoryQuery, way: Way = WALK) -> list[Statement]:
    """Return the statements of a list; each is in its order, and no longer than it with its offset."""
    direction = "desc" if query.descending else "asc"
    by = f"{query.order_by}_{direction}"
    statements: list[Statement] = []
    starts = _starts(tenant, query, "list", way)
    limits = [query.limit, query.offset] if len(starts) == 1 else [query.limit + query.offset, 0]
    for start, values, walked in starts:
        parts, given = _conditions(query, way)
        # A walk through history is in the order in which memories were created, not their versions.
        prefix = "past" if walked and query.order_by == "created_at" else "list"
        if query.after is not None:
            parts.append(SQL[f"{prefix}_after_{by}"])
            given += query.after
        parts.append(SQL[f"{prefix}_by_{by}"])
        statements.append(("\n".join([start, *parts]), [*values, *given, *limits]))
    return statements


def compose_count(tenant: str, query: MemoryQuery, way: Way = WALK) -> list[Statement]:
    """Return the statements whose answers add up to the number of memories a query finds."""
    statements: list[Statement] = []
    for start, values, _ in _starts(tenant, query, "count", way):
        parts, given = _conditions(query, way)
        statements.append(("\n".join([start, *parts]), values + given))
    return statements


def _starts(tenant: str, query: MemoryQuery, name: str, way: Way) -> list[tuple[str, list[Any], bool]]:
    """Return how the statements of a query begin, and whether each walks through history."""
    believed = None if query.at is None or query.at.system_at is None else to_text(query.at.system_at)
    known = "" if believed is None else "\n" + SQL["list_known"]
    since = [] if believed is None else [believed, believed]
    starts: list[tuple[str, list[Any], bool]] = []
    if way.known is None:
        starts.append((SQL[name] + known, [tenant, *since], False))
    else:
        unkeyed = "\n".join([SQL[name], SQL["list_unkeyed"]])
        starts.append((unkeyed + known, [tenant, *since], False))
        starts.append((SQL[f"{name}_few"] + known, [tenant, way.known, *since], False))
    if believed is not None and way.past is None:
        starts.append((SQL[f"{name}_past"], [tenant, *[believed] * 4], True))
    elif believed is not None:
        starts.append((SQL[f"{name}_replaced"], [tenant, way.past, *since], False))
    return starts


def _conditions(query: MemoryQuery, way: Way) -> tuple[list[str], list[Any]]:
    parts: list[str] = []
    values: list[Any] = []
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
    if query.at is not None and query.at.present:
        parts.append(SQL["list_present"])
        values += [to_text(query.at.valid_at)] * 7
    elif query.at is not None:
        if way.active:
            parts.append(SQL["list_active"])
        parts.append(SQL["list_at"])
        moment = to_text(query.at.valid_at)
        believed = _AFTER_ALL if query.at.system_at is None else to_text(query.at.system_at)
        values += [moment] * 7 + [believed] * 2
    return parts, values


def found(
    connection: sqlite3.Connection,
    composed: Callable[[str, MemoryQuery, Way], list[Statement]],
    tenant: str,
    query: MemoryQuery,
) -> list[list[Any]]:
    """Return the rows that the statements of a query find, all of them at one state of the database."""
    within = connection.in_transaction
    if query.at is not None and not within:
        connection.execute("BEGIN")
    try:
        query, way = _way(connection, tenant, query)
        return [connection.execute(sql, values).fetchall() for sql, values in composed(tenant, query, way)]
    finally:
        if connection.in_transaction and not within:
            connection.execute("COMMIT")


def _way(connection: sqlite3.Connection, tenant: str, query: MemoryQuery) -> tuple[MemoryQuery, Way]:
    """Return how a query is best answered, and the query with the moment that counts."""
    at = query.at
    if at is None:
        return query, WALK
    newest = head(connection, tenant)
    last = None if newest is None else newest.time
    if at.present:
        if last is not None and last > at.valid_at:
            query = replace(query, at=replace(at, valid_at=last))
        return query, WALK
    believed = at.system_at or last
    # What was superseded or expired by the moment of belief holds at no moment from then on.
    active = believed is None or believed <= at.valid_at
    if "id" in query.columns:
        return query, Way(active)
    known = None if active else _known(connection, tenant, at)
    return query, Way(active, known, _past(connection, tenant, at))


def _known(connection: sqlite3.Connection, tenant: str, at: Point) -> str | None:
    """Return the ids of those of which something covers a point, or None if they are many."""
    valid = to_text(at.valid_at)
    believed = _AFTER_ALL if at.system_at is None else to_text(at.system_at)
    ids = _ids(connection, "few_valid", at.valid_at, tenant, valid, valid, believed)
    if at.system_at is not None:
        ids += _ids(connection, "few_believed", at.system_at, tenant, believed, believed, valid, valid)
    return _listed(ids)


def _past(connection: sqlite3.Connection, tenant: str, at: Point) -> str | None:
    """Return the ids of those that changed since a moment of belief, or None if they are many."""
    if at.system_at is None:
        return None
    believed = to_text(at.system_at)
    return _listed(_ids(connection, "few_changed", at.system_at, tenant, believed, believed))


def _ids(connection: sqlite3.Connection, name: str, moment: datetime, *values: object) -> list[str]:
    rows = connection.execute(SQL[name], (_classes(moment), *values, FEW + 1)).fetchall()
    return [row[0] for row in rows]


def _listed(ids: list[str]) -> str | None:
    return canonical(sorted(set(ids))).decode() if len(ids) <= FEW else None


def _classes(moment: datetime) -> str:
    """Return each class with the earliest start of what is in it and reaches a moment.

    SQLite measures to a millisecond, so a second is given.
    """
    classes: list[list[Any]] = [[None, ""]]
    for digits in range(1, _LONGEST + 1):
        longest = timedelta(seconds=10**digits + 1)
        try:
            classes.append([digits, to_text(moment - longest)])
        except OverflowError:
            classes.append([digits, ""])
    return canonical(classes).decode()


def merged(parts: Sequence[Sequence[Any]], query: MemoryQuery) -> Sequence[Any]:
    """Return the rows that a query asks for out of those its statements found."""
    if len(parts) == 1:
        return parts[0]
    sorted_by, ident = MEMORY_COLUMNS.index(query.order_by), MEMORY_COLUMNS.index("id")
    every = heapq.merge(*parts, key=itemgetter(sorted_by, ident), reverse=query.descending)
    return list(islice(every, query.offset, query.offset + query.limit))
