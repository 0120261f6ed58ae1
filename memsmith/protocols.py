"""Every seam: what a backend, a validator, a hook, a clock and a metrics sink must be.

All are structural: no inheritance, no registration.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeAlias, runtime_checkable

from memsmith.ledger.entry import Row
from memsmith.temporal import Believed
from memsmith.types import (
    FACT,
    Head,
    Memory,
    MemoryStatus,
    Point,
    Slot,
    Tombstone,
    ValidationResult,
    Version,
)
from memsmith.unit import Settled, Unit
from memsmith.wants import Changes, Loaded, OutcomeKey, OutcomeRecord, Wants

Clock: TypeAlias = Callable[[], datetime]
"""Returns the current instant, aware, in UTC."""

Progress: TypeAlias = Callable[[int, int], object]
"""Told, while long work goes on, how many steps are done and how many there are."""

TransitionHandler: TypeAlias = Callable[[str, MemoryStatus, MemoryStatus], Awaitable[None]]
"""A hook: (memory_id, from_status, to_status), called after commit, in ledger order."""


Rows: TypeAlias = list[Row]
Memories: TypeAlias = list[Memory]
Tombstones: TypeAlias = list[Tombstone]
Versions: TypeAlias = list[Version]
Segments: TypeAlias = list[Believed]
# Named here, because inside Reads and its implementations `list` is a method.


# -- validators -----------------------------------------------------------------------------------


LIVE_ON_KEY = 1_000
"""How many current, and how many waiting memories a validator is shown of a key at most."""


@dataclass(frozen=True)
class ValidationContext:
    """What a validator may look at beside the proposal; read-only."""

    actor: str
    live_on_key: tuple[Memory, ...] = ()
    """What is current on the same tenant, scope, kind and key, then what waits there, as of just before.

    The oldest `LIVE_ON_KEY` of each, a many-valued key's other values included.
    """


@runtime_checkable
class Validator(Protocol):
    """Judges a proposed memory (status PROPOSED); may take a ValidationContext as second argument.

    Optional attributes: `kinds` (frozenset of kinds it judges, default ``{"fact"}``), `critical`
    (whether a failure rejects rather than holds, default False), `transforms` (it runs before the
    others, which see the content and expiry it hands on).
    """

    async def __call__(self, memory: Memory) -> ValidationResult:
        """Return the verdict; raising counts as a failure."""
        ...


@runtime_checkable
class Check(Protocol):
    """A validator that needs no await: it is called directly, with no task and no timeout."""

    def check(self, memory: Memory) -> ValidationResult:
        """Return the verdict; raising counts as a failure."""
        ...


ValidatorFn: TypeAlias = Callable[..., Awaitable[ValidationResult]]


@dataclass
class ValidatorSpec:
    """A validator with its settings.

    `timeout` is in seconds. `critical` None keeps the validator's own; True makes a failure reject,
    False makes it hold the proposal for a person.
    """

    fn: ValidatorFn
    timeout: float = 10.0
    critical: bool | None = None


# -- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MemoryQuery:
    """A list of memories: every part is checked, none is SQL.

    `columns` maps column names to stored values, `paths` maps content paths to JSON scalars.
    `after` is the (sort value, id) of the last row seen, in stored form.
    """

    status: MemoryStatus | None = None
    session_id: str | None = None
    kind: str | None = FACT
    columns: Mapping[str, Any] = field(default_factory=dict[str, Any])
    paths: Mapping[tuple[str, ...], Any] = field(default_factory=dict[tuple[str, ...], Any])
    order_by: str = "created_at"
    descending: bool = False
    limit: int = 50
    offset: int = 0
    after: tuple[Any, str] | None = None
    at: Point | None = None
    """Only what holds there, each memory in the version believed then."""


ORDERS = ("created_at", "updated_at", "confidence", "status", "session_id")
"""What lists can be ordered by; ties are broken by id."""

FILTER_COLUMNS = frozenset(
    {
        "id", "session_id", "thread_id", "source", "confidence", "content_hash", "status", "depends_on",
        "created_at", "updated_at", "expires_at", "retracted_at", "retraction_reason", "kind", "scope",
        "key", "origin", "sensitivity", "valid_from", "valid_to", "actor", "code", "version",
    }
)  # fmt: skip
"""Columns that `field_filters` may name."""


class Reads(Protocol):
    """What can be read, outside a transaction or inside one. Nothing here ever waits for a writer."""

    async def fetch(self, tenant: str, wants: Wants, now: datetime) -> Loaded:
        """Return the rows that answer `wants`; `due` is judged at `now`."""
        ...

    async def get(self, tenant: str, memory_id: str) -> Memory | None:
        """Return one memory of any status, or None."""
        ...

    async def list(self, tenant: str, query: MemoryQuery) -> Memories:
        """Return the memories a query asks for, in its order."""
        ...

    async def count(self, tenant: str, query: MemoryQuery) -> int:
        """Return how many memories a query would list without limit and offset."""
        ...

    async def members(self, tenant: str, slot: Slot) -> Sequence[str]:
        """Return the ids of all memories that have the slot's key, or had it once, in order."""
        ...

    async def versions(self, tenant: str, memory_ids: Sequence[str]) -> Versions:
        """Return every version of these memories, by id and then by time."""
        ...

    async def segments(self, tenant: str, memory_ids: Sequence[str]) -> Segments:
        """Return what was ever effective of these memories, by id, start and time of belief."""
        ...

    async def strays(self, tenant: str) -> Sequence[str]:
        """Return the ids that replaced versions or segments name and no memory has, in order."""
        ...

    async def seq_at(self, tenant: str, moment: datetime) -> int:
        """Return the number of the last ledger row written by a moment, 0 where there is none."""
        ...

    async def audit(self, tenant: str, memory_id: str | None, limit: int, before: int | None) -> Rows:
        """Return ledger rows, newest first, those numbered below `before` if given."""
        ...

    async def ledger(self, tenant: str, after: int, limit: int) -> Rows:
        """Return at most `limit` ledger rows numbered above `after`, oldest first."""
        ...

    async def scan(self, tenant: str, after: int, limit: int, visit: Callable[[Rows], object]) -> int | None:
        """Hand at most `limit` ledger rows numbered above `after` to `visit`, oldest first, in pieces.

        `visit` runs on the thread that reads, while the rows are fresh in its cache, never on the
        event loop's. Returns the last row's number, None where there was none.
        """
        ...

    async def head(self, tenant: str) -> Head | None:
        """Return the head record of the chain; None when there is none."""
        ...

    async def tombstones(self, tenant: str, *, lifted: bool, after: str, limit: int) -> Tombstones:
        """Return tombstones with an id above `after`, in id order; lifted ones only if asked."""
        ...

    async def outcome(self, tenant: str, key: OutcomeKey) -> OutcomeRecord | None:
        """Return what an earlier call left under an idempotency key, or None."""
        ...


