"""What reads ask of a database, without asking it: generators that yield statements and receive rows.

A statement is put together from named parts of the backend's .sql files, each with the values it
binds; how parts are joined, and how an answer is fetched, is the backend's. So what is asked, and
when, is said once for all databases.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, TypeVar

from memsmith._canonical import canonical
from memsmith._clock import to_text
from memsmith.backends._rows import (
    first_two,
    head_of,
    outcome_of,
    segment_of,
    stone_of,
    version_of,
)
from memsmith.errors import LedgerError
from memsmith.ledger.record import memory_of_row
from memsmith.protocols import Versions
from memsmith.temporal import Believed
from memsmith.types import Head
from memsmith.wants import Beneath, Loaded, Wants

T = TypeVar("T")

Part: TypeAlias = tuple[str, Sequence[Any]]
"""The name of a piece of SQL and the values it binds."""

Question: TypeAlias = Sequence[Part]
"""A statement in parts."""


class Sought(list[Part]):
    """A statement that is worth little effort: where it takes much, None is its answer."""


Asking: TypeAlias = Generator[Question, Any, T]

NEWEST: Final = 2**62
"""A number above that of every ledger row."""
NEVER: Final = datetime.min.replace(tzinfo=UTC)


def ask(name: str, *values: Any) -> Question:
    """Return a statement that is one named piece."""
    return ((name, values),)


def wanted(name: str, tenant: str, asked: object, tenants: int = 1) -> Question:
    """Return a statement over a JSON list of what is wanted, which binds the tenant so many times."""
    return ((name, (canonical(asked).decode(), *[tenant] * tenants)),)


def head(tenant: str) -> Asking[Head | None]:
    """Find the head record."""
    rows = yield ask("head", tenant)
    return head_of(tenant, rows[0] if rows else None)


def fetch(tenant: str, wants: Wants, now: datetime) -> Asking[Loaded]:
    """Load everything wanted; the number of statements does not depend on how much is."""
    found: list[Any] = []
    if wants.memories:
        found += yield wanted("memories_by_id", tenant, list(wants.memories))
    if wants.values:
        found += yield wanted("memories_by_value", tenant, list(wants.values))
    segments: list[Believed] = []
    if wants.chains or wants.beneath:
        segments = yield from _fetch_chains(tenant, wants, now, found)
    handed_over: Sequence[Any] = ()
    if wants.handed_over is not None:
        after, limit = wants.handed_over
        handed_over = yield ask("memories_handed_over", tenant, after, to_text(now), limit)
    due: Sequence[Any] = ()
    if wants.due:
        due = yield ask("memories_due", tenant, to_text(now), wants.due)
    stones: list[Any] = []
    if wants.blocks:
        stones += yield wanted("tombstones_by_digest", tenant, list(wants.blocks))
    if wants.tombstones:
        stones += yield wanted("tombstones_by_id", tenant, list(wants.tombstones))
    dependants: dict[str, list[str]] = {}
    if wants.dependants:
        for parent, child in (yield wanted("dependants", tenant, list(wants.dependants))):
            dependants.setdefault(parent, []).append(child)
    outcomes: Sequence[Any] = ()
    if wants.outcomes:
        outcomes = yield wanted("outcomes", tenant, list(wants.outcomes))
    return Loaded(
        memories={row[1]: memory_of_row(row) for row in [*found, *due, *handed_over]}.values(),
        tombstones=[stone_of(row) for row in stones],
        outcomes=[outcome_of(row) for row in outcomes],
        dependants=dependants,
        due=[row[1] for row in due],
        handed_over=[row[1] for row in handed_over],
        segments=segments,
    )


def _fetch_chains(tenant: str, wants: Wants, now: datetime, found: list[Any]) -> Asking[list[Believed]]:
    """Find the segments wanted; the memories go to `found`."""
    segments: list[Believed] = []
    if wants.chains:
        asked = [[*slot, to_text(t.moment), to_text(t.above)] for slot, t in wants.chains.items()]
        # Joining takes longer than it spares where little is to be joined: of what begins from now on.
        late = to_text(now)
        for name, some, tenants in (
            ("chain_segments", [one for one in asked if one[-1] >= late], 2),
            ("chain_segments_joined", [one for one in asked if one[-1] < late], 3),
        ):
            if some:
                segments += map(segment_of, (yield wanted(name, tenant, some, tenants)))
        found += yield wanted("memories_by_slot", tenant, asked)
        if first := first_two(segments):
            found += yield wanted("memories_by_id", tenant, first)
    if wants.beneath:
        found += yield wanted("memories_beneath", tenant, [_asked(one) for one in wants.beneath], 2)
    return segments


def _asked(wanted: Beneath) -> list[Any]:
    slot, start, end, besides, pruned = wanted
    last = None if end is None else to_text(end)
    return [slot.kind, slot.scope, slot.key, to_text(start), last, pruned, besides]


def versions(tenant: str, memory_ids: Sequence[str]) -> Asking[Versions]:
    """Find every version of memories, by id and then by time."""
    ids = canonical(list(memory_ids)).decode()
    rows = yield ask("versions", ids, tenant, ids, tenant)
    return sorted(map(version_of, rows), key=lambda v: (v.memory.id, v.system_from))


def seq_at(tenant: str, moment: datetime) -> Asking[int]:
    """Find the last ledger row written by a moment: times rise with the numbers."""
    newest = yield from head(tenant)
    text = to_text(moment)
    low, high = 0, 0 if newest is None else newest.count
    while low < high:
        middle = (low + high + 1) // 2
        rows = yield ask("row_time", tenant, middle)
        if not rows:
            raise LedgerError(f"Ledger row {middle} is missing; ask verify()")
        low, high = (middle, high) if rows[0][0] <= text else (low, middle - 1)
    return low
