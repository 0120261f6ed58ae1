"""Units of work: deciding without I/O.

A unit says what it wants to read and decides on a `State`. A backend collects the wants of a whole
group, loads them at once, lets `settle` run the decisions one after the other (each on what its
predecessors left), and writes what came of it, all in one transaction::

    steps = settle(units, now, head)
    loaded = ...                      # load what `steps` asks for, until it returns
    settlement = ...                  # then write settlement.changes and commit

A unit that finds it needs more raises `NeedMore` by touching what is not loaded; it is undone, the
wanted rows are loaded, and it decides again. A unit that raises anything else is undone alone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from memsmith._clock import next_time
from memsmith.ledger.entry import GENESIS, Row
from memsmith.state import State
from memsmith.types import Head
from memsmith.wants import Changes, Loaded, NeedMore, Wants

T = TypeVar("T")


@dataclass(slots=True)
class Unit(Generic[T]):
    """One decision: pure but for the State it is given. `size` counts its proposals."""

    decide: Callable[[State], T]
    wants: Wants = field(default_factory=Wants)
    size: int = 1


@dataclass(slots=True)
class Settled(Generic[T]):
    """What became of one unit: a result with its ledger rows, or an error."""

    result: T | None = None
    error: Exception | None = None
    rows: Sequence[Row] = ()


@dataclass(slots=True)
class Settlement:
    """The results of a group of units, and what to write for them."""

    settled: list[Settled[Any]]
    changes: Changes


def settle(
    tenant: str, units: Sequence[Unit[Any]], head: Head, now: datetime, *, at: datetime | None = None
) -> Generator[Wants, Loaded, Settlement]:
    """Decide `units` in order; yields what to load, returns what to write.

    Each unit that writes gets its own system time, later than every earlier one of the tenant
    whatever the clock says; `at` fixes one time for all (the verbs of one transaction).
    """
    state = State(tenant, head)
    first = Wants()
    for unit in units:
        first |= unit.wants
    if first:
        state.take(first, (yield first))
    settled: list[Settled[Any]] = []
    spans: list[slice] = []
    last = head.time
    for unit in units:
        stamp = at or next_time(now, last)
        before = state.drafts
        while True:
            state.begin(stamp)
            try:
                result = unit.decide(state)
            except NeedMore as more:
                state.revert(before)
                state.take(more.wants, (yield more.wants))
            except Exception as error:  # the unit's own failure, handed to whoever asked for it
                state.revert(before)
                settled.append(Settled(error=error))
                break
            else:
                settled.append(Settled(result))
                if state.drafts > before:
                    last = stamp
                break
        spans.append(slice(before, state.drafts))
    changes = state.seal(last)
    for answer, span in zip(settled, spans, strict=True):
        answer.rows = changes.rows[span]
    return Settlement(settled, changes)


def empty_head() -> Head:
    """Return the head of a chain with no rows."""
    return Head(0, GENESIS, None)
