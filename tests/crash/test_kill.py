"""kill -9 of a writing process at random moments: what it printed is there, and nothing half-written."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

import pytest
from backends import ON_DISK, Place

from memsmith import MemoryStatus, MemoryStore

WRITER = Path(__file__).with_name("writer.py")
ROUNDS = {"sqlite": 25, "postgres": 15}
LONGEST = {"sqlite": 0.06, "postgres": 0.25}
"""Seconds that a writer is left to write, about ten times what its first result takes."""

PATIENCE = 30.0


# A killed process leaves half a coverage file behind, so it is not measured.
UNMEASURED = {name: value for name, value in os.environ.items() if not name.startswith("COV")}


async def killed_while_writing(url: str, durability: str, name: str, after: float) -> list[str]:
    """Return the ids a writer had printed `after` seconds into its writing, when it was killed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(WRITER), url, durability, "0", name,
        stdout=asyncio.subprocess.PIPE, env=UNMEASURED,
    )  # fmt: skip
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        assert await process.stdout.readline() == b"ready\n"
        reading = asyncio.create_task(process.stdout.read())
        await asyncio.wait([reading], timeout=after)
        process.kill()
        await process.wait()
        printed = (await reading).decode()
    # A line cut off by the kill was not printed.
    return [line.split()[0] for line in printed.splitlines(keepends=True) if line.endswith("\n")]


def halves(place: Place) -> list[object]:
    """Return memories without a ledger row and ledger rows without a memory."""
    with place.raw() as connection:
        return connection.execute(
            "SELECT m.id FROM memories m LEFT JOIN audit_log a ON a.tenant = m.tenant AND a.seq = m.seq "
            "WHERE coalesce(a.memory_id, '') <> m.id OR a.to_status <> m.status "
            "UNION ALL SELECT a.memory_id FROM audit_log a LEFT JOIN memories m "
            "ON m.tenant = a.tenant AND m.id = a.memory_id WHERE m.id IS NULL"
        ).fetchall()


@pytest.mark.parametrize("durability", ["full", "normal"])
@pytest.mark.parametrize("kind", ON_DISK)
async def test_what_a_killed_writer_had_printed_is_there_and_nothing_is_half_written(
    tmp_path: Path, kind: str, durability: str
) -> None:
    place = Place(kind, tmp_path)
    moments = random.Random(durability)
    printed: list[str] = []
    total = 0
    for number in range(ROUNDS[kind]):
        ids = await killed_while_writing(
            place.url, durability, f"w{number}", moments.uniform(0.0, LONGEST[kind])
        )
        printed += ids
        async with await MemoryStore.init(place.connect()) as store:
            answer = await store.verify()
            assert answer.ok, answer
            for memory_id in ids:
                memory = await store.get(memory_id)
                assert memory is not None
                assert memory.status is MemoryStatus.ACTIVE
            if number % 5 == 4:
                assert (await store.replay()).identical
        assert halves(place) == []
        assert answer.rows >= total + len(ids)
        total = answer.rows
    assert len(printed) > ROUNDS[kind]
    with place.raw() as connection:
        assert {row[0] for row in connection.execute("SELECT id FROM memories")} >= set(printed)
        if kind == "sqlite":
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
