"""Writing one group of units: everything here runs on the database thread, in one transaction."""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from memsmith._canonical import canonical
from memsmith._clock import to_text
from memsmith.backends.sqlite.reading import fetch
from memsmith.backends.sqlite.statements import SQL, head
from memsmith.ledger.record import TOMBSTONE_COLUMNS, memory_record, tombstone_record
from memsmith.temporal import Believed
from memsmith.unit import Settled, Unit, empty_head, settle
from memsmith.wants import Changes, OutcomeRecord


def settle_and_write(
    connection: sqlite3.Connection,
    tenant: str,
    units: Sequence[Unit[Any]],
    now: datetime,
    at: datetime | None = None,
) -> list[Settled[Any]]:
    """Let units decide on what is stored and write what came of it; the caller commits."""
    steps = settle(tenant, units, head(connection, tenant) or empty_head(), now, at=at)
    with _collector_paused(sum(unit.size for unit in units) >= BATCH):
        try:
            wants = next(steps)
            while True:
                wants = steps.send(fetch(connection, tenant, wants, at or now))
        except StopIteration as done:
            settlement = done.value
        write(connection, tenant, settlement.changes)
    settled: list[Settled[Any]] = settlement.settled
    return settled


BATCH: Final = 500
"""From how many proposals on the garbage collector is paused while they are decided and written."""


@contextmanager
def _collector_paused(pause: bool) -> Generator[None, None, None]:
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


def write(connection: sqlite3.Connection, tenant: str, changes: Changes) -> None:
    """Write changes with one statement per table and kind of change."""
    if changes.inserted:
        connection.executemany(SQL["insert_memory"], [columns for _, columns in changes.inserted])
        links = [(tenant, parent, m.id) for m, _ in changes.inserted for parent in m.depends_on]
        if links:
            connection.executemany(SQL["insert_dependency"], links)
    if changes.history:
        versions = [(*memory_record(m).values(), to_text(over)) for m, over in changes.history]
        connection.executemany(SQL["insert_version"], versions)
    if changes.updated:
        connection.executemany(SQL["update_memory"], [memory_record(m) for m in changes.updated])
    # What is no longer believed goes first: at no moment do two segments of a chain overlap.
    if changes.closed:
        ended = [(_time(b.system_to), tenant, *_place(b)) for b in changes.closed]
        connection.executemany(SQL["close_segment"], ended)
    if changes.dropped:
        connection.executemany(SQL["drop_segment"], [(tenant, *_place(b)) for b in changes.dropped])
    if changes.opened:
        connection.executemany(SQL["open_segment"], [_segment_row(tenant, b) for b in changes.opened])
    if changes.tombstones:
        stones = [tombstone_record(stone) for stone in changes.tombstones]
        connection.executemany(SQL["put_tombstone"], [[s[c] for c in TOMBSTONE_COLUMNS] for s in stones])
    if changes.rows:
        connection.executemany(SQL["insert_row"], [(tenant, *row) for row in changes.rows])
        new = changes.head
        assert new.time is not None
        connection.execute(SQL["put_head"], (tenant, new.count, new.hash, to_text(new.time)))
    if changes.outcomes:
        connection.executemany(
            SQL["insert_outcome"], [(tenant, *_outcome_row(record)) for record in changes.outcomes]
        )


def _place(believed: Believed) -> tuple[str, str, str]:
    memory_id, start, since = believed.place
    return memory_id, to_text(start), to_text(since)


def _segment_row(tenant: str, believed: Believed) -> tuple[Any, ...]:
    segment = believed.segment
    begun, order = segment.rank
    return (
        tenant, segment.memory_id, *believed.slot, to_text(segment.start), _time(segment.end), to_text(begun),
        order, to_text(believed.system_from), _time(believed.system_to),
    )  # fmt: skip


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else to_text(moment)


def _outcome_row(record: OutcomeRecord) -> tuple[str, ...]:
    o = record.outcome
    codes, ids = canonical(o.codes).decode(), canonical(o.memory_ids).decode()
    return o.actor, o.verb, o.idempotency_key, codes, ids, record.digest, to_text(o.at)
