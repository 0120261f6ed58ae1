"""What the validators of this package share: how they are called, and checks of their arguments."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable

from memsmith.errors import ArgumentError
from memsmith.types import FACT, Memory, ValidationResult

FACTS = frozenset({FACT})


class SyncValidator(ABC):
    """A validator that only computes: both a `Check` and a `Validator` of memsmith.protocols."""

    kinds: frozenset[str] = FACTS
    critical: bool = False
    transforms: bool = False

    @abstractmethod
    def check(self, memory: Memory) -> ValidationResult:
        """Return the verdict."""
        ...

    async def __call__(self, memory: Memory) -> ValidationResult:
        """Return the verdict of `check`."""
        return self.check(memory)


def require_kinds(kinds: Iterable[str]) -> frozenset[str]:
    """Return the kinds to judge; a bare string would be read as its letters, so it is refused."""
    found = kinds if isinstance(kinds, str) else frozenset(kinds)
    if isinstance(found, str) or not found or not all(isinstance(k, str) and k.strip() for k in found):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not be typed
        raise ArgumentError("kinds", "a collection of kinds, such as {'fact'}", kinds)
    return found


def require_share(argument: str, value: object) -> float:
    """Return a number between 0 and 1, the range of confidence and trust."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ArgumentError(argument, "a number between 0 and 1", value)
    if not 0 <= value <= 1:
        raise ArgumentError(argument, "a number between 0 and 1", value)
    return float(value)
