"""What the driver raises, and what becomes of it."""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

from memsmith.errors import MemsmithError, ReadOnlyDatabaseError, StorageError, StoreBusyError

Kinds: TypeAlias = tuple[type[BaseException], ...]

# The driver is loaded by whoever opens a backend, and so are its errors.


@cache
def driver_errors() -> Kinds:
    """Return what a conversation with the server may raise; timeouts are OSErrors."""
    import asyncpg

    return (asyncpg.PostgresError, asyncpg.InterfaceError, OSError)


@cache
def _in_each_others_way() -> Kinds:
    import asyncpg

    return (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)


@cache
def _gone() -> Kinds:
    import asyncpg

    return (
        asyncpg.PostgresConnectionError,
        asyncpg.InterfaceError,
        asyncpg.AdminShutdownError,
        asyncpg.CrashShutdownError,
        asyncpg.CannotConnectNowError,
        asyncpg.TooManyConnectionsError,
        OSError,
    )


@cache
def _refused() -> Kinds:
    import asyncpg

    return (
        asyncpg.IntegrityConstraintViolationError,
        asyncpg.ProgramLimitExceededError,
        asyncpg.DataError,
    )


def is_gone(error: BaseException) -> bool:
    """Tell whether the server can't be reached, or no longer on this connection."""
    return isinstance(error, _gone())


def is_passing(error: BaseException) -> bool:
    """Tell whether trying again may help; everything was undone."""
    return isinstance(error, _in_each_others_way()) or is_gone(error)


def is_refusal(error: BaseException) -> bool:
    """Tell whether the database refused what was to be written, so that other units may succeed."""
    return isinstance(error, _refused())


def translated(error: BaseException, where: str) -> MemsmithError:
    """Return the memsmith error for a driver's error; the driver's is to be its cause."""
    import asyncpg

    if isinstance(error, asyncpg.LockNotAvailableError):
        return StoreBusyError(f"{where}: another writer held the tenant for too long; try again")
    if is_passing(error):
        return StoreBusyError(f"{where}: {error or type(error).__name__}; nothing was written, try again")
    if isinstance(error, asyncpg.ReadOnlySQLTransactionError | asyncpg.InsufficientPrivilegeError):
        return ReadOnlyDatabaseError(f"{where}: {error}")
    return StorageError(f"{where}: {error}")
