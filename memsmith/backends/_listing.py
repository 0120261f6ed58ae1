"""Lists and counts: statements put together from named parts, and which parts answer soonest.

What holds at a point of the past may be few among many, such as one member of each long chain. Then
the few are found by what covers the point, in the order of the list, and as many as make a page are
looked at by their ids; where they are many, walking through all in that order meets them soon.
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
from memsmith.backends._asking import Asking, Part, Question, Sought, head
from memsmith.ledger.record import MEMORY_COLUMNS
from memsmith.protocols import MemoryQuery
from memsmith.types import Point

ContentValues: TypeAlias = Callable[[tuple[str, ...], Any], Sequence[Any]]
"""The values that `list_where_content` binds for a path and a JSON scalar, as a database wants them."""

FEW: Final = 5_000
"""Up to so many are looked at by their ids: about as long as a walk that meets one in a thousand."""

SPARE: Final = 16
"""How many more than a page are looked at first: a few may hold no longer, or not be asked for."""

AFTER_ALL: Final = "~"
"""A text that comes after every time."""
_LONGEST: Final = 12
"""How many digits ten thousand years have, in seconds."""


class Few(NamedTuple):
    """Which memories can hold at a point."""

    ids: str
    """A JSON list."""
    cut: bool = False
    """Whether there are more, all of which come later in the list."""


class Way(NamedTuple):
    """How a list at a point is found; None stands for a walk."""

    active: bool = False
    """Whether only ACTIVE memories can hold there."""
    known: Few | None = None
    """Which keyed memories can, of those that did not change since."""
    past: Few | None = None
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
        if not _on_key(query):
            starts.append(([(name, [tenant]), ("list_unkeyed", []), *known], False))
        starts.append(([(f"{name}_few", [tenant, way.known.ids]), *known], False))
    if believed is None:
        return starts
    if way.past is None:
        starts.append(([(f"{name}_past", [tenant, *[believed] * 4])], True))
    else:
        starts.append(([(f"{name}_replaced", [tenant, way.past.ids, believed, believed])], False))
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


def listed(composed: Composed, tenant: str, query: MemoryQuery) -> Asking[Sequence[Any]]:
    """Find the rows of a list; to be asked at one state of the database."""
    # In no other order than that of creation, which all versions share, are the few found.
    page = query.limit + query.offset if query.order_by == "created_at" else None
    while True:
        asked, way = yield from _way(tenant, query, page)
        parts = yield from _answers(composed(tenant, asked, way))
        if page is None or not _cut_short(asked, way, parts, page):
            return _merged(parts, query)
        page = None


def counted(composed: Composed, tenant: str, query: MemoryQuery) -> Asking[int]:
    """Find how many a list would have; to be asked at one state of the database."""
    query, way = yield from _way(tenant, query, None)
    parts = yield from _answers(composed(tenant, query, way))
    return sum(rows[0][0] for rows in parts)


def _answers(questions: Sequence[Question]) -> Asking[list[Sequence[Any]]]:
    parts: list[Sequence[Any]] = []
    for question in questions:
        parts.append((yield question))
    return parts


def _cut_short(query: MemoryQuery, way: Way, parts: Sequence[Sequence[Any]], page: int) -> bool:
    """Return whether a statement found no page among those it looked at, and there are more."""
    looked_at: list[Few | None] = [way.known]
    if way.known is not None and not _on_key(query):
        looked_at.insert(0, None)
    if query.at is not None and query.at.system_at is not None:
        looked_at.append(way.past)
    return any(
        few is not None and few.cut and len(rows) < page for few, rows in zip(looked_at, parts, strict=True)
    )


def _way(tenant: str, query: MemoryQuery, page: int | None) -> Asking[tuple[MemoryQuery, Way]]:
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
    if _on_key(query):
        few = yield from _few_on_key(tenant, query, at, page)
        return query, Way(active, few, few)
    known = None if active else (yield from _known(tenant, query, at, page))
    past = None if at.system_at is None else (yield from _past(tenant, query, at.system_at, page))
    return query, Way(active, known, past)


def _on_key(query: MemoryQuery) -> bool:
    return query.columns.get("key") is not None


def _few_on_key(tenant: str, query: MemoryQuery, at: Point, page: int | None) -> Asking[Few | None]:
    """Find those that hold one key at a point."""
    valid, believed = to_text(at.valid_at), _believed(at)
    parts: list[Part] = [("few_on_key", [tenant, query.columns["key"], valid, valid, believed, believed])]
    slot = (("few_in_scope", query.columns.get("scope")), ("few_of_kind", query.kind))
    parts += [(name, [value]) for name, value in slot if value is not None]
    return _few((yield from _sought(query, page, *parts)), page)


def _known(tenant: str, query: MemoryQuery, at: Point, page: int | None) -> Asking[Few | None]:
    """Find those of which something covers a point."""
    valid, believed = to_text(at.valid_at), _believed(at)
    values = [_classes(at.valid_at), tenant, valid, valid, believed]
    rows = yield from _sought(query, page, ("few_valid", values))
    if at.system_at is not None and rows is not None:
        values = [_classes(at.system_at), tenant, believed, believed, valid, valid]
        more = yield from _sought(query, page, ("few_believed", values))
        rows = None if more is None else list(heapq.merge(rows, more, reverse=query.descending))
    return _few(rows, page)


def _past(tenant: str, query: MemoryQuery, believed: datetime, page: int | None) -> Asking[Few | None]:
    """Find those that changed since a moment of belief."""
    values = [_classes(believed), tenant, to_text(believed), to_text(believed)]
    return _few((yield from _sought(query, page, ("few_changed", values))), page)


def _believed(at: Point) -> str:
    return AFTER_ALL if at.system_at is None else to_text(at.system_at)


def _sought(query: MemoryQuery, page: int | None, *start: Part) -> Asking[Sequence[Any] | None]:
    """Find some of the few, (created_at, id) in the order of the list; None where they are many."""
    parts = list(start)
    direction = "desc" if query.descending else "asc"
    if page is not None and query.after is not None:
        parts.append((f"past_after_created_at_{direction}", query.after))
    parts.append((f"past_by_created_at_{direction}", [_most(page) + 1, 0]))
    rows: Sequence[Any] | None = yield Sought(parts)
    return rows


def _most(page: int | None) -> int:
    return FEW if page is None else page + SPARE


def _few(rows: Sequence[Any] | None, page: int | None) -> Few | None:
    if rows is None or (page is None and len(rows) > FEW):
        return None
    most = _most(page)
    # Several segments of one memory may cover a point: one still believed, one that was.
    return Few(canonical(sorted({row[1] for row in rows[:most]})).decode(), cut=len(rows) > most)


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


def _merged(parts: Sequence[Sequence[Any]], query: MemoryQuery) -> Sequence[Any]:
    """Return the rows that a query asks for out of those its statements found."""
    if len(parts) == 1:
        return parts[0]
    sorted_by, ident = MEMORY_COLUMNS.index(query.order_by), MEMORY_COLUMNS.index("id")
    every = heapq.merge(*parts, key=itemgetter(sorted_by, ident), reverse=query.descending)
    return list(islice(every, query.offset, query.offset + query.limit))
