"""Deciding proposals: what becomes of a judged proposal, given what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, cast

from memsmith._ids import new_id
from memsmith.errors import NotFoundError
from memsmith.ledger.record import tombstone_record
from memsmith.lifecycle import Action, next_status
from memsmith.state import State
from memsmith.store.once import remember, replayed
from memsmith.store.prepare import Prepared, require_confidence, require_interval
from memsmith.store.supersede import Rearrangement, apply, joining
from memsmith.temporal import until
from memsmith.types import (
    DEFAULT_ACTOR,
    Accepted,
    Displaced,
    Memory,
    MemoryStatus,
    PendingConfirmation,
    ProposalResult,
    Rejected,
    Slot,
    Tombstone,
)
from memsmith.wants import Tail, Wants


@dataclass(frozen=True)
class Reinforcement:
    """What a repeated proposal from another session does to the live memory.

    Confidence rises by `step` of what is missing to 1, up to `ceiling`; the session and source of
    each corroboration are kept under ``corroborated_by`` in the metadata, once per session.
    """

    step: float = 0.25
    ceiling: float = 0.99

    def __post_init__(self) -> None:
        for name in ("step", "ceiling"):
            require_confidence(getattr(self, name), name)


@dataclass(frozen=True)
class Rules:
    """The store's settings that decide about proposals."""

    dedup: str = "session"
    reinforcement: Reinforcement | None = None
    protect_origin: bool = True
    secret_id: str = ""


SOON: Final = timedelta(hours=1)
DUPLICATE: Final = "Duplicate content"


def wants_of(items: Sequence[Prepared]) -> Wants:
    """Return what deciding these proposals takes to know."""
    wants = Wants()
    for item in items:
        memory = item.memory
        wants.blocks.update(item.digests)
        slot = memory.slot
        if slot is not None and not slot.lane:
            now, start = memory.created_at, memory.valid_from
            # The unit comes a little later than the proposal was made.
            wants.want_chain(slot, Tail(now, now + SOON) if start is None else Tail(min(start, now), start))
        elif item.dedup:
            wants.values.add(memory.value_digest)
        if memory.depends_on:
            wants.memories.update(memory.depends_on)
        if item.idempotency_key is not None:
            wants.outcomes.add((memory.actor, "propose", item.idempotency_key))
    return wants


def decide_proposal(state: State, item: Prepared, rules: Rules) -> ProposalResult:
    """Decide one proposal; the first rule that applies wins."""
    key = item.idempotency_key
    if key is None:
        return _decide(state, item, rules)
    actor = item.memory.actor
    seen = replayed(state, (actor, "propose", key), item.arguments)
    if seen is not None:
        return result_of(state, seen.codes[0], seen.memory_ids[0])
    result = _decide(state, item, rules)
    remember(state, (actor, "propose", key), item.arguments, [code_of(result)], [result.memory_id])
    return result


def _decide(state: State, item: Prepared, rules: Rules) -> ProposalResult:
    for parent in item.memory.depends_on:
        if not state.has(parent):
            raise NotFoundError(parent)
    held: list[str] = []
    for stone in state.blocks(item.digests):
        reach = reach_of(stone, item.memory)
        if reach is Reach.BLOCKS:
            return _refuse_blocked(state, item, stone)
        if reach is Reach.NEAR:
            held.append(f"the value was rejected nearby: tombstone {stone.id}")
    if item.dedup:
        live = duplicate_of(state, item.memory, item.asserted_from, rules.dedup)
        if live is not None:
            live = _corroborate(state, live, item.memory, rules)
            return Rejected(live.id, live, DUPLICATE, code="duplicate")
    return _settle(state, item, held, rules)


def _settle(state: State, item: Prepared, held: list[str], rules: Rules) -> ProposalResult:
    errors = [*item.errors, *held]
    change: Rearrangement | None = None
    if item.memory.key is not None and not item.refuse:
        change = _expected_change(state, item)
        errors += shortened(state, change, item.memory, rules)
    payload: dict[str, Any] = {"errors": errors} if errors else {}
    if item.refuse:
        payload["code"] = "validation"
        if item.tombstone:
            plant(state, item.memory, rules.secret_id, "; ".join(errors), item.memory.actor, payload)
        memory = _insert(state, item, Action.REFUSE, payload, withhold=item.withhold)
        return Rejected(memory.id, memory, "; ".join(errors) or "Validation failed")
    if errors:
        displaced = () if change is None else change.displaced()
        memory = _insert(state, item, Action.HOLD, payload, displaces=displaced)
        return PendingConfirmation(memory.id, memory, tuple(errors))
    memory = _insert(state, item, Action.ACCEPT, payload)
    if change is not None:
        apply(state, change, memory, memory.actor)
        memory = state.memory(memory.id)
    return Accepted(memory.id, memory)


def _expected_change(state: State, item: Prepared) -> Rearrangement | None:
    """Return what accepting a proposal would do to its chain."""
    return joining(state, item.memory.evolve(_starting(state, item)))


