"""Refuse what is too big to remember."""

from __future__ import annotations

from collections.abc import Iterable

from memsmith._canonical import canonical
from memsmith.errors import ArgumentError
from memsmith.types import Memory, ValidationResult
from memsmith.validators._base import FACTS, SyncValidator, require_kinds


class MaxSize(SyncValidator):
    """Refuses content of more than `max_bytes` bytes of canonical JSON, and keeps none of it.

    The bytes are UTF-8: `"é"` counts four, with its quotes. The store has a limit of its own, the
    same for everything; this one is for a tighter limit, by kind if need be.
    """

    critical = True

    def __init__(self, max_bytes: int, *, kinds: Iterable[str] = FACTS) -> None:
        if isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes < 1:  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not be typed
            raise ArgumentError("max_bytes", "a whole number of bytes, 1 or more", max_bytes)
        self.max_bytes = max_bytes
        self.kinds = require_kinds(kinds)

    def check(self, memory: Memory) -> ValidationResult:
        """Measure the content."""
        size = len(canonical(memory.content))
        if size <= self.max_bytes:
            return ValidationResult(passed=True)
        return ValidationResult(
            passed=False,
            errors=[f"content: expected at most {self.max_bytes} bytes of JSON, found {size} bytes"],
            withhold=True,
        )
