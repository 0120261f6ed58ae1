"""What every verb stands on: a store's parts, its lifetime, and how a decision gets to the backend."""

from __future__ import annotations

import asyncio
import builtins
import logging
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

from memsmith._canonical import MAX_CONTENT_BYTES, optional_text, require_text
from memsmith._clock import checked, require_seconds, utc_now
from memsmith.errors import (
    ArgumentError,
    ClosedError,
    LifetimeError,
    TombstonedError,
    TransactionTimeoutError,
    WrongContextError,
)
from memsmith.ledger.entry import Row
from memsmith.metrics import TRANSITIONS, GuardedMetrics, NullMetrics
from memsmith.policy.keys import KeyedBy, Keys
from memsmith.protocols import (
    LIVE_ON_KEY,
    Clock,
    MemoryQuery,
    Metrics,
    Reads,
    StorageBackend,
    TransitionHandler,
    ValidationContext,
    ValidatorFn,
    ValidatorSpec,
)
from memsmith.state import State
from memsmith.store import change
from memsmith.store.asof import Newest
from memsmith.store.group import GroupCommit
from memsmith.store.hooks import Dispatcher, inside_hook
from memsmith.store.judge import Bench
from memsmith.store.once import Call, once
from memsmith.store.prepare import (
    Digester,
    Limits,
    Prepared,
    arguments_of,
    prepare,
    require_actor,
    require_flag,
    require_items,
    require_lifetime,
    require_size,
)
from memsmith.store.propose import Reinforcement, Rules
from memsmith.store.secrets import open_secrets
from memsmith.store.transaction import Transactions
from memsmith.types import DEFAULT_ACTOR, DEFAULT_TENANT, Memory, MemoryStatus, Point, ProposalInput, Swept
from memsmith.unit import Unit
from memsmith.wants import Wants

T = TypeVar("T")
logger = logging.getLogger("memsmith")

PATIENCE_SECONDS: Final = 10.0

_forks = 0
"""How often this process was forked off on the way here; a store remembers what it was made under."""


def _count_fork() -> None:
    global _forks
    _forks += 1


# Counted where it happens, because asking for the process id is a system call in every verb.
os.register_at_fork(after_in_child=_count_fork)


