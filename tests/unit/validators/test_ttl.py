from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsmith.errors import ArgumentError
from memsmith.types import UNCHANGED, Memory, MemoryStatus
from memsmith.validators.ttl import TTLPolicy, TTLRule

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def proposed(content: Any, **fields: Any) -> Memory:
    fixed: Any = {"id": "m", "session_id": "s", "content_hash": "", "created_at": NOW, "updated_at": NOW}
    return Memory(content=content, status=MemoryStatus.PROPOSED, **fixed | {"confidence": 0.9} | fields)


DAY = timedelta(days=1)


def expiry(memory: Memory, *rules: TTLRule) -> Any:
    """What the memory ends up with: the policy's word, else its own."""
    verdict = TTLPolicy(rules).check(memory)
    assert verdict.passed
    return memory.expires_at if verdict.expires_at is UNCHANGED else verdict.expires_at


def test_the_lifetime_of_the_matching_rule_is_given_to_what_asks_for_none() -> None:
    assert expiry(proposed("x", source="chat"), TTLRule(ttl=DAY, source="chat")) == NOW + DAY


def test_a_lifetime_that_was_asked_for_is_kept() -> None:
    asked = NOW + 9 * DAY
    assert expiry(proposed("x", expires_at=asked), TTLRule(ttl=DAY)) == asked


def test_a_lifetime_over_the_maximum_is_capped_and_one_at_it_is_not() -> None:
    rule = TTLRule(ttl=DAY, max_ttl=3 * DAY)
    assert expiry(proposed("x", expires_at=NOW + 4 * DAY), rule) == NOW + 3 * DAY
    at_most = proposed("x", expires_at=NOW + 3 * DAY)
    assert TTLPolicy([rule]).check(at_most).expires_at is UNCHANGED


def test_a_maximum_alone_is_the_lifetime_of_what_asks_for_none() -> None:
    assert expiry(proposed("x"), TTLRule(max_ttl=DAY)) == NOW + DAY


def test_the_first_rule_that_matches_decides() -> None:
    rules = TTLRule(ttl=DAY, source="chat"), TTLRule(ttl=2 * DAY), TTLRule(ttl=3 * DAY, source="web")
    assert expiry(proposed("x", source="web"), *rules) == NOW + 2 * DAY


def test_nothing_changes_where_no_rule_matches() -> None:
    assert expiry(proposed("x"), TTLRule(ttl=DAY, source="chat")) is None
    assert expiry(proposed("x")) is None


@pytest.mark.parametrize(
    ("rule", "fields", "matches"),
    [
        (TTLRule(ttl=DAY, scope="acme"), {"scope": "acme"}, True),
        (TTLRule(ttl=DAY, scope="acme"), {"scope": "acme/team"}, True),
        (TTLRule(ttl=DAY, scope="acme"), {"scope": "acme-corp"}, False),
        (TTLRule(ttl=DAY, scope="acme/team"), {"scope": "acme"}, False),
        (TTLRule(ttl=DAY, scope=""), {"scope": "acme"}, True),
        (TTLRule(ttl=DAY, session="s"), {}, True),
        (TTLRule(ttl=DAY, session="t"), {}, False),
        (TTLRule(ttl=DAY, kind="episode"), {"kind": "episode"}, True),
        (TTLRule(ttl=DAY, kind="episode"), {}, False),
        (TTLRule(ttl=DAY, source="a", scope="b"), {"source": "a", "scope": "c"}, False),
    ],
)
def test_a_rule_matches_all_it_names(rule: TTLRule, fields: dict[str, Any], matches: bool) -> None:
    assert rule.matches(proposed("x", **fields)) is matches


def test_the_policy_judges_facts_and_the_kinds_its_rules_name_before_others() -> None:
    assert TTLPolicy([TTLRule(ttl=DAY)]).kinds == {"fact"}
    assert TTLPolicy([TTLRule(ttl=DAY, kind="episode")]).kinds == {"fact", "episode"}
    assert TTLPolicy.transforms
    assert not TTLPolicy.critical


@settings(deadline=None)
@given(
    ttl=st.timedeltas(timedelta(seconds=1), timedelta(days=400)),
    extra=st.timedeltas(timedelta(0), timedelta(days=400)),
    asked=st.none() | st.timedeltas(timedelta(seconds=1), timedelta(days=900)),
)
def test_no_lifetime_passes_the_maximum_and_judging_again_changes_nothing(
    ttl: timedelta, extra: timedelta, asked: timedelta | None
) -> None:
    rule = TTLRule(ttl=ttl, max_ttl=ttl + extra)
    memory = proposed("x", expires_at=None if asked is None else NOW + asked)
    given_to_it = expiry(memory, rule)
    assert given_to_it - NOW == (ttl if asked is None else min(asked, ttl + extra))
    assert expiry(memory.evolve({"expires_at": given_to_it}), rule) == given_to_it


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "ttl: expected a lifetime"),
        ({"ttl": timedelta(0)}, "ttl"),
        ({"ttl": -DAY}, "ttl"),
        ({"ttl": 60}, "ttl"),
        ({"ttl": timedelta.max}, "ttl: expected a timedelta"),
        ({"max_ttl": timedelta(0)}, "max_ttl"),
        ({"ttl": 2 * DAY, "max_ttl": DAY}, "ttl: expected at most max_ttl"),
        ({"ttl": DAY, "source": 1}, "source"),
        ({"ttl": DAY, "scope": "a\x00"}, "scope"),
    ],
)
def test_bad_rules_are_refused_by_name(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ArgumentError, match=named):
        TTLRule(**arguments)


def test_a_policy_of_something_else_than_rules_is_refused() -> None:
    rules: Any = [DAY]
    with pytest.raises(ArgumentError, match="rules: expected a list of TTLRule"):
        TTLPolicy(rules)
