"""What a decision wants to read, what a backend answers, and what it is given to write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from memsmith.ledger.entry import Row
from memsmith.temporal import FOREVER, Believed
from memsmith.types import Head, Memory, Outcome, Slot, Tombstone

Columns: TypeAlias = tuple[Any, ...]
"""A new memory in stored form, in the order of MEMORY_COLUMNS."""

OutcomeKey = tuple[str, str, str]
"""(actor, verb, idempotency key)."""


class Tail(NamedTuple):
    """Asks for a chain's current segments that end at or after `moment`.

    Of members that begin after `above`, neighbouring ones may come joined to one under no name:
    whoever begins no later than that can't take anything from them.
    """

    moment: datetime
    above: datetime = FOREVER

    def covers(self, other: Tail) -> bool:
        """Tell whether whoever has this has the other."""
        return self.moment <= other.moment and self.above >= other.above

    def with_(self, other: Tail) -> Tail:
        """Return what covers both."""
        return Tail(min(self.moment, other.moment), max(self.above, other.above))


class Beneath(NamedTuple):
    """Asks for the counted members of a chain that cover any of ``[start, end)``.

    With `pruned`, those over which an open-ended member other than `besides` lies from `start` on may
    be left out.
    """

    slot: Slot
    start: datetime
    end: datetime | None
    besides: str
    pruned: bool


@dataclass(slots=True)
class Wants:
    """What decisions need to see; `due` asks for memories whose time is over.

    With the segments that `chains` asks for come the memories of the first two of each, and those that
    wait for a person on the same slot.
    """

    memories: set[str] = field(default_factory=set[str])
    values: set[str] = field(default_factory=set[str])
    chains: dict[Slot, Tail] = field(default_factory=dict[Slot, Tail])
    beneath: set[Beneath] = field(default_factory=set[Beneath])
    blocks: set[str] = field(default_factory=set[str])
    tombstones: set[str] = field(default_factory=set[str])
    outcomes: set[OutcomeKey] = field(default_factory=set[OutcomeKey])
    dependants: set[str] = field(default_factory=set[str])
    due: int = 0
    """At most so many live memories whose `expires_at` has passed, earliest first."""
    handed_over: tuple[str, int] | None = None
    """Above an id, at most so many ACTIVE memories with a key of which nothing is effective any more."""

    def want_chain(self, slot: Slot, tail: Tail) -> None:
        """Want a part of a chain, beside what is wanted of it already."""
        known = self.chains.get(slot)
        self.chains[slot] = tail if known is None else known.with_(tail)

    def __ior__(self, other: Wants) -> Wants:
        self.memories |= other.memories
        self.values |= other.values
        for slot, tail in other.chains.items():
            self.want_chain(slot, tail)
        self.beneath |= other.beneath
        self.blocks |= other.blocks
        self.tombstones |= other.tombstones
        self.outcomes |= other.outcomes
        self.dependants |= other.dependants
        self.due = max(self.due, other.due)
        self.handed_over = other.handed_over or self.handed_over
        return self

    def __isub__(self, seen: Wants) -> Wants:
        self.memories -= seen.memories
        self.values -= seen.values
        if seen.chains:
            known = seen.chains
            self.chains = {
                slot: tail
                for slot, tail in self.chains.items()
                if slot not in known or not known[slot].covers(tail)
            }
        self.beneath -= seen.beneath
        self.blocks -= seen.blocks
        self.tombstones -= seen.tombstones
        self.outcomes -= seen.outcomes
        self.dependants -= seen.dependants
        if seen.due >= self.due:
            self.due = 0
        if seen.handed_over == self.handed_over:
            self.handed_over = None
        return self

    def __bool__(self) -> bool:
        return bool(
            self.memories or self.values or self.chains or self.beneath or self.blocks
            or self.tombstones or self.outcomes or self.dependants or self.due or self.handed_over
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class OutcomeRecord:
    """What is kept of a call under its idempotency key; `digest` is keyed over the arguments."""

    outcome: Outcome
    digest: str


@dataclass(slots=True)
class Loaded:
    """Rows that answer Wants: live memories for `values`, any status for `memories`.

    `dependants` maps an id to the ids of memories that name it in `depends_on`.
    """

    memories: Iterable[Memory] = ()
    tombstones: Iterable[Tombstone] = ()
    outcomes: Iterable[OutcomeRecord] = ()
    dependants: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    due: Sequence[str] = ()
    handed_over: Sequence[str] = ()
    segments: Sequence[Believed] = ()


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
    history: list[tuple[Memory, datetime]] = field(default_factory=list[tuple[Memory, datetime]])
    """Versions that were replaced, each with the time of the unit that did."""
    closed: list[Believed] = field(default_factory=list[Believed])
    dropped: list[Believed] = field(default_factory=list[Believed])
    opened: list[Believed] = field(default_factory=list[Believed])
    """Changes of segments, as in :class:`memsmith.temporal.Chains`, to be written in this order."""

    def __bool__(self) -> bool:
        return bool(self.rows or self.outcomes)
