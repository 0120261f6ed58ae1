"""What all parts of the suite stand on: the backend under test, a clock, memories and units."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import pytest
import pytest_asyncio

from memsmith._canonical import canonical, sha256_hex
from memsmith._ids import new_id
from memsmith.lifecycle import Action
from memsmith.protocols import Reads, StorageBackend
from memsmith.state import State
from memsmith.store.replaying import every_memory, every_tombstone
from memsmith.store.store import MemoryStore
from memsmith.store.supersede import settle
from memsmith.testing.clock import START, ManualClock
from memsmith.types import Memory, MemoryStatus, Tombstone
from memsmith.unit import Settled, Unit

T = TypeVar("T")
TENANT = "acme"


@pytest.mark.asyncio
class Suite:
    """Fixtures, and what a backend says of itself."""

    persistent: ClassVar[bool] = False
    """Whether a second `make_backend` with the same folder finds what the first one left."""

    dirty_reads: ClassVar[bool] = False
    """Whether reads outside an open transaction see its writes, as with one shared connection."""

    def make_backend(self, tmp_path: Path) -> StorageBackend | Awaitable[StorageBackend]:
        """Return a backend that is not initialized; may be a coroutine function."""
        raise NotImplementedError(f"{type(self).__name__} must define make_backend(self, tmp_path)")

    async def made(self, tmp_path: Path) -> StorageBackend:
        """Return what `make_backend` makes, awaited where need be."""
        backend = self.make_backend(tmp_path)
        return await backend if inspect.isawaitable(backend) else backend

    @pytest.fixture
    def clock(self) -> ManualClock:
        """Return the clock that `store` runs on."""
        return ManualClock()

    @pytest_asyncio.fixture
    async def storage(self, tmp_path: Path) -> AsyncIterator[StorageBackend]:
        """Return a backend that whoever asks for it initializes."""
        backend = await self.made(tmp_path)
        yield backend
        await backend.close()

    @pytest_asyncio.fixture
    async def backend(self, storage: StorageBackend) -> StorageBackend:
        """Return an initialized backend."""
        await storage.initialize()
        return storage

    @pytest_asyncio.fixture
    async def store(self, storage: StorageBackend, clock: ManualClock) -> AsyncIterator[MemoryStore]:
        """Return a store over the backend."""
        async with await MemoryStore.init(storage, clock=clock, tenant=TENANT) as store:
            yield store


def a_memory(content: Any = "Rome", **fields: Any) -> Memory:
    """Return a memory as a proposal brings it, before anything is decided."""
    text = canonical(content)
    given: dict[str, Any] = {
        "id": new_id(),
        "content": content,
        "session_id": "s",
        "confidence": 0.5,
        "content_hash": sha256_hex(text),
        "status": MemoryStatus.PROPOSED,
        "created_at": START,
        "updated_at": START,
        "tenant": TENANT,
        "valid_from": START,
        "value_digest": sha256_hex(text),
    }
    return Memory(**(given | fields))


def a_stone(memory: Memory, **fields: Any) -> Tombstone:
    """Return a tombstone for a memory's value."""
    given: dict[str, Any] = {
        "id": new_id(),
        "memory_id": memory.id,
        "kind": memory.kind,
        "scope": memory.scope,
        "key": memory.key,
        "digest": memory.value_digest,
        "secret_id": "secret",
        "reason": None,
        "actor": "owner",
        "created_at": START,
        "tenant": TENANT,
    }
    return Tombstone(**(given | fields))


_ENTRANCE = {
    MemoryStatus.ACTIVE: Action.ACCEPT,
    MemoryStatus.PENDING_CONFIRMATION: Action.HOLD,
    MemoryStatus.REJECTED: Action.REFUSE,
}


def enter(state: State, memory: Memory, status: MemoryStatus = MemoryStatus.ACTIVE) -> Memory:
    """Insert a memory with a status, inside a unit."""
    return state.insert(memory, {"status": status}, _ENTRANCE[status], {})


def adding(*memories: Memory, status: MemoryStatus = MemoryStatus.ACTIVE) -> Unit[list[Memory]]:
    """Return a unit that inserts memories."""
    return Unit(lambda state: [enter(state, memory, status) for memory in memories])


def joining(*memories: Memory, status: MemoryStatus = MemoryStatus.ACTIVE) -> Unit[list[Memory]]:
    """Return a unit that inserts memories which take their places in their chains."""
    return Unit(lambda state: [settle(state, None, enter(state, m, status), "owner") for m in memories])


def leaving(memory_id: str, action: Action, status: MemoryStatus) -> Unit[Memory]:
    """Return a unit that takes a memory out of its chain."""

    def leave(state: State) -> Memory:
        before = state.memory(memory_id)
        return settle(state, before, state.change(before, action, {"status": status}, actor="owner"), "owner")

    return Unit(leave)


def changing(memory_id: str, action: Action, **changes: Any) -> Unit[Memory]:
    """Return a unit that takes a memory through an action."""
    return Unit(lambda state: state.change(state.memory(memory_id), action, dict(changes), actor="owner"))


async def committed(backend: StorageBackend, *units: Unit[Any], clock: Any = None) -> Sequence[Settled[Any]]:
    """Commit units as one group."""
    return await backend.commit(TENANT, units, clock or ManualClock())


async def decided(backend: StorageBackend, decide: Callable[[State], T]) -> T:
    """Commit one decision that wants nothing beforehand, and return its result or raise its error."""
    (settled,) = await committed(backend, Unit(decide))
    if settled.error is not None:
        raise settled.error
    return cast(T, settled.result)


async def stored(backend: StorageBackend, *memories: Memory) -> list[Memory]:
    """Insert ACTIVE memories, one unit each, and return them as stored."""
    await committed(backend, *(adding(memory) for memory in memories))
    found = [await backend.get(TENANT, memory.id) for memory in memories]
    return [memory for memory in found if memory is not None]


async def everything(backend: Reads) -> tuple[Any, ...]:
    """Return all a tenant has, for comparing before and after."""
    memories = [memory async for page in every_memory(backend, TENANT) for memory in page]
    ids = [memory.id for memory in memories]
    return (
        memories,
        await backend.ledger(TENANT, 0, 10_000),
        [stone async for stone in every_tombstone(backend, TENANT)],
        await backend.head(TENANT),
        await backend.versions(TENANT, ids),
        await backend.segments(TENANT, ids),
    )
