"""Hold what its proposer is not sure enough of."""

from __future__ import annotations

from memsmith.types import Memory, ValidationResult
from memsmith.validators._base import SyncValidator, require_share


class ConfidenceThreshold(SyncValidator):
    """Passes memories whose confidence is `threshold` or more; the others wait for a person."""

    def __init__(self, threshold: float) -> None:
        self.threshold = require_share("threshold", threshold)

    def check(self, memory: Memory) -> ValidationResult:
        """Compare the confidence with the threshold."""
        if memory.confidence >= self.threshold:
            return ValidationResult(passed=True)
        return ValidationResult(
            passed=False, errors=[f"Confidence {memory.confidence} is below the threshold {self.threshold}"]
        )
