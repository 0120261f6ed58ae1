"""`MemoryStore`: one short method per verb."""

from __future__ import annotations

import asyncio
import builtins
import logging
import os
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

from memsmith._canonical import MAX_CONTENT_BYTES, optional_text, require_text
from memsmith._clock import utc_now
from memsmith.errors import (
    ArgumentError,
    ClosedError,
    LedgerError,
    LifetimeError,
    NotFoundError,
    TombstonedError,
    TransactionTimeoutError,
    WrongContextError,
)
from memsmith.ledger.entry import GENESIS, Row, audit_entry
from memsmith.ledger.replay import Replay
from memsmith.ledger.verify import ChainVerifier, Fault, Verdict, Verification
from memsmith.metrics import PROPOSALS, TRANSITIONS, NullMetrics
from memsmith.protocols import (
    Clock,
    Metrics,
    Reads,
    StorageBackend,
    TransitionHandler,
    ValidationContext,
    ValidatorFn,
    ValidatorSpec,
)
from memsmith.store import change
from memsmith.store.group import GroupCommit
from memsmith.store.hooks import Dispatcher
from memsmith.store.judge import Bench
from memsmith.store.once import once
from memsmith.store.prepare import (
    Digester,
    Limits,
    Prepared,
    arguments_of,
    prepare,
    require_actor,
    require_confidence,
    require_flag,
    require_reason,
)
from memsmith.store.propose import Reinforcement, Rules, code_of, decide_proposal, result_of, wants_of
from memsmith.store.reading import MAX_LIMIT, memory_query, next_cursor, require_count
from memsmith.store.replaying import ReplayReport, compare
from memsmith.store.secrets import open_secrets
from memsmith.store.transaction import Transactions
from memsmith.types import (
    DEFAULT_TENANT,
    FACT,
    AuditEntry,
    Memory,
    MemoryStatus,
    Origin,
    Outcome,
    Page,
    ProposalInput,
    ProposalResult,
    Tombstone,
)
from memsmith.unit import State, Unit, Wants

T = TypeVar("T")
logger = logging.getLogger("memsmith")

TRANSACTION_SECONDS: Final = 5.0
PATIENCE_SECONDS: Final = 10.0
CHUNK: Final = 2000
"""How many ledger rows are read at a time."""
BOTTOM: Final = -(2**63)
"""Below every number a row can be given, even by hand."""


_forks = 0
"""How often this process was forked off on the way here; a store remembers what it was made under."""


def _count_fork() -> None:
    global _forks
    _forks += 1


# Counted where it happens, because asking for the process id is a system call in every verb.
os.register_at_fork(after_in_child=_count_fork)


