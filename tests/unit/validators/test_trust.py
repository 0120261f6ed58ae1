import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsmith.errors import ArgumentError
from memsmith.types import Memory, MemoryStatus, Origin
from memsmith.validators.trust import SourceTrust

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def proposed(content: Any, **fields: Any) -> Memory:
    fixed: Any = {"id": "m", "session_id": "s", "content_hash": "", "created_at": NOW, "updated_at": NOW}
    return Memory(content=content, status=MemoryStatus.PROPOSED, **fixed | {"confidence": 0.9} | fields)


shares = st.floats(min_value=0, max_value=1)
POLICY = SourceTrust(
    {"user": 1.0, "web": 0.3}, origins={Origin.TOOL: 0.6}, default=0.5, hold_below=0.5, refuse_below=0.2
)


@pytest.mark.parametrize(
    ("source", "origin", "trust"),
    [
        ("user", Origin.OWNER, 1.0),
        ("web", Origin.OWNER, 0.3),
        ("User", Origin.OWNER, 0.5),
        (None, Origin.OWNER, 0.5),
        (None, Origin.TOOL, 0.6),
        ("unheard of", Origin.TOOL, 0.6),
        ("web", Origin.TOOL, 0.3),
    ],
)
def test_trust_comes_from_the_label_the_origin_or_the_default(
    source: str | None, origin: Origin, trust: float
) -> None:
    assert POLICY.trust(proposed("x", source=source, origin=origin)) == trust


def test_a_claimed_label_does_not_raise_what_the_origin_is_worth() -> None:
    assert POLICY.trust(proposed("x", source="user", origin=Origin.TOOL)) == 0.6


@pytest.mark.parametrize(
    ("source", "confidence", "passed", "critical"),
    [
        ("user", 0.5, True, None),
        ("user", 0.49, False, False),
        ("user", 0.2, False, False),
        ("user", 0.19, False, True),
        ("web", 1.0, False, False),
        ("web", 0.5, False, True),
    ],
)
def test_low_scores_wait_for_a_person_and_lower_ones_are_refused(
    source: str, confidence: float, passed: bool, critical: bool | None
) -> None:
    verdict = POLICY.check(proposed("x", source=source, confidence=confidence))
    assert (verdict.passed, verdict.critical) == (passed, critical)


def test_the_error_shows_the_sum() -> None:
    assert POLICY.check(proposed("x", source="web")).errors == [
        "trust 0.3 × confidence 0.9 is 0.27, under hold_below 0.5"
    ]
    assert POLICY.check(proposed("x", source="web", confidence=0.1)).errors == [
        "trust 0.3 × confidence 0.1 is 0.03, under refuse_below 0.2"
    ]


@settings(deadline=None)
@given(shares, shares, shares, shares, shares)
def test_the_verdict_is_the_product_against_the_lines(
    trust: float, confidence: float, other: float, one_line: float, another_line: float
) -> None:
    refuse, hold = sorted((one_line, another_line))
    policy = SourceTrust({"s": trust}, default=other, hold_below=hold, refuse_below=refuse)
    verdict = policy.check(proposed("x", source="s", confidence=confidence))
    assert verdict.passed is (trust * confidence >= hold)
    assert bool(verdict.critical) is (trust * confidence < refuse)


def test_origins_may_be_named_by_their_value() -> None:
    by_name: Any = {"untrusted": 0.1}
    assert SourceTrust({}, origins=by_name).trust(proposed("x", origin=Origin.UNTRUSTED)) == 0.1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"baselines": {"a": 1.1}}, r"baselines\['a'\]"),
        ({"baselines": {"a": True}}, r"baselines\['a'\]"),
        ({"baselines": {1: 0.5}}, "baselines: expected a mapping"),
        ({"baselines": [("a", 1.0)]}, "baselines: expected a mapping"),
        ({"baselines": {}, "origins": {"martian": 0.5}}, "origins: expected one of untrusted, tool"),
        ({"baselines": {}, "origins": {"tool": math.nan}}, "origins"),
        ({"baselines": {}, "default": -1}, "default"),
        ({"baselines": {}, "hold_below": 2}, "hold_below"),
        ({"baselines": {}, "refuse_below": None}, "refuse_below"),
        ({"baselines": {}, "hold_below": 0.3, "refuse_below": 0.4}, "refuse_below: expected at most"),
    ],
)
def test_bad_settings_are_refused_by_name(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ArgumentError, match=named):
        SourceTrust(**arguments)
