"""The governor's reads: every status, nothing masked, as the bare store gives them."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from memsmith._canonical import optional_text, require_text
from memsmith._clock import require_aware
from memsmith.errors import LedgerError, NotFoundError
from memsmith.ledger.entry import GENESIS, Row, audit_entry
from memsmith.ledger.replay import Replay
from memsmith.ledger.verify import ChainVerifier, Fault, Verdict, Verification
from memsmith.protocols import Progress, Rows, StorageBackend
from memsmith.store.asof import AsOf, Source, differences, history_of, rectangles_of
from memsmith.store.engine import Engine
from memsmith.store.prepare import require_actor
from memsmith.store.reading import MAX_LIMIT, memory_query, next_cursor, require_count
from memsmith.store.replaying import ReplayReport, compare, rebuild
from memsmith.types import (
    FACT,
    AuditEntry,
    Difference,
    Head,
    Memory,
    MemoryStatus,
    Outcome,
    Page,
    Rectangle,
    Slot,
    Span,
    Tombstone,
    Version,
)
from memsmith.wants import Wants

CHUNK: Final = 1000
"""How many ledger rows one visit to the database reads; others read in between."""
ROUNDS: Final = 5
"""How often a replay that finds differences catches up with a ledger that others are writing."""
BOTTOM: Final = -(2**63)
"""Below every number a row can be given, even by hand."""


class GovernanceReads(Engine):
    """Reads of the bare store."""

    async def get(self, memory_id: str) -> Memory | None:
        """Return a memory of any status, or None."""
        self._enter()
        require_text("memory_id", memory_id)
        if self._transactions.current() is None:
            return await self._storage.get(self._tenant, memory_id)
        return await self._read(lambda reads: reads.get(self._tenant, memory_id))

    async def list(
        self,
        status: MemoryStatus | str | None = None,
        session_id: str | None = None,
        field_filters: Mapping[str, Any] | None = None,
        limit: int = 50,
        offset: int = 0,
        order_by: str = "created_at",
        *,
        descending: bool = False,
        cursor: str | None = None,
        kind: str | None = FACT,
    ) -> Page[Memory]:
        """Return memories, a page at a time; facts unless another `kind` is asked for, None for all.

        `field_filters` names columns or ``content.<path>``; values are compared exactly. Pass the
        page's `next_cursor` as `cursor` to go on: rows written meanwhile are never skipped or shown
        twice. `order_by` is one of created_at, updated_at, confidence, status, session_id.
        """
        self._enter()
        query = memory_query(
            status=status, session_id=session_id, field_filters=field_filters, limit=limit, offset=offset,
            order_by=order_by, descending=descending, cursor=cursor, kind=kind,
        )  # fmt: skip
        found = await self._read(lambda reads: reads.list(self._tenant, query))
        return Page(found, next_cursor(query, found))

    def as_of(self, *, valid_at: datetime | None = None, system_at: datetime | None = None) -> AsOf:
        """Return a handle that reads what was valid at `valid_at`, as believed at `system_at`.

        Both default to now: what holds. Only accepted memories that hold there are seen, each in the
        version of then; what is quarantined or erased by now is seen at no point.
        """
        self._enter()
        valid = None if valid_at is None else require_aware("valid_at", valid_at)
        return AsOf(self._source, valid, None if system_at is None else require_aware("system_at", system_at))

    async def history(
        self, memory_id: str | None = None, *, key: str | None = None, scope: str = "", kind: str = FACT
    ) -> builtins.list[Version]:
        """Return every version of a memory, or of all memories that ever had a key, as they came to be.

        Each says from when to when the store had it so, who made it so, and why.
        """
        return await history_of(self._source, memory_id, key, scope, kind)

    async def timeline(
        self, key: str, *, scope: str = "", kind: str = FACT, system_at: datetime | None = None
    ) -> builtins.list[Span]:
        """Return a key's values over valid time as believed at `system_at`, in order."""
        return await self.as_of(system_at=system_at).timeline(key, scope=scope, kind=kind)

    async def rectangles(self, key: str, *, scope: str = "", kind: str = FACT) -> builtins.list[Rectangle]:
        """Return everything that was ever effective on a key: where on both axes of time it lay."""
        return await rectangles_of(self._source, Slot(kind, scope, key))

    async def diff(self, system_from: datetime, system_to: datetime) -> builtins.list[Difference]:
        """Return what the store learned between two moments: each memory that changed, before and after."""
        since, to = require_aware("system_from", system_from), require_aware("system_to", system_to)
        return await differences(self._source, since, to)

    @property
    def _source(self) -> Source:
        return Source(
            self._tenant, self._clock, self._enter, self._read, self._newest,
            lambda: self._transactions.current() is not None,
        )  # fmt: skip

    async def audit(
        self, memory_id: str | None = None, limit: int = 50, *, before: int | None = None
    ) -> builtins.list[AuditEntry]:
        """Return ledger entries, newest first; `before` continues below a seq."""
        self._enter()
        require_count("limit", limit, MAX_LIMIT)
        if before is not None:
            require_count("before", before, 2**62)
        optional_text("memory_id", memory_id)
        rows = await self._read(lambda reads: reads.audit(self._tenant, memory_id, limit, before))
        return [audit_entry(row) for row in rows]

    async def tombstones(
        self, *, lifted: bool = False, limit: int = 50, cursor: str | None = None
    ) -> Page[Tombstone]:
        """Return the standing tombstones, oldest first; with `lifted` the lifted ones too."""
        self._enter()
        require_count("limit", limit, MAX_LIMIT)
        after = "" if cursor is None else require_text("cursor", cursor)
        found = await self._read(
            lambda reads: reads.tombstones(self._tenant, lifted=lifted, after=after, limit=limit)
        )
        return Page(found, found[-1].id if found and len(found) == limit else None)

    async def dependants(self, memory_id: str) -> builtins.list[Memory]:
        """Return the memories that name this one in `depends_on`, of any status."""
        self._enter()
        await self._get_or_raise(memory_id)
        now = self._clock()
        found = await self._read(lambda r: r.fetch(self._tenant, Wants(dependants={memory_id}), now))
        ids = found.dependants.get(memory_id, ())
        loaded = await self._read(lambda r: r.fetch(self._tenant, Wants(memories=set(ids)), now))
        return sorted(loaded.memories, key=lambda m: (m.created_at, m.id))

    async def outcome(
        self, idempotency_key: str, *, verb: str = "propose", actor: str | None = None
    ) -> Outcome | None:
        """Tell a caller that lost its answer what became of the call; None if it never happened."""
        self._enter()
        key = (
            require_actor(actor),
            require_text("verb", verb),
            require_text("idempotency_key", idempotency_key),
        )
        record = await self._read(lambda reads: reads.outcome(self._tenant, key))
        return None if record is None else record.outcome

    async def verify(self, *, progress: Progress | None = None) -> Verification:
        """Check the ledger's chain; the answer names the first bad row. `progress` counts rows.

        At best SELF_CONSISTENT: a chain with nothing outside to compare with proves nothing against
        whoever owns the file.
        """
        self._enter()
        try:
            head = await self._storage.head(self._tenant)
            verifier = ChainVerifier(self._tenant, head)
            await self._scan(verifier.feed, BOTTOM, progress, head, lambda: verifier.satisfied)
            return verifier.finish(await self._storage.head(self._tenant))
        except LedgerError as error:
            return Verification(
                Verdict.FAILED, 0, GENESIS, None, Fault.CHANGED, "a head record that can be read", str(error)
            )

    async def replay(
        self, into: StorageBackend | None = None, *, progress: Progress | None = None
    ) -> ReplayReport:
        """Rebuild memories and tombstones from the ledger alone and compare them with what is stored.

        `into` takes the ledger and the rebuilt rows: recovery and audit are one mechanism. It must
        be an empty backend; the caller closes it. `progress` counts ledger rows.
        """
        self._enter()
        replay = Replay(self._tenant)
        rows = await self._fed(replay, progress)
        report = await compare(self._storage, self._tenant, replay)
        for _ in range(ROUNDS):
            head = await self._storage.head(self._tenant)
            # A tombstone that differs may have changed since the ledger was read: then go on from there.
            if report.identical or head is None or head.count <= replay.seq:
                break
            rows += await self._fed(replay, progress)
            report = await compare(self._storage, self._tenant, replay)
        if into is not None:
            await rebuild(self._storage, self._tenant, replay, rows, into, self._digester)
        return report

    async def _fed(self, replay: Replay, progress: Progress | None) -> builtins.list[Row]:
        """Feed a replay the rows it has not seen, and return them."""
        rows: builtins.list[Row] = []

        def feed(piece: Sequence[Row]) -> None:
            replay.feed(piece)
            rows.extend(piece)

        head = None if progress is None else await self._storage.head(self._tenant)
        await self._scan(feed, replay.seq, progress, head)
        return rows

    async def _get_or_raise(self, memory_id: str) -> Memory:
        memory = await self.get(memory_id)
        if memory is None:
            raise NotFoundError(memory_id)
        return memory

    async def _scan(
        self,
        visit: Callable[[Rows], object],
        after: int,
        progress: Progress | None,
        head: Head | None,
        enough: Callable[[], bool] = lambda: False,
    ) -> None:
        last: int | None = after
        while last is not None and not enough():
            last = await self._storage.scan(self._tenant, last, CHUNK, visit)
            if progress is not None and head is not None:
                progress(head.count if last is None else min(last, head.count), head.count)
