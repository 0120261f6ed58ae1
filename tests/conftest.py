"""One fixture gives every backend; stores opened through `open_store` are closed at the end."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import postgres
import pytest
from backends import KINDS, Place
from hypothesis import HealthCheck, settings

from memsmith import (
    ConfidenceThreshold,
    MemoryStatus,
    MemoryStore,
    StorageBackend,
)
from memsmith.lifecycle import Action
from memsmith.state import State
from memsmith.testing.clock import ManualClock
from memsmith.types import Memory, ValidationResult
from memsmith.unit import Unit

SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
settings.register_profile("memsmith", max_examples=50, deadline=None, suppress_health_check=SLOW)
settings.register_profile("soak", max_examples=10_000, deadline=None, suppress_health_check=SLOW)

S = MemoryStatus

OpenStore = Callable[..., Awaitable[MemoryStore]]


def pytest_configure(config: pytest.Config) -> None:
    """Choose the profile: long when it was asked for by `-m soak` or MEMSMITH_SOAK."""
    soak = config.option.markexpr == "soak" or os.environ.get("MEMSMITH_SOAK")
    settings.load_profile("soak" if soak else "memsmith")
    if not hasattr(config, "workerinput"):
        postgres.begin_run()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the server of the run; workers leave that to who started them."""
    if not hasattr(config, "workerinput"):
        postgres.end_run()


@pytest.fixture(autouse=True)
def _databases_are_given_back() -> Iterator[None]:
    yield
    postgres.databases.give_back()
    postgres.system_databases.give_back()


@pytest.fixture(params=KINDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return each backend in turn."""
    return Place(request.param, tmp_path)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class Opened:
    """Opens stores over one place and remembers their handles."""

    def __init__(self, place: Place, clock: ManualClock) -> None:
        self._place = place
        self._clock = clock
        self.handles: dict[int, StorageBackend] = {}
        self.stores: list[MemoryStore] = []

    async def __call__(self, validators: Any = (), **options: Any) -> MemoryStore:
        handle = self._place.connect()
        store = await MemoryStore.init(handle, list(validators), clock=self._clock, **options)
        self.handles[id(store)] = handle
        self.stores.append(store)
        return store


@pytest.fixture
async def open_store(backend: Place, clock: ManualClock) -> AsyncIterator[Opened]:
    """Return what opens a store on the backend under test: `await open_store(validators, **options)`."""
    opened = Opened(backend, clock)
    yield opened
    for store in opened.stores:
        await store.close()


async def refuse_the_word_wrong(memory: Memory) -> ValidationResult:
    return ValidationResult(passed="wrong" not in str(memory.content), errors=["it is wrong"], critical=True)


async def hold_the_word_unsure(memory: Memory) -> ValidationResult:
    return ValidationResult(passed="unsure" not in str(memory.content), errors=["it is unsure"])


@pytest.fixture
async def store(open_store: Opened) -> MemoryStore:
    """Return a store that holds confidence below 0.5 and the word "unsure", and refuses "wrong"."""
    return await open_store([ConfidenceThreshold(0.5), refuse_the_word_wrong, hold_the_word_unsure])


@pytest.fixture
def memory_in(open_store: Opened, clock: ManualClock) -> Callable[..., Awaitable[Memory]]:
    """Return what puts a memory into a status of `store`: `await memory_in(store, status, content)`."""
    forced = {S.SUPERSEDED: Action.SUPERSEDE, S.ERASED: Action.ERASE}

    async def make(store: MemoryStore, status: MemoryStatus, content: Any = "Rome", **more: Any) -> Memory:
        said = {S.REJECTED: f"wrong {content}", S.PENDING_CONFIRMATION: f"unsure {content}"}
        ttl = timedelta(minutes=1) if status is S.EXPIRED else None
        ident = (await store.propose(said.get(status, content), "s", 0.8, ttl=ttl, **more)).memory_id
        if status is S.RETRACTED:
            await store.retract(ident)
        elif status is S.QUARANTINED:
            await store.quarantine(ident)
        elif status is S.EXPIRED:
            # A standing clock lets times run ahead of it by microseconds.
            clock.advance(timedelta(minutes=1, seconds=1))
            await store.expire_batch()
        elif status in forced:

            def force(state: State) -> Memory:
                return state.change(state.memory(ident), forced[status], {"status": status}, actor="test")

            await open_store.handles[id(store)].commit("default", [Unit(force)], clock)
        memory = await store.get(ident)
        assert memory is not None
        assert memory.status is status
        return memory

    return make


@pytest.fixture
def rows_of() -> Callable[[MemoryStore], Awaitable[Any]]:
    """Return what reads all that a store holds, for comparing before and after."""

    async def read(store: MemoryStore) -> Any:
        return (
            await store.list(kind=None, limit=10_000),
            await store.audit(limit=10_000),
            await store.tombstones(lifted=True, limit=10_000),
        )

    return read
