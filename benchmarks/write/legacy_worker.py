"""Runs memsmith 0.1.0 in an environment of its own: JSON lines in, JSON lines out.

Started as a script, so that this folder and not the repository is on the path: `memsmith` is the
installed 0.1.0 here. Each request names a command; each answer holds the seconds measured inside.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections import Counter
from pathlib import Path
from time import perf_counter
from typing import Any

from pydantic import BaseModel

import memsmith

SESSION = "session-1"
CONFIDENCE = 0.9


class Content(BaseModel):
    attribute: str
    value: str
    note: str


class Worker:
    """Keeps one store open between requests, for the reads."""

    def __init__(self) -> None:
        self._store: Any = None
        self._ids: list[str] = []

    async def write(
        self, path: str, warm: list[Any], contents: list[Any], clients: int, batch: bool, validators: bool
    ) -> dict[str, Any]:
        """Propose everything into a fresh file; concurrent clients that fail are counted, by error."""
        store = await _open(path, validators)
        await store.propose_many([memsmith.ProposalInput(c, CONFIDENCE) for c in warm], SESSION)
        items = [memsmith.ProposalInput(c, CONFIDENCE) for c in contents]
        queue = iter(contents)
        failed: Counter[str] = Counter()

        async def client() -> None:
            for content in queue:
                try:
                    await store.propose(content, SESSION, CONFIDENCE)
                except Exception as error:  # what goes wrong under concurrency is part of the answer
                    failed[f"{type(error).__name__}: {error}"] += 1

        gc.collect()
        started = perf_counter()
        if batch:
            await store.propose_many(items, SESSION)
        else:
            await asyncio.gather(*(client() for _ in range(clients)))
        seconds = perf_counter() - started
        kept = len(await store.list(limit=10**9)) - len(warm)
        await store.close()
        return {"seconds": seconds, "failed": dict(failed), "kept": kept}

    async def open(self, path: str, contents: list[Any]) -> dict[str, Any]:
        """Fill a file and keep it open for reading."""
        self._store = await _open(path, False)
        results = await self._store.propose_many(
            [memsmith.ProposalInput(c, CONFIDENCE) for c in contents], SESSION
        )
        self._ids = [result.memory_id for result in results]
        return {}

    async def get(self, order: list[int]) -> dict[str, Any]:
        """Read memories one by one, in an order given by their places."""
        ids = [self._ids[place] for place in order]
        gc.collect()
        started = perf_counter()
        for memory_id in ids:
            await self._store.get(memory_id)
        return {"seconds": perf_counter() - started}

    async def list(self, times: int) -> dict[str, Any]:
        """Read the first page of memories again and again."""
        gc.collect()
        started = perf_counter()
        for _ in range(times):
            await self._store.list(limit=50)
        return {"seconds": perf_counter() - started}

    async def audit(self, times: int) -> dict[str, Any]:
        """Read the first page of the audit again and again."""
        gc.collect()
        started = perf_counter()
        for _ in range(times):
            await self._store.audit(limit=50)
        return {"seconds": perf_counter() - started}

    async def close(self) -> dict[str, Any]:
        """Close the file kept open."""
        await self._store.close()
        return {}


async def _open(path: str, validators: bool) -> Any:
    specs = (
        [
            memsmith.ValidatorSpec(memsmith.SchemaCheck(Content), critical=True),
            memsmith.ValidatorSpec(memsmith.ConfidenceThreshold(0.5)),
        ]
        if validators
        else None
    )
    return await memsmith.MemoryStore.init(memsmith.SQLiteBackend(path), validators=specs)


async def _serve() -> None:
    worker = Worker()
    while line := await asyncio.to_thread(sys.stdin.readline):
        request = json.loads(line)
        answer = await getattr(worker, request.pop("do"))(**request)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    if Path(memsmith.__file__).parent.parent == Path(__file__).parents[2]:
        raise SystemExit("expected memsmith 0.1.0, found the repository's own")
    asyncio.run(_serve())
