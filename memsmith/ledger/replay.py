"""Memories, what they were before, what is effective of them, and tombstones: from the ledger alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, cast

from memsmith._clock import from_text
from memsmith.errors import DamagedRecordError, LedgerError
from memsmith.ledger.entry import Row, payload_of
from memsmith.ledger.record import MEMORY_COLUMNS, Record, intervals_of, memory_of, memory_record
from memsmith.lifecycle import ASSERTING
from memsmith.temporal import BEGINNING, Believed, Chains, Claim, effective
from memsmith.types import COUNTED, Interval, Memory, Slot, Tombstone

_DEFAULTS: Final[Record] = {
    **dict.fromkeys(MEMORY_COLUMNS),
    "kind": "fact",
    "scope": "",
    "origin": "owner",
    "sensitivity": "internal",
    "depends_on": "[]",
    "metadata": "{}",
    "version": 0,
    "value_digest": "",
    "retracted_during": "[]",
    "asserted_order": 0,
    "displaces": "[]",
    "many": 0,
}
_ASSERTING: Final = frozenset(action.value for action in ASSERTING)
_COUNTED: Final = frozenset(status.value for status in COUNTED)


class Replay:
    """Feed it the rows in order of seq; the properties are the state after them.

    Ask for them at the end of a unit: rows of one time are one.
    """

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant
        self._records: dict[str, Record] = {}
        self._stones: dict[str, Tombstone] = {}
        self._time = ""
        self._before: dict[str, Record | None] = {}
        self._versions: list[tuple[tuple[Any, ...], str]] = []
        self._chains = Chains()
        self._claims: dict[Slot, dict[str, Claim]] = {}
        self.seq = 0
        """The number of the last row applied."""

    def feed(self, rows: Iterable[Row]) -> None:
        """Apply the next rows."""
        for row in rows:
            payload = payload_of(row)
            try:
                if row.time != self._time:
                    self._end_unit()
                    self._time = row.time
                if "set" in payload:
                    self._apply(row, cast(Record, payload["set"]))
                self._bury(row, payload)
            except (TypeError, ValueError) as error:
                raise LedgerError(f"ledger row {row.seq}: its payload can't be replayed ({error})") from error
            self.seq = row.seq

    def _apply(self, row: Row, changed: Record) -> None:
        record = self._records.get(row.memory_id)
        if record is None:
            record = {**_DEFAULTS, "tenant": self._tenant, "id": row.memory_id, "created_at": row.time}
            self._records[row.memory_id] = record
            self._before.setdefault(row.memory_id, None)
        elif row.memory_id not in self._before:
            self._before[row.memory_id] = dict(record)
        version = cast(int, record["version"]) + 1
        record.update(
            updated_at=row.time, version=version, seq=row.seq, status=row.to_status, system_from=row.time
        )
        if row.action in _ASSERTING and row.to_status in _COUNTED:
            record["asserted_order"] = row.seq
        record.update(changed)

    def _end_unit(self) -> None:
        """Put what the unit replaced into the history, and let the chains it touched settle."""
        changes: dict[Slot, list[tuple[str, Claim | None, Claim | None]]] = {}
        for ident, before in self._before.items():
            if before is not None:
                self._versions.append((tuple(before.values()), self._time))
            claims: dict[Slot, list[Claim | None]] = {}
            for place, record in enumerate((before, self._records[ident])):
                slot = None if record is None else _slot(ident, record)
                if record is not None and slot is not None:
                    claims.setdefault(slot, [None, None])[place] = _claim(ident, record)
            for slot, (was, now) in claims.items():
                if was != now:
                    changes.setdefault(slot, []).append((ident, was, now))
        self._before.clear()
        if changes:
            self._chains.begin()
            for slot, changed in changes.items():
                self._settle(slot, changed)

    def _settle(self, slot: Slot, changed: list[tuple[str, Claim | None, Claim | None]]) -> None:
        members = self._claims.setdefault(slot, {})
        for ident, _, now in changed:
            if now is None:
                members.pop(ident, None)
            else:
                members[ident] = now
        if all(was is None for _, was, _ in changed):
            # Whoever only comes changes nothing before it begins, and takes from those who hold there.
            came = [now for _, _, now in changed if now is not None]
            old = self._chains.from_on(slot, min(claim.asserted.start for claim in came))
            pieces = [*old, *(piece for claim in came for piece in claim.covers())]
        else:
            old = self._chains.from_on(slot, BEGINNING)
            pieces = [piece for claim in members.values() for piece in claim.covers()]
        self._chains.replace(slot, old, effective(pieces), from_text(self._time))

    def _bury(self, row: Row, payload: dict[str, Any]) -> None:
        if planted := cast(Record, payload.get("tombstone")):
            stone = Tombstone(
                **planted,
                tenant=self._tenant,
                memory_id=row.memory_id,
                actor=row.actor,
                created_at=from_text(row.time),
            )
            self._stones[stone.id] = stone
        if blocked := cast(str, payload.get("refused_by")):
            stone = self._stone(blocked, row)
            self._stones[blocked] = replace(stone, refused=stone.refused + 1)
        if lifted := cast(str, payload.get("lifted")):
            stone = self._stone(lifted, row)
            self._stones[lifted] = replace(
                stone, lifted_at=from_text(row.time), lift_reason=payload.get("reason")
            )

    def _stone(self, ident: str, row: Row) -> Tombstone:
        if ident not in self._stones:
            raise LedgerError(f"ledger row {row.seq} names tombstone {ident}, which no earlier row planted")
        return self._stones[ident]

    @property
    def time(self) -> datetime | None:
        """The system time of the last row applied, None before the first."""
        return from_text(self._time) if self._time else None

    @property
    def memories(self) -> dict[str, Memory]:
        """Every memory by id, as its latest row left it."""
        return {ident: _readable(ident, record) for ident, record in self._records.items()}

    @property
    def history(self) -> list[tuple[Memory, datetime]]:
        """Every version that was replaced, with the time of the unit that did, in order."""
        self._end_unit()
        columns = MEMORY_COLUMNS
        return [
            (_readable(values[1], dict(zip(columns, values, strict=True))), from_text(over))
            for values, over in self._versions
        ]

    @property
    def segments(self) -> list[Believed]:
        """Everything that was ever effective of keyed memories."""
        self._end_unit()
        return list(self._chains)

    @property
    def tombstones(self) -> dict[str, Tombstone]:
        """Every tombstone by id, lifted ones included."""
        return dict(self._stones)


def _slot(ident: str, record: Record) -> Slot | None:
    key = record["key"]
    return (
        None if key is None else Slot(record["kind"], record["scope"], key, ident if record["many"] else "")
    )


def _claim(ident: str, record: Record) -> Claim | None:
    order, start = record["asserted_order"], record["valid_from"]
    if not order or record["status"] not in _COUNTED or start is None:
        return None
    taken = intervals_of(record["retracted_during"])
    end = record["valid_to"]
    return Claim(ident, Interval(from_text(start), None if end is None else from_text(end)), order, taken)


def differing(replayed: Memory, stored: Memory) -> list[str]:
    """Return the names of the columns in which a stored memory differs from its replay."""
    ours, theirs = memory_record(replayed), memory_record(stored)
    return [name for name in MEMORY_COLUMNS if ours[name] != theirs[name]]


def _readable(ident: str, record: Record) -> Memory:
    try:
        return memory_of(record)
    except (DamagedRecordError, LookupError, TypeError, ValueError) as error:
        raise LedgerError(f"the ledger says of memory {ident} what no memory can be ({error!r})") from error
