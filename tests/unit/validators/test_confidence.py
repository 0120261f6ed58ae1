from datetime import UTC, datetime
from typing import Any

import pytest

from memsmith.errors import ArgumentError
from memsmith.types import Memory, MemoryStatus
from memsmith.validators.confidence import ConfidenceThreshold

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def proposed(content: Any, **fields: Any) -> Memory:
    fixed: Any = {"id": "m", "session_id": "s", "content_hash": "", "created_at": NOW, "updated_at": NOW}
    return Memory(content=content, status=MemoryStatus.PROPOSED, **fixed | {"confidence": 0.9} | fields)


async def test_awaiting_gives_the_verdict_of_check() -> None:
    validator = ConfidenceThreshold(0.5)
    memory = proposed("x", confidence=0.4)
    assert await validator(memory) == validator.check(memory)


@pytest.mark.parametrize(("confidence", "passes"), [(0.49, False), (0.5, True), (1.0, True), (0.0, False)])
def test_confidence_at_the_threshold_passes_and_below_it_waits_for_a_person(
    confidence: float, passes: bool
) -> None:
    verdict = ConfidenceThreshold(0.5).check(proposed("x", confidence=confidence))
    assert verdict.passed is passes
    assert verdict.critical is None
    assert ConfidenceThreshold.critical is False


def test_the_error_names_both_numbers() -> None:
    verdict = ConfidenceThreshold(0.5).check(proposed("x", confidence=0.3))
    assert verdict.errors == ["Confidence 0.3 is below the threshold 0.5"]


@pytest.mark.parametrize("threshold", [85, -0.1, float("nan"), float("inf"), None, True, "0.5"])
def test_a_threshold_that_is_no_share_is_refused(threshold: Any) -> None:
    with pytest.raises(ArgumentError, match="threshold: expected a number between 0 and 1"):
        ConfidenceThreshold(threshold)
