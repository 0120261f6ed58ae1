"""Keyset pages never skip or repeat a row, whatever is written between them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from backends import KINDS, fresh
from hypothesis import given
from hypothesis import strategies as st

from memsmith import MemoryStore, ProposalInput, StorageBackend
from memsmith.protocols import ORDERS
from memsmith.testing.clock import ManualClock

# Few distinct sort values, so that ties are the rule.
_batch = st.lists(st.tuples(st.sampled_from([0.25, 0.5]), st.sampled_from("st")), max_size=4)


@pytest.mark.parametrize("kind", KINDS)
@given(
    batches=st.lists(_batch, min_size=1, max_size=3),
    between=st.lists(_batch, max_size=4),
    order=st.sampled_from(ORDERS),
    descending=st.booleans(),
    limit=st.integers(1, 4),
)
def test_rows_that_were_there_are_shown_once(
    kind: str, batches: list[Any], between: list[Any], order: str, descending: bool, limit: int
) -> None:
    async def history(backend: StorageBackend) -> None:
        async with await MemoryStore.init(backend, clock=ManualClock()) as store:
            numbers = iter(range(1000))

            async def write(batch: list[tuple[float, str]]) -> None:
                for session in "st":
                    items = [ProposalInput(next(numbers), c) for c, s in batch if s == session]
                    await store.propose_many(items, session)

            for batch in batches:
                await write(batch)
            there = {m.id for m in await store.list(limit=1000)}
            seen: list[str] = []
            cursor: str | None = None
            more = iter(between)
            while True:
                page = await store.list(limit=limit, order_by=order, descending=descending, cursor=cursor)
                seen += [m.id for m in page]
                cursor = page.next_cursor
                if cursor is None:
                    break
                await write(next(more, []))
            assert len(seen) == len(set(seen))
            assert there <= set(seen)

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner, fresh(kind) as backend:
        runner.run(history(backend))
