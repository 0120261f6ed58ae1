"""The state machine: one table, and nothing else knows it.

`TRANSITIONS` maps (from status, action) to the statuses it may lead to. Documentation and the
diagram are tested against it. PROPOSED is never at rest: it is where new memories come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from memsmith.errors import InvalidTransitionError
from memsmith.types import MemoryStatus

S = MemoryStatus


class Action(StrEnum):
    """What happened to a memory; the value is the action's name in the ledger."""

    ACCEPT = "proposed"
    HOLD = "proposed_pending"
    REFUSE = "proposed_rejected"
    CONFIRM = "confirmed"
    REJECT = "rejected"
    RETRACT = "retracted"
    EXPIRE = "expired"
    SUPERSEDE = "superseded"
    REINSTATE = "reinstated"
    QUARANTINE = "quarantined"
    RELEASE = "released"
    ERASE = "erased"
    REVISE = "revised"
    UPDATE_CONFIDENCE = "confidence_updated"
    AMEND_VALIDITY = "validity_amended"
    RETRACT_DURING = "retracted_during"
    EXTEND = "extended"
    ENDORSE = "endorsed"
    REINFORCE = "reinforced"
    BLOCK = "blocked"
    LIFT_TOMBSTONE = "tombstone_lifted"
    IMPORT = "imported"

    __hash__ = str.__hash__


class Who(StrEnum):
    """Who may take an action."""

    LIBRARY = "library"
    PROPOSER = "proposer"
    REVIEWER = "reviewer"
    OWNER = "owner"


@dataclass(frozen=True)
class Transition:
    """One row of the table."""

    action: Action
    from_statuses: tuple[MemoryStatus, ...]
    to_statuses: tuple[MemoryStatus, ...]
    """Where it may lead; empty means the status stays as it is."""
    who: Who


_STORED: Final = tuple(s for s in S if s not in {S.PROPOSED, S.ERASED})
_WAITING_OR_COUNTED: Final = (S.PENDING_CONFIRMATION, S.ACTIVE, S.SUPERSEDED)

TABLE: Final = (
    Transition(Action.ACCEPT, (S.PROPOSED,), (S.ACTIVE,), Who.LIBRARY),
    Transition(Action.HOLD, (S.PROPOSED,), (S.PENDING_CONFIRMATION,), Who.LIBRARY),
    Transition(Action.REFUSE, (S.PROPOSED,), (S.REJECTED,), Who.LIBRARY),
    Transition(Action.IMPORT, (S.PROPOSED,), _STORED, Who.OWNER),
    Transition(Action.CONFIRM, (S.PENDING_CONFIRMATION,), (S.ACTIVE,), Who.REVIEWER),
    Transition(Action.REJECT, (*_WAITING_OR_COUNTED, S.QUARANTINED), (S.RETRACTED,), Who.REVIEWER),
    Transition(Action.RETRACT, (*_WAITING_OR_COUNTED, S.QUARANTINED), (S.RETRACTED,), Who.REVIEWER),
    Transition(Action.EXPIRE, (S.PENDING_CONFIRMATION, S.ACTIVE), (S.EXPIRED,), Who.LIBRARY),
    Transition(Action.SUPERSEDE, (S.ACTIVE,), (S.SUPERSEDED,), Who.LIBRARY),
    Transition(Action.REINSTATE, (S.SUPERSEDED,), (S.ACTIVE,), Who.LIBRARY),
    Transition(Action.QUARANTINE, (*_WAITING_OR_COUNTED, S.EXPIRED), (S.QUARANTINED,), Who.REVIEWER),
    Transition(Action.RELEASE, (S.QUARANTINED,), (*_WAITING_OR_COUNTED, S.EXPIRED), Who.REVIEWER),
    Transition(Action.ERASE, _STORED, (S.ERASED,), Who.OWNER),
    Transition(Action.REVISE, _WAITING_OR_COUNTED, (), Who.PROPOSER),
    Transition(Action.BLOCK, (*_WAITING_OR_COUNTED, S.QUARANTINED), (), Who.LIBRARY),
    Transition(Action.UPDATE_CONFIDENCE, _WAITING_OR_COUNTED, (), Who.PROPOSER),
    Transition(Action.AMEND_VALIDITY, _WAITING_OR_COUNTED, (), Who.REVIEWER),
    Transition(Action.RETRACT_DURING, (*_WAITING_OR_COUNTED, S.QUARANTINED), (), Who.REVIEWER),
    Transition(Action.EXTEND, (S.PENDING_CONFIRMATION, S.ACTIVE), (), Who.REVIEWER),
    Transition(Action.ENDORSE, (S.PENDING_CONFIRMATION, S.ACTIVE), (), Who.LIBRARY),
    Transition(Action.REINFORCE, (S.PENDING_CONFIRMATION, S.ACTIVE), (), Who.LIBRARY),
    Transition(Action.LIFT_TOMBSTONE, tuple(s for s in S if s is not S.PROPOSED), (), Who.OWNER),
)
"""The whole machine. A row with no target leaves the status unchanged and is recorded all the same."""

TRANSITIONS: Final[dict[tuple[MemoryStatus, Action], frozenset[MemoryStatus]]] = {
    (source, row.action): frozenset(row.to_statuses or (source,))
    for row in TABLE
    for source in row.from_statuses
}

REACHABLE: Final[dict[MemoryStatus, frozenset[MemoryStatus]]] = {
    source: frozenset(
        target
        for (start, _), targets in TRANSITIONS.items()
        if start is source
        for target in targets
        if target is not source
    )
    for source in S
}
"""Where each status can go at all; final statuses map to nothing."""

_TARGET_NAMED: Final = {row.action: row.to_statuses[0] for row in TABLE if len(row.to_statuses) == 1}


ASSERTING: Final = frozenset({Action.ACCEPT, Action.CONFIRM, Action.AMEND_VALIDITY, Action.IMPORT})
"""What gives a member of a chain its place: of two that begin together, the one asserted last holds."""


def check(memory_id: str, from_status: MemoryStatus, action: Action, to_status: MemoryStatus) -> None:
    """Raise InvalidTransitionError unless the table has this transition."""
    if to_status not in TRANSITIONS.get((from_status, action), frozenset()):
        raise InvalidTransitionError(memory_id, from_status, to_status, action)


def next_status(memory_id: str, from_status: MemoryStatus, action: Action) -> MemoryStatus:
    """Return where `action` leads from `from_status`; only for actions with one target, or none."""
    to_status = _TARGET_NAMED.get(action, from_status)
    check(memory_id, from_status, action, to_status)
    return to_status
