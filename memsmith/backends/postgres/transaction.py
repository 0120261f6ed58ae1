"""Ending transactions, and the one that is held open over several calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from memsmith._clock import next_time
from memsmith.backends._asking import head
from memsmith.backends.postgres.failing import driver_errors, is_gone, translated
from memsmith.backends.postgres.reading import PostgresReads
from memsmith.backends.postgres.statements import COMMIT_SQL, answer
from memsmith.backends.postgres.writing import Entered, settle_and_write
from memsmith.errors import ClosedError, UnknownOutcomeError
from memsmith.unit import Settled, Unit

if TYPE_CHECKING:
    from memsmith.backends.postgres.backend import PostgresBackend
    from memsmith.backends.postgres.statements import Connection

T = TypeVar("T")


async def commit(connection: Connection, *, wrote: bool) -> None:
    """Commit; UnknownOutcomeError where the connection is lost before the answer."""
    try:
        await connection.execute("COMMIT")
    except driver_errors() as error:
        if wrote and is_gone(error):
            raise UnknownOutcomeError("committing") from error
        raise


async def reach_disk(connection: Connection, position: str | None, *, wrote: bool) -> None:
    """Wait until the server's log is on disk up to a position, all of it for None."""
    try:
        await connection.execute(COMMIT_SQL["flush"], position)
    except driver_errors() as error:
        if wrote:
            raise UnknownOutcomeError("waiting for the disk") from error
        raise


async def roll_back(connection: Connection) -> None:
    """Undo; a connection that can't is dropped, and the server undoes."""
    try:
        await connection.execute("ROLLBACK")
    except driver_errors():
        connection.terminate()


class PostgresTransaction(PostgresReads):
    """A transaction held open on a connection of its own, in the tenant's turn until it ends."""

    def __init__(
        self, backend: PostgresBackend, connection: Connection, tenant: str, entered: Entered, now: datetime
    ) -> None:
        self._backend = backend
        self._connection = connection
        self._tenant = tenant
        self._entered = entered
        self._at = next_time(now, None if entered.head is None else entered.head.time)
        self._depth = 0
        self._wrote = False
        self._kept: AsyncExitStack | None = None
        # A call whose caller was cancelled may still be talking to the server.
        self._talking = asyncio.Lock()

    def keep(self, stack: AsyncExitStack) -> None:
        """Take over what is to be let go of at the end."""
        self._kept = stack

    async def _reach(self, work: Callable[[Connection], Awaitable[T]], *, at_one_state: bool = False) -> T:
        # Whoever reads here keeps all other writers of the tenant out, so the state is one.
        async def converse() -> T:
            async with self._talking:
                if self._kept is None:
                    raise ClosedError("The transaction is over")
                try:
                    return await work(self._connection)
                except driver_errors() as error:
                    raise translated(error, "in a transaction") from error

        return await self._backend.seen_through(converse())

    async def run(self, unit: Unit[Any], now: datetime) -> Settled[Any]:
        async def work(connection: Connection) -> Settled[Any]:
            await connection.execute("SAVEPOINT verb")
            try:
                known = await answer(connection, head(self._tenant))
                (settled,), wrote = await settle_and_write(
                    connection, self._tenant, [unit], known, now, self._at
                )
            except BaseException:
                await connection.execute("ROLLBACK TO verb")
                raise
            await connection.execute("RELEASE verb")
            self._wrote = self._wrote or wrote
            return settled

        return await self._reach(work)

    async def savepoint(self) -> None:
        self._depth += 1
        await self._statement(f"SAVEPOINT nested_{self._depth:d}")

    async def release(self) -> None:
        await self._statement(f"RELEASE nested_{self._depth:d}")
        self._depth -= 1

    async def rollback_to(self) -> None:
        await self._statement(f"ROLLBACK TO nested_{self._depth:d}")
        await self.release()

    async def _statement(self, statement: str) -> None:
        await self._reach(lambda connection: connection.execute(statement))

    async def commit(self) -> None:
        await self._backend.seen_through(self._end(kept=True))

    async def rollback(self) -> None:
        await self._backend.seen_through(self._end(kept=False))

    async def _end(self, *, kept: bool) -> None:
        async with self._talking:
            stack, self._kept = self._kept, None
            if stack is None:
                return
            async with stack:
                if not kept:
                    await roll_back(self._connection)
                    return
                await self._commit()

    async def _commit(self) -> None:
        wrote = self._wrote
        try:
            try:
                await commit(self._connection, wrote=wrote)
            except BaseException:
                await roll_back(self._connection)
                raise
            if self._backend.waits_for_disk:
                await reach_disk(self._connection, None if wrote else self._entered.position, wrote=wrote)
        except driver_errors() as error:
            raise translated(error, "at the end of a transaction") from error
