"""The floor: what no layer above SQLite can beat.

It writes the very rows a governed run wrote, into tables, indexes and triggers made by the
library's own schema, under the same pragmas and in as many transactions, by bare `sqlite3`.
"""

from __future__ import annotations

import gc
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import orjson

from benchmarks.write.cases import WARM, Durability, WriteCase
from memsmith.backends.sqlite.statements import SQL
from memsmith.ledger.entry import ENCODING

_SCHEMA = files("memsmith.backends.sqlite").joinpath("sql/schema.sql").read_text("utf-8")
_LEDGER = "SELECT tenant, memory_id FROM audit_log WHERE seq > ? ORDER BY seq"
_HEAD = "SELECT tenant, seq, hash, time FROM audit_log WHERE seq > ? ORDER BY seq"

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Written:
    """What a governed run left behind; the three lists go together, one entry per proposal."""

    memories: Rows
    ledger: Rows
    heads: Rows
    """The head record as each ledger row made it."""

    def __getitem__(self, part: slice) -> Written:
        return Written(self.memories[part], self.ledger[part], self.heads[part])

    def groups(self, size: int) -> list[Written]:
        """Cut into transactions."""
        return [self[start : start + size] for start in range(0, len(self.ledger), size)]


def read_back(path: Path, after: int = 0) -> Written:
    """Read what a governed run wrote above a seq, one memory per ledger row."""
    with closing(sqlite3.connect(path)) as connection:
        memory = (
            f"SELECT {', '.join(stored(connection, 'memories'))} FROM memories WHERE tenant = ? AND id = ?"
        )
        for table in ("dependencies", "tombstones", "outcomes"):
            if connection.execute(f"SELECT count(*) FROM {table}").fetchone() != (0,):
                raise RuntimeError(f"expected nothing in {table}, which the floor leaves out")
        return Written(
            [connection.execute(memory, row[:2]).fetchone() for row in connection.execute(_LEDGER, (after,))],
            connection.execute("SELECT * FROM audit_log WHERE seq > ? ORDER BY seq", (after,)).fetchall(),
            connection.execute(_HEAD, (after,)).fetchall(),
        )


def connect(path: Path, durability: Durability, pragmas: Mapping[str, int]) -> sqlite3.Connection:
    """Open a file under the pragmas of the backend."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {durability}")
    for name, value in pragmas.items():
        connection.execute(f"PRAGMA {name} = {value:d}")
    return connection


class Writer:
    """Writes groups of rows, each in one transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._memories = _insert(connection, "memories")
        self._ledger = _insert(connection, "audit_log")

    def write(self, rows: Written) -> None:
        """Write one transaction."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        if len(rows.memories) == 1:
            connection.execute(self._memories, rows.memories[0])
            connection.execute(self._ledger, rows.ledger[0])
        else:
            connection.executemany(self._memories, rows.memories)
            connection.executemany(self._ledger, rows.ledger)
        connection.execute(SQL["put_head"], rows.heads[-1])
        connection.execute("COMMIT")


def stored(connection: sqlite3.Connection, table: str) -> list[str]:
    """Return the columns of a table that are written, the computed ones left out."""
    return [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]


def _insert(connection: sqlite3.Connection, table: str) -> str:
    columns = stored(connection, table)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def write(case: WriteCase, path: Path, written: Written, pragmas: Mapping[str, int]) -> float:
    """Write the rows of a governed run into a fresh file; return the seconds."""
    groups = written[WARM:].groups(case.group)
    with closing(connect(path, case.durability, pragmas)) as connection:
        connection.executescript(_SCHEMA)
        writer = Writer(connection)
        writer.write(written[:WARM])
        gc.collect()
        started = perf_counter()
        for group in groups:
            writer.write(group)
        return perf_counter() - started


def hash_ledger(tenant: str, rows: Rows) -> float:
    """Hash ledger rows already in memory, payload and row each once; return the seconds."""
    gc.collect()
    started = perf_counter()
    for seq, ident, memory, action, before, after, time, actor, payload, salt, digest, previous, _ in rows:
        sha256(bytes.fromhex(salt) + payload.encode()).hexdigest()
        row = {
            "v": ENCODING,
            "tenant": tenant,
            "seq": seq,
            "id": ident,
            "memory_id": memory,
            "action": action,
            "from_status": before,
            "to_status": after,
            "time": time,
            "actor": actor,
            "payload_digest": digest,
            "prev_hash": previous,
        }
        sha256(orjson.dumps(row, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return perf_counter() - started


def sync_micros(path: Path) -> float:
    """Return the median microseconds in which the disk takes 40 KiB, about one proposal's pages."""
    times: list[float] = []
    with path.open("wb", buffering=0) as file:
        for _ in range(100):
            file.write(bytes(40 * 1024))
            started = perf_counter()
            os.fdatasync(file.fileno())
            times.append(perf_counter() - started)
    path.unlink()
    return median(times) * 1e6
