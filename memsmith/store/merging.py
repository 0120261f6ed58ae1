"""Bringing memories and tombstones of another store in through the door: what each becomes here; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from sys import maxsize
from typing import Any, Final

from memsmith._clock import to_text
from memsmith._ids import new_id
from memsmith.errors import NotFoundError
from memsmith.lifecycle import Action
from memsmith.state import State
from memsmith.store.prepare import Prepared
from memsmith.store.propose import WITHHELD, bury, code_of
from memsmith.types import LIVE, Memory, MemoryStatus, ProposalInput, ProposalResult, Slot, Tombstone

IMPORTED_FROM: Final = "imported_from"
"""Under which name an imported memory's metadata say where it came from."""

WAITED: Final = "it waited for a person where it was exported"
_TOLD: Final = frozenset({MemoryStatus.ACTIVE, MemoryStatus.SUPERSEDED, MemoryStatus.EXPIRED})
"""In which a member of a chain still has what it said."""
OVER: Final = "over"
LIFTED: Final = "lifted"


@dataclass(frozen=True)
class Refusal:
    """A memory of the file that was not taken; `code` is that of the result, or ``argument``."""

    memory_id: str
    code: str
    reason: str


@dataclass(frozen=True)
class ImportReport:
    """What an import did.

    `restored` tells a verbatim restore from a merge. `memories`, `tombstones` and `rows` count what the
    file holds. Of a merge, `outcomes` counts its memories by result code; `left_out` those that were not
    proposed, by status, ``over`` where the time was over, and ``lifted`` tombstones; `planted` counts
    tombstones that are new here; `refused` names what the door refused, by the id it has in the file.
    """

    restored: bool
    memories: int
    tombstones: int
    rows: int
    outcomes: dict[str, int] = field(default_factory=dict[str, int])
    left_out: dict[str, int] = field(default_factory=dict[str, int])
    planted: int = 0
    refused: tuple[Refusal, ...] = ()


class Tally:
    """Adds up a merge. `ids` maps ids of the file to those of the memories that say the same here."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        self.outcomes: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self.refused: list[Refusal] = []
        self.planted = 0

    def refuse(self, memory_id: str, code: str, reason: str) -> None:
        """Count a memory that was not taken."""
        self.outcomes[code] += 1
        self.refused.append(Refusal(memory_id, code, reason))

    def add(self, memory_id: str, result: ProposalResult) -> None:
        """Count the result of a memory that was proposed."""
        code = code_of(result)
        if is_here(result):
            self.outcomes[code] += 1
            self.ids[memory_id] = result.memory_id
        else:
            self.refuse(memory_id, code, getattr(result, "reason", ""))

    def to_propose(self, memories: Iterable[Memory], held: Container[str], now: datetime) -> list[Memory]:
        """Return the memories that speak or wait to, and those that spoke once; the rest is left out.

        What was superseded or ran out lands in the past, if `held` has it: it was in force on its key at
        some time, and what it displaced must not come back.
        """
        live: list[Memory] = []
        for memory in memories:
            if memory.id in held and memory.status in _TOLD:
                live.append(memory)
            elif memory.status not in LIVE:
                self.left_out[memory.status.value] += 1
            elif memory.expires_at is not None and memory.expires_at <= now:
                self.left_out[OVER] += 1
            else:
                live.append(memory)
        return _as_asserted(live)

    def to_plant(self, stones: Iterable[Tombstone]) -> list[Tombstone]:
        """Return the standing tombstones; lifted ones are counted as left out."""
        every = list(stones)
        standing = [stone for stone in every if stone.lifted_at is None]
        if len(standing) < len(every):
            self.left_out[LIFTED] = len(every) - len(standing)
        return standing


def _as_asserted(memories: Sequence[Memory]) -> list[Memory]:
    """Return memories with those of each chain in the order of their assertion; what waits comes last.

    Of members that begin together the one asserted last holds, and it need not be the youngest.
    """
    by_slot: dict[Slot, list[Memory]] = {}
    for memory in memories:
        if memory.slot is not None:
            by_slot.setdefault(memory.slot, []).append(memory)
    following = {
        slot: iter(sorted(members, key=lambda m: m.asserted_order or maxsize))
        for slot, members in by_slot.items()
    }
    return [memory if memory.slot is None else next(following[memory.slot]) for memory in memories]


def is_here(result: ProposalResult) -> bool:
    """Tell whether the store now has a live memory for what was proposed."""
    return code_of(result) in {"accepted", "pending", "duplicate"}


def proposal_of(memory: Memory, tenant: str) -> ProposalInput:
    """Return a memory of another store as a proposal; its dependencies are linked when it is decided."""
    return ProposalInput(
        memory.content, memory.confidence, memory.source,
        thread_id=memory.thread_id, scope=memory.scope, key=memory.key, kind=memory.kind,
        origin=memory.origin, sensitivity=memory.sensitivity, valid_from=memory.valid_from,
        valid_to=memory.valid_to, expires_at=memory.expires_at, actor=memory.actor,
        metadata={**memory.metadata, IMPORTED_FROM: _whence(memory, tenant)},
    )  # fmt: skip


def _whence(memory: Memory, tenant: str) -> dict[str, Any]:
    return {"id": memory.id, "tenant": tenant, "created_at": to_text(memory.created_at)}


def held_as_there(memory: Memory, item: Prepared) -> None:
    """Let what waited for a person wait here too, whatever this store's validators think of it."""
    if memory.status is MemoryStatus.PENDING_CONFIRMATION:
        item.errors += (WAITED,)


