"""The nouns: memories, statuses, origins, proposals, results, pages.

All are immutable. Every datetime is timezone-aware and in UTC.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from typing import Any, Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")


class MemoryStatus(StrEnum):
    """Where a memory stands; the moves between are in :mod:`memsmith.lifecycle`."""

    PROPOSED = "proposed"
    PENDING_CONFIRMATION = "pending_confirmation"
    ACTIVE = "active"
    SUPERSEDED = "superseded"
    REJECTED = "rejected"
    RETRACTED = "retracted"
    EXPIRED = "expired"
    QUARANTINED = "quarantined"
    ERASED = "erased"

    # Equal to its value, so hashed like it (and without a call into Python).
    __hash__ = str.__hash__


class Origin(StrEnum):
    """Who content comes from, from least to most trusted."""

    UNTRUSTED = "untrusted"
    TOOL = "tool"
    AGENT = "agent"
    OWNER = "owner"

    __hash__ = str.__hash__

    @property
    def rank(self) -> int:
        """0 for the least trusted, 3 for the owner."""
        return _ORIGIN_RANK[self]


_ORIGIN_RANK: Final = {origin: rank for rank, origin in enumerate(Origin)}

SENSITIVITIES: Final = ("public", "internal", "confidential", "restricted")
"""Sensitivity labels, from least to most sensitive."""

DEFAULT_SENSITIVITY: Final = "internal"
DEFAULT_TENANT: Final = "default"
DEFAULT_ACTOR: Final = "owner"
FACT: Final = "fact"
EPISODE: Final = "episode"

LIVE: Final = frozenset({MemoryStatus.ACTIVE, MemoryStatus.PENDING_CONFIRMATION})
"""Statuses in which a memory speaks, or waits to."""

COUNTED: Final = frozenset(
    {MemoryStatus.ACTIVE, MemoryStatus.SUPERSEDED, MemoryStatus.EXPIRED, MemoryStatus.ERASED}
)
"""Statuses in which a memory that was asserted has its part in its chain."""


class Interval(NamedTuple):
    """A stretch of time: `start` is inside, `end` is not; None is an open end."""

    start: datetime
    end: datetime | None


class Displaced(NamedTuple):
    """A stretch of valid time that what waits would take over, and from whom (None: from nobody)."""

    memory_id: str | None
    start: datetime
    end: datetime | None


class Slot(NamedTuple):
    """What one chain of memories fills, within a tenant.

    `lane` is empty but for a key that holds many values: there each memory is a chain of its own.
    """

    kind: str
    scope: str
    key: str
    lane: str = ""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """One governed record.

    `content` is JSON data (None where a refusal kept none). `content_hash` is the SHA-256 of the
    content's canonical JSON text, in hex. `version` counts the changes of this memory from 1.
    `seq` is the ledger row of the latest change. `code` is set on refused memories only.
    `valid_from` and `valid_to` are what was asserted; what is effective of it, its chain decides.
    """

    id: str
    content: Any
    session_id: str
    confidence: float
    content_hash: str
    status: MemoryStatus
    created_at: datetime
    updated_at: datetime
    thread_id: str | None = None
    source: str | None = None
    depends_on: list[str] = field(default_factory=list[str])
    expires_at: datetime | None = None
    retracted_at: datetime | None = None
    retraction_reason: str | None = None
    tenant: str = DEFAULT_TENANT
    kind: str = FACT
    scope: str = ""
    key: str | None = None
    origin: Origin = Origin.OWNER
    sensitivity: str = DEFAULT_SENSITIVITY
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    actor: str = DEFAULT_ACTOR
    code: str | None = None
    version: int = 1
    seq: int = 0
    held_status: MemoryStatus | None = None
    """While quarantined: the status it had before."""
    value_digest: str = ""
    """Keyed digest of the normalised value, as tombstones compare it."""
    retracted_during: tuple[Interval, ...] = ()
    """Portions of its validity that were taken out again."""
    asserted_order: int = 0
    """The ledger row that accepted, confirmed or amended it; 0 while it was never asserted."""
    displaces: tuple[Displaced, ...] = ()
    """While it waits: what it would hold of its chain, and in whose place, as it was judged last."""
    many: bool = False
    """True where its key holds many values, which do not supersede one another."""
    system_from: datetime | None = None
    """Since when the store has had it so; the store sets it."""

    @property
    def counted(self) -> bool:
        """True if it has its part in its chain: it was asserted, and not taken out since."""
        return self.asserted_order > 0 and self.status in COUNTED

    @property
    def slot(self) -> Slot | None:
        """The chain it belongs to; None without a key."""
        if self.key is None:
            return None
        return Slot(self.kind, self.scope, self.key, self.id if self.many else "")

    def evolve(self, changes: Mapping[str, Any]) -> Memory:
        """Return a copy with `changes` applied; the fields are taken as they are."""
        return memory_from({**self.__dict__, **changes})


def memory_from(fields: dict[str, Any]) -> Memory:
    """Build a Memory that takes over a complete dictionary of its fields.

    Taking the dictionary as it is skips 31 guarded attribute writes, a third of what a batch of
    proposals would cost.
    """
    memory = _new(Memory)
    _set(memory, "__dict__", fields)
    return memory


_new: Final = object.__new__
_set: Final = object.__setattr__


@dataclass(frozen=True)
class Point:
    """A place on both axes of time: valid at `valid_at`, as believed at `system_at` (None: by now).

    Where `present` is set, `valid_at` is what a clock says now: if that lags behind the newest unit,
    it is the unit's time that counts.
    """

    valid_at: datetime
    system_at: datetime | None = None
    present: bool = False


@dataclass(frozen=True)
class Version:
    """A memory as the store had it from `system_from` to `system_to` (None: as it is now).

    `action`, `actor`, `reason` and `memory.seq` are of the ledger row that made it so.
    """

    memory: Memory
    system_from: datetime
    system_to: datetime | None
    action: str
    actor: str
    reason: str | None = None


@dataclass(frozen=True)
class Rectangle:
    """A memory effective over `[valid_from, valid_to)`, as believed over `[system_from, system_to)`."""

    memory_id: str
    valid_from: datetime
    valid_to: datetime | None
    system_from: datetime
    system_to: datetime | None


@dataclass(frozen=True)
class Span:
    """What a key's value is over `[valid_from, valid_to)`; None is an open end."""

    valid_from: datetime
    valid_to: datetime | None
    memory: Memory


