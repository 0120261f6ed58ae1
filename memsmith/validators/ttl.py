"""Give memories a lifetime by where they come from and where they apply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from memsmith._canonical import optional_text
from memsmith.errors import ArgumentError
from memsmith.types import Memory, ValidationResult
from memsmith.validators._base import FACTS, SyncValidator

_LONGEST: Final = timedelta(days=365_000)


@dataclass(frozen=True, kw_only=True)
class TTLRule:
    """Lifetimes for the memories that match all that the rule names; None matches everything.

    `source`, `kind` and `session` are compared exactly, `scope` matches itself and what is below it.
    `ttl` is given to a memory that asks for no lifetime; `max_ttl` caps one that asks for a longer
    one, and is the lifetime where there is no `ttl`. Both are counted from `created_at`.
    """

    ttl: timedelta | None = None
    max_ttl: timedelta | None = None
    source: str | None = None
    kind: str | None = None
    scope: str | None = None
    session: str | None = None

    def __post_init__(self) -> None:
        for name in ("source", "kind", "scope", "session"):
            optional_text(name, getattr(self, name))
        for name in ("ttl", "max_ttl"):
            _require_lifetime(name, getattr(self, name))
        if self.ttl is None and self.max_ttl is None:
            raise ArgumentError("ttl", "a lifetime, or max_ttl", None)
        if self.ttl is not None and self.max_ttl is not None and self.ttl > self.max_ttl:
            raise ArgumentError("ttl", f"at most max_ttl ({self.max_ttl})", self.ttl)

    def matches(self, memory: Memory) -> bool:
        """Tell whether the rule is for this memory."""
        return (
            self.source in (None, memory.source)
            and self.kind in (None, memory.kind)
            and self.session in (None, memory.session_id)
            and (not self.scope or f"{memory.scope}/".startswith(f"{self.scope}/"))
        )


class TTLPolicy(SyncValidator):
    """Sets, or shortens, `expires_at` by the first rule that matches; it never refuses.

    It judges facts and the kinds its rules name. A rule that names no kind is for all of these, so
    put the particular before the general.
    """

    transforms = True

    def __init__(self, rules: Sequence[TTLRule]) -> None:
        self.rules = tuple(rules)
        for rule in self.rules:
            if not isinstance(rule, TTLRule):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not be typed
                raise ArgumentError("rules", "a list of TTLRule", rule)
        self.kinds = FACTS | {rule.kind for rule in self.rules if rule.kind is not None}

    def check(self, memory: Memory) -> ValidationResult:
        """Pass, with the expiry the rules give where it differs from what was asked for."""
        rule = next((rule for rule in self.rules if rule.matches(memory)), None)
        if rule is None:
            return ValidationResult(passed=True)
        if memory.expires_at is None:
            lifetime = rule.ttl or rule.max_ttl
        elif rule.max_ttl is not None and memory.expires_at - memory.created_at > rule.max_ttl:
            lifetime = rule.max_ttl
        else:
            return ValidationResult(passed=True)
        assert lifetime is not None  # a rule without either can't be made
        return ValidationResult(passed=True, expires_at=memory.created_at + lifetime)


def _require_lifetime(name: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, timedelta) or not timedelta(0) < value <= _LONGEST:
        raise ArgumentError(name, "a timedelta above zero, of at most 1000 years", value)
