"""Between rows and what they stand for: the same columns in the same stored form in every database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from operator import index
from typing import Any, Final

import orjson

from memsmith._canonical import canonical
from memsmith._clock import from_text, to_text
from memsmith.errors import DamagedRecordError, LedgerError
from memsmith.ledger.entry import Row
from memsmith.ledger.record import TOMBSTONE_COLUMNS, memory_of_row, tombstone_of
from memsmith.temporal import Believed, Segment
from memsmith.types import Head, Outcome, Slot, Tombstone, Version
from memsmith.wants import OutcomeRecord

ledger_row: Final[Callable[[Any], Row]] = partial(tuple.__new__, Row)  # pyright: ignore[reportUnknownMemberType]  # Row._make without its check


def head_of(tenant: str, row: Any) -> Head | None:
    """Rebuild a head record from its columns."""
    try:
        return None if row is None else Head(index(row[0]), row[1], from_text(row[2]))
    except (TypeError, ValueError) as error:
        raise LedgerError(f"The head record of tenant {tenant!r} was damaged: {error}") from error


def segment_of(row: Any) -> Believed:
    """Rebuild a segment from its columns; `system_to` comes last, where it is asked for."""
    kind, scope, key, lane, memory_id, valid_from, valid_to, begun, order, since, *until = row
    try:
        start, end = from_text(valid_from), None if valid_to is None else from_text(valid_to)
        segment = Segment(memory_id, start, end, (start if begun == valid_from else from_text(begun), order))
        over = from_text(until[0]) if until and until[0] is not None else None
        return Believed(Slot(kind, scope, key, lane), segment, from_text(since), over)
    except (TypeError, ValueError) as error:
        raise DamagedRecordError(f"a segment of memory {memory_id}", error) from error


def stone_of(row: Any) -> Tombstone:
    """Rebuild a tombstone from its columns."""
    record: dict[str, Any] = dict(zip(TOMBSTONE_COLUMNS, row, strict=True))
    try:
        return tombstone_of(record)
    except (TypeError, ValueError) as error:
        raise DamagedRecordError(f"tombstone {record['id']}", error) from error


def outcome_of(row: Any) -> OutcomeRecord:
    """Rebuild an outcome from its columns."""
    actor, verb, key, codes, ids, digest, at = row
    try:
        told = tuple(orjson.loads(codes)), tuple(orjson.loads(ids)), from_text(at)
    except (TypeError, ValueError) as error:
        raise DamagedRecordError(f"the outcome of {verb} {key!r}", error) from error
    return OutcomeRecord(Outcome(verb, key, actor, *told), digest)


def version_of(row: Any) -> Version:
    """Rebuild a version from a memory's columns, its end, and what its ledger row says."""
    *columns, system_to, action, actor, payload = row
    memory = memory_of_row(columns)
    try:
        over = None if system_to is None else from_text(system_to)
        reason = None if payload is None else orjson.loads(payload).get("reason")
    except (AttributeError, TypeError, ValueError) as error:
        raise DamagedRecordError(f"a version of memory {memory.id}", error) from error
    return Version(memory, memory.system_from or memory.updated_at, over, action, actor, reason)


def place_row(believed: Believed) -> tuple[str, str, str]:
    """Return what names a segment."""
    memory_id, start, since = believed.place
    return memory_id, to_text(start), to_text(since)


def segment_row(tenant: str, believed: Believed) -> tuple[Any, ...]:
    """Return the columns of a segment."""
    segment = believed.segment
    begun, order = segment.rank
    return (
        tenant, segment.memory_id, *believed.slot, to_text(segment.start), time_text(segment.end),
        to_text(begun), order, to_text(believed.system_from), time_text(believed.system_to),
    )  # fmt: skip


def time_text(moment: datetime | None) -> str | None:
    """Return a time in stored form."""
    return None if moment is None else to_text(moment)


def outcome_row(tenant: str, record: OutcomeRecord) -> tuple[str, ...]:
    """Return the columns of an outcome."""
    o = record.outcome
    codes, ids = canonical(o.codes).decode(), canonical(o.memory_ids).decode()
    return tenant, o.actor, o.verb, o.idempotency_key, codes, ids, record.digest, to_text(o.at)


def first_two(segments: Sequence[Believed]) -> list[str]:
    """Return the members a change is most likely about: the first two of each chain."""
    seen: dict[Slot, list[str]] = {}
    for believed in segments:
        ids = seen.setdefault(believed.slot, [])
        if len(ids) < 2:
            ids.append(believed.segment.memory_id)
    return [ident for ids in seen.values() for ident in ids]
