"""Chains: what a change of one member does to the others, in segments and in statuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from memsmith._canonical import canonical
from memsmith.lifecycle import Action
from memsmith.state import State
from memsmith.temporal import (
    FOREVER,
    Claim,
    Segment,
    claim_of,
    exposed,
    is_superseded,
    rearranged,
    taken,
    until,
)
from memsmith.types import Displaced, Memory, MemoryStatus, Slot

S = MemoryStatus


@dataclass(frozen=True)
class Rearrangement:
    """The segments of a chain from some moment on, before and after a change of one member."""

    slot: Slot
    memory_id: str
    old: Sequence[Segment]
    new: Sequence[Segment]

    def affected(self) -> list[str]:
        """Return the ids of the other members that hold more or less than before, oldest first."""
        changed = set(self.old) ^ set(self.new)
        return sorted({segment.memory_id for segment in changed} - {self.memory_id})

    def displaced(self) -> tuple[Displaced, ...]:
        """Return what the member, which joins, would hold and in whose place; in its own lane: nothing."""
        return () if self.slot.lane else taken(self.old, self.held_by(self.memory_id))

    def held_by(self, memory_id: str) -> list[Segment]:
        """Return what a member holds afterwards."""
        return [segment for segment in self.new if segment.memory_id == memory_id]


def arrange(state: State, slot: Slot, before: Memory | None, after: Memory | None) -> Rearrangement | None:
    """Return what a member's change does to a chain, without doing it; None if it has no part in it.

    Either may be None: the member comes, or goes.
    """
    claims = [None if memory is None else claim_of(memory) for memory in (before, after)]
    asserted = [claim.asserted.start for claim in claims if claim is not None]
    if not asserted:
        return None
    memory_id = (before or after).id  # type: ignore[union-attr]  # one of them claims something
    # A value of its own lane is alone there, and when it is new nothing of it can be stored.
    new_lane = before is None and slot.lane != ""
    claim = claims[1]
    above = FOREVER if claims[0] is not None or claim is None else claim.asserted.start
    old = [] if new_lane else state.segments(slot, min(state.now, *asserted), above)
    gaps = exposed([segment for segment in old if segment.memory_id == memory_id], claim)
    beneath: list[Claim] = []
    if gaps and not slot.lane:
        last = max(gaps, key=lambda gap: until(gap.end))
        members = state.beneath(slot, min(gap.start for gap in gaps), last.end, memory_id)
        others = map(claim_of, members)
        beneath = [other for other in others if other is not None]
    return Rearrangement(slot, memory_id, old, rearranged(old, memory_id, claim, beneath))


def joining(state: State, memory: Memory) -> Rearrangement | None:
    """Return what a memory does to its chain if it is asserted now; None without a key."""
    if memory.slot is None:
        return None
    asserted = memory.evolve({"status": S.ACTIVE, "asserted_order": state.last_seq + 1})
    return arrange(state, memory.slot, None, asserted)


def settle(state: State, before: Memory | None, after: Memory, actor: str) -> Memory:
    """Let the chains of a changed memory settle; return it as they leave it."""
    slots = dict.fromkeys(m.slot for m in (before, after) if m is not None and m.slot is not None)
    for slot in slots:
        old = before if before is not None and before.slot == slot else None
        new = after if after.slot == slot else None
        change = arrange(state, slot, old, new)
        if change is not None:
            apply(state, change, after, actor)
    if after.slot is None and after.status is S.SUPERSEDED:
        # Off its chain it has no rivals: nothing took over its time.
        state.change(after, Action.REINSTATE, {"status": S.ACTIVE}, {}, actor=actor)
    return state.memory(after.id)


def apply(state: State, change: Rearrangement, cause: Memory, actor: str) -> None:
    """Write a rearrangement, and the statuses that follow from it."""
    if change.new != change.old:
        state.replace_segments(change.slot, change.old, change.new)
    for ident in change.affected():
        restate(state, state.memory(ident), change.held_by(ident), actor, cause.id)
    if cause.slot == change.slot:
        restate(state, state.memory(cause.id), change.held_by(cause.id), actor)


def restate(
    state: State, memory: Memory, held: Sequence[Segment], actor: str, because_of: str | None = None
) -> bool:
    """Supersede or reinstate a member as its segments say; tell whether that changed anything."""
    if memory.status not in {S.ACTIVE, S.SUPERSEDED} or not memory.counted:
        return False
    gone = is_superseded(memory, held, state.now)
    if gone == (memory.status is S.SUPERSEDED):
        return False
    if gone and expired_first(memory, held, state.now):
        return False
    notes = {} if because_of is None else {"notes": canonical({"because_of": because_of}).decode()}
    action, status = (Action.SUPERSEDE, S.SUPERSEDED) if gone else (Action.REINSTATE, S.ACTIVE)
    state.change(memory, action, {"status": status}, notes, actor=actor)
    return True


def expired_first(memory: Memory, held: Sequence[Segment], now: datetime) -> bool:
    """Tell whether a member's time ran out before others took over; then it is for a sweep to expire it."""
    over = memory.expires_at
    if over is None or over > now:
        return False
    return any(until(segment.end) >= over for segment in held)
