"""The SQLite backend: a writer connection and readers that never wait for it.

One transaction is one hop to the writer's thread, so a cancelled call can't leave one open. WAL
keeps readers apart from the writer; only `:memory:` shares one connection.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import aiosqlite
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from memsmith._clock import next_time, require_seconds
from memsmith.backends.sqlite.filelock import FileLock, has_wal_reset_bug
from memsmith.backends.sqlite.opening import (
    DRIVER_ERRORS,
    inspect_file,
    is_busy,
    is_current,
    migrate,
    translated,
)
from memsmith.backends.sqlite.reading import SQLiteReads
from memsmith.backends.sqlite.statements import SQL, head
from memsmith.backends.sqlite.writing import settle_and_write, write
from memsmith.errors import ArgumentError, ClosedError, ImportRefusedError, StoreBusyError
from memsmith.protocols import Clock
from memsmith.unit import Settled, Unit
from memsmith.wants import Changes

T = TypeVar("T")
logger = logging.getLogger("memsmith")

MEMORY: Final = ":memory:"
READERS: Final = 2
BUSY_SECONDS: Final = 10.0
_CACHE_KIB: Final = 16_384
_SYNCHRONOUS: Final = {"full": "PRAGMA synchronous = FULL", "normal": "PRAGMA synchronous = NORMAL"}


class _Connection(aiosqlite.Connection):
    """aiosqlite's connection with the one thing we need of it: a function run on its thread."""

    async def hop(self, work: Callable[[sqlite3.Connection], T]) -> T:
        result: T = await self._execute(work, self._conn)  # type: ignore[no-untyped-call]  # aiosqlite leaves it so
        return result


