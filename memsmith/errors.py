"""Every error memsmith raises, one tree.

::

    MemsmithError
    ├── ArgumentError (also ValueError)      an argument can't be accepted; nothing was written
    │   ├── InvalidContentError              content JSON can't carry, blank, or too deep
    │   │   └── ContentTooLargeError
    │   ├── InvalidConfidenceError
    │   ├── NaiveDatetimeError
    │   ├── InvalidIntervalError
    │   ├── InvalidScopeError
    │   └── QueryError                       unknown filter, order, status or cursor
    ├── NotFoundError
    ├── InvalidTransitionError
    ├── ConfidenceMonotonicityError
    ├── ValidationError                      a revision failed a critical check
    │   └── TombstonedError                  … because the value is blocked
    ├── ReviewRequiredError                  a revision needs a person
    ├── ConflictError                        somebody else was first
    │   ├── StaleVersionError
    │   ├── BaseChangedError
    │   ├── DuplicateError
    │   ├── IdempotencyConflictError
    │   └── TombstoneConflictError
    ├── PermissionDeniedError                the actor may not do this
    ├── LifetimeError
    │   ├── ClosedError                      the store, or a transaction, is over
    │   ├── TransactionTimeoutError
    │   └── WrongContextError                another event loop, or a forked process
    ├── StorageError
    │   ├── StoreBusyError                   retry later: nothing was written
    │   ├── UnknownOutcomeError              the connection was lost while committing
    │   ├── NotAMemsmithDatabaseError
    │   │   └── LegacyDatabaseError
    │   ├── SchemaTooNewError
    │   ├── ReadOnlyDatabaseError
    │   ├── DamagedDatabaseError
    │   └── DamagedRecordError               a row was changed into what it can't be
    ├── LedgerError                          a stored chain is not what it claims
    ├── ImportRefusedError
    │   └── SecretRequiredError
    └── MissingExtraError (also ImportError)
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime


class MemsmithError(Exception):
    """Root of everything raised on purpose."""


class ArgumentError(MemsmithError, ValueError):
    """An argument can't be accepted; the message says what was expected and what was found."""

    def __init__(self, argument: str, expected: str, found: object) -> None:
        self.argument = argument
        self.expected = expected
        self.found = found
        super().__init__(f"{argument}: expected {expected}, found {_show(found)}")


class InvalidContentError(ArgumentError):
    """Content that is blank, nested too deep, or that JSON can't carry."""


class ContentTooLargeError(InvalidContentError):
    """Content over the store's size limit."""


class InvalidConfidenceError(ArgumentError):
    """Confidence is not a number between 0 and 1."""

    def __init__(self, found: object, argument: str = "confidence") -> None:
        super().__init__(argument, "a number between 0 and 1", found)


class NaiveDatetimeError(ArgumentError):
    """A datetime without a time zone."""

    def __init__(self, argument: str, found: object) -> None:
        super().__init__(argument, "a timezone-aware datetime", found)


class InvalidIntervalError(ArgumentError):
    """An interval that ends at or before its start."""


class InvalidScopeError(ArgumentError):
    """A scope with empty, `.` or `..` segments, or characters a scope can't hold."""


class QueryError(ArgumentError):
    """A filter, order, status, limit or cursor that reads do not know."""


class NotFoundError(MemsmithError):
    """No such memory (or tombstone)."""

    def __init__(self, memory_id: str, what: str = "Memory") -> None:
        self.memory_id = memory_id
        super().__init__(f"{what} not found: {memory_id}")


class InvalidTransitionError(MemsmithError):
    """The lifecycle has no such transition; nothing changed."""

    def __init__(self, memory_id: str, from_status: str, to_status: str, action: str = "") -> None:
        self.memory_id = memory_id
        self.from_status = from_status
        self.to_status = to_status
        way = f"cannot go from {_value(from_status)} to {_value(to_status)}"
        if action and from_status == to_status:
            way = f"is {_value(from_status)} and can't be {_value(action)}"
        super().__init__(f"Invalid transition: memory {memory_id} {way}")


class ConfidenceMonotonicityError(MemsmithError):
    """Confidence only rises; to weaken a memory, retract it and propose again."""

    def __init__(self, memory_id: str, current: float, attempted: float) -> None:
        self.memory_id = memory_id
        self.current = current
        self.attempted = attempted
        super().__init__(
            f"Confidence must increase monotonically: memory {memory_id} has {current}, attempted {attempted}"
        )


class ValidationError(MemsmithError):
    """A revision failed a critical check; the memory is as it was."""

    def __init__(self, errors: Sequence[str], memory_id: str | None = None) -> None:
        self.memory_id = memory_id
        self.errors = list(errors)
        whose = f" for memory {memory_id}" if memory_id else ""
        super().__init__(f"Validation failed{whose}: {'; '.join(errors)}")


class TombstonedError(ValidationError):
    """The value is blocked by a tombstone; `lift_tombstone` is the only way to open it."""

    def __init__(self, tombstone_id: str, memory_id: str | None = None) -> None:
        self.tombstone_id = tombstone_id
        super().__init__([f"the value is blocked by tombstone {tombstone_id}"], memory_id)


class ReviewRequiredError(MemsmithError):
    """A revision would need a person; propose it instead, or revise to something that passes."""

    def __init__(self, memory_id: str, errors: Sequence[str]) -> None:
        self.memory_id = memory_id
        self.errors = list(errors)
        super().__init__(f"Revising memory {memory_id} needs a person: {'; '.join(errors)}")


