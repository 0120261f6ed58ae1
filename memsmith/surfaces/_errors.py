"""Which answer each error gives: one table for every surface."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from memsmith import errors
from memsmith.errors import MemsmithError


class Exit(IntEnum):
    """Exit codes of the command line."""

    OK = 0
    NO = 1
    USAGE = 2
    BAD_INPUT = 3
    NOT_FOUND = 4
    CONFLICT = 5
    REFUSED = 6
    STORAGE = 7
    BUSY = 8
    LEDGER = 9
    IMPORT_REFUSED = 10
    MISSING_EXTRA = 11
    LIFETIME = 12
    OTHER = 13


MEANINGS: Final = {
    Exit.OK: "it was done",
    Exit.NO: "the answer is no: a proposal was refused, a ledger failed, a replay differs, nothing holds",
    Exit.USAGE: "the command line is wrong",
    Exit.BAD_INPUT: "an argument can't be accepted",
    Exit.NOT_FOUND: "no such memory, or tombstone",
    Exit.CONFLICT: "the memory is not in a state for this, or somebody was first",
    Exit.REFUSED: "a check, a tombstone or a permission stands against it",
    Exit.STORAGE: "the database is missing, damaged, read-only, too new or not ours",
    Exit.BUSY: "another process held the database: try again",
    Exit.LEDGER: "a stored ledger is not what it claims to be",
    Exit.IMPORT_REFUSED: "an import was refused as a whole",
    Exit.MISSING_EXTRA: "an optional dependency is not installed",
    Exit.LIFETIME: "a store was used after its end",
    Exit.OTHER: "anything else that memsmith raises",
}

EXIT_CODES: Final[dict[type[MemsmithError], Exit]] = {
    MemsmithError: Exit.OTHER,
    errors.ArgumentError: Exit.BAD_INPUT,
    errors.NotFoundError: Exit.NOT_FOUND,
    errors.InvalidTransitionError: Exit.CONFLICT,
    errors.ConfidenceMonotonicityError: Exit.CONFLICT,
    errors.ConflictError: Exit.CONFLICT,
    errors.ValidationError: Exit.REFUSED,
    errors.ReviewRequiredError: Exit.REFUSED,
    errors.PermissionDeniedError: Exit.REFUSED,
    errors.StorageError: Exit.STORAGE,
    errors.StoreBusyError: Exit.BUSY,
    errors.LedgerError: Exit.LEDGER,
    errors.ImportRefusedError: Exit.IMPORT_REFUSED,
    errors.MissingExtraError: Exit.MISSING_EXTRA,
    errors.LifetimeError: Exit.LIFETIME,
}
"""An error that is not listed answers like the nearest of its bases that is."""


def exit_code(error: MemsmithError) -> Exit:
    """Return the exit code an error gives."""
    return next(EXIT_CODES[base] for base in type(error).__mro__ if base in EXIT_CODES)


def is_retryable(error: MemsmithError) -> bool:
    """Tell whether the same call may simply be made again."""
    return bool(getattr(error, "retryable", False))
