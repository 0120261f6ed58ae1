"""What is drawn of a key is what reads answer: each cell of the plot is compared with `as_of`."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memsmith import MemoryStore
from memsmith.surfaces.cli.drawing import (
    MANY,
    SIGNS,
    Drawing,
    drawing_of,
    interval_label,
    labels_of,
    moment_label,
)
from memsmith.testing.clock import ManualClock
from memsmith.types import Interval

KEY = "user:ann/lives_in"
START = datetime(2025, 1, 1, tzinfo=UTC)


def day(number: float) -> datetime:
    return START + timedelta(days=number)


async def drawn(store: MemoryStore, **options: Any) -> Drawing:
    versions = await store.history(key=KEY)
    drawing = drawing_of(await store.rectangles(KEY), versions, day(40), **options)
    assert drawing is not None
    return drawing


async def expect_what_reads_answer(store: MemoryStore, drawing: Drawing) -> None:
    for row in drawing.rows:
        held = [drawing.line(row, track) for track in range(drawing.depth)]
        for at, column in enumerate(drawing.columns):
            found = await store.as_of(valid_at=column, system_at=row).list(field_filters={"key": KEY})
            assert {line[at] for line in held} - {None} == {memory.id for memory in found}, (column, row)


@pytest.mark.parametrize("seed", range(6))
async def test_every_cell_is_what_a_read_at_its_point_answers(
    store: MemoryStore, clock: ManualClock, seed: int
) -> None:
    chance = random.Random(seed)
    ids: list[str] = []

    async def propose() -> None:
        start = chance.randrange(10)
        end = None if chance.random() < 0.5 else day(start + chance.randrange(1, 6))
        dies = None if chance.random() < 0.7 else day(31 + chance.randrange(3))
        result = await store.propose(
            f"value {len(ids)}", "s", 0.9, key=KEY, valid_from=day(start), valid_to=end, expires_at=dies
        )
        ids.append(result.memory_id)

    async def change() -> None:
        ident = chance.choice(ids)
        memory = await store.get(ident)
        if memory is None or memory.status not in {"active", "superseded"} or memory.valid_from is None:
            return
        verbs: list[Callable[[], Awaitable[Any]]] = [
            lambda: store.retract(ident),
            lambda: store.quarantine(ident),
            lambda: store.amend_validity(ident, day(chance.randrange(10)), None),
            lambda: store.update_confidence(ident, min(1.0, memory.confidence + 0.01)),
        ]
        await chance.choice(verbs)()

    clock.set(day(30))
    for _ in range(14):
        await propose() if not ids or chance.random() < 0.6 else await change()
        clock.advance(timedelta(hours=4))
    drawing = await drawn(store, most=100)
    assert len(drawing.rows) > 3
    await expect_what_reads_answer(store, drawing)
    await expect_what_reads_answer(store, await drawn(store, most=100, system_at=drawing.rows[2]))
    # The last rows and columns of a long chain say the same.
    await expect_what_reads_answer(store, await drawn(store, most=3))


async def test_what_is_quarantined_by_now_is_drawn_at_no_point(
    store: MemoryStore, clock: ManualClock
) -> None:
    clock.set(day(1))
    kept = await store.propose("Lisbon", "s", 0.9, key=KEY, valid_from=day(0))
    clock.set(day(2))
    odd = await store.propose("Berlin", "s", 0.9, key=KEY, valid_from=day(1))
    clock.set(day(3))
    await store.quarantine(odd.memory_id)
    drawing = await drawn(store)
    assert list(drawing.memories) == [kept.memory_id]
    await expect_what_reads_answer(store, drawing)


async def test_more_memories_than_signs_share_the_last_one(store: MemoryStore, clock: ManualClock) -> None:
    clock.set(day(1))
    for number in range(len(SIGNS) + 2):
        await store.propose(f"value {number}", "s", 0.9, key=KEY, valid_from=day(0) + timedelta(hours=number))
    drawing = await drawn(store, most=200)
    signs = list(drawing.signs.values())
    assert signs[:3] == ["A", "B", "C"]
    assert signs[-3:] == ["9", MANY, MANY]
    assert len(set(signs)) == len(SIGNS) + 1


def test_labels_are_as_short_as_tells_moments_apart() -> None:
    assert labels_of([day(0), day(1.5)]) == ["2025-01-01", "2025-01-02"]
    assert labels_of([day(0), day(0.5)]) == ["2025-01-01 00:00Z", "2025-01-01 12:00Z"]
    assert labels_of([day(0), day(0) + timedelta(seconds=1)])[1] == "2025-01-01 00:00:01Z"
    assert labels_of([day(0), day(0) + timedelta(microseconds=1)])[1] == "2025-01-01T00:00:00.000001Z"


@pytest.mark.parametrize(
    ("after", "label"),
    [
        (timedelta(0), "2025-01-01"),
        (timedelta(hours=9, minutes=30), "2025-01-01 09:30Z"),
        (timedelta(hours=10), "2025-01-01 10:00Z"),
        (timedelta(seconds=5), "2025-01-01 00:00:05Z"),
        (timedelta(microseconds=500_000), "2025-01-01 00:00:00.500000Z"),
    ],
)
def test_a_moment_is_written_without_what_is_zero_in_it(after: timedelta, label: str) -> None:
    assert moment_label(START + after) == label
    assert interval_label(Interval(START + after, None)) == f"{label} → …"