def shortened(state: State, change: Rearrangement | None, memory: Memory, rules: Rules) -> list[str]:
    """Return why a person is asked: the proposal would shorten what someone more trusted said."""
    if change is None or not rules.protect_origin:
        return []
    members = map(state.memory, change.affected())
    return [
        f"it would shorten memory {member.id}, whose origin is {member.origin.value}"
        for member in members
        if member.origin.rank > memory.origin.rank
    ]


def _starting(state: State, item: Prepared) -> dict[str, datetime]:
    """Return when a proposal begins to hold, where its proposer left that to the store."""
    if item.asserted_from:
        return {}
    if item.memory.valid_to is not None:
        require_interval(state.now, item.memory.valid_to)
    return {"valid_from": state.now}


def _insert(
    state: State,
    item: Prepared,
    action: Action,
    payload: dict[str, Any],
    *,
    withhold: bool = False,
    displaces: tuple[Displaced, ...] = (),
) -> Memory:
    """Add the proposal as decided, with the unit's system time where the caller asserted nothing."""
    now, memory = state.now, item.memory
    status = next_status(memory.id, MemoryStatus.PROPOSED, action)
    changes: dict[str, Any] = {"status": status, "code": payload.get("code")}
    if action is not Action.REFUSE:
        changes |= _starting(state, item)
    elif not item.asserted_from:
        changes["valid_from"] = now
    if displaces:
        changes["displaces"] = displaces
    if item.ttl is not None:
        changes["expires_at"] = now + item.ttl
    if withhold:
        return state.insert(memory, {**changes, **WITHHELD}, action, payload)
    return state.insert(memory, changes, action, payload, item.text)


WITHHELD: Final[dict[str, Any]] = {
    "content": None,
    "content_hash": "",
    "metadata": {},
    "source": None,
    "thread_id": None,
    "key": None,
}
"""What a refused memory keeps of a value that must not be stored: nothing but the keyed digest."""


# -- tombstones -----------------------------------------------------------------------------------


class Reach:
    """How a tombstone reaches a proposal of the same value."""

    BLOCKS = "blocks"
    NEAR = "near"
    NONE = "none"


def reach_of(stone: Tombstone, memory: Memory) -> str:
    """Tell whether a standing tombstone blocks a memory of the same kind and value, or is near it.

    It blocks in its scope and below, on its own key or on none. Above its scope, or where a keyless
    tombstone meets a keyed proposal, a person decides. Another key is another fact.
    """
    below = stone.scope in {"", memory.scope} or memory.scope.startswith(stone.scope + "/")
    above = memory.scope == "" or stone.scope.startswith(memory.scope + "/")
    if not below and not above:
        return Reach.NONE
    if stone.key == memory.key or memory.key is None:
        return Reach.BLOCKS if below else Reach.NEAR
    return Reach.NEAR if stone.key is None else Reach.NONE


def blocking(state: State, memory: Memory, digests: Sequence[str]) -> Tombstone | None:
    """Return the tombstone that blocks a memory's value, if one does."""
    for stone in state.blocks(digests):
        if reach_of(stone, memory) is Reach.BLOCKS:
            return stone
    return None


def plant(
    state: State, memory: Memory, secret_id: str, reason: str | None, actor: str, payload: dict[str, Any]
) -> Tombstone:
    """Plant a tombstone for a memory's value; the ledger row of `payload` carries it."""
    stone = Tombstone(
        id=new_id(),
        memory_id=memory.id,
        kind=memory.kind,
        scope=memory.scope,
        key=memory.key,
        digest=memory.value_digest,
        secret_id=secret_id,
        reason=reason,
        actor=actor,
        created_at=state.now,
        tenant=state.tenant,
    )
    bury(state, stone, payload)
    return stone


def bury(state: State, stone: Tombstone, payload: dict[str, Any]) -> None:
    """Put a tombstone in place; `payload` is of the row that says so, with its memory, actor and time."""
    record = tombstone_record(stone)
    payload["tombstone"] = {
        name: record[name] for name in ("id", "kind", "scope", "key", "digest", "secret_id", "reason")
    }
    state.put_tombstone(stone)


def count_refusal(state: State, stone: Tombstone) -> None:
    """Count one more refused retry."""
    state.put_tombstone(replace(stone, refused=stone.refused + 1))


def _refuse_blocked(state: State, item: Prepared, stone: Tombstone) -> Rejected:
    count_refusal(state, stone)
    payload: dict[str, Any] = {"code": "tombstoned", "refused_by": stone.id}
    refused = _insert(state, item, Action.REFUSE, payload, withhold=True)
    reason = refusal_of(stone.id, stone)
    return Rejected(refused.id, refused, reason, code="tombstoned", tombstone_id=stone.id)


def refusal_of(stone_id: str, stone: Tombstone | None = None) -> str:
    """Return what a refused proposer is told."""
    return f"Blocked by tombstone {stone_id}" + (f": {stone.reason}" if stone and stone.reason else "")


