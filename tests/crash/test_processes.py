"""Several processes on one file, with readers beside them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from backends import ON_DISK, Place

from memsmith import MemoryStatus, MemoryStore, ProposalInput
from memsmith.errors import DamagedRecordError, LedgerError

WRITER = Path(__file__).with_name("writer.py")
PROCESSES = 4
WRITES = 25  # each is two proposals and a confirmation
PATIENCE = 60.0


@pytest.fixture(params=ON_DISK)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return where a store lies that processes share."""
    return Place(request.param, tmp_path)


async def test_four_processes_write_one_store_while_it_is_read_and_everything_is_there(place: Place) -> None:
    async with await MemoryStore.init(place.connect("full")) as store, asyncio.timeout(PATIENCE):
        writers = [
            await asyncio.create_subprocess_exec(
                sys.executable, str(WRITER), place.url, "normal", str(WRITES), f"w{number}",
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


async def test_a_writer_killed_in_the_middle_keeps_nobody_out(place: Place) -> None:
    async with await MemoryStore.init(place.connect("full", busy_seconds=20)) as store:
        # A killed process leaves half a coverage file behind, so it is not measured.
        unmeasured = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
        writer = await asyncio.create_subprocess_exec(
            sys.executable, str(WRITER), place.url, "full", "0", "w",
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


async def test_opening_reading_and_closing_wait_for_no_writer(place: Place) -> None:
    async with await MemoryStore.init(place.connect("full")) as writer:
        kept = await writer.propose("kept", "s", 0.9)
        async with writer.transaction(timeout=30), asyncio.timeout(10):
            await writer.propose("not yet", "s", 0.9)
            async with await MemoryStore.init(place.connect("full", busy_seconds=20)) as reader:
                assert [memory.id for memory in await reader.list()] == [kept.memory_id]
        assert len(await writer.list()) == 2


async def test_a_replay_beside_writers_finds_no_difference(place: Place) -> None:
    async with (
        await MemoryStore.init(place.connect()) as store,
        await MemoryStore.init(place.connect()) as other,
    ):
        await store.propose_many([ProposalInput({"n": n}, 0.9) for n in range(2000)], "s")
        done = asyncio.Event()

        async def write() -> None:
            number = 0
            while not done.is_set():
                memory = await other.propose({"w": number}, "w", 0.9)
                await other.revise(memory.memory_id, {"w": -1 - number})
                number += 1

        writing = asyncio.create_task(write())
        reports = [await store.replay() for _ in range(3)]
        done.set()
        await writing
        assert [report.differences for report in reports] == [{}, {}, {}]
        assert reports[0].memories < reports[2].memories


NO_TIME = {"sqlite": "'x'", "postgres": "'infinity'"}
"""What a column of times can hold and no moment is."""


async def test_a_row_changed_into_what_no_memory_can_hold_raises_a_typed_error(place: Place) -> None:
    async with await MemoryStore.init(place.connect("full")) as store:
        memory = await store.propose("fine", "s", 0.9)
        with place.raw() as connection:
            connection.execute(f"UPDATE memories SET updated_at = {NO_TIME[place.name]}")
        with pytest.raises(DamagedRecordError, match=memory.memory_id):
            await store.get(memory.memory_id)
        with pytest.raises(DamagedRecordError):
            await store.list()


@pytest.mark.parametrize(
    ("change", "read"),
    [
        ("UPDATE tombstones SET created_at = {no_time}", lambda store: store.tombstones()),
        ("UPDATE memory_segments SET valid_from = {no_time}", lambda store: store.replay()),
        ("UPDATE outcomes SET codes = 'x'", lambda store: store.outcome("k")),
    ],
    ids=["tombstone", "segment", "outcome"],
)
async def test_what_lies_beside_a_memory_raises_a_typed_error_too(
    place: Place, change: str, read: Callable[[MemoryStore], Awaitable[object]]
) -> None:
    async with await MemoryStore.init(place.connect("full")) as store:
        await store.reject((await store.propose("gone", "s", 0.9)).memory_id)
        await store.propose("fine", "s", 0.9, key="k", idempotency_key="k")
        with place.tampered() as connection:
            connection.execute(change.format(no_time=NO_TIME[place.name]))
        with pytest.raises(DamagedRecordError):
            await read(store)


async def test_a_ledger_row_nobody_can_read_raises_a_typed_error(place: Place) -> None:
    async with await MemoryStore.init(place.connect("full")) as store:
        await store.propose("fine", "s", 0.9)
        with place.tampered() as connection:
            connection.execute("UPDATE audit_log SET time = 'x'")
        with pytest.raises(LedgerError, match="row 1"):
            await store.audit()
