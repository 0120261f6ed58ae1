"""Reading the databases of memsmith 0.1.0, and putting ours in their place."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, cast

import orjson

from memsmith._canonical import encode_content, encode_json, optional_text, require_text, sha256_hex
from memsmith._clock import require_aware
from memsmith.backends.sqlite.filelock import FileLock
from memsmith.backends.sqlite.opening import inspect_file, is_busy, open_to_read, translated
from memsmith.errors import (
    ArgumentError,
    DamagedDatabaseError,
    LegacyDatabaseError,
    MemsmithError,
    NotAMemsmithDatabaseError,
    ReadOnlyDatabaseError,
    StorageError,
    StoreBusyError,
)
from memsmith.types import AuditEntry, Memory, MemoryStatus

T = TypeVar("T")
Columns: TypeAlias = tuple[Any, ...]

BACKUP_SUFFIX: Final = ".0.1.0.bak"
BUSY_SECONDS: Final = 5.0
_WORK_SUFFIX: Final = ".upgrading"
_COPY_SUFFIX: Final = ".copying"
_BESIDE: Final = ("", "-wal", "-shm", "-journal", "-lock")

_MEMORIES: Final = """
SELECT
    id, content, session_id, thread_id, source, confidence, status, depends_on, created_at, updated_at,
    expires_at, retracted_at, retraction_reason
FROM memories ORDER BY created_at, id
"""
_AUDIT: Final = """
SELECT id, memory_id, action, from_status, to_status, timestamp, metadata FROM audit_log ORDER BY rowid
"""
_REST: Final = frozenset(MemoryStatus) - {MemoryStatus.PROPOSED}
_ANY_SIZE: Final = 2**40


@dataclass
class Legacy:
    """What a 0.1.0 database holds, as plain values of ours.

    Memories have no digest, audit entries (oldest first) have statuses only where 0.1.0 wrote them.
    `faults` says of each id why it can't be carried over.
    """

    memories: list[Memory] = field(default_factory=list[Memory])
    audit: list[AuditEntry] = field(default_factory=list[AuditEntry])
    faults: dict[str, str] = field(default_factory=dict[str, str])


# -- reading --------------------------------------------------------------------------------------


def read_legacy(connection: sqlite3.Connection) -> Legacy:
    """Read everything; what can't be carried over is among the faults, not an error."""
    memories, audit = connection.execute(_MEMORIES).fetchall(), connection.execute(_AUDIT).fetchall()
    faults: dict[str, str] = {}
    return Legacy(_each(_memory, memories, faults), _each(_entry, audit, faults), faults)


def _each(read: Callable[[Columns], T], rows: list[Columns], faults: dict[str, str]) -> list[T]:
    found: list[T] = []
    for row in rows:
        try:
            found.append(read(row))
        except (MemsmithError, TypeError, ValueError, RecursionError) as error:
            faults[str(row[0])] = str(error)
    return found


def _memory(row: Columns) -> Memory:
    (
        ident, content, session_id, thread_id, source, confidence, status, depends_on, created_at,
        updated_at, expires_at, retracted_at, retraction_reason,
    ) = row  # fmt: skip
    text = encode_content(_json("content", content), _ANY_SIZE)
    if not isinstance(confidence, float) or not 0 <= confidence <= 1:
        raise ArgumentError("confidence", "a number between 0 and 1", confidence)
    found = MemoryStatus(status)
    if found not in _REST:
        raise ArgumentError("status", "one a memory can rest in", status)
    created = _time("created_at", created_at)
    return Memory(
        id=require_text("id", ident),
        content=orjson.loads(text),
        content_hash=sha256_hex(text),
        session_id=require_text("session_id", session_id, blank=True, most=_ANY_SIZE),
        thread_id=optional_text("thread_id", thread_id, most=_ANY_SIZE),
        source=optional_text("source", source, most=_ANY_SIZE),
        confidence=confidence,
        status=found,
        depends_on=_ids(depends_on),
        created_at=created,
        updated_at=_time("updated_at", updated_at),
        expires_at=None if expires_at is None else _time("expires_at", expires_at),
        retracted_at=None if retracted_at is None else _time("retracted_at", retracted_at),
        retraction_reason=optional_text("retraction_reason", retraction_reason, most=_ANY_SIZE),
        valid_from=created,
        code="validation" if found is MemoryStatus.REJECTED else None,
    )


def _entry(row: Columns) -> AuditEntry:
    ident, memory_id, action, from_status, to_status, timestamp, metadata = row
    notes: object = {} if metadata is None else _json("metadata", metadata)
    if not isinstance(notes, dict):
        raise ArgumentError("metadata", "a JSON object", notes)
    carried = encode_json("metadata", notes, _ANY_SIZE)
    return AuditEntry(
        id=require_text("id", ident),
        memory_id=require_text("memory_id", memory_id),
        action=require_text("action", action),
        from_status=None if from_status is None else MemoryStatus(from_status),
        to_status=None if to_status is None else MemoryStatus(to_status),
        timestamp=_time("timestamp", timestamp),
        metadata=orjson.loads(carried),
    )


