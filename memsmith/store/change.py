"""Deciding everything that happens to a memory after it was proposed.

Each function returns a decision: given the state inside the transaction, what changes. A status is
checked against the machine there, so of two people who decide at once one gets
InvalidTransitionError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from memsmith._canonical import canonical
from memsmith._clock import to_text
from memsmith.errors import (
    BaseChangedError,
    ConfidenceMonotonicityError,
    DuplicateError,
    InvalidIntervalError,
    InvalidTransitionError,
    PermissionDeniedError,
    ReviewRequiredError,
    StaleVersionError,
    TombstoneConflictError,
    TombstonedError,
    ValidationError,
)
from memsmith.lifecycle import Action, check, next_status
from memsmith.state import State
from memsmith.store.prepare import Digester, Prepared
from memsmith.store.propose import (
    Reach,
    Rules,
    blocking,
    count_refusal,
    duplicate_of,
    plant,
    reach_of,
    shortened,
)
from memsmith.store.supersede import apply, arrange, expired_first, joining, restate, settle
from memsmith.temporal import covers, is_superseded, joined, subtract_all, until
from memsmith.types import DEFAULT_ACTOR, LIVE, Displaced, Interval, Memory, MemoryStatus, Origin, Tombstone
from memsmith.wants import Tail, Wants

S = MemoryStatus
Decision = Callable[[State], Memory]

SWEEP: Final = 1000
"""How many memories one unit of a sweep expires."""

_CASCADED: Final = LIVE | {S.SUPERSEDED, S.QUARANTINED}


def _expect(memory: Memory, expected_version: int | None) -> None:
    if expected_version is not None and memory.version != expected_version:
        raise StaleVersionError(memory.id, expected_version, memory.version)


def _reasoned(reason: str | None) -> dict[str, Any]:
    return {} if reason is None else {"reason": reason}


def confirm(
    memory_id: str,
    actor: str,
    reason: str | None,
    expected_version: int | None,
    digester: Digester,
    rules: Rules,
) -> Decision:
    """A person says yes to what waits. It is judged again on what is stored now."""

    def decide(state: State) -> Memory:
        memory = state.memory(memory_id)
        status = next_status(memory_id, memory.status, Action.CONFIRM)
        if actor != DEFAULT_ACTOR and actor == memory.actor:
            raise PermissionDeniedError(actor, f"confirm memory {memory_id}", "it is its own proposal")
        _expect(memory, expected_version)
        if memory.expires_at is not None and memory.expires_at <= state.now:
            raise InvalidTransitionError(memory_id, S.EXPIRED, S.ACTIVE, Action.CONFIRM)
        _refuse_if_blocked(state, memory, digester)
        other = duplicate_of(state, memory, asserted_from=False, dedup=rules.dedup, besides=memory_id)
        if other is not None and other.status is S.ACTIVE and expected_version is None:
            raise BaseChangedError(memory_id, f"memory {other.id} says this by now", memory.version)
        changes: dict[str, Any] = {"status": status, "origin": Origin.OWNER}
        if memory.displaces:
            changes["displaces"] = ()
        change = joining(state, memory)
        if change is not None and expected_version is None:
            _expect_same_effect(memory, change.displaced())
        confirmed = state.change(memory, Action.CONFIRM, changes, _reasoned(reason), actor=actor)
        if change is not None:
            apply(state, change, confirmed, actor)
        return state.memory(memory_id)

    return decide


def _expect_same_effect(memory: Memory, displaced: Sequence[Displaced]) -> None:
    seen = memory.displaces
    if tuple(displaced) != seen:
        now, then = (", ".join(map(_told_displaced, each)) or "nothing" for each in (displaced, seen))
        difference = f"it would take {now} by now, not {then} as when it was judged last"
        raise BaseChangedError(memory.id, difference, memory.version)


def _told_displaced(displaced: Displaced) -> str:
    whose = "that nobody holds" if displaced.memory_id is None else f"from memory {displaced.memory_id}"
    return f"{_told(Interval(displaced.start, displaced.end))} {whose}"


def _judged_again(state: State, memory: Memory, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the changes of a memory with what it would take by now, if it waits."""
    if memory.status is not S.PENDING_CONFIRMATION:
        return changes
    change = joining(state, memory.evolve(changes))
    displaced = () if change is None else change.displaced()
    return changes if displaced == memory.displaces else {**changes, "displaces": displaced}


