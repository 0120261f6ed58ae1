"""Several stores side by side on the backend under test, for what moves from one to another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from backends import Place

from memsmith import MemoryBackend, MemoryStore, StorageBackend
from memsmith.testing.clock import ManualClock

Lines = list[bytes]

SECRET = "5ec2e7" * 8
OTHER_SECRET = "07e2" * 8


async def lines_of(store: MemoryStore) -> Lines:
    return [line async for line in store.export()]


class Stores:
    """Opens stores over named places of the backend under test."""

    def __init__(self, kind: str, folder: Path, clock: ManualClock) -> None:
        self._kind = kind
        self._folder = folder
        self._clock = clock
        self._memories: dict[str, MemoryBackend] = {}
        self._opened: list[MemoryStore] = []
        self.handles: dict[int, StorageBackend] = {}

    def place(self, name: str) -> Place:
        folder = self._folder / f"store {name}"
        folder.mkdir(exist_ok=True)
        return Place(self._kind, folder)

    def connect(self, name: str) -> StorageBackend:
        if self._kind == "memory":
            return self._memories.setdefault(name, MemoryBackend())
        return self.place(name).connect()

    async def __call__(self, name: str, *validators: Any, **options: Any) -> MemoryStore:
        handle = self.connect(name)
        store = await MemoryStore.init(handle, list(validators), clock=self._clock, **options)
        self.handles[id(store)] = handle
        self._opened.append(store)
        return store

    async def secret_of(self, name: str) -> bytes:
        handle = self.connect(name)
        await handle.initialize()
        try:
            (secret,) = (await handle.secrets()).values()
        finally:
            if self._kind != "memory":
                await handle.close()
        return secret

    async def close(self) -> None:
        for store in self._opened:
            await store.close()