class Transaction(Reads, Protocol):
    """A write transaction held open over several calls. Reads see its own uncommitted writes."""

    async def run(self, unit: Unit[Any], now: datetime) -> Settled[Any]:
        """Decide one unit and write what came of it, at the transaction's one system time."""
        ...

    async def savepoint(self) -> None:
        """Start a nested part."""
        ...

    async def release(self) -> None:
        """Keep what the innermost nested part did."""
        ...

    async def rollback_to(self) -> None:
        """Undo the innermost nested part."""
        ...

    async def commit(self) -> None:
        """Make everything durable and end."""
        ...

    async def rollback(self) -> None:
        """Undo everything and end."""
        ...


class StorageBackend(Reads, Protocol):
    """Where memories, ledger, tombstones and outcomes lie.

    One group of units is one transaction: `commit` drives :func:`memsmith.unit.settle`, and either
    everything a unit decided is durable when it returns, or nothing of it is there. A cancelled
    call may have happened, wholly.
    """

    async def initialize(self) -> None:
        """Open, create or migrate the storage. Called once, on the loop the store lives on."""
        ...

    async def close(self) -> None:
        """Let go of everything; calling it again does nothing."""
        ...

    async def commit(self, tenant: str, units: Sequence[Unit[Any]], clock: Clock) -> Sequence[Settled[Any]]:
        """Decide and write a group of units in one transaction; one answer per unit, in order.

        Raises StoreBusyError, with nothing written, when other writers hold the storage too long.
        """
        ...

    async def begin(self, tenant: str, clock: Clock) -> Transaction:
        """Start a transaction that is held open; no other writer gets in until it ends."""
        ...

    async def secrets(self) -> dict[str, bytes]:
        """Return the digest secrets kept in the storage by id, oldest first."""
        ...

    async def add_secret(self, secret_id: str, secret: bytes | None) -> bool:
        """Record a secret's id, with the secret itself unless it is kept outside.

        False when the id was there already.
        """
        ...

    async def restore(self, tenant: str, changes: Changes, secrets: Sequence[tuple[str, bytes]] = ()) -> None:
        """Write rows verbatim, in one transaction; ImportRefusedError unless the tenant is empty.

        `secrets` take the place of those in the storage, in this order; ImportRefusedError unless
        every tenant is empty, for what is stored is keyed with the ones it has.
        """
        ...


# -- metrics --------------------------------------------------------------------------------------


class Metrics(Protocol):
    """A sink for counters and histograms. Names are in :mod:`memsmith.metrics`; durations are seconds."""

    def count(self, name: str, value: float = 1, /, **labels: str) -> None:
        """Add `value` to a counter."""
        ...

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        """Record one value of a histogram."""
        ...
