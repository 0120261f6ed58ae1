"""Writing one group of units: everything here runs on the database thread, in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from memsmith._clock import next_time
from memsmith.backends._asking import fetch
from memsmith.backends._putting import BATCH, collector_paused, puts
from memsmith.backends.sqlite.statements import SQL, answer, head
from memsmith.unit import Settled, Unit, empty_head, settle
from memsmith.wants import Changes


def settle_and_write(
    connection: sqlite3.Connection,
    tenant: str,
    units: Sequence[Unit[Any]],
    now: datetime,
    at: datetime | None = None,
) -> list[Settled[Any]]:
    """Let units decide on what is stored and write what came of it; the caller commits."""
    newest = head(connection, tenant) or empty_head()
    # What is due is due by the time that will be written, which a clock may be behind.
    moment = at or next_time(now, newest.time)
    steps = settle(tenant, units, newest, moment, at=at)
    with collector_paused(sum(unit.size for unit in units) >= BATCH):
        try:
            wants = next(steps)
            while True:
                wants = steps.send(answer(connection, fetch(tenant, wants, moment)))
        except StopIteration as done:
            settlement = done.value
        write(connection, tenant, settlement.changes)
    settled: list[Settled[Any]] = settlement.settled
    return settled


def write(connection: sqlite3.Connection, tenant: str, changes: Changes) -> None:
    """Write changes with one statement per table and kind of change."""
    for name, rows in puts(tenant, changes):
        connection.executemany(SQL[name], rows)
