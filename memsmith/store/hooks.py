"""Hooks: called after commit, in ledger order, by one dispatcher per store."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextvars import ContextVar, copy_context

from memsmith.errors import ArgumentError
from memsmith.ledger.entry import Row
from memsmith.metrics import HOOK_ERRORS
from memsmith.protocols import Metrics, TransitionHandler
from memsmith.types import MemoryStatus

logger = logging.getLogger("memsmith")

_inside: ContextVar[bool] = ContextVar("memsmith_inside_hook", default=False)


def inside_hook() -> bool:
    """Tell whether the current task runs inside a hook."""
    return _inside.get()


class Dispatcher:
    """Feeds transitions to the hooks; a hook that raises is logged and changes nothing."""

    def __init__(self, metrics: Metrics) -> None:
        self._hooks: list[TransitionHandler] = []
        self._metrics = metrics
        self._rows: deque[Row] = deque()
        self._delivered: dict[int, asyncio.Event] = {}
        self._task: asyncio.Task[None] | None = None
        self._context = copy_context()

    def register(self, hook: TransitionHandler) -> None:
        """Add a hook; it hears of what commits from now on."""
        if not callable(hook):
            raise ArgumentError("hooks", "async callables", hook)
        self._hooks.append(hook)

    def publish(self, rows: list[Row]) -> None:
        """Queue the transitions of a commit."""
        if not self._hooks or not rows:
            return
        self._rows.extend(rows)
        if self._task is None:
            # In the context the store was made in: that of whoever committed may lie in a transaction.
            context = self._context.copy()
            self._task = asyncio.create_task(self._dispatch(), name="memsmith hooks", context=context)

    async def delivered(self, seq: int) -> None:
        """Return when the hooks heard of the transition numbered `seq`.

        At once when called from inside a hook, which would otherwise wait for itself.
        """
        if self._task is None or _inside.get():
            return
        if not any(row.seq == seq for row in self._rows) and seq not in self._delivered:
            return
        await self._delivered.setdefault(seq, asyncio.Event()).wait()

    async def _dispatch(self) -> None:
        _inside.set(True)
        try:
            while self._rows:
                row = self._rows[0]
                done = self._delivered.setdefault(row.seq, asyncio.Event())
                for hook in tuple(self._hooks):
                    await self._call(hook, row)
                self._rows.popleft()
                del self._delivered[row.seq]
                done.set()
        finally:
            self._task = None
            for waiter in self._delivered.values():
                waiter.set()
            self._delivered.clear()

    async def _call(self, hook: TransitionHandler, row: Row) -> None:
        try:
            await hook(row.memory_id, MemoryStatus(row.from_status), MemoryStatus(row.to_status))
        except (Exception, asyncio.CancelledError) as error:
            # A hook may await something that was cancelled; only a loop that shuts down cancels us.
            dispatcher = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and dispatcher and dispatcher.cancelling():
                raise
            self._metrics.count(HOOK_ERRORS)
            logger.exception(
                "Hook %r raised for memory %s: %s -> %s",
                hook, row.memory_id, row.from_status, row.to_status,
            )  # fmt: skip

    @property
    def busy(self) -> bool:
        """True while there is something left to hear of; inside a hook nobody can wait for it."""
        return self._task is not None and not _inside.get()

    async def close(self) -> None:
        """Wait until the hooks heard of everything; called from inside a hook, return at once."""
        if self._task is not None and not _inside.get():
            await asyncio.wait([self._task])
