# ruff: noqa: D102 - a test's name says what it tests
"""Durability: what a backend that persists still has when it is opened again."""

from __future__ import annotations

import contextlib
from pathlib import Path

from memsmith.store.store import MemoryStore
from memsmith.testing.clock import ManualClock
from memsmith.testing.conformance.base import TENANT, Suite, a_memory, committed, everything, joining
from memsmith.types import Accepted, Rejected


class Reopening(Suite):
    """Collected for persistent backends only."""

    async def test_everything_is_there_when_the_backend_is_opened_again(self, tmp_path: Path) -> None:
        backend = await self.made(tmp_path)
        await backend.initialize()
        await committed(backend, *(joining(a_memory(n, key=[None, "k"][n % 2])) for n in range(5)))
        await backend.add_secret("name", b"secret")
        before = await everything(backend)
        await backend.close()
        again = await self.made(tmp_path)
        await again.initialize()
        assert await everything(again) == before
        assert await again.secrets() == {"name": b"secret"}
        await again.close()

    async def test_a_store_goes_on_where_it_stopped(self, tmp_path: Path, clock: ManualClock) -> None:
        async with await MemoryStore.init(await self.made(tmp_path), clock=clock, tenant=TENANT) as store:
            kept = await store.propose("Rome", "s", 0.9, idempotency_key="k", key="city")
            wrong = await store.propose("Paris", "s", 0.9)
            await store.reject(wrong.memory_id, "never true")
        async with await MemoryStore.init(await self.made(tmp_path), clock=clock, tenant=TENANT) as store:
            assert await store.propose("Rome", "s", 0.9, idempotency_key="k", key="city") == kept
            blocked = await store.propose(" PARIS ", "t", 0.9)
            assert isinstance(blocked, Rejected)
            assert blocked.code == "tombstoned"
            again = await store.propose("Oslo", "s", 0.9)
            assert isinstance(again, Accepted)
            assert again.memory.seq == 5
            assert (await store.verify()).ok
            assert (await store.replay()).identical

    async def test_what_was_not_committed_is_not_there(self, tmp_path: Path, clock: ManualClock) -> None:
        async with await MemoryStore.init(await self.made(tmp_path), clock=clock, tenant=TENANT) as store:
            await store.propose("kept", "s", 0.9)
            with contextlib.suppress(LookupError):
                async with store.transaction():
                    await store.propose("undone", "s", 0.9)
                    raise LookupError
        async with await MemoryStore.init(await self.made(tmp_path), clock=clock, tenant=TENANT) as store:
            assert [m.content for m in await store.list()] == ["kept"]
            assert (await store.verify()).rows == 1
