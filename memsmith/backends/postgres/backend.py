"""The PostgreSQL backend: writers of a tenant take turns under a lock, and wait for the disk outside it.

Every transaction is a task of its own, so that a cancelled caller never cuts a conversation short.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar
from urllib.parse import SplitResult, urlsplit
from weakref import WeakValueDictionary

from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random_exponential

from memsmith._clock import require_seconds
from memsmith.backends.postgres.connecting import open_pool, require_driver
from memsmith.backends.postgres.failing import driver_errors, is_passing, is_refusal, translated
from memsmith.backends.postgres.opening import open_schema
from memsmith.backends.postgres.reading import PostgresReads
from memsmith.backends.postgres.statements import COMMIT_SQL, SQL
from memsmith.backends.postgres.transaction import PostgresTransaction, commit, reach_disk, roll_back
from memsmith.backends.postgres.writing import Entered, enter, settle_and_write, write
from memsmith.errors import ArgumentError, ClosedError, ImportRefusedError, MemsmithError
from memsmith.protocols import Clock
from memsmith.unit import Settled, Unit
from memsmith.wants import Changes

if TYPE_CHECKING:
    from memsmith.backends.postgres.connecting import Pool
    from memsmith.backends.postgres.statements import Connection

T = TypeVar("T")

BUSY_SECONDS: Final = 10.0
POOL_SIZE: Final = 10
STATEMENT_CACHE_SIZE: Final = 256
_FOR_READERS: Final = 2
"""How many connections writers leave to reads, which wait for no writer."""


class PostgresBackend(PostgresReads):
    """Memories in the schema `memsmith` of one PostgreSQL database.

    `durability` ``"full"`` has every commit on disk when a call returns; ``"normal"`` may lose the last
    commits when the server stops at once. `busy_seconds` is how long a write waits for other processes
    before StoreBusyError. `pool_size` is the most connections held, three at least. Behind a pooler that
    shares sessions between transactions, `statement_cache_size` must be 0.
    """

    def __init__(
        self,
        dsn: str,
        *,
        durability: Literal["full", "normal"] = "full",
        busy_seconds: float = BUSY_SECONDS,
        pool_size: int = POOL_SIZE,
        statement_cache_size: int = STATEMENT_CACHE_SIZE,
    ) -> None:
        require_driver("PostgresBackend")
        if durability not in ("full", "normal"):
            raise ArgumentError("durability", "'full' or 'normal'", durability)
        _require_count("pool_size", pool_size, _FOR_READERS + 1)
        _require_count("statement_cache_size", statement_cache_size, 0)
        parts = _parts(dsn)
        self._dsn = dsn
        self._where = f"{parts.hostname or 'localhost'}{parts.path}"
        self.waits_for_disk = durability == "full"
        self._busy_seconds = require_seconds("busy_seconds", busy_seconds)
        self._pool_size = pool_size
        self._statement_cache_size = statement_cache_size
        self._pool: Pool | None = None
        self._writers = asyncio.Semaphore(pool_size - _FOR_READERS)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._under_way: set[asyncio.Task[Any]] = set()
        self.held: set[PostgresTransaction] = set()

    # -- opening and closing ------------------------------------------------------------------

    async def initialize(self) -> None:
        opening = self._begun(self._open())
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            await asyncio.wait([opening])
            await self.close()
            raise

    async def _open(self) -> None:
        if self._pool is not None:
            return
        try:
            pool = await open_pool(self._dsn, self._pool_size, self._statement_cache_size)
            try:
                async with pool.acquire() as connection:
                    await open_schema(connection)
            except BaseException:
                await pool.close()
                raise
        except driver_errors() as error:
            raise translated(error, self._where) from error
        self._pool = pool

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is None:
            return
        # Writers may wait for a transaction that nobody will end now.
        while self._under_way or self.held:
            await asyncio.gather(*(transaction.rollback() for transaction in list(self.held)))
            if self._under_way:
                await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
        await pool.close()

    # -- conversations ------------------------------------------------------------------------

    def _begun(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start work that is seen through whatever happens to who asked for it."""
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    async def seen_through(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what work results in; where the caller is cancelled, it goes on to its end."""
        return await asyncio.shield(self._begun(work))

    def _open_pool(self) -> Pool:
        if self._pool is None:
            raise ClosedError("The backend is closed")
        return self._pool

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do what other writers, or a server that starts again, may keep from succeeding for a while."""
        try:
            return await work()
        except driver_errors() as error:
            if not is_passing(error):
                raise translated(error, self._where) from error
        retrying = AsyncRetrying(
            stop=stop_after_delay(self._busy_seconds),
            wait=wait_random_exponential(multiplier=0.005, max=0.5),
            retry=retry_if_exception(is_passing),
            reraise=True,
        )

        async def attempt() -> T:
            return await work()

        try:
            return await retrying(attempt)
        except driver_errors() as error:
            raise translated(error, self._where) from error

    async def _reach(self, work: Callable[[Connection], Awaitable[T]], *, at_one_state: bool = False) -> T:
        pool = self._open_pool()

        async def converse() -> T:
            async with pool.acquire() as connection:
                if not at_one_state:
                    return await work(connection)
                async with connection.transaction(isolation="repeatable_read", readonly=True):
                    return await work(connection)

        return await self._patiently(converse)

    async def on_disk(self) -> None:
        """Wait until everything that reads have shown so far is on disk.

        A reader may see what is committed and not yet flushed; a crash of the server would undo it. Who
        passes on what it read, such as a subscription, waits for this first.
        """

        async def wait() -> None:
            async with self._open_pool().acquire() as connection:
                await connection.execute(
                    COMMIT_SQL["flush"], await connection.fetchval(COMMIT_SQL["position"])
                )

        if self.waits_for_disk:
            await self.seen_through(self._patiently(wait))

    # -- writing ------------------------------------------------------------------------------

    async def _connected(self, stack: AsyncExitStack) -> Connection:
        """Return a connection to write on, kept until a stack ends."""
        await stack.enter_async_context(self._writers)
        return await stack.enter_async_context(self._open_pool().acquire())

    async def _transacted(
        self, tenant: str, work: Callable[[Connection, Entered], Awaitable[tuple[T, bool]]]
    ) -> T:
        """Let a function read and write in the tenant's turn; it tells whether it wrote."""
        turn = self._turns.setdefault(tenant, asyncio.Lock())

        async def attempt() -> T:
            async with AsyncExitStack() as stack:
                # First the turn, for who asks first is to write first, however long connecting takes.
                async with turn:
                    connection = await self._connected(stack)
                    await connection.execute("BEGIN")
                    try:
                        entered = await enter(connection, tenant, self._busy_seconds)
                        result, wrote = await work(connection, entered)
                    except BaseException:
                        await roll_back(connection)
                        raise
                    await commit(connection, wrote=wrote)
                # What was only read may be what another process has not yet on disk.
                if self.waits_for_disk:
                    await reach_disk(connection, None if wrote else entered.position, wrote=wrote)
                return result

        return await self.seen_through(self._patiently(attempt))

    async def commit(self, tenant: str, units: Sequence[Unit[Any]], clock: Clock) -> list[Settled[Any]]:
        async def together(connection: Connection, entered: Entered) -> tuple[list[Settled[Any]], bool]:
            return await settle_and_write(connection, tenant, units, entered.head, clock())

        try:
            return await self._transacted(tenant, together)
        except MemsmithError as error:
            if len(units) == 1 or error.__cause__ is None or not is_refusal(error.__cause__):
                raise
        # Something the database refused: find out which unit, so that the others succeed.
        return [await self._commit_alone(tenant, unit, clock) for unit in units]

    async def _commit_alone(self, tenant: str, unit: Unit[Any], clock: Clock) -> Settled[Any]:
        try:
            return (await self.commit(tenant, [unit], clock))[0]
        except MemsmithError as error:
            if error.__cause__ is None or not is_refusal(error.__cause__):
                raise
            return Settled(error=error)

    async def begin(self, tenant: str, clock: Clock) -> PostgresTransaction:
        opening = self._begun(self._patiently(lambda: self._begin(tenant, clock)))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            self._begun(_give_up(opening))
            raise

    async def _begin(self, tenant: str, clock: Clock) -> PostgresTransaction:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._turns.setdefault(tenant, asyncio.Lock()))
            connection = await self._connected(stack)
            await connection.execute("BEGIN")
            try:
                entered = await enter(connection, tenant, self._busy_seconds)
                transaction = PostgresTransaction(self, connection, tenant, entered, clock())
            except BaseException:
                await roll_back(connection)
                raise
            self.held.add(transaction)
            stack.callback(self.held.discard, transaction)
            transaction.keep(stack.pop_all())
            return transaction

    async def secrets(self) -> dict[str, bytes]:
        return {name: secret or b"" for name, secret in await self._rows("secrets")}

    async def add_secret(self, secret_id: str, secret: bytes | None) -> bool:
        async def add() -> bool:
            async with self._open_pool().acquire() as connection:
                return bool(await connection.fetch(SQL["add_secret"], secret_id, secret))

        return await self.seen_through(self._patiently(add))

    async def restore(self, tenant: str, changes: Changes, secrets: Sequence[tuple[str, bytes]] = ()) -> None:
        async def fill(connection: Connection, entered: Entered) -> tuple[None, bool]:
            if entered.head is not None:
                raise ImportRefusedError(f"Tenant {tenant!r} is not empty")
            if secrets:
                await connection.execute(COMMIT_SQL["keep_others_out"])
                if await connection.fetch(SQL["any_tenant"]):
                    raise ImportRefusedError("Other tenants are keyed with the secret of this storage")
                await connection.execute(SQL["drop_secrets"])
                for secret in secrets:
                    await connection.execute(SQL["add_secret"], *secret)
            await write(connection, tenant, changes)
            return None, True

        await self._transacted(tenant, fill)


def _require_count(argument: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(argument, f"a whole number of {least} or more", value)


def _parts(dsn: object) -> SplitResult:
    """Return the parts of a URL, which is not repeated where it is wrong: it may hold a password."""
    expected = "a URL such as postgresql://user@host/database"
    if not isinstance(dsn, str):
        raise ArgumentError("dsn", expected, type(dsn).__name__)
    try:
        parts = urlsplit(dsn)
        _ = parts.port
    except ValueError:
        raise ArgumentError("dsn", expected, "another text") from None
    if parts.scheme not in {"postgresql", "postgres"} or "\x00" in dsn:
        raise ArgumentError("dsn", expected, "another text")
    return parts


async def _give_up(opening: asyncio.Task[PostgresTransaction]) -> None:
    """Undo a transaction that nobody waits for any more."""
    await asyncio.wait([opening])
    if not opening.cancelled() and opening.exception() is None:
        await opening.result().rollback()