def _refuse_if_blocked(state: State, memory: Memory, digester: Digester) -> None:
    stone = blocking(state, memory, digester.values(memory))
    if stone is not None:
        raise TombstonedError(stone.id, memory.id)


def reject(memory_id: str, actor: str, reason: str | None, also: bool, rules: Rules) -> Decision:
    """A person says "never true": the memory goes and its value is blocked from now on."""

    def decide(state: State) -> Memory:
        memory = state.memory(memory_id)
        status = next_status(memory_id, memory.status, Action.REJECT)
        payload = _reasoned(reason)
        stone = plant(state, memory, rules.secret_id, reason, actor, payload)
        gone = _gone(state, status, reason)
        _leave(state, memory, Action.REJECT, gone, payload, actor)
        while others := _same_value(state, memory, stone):
            # Also what holds again on the chain now that this is out, if it says the same.
            if not also:
                raise TombstoneConflictError(memory_id, [m.id for m in others])
            for other in others:
                _leave(state, state.memory(other.id), Action.REJECT, gone, _reasoned(reason), actor)
        return state.memory(memory_id)

    return decide


def _leave(
    state: State,
    memory: Memory,
    action: Action,
    changes: dict[str, Any],
    payload: dict[str, Any],
    actor: str,
) -> Memory:
    """Change a memory in a way that takes it out of its chain."""
    return settle(state, memory, state.change(memory, action, changes, payload, actor=actor), actor)


def _gone(state: State, status: MemoryStatus, reason: str | None) -> dict[str, Any]:
    return {
        "status": status,
        "held_status": None,
        "retracted_at": state.now,
        "retraction_reason": reason,
    }


def _same_value(state: State, memory: Memory, stone: Tombstone) -> list[Memory]:
    """Return the other live memories that a tombstone would have blocked."""
    return [
        live
        for live in state.live_with_value(memory.value_digest)
        if live.id != memory.id and live.kind == memory.kind and reach_of(stone, live) is Reach.BLOCKS
    ]


def retract(memory_id: str, actor: str, reason: str | None, cascade: bool) -> Decision:
    """The memory does not hold (any more); its value may come back. `cascade` takes dependants along."""

    def decide(state: State) -> Memory:
        memory = state.memory(memory_id)
        status = next_status(memory_id, memory.status, Action.RETRACT)
        gone = _gone(state, status, reason)
        doomed = _dependants(state, memory_id) if cascade else []
        _leave(state, memory, Action.RETRACT, gone, _reasoned(reason), actor)
        for dependant in doomed:
            notes = {"notes": canonical({"because_of": memory_id}).decode()}
            current = state.memory(dependant.id)
            _leave(state, current, Action.RETRACT, gone, _reasoned(reason) | notes, actor)
        return state.memory(memory_id)

    return decide


def retract_during(memory_id: str, actor: str, reason: str | None, during: Interval) -> Decision:
    """The memory does not hold over a portion of its time; of the rest nothing changes."""

    def decide(state: State) -> Memory:
        memory = state.memory(memory_id)
        check(memory_id, memory.status, Action.RETRACT_DURING, memory.status)
        before = covers(memory)
        if subtract_all(before, [during]) == before:
            held = ", ".join(map(_told, before))
            raise InvalidIntervalError("during", f"a portion of {held}", _told(during))
        changes = {"retracted_during": joined([*memory.retracted_during, during])}
        if not covers(memory.evolve(changes)):
            return retract(memory_id, actor, reason, cascade=False)(state)
        changes = _judged_again(state, memory, changes)
        changed = state.change(memory, Action.RETRACT_DURING, changes, _reasoned(reason), actor=actor)
        return settle(state, memory, changed, actor)

    return decide


def _told(interval: Interval) -> str:
    end = "…" if interval.end is None else to_text(interval.end)
    return f"[{to_text(interval.start)}, {end})"