class ConflictError(MemsmithError):
    """Somebody else was first; read again and decide again."""


class StaleVersionError(ConflictError):
    """`expected_version` is not the memory's version any more."""

    def __init__(self, memory_id: str, expected: int, found: int) -> None:
        self.memory_id = memory_id
        self.expected = expected
        self.found = found
        super().__init__(f"Memory {memory_id}: expected version {expected}, found {found}")


class BaseChangedError(ConflictError):
    """What a confirmation would do is no longer what the reviewer saw.

    `difference` says how; repeat with `expected_version=` to confirm it all the same.
    """

    def __init__(self, memory_id: str, difference: str, version: int) -> None:
        self.memory_id = memory_id
        self.difference = difference
        self.version = version
        super().__init__(
            f"Memory {memory_id}: {difference}; to confirm it all the same pass expected_version={version}"
        )


class DuplicateError(ConflictError):
    """A revision to the value of another live memory of the same reach."""

    def __init__(self, memory_id: str, other_id: str) -> None:
        self.memory_id = memory_id
        self.other_id = other_id
        super().__init__(f"Memory {memory_id}: memory {other_id} already says this")


class IdempotencyConflictError(ConflictError):
    """An idempotency key was used before with other arguments."""

    def __init__(self, verb: str, key: str) -> None:
        self.verb = verb
        self.key = key
        super().__init__(f"Idempotency key {key!r} was used for another {verb} with other arguments")


class TombstoneConflictError(ConflictError):
    """Other live memories hold the value to be blocked; pass `also=True` to take them along."""

    def __init__(self, memory_id: str, others: Sequence[str]) -> None:
        self.memory_id = memory_id
        self.others = list(others)
        super().__init__(
            f"Rejecting memory {memory_id} would block a value that {len(others)} live "
            f"{'memory holds' if len(others) == 1 else 'memories hold'} too ({', '.join(others)}); "
            f"pass also=True to reject them along"
        )


class PermissionDeniedError(MemsmithError):
    """The actor may not do this."""

    def __init__(self, actor: str, action: str, why: str) -> None:
        self.actor = actor
        self.action = action
        super().__init__(f"{actor} may not {action}: {why}")


class LifetimeError(MemsmithError):
    """Something is used outside the time or place it lives in."""


class ClosedError(LifetimeError):
    """The store or the transaction is closed."""


class TransactionTimeoutError(LifetimeError):
    """A transaction passed its deadline and was undone."""


class WrongContextError(LifetimeError):
    """A store is used from another event loop than its own, or after a fork."""


class StorageError(MemsmithError):
    """The database could not do what was asked; the driver's error is the cause."""


class StoreBusyError(StorageError):
    """Another writer held the store for too long. Nothing was written; trying again is safe."""

    retryable = True


class UnknownOutcomeError(StorageError):
    """The connection was lost at the commit: all of it was written, or nothing.

    `store.outcome(idempotency_key)` tells which, and the same call with the same key has one effect.
    """

    def __init__(self, doing: str) -> None:
        super().__init__(
            f"The connection was lost while {doing}, so all was written or nothing: store.outcome() tells, "
            f"by the idempotency key of the call"
        )


class NotAMemsmithDatabaseError(StorageError):
    """The file holds something else; it was left untouched."""


class LegacyDatabaseError(NotAMemsmithDatabaseError):
    """The file was written by memsmith 0.1.0; `memsmith upgrade FILE` turns it into ours."""


class SchemaTooNewError(StorageError):
    """A newer memsmith wrote this database; it was left untouched."""

    def __init__(self, found: int, known: int) -> None:
        self.found = found
        self.known = known
        super().__init__(
            f"The database has schema {found}, this memsmith knows up to {known}: upgrade the library"
        )


class ReadOnlyDatabaseError(StorageError):
    """The database file can't be written."""


class DamagedDatabaseError(StorageError):
    """The database file is damaged; it was left untouched."""


class DamagedRecordError(StorageError):
    """A stored row holds what no such row can hold; somebody wrote past the library."""

    def __init__(self, which: str, error: Exception) -> None:
        self.which = which
        super().__init__(f"The stored row of {which} can't be read: {error!r}")


class LedgerError(MemsmithError):
    """A stored ledger is not what it claims to be."""


class ImportRefusedError(MemsmithError):
    """An import was refused as a whole; nothing was written."""


class SecretRequiredError(ImportRefusedError):
    """Digests keyed with a secret that this store does not hold."""

    def __init__(self, secret_id: str) -> None:
        self.secret_id = secret_id
        super().__init__(
            f"Digests here are keyed with secret {secret_id}, which this store does not hold: pass "
            f"secret= or set MEMSMITH_SECRET (`memsmith secret FILE` prints the one of another file)"
        )


class MissingExtraError(MemsmithError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, extra: str, what: str) -> None:
        self.extra = extra
        super().__init__(f"{what} needs an optional dependency: pip install 'memsmith[{extra}]'")


def _value(status: str) -> str:
    return str(getattr(status, "value", status))


def _show(found: object, limit: int = 80) -> str:
    try:
        text = found.isoformat() if isinstance(found, datetime) else repr(found)
    except Exception as error:  # a broken __repr__ must not hide the real complaint
        text = f"<{type(found).__name__} whose repr raises {type(error).__name__}>"
    shown = text if len(text) <= limit else text[: limit - 1] + "…"
    return shown.encode("utf-8", "backslashreplace").decode("utf-8")
