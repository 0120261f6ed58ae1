"""The stored form of a memory: strings, integers and None, the same in tables and in the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import orjson

from memsmith._canonical import canonical
from memsmith._clock import from_text, to_text
from memsmith.errors import DamagedRecordError
from memsmith.temporal import BEGINNING
from memsmith.types import Displaced, Interval, Memory, MemoryStatus, Origin, Tombstone, memory_from

Record = dict[str, Any]

MEMORY_COLUMNS: Final = (
    "tenant", "id", "kind", "scope", "key", "content", "content_hash", "value_digest", "session_id",
    "thread_id", "source", "confidence", "origin", "sensitivity", "status", "held_status", "code",
    "depends_on", "metadata", "actor", "created_at", "updated_at", "valid_from", "valid_to",
    "expires_at", "retracted_at", "retraction_reason", "version", "seq", "retracted_during",
    "asserted_order", "displaces", "many", "system_from",
)  # fmt: skip

TOMBSTONE_COLUMNS: Final = (
    "tenant", "id", "memory_id", "kind", "scope", "key", "digest", "secret_id", "reason", "actor",
    "created_at", "refused", "lifted_at", "lift_reason",
)  # fmt: skip

_MEMORY_TIMES: Final = frozenset(
    {"created_at", "updated_at", "valid_from", "valid_to", "expires_at", "retracted_at", "system_from"}
)
_EMPTY_LIST: Final = "[]"
_EMPTY_MAP: Final = "{}"


def memory_record(memory: Memory, text: str | None = None) -> Record:
    """Return the memory's columns in stored form, in the order of MEMORY_COLUMNS; confidence stays a float.

    `text` is the content as canonical JSON, where the caller has it.
    """
    m = memory.__dict__
    content, held = m["content"], m["held_status"]
    return {
        "tenant": m["tenant"],
        "id": m["id"],
        "kind": m["kind"],
        "scope": m["scope"],
        "key": m["key"],
        "content": text or (None if content is None else canonical(content).decode()),
        "content_hash": m["content_hash"],
        "value_digest": m["value_digest"],
        "session_id": m["session_id"],
        "thread_id": m["thread_id"],
        "source": m["source"],
        "confidence": m["confidence"],
        "origin": m["origin"]._value_,
        "sensitivity": m["sensitivity"],
        "status": m["status"]._value_,
        "held_status": None if held is None else held._value_,
        "code": m["code"],
        "depends_on": canonical(m["depends_on"]).decode() if m["depends_on"] else _EMPTY_LIST,
        "metadata": canonical(m["metadata"]).decode() if m["metadata"] else _EMPTY_MAP,
        "actor": m["actor"],
        "created_at": to_text(m["created_at"]),
        "updated_at": to_text(m["updated_at"]),
        "valid_from": _time(m["valid_from"]),
        "valid_to": _time(m["valid_to"]),
        "expires_at": _time(m["expires_at"]),
        "retracted_at": _time(m["retracted_at"]),
        "retraction_reason": m["retraction_reason"],
        "version": m["version"],
        "seq": m["seq"],
        "retracted_during": _intervals(m["retracted_during"]) if m["retracted_during"] else _EMPTY_LIST,
        "asserted_order": m["asserted_order"],
        "displaces": _displaced(m["displaces"]) if m["displaces"] else _EMPTY_LIST,
        "many": int(m["many"]),
        "system_from": _time(m["system_from"]),
    }


def field_record(name: str, value: Any) -> Any:
    """Return one field of a memory in stored form; confidence as ``repr`` text, as hashed."""
    if value is None:
        return None
    if name in {"content", "depends_on", "metadata"}:
        return canonical(value).decode()
    if name == "displaces":
        return _displaced(value)
    if name == "retracted_during":
        return _intervals(value)
    if name == "many":
        return int(value)
    if name in _MEMORY_TIMES:
        return to_text(value)
    if name == "confidence":
        return repr(value)
    return value.value if isinstance(value, MemoryStatus | Origin) else value


def memory_of(record: Mapping[str, Any]) -> Memory:
    """Rebuild a memory from its stored form."""
    columns = {**record, "confidence": float(record["confidence"])}
    return memory_of_row([columns.get(name) for name in MEMORY_COLUMNS])


def memory_of_row(row: Sequence[Any]) -> Memory:
    """Rebuild a memory from its columns in the order of MEMORY_COLUMNS.

    Raises DamagedRecordError where a value was changed into what no memory can hold.
    """
    try:
        return _memory_of_row(row)
    except (LookupError, TypeError, ValueError) as error:
        raise DamagedRecordError(f"memory {row[1]}", error) from error


def _memory_of_row(row: Sequence[Any]) -> Memory:
    (
        tenant, ident, kind, scope, key, content, content_hash, value_digest, session_id, thread_id,
        source, confidence, origin, sensitivity, status, held_status, code, depends_on, metadata,
        actor, created_at, updated_at, valid_from, valid_to, expires_at, retracted_at,
        retraction_reason, version, seq, retracted_during, asserted_order, displaces, many, system_from,
    ) = row  # fmt: skip
    created = from_text(created_at)
    return memory_from(
        {
            "tenant": tenant,
            "id": ident,
            "kind": kind,
            "scope": scope,
            "key": key,
            "content": None if content is None else orjson.loads(content),
            "content_hash": content_hash,
            "value_digest": value_digest,
            "session_id": session_id,
            "thread_id": thread_id,
            "source": source,
            "confidence": confidence,
            "origin": _ORIGINS[origin],
            "sensitivity": sensitivity,
            "status": _STATUSES[status],
            "held_status": None if held_status is None else _STATUSES[held_status],
            "code": code,
            "depends_on": [] if depends_on == _EMPTY_LIST else orjson.loads(depends_on),
            "metadata": {} if metadata == _EMPTY_MAP else orjson.loads(metadata),
            "actor": actor,
            "created_at": created,
            "updated_at": created if updated_at == created_at else from_text(updated_at),
            "valid_from": created if valid_from == created_at else _moment(valid_from),
            "valid_to": _moment(valid_to),
            "expires_at": _moment(expires_at),
            "retracted_at": _moment(retracted_at),
            "retraction_reason": retraction_reason,
            "version": version,
            "seq": seq,
            "retracted_during": intervals_of(retracted_during),
            "asserted_order": asserted_order,
            "displaces": _displaced_of(displaces),
            "many": bool(many),
            "system_from": created if system_from == created_at else _moment(system_from),
        }
    )


def tombstone_record(stone: Tombstone) -> Record:
    """Return the tombstone's columns in stored form."""
    record = {name: getattr(stone, name) for name in TOMBSTONE_COLUMNS}
    return record | {"created_at": to_text(stone.created_at), "lifted_at": _time(stone.lifted_at)}


