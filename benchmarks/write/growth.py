"""Whether a proposal costs the same in a large store as in a small one.

Stores of both sizes are filled by bulk with rows of the library's own shape (real ids, digests,
hashes and a chain that verifies) under the real indexes; then both are proposed to in turn.
"""

from __future__ import annotations

import gc
import secrets
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import orjson

from benchmarks.write import floor, ours
from benchmarks.write.content import contents
from memsmith import MemoryStore
from memsmith._canonical import canonical, sha256_hex
from memsmith._clock import to_text
from memsmith._ids import new_id
from memsmith.ledger.entry import SALT_BYTES, Row, payload_digest, row_hash
from memsmith.types import DEFAULT_TENANT

TARGET = 1.3
_CHUNK = 10_000
_SESSIONS = 1000
_BUILD_PRAGMAS = ("journal_mode = OFF", "synchronous = OFF", "cache_size = -262144")


@dataclass
class Growth:
    """Seconds per proposal, one median per round, in the small and in the large store."""

    small: int
    large: int
    ours_small: list[float] = field(default_factory=list[float])
    ours_large: list[float] = field(default_factory=list[float])
    floor_small: list[float] = field(default_factory=list[float])
    floor_large: list[float] = field(default_factory=list[float])

    @property
    def ratio(self) -> float:
        """How many times longer a proposal takes in the large store."""
        return median(self.ours_large) / median(self.ours_small)

    @property
    def floor_ratio(self) -> float:
        """The same for bare sqlite3: what the file itself costs by being large."""
        return median(self.floor_large) / median(self.floor_small)


@dataclass
class Side:
    """One store under measurement, and a bare connection to its file."""

    path: Path
    store: MemoryStore
    connection: sqlite3.Connection
    writer: floor.Writer

    async def propose(self, batch: Sequence[Any]) -> float:
        """Propose one by one; return the median of the seconds each took."""
        times: list[float] = []
        gc.collect()
        for content in batch:
            started = perf_counter()
            result = await self.store.propose(content, ours.SESSION, ours.CONFIDENCE)
            times.append(perf_counter() - started)
            ours.accepted([result])
        return median(times)

    def write(self, count: int) -> float:
        """Write the rows of the last `count` proposals once more, under new names, by bare sqlite3."""
        (last,) = self.connection.execute("SELECT max(seq) FROM audit_log").fetchone()
        again = _renamed(self.connection, floor.read_back(self.path, last - count), last)
        times: list[float] = []
        gc.collect()
        for rows in again.groups(1):
            started = perf_counter()
            self.writer.write(rows)
            times.append(perf_counter() - started)
        return median(times)


async def measure(folder: Path, large: int, rounds: int, count: int, pragmas: Mapping[str, int]) -> Growth:
    """Propose `count` memories to each store per round, in turn, at durability normal."""
    growth = Growth(1000, large)
    async with (
        _filled(folder / "small.db", growth.small, pragmas) as small,
        _filled(folder / "large.db", growth.large, pragmas) as large_side,
    ):
        for number in range(rounds + 1):
            batch = contents(count, 1000 + number)
            measured = (
                await small.propose(batch),
                await large_side.propose(batch),
                small.write(count),
                large_side.write(count),
            )
            if number == 0:  # the first round only warms the caches
                continue
            growth.ours_small.append(measured[0])
            growth.ours_large.append(measured[1])
            growth.floor_small.append(measured[2])
            growth.floor_large.append(measured[3])
    return growth


@asynccontextmanager
async def _filled(path: Path, count: int, pragmas: Mapping[str, int]) -> AsyncIterator[Side]:
    async with ours.opened(path, "normal") as store:
        await ours.fill(store, contents(1, 0))
    _fill(path, count)
    async with ours.opened(path, "normal") as store:
        with closing(floor.connect(path, "normal", pragmas)) as connection:
            yield Side(path, store, connection, floor.Writer(connection))


def _fill(path: Path, count: int) -> None:
    """Multiply the one memory a file holds, and its ledger row, until it holds `count`."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for pragma in _BUILD_PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        connection.row_factory = sqlite3.Row
        columns = ", ".join(floor.stored(connection, "memories"))
        memory = dict(connection.execute(f"SELECT {columns} FROM memories").fetchone())
        first = dict(connection.execute("SELECT * FROM audit_log").fetchone())
        del first["tenant"]
        connection.row_factory = None
        template = Row(**first)
        writer = floor.Writer(connection)
        head = template.hash
        # A microsecond each: they are past when all are written, so what is proposed afterwards is newest.
        began = datetime.fromisoformat(template.time)
        for start in range(1, count, _CHUNK):
            numbers = range(start + 1, min(start + _CHUNK, count) + 1)
            times = [to_text(began + timedelta(microseconds=number)) for number in numbers]
            rows = _multiplied(memory, template, numbers, times, head)
            writer.write(rows)
            head = rows.heads[-1][2]


def _multiplied(
    memory: dict[str, Any], template: Row, numbers: range, times: Sequence[str], head: str
) -> floor.Written:
    assert template.payload is not None
    payload = orjson.loads(template.payload)
    memories: floor.Rows = []
    rows: list[Row] = []
    for number, time, content in zip(numbers, times, contents(len(numbers), -numbers[0]), strict=True):
        text = canonical(content)
        ident, salt = new_id(), secrets.token_hex(SALT_BYTES)
        changed = {
            "content": text.decode(),
            "content_hash": sha256_hex(text),
            "value_digest": secrets.token_hex(32),
            "session_id": f"session-{number % _SESSIONS}",
            "valid_from": time,
        }
        assigned = {
            "id": ident, "created_at": time, "updated_at": time, "seq": number, "asserted_order": number,
            "system_from": time,
        }  # fmt: skip
        memories.append(tuple((memory | changed | assigned).values()))
        said = canonical(payload | {"set": payload["set"] | changed}).decode()
        row = template._replace(
            seq=number, id=new_id(), memory_id=ident, time=time, payload=said, salt=salt,
            payload_digest=payload_digest(salt, said), prev_hash=head,
        )  # fmt: skip
        head = row_hash(DEFAULT_TENANT, row)
        rows.append(row._replace(hash=head))
    return floor.Written(
        memories,
        [(DEFAULT_TENANT, *row) for row in rows],
        [(DEFAULT_TENANT, row.seq, row.hash, row.time) for row in rows],
    )


def _renamed(connection: sqlite3.Connection, rows: floor.Written, last: int) -> floor.Written:
    """Give rows new ids, digests and numbers, so that they can be written a second time."""
    columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(memories)")]
    memories: floor.Rows = []
    ledger: floor.Rows = []
    heads: floor.Rows = []
    for offset, (memory, row, head) in enumerate(
        zip(rows.memories, rows.ledger, rows.heads, strict=True), start=1
    ):
        seq, ident = last + offset, new_id()
        changed = {
            "id": ident, "value_digest": secrets.token_hex(32), "seq": seq, "asserted_order": seq,
        }  # fmt: skip
        memories.append(tuple((dict(zip(columns, memory, strict=True)) | changed).values()))
        ledger.append((row[0], seq, new_id(), ident, *row[4:]))
        # A head never steps back in time.
        heads.append((head[0], seq, head[2], rows.heads[-1][3]))
    return floor.Written(memories, ledger, heads)
