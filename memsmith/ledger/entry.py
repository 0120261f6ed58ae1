"""One ledger row: what is hashed, how it is sealed, how it is read.

The row itself holds only what verification needs in clear. Everything free-form lies in the
payload, reached through a salted digest, so that erasing payload and salt leaves the chain whole.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple, TypeAlias, cast

import orjson

from memsmith._clock import from_text
from memsmith._ids import new_id
from memsmith.errors import LedgerError
from memsmith.types import AuditEntry, MemoryStatus

ENCODING: Final = 1
GENESIS: Final = "0" * 64
SALT_BYTES: Final = 32


class Row(NamedTuple):
    """A ledger row as stored. `salt`, digests and hashes are hex; `payload` is canonical JSON text."""

    seq: int
    id: str
    memory_id: str
    action: str
    from_status: str
    to_status: str
    time: str
    actor: str
    payload: str | None
    salt: str | None
    payload_digest: str
    prev_hash: str
    hash: str


Draft: TypeAlias = tuple[str, str, str, str, str, str, bytes]
"""A row not sealed yet: memory id, action, from and to status, time, actor, canonical payload.

A plain tuple of texts, because a batch holds thousands and the garbage collector skips such tuples.
"""


def payload_digest(salt: str, payload: str) -> str:
    """Return SHA-256(salt bytes ‖ payload bytes) in hex."""
    return sha256(bytes.fromhex(salt) + payload.encode()).hexdigest()


def row_hash(tenant: str, row: Row) -> str:
    """Return the hash that binds a row to its place in the chain."""
    return fields_hash(
        tenant, row.seq, row.id, row.memory_id, row.action, row.from_status, row.to_status,
        row.time, row.actor, row.payload_digest, row.prev_hash,
    )  # fmt: skip


def fields_hash(
    tenant: str, seq: int, ident: str, memory_id: str, action: str, from_status: str, to_status: str,
    time: str, actor: str, digest: str, prev_hash: str,
) -> str:  # fmt: skip
    """Return the hash of a row given as its fields, which spares making the row."""
    # Keys stand in sorted order, which spares the sort; a test holds this against `canonical`.
    return sha256(
        orjson.dumps(
            {
                "action": action,
                "actor": actor,
                "from_status": from_status,
                "id": ident,
                "memory_id": memory_id,
                "payload_digest": digest,
                "prev_hash": prev_hash,
                "seq": seq,
                "tenant": tenant,
                "time": time,
                "to_status": to_status,
                "v": ENCODING,
            }
        )
    ).hexdigest()


def seal(tenant: str, drafts: Sequence[Draft], count: int, prev_hash: str) -> list[Row]:
    """Chain `drafts` behind the row numbered `count` whose hash is `prev_hash`."""
    rows: list[Row] = []
    salts = os.urandom(SALT_BYTES * len(drafts))
    for seq, draft in enumerate(drafts, count + 1):
        memory_id, action, from_status, to_status, time, actor, payload = draft
        salt = salts[(seq - count - 1) * SALT_BYTES : (seq - count) * SALT_BYTES]
        digest = sha256(salt + payload).hexdigest()
        ident = new_id()
        hashed = fields_hash(
            tenant, seq, ident, memory_id, action, from_status, to_status, time, actor, digest, prev_hash
        )
        rows.append(
            Row(
                seq, ident, memory_id, action, from_status, to_status, time, actor,
                payload.decode(), salt.hex(), digest, prev_hash, hashed,
            )
        )  # fmt: skip
        prev_hash = hashed
    return rows


def payload_of(row: Row) -> dict[str, Any]:
    """Return a row's payload; empty where it was erased."""
    if row.payload is None:
        return {}
    try:
        payload = orjson.loads(row.payload)
    except ValueError as error:
        raise LedgerError(f"ledger row {row.seq}: its payload is not JSON ({error})") from error
    if not isinstance(payload, dict):
        raise LedgerError(f"ledger row {row.seq}: expected a JSON object as payload, found {payload!r:.40}")
    return cast(dict[str, Any], payload)


def audit_entry(row: Row) -> AuditEntry:
    """Return a row as people read it; what replay alone needs is left out of the metadata."""
    try:
        return _entry(row, payload_of(row))
    except (TypeError, ValueError) as error:
        raise LedgerError(f"ledger row {row.seq} can't be read: {error!r}") from error


def _entry(row: Row, payload: dict[str, Any]) -> AuditEntry:
    # Notes are free JSON (floats included), so the payload carries them as text.
    metadata = cast(dict[str, Any], orjson.loads(payload.get("notes", "{}")))
    for name in ("errors", "reason", "code"):
        if payload.get(name):
            metadata[name] = payload[name]
    return AuditEntry(
        id=row.id,
        memory_id=row.memory_id,
        action=row.action,
        from_status=MemoryStatus(row.from_status),
        to_status=MemoryStatus(row.to_status),
        timestamp=from_text(row.time),
        metadata=metadata,
        seq=row.seq,
        actor=row.actor,
        hash=row.hash,
        prev_hash=row.prev_hash,
    )
