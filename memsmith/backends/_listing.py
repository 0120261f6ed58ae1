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
from memsmith.backends._asking import Asking, Part, Question, Sought, ask, head
from memsmith.ledger.record import MEMORY_COLUMNS
from memsmith.protocols import MemoryQuery
from memsmith.temporal import BEGINNING, FOREVER
from memsmith.types import Point

ContentValues: TypeAlias = Callable[[tuple[str, ...], Any], Sequence[Any]]
"""The values that `list_where_content` binds for a path and a JSON scalar, as a database wants them."""

FEW: Final = 5_000
"""Up to so many are looked at by their ids: about as long as a walk that meets one in a thousand."""

SPARE: Final = 16
"""How many more than a page are looked at first: a few may hold no longer, or not be asked for."""

EARLIEST: Final = to_text(BEGINNING)
NOW: Final = to_text(FOREVER)
"""No moment lies before the one or after the other, which as belief means what is believed now."""

SLOTS: Final = 8
"""In how many scopes a key is looked for by what covers a point; in more, a walk along it is as short."""

_LONGEST: Final = [(digits, timedelta(seconds=10**digits + 1)) for digits in range(1, 13)]
"""How long what is in a class lasts at most; ten thousand years have twelve digits, in seconds."""

Rows: TypeAlias = Sequence[Any] | None
"""(created_at, id) in the order of a list; None where they are many."""


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
        believed = NOW if query.at.system_at is None else to_text(query.at.system_at)
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
    known_at = at.system_at or last
    # What was superseded or expired by the moment of belief holds at no moment from then on.
    active = known_at is None or known_at <= at.valid_at
    if "id" in query.columns:
        return query, Way(active)
    slots = (yield from _slots(tenant, query)) if _on_key(query) else None
    covering: Rows = None
    if slots or (slots is None and not active):
        covering = yield from _covering(tenant, query, at, slots, page)
    known = _few(covering, page)
    if known is not None and slots:
        return query, Way(active, known, known)
    if at.system_at is None:
        return query, Way(active, known)
    # What had a key then is found by what was effective of it, as far as that was looked for.
    name = "few_changed" if known is None else "few_unkeyed"
    believed = to_text(at.system_at)
    changed = yield from _sought(query, page, name, [_classes(at.system_at), tenant, believed, believed])
    past = changed if known is None else _both(covering, changed, query)
    return query, Way(active, known, _few(past, page))


def _on_key(query: MemoryQuery) -> bool:
    return query.columns.get("key") is not None


def _slots(tenant: str, query: MemoryQuery) -> Asking[list[tuple[str, str]]]:
    """Find the scopes and kinds in which a key is or was; none where they are many."""
    key, scope, kind = query.columns["key"], query.columns.get("scope"), query.kind
    if scope is not None and kind is not None:
        return [(scope, kind)]
    rows = yield ask("slots_on_key", tenant, key, tenant, key, SLOTS + 2)
    slots = [(row[0], row[1]) for row in rows]
    return [] if len(slots) > SLOTS else [s for s in slots if kind in {None, s[1]} and scope in {None, s[0]}]


def _covering(
    tenant: str, query: MemoryQuery, at: Point, slots: list[tuple[str, str]] | None, page: int | None
) -> Asking[Rows]:
    """Find those of which something covers a point, in some slots or everywhere."""
    valid, believed = to_text(at.valid_at), _believed(at)
    names, place = ("few_valid", "few_believed"), [tenant]
    if slots is not None:
        names, place = ("few_valid_on_key", "few_believed_on_key"), [tenant, query.columns["key"]]
    values = [_classes(at.valid_at, slots), *place, valid, valid, believed]
    rows = yield from _sought(query, page, names[0], values)
    if at.system_at is None or rows is None:
        return rows
    values = [_classes(at.system_at, slots), *place, believed, believed, valid, valid]
    return _both(rows, (yield from _sought(query, page, names[1], values)), query)


def _both(some: Rows, others: Rows, query: MemoryQuery) -> Rows:
    if some is None or others is None:
        return None
    return list(heapq.merge(some, others, reverse=query.descending))


def _believed(at: Point) -> str:
    return NOW if at.system_at is None else to_text(at.system_at)


def _sought(query: MemoryQuery, page: int | None, name: str, values: Sequence[Any]) -> Asking[Rows]:
    """Find some of the few, in the order of the list."""
    parts: list[Part] = [(name, values)]
    direction = "desc" if query.descending else "asc"
    if page is not None and query.after is not None:
        parts.append((f"past_after_created_at_{direction}", query.after))
    parts.append((f"past_by_created_at_{direction}", [_most(page) + 1, 0]))
    rows: Rows = yield Sought(parts)
    return rows


def _most(page: int | None) -> int:
    return FEW if page is None else page + SPARE


def _few(rows: Rows, page: int | None) -> Few | None:
    if rows is None or (page is None and len(rows) > FEW):
        return None
    most = _most(page)
    # Several segments of one memory may cover a point: one still believed, one that was.
    return Few(canonical(sorted({row[1] for row in rows[:most]})).decode(), cut=len(rows) > most)


def _classes(moment: datetime, slots: Sequence[tuple[str, str]] | None = None) -> str:
    """Return each class, of each slot, with the earliest start of what is in it and reaches a moment.

    SQLite measures to a millisecond, so a second is given.
    """
    classes: list[tuple[int | None, str]] = [(None, EARLIEST)]
    for digits, longest in _LONGEST:
        try:
            classes.append((digits, to_text(moment - longest)))
        except OverflowError:
            classes.append((digits, EARLIEST))
    if slots is None:
        return canonical(classes).decode()
    return canonical([(*one, *slot) for slot in slots for one in classes]).decode()


def _merged(parts: Sequence[Sequence[Any]], query: MemoryQuery) -> Sequence[Any]:
    """Return the rows that a query asks for out of those its statements found."""
    if len(parts) == 1:
        return parts[0]
    sorted_by, ident = MEMORY_COLUMNS.index(query.order_by), MEMORY_COLUMNS.index("id")
    every = heapq.merge(*parts, key=itemgetter(sorted_by, ident), reverse=query.descending)
    return list(islice(every, query.offset, query.offset + query.limit))
