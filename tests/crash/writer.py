"""A process that writes until it is told to stop, or killed; what it prints has happened.

    python writer.py URL DURABILITY COUNT NAME

Each line on standard output is the id of a memory whose proposal and confirmation have returned,
written with one unbuffered system call. COUNT 0 means for ever.
"""

import asyncio
import os
import sys

from memsmith import ConfidenceThreshold, MemoryStore
from memsmith.connect import backend_for


async def main(url: str, durability: str, count: int, name: str) -> None:
    backend = backend_for(f"{url}?durability={durability}&busy_seconds=60")
    async with await MemoryStore.init(backend, [ConfidenceThreshold(0.5)]) as store:
        os.write(1, b"ready\n")
        n = 0
        while count == 0 or n < count:
            n += 1
            one, two = await asyncio.gather(
                store.propose({"writer": name, "n": n}, "s", 0.9),
                store.propose({"writer": name, "maybe": n}, "s", 0.1),
            )
            os.write(1, f"{one.memory_id} active\n".encode())
            await store.confirm(two.memory_id)
            os.write(1, f"{two.memory_id} active\n".encode())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]))