def amend_validity(
    memory_id: str, actor: str, reason: str | None, expected_version: int | None, asserted: Interval
) -> Decision:
    """When the memory holds was told wrong; what it says was not."""

    def decide(state: State) -> Memory:
        memory = state.memory(memory_id)
        check(memory_id, memory.status, Action.AMEND_VALIDITY, memory.status)
        _expect(memory, expected_version)
        changes = {"valid_from": asserted.start, "valid_to": asserted.end}
        if not covers(memory.evolve(changes)):
            taken = ", ".join(map(_told, memory.retracted_during))
            raise InvalidIntervalError("valid_from", f"a time that is not within {taken}", _told(asserted))
        changes = _judged_again(state, memory, changes)
        changed = state.change(memory, Action.AMEND_VALIDITY, changes, _reasoned(reason), actor=actor)
        return settle(state, memory, changed, actor)

    return decide


def _dependants(state: State, memory_id: str) -> list[Memory]:
    """Return what depends on a memory, directly or not, nearest first, and can still be retracted."""
    seen, waiting, found = {memory_id}, [memory_id], list[Memory]()
    while waiting:
        state.need(Wants(dependants=set(waiting)))
        children = [child for parent in waiting for child in state.dependants(parent) if child not in seen]
        waiting = list(dict.fromkeys(children))
        seen.update(waiting)
        state.need(Wants(memories=set(waiting)))
        found += [m for m in map(state.memory, waiting) if m.status in _CASCADED]
    return found


def revise(
    item: Prepared, memory_id: str, actor: str, reason: str | None, expected_version: int | None, rules: Rules
) -> Decision:
    """New content under the same id, after the checks a proposal passes; `item` carries the verdict."""

    def decide(state: State) -> Memory:
        memory = state.memory(memory_id)
        check(memory_id, memory.status, Action.REVISE, memory.status)
        _expect(memory, expected_version)
        names = ["content", "content_hash", "value_digest"]
        if item.memory.key != memory.key:
            names += ["key", "many"]
        changes = {name: item.memory.__dict__[name] for name in names}
        revised = memory.evolve(changes)
        stone = blocking(state, revised, item.digests)
        if stone is not None:
            raise TombstonedError(stone.id, memory_id)
        if item.refuse:
            raise ValidationError(item.errors, memory_id)
        if item.errors:
            raise ReviewRequiredError(memory_id, item.errors)
        # What was true then may be corrected to what is true now: it has its own time.
        past = memory.status is S.SUPERSEDED
        other = duplicate_of(state, revised, asserted_from=past, dedup=rules.dedup, besides=memory_id)
        if other is not None:
            raise DuplicateError(memory_id, other.id)
        if revised.key != memory.key and revised.slot is not None and actor != DEFAULT_ACTOR:
            there = arrange(state, revised.slot, None, revised)
            if reasons := shortened(state, there, revised, rules):
                raise ReviewRequiredError(memory_id, reasons)
        if revised.key != memory.key:
            changes = _judged_again(state, memory, changes)
        changed = state.change(memory, Action.REVISE, changes, _reasoned(reason), actor=actor)
        return changed if changed.key == memory.key else settle(state, memory, changed, actor)

    return decide


def count_blocked(tombstone_id: str, memory_id: str, actor: str) -> Callable[[State], None]:
    """Count and record that a tombstone stopped a change of a memory, as it would a proposal."""

    def decide(state: State) -> None:
        memory = state.memory(memory_id)
        count_refusal(state, state.tombstone(tombstone_id))
        payload: dict[str, Any] = {"code": "tombstoned", "refused_by": tombstone_id}
        state.note(memory, Action.BLOCK, payload, actor=actor)

    return decide


def block_value(item: Prepared, memory_id: str, actor: str, rules: Rules) -> Callable[[State], None]:
    """Block the value of a refused revision for good, as a validator asked for; the memory stays."""

    def decide(state: State) -> None:
        memory = state.memory(memory_id)
        refused = memory.evolve({"value_digest": item.memory.value_digest})
        if blocking(state, refused, item.digests) is None:
            payload: dict[str, Any] = {"code": "validation", "errors": list(item.errors)}
            plant(state, refused, rules.secret_id, "; ".join(item.errors), actor, payload)
            state.note(memory, Action.BLOCK, payload, actor=actor)

    return decide


def update_confidence(memory_id: str, actor: str, value: float) -> Decision:
    """Confidence rises; it never falls."""

    def decide(state: State) -> Memory:
        memory = state.memory(memory_id)
        check(memory_id, memory.status, Action.UPDATE_CONFIDENCE, memory.status)
        if value <= memory.confidence:
            raise ConfidenceMonotonicityError(memory_id, memory.confidence, value)
        notes = canonical({"old_value": memory.confidence, "new_value": value}).decode()
        return state.change(
            memory, Action.UPDATE_CONFIDENCE, {"confidence": value}, {"notes": notes}, actor=actor
        )

    return decide


