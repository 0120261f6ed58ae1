"""What the driver raises, and what becomes of it."""

from __future__ import annotations

from typing import Final

import asyncpg

from memsmith.errors import MemsmithError, ReadOnlyDatabaseError, StorageError, StoreBusyError

DRIVER_ERRORS: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError)
"""What a conversation with the server may raise; timeouts are OSErrors."""

_IN_EACH_OTHERS_WAY: Final = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)
_GONE: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    OSError,
)
_REFUSED: Final = (
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
    asyncpg.DataError,
)


def is_gone(error: BaseException) -> bool:
    """Tell whether the server can't be reached, or no longer on this connection."""
    return isinstance(error, _GONE)


def is_passing(error: BaseException) -> bool:
    """Tell whether trying again may help; everything was undone."""
    return isinstance(error, _IN_EACH_OTHERS_WAY) or is_gone(error)


def is_refusal(error: BaseException) -> bool:
    """Tell whether the database refused what was to be written, so that other units may succeed."""
    return isinstance(error, _REFUSED)


def translated(error: BaseException, where: str) -> MemsmithError:
    """Return the memsmith error for a driver's error; the driver's is to be its cause."""
    if isinstance(error, asyncpg.LockNotAvailableError):
        return StoreBusyError(f"{where}: another writer held the tenant for too long; try again")
    if is_passing(error):
        return StoreBusyError(f"{where}: {error or type(error).__name__}; nothing was written, try again")
    if isinstance(error, asyncpg.ReadOnlySQLTransactionError | asyncpg.InsufficientPrivilegeError):
        return ReadOnlyDatabaseError(f"{where}: {error}")
    return StorageError(f"{where}: {error}")
