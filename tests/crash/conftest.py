"""A store file in which every verb left its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from backends import ON_DISK, Place
from postgres import databases, on_own_loop
from raw import Dump, dumped, filled

from memsmith import Accepted, ConfidenceThreshold, MemoryStore, PendingConfirmation, Rejected, StorageBackend

START = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


async def _fill(place: Place) -> None:
    now = [START]
    async with await MemoryStore.init(
        place.connect(), [ConfidenceThreshold(0.5)], clock=lambda: now[0], secret=None
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


@dataclass
class Filled:
    """All of a filled store: a file, or the rows of a database."""

    kind: str
    rows: bytes | Dump


async def _filled_on(kind: str, folder: Path) -> Filled:
    place = Place(kind, folder)
    await _fill(place)
    if kind == "postgres":
        return Filled(kind, on_own_loop(dumped(place.url)))
    return Filled(kind, place.path.read_bytes())


@pytest_asyncio.fixture(scope="session", loop_scope="session", params=ON_DISK)
async def _filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    return await _filled_on(request.param, tmp_path_factory.mktemp("filled"))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def _filled_file(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    return await _filled_on("sqlite", tmp_path_factory.mktemp("filled"))


class Copies:
    """Makes copies of a filled store; of a database the last one makes room for the next."""

    def __init__(self, filled: Filled, factory: pytest.TempPathFactory) -> None:
        self._filled = filled
        self._factory = factory
        self._last: Place | None = None

    def __call__(self) -> Place:
        if self._last is not None:
            databases.take_back(self._last.path)
        place = self._last = Place(self._filled.kind, self._factory.mktemp("copy"))
        if isinstance(self._filled.rows, bytes):
            place.path.write_bytes(self._filled.rows)
        else:
            on_own_loop(_prepared(place.connect()))
            on_own_loop(filled(place.url, self._filled.rows))
        return place


async def _prepared(backend: StorageBackend) -> None:
    await backend.initialize()
    await backend.close()


@pytest.fixture(scope="session")
def fresh_copy(_filled: Filled, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Place]:
    """Return a function that copies the filled store to a new place."""
    return Copies(_filled, tmp_path_factory)


@pytest.fixture(scope="session")
def fresh_file(_filled_file: Filled, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Place]:
    """Return the same for what only the file of SQLite can hold."""
    return Copies(_filled_file, tmp_path_factory)
