"""The words of a repeated call's answer: the outcome keeps none of them, the ledger does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import cast

from memsmith.ledger.entry import payload_of
from memsmith.protocols import Reads
from memsmith.store.propose import refusal_of
from memsmith.store.reading import MAX_LIMIT
from memsmith.types import Accepted, PendingConfirmation, ProposalResult
from memsmith.wants import Wants


def is_wordless(result: ProposalResult) -> bool:
    """Tell whether a result was rebuilt from an outcome that held code and id alone."""
    if isinstance(result, Accepted):
        return False
    return not (result.reasons if isinstance(result, PendingConfirmation) else result.reason)


async def retold(reads: Reads, tenant: str, now: datetime, result: ProposalResult) -> ProposalResult:
    """Return a wordless result with the reasons it had the first time; general ones if they were erased."""
    if isinstance(result, Accepted):
        return result
    rows = await reads.audit(tenant, result.memory_id, MAX_LIMIT, None)
    payload = payload_of(rows[-1]) if rows else {}
    errors = tuple(cast(Sequence[str], payload.get("errors", ())))
    if isinstance(result, PendingConfirmation):
        return replace(result, reasons=errors)
    stone_id = cast(str | None, payload.get("refused_by"))
    if stone_id is None:
        return replace(result, reason="; ".join(errors) or "Validation failed")
    loaded = await reads.fetch(tenant, Wants(tombstones={stone_id}), now)
    stones = [stone for stone in loaded.tombstones if stone.id == stone_id]
    return replace(result, reason=refusal_of(stone_id, *stones), tombstone_id=stone_id)
