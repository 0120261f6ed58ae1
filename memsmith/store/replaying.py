"""Comparing what is stored with what the ledger says, and rebuilding from the ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, TypeAlias

from memsmith._clock import from_text, to_text
from memsmith.ledger.entry import Row
from memsmith.ledger.record import Record, memory_record
from memsmith.ledger.replay import Replay, differing
from memsmith.protocols import MemoryQuery, Reads, StorageBackend
from memsmith.store.asof import believed_together
from memsmith.store.prepare import Digester
from memsmith.temporal import Believed
from memsmith.types import Head, Memory, Tombstone
from memsmith.unit import empty_head
from memsmith.wants import Changes

PAGE: Final = 1000
_UNKNOWN: Final = "unknown to the ledger"


@dataclass(frozen=True)
class ReplayReport:
    """What a replay found.

    `differences` maps the id of each memory or tombstone that is not as the ledger says to the names
    of the columns that differ, ``history`` and ``segments`` among them; ``["missing"]`` and
    ``["unknown to the ledger"]`` stand for whole rows.
    """

    memories: int
    tombstones: int
    differences: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    @property
    def identical(self) -> bool:
        """True when stored rows and ledger agree, row for row."""
        return not self.differences


async def compare(storage: StorageBackend, tenant: str, replay: Replay) -> ReplayReport:
    """Compare the replayed state with the stored one."""
    memories, stones = replay.memories, replay.tombstones
    differences = await _differing_memories(storage, tenant, memories, replay.seq)
    pasts = _pasts_of(replay)
    async for page in every_memory(storage, tenant):
        # Those that differ as a whole are named once.
        ids = [memory.id for memory in page if differences.get(memory.id, []) != [_UNKNOWN]]
        for ident, name in await _differing_pasts(storage, tenant, ids, pasts, replay.time):
            differences.setdefault(ident, []).append(name)
    for ident in await storage.strays(tenant):
        differences.setdefault(ident, [_UNKNOWN])
    differences |= await _differing_tombstones(storage, tenant, stones)
    return ReplayReport(len(memories), len(stones), differences)


async def rebuild(
    storage: StorageBackend,
    tenant: str,
    replay: Replay,
    rows: Sequence[Row],
    into: StorageBackend,
    digester: Digester,
) -> None:
    """Write the ledger and the state replayed from it to an empty backend."""
    await into.initialize()
    for secret_id, secret in await _secrets_of(storage, digester):
        await into.add_secret(secret_id, secret)
    await into.restore(tenant, restored(rows, replay))


async def _differing_memories(
    storage: StorageBackend, tenant: str, memories: dict[str, Memory], seq: int
) -> dict[str, list[str]]:
    """Compare stored memories with those replayed up to `seq`; what changed since is left out."""
    differences: dict[str, list[str]] = {}
    unseen = dict(memories)
    later: list[tuple[Memory, str]] = []
    async for page in every_memory(storage, tenant):
        for stored in page:
            replayed = unseen.pop(stored.id, None)
            if stored.seq > seq:
                later.append((stored, _UNKNOWN if replayed is None else "seq"))
                continue
            names = [_UNKNOWN] if replayed is None else differing(replayed, stored)
            if names:
                differences[stored.id] = names
    if later:
        head = await storage.head(tenant)
        newest = 0 if head is None else head.count
        differences |= {stored.id: [what] for stored, what in later if stored.seq > newest}
    return differences | {ident: ["missing"] for ident in unseen}


Past: TypeAlias = tuple[list[tuple[Record, str]], list[Believed]]
"""The versions of a memory that were replaced, and what was ever effective of it."""


def _pasts_of(replay: Replay) -> dict[str, Past]:
    pasts: dict[str, Past] = {}
    for memory, over in replay.history:
        pasts.setdefault(memory.id, ([], []))[0].append((memory_record(memory), to_text(over)))
    for believed in believed_together(replay.segments):
        pasts.setdefault(believed.segment.memory_id, ([], []))[1].append(believed)
    return pasts


async def _differing_pasts(
    storage: StorageBackend,
    tenant: str,
    ids: Sequence[str],
    pasts: Mapping[str, Past],
    until: datetime | None,
) -> list[tuple[str, str]]:
    """Compare history and segments of some memories, as they were at `until`, with those replayed."""
    versions_now = await storage.versions(tenant, ids)
    segments_now = await storage.segments(tenant, ids)
    # Read after them: what is later than this was not written by the store.
    head = await storage.head(tenant)
    newest = None if head is None else head.time

    def since(moment: datetime | None) -> bool:
        """Return whether others did it after the ledger was read."""
        if moment is None or newest is None:
            return False
        return (until is None or until < moment) and moment <= newest

    stored: dict[str, Past] = {ident: ([], []) for ident in ids}
    for version in versions_now:
        if version.system_to is not None and not since(version.system_to):
            replaced = (memory_record(version.memory), to_text(version.system_to))
            stored[version.memory.id][0].append(replaced)
    known = [
        replace(believed, system_to=None) if since(believed.system_to) else believed
        for believed in segments_now
        if not since(believed.system_from)
    ]
    for believed in believed_together(known):
        stored[believed.segment.memory_id][1].append(believed)
    found: list[tuple[str, str]] = []
    for ident, (versions, segments) in stored.items():
        told_versions, told_segments = pasts.get(ident, ([], []))
        if versions != told_versions:
            found.append((ident, "history"))
        if segments != told_segments:
            found.append((ident, "segments"))
    return found


async def _differing_tombstones(
    storage: StorageBackend, tenant: str, stones: dict[str, Tombstone]
) -> dict[str, list[str]]:
    differences: dict[str, list[str]] = {}
    unseen = dict(stones)
    async for stone in every_tombstone(storage, tenant):
        if unseen.pop(stone.id, None) != stone:
            differences[stone.id] = ["tombstone"]
    return differences | {ident: ["missing"] for ident in unseen}


async def _secrets_of(storage: StorageBackend, digester: Digester) -> list[tuple[str, bytes | None]]:
    """Return the secrets as the storage keeps them: one given from outside stays outside."""
    kept = await storage.secrets()
    return [(name, kept.get(name) or None) for name, _ in digester.secrets]


def restored(rows: Sequence[Row], replay: Replay) -> Changes:
    """Return a ledger to be written verbatim, and everything that follows from it."""
    head = Head(rows[-1].seq, rows[-1].hash, from_text(rows[-1].time)) if rows else empty_head()
    return Changes(
        inserted=[(m, tuple(memory_record(m).values())) for m in replay.memories.values()],
        updated=[],
        rows=list(rows),
        tombstones=list(replay.tombstones.values()),
        outcomes=[],
        head=head,
        history=replay.history,
        opened=replay.segments,
    )


async def every_memory(reads: Reads, tenant: str) -> AsyncIterator[list[Memory]]:
    """Yield all memories, of any kind and status, in order of creation."""
    query = MemoryQuery(kind=None, limit=PAGE)
    while page := await reads.list(tenant, query):
        yield page
        last = page[-1]
        query = MemoryQuery(kind=None, limit=PAGE, after=(memory_record(last)["created_at"], last.id))


async def every_tombstone(reads: Reads, tenant: str) -> AsyncIterator[Tombstone]:
    """Yield all tombstones, lifted ones included, in id order."""
    after = ""
    while page := await reads.tombstones(tenant, lifted=True, after=after, limit=PAGE):
        for stone in page:
            yield stone
        after = page[-1].id
