"""Several processes on one file, with readers beside them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from memsmith import MemoryStatus, MemoryStore, SQLiteBackend

WRITER = Path(__file__).with_name("writer.py")
PROCESSES = 4
WRITES = 25  # each is two proposals and a confirmation
PATIENCE = 60.0


async def test_four_processes_write_one_file_while_it_is_read_and_everything_is_there(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    async with await MemoryStore.init(SQLiteBackend(path)) as store, asyncio.timeout(PATIENCE):
        writers = [
            await asyncio.create_subprocess_exec(
                sys.executable, str(WRITER), str(path), "normal", str(WRITES), f"w{number}",
                stdout=asyncio.subprocess.PIPE,
            )
            for number in range(PROCESSES)
        ]  # fmt: skip
        outputs = [asyncio.create_task(writer.communicate()) for writer in writers]
        reads = 0
        while not all(output.done() for output in outputs):
            answer = await store.verify()
            assert answer.ok, answer
            assert len(await store.list(limit=20)) <= 20
            reads += 1
        assert [writer.returncode for writer in writers] == [0] * PROCESSES
        printed = [
            line.split()[0] for output in outputs for line in output.result()[0].decode().splitlines()[1:]
        ]
        answer = await store.verify()
        assert answer.ok, answer
        assert answer.rows == PROCESSES * WRITES * 3
        assert (await store.replay()).identical
        stored = await store.list(MemoryStatus.ACTIVE, limit=1000)
        assert sorted(memory.id for memory in stored) == sorted(printed)
        assert len(set(printed)) == PROCESSES * WRITES * 2
        assert reads > 1


async def test_a_writer_killed_in_the_middle_keeps_nobody_out(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    async with await MemoryStore.init(SQLiteBackend(path, busy_seconds=20)) as store:
        # A killed process leaves half a coverage file behind, so it is not measured.
        unmeasured = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
        writer = await asyncio.create_subprocess_exec(
            sys.executable, str(WRITER), str(path), "full", "0", "w",
            stdout=asyncio.subprocess.PIPE, env=unmeasured,
        )  # fmt: skip
        assert writer.stdout is not None
        async with asyncio.timeout(PATIENCE):
            for _ in range(3):
                await writer.stdout.readline()
            os.kill(writer.pid, signal.SIGKILL)
            await writer.communicate()
            await store.propose("after", "s", 0.9)
        assert (await store.verify()).ok
        assert (await store.replay()).identical
