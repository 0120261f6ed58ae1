"""Stores side by side, and one that holds all there is to lose on the way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from stores_apart import Stores

from memsmith import MemoryStatus, MemoryStore
from memsmith.testing.clock import ManualClock
from memsmith.types import Memory

S = MemoryStatus
MemoryIn = Callable[..., Awaitable[Memory]]


@pytest.fixture
async def stores(backend: Any, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Stores]:
    opened = Stores(backend.name, tmp_path, clock)
    yield opened
    await opened.close()


@pytest.fixture
async def source(store: MemoryStore, memory_in: MemoryIn, clock: ManualClock) -> MemoryStore:
    """Return a store with every status, both kinds of tombstone, and content that is easy to lose."""
    for status in S:
        if status is not S.PROPOSED:
            await memory_in(store, status, f"a thing that is {status.value}", metadata={"n": [1, None, 0.1]})
    odd = {
        "float": 1.0,
        "tiny": 5e-324,
        "big": 2**64 - 1,
        "ü": ["\u2028", "😀", "\\", None],
        "a": {"b": -0.0},
    }
    first = await store.propose(odd, "s", 2 / 3, source="web", thread_id="t", scope="user:ann", key="odd")
    clock.advance(timedelta(seconds=1))
    await store.propose(
        "depends", "s", 0.9, depends_on=[first.memory_id], sensitivity="restricted", origin="tool",
        valid_from=clock(), valid_to=clock() + timedelta(days=1), ttl=timedelta(days=2), kind="episode",
        actor="agent-7",
    )  # fmt: skip
    for value in ("a lie", "an error"):
        await store.reject((await store.propose(value, "s", 0.9)).memory_id, reason="never true")
    await store.propose("a lie", "s2", 0.9)
    await store.lift_tombstone((await store.tombstones())[-1].id, "a mistake")
    await store.update_confidence(first.memory_id, 0.7)
    return store


@pytest.fixture
async def source_secret(source: MemoryStore, open_store: Any) -> bytes:
    (secret,) = (await open_store.handles[id(source)].secrets()).values()
    return bytes(secret)
