"""The server stops at once at random moments: what was acknowledged is there, and nothing by halves."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres import Cluster, private_folder

from memsmith import MemoryStatus, MemoryStore, PostgresBackend

WRITER = Path(__file__).with_name("writer.py")
WRITERS = 2
ROUNDS, ROUNDS_IN_A_SOAK = 8, 100
PATIENCE = 60.0

UNMEASURED = {name: value for name, value in os.environ.items() if not name.startswith("COV")}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    # On the disk at once, and the server's own habit of writing what nobody waits for as late as can be.
    cluster = Cluster(private_folder() / "cluster", {"fsync": "on", "wal_writer_delay": "10s"})
    cluster.create()
    yield cluster
    cluster.stop(how=signal.SIGQUIT)


async def printed_until_the_crash(cluster: Cluster, url: str, after: float, names: list[str]) -> list[str]:
    """Return the ids that writers had printed when the server stopped, `after` seconds into their writing."""
    writers = [
        await asyncio.create_subprocess_exec(
            sys.executable, str(WRITER), url, "full", "0", name,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, env=UNMEASURED,
        )
        for name in names
    ]  # fmt: skip
    async with asyncio.timeout(PATIENCE):
        outputs = [writer.stdout for writer in writers]
        for output in outputs:
            assert output is not None
            assert await output.readline() == b"ready\n"
        reading = [asyncio.create_task(output.read()) for output in outputs if output is not None]
        await asyncio.sleep(after)
        await asyncio.to_thread(cluster.stop, how=signal.SIGQUIT)
        for writer in writers:
            writer.kill()
            await writer.wait()
        text = b"".join(await asyncio.gather(*reading)).decode()
    return [line.split()[0] for line in text.splitlines(keepends=True) if line.endswith("\n")]


@pytest.mark.soak
async def test_what_was_acknowledged_outlives_a_server_that_stops_at_once(
    cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    soak = request.config.option.markexpr == "soak" or os.environ.get("MEMSMITH_SOAK")
    moments = random.Random(7)
    url = await asyncio.to_thread(cluster.start)
    port = int(url.rpartition(":")[2].partition("/")[0])
    total, printed = 0, 0
    for number in range(ROUNDS_IN_A_SOAK if soak else ROUNDS):
        names = [f"w{number}.{writer}" for writer in range(WRITERS)]
        ids = await printed_until_the_crash(cluster, url, moments.uniform(0.05, 0.4), names)
        await asyncio.to_thread(cluster.start, port)
        async with await MemoryStore.init(PostgresBackend(url)) as store:
            answer = await store.verify()
            assert answer.ok, answer
            assert (await store.replay()).identical
            for memory_id in ids:
                memory = await store.get(memory_id)
                assert memory is not None
                assert memory.status is MemoryStatus.ACTIVE
        assert answer.rows >= total + len(ids)
        total, printed = answer.rows, printed + len(ids)
    assert printed > ROUNDS
