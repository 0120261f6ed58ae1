"""Memories and tombstones rebuilt from the ledger alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, cast

from memsmith._clock import from_text
from memsmith.errors import DamagedRecordError, LedgerError
from memsmith.ledger.entry import Row, payload_of
from memsmith.ledger.record import MEMORY_COLUMNS, Record, memory_of, memory_record
from memsmith.types import Memory, Tombstone

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
}


class Replay:
    """Feed it the rows in order of seq; `memories` and `tombstones` are the state after them."""

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant
        self._records: dict[str, Record] = {}
        self._stones: dict[str, Tombstone] = {}
        self.seq = 0
        """The number of the last row applied."""

    def feed(self, rows: Iterable[Row]) -> None:
        """Apply the next rows."""
        for row in rows:
            payload = payload_of(row)
            try:
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
        version = cast(int, record["version"]) + 1
        record.update(updated_at=row.time, version=version, seq=row.seq, status=row.to_status)
        record.update(changed)

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
    def memories(self) -> dict[str, Memory]:
        """Every memory by id, as its latest row left it."""
        return {ident: _readable(ident, record) for ident, record in self._records.items()}

    @property
    def tombstones(self) -> dict[str, Tombstone]:
        """Every tombstone by id, lifted ones included."""
        return dict(self._stones)


def differing(replayed: Memory, stored: Memory) -> list[str]:
    """Return the names of the columns in which a stored memory differs from its replay."""
    ours, theirs = memory_record(replayed), memory_record(stored)
    return [name for name in MEMORY_COLUMNS if ours[name] != theirs[name]]


def _readable(ident: str, record: Record) -> Memory:
    try:
        return memory_of(record)
    except (DamagedRecordError, LookupError, TypeError, ValueError) as error:
        raise LedgerError(f"the ledger says of memory {ident} what no memory can be ({error!r})") from error