@dataclass(frozen=True)
class Difference:
    """How a memory changed between two moments; None where it was not there."""

    memory_id: str
    before: Memory | None
    after: Memory | None


@dataclass(frozen=True)
class Swept:
    """How many memories a sweep expired, and how many it superseded."""

    expired: int
    superseded: int


@dataclass(frozen=True)
class AuditEntry:
    """One ledger row, as people read it. `hash` and `prev_hash` are hex SHA-256."""

    id: str
    memory_id: str
    action: str
    from_status: MemoryStatus | None
    to_status: MemoryStatus | None
    timestamp: datetime
    metadata: dict[str, Any]
    seq: int = 0
    actor: str = DEFAULT_ACTOR
    hash: str = ""
    prev_hash: str = ""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The proposal is a memory now (ACTIVE, or SUPERSEDED where it lands in the past)."""

    memory_id: str
    memory: Memory


@dataclass(frozen=True, slots=True)
class PendingConfirmation:
    """The proposal waits for a person; `reasons` says why."""

    memory_id: str
    memory: Memory
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejected:
    """The proposal was refused.

    `code` is one of ``validation``, ``duplicate``, ``tombstoned``, ``policy``. For a duplicate,
    `memory_id` and `memory` are the live one's; for a tombstoned value `tombstone_id` names the block.
    """

    memory_id: str
    memory: Memory
    reason: str
    code: str = "validation"
    tombstone_id: str | None = None


ProposalResult = Accepted | Rejected | PendingConfirmation


@dataclass(kw_only=True)
class _ProposalOptions:
    thread_id: str | None = None
    scope: str = ""
    key: str | None = None
    kind: str = FACT
    origin: Origin | str | None = None
    sensitivity: str | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    expires_at: datetime | None = None
    ttl: timedelta | None = None
    depends_on: Sequence[str] = ()
    metadata: Mapping[str, Any] | None = None
    idempotency_key: str | None = None
    actor: str | None = None


@dataclass
class ProposalInput(_ProposalOptions):
    """One item of `propose_many`; the fields are the arguments of `propose`."""

    content: Any
    confidence: float
    source: str | None = None
    dedup: bool = True


class Unchanged(Enum):
    """The type of `UNCHANGED`."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED
"""Marks a field of a ValidationResult that leaves the proposal as it is."""


@dataclass(frozen=True)
class ValidationResult:
    """A validator's verdict.

    `tombstone` blocks the value for good, `withhold` keeps the refused content out of the store
    (secrets, oversized values), `critical` overrides the validator's own for this verdict.
    A validator that passes may hand on changed `content` or `expires_at`.
    """

    passed: bool
    errors: list[str] = field(default_factory=list[str])
    tombstone: bool = False
    withhold: bool = False
    critical: bool | None = None
    content: Any = UNCHANGED
    expires_at: datetime | Unchanged = UNCHANGED


@dataclass(frozen=True)
class Tombstone:
    """The lasting record of a refused value.

    `digest` is the keyed digest (hex) of the normalised value under the secret named `secret_id`.
    """

    id: str
    memory_id: str
    kind: str
    scope: str
    key: str | None
    digest: str
    secret_id: str
    reason: str | None
    actor: str
    created_at: datetime
    refused: int = 0
    lifted_at: datetime | None = None
    lift_reason: str | None = None
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True)
class Outcome:
    """What became of a call: `codes` and `memory_ids` go together, one pair per item.

    Of `expire_batch` and `sweep` the codes are what they counted, and there are no ids.
    """

    verb: str
    idempotency_key: str
    actor: str
    codes: tuple[str, ...]
    memory_ids: tuple[str, ...]
    at: datetime


@dataclass(frozen=True)
class Head:
    """The head record of a tenant's chain."""

    count: int
    hash: str
    time: datetime | None


class Page(builtins.list[T], Generic[T]):
    """A list that knows where it ends: pass `next_cursor` on for the next page, None at the end."""

    def __init__(self, items: Sequence[T] = (), next_cursor: str | None = None) -> None:
        super().__init__(items)
        self.next_cursor = next_cursor
