"""Several processes supersede one key at once, and it stays one line of facts.

    python test_supersede_processes.py URL COUNT NAME

is one of them: it supersedes the key COUNT times, and prints the id of each fact once it is accepted.
"""

from __future__ import annotations

import asyncio
import os
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from backends import ON_DISK, Place

from memsmith import Accepted, MemoryStatus, MemoryStore
from memsmith.connect import backend_for

KEY = "user:ann/lives_in"
PROCESSES = 4
TIMES = {"sqlite": 2000, "postgres": 500}
SECONDS = 300
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
"""In which a process finds what this one does."""

AT_ONCE = 3
"""How many facts one process proposes at the same time, so that commits are shared too."""


async def supersede(url: str, count: int, name: str) -> None:
    backend = backend_for(f"{url}?durability=normal&busy_seconds=60")
    async with await MemoryStore.init(backend) as store:
        for start in range(0, count, AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, count))
            results = await asyncio.gather(
                *(store.propose(f"{name} {n}", name, 0.9, key=KEY, actor=name) for n in numbers)
            )
            assert all(isinstance(result, Accepted) for result in results), results
            os.write(1, "".join(f"{result.memory_id}\n" for result in results).encode())


@pytest.mark.parametrize("kind", ON_DISK)
async def test_four_processes_that_supersede_one_key_leave_one_line_of_facts(
    kind: str, tmp_path: Path
) -> None:
    place, times = Place(kind, tmp_path), TIMES[kind]
    async with await MemoryStore.init(place.connect("full")) as store:
        workers = [
            await asyncio.create_subprocess_exec(
                sys.executable, __file__, place.url, str(times), f"w{number}",
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=ENVIRONMENT,
            )
            for number in range(PROCESSES)
        ]  # fmt: skip
        async with asyncio.timeout(SECONDS):
            outputs = await asyncio.gather(*(worker.communicate() for worker in workers))
        assert [error.decode() for _, error in outputs] == [""] * PROCESSES
        assert [worker.returncode for worker in workers] == [0] * PROCESSES
        printed = [ident for output, _ in outputs for ident in output.decode().split()]
        assert len(set(printed)) == PROCESSES * times

        line = await store.timeline(KEY)
        assert sorted(span.memory.id for span in line) == sorted(printed)
        assert all(span.valid_to == following.valid_from for span, following in pairwise(line))
        assert line[-1].valid_to is None
        assert [span.memory.status for span in line[:-1]] == [MemoryStatus.SUPERSEDED] * (len(line) - 1)
        assert line[-1].memory.status is MemoryStatus.ACTIVE
        assert [memory.id for memory in await store.as_of().list()] == [line[-1].memory.id]

        rectangles = await store.rectangles(KEY)
        current = sorted((r for r in rectangles if r.system_to is None), key=lambda r: r.valid_from)
        assert [r.memory_id for r in current] == [span.memory.id for span in line]
        # Each was believed open-ended until the very unit that the next one came with.
        ends = {r.memory_id: r.system_to for r in rectangles if r.system_to is not None}
        assert all(ends[span.memory.id] == following.valid_from for span, following in pairwise(line))
        assert len(rectangles) == 2 * len(line) - 1

        answer = await store.verify()
        assert answer.ok, answer
        assert answer.rows == 2 * len(line) - 1
        assert (await store.replay()).identical


if __name__ == "__main__":
    asyncio.run(supersede(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
