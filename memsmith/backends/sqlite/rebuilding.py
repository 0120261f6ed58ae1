"""Filling what a migration added, from the ledger: audit and recovery are one mechanism."""

from __future__ import annotations

import sqlite3

from memsmith.backends.sqlite.reading import scan
from memsmith.backends.sqlite.statements import SQL, head
from memsmith.backends.sqlite.writing import write
from memsmith.ledger.record import memory_record
from memsmith.ledger.replay import Replay
from memsmith.types import Memory
from memsmith.unit import empty_head
from memsmith.wants import Changes

CHUNK = 1000


def rebuild(connection: sqlite3.Connection) -> None:
    """Write the history and the segments of every tenant; runs inside the migration's transaction."""
    for (tenant,) in connection.execute("SELECT tenant FROM heads").fetchall():
        replay = Replay(tenant)
        after: int | None = 0
        while after is not None:
            after = scan(connection, tenant, after, CHUNK, replay.feed)
        changes = Changes(
            inserted=[],
            updated=[],
            rows=[],
            tombstones=[],
            outcomes=[],
            head=head(connection, tenant) or empty_head(),
            history=replay.history,
            opened=replay.segments,
        )
        write(connection, tenant, changes)
        connection.executemany(SQL["date_memory"], map(_dates, replay.memories.values()))


def _dates(memory: Memory) -> tuple[object, ...]:
    record = memory_record(memory)
    return record["asserted_order"], record["system_from"], record["tenant"], record["id"]
