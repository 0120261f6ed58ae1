"""A store file in which every verb left its rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
import pytest_asyncio

from memsmith import Accepted, ConfidenceThreshold, MemoryStore, PendingConfirmation, Rejected, SQLiteBackend

START = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


async def _fill(path: Path) -> None:
    now = [START]
    backend = SQLiteBackend(path, durability="normal")
    async with await MemoryStore.init(
        backend, [ConfidenceThreshold(0.5)], clock=lambda: now[0], secret=None
    ) as store:
        ids: list[str] = []
        for n in range(16):
            result = await store.propose({"n": n}, "s", 0.8, source="chat", depends_on=ids[:1])
            assert isinstance(result, Accepted)
            ids.append(result.memory_id)
        keyed = await store.propose("Rome", "s", 0.7, key="user:ann/city", scope="user:ann", kind="fact")
        waiting = [await store.propose({"maybe": n}, "s", 0.2) for n in range(4)]
        assert all(isinstance(result, PendingConfirmation) for result in waiting)
        await store.confirm(waiting[0].memory_id, reason="seen")
        await store.reject(waiting[1].memory_id, "never true")
        blocked = await store.propose({"maybe": 1}, "t", 0.9)
        assert isinstance(blocked, Rejected)
        await store.retract(ids[1], "moved")
        await store.retract(ids[2], "moved")
        await store.revise(ids[3], {"n": "three"}, "spelling")
        await store.revise(ids[4], {"n": "four"})
        await store.update_confidence(ids[5], 0.9)
        await store.quarantine(ids[6], "odd")
        await store.quarantine(ids[7], "odd")
        await store.release(ids[7])
        await store.quarantine(keyed.memory_id)
        await store.release(keyed.memory_id, "fine")
        await store.propose({"short": 1}, "s", 0.8, ttl=timedelta(minutes=1), idempotency_key="k1")
        now[0] += timedelta(hours=1)
        assert await store.expire_batch() == 1
        (stone,) = await store.tombstones()
        await store.lift_tombstone(stone.id, "mistake")
        again = await store.propose({"maybe": 1}, "t", 0.9)
        await store.reject(again.memory_id, "no, never")
        assert (await store.verify()).ok
        assert (await store.replay()).identical


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def _filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "filled.db"
    await _fill(path)
    return path


@pytest.fixture(scope="session")
def fresh_copy(_filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Return a function that copies the filled store to a new place."""
    folder, numbers = tmp_path_factory.mktemp("copies"), count()

    def copy() -> Path:
        path = folder / f"{next(numbers)}.db"
        shutil.copyfile(_filled, path)
        return path

    return copy