# -- duplicates -----------------------------------------------------------------------------------


def duplicate_of(
    state: State, memory: Memory, asserted_from: bool, dedup: str, *, besides: str | None = None
) -> Memory | None:
    """Return the live memory that already says what `memory` says, if there is one."""
    slot = memory.slot
    if slot is not None and not slot.lane:
        return _duplicate_on(state, slot, memory, asserted_from, besides)
    for live in state.live_with_value(memory.value_digest):
        if (
            live.id != besides
            and not _is_over(live, state)
            and (live.key, live.kind, live.scope) == (memory.key, memory.kind, memory.scope)
            and live.content_hash == memory.content_hash
            and (memory.key is not None or dedup == "scope" or live.session_id == memory.session_id)
            and not (memory.key is not None and asserted_from and live.valid_from != memory.valid_from)
        ):
            return live
    return None


def _duplicate_on(
    state: State, slot: Slot, memory: Memory, asserted_from: bool, besides: str | None
) -> Memory | None:
    """Return the member of a chain that is current or waits, and says as much as `memory` does."""
    waiting = state.waiting_on(slot)
    start = memory.valid_from
    if asserted_from and start is not None:
        segments = state.segments(slot, min(start, state.now), start)
        begun = dict.fromkeys(s.memory_id for s in segments if s.rank[0] == start)
        candidates = [m for m in [*map(state.memory, begun), *waiting] if m.valid_from == start]
    elif (current := state.current_on(slot)) is not None:
        # What waits with an older start than the current one has would land in the past: it does not
        # say what this says about today.
        since = current.valid_from
        candidates = [current, *(m for m in waiting if since is None or since <= (m.valid_from or since))]
    else:
        candidates = waiting
    for live in candidates:
        as_long = until(memory.valid_to) <= until(live.valid_to)
        # What holds from an asserted time on may be superseded by now; said again it says nothing new.
        same = live.status is not MemoryStatus.EXPIRED and live.content_hash == memory.content_hash
        if live.id != besides and same and as_long and not _is_over(live, state):
            return live
    return None


def _is_over(live: Memory, state: State) -> bool:
    """Tell whether a memory ran out, though no sweep has seen it yet."""
    return live.expires_at is not None and live.expires_at <= state.now


def _corroborate(state: State, live: Memory, again: Memory, rules: Rules) -> Memory:
    """Let a repeated proposal endorse (higher origin) or reinforce (another session) the live one."""
    if again.origin.rank > live.origin.rank:
        live = state.change(live, Action.ENDORSE, {"origin": again.origin}, actor=again.actor)
        if live.status is MemoryStatus.PENDING_CONFIRMATION and again.actor == DEFAULT_ACTOR:
            live = _endorsed(state, live, again.actor)
    policy = rules.reinforcement
    witnesses = _witnesses(live)
    known = {live.session_id, *(w["session_id"] for w in witnesses)}
    if policy is None or again.session_id in known:
        return live
    risen = min(policy.ceiling, live.confidence + (1 - live.confidence) * policy.step)
    witness = {"session_id": again.session_id, "source": again.source, "actor": again.actor}
    changes = {
        "confidence": max(live.confidence, risen),
        "metadata": {**live.metadata, "corroborated_by": [*witnesses, witness]},
    }
    return state.change(live, Action.REINFORCE, changes, actor=again.actor)


def _witnesses(live: Memory) -> list[dict[str, Any]]:
    """Return the corroborations kept in a memory's metadata; its proposer may have put other things there."""
    kept = live.metadata.get("corroborated_by")
    if not isinstance(kept, list):
        return []
    entries = [cast(dict[str, Any], each) for each in cast(list[Any], kept) if isinstance(each, dict)]
    return [entry for entry in entries if isinstance(entry.get("session_id"), str)]


def _endorsed(state: State, waiting: Memory, actor: str) -> Memory:
    """Confirm what waits because the owner says it too."""
    change = joining(state, waiting)
    changes = {"status": MemoryStatus.ACTIVE, "displaces": ()}
    confirmed = state.change(waiting, Action.CONFIRM, changes, {"reason": "endorsed"}, actor=actor)
    if change is not None:
        apply(state, change, confirmed, actor)
    return state.memory(waiting.id)


# -- results --------------------------------------------------------------------------------------


def code_of(result: ProposalResult) -> str:
    """Return the word that stands for a result in outcomes and metrics."""
    if isinstance(result, Accepted):
        return "accepted"
    return "pending" if isinstance(result, PendingConfirmation) else result.code


def result_of(state: State, code: str, memory_id: str) -> ProposalResult:
    """Rebuild the result of an earlier call, but for its words; the memory is as it is now."""
    memory = state.memory(memory_id)
    if code == "accepted":
        return Accepted(memory_id, memory)
    if code == "pending":
        return PendingConfirmation(memory_id, memory)
    return Rejected(memory_id, memory, DUPLICATE if code == "duplicate" else "", code=code)