def tombstone_of(record: Mapping[str, Any]) -> Tombstone:
    """Rebuild a tombstone from its stored form."""
    fields: dict[str, Any] = {name: record[name] for name in TOMBSTONE_COLUMNS}
    fields["created_at"] = from_text(fields["created_at"])
    if fields["lifted_at"] is not None:
        fields["lifted_at"] = from_text(fields["lifted_at"])
    return Tombstone(**fields)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else from_text(text)


def intervals_of(text: str) -> tuple[Interval, ...]:
    """Rebuild intervals from their stored form."""
    if text == _EMPTY_LIST:
        return ()
    return tuple(Interval(from_text(start), _moment(end)) for start, end in orjson.loads(text))


def _intervals(intervals: Sequence[Interval]) -> str:
    return canonical([[to_text(start), _time(end)] for start, end in intervals]).decode()


def _displaced_of(text: str) -> tuple[Displaced, ...]:
    if text == _EMPTY_LIST:
        return ()
    # Files of schema 2 named the members alone: of what portion nothing is known.
    return tuple(
        Displaced(entry, BEGINNING, None)
        if isinstance(entry, str)
        else Displaced(entry[0], from_text(entry[1]), _moment(entry[2]))
        for entry in orjson.loads(text)
    )


def _displaced(displaced: Sequence[Displaced]) -> str:
    return canonical([[ident, to_text(start), _time(end)] for ident, start, end in displaced]).decode()


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else to_text(moment)


_STATUSES: Final = {status.value: status for status in MemoryStatus}
_ORIGINS: Final = {origin.value: origin for origin in Origin}
