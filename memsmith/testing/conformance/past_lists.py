# ruff: noqa: D102 - a test's name says what it tests
"""Lists at a past point of both axes, while what they list goes on changing."""

from __future__ import annotations

from typing import Any

import pytest

from memsmith.protocols import ORDERS
from memsmith.store.store import MemoryStore
from memsmith.testing.clock import START, ManualClock
from memsmith.testing.conformance.base import Suite
from memsmith.testing.conformance.timing import contents, day
from memsmith.types import Memory, MemoryStatus, ProposalInput

S = MemoryStatus

WHEN = day(0.25)
"""A moment at which, of the varied memories, the superseded ones hold too."""


async def _varied(store: MemoryStore, clock: ManualClock) -> list[Memory]:
    """Store memories with many equal sort values, let a day pass, and return what held at WHEN."""
    for n in range(12):
        await store.propose(f"plain {n}", f"s{n % 3}", [0.2, 0.5, 0.1 + 0.2][n % 3], valid_from=START)
    batch = [ProposalInput(f"old {n}", 0.5, key=f"k{n}", valid_from=START) for n in range(12)]
    await store.propose_many(batch, "s1")
    clock.set(day(0.5))
    for n in range(0, 12, 2):
        await store.propose(f"new {n}", "s2", 0.5, key=f"k{n}")
    clock.set(day(1))
    return await store.as_of(valid_at=WHEN).list(limit=1000)


async def _moved_on(store: MemoryStore, clock: ManualClock, memories: list[Memory]) -> None:
    """Change some of the memories in every way, leave others alone, and add more."""
    clock.set(day(2))
    for n, memory in enumerate(memories):
        if n % 5 == 0:
            await store.retract(memory.id, "wrong")
        elif n % 5 == 1:
            await store.update_confidence(memory.id, 0.99)
        elif n % 5 == 2:
            await store.revise(memory.id, f"revised {n}", "better")
            await store.amend_validity(memory.id, day(3), None)
    await store.propose_many([ProposalInput(f"later {n}", 0.5, valid_from=START) for n in range(9)], "s1")


class PastLists(Suite):
    """What a handle on a point in both times lists, page by page and filtered."""

    @pytest.mark.parametrize("descending", [False, True])
    @pytest.mark.parametrize("order_by", ORDERS)
    async def test_pages_of_the_past_neither_skip_nor_repeat_whatever_happened_since(
        self, store: MemoryStore, clock: ManualClock, order_by: str, descending: bool
    ) -> None:
        before = await _varied(store, clock)
        assert len(before) == 24
        assert {m.status for m in before} == {S.ACTIVE, S.SUPERSEDED}
        order: dict[str, Any] = {"order_by": order_by, "descending": descending}
        expected = await store.as_of(valid_at=WHEN).list(limit=1000, **order)
        await _moved_on(store, clock, before)
        then = store.as_of(valid_at=WHEN, system_at=day(1))
        assert await then.list(limit=1000, **order) == expected
        assert sorted(m.id for m in expected) == sorted(m.id for m in before)
        seen: list[Memory] = []
        cursor: str | None = None
        while True:
            page = await then.list(limit=5, cursor=cursor, **order)
            seen += page
            # Writing between the pages moves nothing.
            await store.propose(f"between {len(seen)}", "s0", 0.5, valid_from=START)
            cursor = page.next_cursor
            if cursor is None:
                break
        assert seen == expected
        assert await then.list(limit=7, offset=6, **order) == expected[6:13]
        assert await then.count() == len(expected)

    async def test_filters_are_about_the_version_of_then(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        before = await _varied(store, clock)
        await _moved_on(store, clock, before)
        then = store.as_of(valid_at=WHEN, system_at=day(1))
        queries: list[dict[str, Any]] = [
            {"session_id": "s1"},
            {"status": "superseded"},
            {"field_filters": {"confidence": 0.5}},
            {"field_filters": {"key": "k3"}},
            {"field_filters": {"confidence": 0.99}},
        ]

        def matches(memory: Memory, query: dict[str, Any]) -> bool:
            wanted = {name: v for name, v in query.items() if name != "field_filters"}
            wanted |= query.get("field_filters", {})
            return all(getattr(memory, name) == value for name, value in wanted.items())

        for query in queries:
            assert await contents(then, **query) == {m.content for m in before if matches(m, query)}
        assert await contents(then, field_filters={"confidence": 0.99}) == set()
