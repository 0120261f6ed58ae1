"""Group commit: units that arrive while a commit is under way share the next one."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Final

from memsmith.errors import ClosedError, StoreBusyError
from memsmith.ledger.entry import Row
from memsmith.metrics import BUSY, COMMIT_SECONDS, GROUP_SIZE
from memsmith.protocols import Clock, Metrics, StorageBackend
from memsmith.unit import Settled, Unit

MAX_UNITS: Final = 256

Waiting = tuple[Unit[Any], asyncio.Future[Settled[Any]]]


class GroupCommit:
    """Runs units in the order they come, many in one transaction.

    `writer` is held during each commit; a transaction that is held open holds it too. `publish` is
    told the ledger rows of each commit, in ledger order.
    """

    def __init__(
        self,
        backend: StorageBackend,
        tenant: str,
        clock: Clock,
        metrics: Metrics,
        publish: Callable[[list[Row]], None],
        patience: float,
    ) -> None:
        self._backend = backend
        self._tenant = tenant
        self._clock = clock
        self._metrics = metrics
        self._publish = publish
        self._patience = patience
        self._waiting: deque[Waiting] = deque()
        self._driver: asyncio.Task[None] | None = None
        self._context = copy_context()
        self.writer = asyncio.Lock()

    async def run(self, unit: Unit[Any]) -> Settled[Any]:
        """Return what became of a unit, once it is durable.

        Cancelled while it waits, the unit is dropped; later, it happens all the same.
        """
        future: asyncio.Future[Settled[Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append((unit, future))
        if self._driver is None:
            # In the context the store was made in: the first caller's may lie in another transaction.
            context = self._context.copy()
            self._driver = asyncio.create_task(self._drive(), name="memsmith group commit", context=context)
        return await future

    async def hold_writer(self) -> None:
        """Take the writer, or raise StoreBusyError when another task keeps it too long."""
        if not self.writer.locked():
            await self.writer.acquire()
            return
        try:
            async with asyncio.timeout(self._patience):
                await self.writer.acquire()
        except TimeoutError:
            raise StoreBusyError(
                f"Another transaction held the store for more than {self._patience} s; try again"
            ) from None

    async def _drive(self) -> None:
        group: list[Waiting] = []
        try:
            while self._waiting:
                try:
                    await self.hold_writer()
                except StoreBusyError as error:
                    self._answer_all(self._take(), error)
                    continue
                try:
                    group = self._take()
                    await self._commit(group)
                finally:
                    self.writer.release()
        finally:
            # Only a loop that is being shut down cancels the driver: nobody may wait for ever.
            self._driver = None
            self._answer_all(
                [*group, *self._waiting], ClosedError("The event loop shut down during a commit")
            )
            self._waiting.clear()

    def _take(self) -> list[Waiting]:
        group: list[Waiting] = []
        while self._waiting and len(group) < MAX_UNITS:
            entry = self._waiting.popleft()
            if not entry[1].done():
                group.append(entry)
        return group

    async def _commit(self, group: list[Waiting]) -> None:
        if not group:
            return
        started = time.perf_counter()
        try:
            answers = await self._backend.commit(self._tenant, [unit for unit, _ in group], self._clock)
        except Exception as error:  # handed to every caller of the group
            if isinstance(error, StoreBusyError):
                self._metrics.count(BUSY)
            self._answer_all(group, error)
            return
        self._metrics.observe(COMMIT_SECONDS, time.perf_counter() - started)
        self._metrics.observe(GROUP_SIZE, len(group))
        self._publish([row for answer in answers for row in answer.rows])
        for (_, future), answer in zip(group, answers, strict=True):
            if not future.done():
                future.set_result(answer)

    @staticmethod
    def _answer_all(group: list[Waiting], error: Exception) -> None:
        for _, future in group:
            if not future.done():
                future.set_exception(error)

    @property
    def busy(self) -> bool:
        """True while units wait or are being committed."""
        return self._driver is not None

    async def close(self) -> None:
        """Wait until everything handed in is answered."""
        while self._driver is not None:
            await asyncio.wait([self._driver])
