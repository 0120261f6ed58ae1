"""`async with store.transaction()`: several verbs as one unit.

The transaction follows the context: tasks started inside are inside and take turns; all others wait
or time out. Nested ones are savepoints, and hold the turn of the one they lie in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from memsmith.errors import ClosedError, TransactionTimeoutError
from memsmith.ledger.entry import Row
from memsmith.protocols import Clock, StorageBackend, Transaction
from memsmith.store.group import GroupCommit
from memsmith.unit import Settled, Unit

T = TypeVar("T")


class _Root:
    """The database transaction under all scopes of one outermost `transaction()`."""

    def __init__(self, tx: Transaction, timeout: float, let_go: Callable[[], None]) -> None:
        self.tx = tx
        self._let_go = let_go
        self.hop = asyncio.Lock()
        self.deadline = asyncio.get_running_loop().time() + timeout
        self.timeout = timeout
        self.expired = False
        self.running: set[asyncio.Task[Any]] = set()

    def settled(self, step: asyncio.Task[Any]) -> None:
        self.running.discard(step)
        if not step.cancelled():
            step.exception()  # seen, even if the caller was cancelled and nobody asks

    def timed_out(self) -> TransactionTimeoutError:
        return TransactionTimeoutError(
            f"The transaction passed its deadline of {self.timeout} s and was undone"
        )

    def remaining(self) -> float:
        return self.deadline - asyncio.get_running_loop().time()

    async def expire(self) -> None:
        """Undo everything once the deadline has passed, so that nobody waits for a stuck task."""
        await asyncio.sleep(self.remaining())
        async with self.hop:
            self.expired = True
            try:
                await self.tx.rollback()
            finally:
                self._let_go()


class Scope:
    """One `transaction()` block, outermost or nested."""

    def __init__(self, root: _Root) -> None:
        self._root = root
        self._turn = asyncio.Lock()
        self._closed = False
        self.rows: list[Row] = []

    async def run(self, unit: Unit[Any], clock: Clock) -> Settled[Any]:
        """Decide and write one unit inside the transaction; the result is provisional until exit."""

        async def step(tx: Transaction) -> Settled[Any]:
            settled = await tx.run(unit, clock())
            self.rows.extend(settled.rows)
            return settled

        return await self._hop(step)

    async def read(self, read: Callable[[Transaction], Awaitable[T]]) -> T:
        """Read with the transaction's own writes in sight."""
        return await self._hop(read)

    def remaining(self) -> float:
        """Return the seconds left until the deadline."""
        return self._root.remaining()

    async def _hop(self, step: Callable[[Transaction], Awaitable[T]]) -> T:
        async def guarded() -> T:
            await self._take_turn()
            try:
                async with self._root.hop:
                    self._check_open()
                    return await step(self._root.tx)
            finally:
                self._turn.release()

        # A cancelled caller must not tear a step in two, nor lose its rows if the block goes on.
        task = asyncio.ensure_future(guarded())
        self._root.running.add(task)
        task.add_done_callback(self._root.settled)
        return await asyncio.shield(task)

    async def _take_turn(self) -> None:
        # Not past the deadline: a nested block may hold the turn while it waits for this very task.
        try:
            async with asyncio.timeout_at(self._root.deadline):
                await self._turn.acquire()
        except TimeoutError:
            raise self._root.timed_out() from None

    def _check_open(self) -> None:
        if self._root.expired:
            raise self._root.timed_out()
        if self._closed:
            raise ClosedError("The transaction is over; start another one")

    @asynccontextmanager
    async def nested(self) -> AsyncGenerator[Scope, None]:
        """Open a savepoint; it keeps the turn until it ends."""
        async with self._turn:
            self._check_open()
            inner = Scope(self._root)
            async with self._root.hop:
                await self._root.tx.savepoint()
            kept = False
            try:
                yield inner
                kept = True
            finally:
                await self._finish(self._end_nested(inner, kept))

    async def _end_nested(self, inner: Scope, kept: bool) -> None:
        async with inner._turn, self._root.hop:
            inner._closed = True
            if self._root.expired:
                if kept:
                    self._check_open()
            elif kept:
                await self._root.tx.release()
                self.rows.extend(inner.rows)
            else:
                await self._root.tx.rollback_to()

    async def end(self, kept: bool) -> None:
        """Commit or undo the outermost block."""
        await self._finish(self._end(kept))

    async def _end(self, kept: bool) -> None:
        async with self._turn, self._root.hop:
            self._closed = True
            if self._root.expired:
                if kept:
                    self._check_open()
            elif kept:
                await self._root.tx.commit()
            else:
                await self._root.tx.rollback()

    async def _finish(self, ending: Awaitable[None]) -> None:
        """See an ending through even if the task is cancelled meanwhile."""
        task = asyncio.ensure_future(ending)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            raise


_scopes: ContextVar[dict[int, Scope] | None] = ContextVar("memsmith_transactions", default=None)


class Transactions:
    """Opens transactions of one store and knows which one the current context is in."""

    def __init__(self, backend: StorageBackend, tenant: str, clock: Clock, group: GroupCommit) -> None:
        self._backend = backend
        self._tenant = tenant
        self._clock = clock
        self._group = group

    def current(self) -> Scope | None:
        """Return the innermost scope of the current context."""
        scopes = _scopes.get()
        return None if scopes is None else scopes.get(id(self))

    @asynccontextmanager
    async def open(self, timeout: float, publish: Callable[[list[Row]], None]) -> AsyncGenerator[Scope, None]:
        """Open an outermost or a nested scope."""
        outer = self.current()
        if outer is not None:
            async with outer.nested() as inner:
                with self._entered(inner):
                    yield inner
            return
        await self._group.hold_writer()
        held = True

        def let_go() -> None:
            nonlocal held
            if held:
                held = False
                self._group.writer.release()

        try:
            async with self._begun(timeout, let_go) as scope:
                with self._entered(scope):
                    yield scope
            publish(scope.rows)
        finally:
            let_go()

    @asynccontextmanager
    async def _begun(self, timeout: float, let_go: Callable[[], None]) -> AsyncGenerator[Scope, None]:
        begun = asyncio.ensure_future(self._backend.begin(self._tenant, self._clock))
        try:
            tx = await asyncio.shield(begun)
        except asyncio.CancelledError:
            await asyncio.wait([begun])
            if not begun.cancelled() and begun.exception() is None:
                await begun.result().rollback()
            raise
        root = _Root(tx, timeout, let_go)
        scope = Scope(root)
        alarm = asyncio.create_task(root.expire(), name="memsmith transaction deadline")
        kept = False
        try:
            yield scope
            kept = True
        finally:
            if not root.hop.locked():
                alarm.cancel()
            try:
                await scope.end(kept)
            finally:
                alarm.cancel()
                await asyncio.wait([alarm, *root.running])

    def _entered(self, scope: Scope) -> _Entered:
        return _Entered(id(self), scope)


class _Entered:
    """Puts a scope into the context for the length of a block."""

    def __init__(self, store: int, scope: Scope) -> None:
        self._store = store
        self._scope = scope

    def __enter__(self) -> None:
        self._before = _scopes.get()
        _scopes.set({**(self._before or {}), self._store: self._scope})

    def __exit__(self, *exc: object) -> None:
        # Not a token reset: an async generator may be closed from another context.
        _scopes.set(self._before)
