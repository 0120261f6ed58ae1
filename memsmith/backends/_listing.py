"""Lists and counts: statements put together from named parts, and which parts answer soonest.

What holds at a point of the past may be few among many, such as one member of each long chain. Then
the few are found by what covers the point, and looked at by their ids; where they are many, walking
through all in the order of the list meets them soon.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

from memsmith._canonical import canonical
from memsmith._clock import to_text
from memsmith.backends._asking import Asking, Part, Question, ask, head
from memsmith.ledger.record import MEMORY_COLUMNS
from memsmith.protocols import MemoryQuery
from memsmith.types import Point

ContentValues: TypeAlias = Callable[[tuple[str, ...], Any], Sequence[Any]]
"""The values that `list_where_content` binds for a path and a JSON scalar, as a database wants them."""

FEW: Final = 5_000
"""Up to so many are looked at by their ids: about as long as a walk that meets one in a thousand."""

AFTER_ALL: Final = "~"
"""A text that comes after every time."""
_LONGEST: Final = 12
"""How many digits ten thousand years have, in seconds."""


class Way(NamedTuple):
    """How a list at a point is found; JSON lists of ids, None for a walk."""

    active: bool = False
    """Whether only ACTIVE memories can hold there."""
    known: str | None = None
    """Which keyed memories can, of those that did not change since."""
    past: str | None = None
    """Which can, of those that did."""


WALK: Final = Way()


def compose(tenant: str, query: MemoryQuery, way: Way, content_values: ContentValues) -> list[Question]:
    """Return the statements of a list; each is in its order, and no longer than it with its offset."""
    direction = "desc" if query.descending else "asc"
    by = f"{query.order_by}_{direction}"
    statements: list[Question] = []
    starts = _starts(tenant, query, "list", way)
    limits = [query.limit, query.offset] if len(starts) == 1 else [query.limit + query.offset, 0]
    for start, walked in starts:
        parts = [*start, *_conditions(query, way, content_values)]
        # A walk through history is in the order in which memories were created, not their versions.
        prefix = "past" if walked and query.order_by == "created_at" else "list"
        if query.after is not None:
            parts.append((f"{prefix}_after_{by}", query.after))
        parts.append((f"{prefix}_by_{by}", limits))
        statements.append(parts)
    return statements


def compose_count(tenant: str, query: MemoryQuery, way: Way, content_values: ContentValues) -> list[Question]:
    """Return the statements whose answers add up to the number of memories a query finds."""
    return [
        [*start, *_conditions(query, way, content_values)]
        for start, _ in _starts(tenant, query, "count", way)
    ]


def _starts(tenant: str, query: MemoryQuery, name: str, way: Way) -> list[tuple[list[Part], bool]]:
    """Return how the statements of a query begin, and whether each walks through history."""
    believed = None if query.at is None or query.at.system_at is None else to_text(query.at.system_at)
    known: list[Part] = [] if believed is None else [("list_known", [believed, believed])]
    starts: list[tuple[list[Part], bool]] = []
    if way.known is None:
        starts.append(([(name, [tenant]), *known], False))
    else:
        starts.append(([(name, [tenant]), ("list_unkeyed", []), *known], False))
        starts.append(([(f"{name}_few", [tenant, way.known]), *known], False))
    if believed is not None and way.past is None:
        starts.append(([(f"{name}_past", [tenant, *[believed] * 4])], True))
    elif believed is not None:
        starts.append(([(f"{name}_replaced", [tenant, way.past, believed, believed])], False))
    return starts


def _conditions(query: MemoryQuery, way: Way, content_values: ContentValues) -> list[Part]:
    fixed = {
        "status": None if query.status is None else query.status.value,
        "session_id": query.session_id,
        "kind": query.kind,
    }
    wanted = [(name, value) for name, value in fixed.items() if value is not None]
    parts: list[Part] = [(f"list_where_{name}", [v]) for name, v in [*wanted, *query.columns.items()]]
    parts += [("list_where_content", content_values(path, value)) for path, value in query.paths.items()]
    if query.at is not None and query.at.present:
        parts.append(("list_present", [to_text(query.at.valid_at)] * 7))
    elif query.at is not None:
        if way.active:
            parts.append(("list_active", []))
        believed = AFTER_ALL if query.at.system_at is None else to_text(query.at.system_at)
        parts.append(("list_at", [to_text(query.at.valid_at)] * 7 + [believed] * 2))
    return parts


Composed: TypeAlias = Callable[[str, MemoryQuery, Way], list[Question]]


def found(composed: Composed, tenant: str, query: MemoryQuery) -> Asking[list[Sequence[Any]]]:
    """Find the rows of the statements of a query; to be asked at one state of the database."""
    query, way = yield from _way(tenant, query)
    parts: list[Sequence[Any]] = []
    for question in composed(tenant, query, way):
        parts.append((yield question))
    return parts


def _way(tenant: str, query: MemoryQuery) -> Asking[tuple[MemoryQuery, Way]]:
    """Find how a query is best answered, and the query with the moment that counts."""
    at = query.at
    if at is None:
        return query, WALK
    newest = yield from head(tenant)
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
    known = None if active else (yield from _known(tenant, at))
    return query, Way(active, known, (yield from _past(tenant, at)))


def _known(tenant: str, at: Point) -> Asking[str | None]:
    """Find the ids of those of which something covers a point, or None if they are many."""
    valid = to_text(at.valid_at)
    believed = AFTER_ALL if at.system_at is None else to_text(at.system_at)
    ids = yield from _ids("few_valid", at.valid_at, tenant, valid, valid, believed)
    if at.system_at is not None:
        ids += yield from _ids("few_believed", at.system_at, tenant, believed, believed, valid, valid)
    return _listed(ids)


def _past(tenant: str, at: Point) -> Asking[str | None]:
    """Find the ids of those that changed since a moment of belief, or None if they are many."""
    if at.system_at is None:
        return None
    believed = to_text(at.system_at)
    return _listed((yield from _ids("few_changed", at.system_at, tenant, believed, believed)))


def _ids(name: str, moment: datetime, *values: object) -> Asking[list[str]]:
    rows = yield ask(name, _classes(moment), *values, FEW + 1)
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
