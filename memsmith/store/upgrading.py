"""Writing what another ledger said: its rows as history, its memories as imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from memsmith._canonical import canonical
from memsmith._clock import to_text, utc_now
from memsmith.lifecycle import Action
from memsmith.protocols import Clock, Progress, StorageBackend
from memsmith.state import State
from memsmith.store.merging import IMPORTED_FROM
from memsmith.store.prepare import Digester
from memsmith.store.secrets import open_secrets
from memsmith.types import AuditEntry, Memory, MemoryStatus
from memsmith.unit import Unit

UNIT: Final = 1000
"""How many rows or memories are one unit."""


async def take_over(
    storage: StorageBackend,
    tenant: str,
    secret: str | bytes | None,
    memories: Sequence[Memory],
    audit: Sequence[AuditEntry],
    clock: Clock = utc_now,
    progress: Progress | None = None,
) -> None:
    """Write audit rows (oldest first) as history, then one ``imported`` row for each memory.

    A row of history keeps its action, statuses and metadata; its id and time stand under
    ``imported_from`` in the metadata. Where it had no status, it gets the memory's of that time.
    """
    digester = await open_secrets(storage, secret)
    final = {memory.id: memory.status for memory in memories}
    statuses = statuses_of(audit, final)
    decisions: list[tuple[Callable[[State], None], int]] = []
    for first in range(0, len(audit), UNIT):
        chunk = slice(first, first + UNIT)
        decisions.append((_remember(audit[chunk], statuses[chunk]), len(audit[chunk])))
    for first in range(0, len(memories), UNIT):
        some = memories[first : first + UNIT]
        decisions.append((_bring_in(some, tenant, digester), len(some)))
    done = 0
    for decide, size in decisions:
        (settled,) = await storage.commit(tenant, [Unit(decide, size=UNIT)], clock)
        if settled.error is not None:
            raise settled.error
        done += size
        if progress is not None:
            progress(done, len(audit) + len(memories))


def statuses_of(
    audit: Sequence[AuditEntry], final: Mapping[str, MemoryStatus]
) -> list[tuple[MemoryStatus, MemoryStatus]]:
    """Return from and to status of each row; a row that had none gets what the memory had then."""
    start: dict[str, MemoryStatus] = {}
    for entry in audit:
        if entry.from_status is not None:
            start.setdefault(entry.memory_id, entry.from_status)
    now = {**final, **start}
    found: list[tuple[MemoryStatus, MemoryStatus]] = []
    for entry in audit:
        then = now.get(entry.memory_id, MemoryStatus.ACTIVE)
        to_status = entry.to_status or then
        found.append((entry.from_status or then, to_status))
        now[entry.memory_id] = to_status
    return found


def _remember(
    audit: Sequence[AuditEntry], statuses: Sequence[tuple[MemoryStatus, MemoryStatus]]
) -> Callable[[State], None]:
    def decide(state: State) -> None:
        for entry, (before, after) in zip(audit, statuses, strict=True):
            whence = {"id": entry.id, "timestamp": to_text(entry.timestamp)}
            payload: dict[str, Any] = {"notes": canonical({**entry.metadata, IMPORTED_FROM: whence}).decode()}
            state.history(entry.memory_id, entry.action, (before.value, after.value), payload)

    return decide


def _bring_in(memories: Sequence[Memory], tenant: str, digester: Digester) -> Callable[[State], None]:
    def decide(state: State) -> None:
        for memory in memories:
            text = canonical(memory.content)
            digest = digester.value(memory.kind, memory.content, text, memory.session_id)
            # Nothing here is older than its entry, whatever the clock over there said.
            created = min(memory.created_at, state.now)
            times = {"created_at": created, "updated_at": memory.updated_at}
            ours = memory.evolve({"tenant": tenant, "value_digest": digest})
            state.insert(ours, times, Action.IMPORT, {}, text.decode())

    return decide
