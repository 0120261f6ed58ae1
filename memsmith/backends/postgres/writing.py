"""Writing one group of units: everything here happens in one transaction that the caller ends."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from memsmith._clock import next_time
from memsmith.backends._asking import fetch
from memsmith.backends._putting import BATCH, collector_paused, puts
from memsmith.backends._rows import head_of
from memsmith.backends.postgres.statements import COMMIT_SQL, SQL, answer
from memsmith.types import Head
from memsmith.unit import Settled, Unit, empty_head, settle
from memsmith.wants import Changes

if TYPE_CHECKING:
    from memsmith.backends.postgres.statements import Connection


class Entered(NamedTuple):
    """What a transaction finds when it has the tenant's turn."""

    head: Head | None
    position: str
    """Of the server's log: all that can be read lies before it."""


async def enter(connection: Connection, tenant: str, patience: float) -> Entered:
    """Take the tenant's turn until the transaction ends."""
    row = await connection.fetchrow(COMMIT_SQL["enter"], tenant, str(round(patience * 1000)))
    assert row is not None, "a function without rows to return returns one"
    return Entered(None if row[0] is None else head_of(tenant, row), row[3])


async def settle_and_write(
    connection: Connection,
    tenant: str,
    units: Sequence[Unit[Any]],
    head: Head | None,
    now: datetime,
    at: datetime | None = None,
) -> tuple[list[Settled[Any]], bool]:
    """Let units decide on what is stored and write what came of it; tell whether it was anything."""
    newest = head or empty_head()
    # What is due is due by the time that will be written, which a clock may be behind.
    moment = at or next_time(now, newest.time)
    steps = settle(tenant, units, newest, moment, at=at)
    with collector_paused(sum(unit.size for unit in units) >= BATCH):
        try:
            wants = next(steps)
            while True:
                wants = steps.send(await answer(connection, fetch(tenant, wants, moment)))
        except StopIteration as done:
            settlement = done.value
        await write(connection, tenant, settlement.changes)
    return settlement.settled, bool(settlement.changes)


async def write(connection: Connection, tenant: str, changes: Changes) -> None:
    """Write changes with one statement per table and kind of change, whatever their number."""
    for name, rows in puts(tenant, changes):
        tuples = [row.values() for row in rows] if name == "update_memory" else rows
        await connection.execute(SQL[name], *map(list, zip(*tuples, strict=True)))
