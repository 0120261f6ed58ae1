"""What a group of units writes: one statement per table and kind of change, in an order that holds."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from memsmith._clock import to_text
from memsmith.backends._rows import outcome_row, place_row, segment_row, time_text
from memsmith.ledger.record import TOMBSTONE_COLUMNS, memory_record, tombstone_record
from memsmith.wants import Changes

Put: TypeAlias = tuple[str, Sequence[Any]]
"""The name of a statement and the rows it is run for; those of `update_memory` go by column name."""

BATCH: Final = 500
"""From how many proposals on the garbage collector is paused while they are decided and written."""


def puts(tenant: str, changes: Changes) -> Iterator[Put]:
    """Return what writes changes."""
    if changes.inserted:
        yield "insert_memory", [columns for _, columns in changes.inserted]
        links = [(tenant, parent, m.id) for m, _ in changes.inserted for parent in m.depends_on]
        if links:
            yield "insert_dependency", links
    if changes.history:
        yield "insert_version", [(*memory_record(m).values(), to_text(over)) for m, over in changes.history]
    if changes.updated:
        yield "update_memory", [memory_record(m) for m in changes.updated]
    # What is no longer believed goes first: at no moment do two segments of a chain overlap.
    if changes.closed:
        yield "close_segment", [(time_text(b.system_to), tenant, *place_row(b)) for b in changes.closed]
    if changes.dropped:
        yield "drop_segment", [(tenant, *place_row(b)) for b in changes.dropped]
    if changes.opened:
        yield "open_segment", [segment_row(tenant, b) for b in changes.opened]
    if changes.tombstones:
        stones = [tombstone_record(stone) for stone in changes.tombstones]
        yield "put_tombstone", [tuple(s[c] for c in TOMBSTONE_COLUMNS) for s in stones]
    if changes.rows:
        yield "insert_row", [(tenant, *row) for row in changes.rows]
        new = changes.head
        assert new.time is not None
        yield "put_head", [(tenant, new.count, new.hash, to_text(new.time))]
    if changes.outcomes:
        yield "insert_outcome", [outcome_row(tenant, record) for record in changes.outcomes]


@contextmanager
def collector_paused(pause: bool) -> Generator[None, None, None]:
    """Keep the collector from looking through a batch's objects, all of which live on, time and again.

    That was a quarter of the time spent deciding 10,000 proposals.
    """
    paused = pause and gc.isenabled()
    if paused:
        gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()