class SQLiteBackend(SQLiteReads):
    """Memories in one SQLite file.

    `durability` ``"full"`` has every commit on disk when a call returns; ``"normal"`` survives a
    killed process but may lose the last commits with the machine's power. `busy_seconds` is how long
    a write waits for other processes before StoreBusyError.
    """

    def __init__(
        self,
        path: str | Path = MEMORY,
        *,
        durability: Literal["full", "normal"] = "full",
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        if durability not in _SYNCHRONOUS:
            raise ArgumentError("durability", "'full' or 'normal'", durability)
        if not isinstance(path, str | Path) or "\x00" in str(path):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are untyped
            raise ArgumentError("path", "the path of a file, or ':memory:'", path)
        self._path = str(path)
        self._durability: str = durability
        self._busy_seconds = require_seconds("busy_seconds", busy_seconds)
        self._writer: _Connection | None = None
        self._readers: list[_Connection] = []
        self._lock: FileLock | None = None
        self._turn = itertools.count()
        self._held = asyncio.Lock()

    # -- opening and closing ------------------------------------------------------------------

    async def initialize(self) -> None:
        opening = asyncio.ensure_future(self._open())
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            # Let go of half an opening, a database thread would keep the program from ending.
            await asyncio.wait([opening])
            if opening.exception() is None:
                await self.close()
            raise

    async def _open(self) -> None:
        if self._writer is not None:
            return
        in_memory = self._path == MEMORY
        if not in_memory:
            await asyncio.to_thread(inspect_file, Path(self._path))
            if has_wal_reset_bug(sqlite3.sqlite_version_info):
                self._lock = FileLock(self._path)
                logger.info(
                    "SQLite %s has the WAL-reset bug: writers of %s take turns on %s-lock",
                    sqlite3.sqlite_version, self._path, self._path,
                )  # fmt: skip
        try:
            self._writer = await self._connect()
            await self.write_hop(self._set_up)
            for _ in range(0 if in_memory else READERS):
                reader = await self._connect()
                self._readers.append(reader)
                await reader.hop(lambda connection: connection.execute("PRAGMA query_only = ON"))
        except BaseException:
            await self.close()
            raise

    async def _connect(self) -> _Connection:
        # Patience is ours (tenacity): SQLite's own waits neither jitter nor see the lock file.
        connection = _Connection(
            lambda: sqlite3.connect(self._path, isolation_level=None, timeout=0.05), iter_chunk_size=64
        )
        await connection
        return connection

    def _set_up(self, connection: sqlite3.Connection) -> None:
        def create() -> None:
            connection.execute("PRAGMA journal_mode = WAL")
            migrate(connection)

        connection.execute(_SYNCHRONOUS[self._durability])
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB:d}")
        # Opening what is up to date writes nothing, so it waits for no writer.
        if not self._patiently(lambda: is_current(connection)):
            self._guarded(create)

    async def close(self) -> None:
        writer, readers, lock = self._writer, self._readers, self._lock
        self._writer, self._readers, self._lock = None, [], None
        for reader in readers:
            await reader.close()
        if writer is not None:
            # The last close checkpoints, so it takes its turn like a write.
            try:
                if lock is not None:
                    lock.acquire(0)
            except StoreBusyError:
                # Whoever holds the lock has the file open, so this close is not the last.
                logger.debug("Closing %s beside a writer", self._path)
            finally:
                await writer.close()
        if lock is not None:
            lock.close()

    # -- reaching the connections -------------------------------------------------------------

    async def write_hop(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function on the writer's thread."""
        if self._writer is None:
            raise ClosedError("The backend is closed")
        try:
            return await self._writer.hop(work)
        except DRIVER_ERRORS as error:
            raise translated(error, self._path) from error

    async def _hop(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if not self._readers:
            return await self.write_hop(work)
        reader = self._readers[next(self._turn) % len(self._readers)]
        try:
            return await reader.hop(work)
        except DRIVER_ERRORS as error:
            raise translated(error, self._path) from error

    def _guarded(self, work: Callable[[], T]) -> T:
        """Run writing work under the lock file, where there is one."""
        if self._lock is None:
            return self._patiently(work)
        self._lock.acquire(self._busy_seconds)
        try:
            return self._patiently(work)
        finally:
            self._lock.release()

    def _patiently(self, work: Callable[[], T]) -> T:
        """Run work that other processes may keep out for a while."""
        try:
            return work()
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
        retrying = Retrying(
            stop=stop_after_delay(self._busy_seconds),
            wait=wait_random_exponential(multiplier=0.001, max=0.05),
            retry=retry_if_exception(is_busy),
            reraise=True,
        )
        return retrying(work)

    # -- writing ------------------------------------------------------------------------------

    async def commit(self, tenant: str, units: Sequence[Unit[Any]], clock: Clock) -> list[Settled[Any]]:
        def work(connection: sqlite3.Connection) -> list[Settled[Any]]:
            try:
                return self._commit(connection, tenant, units, clock)
            except sqlite3.IntegrityError:
                if len(units) == 1:
                    raise
            # Something the database refused: find out which unit, so that the others succeed.
            return [self._commit_alone(connection, tenant, unit, clock) for unit in units]

        async with self._held:
            return await self.write_hop(work)

    def _commit_alone(
        self, connection: sqlite3.Connection, tenant: str, unit: Unit[Any], clock: Clock
    ) -> Settled[Any]:
        try:
            return self._commit(connection, tenant, [unit], clock)[0]
        except sqlite3.IntegrityError as error:
            refusal = translated(error, self._path)
            refusal.__cause__ = error
            return Settled(error=refusal)

    def _commit(
        self, connection: sqlite3.Connection, tenant: str, units: Sequence[Unit[Any]], clock: Clock
    ) -> list[Settled[Any]]:
        def work() -> list[Settled[Any]]:
            with _transaction(connection):
                return settle_and_write(connection, tenant, units, clock())

        return self._guarded(work)

    async def begin(self, tenant: str, clock: Clock) -> SQLiteTransaction:
        def work(connection: sqlite3.Connection) -> datetime:
            if self._lock is not None:
                self._lock.acquire(self._busy_seconds)
            try:
                self._patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
                last = head(connection, tenant)
                return next_time(clock(), None if last is None else last.time)
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if self._lock is not None:
                    self._lock.release()
                raise

        await self._held.acquire()
        try:
            return SQLiteTransaction(self, tenant, await self.write_hop(work))
        except BaseException:
            self._held.release()
            raise

    async def end(self, statement: Literal["COMMIT", "ROLLBACK"]) -> None:
        """End the open transaction and let the next writer in."""

        def work(connection: sqlite3.Connection) -> None:
            try:
                self._patiently(lambda: connection.execute(statement))
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if self._lock is not None:
                    self._lock.release()

        try:
            await self.write_hop(work)
        finally:
            self._held.release()

    async def secrets(self) -> dict[str, bytes]:
        rows: list[Any] = await self._hop(lambda c: c.execute(SQL["secrets"]).fetchall())
        return {name: secret or b"" for name, secret in rows}

    async def add_secret(self, secret_id: str, secret: bytes | None) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            def add() -> bool:
                return connection.execute(SQL["add_secret"], (secret_id, secret)).rowcount == 1

            return self._guarded(add)

        return await self.write_hop(work)

    async def restore(self, tenant: str, changes: Changes, secrets: Sequence[tuple[str, bytes]] = ()) -> None:
        def work(connection: sqlite3.Connection) -> None:
            def fill() -> None:
                with _transaction(connection):
                    if head(connection, tenant) is not None:
                        raise ImportRefusedError(f"Tenant {tenant!r} is not empty")
                    if secrets:
                        if connection.execute(SQL["any_tenant"]).fetchone() is not None:
                            raise ImportRefusedError(
                                "Other tenants are keyed with the secret of this storage"
                            )
                        connection.execute(SQL["drop_secrets"])
                        connection.executemany(SQL["add_secret"], secrets)
                    write(connection, tenant, changes)

            self._guarded(fill)

        await self.write_hop(work)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Generator[None, None, None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


class SQLiteTransaction(SQLiteReads):
    """A transaction held open over several hops; it keeps the writer, and the lock file, until it ends."""

    def __init__(self, backend: SQLiteBackend, tenant: str, at: datetime) -> None:
        self._backend = backend
        self._tenant = tenant
        self._at = at
        self._depth = 0

    async def _hop(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._backend.write_hop(work)

    async def run(self, unit: Unit[Any], now: datetime) -> Settled[Any]:
        def work(connection: sqlite3.Connection) -> Settled[Any]:
            connection.execute("SAVEPOINT verb")
            try:
                settled = settle_and_write(connection, self._tenant, [unit], now, self._at)[0]
            except BaseException:
                connection.execute("ROLLBACK TO verb")
                raise
            finally:
                connection.execute("RELEASE verb")
            return settled

        return await self._hop(work)

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
        await self._hop(lambda connection: connection.execute(statement))

    async def commit(self) -> None:
        await self._backend.end("COMMIT")

    async def rollback(self) -> None:
        await self._backend.end("ROLLBACK")