class Engine:
    """The parts of a store, and the ways between them."""

    def __init__(self) -> None:
        raise TypeError("use `await MemoryStore.init(storage=…)` or `await MemoryStore.open(url)`")

    _tenant: str
    _clock: Clock
    _metrics: Metrics
    _limits: Limits
    _keys: Keys
    _newest: Newest
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
    _closing: bool
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
        keyed_by: KeyedBy | Sequence[KeyedBy] = (),
        cardinality: Mapping[str, str] | None = None,
        protect_origin: bool = True,
        reinforcement: Reinforcement | None = None,
        max_content_bytes: int = MAX_CONTENT_BYTES,
        sweep_every: timedelta | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> Self:
        """Create a store over a backend, and make the backend ready.

        `dedup` is ``"session"`` or ``"scope"``: how far an unkeyed value may not repeat. `keyed_by`
        derives keys from content; `cardinality` says which keys hold many values, by pattern.
        `protect_origin` has a person decide where a proposal would shorten what someone more trusted
        said. `patience` is how many seconds a write waits for a transaction of another task.
        `sweep_every` sweeps in the background; reads of the bare store show statuses as swept.
        """
        if dedup not in ("session", "scope"):
            raise ArgumentError("dedup", "'session' or 'scope'", dedup)
        if not callable(getattr(storage, "initialize", None)):
            raise ArgumentError("storage", "a backend (`MemoryStore.open` takes a URL)", storage)
        if reinforcement is not None and not isinstance(reinforcement, Reinforcement):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are untyped
            raise ArgumentError("reinforcement", "a Reinforcement, or None", reinforcement)
        require_flag("protect_origin", protect_origin)
        require_seconds("patience", patience)
        if sweep_every is not None:
            require_lifetime("sweep_every", sweep_every)
        self = cls.__new__(cls)
        self._tenant = require_text("tenant", tenant, most=256)
        self._clock = checked(clock)
        self._metrics = NullMetrics() if metrics is None else GuardedMetrics(metrics)
        self._limits = Limits(require_size("max_content_bytes", max_content_bytes))
        self._keys = Keys((keyed_by,) if isinstance(keyed_by, KeyedBy) else tuple(keyed_by), cardinality)
        self._newest = Newest()
        self._hooks = Dispatcher(self._metrics)
        for hook in hooks or []:
            self._hooks.register(hook)
        self._storage = storage
        self._loop = asyncio.get_running_loop()
        self._forks = _forks
        self._closing = self._closed = False
        self._group = GroupCommit(storage, tenant, self._clock, self._metrics, self._published, patience)
        self._transactions = Transactions(storage, tenant, self._clock, self._group)
        await storage.initialize()
        try:
            self._digester = await open_secrets(storage, secret)
            self._bench = Bench(validators or [], self._limits, self._digester, self._metrics)
        except BaseException:
            # Left open, the database's threads would keep the program from ending.
            await storage.close()
            raise
        self._rules = Rules(dedup, reinforcement, protect_origin, self._digester.current_id)
        self._sweeper = None if sweep_every is None else asyncio.create_task(self._sweep(sweep_every))
        return self

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
        if self._closing:
            return
        if self._transactions.current() is not None:
            raise LifetimeError("Close the store after its transaction, not inside it")
        self._closing = True
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
        # Hooks may still read and write while they hear of what happened, and cause more to hear of.
        while self._group.busy or self._hooks.busy:
            await self._group.close()
            await self._hooks.close()
        async with self._group.writer:
            self._closed = True
            await self._storage.close()

    # -- inside -------------------------------------------------------------------------------

    def _enter(self) -> None:
        self._check_place()
        if self._closed or (self._closing and not inside_hook()):
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

    def _prepared(
        self,
        items: Sequence[ProposalInput],
        session_id: str,
        thread_id: str | None,
        actor: str | None = None,
        *,
        stored: bool = False,
    ) -> builtins.list[Prepared]:
        """Return checked proposals, as their caller told them: no validator has changed them yet.

        `stored` says that the session is one of a memory that is here; 0.1.0 took any text for one.
        """
        now = self._clock()
        every = require_items(items)
        session = session_id if stored else require_text("session_id", session_id)
        thread = optional_text("thread_id", thread_id)
        prepared = [
            prepare(item, session, thread, self._limits, self._digester, self._tenant, now, self._keys)
            for item in every
        ]
        if actor is not None:
            who = require_actor(actor)
            for item, one in zip(every, prepared, strict=True):
                if item.actor is None:
                    one.memory = one.memory.evolve({"actor": who})
        for one in prepared:
            if one.idempotency_key is not None:
                one.arguments = self._digester.arguments("propose", arguments_of(one))
        return prepared

    async def _judge(self, prepared: Sequence[Prepared]) -> None:
        waiting = self._bench.judge_at_once(prepared)
        if waiting:
            await self._in_time(lambda: self._bench.hear(waiting, self._context_of))

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
        on_key = MemoryQuery(
            kind=memory.kind, columns={"scope": memory.scope, "key": memory.key}, limit=LIVE_ON_KEY
        )
        current = replace(on_key, at=Point(self._clock(), present=True))
        waiting = replace(on_key, status=MemoryStatus.PENDING_CONFIRMATION)
        live = [
            *await self._read(lambda reads: reads.list(self._tenant, current)),
            *await self._read(lambda reads: reads.list(self._tenant, waiting)),
        ]
        return ValidationContext(memory.actor, tuple(live))

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
        if rows:
            self._newest.time = rows[-1].time
        for action, times in Counter(row.action for row in rows).items():
            self._metrics.count(TRANSITIONS, times, action=action)
        self._hooks.publish(rows)

    async def _heard(self, rows: Sequence[Row]) -> None:
        if rows:
            await self._hooks.delivered(rows[-1].seq)

    async def _read(self, read: Callable[[Reads], Awaitable[T]]) -> T:
        scope = self._transactions.current()
        return await (read(self._storage) if scope is None else scope.read(read))

    def _repeatable(self, verb: str, idempotency_key: str | None) -> Call | None:
        """Return what recognises a repeated call of a verb without arguments."""
        if idempotency_key is None:
            return None
        name = (DEFAULT_ACTOR, verb, require_text("idempotency_key", idempotency_key))
        return Call(name, self._digester.arguments(verb, []))

    async def _sweep_all(self, call: Call | None = None) -> Swept:
        if call is not None:
            seen = await self._run(call.replayed, call.wants())
            if seen is not None:
                return Swept(*map(int, seen.codes))
        expired, superseded = await self._expire_due(), 0
        after: str | None = ""
        while after is not None:
            wants = Wants(handed_over=(after, change.SWEEP))

            def decide(state: State, after: str = after, before: int = superseded) -> tuple[int, str | None]:
                more, following = change.supersede_due(after)(state)
                if following is None and call is not None:
                    call.remember(state, [str(expired), str(before + more)])
                return before + more, following

            superseded, after = await self._run(decide, wants)
        return Swept(expired, superseded)

    async def _expire_due(self, call: Call | None = None) -> int:
        total, done = 0, False
        while not done:

            def decide(state: State, before: int = total) -> tuple[int, bool]:
                seen = None if call is None else call.replayed(state)
                if seen is not None:
                    return int(seen.codes[0]), True
                more = change.expire_due("library")(state)
                last = more < change.SWEEP
                if last and call is not None:
                    call.remember(state, [str(before + more)])
                return before + more, last

            wants = Wants() if call is None else call.wants()
            wants.due = change.SWEEP
            total, done = await self._run(decide, wants)
        return total

    async def _sweep(self, every: timedelta) -> None:
        while True:
            await asyncio.sleep(every.total_seconds())
            try:
                await self._sweep_all()
            except Exception:  # the next round may succeed; the owner reads the log
                logger.exception("A background sweep failed")