def _json(name: str, text: object) -> Any:
    if not isinstance(text, str):
        raise ArgumentError(name, "JSON text", text)
    return json.loads(text)


def _ids(text: object) -> list[str]:
    ids: object = [] if text is None else _json("depends_on", text)
    if not isinstance(ids, list):
        raise ArgumentError("depends_on", "a list of ids", ids)
    return list(dict.fromkeys(require_text("depends_on", each) for each in cast(list[object], ids)))


def _time(name: str, text: object) -> datetime:
    if not isinstance(text, str):
        raise ArgumentError(name, "an ISO 8601 time", text)
    moment = datetime.fromisoformat(text)
    # 0.1.0 compared times as text, so one without an offset counted as UTC.
    return require_aware(name, moment if moment.tzinfo else moment.replace(tzinfo=UTC))


# -- replacing ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Site:
    """The place of one upgrade: the old file, the copy to keep, and where the new file is built."""

    path: Path
    backup: Path
    work: Path
    legacy: Legacy


@contextmanager
def upgrading(path: Path) -> Generator[Site, None, None]:
    """Read a 0.1.0 database for its upgrade; `finish` in the body puts the new file in its place.

    Nothing of the old file is written to, and what was built is removed in the end.
    """
    path = path.resolve()
    backup = path.with_name(path.name + BACKUP_SUFFIX)
    _require_legacy(path)
    lock = FileLock(str(path))
    try:
        lock.acquire(BUSY_SECONDS)
        _require_legacy(path)
        site = Site(path, backup, path.with_name(path.name + _WORK_SUFFIX), Legacy())
        _clear(site)
        try:
            site = _copied(site)
            if backup.exists() and not _holds(backup, site.legacy):
                raise StorageError(f"{backup} is in the way of the copy to keep: move it elsewhere")
            yield site
        finally:
            _clear(site)
    finally:
        lock.close()


def _require_legacy(path: Path) -> None:
    if not path.exists():
        raise StorageError(f"{path}: there is no file to upgrade")
    try:
        inspect_file(path)
    except LegacyDatabaseError:
        if not os.access(path.parent, os.W_OK):
            raise ReadOnlyDatabaseError(f"{path}: its folder is read-only") from None
        return
    raise NotAMemsmithDatabaseError(
        f"{path}: expected a database of memsmith 0.1.0, found none or one of ours"
    )


def _holds(backup: Path, legacy: Legacy) -> bool:
    """Tell whether a copy is that of this very file, as an upgrade leaves it that was killed at the last."""
    try:
        with closing(open_to_read(backup)) as connection:
            return read_legacy(connection) == legacy
    except (OSError, sqlite3.Error):  # whatever it is, it is not that copy
        return False


def _copied(site: Site) -> Site:
    """Copy the old database page by page, whatever of it still lies in its WAL, and read the copy."""
    copy = _copy_of(site)
    try:
        with closing(open_to_read(site.path, BUSY_SECONDS)) as old, closing(sqlite3.connect(copy)) as new:
            old.backup(new)
            # As a plain file: in WAL mode even looking would leave two more beside it.
            new.execute("PRAGMA journal_mode = DELETE")
            answer = new.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if answer != "ok":
                raise DamagedDatabaseError(f"{site.path}: {answer}")
            legacy = read_legacy(new)
    except sqlite3.Error as error:
        raise translated(error, str(site.path)) from error
    return Site(site.path, site.backup, site.work, legacy)


def finish(site: Site) -> None:
    """Keep the copy, then put the new file in place of the old one, at once.

    The old file must be open nowhere, and as it was read.
    """
    busy = f"{site.path} is open elsewhere, or was written to meanwhile: close it there and try again"
    try:
        with closing(sqlite3.connect(site.path, isolation_level=None, timeout=BUSY_SECONDS)) as old:
            # Only who is alone can leave WAL mode; the two files beside go with it.
            (mode,) = old.execute("PRAGMA journal_mode = DELETE").fetchone()
            old.execute("BEGIN EXCLUSIVE")
            if mode != "delete" or read_legacy(old) != site.legacy:
                raise StoreBusyError(busy)
            _swap(site)
            old.execute("ROLLBACK")
    except sqlite3.Error as error:
        raise (StoreBusyError(busy) if is_busy(error) else translated(error, str(site.path))) from error


def _swap(site: Site) -> None:
    was = site.path.stat()
    for file in (_copy_of(site), site.work):
        shutil.copymode(site.path, file)
        if os.geteuid() == 0:
            os.chown(file, was.st_uid, was.st_gid)
        _sync(file)
    if not site.backup.exists():
        # A link never overwrites; a rename would.
        os.link(_copy_of(site), site.backup)
    _sync(site.path.parent)
    os.replace(site.work, site.path)
    _sync(site.path.parent)


def _copy_of(site: Site) -> Path:
    return site.path.with_name(site.path.name + _COPY_SUFFIX)


def _clear(site: Site) -> None:
    """Remove what this upgrade, or one that was killed, built."""
    for base in (site.work, _copy_of(site)):
        for suffix in _BESIDE:
            base.with_name(base.name + suffix).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