def quarantine(memory_id: str, actor: str, reason: str | None) -> Decision:
    """Out of every read until somebody looked."""

    def decide(state: State) -> Memory:
        memory = state.memory(memory_id)
        status = next_status(memory_id, memory.status, Action.QUARANTINE)
        changes = {"status": status, "held_status": memory.status}
        return _leave(state, memory, Action.QUARANTINE, changes, _reasoned(reason), actor)

    return decide


def release(memory_id: str, actor: str, reason: str | None, digester: Digester) -> Decision:
    """Back to what it was, unless its time ran out or its value was blocked meanwhile."""

    def decide(state: State) -> Memory:
        memory = state.memory(memory_id)
        if memory.status is not S.QUARANTINED or memory.held_status is None:
            raise InvalidTransitionError(memory_id, memory.status, S.ACTIVE, Action.RELEASE)
        status = memory.held_status
        returning = memory.evolve({"status": status})
        change = None if returning.slot is None else arrange(state, returning.slot, None, returning)
        if status in {S.ACTIVE, S.SUPERSEDED} and change is not None:
            held = change.held_by(memory_id)
            gone = is_superseded(returning, held, state.now) and not expired_first(returning, held, state.now)
            status = S.SUPERSEDED if gone else S.ACTIVE
        if status in LIVE:
            _refuse_if_blocked(state, memory, digester)
        if status in LIVE and memory.expires_at is not None and memory.expires_at <= state.now:
            status = S.EXPIRED
        changes = {"status": status, "held_status": None}
        released = state.change(memory, Action.RELEASE, changes, _reasoned(reason), actor=actor)
        if change is not None:
            apply(state, change, released, actor)
        return state.memory(memory_id)

    return decide


def expire_due(actor: str) -> Callable[[State], int]:
    """Expire up to SWEEP live memories whose time is over."""

    def decide(state: State) -> int:
        expired = 0
        for memory_id in state.due(SWEEP):
            memory = state.memory(memory_id)
            over = memory.expires_at is not None and memory.expires_at <= state.now
            if memory.status in LIVE and over:
                status = next_status(memory_id, memory.status, Action.EXPIRE)
                state.change(memory, Action.EXPIRE, {"status": status}, actor=actor)
                expired += 1
        return expired

    return decide


def supersede_due(after: str) -> Callable[[State], tuple[int, str | None]]:
    """Supersede up to SWEEP members whose successor's day has come.

    Returns how many, and where to go on.
    """

    def decide(state: State) -> tuple[int, str | None]:
        ids = state.handed_over(after, SWEEP)
        members = [m for m in map(state.memory, ids) if m.status is S.ACTIVE and m.counted]
        wants = Wants()
        for member in members:
            if member.slot is not None:
                wants.want_chain(member.slot, Tail(min(state.now, until(covers(member)[-1].end))))
        since = dict(wants.chains)
        state.need(wants)
        superseded = 0
        for member in members:
            if member.slot is not None:
                segments = state.segments(member.slot, *since[member.slot])
                held = [segment for segment in segments if segment.memory_id == member.id]
                superseded += restate(state, member, held, "library")
        return superseded, ids[-1] if len(ids) == SWEEP else None

    return decide


def lift_tombstone(tombstone_id: str, actor: str, reason: str | None) -> Callable[[State], Tombstone]:
    """Let a blocked value be proposed again; the tombstone stays on record as lifted."""

    def decide(state: State) -> Tombstone:
        stone = state.tombstone(tombstone_id)
        if stone.lifted_at is None:
            memory = state.memory(stone.memory_id)
            payload = {"lifted": stone.id, **_reasoned(reason)}
            state.note(memory, Action.LIFT_TOMBSTONE, payload, actor=actor)
            stone = replace(stone, lifted_at=state.now, lift_reason=reason)
            state.put_tombstone(stone)
        return stone

    return decide


def kept_of(result: Memory) -> tuple[Sequence[str], Sequence[str]]:
    """Return the code and id kept of a verb that answers with one memory."""
    return [result.status.value], [result.id]
