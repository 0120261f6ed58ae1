from datetime import UTC, datetime
from typing import Any

import pytest

from memsmith.errors import ArgumentError
from memsmith.types import Memory, MemoryStatus
from memsmith.validators.size import MaxSize

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def proposed(content: Any, **fields: Any) -> Memory:
    fixed: Any = {"id": "m", "session_id": "s", "content_hash": "", "created_at": NOW, "updated_at": NOW}
    return Memory(content=content, status=MemoryStatus.PROPOSED, **fixed | {"confidence": 0.9} | fields)


@pytest.mark.parametrize(("content", "size"), [("abc", 5), ("é", 4), ({"a": [1, 2]}, 11), ("\n", 4)])
def test_size_is_counted_in_bytes_of_canonical_json(content: Any, size: int) -> None:
    assert MaxSize(size).check(proposed(content)).passed
    assert not MaxSize(size - 1).check(proposed(content)).passed


def test_oversized_content_is_refused_and_not_kept() -> None:
    verdict = MaxSize(10).check(proposed("a" * 100))
    assert MaxSize.critical
    assert verdict.withhold
    assert not verdict.tombstone
    assert verdict.errors == ["content: expected at most 10 bytes of JSON, found 102 bytes"]


def test_facts_are_judged_unless_other_kinds_are_named() -> None:
    assert MaxSize(10).kinds == {"fact"}
    assert MaxSize(10, kinds=["fact", "episode"]).kinds == {"fact", "episode"}


@pytest.mark.parametrize("max_bytes", [0, -1, 1.5, "10", None, True])
def test_a_limit_that_is_no_number_of_bytes_is_refused(max_bytes: Any) -> None:
    with pytest.raises(ArgumentError, match="max_bytes"):
        MaxSize(max_bytes)


@pytest.mark.parametrize("kinds", ["fact", [], [""], [1]])
def test_kinds_that_are_not_a_collection_of_names_are_refused(kinds: Any) -> None:
    with pytest.raises(ArgumentError, match="kinds"):
        MaxSize(10, kinds=kinds)
