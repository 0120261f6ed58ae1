"""Keep an index outside (a vector store, a search engine) equal to the ACTIVE memories.

A hook is told of every transition after it committed. It is told ids and statuses, not content: it
reads the memory, so that what it writes is what is stored now. A hook lives as long as the process;
`rebuild` is for everything that happened while nobody listened.
"""

import asyncio
import random
from contextlib import chdir
from tempfile import TemporaryDirectory

from memsmith import MemoryStatus, MemoryStore

ACTIVE = MemoryStatus.ACTIVE


class Index:
    """Stands for an index over HTTP: slow, unordered, and without transactions."""

    def __init__(self) -> None:
        self.documents: dict[str, str] = {}

    async def upsert(self, ident: str, text: str) -> None:
        """Add or replace one document."""
        await asyncio.sleep(0)
        self.documents[ident] = text

    async def delete(self, ident: str) -> None:
        """Remove one document; one that is not there is fine."""
        await asyncio.sleep(0)
        self.documents.pop(ident, None)


class Sync:
    """The hook."""

    def __init__(self, store: MemoryStore, index: Index) -> None:
        self._store = store
        self._index = index

    async def __call__(self, memory_id: str, from_status: MemoryStatus, to_status: MemoryStatus) -> None:
        """Bring one document up to date."""
        memory = await self._store.get(memory_id)
        if memory is not None and memory.status is ACTIVE:
            await self._index.upsert(memory_id, memory.content["text"])
        else:
            await self._index.delete(memory_id)

    async def rebuild(self) -> None:
        """Make the index equal to the ACTIVE set, page by page."""
        stale, cursor = set(self._index.documents), None
        while True:
            page = await self._store.list(status=ACTIVE, limit=20, cursor=cursor)
            for memory in page:
                stale.discard(memory.id)
                await self._index.upsert(memory.id, memory.content["text"])
            if (cursor := page.next_cursor) is None:
                break
        for ident in stale:
            await self._index.delete(ident)


async def active_set(store: MemoryStore) -> dict[str, str]:
    return {m.id: m.content["text"] for m in await store.list(status=ACTIVE, limit=1000)}


async def busy_day(store: MemoryStore, agent: int) -> None:
    dice = random.Random(agent)
    for number in range(60):
        text = f"note {number} of agent {agent}"
        result = await store.propose({"text": text}, f"session-{number % 3}", 0.5)
        what = dice.random()
        if what < 0.2:
            await store.retract(result.memory_id, reason="outdated")
        elif what < 0.3:
            await store.reject(result.memory_id, reason="never true")
        elif what < 0.5:
            await store.revise(result.memory_id, {"text": f"{text}, mended"})
        elif what < 0.6:
            await store.quarantine(result.memory_id, reason="looks odd")
            if what < 0.55:
                await store.release(result.memory_id)


async def main() -> None:
    async with await MemoryStore.open("sqlite:///notes.db") as store:
        index = Index()
        sync = Sync(store, index)
        store.on_transition(sync)

        await asyncio.gather(*(busy_day(store, agent) for agent in range(3)))
        assert index.documents == await active_set(store)
        print(f"after a busy day: {len(index.documents)} documents, equal to the ACTIVE set")

        async with store.transaction():
            await store.propose({"text": "provisional"}, "session-9", 0.9)
            assert "provisional" not in index.documents.values()
        assert "provisional" in index.documents.values()
        print("a transaction reaches the index when it commits, and not before")

    # Another process, another day: a new index starts from a rebuild.
    async with await MemoryStore.open("sqlite:///notes.db") as store:
        fresh = Index()
        await Sync(store, fresh).rebuild()
        assert fresh.documents == index.documents == await active_set(store)
        print(f"rebuilt from nothing: {len(fresh.documents)} documents, the same")


if __name__ == "__main__":
    # In a folder of its own, so that it can be run again.
    with TemporaryDirectory() as folder, chdir(folder):
        asyncio.run(main())
