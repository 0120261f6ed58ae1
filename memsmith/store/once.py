"""Idempotency: the first outcome again, or a conflict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from memsmith.errors import IdempotencyConflictError
from memsmith.state import State
from memsmith.types import Outcome
from memsmith.wants import OutcomeKey, OutcomeRecord, Wants

T = TypeVar("T")


def replayed(state: State, key: OutcomeKey, digest: str) -> Outcome | None:
    """Return the outcome of the same call made before; the same key on another call raises."""
    record = state.outcome(key)
    if record is None:
        return None
    if record.digest != digest:
        raise IdempotencyConflictError(key[1], key[2])
    return record.outcome


def remember(state: State, key: OutcomeKey, digest: str, codes: Sequence[str], ids: Sequence[str]) -> None:
    """Keep a call's outcome: codes and ids, never content."""
    actor, verb, idempotency_key = key
    outcome = Outcome(verb, idempotency_key, actor, tuple(codes), tuple(ids), state.now)
    state.put_outcome(OutcomeRecord(outcome, digest))


@dataclass(frozen=True)
class Call:
    """A call that may be repeated, of a verb that takes several units: its last one keeps the outcome."""

    key: OutcomeKey
    digest: str

    def wants(self) -> Wants:
        """Return what telling whether it is a repeat takes to know."""
        return Wants(outcomes={self.key})

    def replayed(self, state: State) -> Outcome | None:
        """Return the outcome of the same call made before, if it came to its end."""
        return replayed(state, self.key, self.digest)

    def remember(self, state: State, codes: Sequence[str]) -> None:
        """Keep the outcome."""
        remember(state, self.key, self.digest, codes, [])


def once(
    key: OutcomeKey,
    digest: str,
    decide: Callable[[State], T],
    encode: Callable[[T], tuple[Sequence[str], Sequence[str]]],
    decode: Callable[[State, Outcome], T],
) -> Callable[[State], T]:
    """Wrap a decision so that repeating the call gives its first outcome again."""

    def decide_once(state: State) -> T:
        seen = replayed(state, key, digest)
        if seen is not None:
            return decode(state, seen)
        result = decide(state)
        remember(state, key, digest, *encode(result))
        return result

    return decide_once
