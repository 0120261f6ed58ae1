"""A tenant as JSON Lines: what `export` writes, and how a file is checked before any of it is believed.

One canonical JSON object a line: a header with the counts, every memory, every tombstone, every ledger
row, and a trailer with the head of the chain and the SHA-256 of all lines before it, so that a file that
was cut short is noticed. Memories and rows are in stored form; confidence is a JSON number, whose shortest
form is lossless.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import orjson

from memsmith._canonical import canonical, sha256_hex
from memsmith._clock import from_text, to_text
from memsmith.errors import (
    ArgumentError,
    DamagedRecordError,
    ImportRefusedError,
    InvalidTransitionError,
    LedgerError,
)
from memsmith.ledger.entry import Row, payload_of
from memsmith.ledger.record import (
    MEMORY_COLUMNS,
    TOMBSTONE_COLUMNS,
    memory_of,
    memory_record,
    tombstone_of,
    tombstone_record,
)
from memsmith.ledger.replay import Replay, differing
from memsmith.ledger.verify import ChainVerifier
from memsmith.lifecycle import Action, check
from memsmith.protocols import Reads
from memsmith.store.replaying import every_memory
from memsmith.types import Head, Memory, MemoryStatus, Tombstone
from memsmith.unit import empty_head

FORMAT: Final = 1
CHUNK: Final = 1000
"""How many lines are read, checked or written at a time."""

Lines: TypeAlias = AsyncIterable[bytes] | Iterable[bytes]
Object: TypeAlias = dict[str, Any]

_RECORD: Final = "record"
_STATUSES: Final = frozenset(status.value for status in MemoryStatus)
_BURIALS: Final = ("tombstone", "refused_by", "lifted")


# -- writing --------------------------------------------------------------------------------------


async def exported(storage: Reads, tenant: str, secret_id: str) -> AsyncIterator[bytes]:
    """Yield the lines of a tenant as it was when the first one was asked for.

    Bounded by the head read first, not by a transaction: writers go on, and what they change is told
    from the ledger as it was. Nothing below the head ever changes there.
    """
    head = await storage.head(tenant) or empty_head()
    memories, stones = await _survey(storage, tenant, head.count)
    seal = hashlib.sha256()

    def line(record: str, fields: Object) -> bytes:
        try:
            data = canonical({_RECORD: record, **fields}) + b"\n"
        except TypeError as error:  # text that is not UTF-8 can be put into a table by hand
            raise LedgerError(f"A {record} can't be exported ({error}); ask verify() and replay()") from error
        seal.update(data)
        return data

    counts = {"memories": memories, "tombstones": len(stones), "rows": head.count}
    yield line("header", {"format": FORMAT, "tenant": tenant, "secret_id": secret_id, **counts})
    found = 0
    async for memory in _memories_at(storage, tenant, head.count):
        found += 1
        yield line("memory", memory_record(memory))
    if found != memories:
        raise LedgerError(f"The ledger tells of {memories} memories, {found} are stored; ask replay()")
    for stone in sorted(stones.values(), key=lambda stone: stone.id):
        yield line("tombstone", tombstone_record(stone))
    async for rows in _ledger_to(storage, tenant, head.count):
        for row in rows:
            yield line("row", row._asdict())
    yield line("trailer", {"count": head.count, "hash": head.hash, "sha256": seal.hexdigest()})


async def _ledger_to(storage: Reads, tenant: str, last: int) -> AsyncIterator[list[Row]]:
    after = 0
    while after < last:
        rows = await storage.ledger(tenant, after, min(CHUNK, last - after))
        if not rows or rows[-1].seq > last:
            raise LedgerError(f"Expected ledger rows up to {last}, found none after {after}; ask verify()")
        yield rows
        after = rows[-1].seq


async def _survey(storage: Reads, tenant: str, last: int) -> tuple[int, dict[str, Tombstone]]:
    """Return how many memories the ledger tells of up to a row, and the tombstones as they were then."""
    burials = Replay(tenant)
    created = 0

    def look(rows: list[Row]) -> int:
        new = 0
        for row in rows:
            payload = payload_of(row)
            new += row.from_status == MemoryStatus.PROPOSED and "set" in payload
            if any(name in payload for name in _BURIALS):
                burials.feed([_only(row, payload, (*_BURIALS, "reason"))])
        return new

    async for rows in _ledger_to(storage, tenant, last):
        created += await asyncio.to_thread(look, rows)
    return created, burials.tombstones


async def _memories_at(storage: Reads, tenant: str, last: int) -> AsyncIterator[Memory]:
    """Yield the memories as ledger row `last` left them, in order of creation."""
    async for page in every_memory(storage, tenant):
        for memory in page:
            then = memory if memory.seq <= last else await _earlier(storage, tenant, memory.id, last)
            if then is not None:
                yield then


async def _earlier(storage: Reads, tenant: str, memory_id: str, last: int) -> Memory | None:
    """Rebuild a memory as of a ledger row; None where it came later."""
    newest_first: list[Row] = []
    before = last + 1
    while page := await storage.audit(tenant, memory_id, CHUNK, before):
        newest_first += page
        before = page[-1].seq
    replay = Replay(tenant)
    replay.feed(_only(row, payload_of(row), ("set",)) for row in reversed(newest_first))
    return replay.memories.get(memory_id)


def _only(row: Row, payload: Object, names: Sequence[str]) -> Row:
    kept = {name: payload[name] for name in names if name in payload}
    return row._replace(payload=canonical(kept).decode())


# -- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Contents:
    """What a file holds, once everything about it was found to agree."""

    tenant: str
    secret_id: str
    memories: dict[str, Memory]
    tombstones: dict[str, Tombstone]
    rows: list[Row]
    replay: Replay
    """What the rows tell, found equal to the memories and tombstones."""


async def read_lines(lines: Lines) -> Contents:
    """Return the contents of an export, or raise ImportRefusedError naming the line that is wrong."""
    reader = _Reader()
    async for chunk in _chunks(lines):
        await asyncio.to_thread(reader.feed, chunk)
    return await asyncio.to_thread(reader.finish)


async def _chunks(lines: Lines) -> AsyncIterator[list[bytes]]:
    chunk: list[bytes] = []
    async for line in _each(lines):
        if not isinstance(line, bytes):
            raise ArgumentError("lines", "lines of bytes", line)
        chunk.append(line)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    yield chunk


async def _each(lines: object) -> AsyncIterator[object]:
    if isinstance(lines, AsyncIterable):
        async for line in cast(AsyncIterable[object], lines):
            yield line
    elif isinstance(lines, Iterable) and not isinstance(lines, bytes | str):
        for line in cast(Iterable[object], lines):
            yield line
    else:
        raise ArgumentError("lines", "lines of bytes, as `export` yields them", lines)


class _Reader:
    """Takes the lines in order; each kind has its place, and `finish` holds the parts against each other."""

    def __init__(self) -> None:
        self._number = 0
        self._seal = hashlib.sha256()
        self._part = -1
        self._header: Object = {}
        self._memories: dict[str, Memory] = {}
        self._stones: dict[str, Tombstone] = {}
        self._rows: list[Row] = []
        self._trailer: Object | None = None

    def feed(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self._number += 1
            record = self._parsed(line)
            kind = record.pop(_RECORD, None)
            part = _PARTS.get(kind) if isinstance(kind, str) else None
            if part is None:
                raise self._refused(f"expected a record of a known kind, found {kind!r:.40}")
            if part < self._part or (part == 0) != (self._number == 1) or self._trailer is not None:
                raise self._refused(f"a {kind} is out of place here")
            self._part = part
            try:
                _TAKE[part](self, record)
            except (DamagedRecordError, LookupError, TypeError, ValueError) as error:
                raise self._refused(f"not a {kind} as exported ({error!r:.200})") from error
            self._seal.update(line.rstrip(b"\r\n") + b"\n")

    def _parsed(self, line: bytes) -> Object:
        try:
            record = orjson.loads(line)
        except ValueError as error:
            raise self._refused(f"expected JSON ({error})") from error
        if not isinstance(record, dict):
            raise self._refused("expected a JSON object")
        return cast(Object, record)

    def _refused(self, what: str) -> ImportRefusedError:
        return ImportRefusedError(f"Line {self._number}: {what}; nothing was imported")

    def take_header(self, header: Object) -> None:
        if header.get("format") != FORMAT:
            raise self._refused(f"expected format {FORMAT}, found {header.get('format')!r:.40}")
        _require_shape(header, _HEADER)
        self._header = header

    def take_memory(self, record: Object) -> None:
        _require_shape(record, _MEMORY)
        memory = memory_of(record)
        if record["tenant"] != self._header["tenant"] or memory_record(memory) != record:
            raise ValueError("its fields are not in stored form")
        if memory.status is MemoryStatus.PROPOSED or not 0 <= memory.confidence <= 1:
            raise ValueError("no memory can be stored like this")
        if record["content"] is not None and sha256_hex(record["content"].encode()) != memory.content_hash:
            raise ValueError("its content has another hash")
        if len(set(memory.depends_on)) != len(memory.depends_on):
            raise ValueError("it depends on a memory twice")
        _add(self._memories, memory.id, memory)

    def take_tombstone(self, record: Object) -> None:
        _require_shape(record, _TOMBSTONE)
        stone = tombstone_of(record)
        if record["tenant"] != self._header["tenant"] or tombstone_record(stone) != record:
            raise ValueError("its fields are not in stored form")
        _add(self._stones, stone.id, stone)

    def take_row(self, record: Object) -> None:
        _require_shape(record, _ROW)
        row = Row(**record)
        if not {row.from_status, row.to_status} <= _STATUSES or to_text(from_text(row.time)) != row.time:
            raise ValueError("its statuses or its time are not in stored form")
        self._rows.append(row)

    def take_trailer(self, trailer: Object) -> None:
        _require_shape(trailer, _TRAILER)
        if trailer["sha256"] != self._seal.hexdigest():
            raise self._refused(
                f"expected lines with SHA-256 {trailer['sha256']}, found {self._seal.hexdigest()}: "
                f"the file was changed"
            )
        self._trailer = trailer

    def finish(self) -> Contents:
        if self._trailer is None:
            raise ImportRefusedError(
                f"The file ends after {self._number} lines without a trailer: it was cut short"
            )
        found = {"memories": len(self._memories), "tombstones": len(self._stones), "rows": len(self._rows)}
        told = {name: self._header[name] for name in found}
        if found != told:
            raise ImportRefusedError(f"Expected {told} as the header says, found {found}")
        tenant = cast(str, self._header["tenant"])
        self._verify(tenant, self._trailer)
        replay = self._compare(tenant)
        secret_id = self._header["secret_id"]
        return Contents(tenant, secret_id, self._memories, self._stones, self._rows, replay)

    def _verify(self, tenant: str, trailer: Object) -> None:
        last = from_text(self._rows[-1].time) if self._rows else None
        head = Head(trailer["count"], trailer["hash"], last)
        verifier = ChainVerifier(tenant, head)
        verifier.feed(self._rows)
        answer = verifier.finish(head) if self._rows else None
        if answer is None:
            if head != empty_head():
                raise ImportRefusedError("The trailer names rows that are not there")
        elif not answer.ok:
            raise ImportRefusedError(
                f"The ledger of the file fails at row {answer.seq} ({answer.fault}): "
                f"expected {answer.expected}, found {answer.found}"
            )

    def _compare(self, tenant: str) -> Replay:
        """Hold memories and tombstones against what the ledger says, and return that."""
        replay = Replay(tenant)
        try:
            _require_legal(self._rows)
            replay.feed(self._rows)
            memories = replay.memories
        except (LedgerError, InvalidTransitionError) as error:
            raise ImportRefusedError(f"The ledger of the file can't be replayed: {error}") from error
        for ident in memories.keys() ^ self._memories.keys():
            raise ImportRefusedError(f"Memory {ident} is in one of memories and ledger, not in both")
        for ident, memory in self._memories.items():
            if names := differing(memories[ident], memory):
                raise ImportRefusedError(f"Memory {ident} is not as the ledger says: {', '.join(names)}")
        if replay.tombstones != self._stones:
            raise ImportRefusedError("The tombstones are not as the ledger says")
        return replay


def _require_legal(rows: Iterable[Row]) -> None:
    """Raise unless each row that changes a memory is a transition of the machine, from where it stood.

    A chain can be forged whole, and what no store does must not come in with it. What 0.1.0 recorded
    changes nothing here, and is free.
    """
    stands: dict[str, str] = {}
    for row in rows:
        if "set" not in payload_of(row):
            continue
        stood = stands.get(row.memory_id, MemoryStatus.PROPOSED)
        if row.from_status != stood:
            raise LedgerError(f"ledger row {row.seq}: expected a move from {stood}, found {row.from_status}")
        try:
            action = Action(row.action)
        except ValueError as error:
            raise LedgerError(f"ledger row {row.seq}: expected an action, found {row.action!r}") from error
        check(row.memory_id, MemoryStatus(stood), action, MemoryStatus(row.to_status))
        stands[row.memory_id] = row.to_status


_PARTS: Final = {"header": 0, "memory": 1, "tombstone": 2, "row": 3, "trailer": 4}
_TAKE: Final[tuple[Callable[[_Reader, Object], None], ...]] = (
    _Reader.take_header,
    _Reader.take_memory,
    _Reader.take_tombstone,
    _Reader.take_row,
    _Reader.take_trailer,
)


# -- shapes ---------------------------------------------------------------------------------------

Shape: TypeAlias = dict[str, tuple[type, ...]]

_TEXT: Final = (str,)
_MAYBE: Final = (str, type(None))
_NUMBER: Final = (int,)


def _shape(names: Iterable[str], maybe: str = "", numbers: str = "", others: Shape | None = None) -> Shape:
    special: Shape = dict.fromkeys(maybe.split(), _MAYBE) | dict.fromkeys(numbers.split(), _NUMBER)
    return dict.fromkeys(names, _TEXT) | special | (others or {})


_HEADER: Final = _shape(["tenant", "secret_id"], numbers="format memories tombstones rows")
_MEMORY: Final = _shape(
    MEMORY_COLUMNS,
    "key content thread_id source held_status code valid_from valid_to expires_at retracted_at "
    "retraction_reason",
    "version seq asserted_order many",
    {"confidence": (float,)},
)
_TOMBSTONE: Final = _shape(TOMBSTONE_COLUMNS, "key reason lifted_at lift_reason", "refused")
_ROW: Final = _shape(Row._fields, "payload salt", "seq")
_TRAILER: Final = _shape(["hash", "sha256"], numbers="count")


def _require_shape(record: Object, shape: Shape) -> None:
    """Raise unless a record has exactly these fields, each of exactly one of its types."""
    if record.keys() != shape.keys():
        raise ValueError(f"its fields differ in {sorted(record.keys() ^ shape.keys())}")
    for name, types in shape.items():
        if type(record[name]) not in types:
            raise TypeError(f"{name} is {record[name]!r:.40}")


def _add(found: dict[str, Any], ident: str, value: object) -> None:
    if found.setdefault(ident, value) is not value:
        raise ValueError(f"{ident} is there twice")