class MemoryStore:
    """Governed memory: agents propose, validators decide, people confirm, the ledger remembers.

    Make one with `init` or `open`. The bare store acts as the owner and reads as
    a governor: every status, nothing masked. It belongs to the event loop it was made on.
    """

    def __init__(self) -> None:
        raise TypeError("use `await MemoryStore.init(storage=…)` or `await MemoryStore.open(url)`")

    _tenant: str
    _clock: Clock
    _metrics: Metrics
    _limits: Limits
    _storage: StorageBackend
    _digester: Digester
    _rules: Rules
    _bench: Bench
    _group: GroupCommit
    _hooks: Dispatcher
    _transactions: Transactions
    _sweeper: asyncio.Task[None] | None
    _loop: asyncio.AbstractEventLoop
    _forks: int
    _closed: bool

    @classmethod
    async def init(
        cls,
        storage: StorageBackend,
        validators: Sequence[ValidatorFn | ValidatorSpec] | None = None,
        hooks: Sequence[TransitionHandler] | None = None,
        *,
        tenant: str = DEFAULT_TENANT,
        clock: Clock = utc_now,
        metrics: Metrics | None = None,
        secret: str | bytes | None = None,
        dedup: str = "session",
        reinforcement: Reinforcement | None = None,
        max_content_bytes: int = MAX_CONTENT_BYTES,
        sweep_every: timedelta | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> Self:
        """Create a store over a backend, and make the backend ready.

        `dedup` is ``"session"`` or ``"scope"``: how far an unkeyed value may not repeat. `patience`
        is how many seconds a write waits for a transaction of another task. `sweep_every` expires
        what is due in the background; reads of the bare store show statuses as swept.
        """
        if dedup not in {"session", "scope"}:
            raise ArgumentError("dedup", "'session' or 'scope'", dedup)
        self = cls.__new__(cls)
        self._tenant = require_text("tenant", tenant, most=256)
        self._clock = clock
        self._metrics = metrics or NullMetrics()
        self._limits = Limits(max_content_bytes)
        self._hooks = Dispatcher(self._metrics)
        for hook in hooks or []:
            self._hooks.register(hook)
        self._storage = storage
        self._loop = asyncio.get_running_loop()
        self._forks = _forks
        self._closed = False
        self._group = GroupCommit(storage, tenant, clock, self._metrics, self._published, patience)
        self._transactions = Transactions(storage, tenant, clock, self._group)
        await storage.initialize()
        try:
            self._digester = await open_secrets(storage, secret)
        except BaseException:
            await storage.close()
            raise
        self._bench = Bench(validators or [], self._limits, self._digester, self._metrics)
        self._rules = Rules(dedup, reinforcement, self._digester.current_id)
        self._sweeper = None if sweep_every is None else asyncio.create_task(self._sweep(sweep_every))
        return self

    @classmethod
    async def open(cls, url: str, **options: Any) -> Self:
        """Open the store a URL names; `options` are those of `init`.

        ``sqlite:///file.db`` (relative), ``sqlite:////srv/file.db`` (absolute), ``memory://``.
        """
        from memsmith.connect import backend_for  # the one reach upwards, so that a URL is enough

        return await cls.init(backend_for(url), **options)

    async def __aenter__(self) -> Self:
        self._enter()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish what is under way, let the hooks hear of it, and close the backend. Twice is fine."""
        self._check_place()
        if self._closed:
            return
        if self._transactions.current() is not None:
            raise LifetimeError("Close the store after its transaction, not inside it")
        self._closed = True
        closing = asyncio.ensure_future(self._finish())
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            # Half closed, the database's threads would keep the program from ending.
            await asyncio.wait([closing])
            raise

    async def _finish(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait([self._sweeper])
        await self._group.close()
        async with self._group.writer:
            await self._storage.close()
        await self._hooks.close()

    # -- writing ------------------------------------------------------------------------------

    async def propose(
        self,
        content: Any,
        session_id: str,
        confidence: float,
        thread_id: str | None = None,
        source: str | None = None,
        dedup: bool = True,
        *,
        scope: str = "",
        key: str | None = None,
        kind: str = FACT,
        origin: Origin | str | None = None,
        sensitivity: str | None = None,
        valid_from: datetime | None = None,
        valid_to: datetime | None = None,
        expires_at: datetime | None = None,
        ttl: timedelta | None = None,
        depends_on: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        actor: str | None = None,
    ) -> ProposalResult:
        """Propose a memory: Accepted, PendingConfirmation or Rejected.

        `content` is JSON data, a pydantic model or a dataclass. `ttl` counts from the moment of
        writing. A repeated `idempotency_key` gives the first outcome again.
        """
        item = ProposalInput(
            content, confidence, source, dedup,
            thread_id=thread_id, scope=scope, key=key, kind=kind, origin=origin, sensitivity=sensitivity,
            valid_from=valid_from, valid_to=valid_to, expires_at=expires_at, ttl=ttl,
            depends_on=depends_on, metadata=metadata, idempotency_key=idempotency_key, actor=actor,
        )  # fmt: skip
        self._enter()
        prepared = await self._judged([item], session_id, None)
        result = await self._run(
            lambda state: decide_proposal(state, prepared[0], self._rules), wants_of(prepared)
        )
        self._metrics.count(PROPOSALS, outcome=code_of(result))
        return result

    async def propose_many(
        self,
        memories: Sequence[ProposalInput],
        session_id: str,
        thread_id: str | None = None,
        *,
        idempotency_key: str | None = None,
        actor: str | None = None,
    ) -> builtins.list[ProposalResult]:
        """Propose several memories as one unit: one transaction, one result per item, in order.

        The batch is deduplicated against itself too. An argument error or an unknown id in any item
        refuses the whole batch, with nothing written.
        """
        self._enter()
        prepared = await self._judged(memories, session_id, thread_id, actor)
        wants = wants_of(prepared)

        def decide_all(state: State) -> builtins.list[ProposalResult]:
            return [decide_proposal(state, item, self._rules) for item in prepared]

        decide: Callable[[State], builtins.list[ProposalResult]] = decide_all
        if idempotency_key is not None:
            name = (require_actor(actor), "propose_many", require_text("idempotency_key", idempotency_key))
            digest = self._digester.arguments("propose_many", [arguments_of(p) for p in prepared])
            wants.outcomes.add(name)
            decide = once(
                name,
                digest,
                decide_all,
                lambda results: ([code_of(r) for r in results], [r.memory_id for r in results]),
                lambda state, seen: [
                    result_of(state, code, ident)
                    for code, ident in zip(seen.codes, seen.memory_ids, strict=True)
                ],
            )
        results = await self._run(decide, wants, size=len(prepared))
        for outcome, times in Counter(map(code_of, results)).items():
            self._metrics.count(PROPOSALS, times, outcome=outcome)
        return results

    async def confirm(
        self,
        memory_id: str,
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> Memory:
        """PENDING_CONFIRMATION → ACTIVE, judged again on what is stored now.

        Raises BaseChangedError where it would no longer do what the reviewer saw, until repeated
        with `expected_version`; TombstonedError where the value was rejected meanwhile;
        PermissionDeniedError where anyone but the owner confirms what they proposed.
        """
        who = require_actor(actor)
        decide = change.confirm(
            memory_id, who, require_reason(reason), expected_version, self._digester, self._rules
        )
        return await self._change(
            "confirm", memory_id, decide, who, idempotency_key, reason, expected_version
        )

    async def reject(
        self,
        memory_id: str,
        reason: str | None = None,
        *,
        also: bool = False,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> Memory:
        """Say "never true": → RETRACTED, and the value is blocked by a tombstone from now on.

        Raises TombstoneConflictError listing other live memories of the same value in reach, unless
        `also` takes them along.
        """
        who = require_actor(actor)
        decide = change.reject(
            memory_id, who, require_reason(reason), require_flag("also", also), self._rules
        )
        return await self._change("reject", memory_id, decide, who, idempotency_key, reason, also)

    async def retract(
        self,
        memory_id: str,
        reason: str | None = None,
        *,
        cascade: bool = False,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> Memory:
        """Say "does not hold": → RETRACTED; the value may be proposed again.

        `cascade` retracts what depends on it, directly or not, in the same transaction.
        """
        who = require_actor(actor)
        decide = change.retract(memory_id, who, require_reason(reason), require_flag("cascade", cascade))
        return await self._change("retract", memory_id, decide, who, idempotency_key, reason, cascade)

    async def revise(
        self,
        memory_id: str,
        new_content: Any,
        reason: str | None = None,
        *,
        expected_version: int | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> Memory:
        """Give a memory new content under the same id; the status stays.

        Passes every check a proposal passes: ValidationError for a critical failure (TombstonedError
        for a blocked value), ReviewRequiredError where a person would be asked, DuplicateError where
        another live memory says it already, StaleVersionError where somebody edited since.
        """
        self._enter()
        who = require_actor(actor)
        memory = await self._get_or_raise(memory_id)
        item = ProposalInput(
            new_content, memory.confidence, memory.source, thread_id=memory.thread_id, scope=memory.scope,
            key=memory.key, kind=memory.kind, origin=memory.origin, actor=who,
        )  # fmt: skip
        (prepared,) = await self._judged([item], memory.session_id, None)
        decide = change.revise(
            prepared, memory_id, who, require_reason(reason), expected_version, self._rules
        )
        extra = [prepared.memory.content_hash, reason, expected_version]
        wants = Wants(blocks=set(prepared.digests))
        return await self._change("revise", memory_id, decide, who, idempotency_key, *extra, wants=wants)

    async def update_confidence(
        self,
        memory_id: str,
        new_value: float,
        *,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> Memory:
        """Raise a memory's confidence; ConfidenceMonotonicityError unless it rises."""
        who = require_actor(actor)
        value = require_confidence(new_value, "new_value")
        decide = change.update_confidence(memory_id, who, value)
        return await self._change("update_confidence", memory_id, decide, who, idempotency_key, repr(value))

    async def quarantine(
        self,
        memory_id: str,
        reason: str | None = None,
        *,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> Memory:
        """Take a memory out of every read until somebody looked: → QUARANTINED."""
        who = require_actor(actor)
        decide = change.quarantine(memory_id, who, require_reason(reason))
        return await self._change("quarantine", memory_id, decide, who, idempotency_key, reason)

    async def release(
        self,
        memory_id: str,
        reason: str | None = None,
        *,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> Memory:
        """Return a quarantined memory to what it was, or to EXPIRED if its time ran out."""
        who = require_actor(actor)
        decide = change.release(memory_id, who, require_reason(reason), self._digester)
        return await self._change("release", memory_id, decide, who, idempotency_key, reason)

    async def expire_batch(self) -> int:
        """Expire every ACTIVE and pending memory whose `expires_at` has passed; return how many."""
        self._enter()
        total = 0
        while True:
            expired = await self._run(change.expire_due("library"), Wants(due=change.SWEEP))
            total += expired
            if expired < change.SWEEP:
                return total

    async def lift_tombstone(
        self, tombstone_id: str, reason: str | None = None, *, actor: str | None = None
    ) -> Tombstone:
        """Let a blocked value be proposed again; recorded, and lifting twice changes nothing."""
        self._enter()
        require_text("tombstone_id", tombstone_id)
        decide = change.lift_tombstone(tombstone_id, require_actor(actor), require_reason(reason))
        return await self._run(decide, Wants(tombstones={tombstone_id}))

    @asynccontextmanager
    async def transaction(self, timeout: float = TRANSACTION_SECONDS) -> AsyncGenerator[Self, None]:
        """Group several verbs into one unit; a raise undoes all of it.

        Tasks started inside are inside, others wait. Nested ones are savepoints. Results are
        provisional until the outermost block ends, and hooks fire then. After `timeout` seconds the
        transaction is undone and its verbs raise TransactionTimeoutError.
        """
        self._enter()
        async with self._transactions.open(timeout, self._published) as scope:
            yield self
        if self._transactions.current() is None:
            await self._heard(scope.rows)

    # -- reading ------------------------------------------------------------------------------

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

    async def verify(self) -> Verification:
        """Check the ledger's chain; the answer names the first bad row.

        At best SELF_CONSISTENT: a chain with nothing outside to compare with proves nothing against
        whoever owns the file.
        """
        self._enter()
        try:
            verifier = ChainVerifier(self._tenant, await self._storage.head(self._tenant))
            async for rows in self._ledger(after=BOTTOM):
                await asyncio.to_thread(verifier.feed, rows)
                if verifier.satisfied:
                    break
            return verifier.finish(await self._storage.head(self._tenant))
        except LedgerError as error:
            return Verification(
                Verdict.FAILED, 0, GENESIS, None, Fault.CHANGED, "a head record that can be read", str(error)
            )

    async def replay(self, into: StorageBackend | None = None) -> ReplayReport:
        """Rebuild memories and tombstones from the ledger alone and compare them with what is stored.

        `into` takes the ledger and the rebuilt rows: recovery and audit are one mechanism. It must
        be an empty backend; the caller closes it.
        """
        self._enter()
        replay = Replay(self._tenant)
        rows: builtins.list[Row] = []
        async for chunk in self._ledger():
            await asyncio.to_thread(replay.feed, chunk)
            if into is not None:
                rows.extend(chunk)
        return await compare(self._storage, self._tenant, replay, rows, into, self._digester)

    # -- hooks --------------------------------------------------------------------------------

    def on_transition(self, callback: TransitionHandler) -> None:
        """Call back (memory_id, from_status, to_status) after each commit, in ledger order."""
        self._hooks.register(callback)

    # -- inside -------------------------------------------------------------------------------

    def _enter(self) -> None:
        self._check_place()
        if self._closed:
            raise ClosedError("The store is closed; open another one")

    def _check_place(self) -> None:
        if self._forks != _forks:
            raise WrongContextError("The store was made before a fork; open one in each process")
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            here = False
        if not here:
            raise WrongContextError("The store belongs to another event loop; open one on this loop")

    async def _get_or_raise(self, memory_id: str) -> Memory:
        memory = await self.get(memory_id)
        if memory is None:
            raise NotFoundError(memory_id)
        return memory

    async def _judged(
        self,
        items: Sequence[ProposalInput],
        session_id: str,
        thread_id: str | None,
        actor: str | None = None,
    ) -> builtins.list[Prepared]:
        now = self._clock()
        session = require_text("session_id", session_id)
        thread = optional_text("thread_id", thread_id)
        prepared = [
            prepare(item, session, thread, self._limits, self._digester, self._tenant, now) for item in items
        ]
        if actor is not None:
            who = require_actor(actor)
            for one in prepared:
                if one.memory.actor != who:
                    one.memory = one.memory.evolve({"actor": who})
        for one in prepared:
            if one.idempotency_key is not None:
                one.arguments = self._digester.arguments("propose", arguments_of(one))
        waiting = self._bench.judge_at_once(prepared)
        if waiting:
            await self._in_time(lambda: self._bench.hear(waiting, self._context_of))
        return prepared

    async def _in_time(self, work: Callable[[], Any]) -> None:
        """Do awaitable work; inside a transaction, within its deadline."""
        scope = self._transactions.current()
        if scope is None:
            await work()
            return
        limit = asyncio.timeout(max(0.0, scope.remaining()))
        try:
            async with limit:
                await work()
        except TimeoutError:
            if not limit.expired():
                raise
            raise TransactionTimeoutError("Validators outlasted the transaction's deadline") from None

    async def _context_of(self, memory: Memory) -> ValidationContext:
        if memory.key is None:
            return ValidationContext(memory.actor)
        slot = (memory.kind, memory.scope, memory.key)
        loaded = await self._read(lambda r: r.fetch(self._tenant, Wants(slots={slot}), self._clock()))
        return ValidationContext(memory.actor, tuple(loaded.memories))

    async def _change(
        self,
        verb: str,
        memory_id: str,
        decide: Callable[[State], Memory],
        actor: str,
        idempotency_key: str | None,
        *arguments: object,
        wants: Wants | None = None,
    ) -> Memory:
        self._enter()
        wants = wants or Wants()
        wants.memories.add(require_text("memory_id", memory_id))
        if idempotency_key is not None:
            name = (actor, verb, require_text("idempotency_key", idempotency_key))
            digest = self._digester.arguments(verb, [memory_id, *arguments])
            wants.outcomes.add(name)
            decide = once(
                name,
                digest,
                decide,
                change.kept_of,
                lambda state, seen: state.memory(seen.memory_ids[0]),
            )
        try:
            return await self._run(decide, wants)
        except TombstonedError as error:
            blocked = Wants(memories={memory_id}, tombstones={error.tombstone_id})
            await self._run(change.count_blocked(error.tombstone_id, memory_id, actor), blocked)
            raise

    async def _run(self, decide: Callable[[State], T], wants: Wants, size: int = 1) -> T:
        unit = Unit(decide, wants, size)
        scope = self._transactions.current()
        settled = await (self._group.run(unit) if scope is None else scope.run(unit, self._clock))
        if settled.error is not None:
            raise settled.error
        if scope is None:
            await self._heard(settled.rows)
        return cast(T, settled.result)

    def _published(self, rows: builtins.list[Row]) -> None:
        for action, times in Counter(row.action for row in rows).items():
            self._metrics.count(TRANSITIONS, times, action=action)
        self._hooks.publish(rows)

    async def _heard(self, rows: Sequence[Row]) -> None:
        if rows:
            await self._hooks.delivered(rows[-1].seq)

    async def _read(self, read: Callable[[Reads], Awaitable[T]]) -> T:
        scope = self._transactions.current()
        return await (read(self._storage) if scope is None else scope.read(read))

    async def _ledger(self, after: int = 0) -> AsyncIterator[builtins.list[Row]]:
        while rows := await self._storage.ledger(self._tenant, after, CHUNK):
            yield rows
            after = rows[-1].seq

    async def _sweep(self, every: timedelta) -> None:
        while True:
            await asyncio.sleep(every.total_seconds())
            try:
                await self.expire_batch()
            except Exception:  # the next round may succeed; the owner reads the log
                logger.exception("A background sweep failed")