def linked(item: Prepared, source: Memory, ids: Mapping[str, str]) -> Prepared:
    """Return a proposal with what a proposer can't say: the portions retracted, and what it depends on.

    It depends on what is here; links to what is not are kept in its metadata.
    """
    if source.retracted_during:
        portions = {"retracted_during": source.retracted_during}
        item = replace(item, memory=item.memory.evolve(portions))
    if not source.depends_on:
        return item
    here = list(dict.fromkeys(ids[parent] for parent in source.depends_on if parent in ids))
    changes: dict[str, Any] = {"depends_on": here}
    if lost := [parent for parent in source.depends_on if parent not in ids]:
        metadata = item.memory.metadata
        whence = {**metadata[IMPORTED_FROM], "depends_on": lost}
        changes["metadata"] = {**metadata, IMPORTED_FROM: whence}
    return replace(item, memory=item.memory.evolve(changes))


def plant_all(
    state: State, stones: Sequence[Tombstone], sources: Mapping[str, Memory], tenant: str, actor: str
) -> int:
    """Plant those tombstones of another store that this one does not have; return how many."""
    new = [stone for stone in stones if not _is_known(state, stone)]
    for stone in new:
        _plant(state, stone, sources[stone.memory_id], tenant, actor)
    return len(new)


def _is_known(state: State, stone: Tombstone) -> bool:
    """Tell whether the tombstone was here before (and may have been lifted), or another blocks the same."""
    try:
        state.tombstone(stone.id)
    except NotFoundError:
        place = (stone.kind, stone.scope, stone.key)
        return any((other.kind, other.scope, other.key) == place for other in state.blocks([stone.digest]))
    return True


def _plant(state: State, stone: Tombstone, source: Memory, tenant: str, actor: str) -> None:
    # A tombstone belongs to a memory. What was refused there is a refused memory here, without content.
    bearer = source.evolve({"id": new_id(), "tenant": state.tenant, "actor": actor, "version": 1})
    ours = replace(
        stone,
        tenant=state.tenant, memory_id=bearer.id, actor=actor, created_at=state.now, refused=0,
    )  # fmt: skip
    payload: dict[str, Any] = {"code": "tombstoned"}
    bury(state, ours, payload)
    changes: dict[str, Any] = {
        **WITHHELD,
        "status": MemoryStatus.REJECTED,
        "held_status": None,
        "code": "tombstoned",
        "value_digest": stone.digest,
        "depends_on": [],
        "metadata": {IMPORTED_FROM: {**_whence(source, tenant), "tombstone": stone.id}},
        "valid_from": state.now,
        "valid_to": None,
        "expires_at": None,
        "retracted_at": None,
        "retraction_reason": None,
        "retracted_during": (),
        "asserted_order": 0,
        "displaces": (),
        "many": False,
    }
    state.insert(bearer, changes, Action.IMPORT, payload)
