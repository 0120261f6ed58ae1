"""What a decision wants to read, what a backend answers, and what it is given to write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from memsmith.ledger.entry import Row
from memsmith.types import Head, Memory, Outcome, Tombstone

Columns: TypeAlias = tuple[Any, ...]
"""A new memory in stored form, in the order of MEMORY_COLUMNS."""

Slot = tuple[str, str, str]
"""(kind, scope, key): the chain a keyed memory belongs to."""

OutcomeKey = tuple[str, str, str]
"""(actor, verb, idempotency key)."""


@dataclass(slots=True)
class Wants:
    """What decisions need to see. Each field is a set; `due` asks for memories whose time is over."""

    memories: set[str] = field(default_factory=set[str])
    values: set[str] = field(default_factory=set[str])
    slots: set[Slot] = field(default_factory=set[Slot])
    blocks: set[str] = field(default_factory=set[str])
    tombstones: set[str] = field(default_factory=set[str])
    outcomes: set[OutcomeKey] = field(default_factory=set[OutcomeKey])
    dependants: set[str] = field(default_factory=set[str])
    due: int = 0
    """At most so many live memories whose `expires_at` has passed, earliest first."""

    def __ior__(self, other: Wants) -> Wants:
        self.memories |= other.memories
        self.values |= other.values
        self.slots |= other.slots
        self.blocks |= other.blocks
        self.tombstones |= other.tombstones
        self.outcomes |= other.outcomes
        self.dependants |= other.dependants
        self.due = max(self.due, other.due)
        return self

    def __isub__(self, seen: Wants) -> Wants:
        self.memories -= seen.memories
        self.values -= seen.values
        self.slots -= seen.slots
        self.blocks -= seen.blocks
        self.tombstones -= seen.tombstones
        self.outcomes -= seen.outcomes
        self.dependants -= seen.dependants
        if seen.due >= self.due:
            self.due = 0
        return self

    def __bool__(self) -> bool:
        return bool(
            self.memories or self.values or self.slots or self.blocks
            or self.tombstones or self.outcomes or self.dependants or self.due
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class OutcomeRecord:
    """What is kept of a call under its idempotency key; `digest` is keyed over the arguments."""

    outcome: Outcome
    digest: str


@dataclass(slots=True)
class Loaded:
    """Rows that answer Wants: live memories for `values` and `slots`, any status for `memories`.

    `dependants` maps an id to the ids of memories that name it in `depends_on`.
    """

    memories: Iterable[Memory] = ()
    tombstones: Iterable[Tombstone] = ()
    outcomes: Iterable[OutcomeRecord] = ()
    dependants: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    due: Sequence[str] = ()


class NeedMore(Exception):  # a signal between a decision and its driver, not an error
    """A decision touched what is not loaded."""

    def __init__(self, wants: Wants) -> None:
        self.wants = wants


@dataclass(slots=True)
class Changes:
    """What a backend writes, in this order; `head` is the new head record.

    New memories come with their columns in stored form, in the order of MEMORY_COLUMNS.
    """

    inserted: list[tuple[Memory, Columns]]
    updated: list[Memory]
    rows: list[Row]
    tombstones: list[Tombstone]
    outcomes: list[OutcomeRecord]
    head: Head

    def __bool__(self) -> bool:
        return bool(self.rows or self.outcomes)
