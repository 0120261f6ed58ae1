"""However a list at a point is found, by a walk or by the few that can hold there, it is the same."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from types import ModuleType
from typing import Any

import pytest
from backends import fresh
from hypothesis import given, settings
from hypothesis import strategies as st

from memsmith import MemoryBackend, MemoryStore, StorageBackend
from memsmith.backends import _listing
from memsmith.backends.sqlite import statements
from memsmith.store.asof import AsOf
from memsmith.testing.clock import START, ManualClock

SECONDS = [0, 1, 9, 10, 11, 99, 100, 101, 10**5, 10**6, 10**7 + 1, 10**9, 10**10]
"""Lengths at which and about which the classes change."""

MICROSECONDS = [-1, 0, 1]

lengths = st.builds(
    lambda seconds, more: timedelta(seconds=seconds, microseconds=more),
    st.sampled_from(SECONDS),
    st.sampled_from(MICROSECONDS),
)
waits = st.sampled_from([timedelta(microseconds=1), *(timedelta(seconds=s) for s in SECONDS[1:10])])
facts = st.tuples(st.sampled_from([None, "a", "b"]), lengths, st.none() | lengths)
changes = st.tuples(
    waits, st.sampled_from(["propose", "revise", "retract", "unkey"]), facts, st.integers(0, 9)
)


async def _lived(backend: StorageBackend, clock: ManualClock, steps: Sequence[Any]) -> MemoryStore:
    store = await MemoryStore.init(backend, clock=clock)
    ids: list[str] = []
    for number, (wait, verb, (key, ago, length), which) in enumerate(steps):
        clock.advance(wait)
        start = clock() - ago
        if verb == "propose" or not ids:
            end = start + length if length is not None and length > timedelta(0) else None
            result = await store.propose(
                f"fact {number}", "s", 0.9, key=key, valid_from=start, valid_to=end, dedup=False
            )
            ids.append(result.memory_id)
            continue
        memory = await store.get(ids[which % len(ids)])
        assert memory is not None
        if memory.status.value not in {"active", "superseded"}:
            continue
        if verb == "revise":
            await store.revise(memory.id, f"other {number}")
        elif verb == "unkey":
            await store.revise(memory.id, f"unkeyed {number}", key=None)
        else:
            await store.retract(memory.id)
    return store


async def _answers(store: MemoryStore, moments: Sequence[datetime]) -> list[Any]:
    answers: list[Any] = []
    points = [(w, k) for w in moments for k in [None, *moments]]
    for valid, believed in points:
        reader = store.as_of(valid_at=valid, system_at=believed)
        for descending in (False, True):
            found = await reader.list(limit=100, descending=descending)
            assert len(found) == await reader.count()
            answers.append([memory.content for memory in found])
            answers += [await _paged(reader, descending, more) for more in ({}, {"key": "a"})]
        answers.append([m.content for m in await reader.list(limit=2, offset=1, order_by="updated_at")])
    return answers


async def _paged(reader: AsOf, descending: bool, more: dict[str, Any]) -> list[list[Any]]:
    pages: list[list[Any]] = []
    cursor: str | None = None
    while not pages or cursor is not None:
        page = await reader.list(limit=2, cursor=cursor, descending=descending, field_filters=more)
        pages.append([memory.content for memory in page])
        cursor = page.next_cursor
    assert len(list(chain(*pages))) == await reader.count(field_filters=more)
    return pages


histories = st.lists(changes, min_size=1, max_size=8)


@settings(max_examples=40)
@given(steps=histories, data=st.data())
async def test_a_walk_and_the_few_find_the_same(steps: list[Any], data: st.DataObject) -> None:
    # No page of the few suffices at once; and no effort to find them is little enough.
    await _compare("sqlite", steps, data, [(_listing, "SPARE", -1), (statements, "STEPS", 1)])


@settings(max_examples=15)
@given(steps=histories, data=st.data())
async def test_a_walk_and_the_few_find_the_same_in_postgres(steps: list[Any], data: st.DataObject) -> None:
    await _compare("postgres", steps, data, [(_listing, "SPARE", -1)])


async def _compare(
    kind: str, steps: list[Any], data: st.DataObject, ways: list[tuple[ModuleType, str, int]]
) -> None:
    clock = ManualClock()
    reference = await _lived(MemoryBackend(), clock, steps)
    turns = {
        moment + timedelta(microseconds=about)
        for version in [v for m in await reference.list(limit=100) for v in await reference.history(m.id)]
        for moment in (
            version.system_from,
            version.memory.valid_from or START,
            version.memory.valid_to or START,
        )
        for about in MICROSECONDS
    }
    far = [datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)]
    moments = data.draw(
        st.lists(st.sampled_from([*sorted(turns), *far]), min_size=1, max_size=5, unique=True)
    )
    expected = await _answers(reference, moments)
    end = clock()
    clock.set(START)
    with fresh(kind) as backend:
        store = await _lived(backend, clock, steps)
        assert clock() == end
        assert await _answers(store, moments) == expected
        for module, name, value in ways:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(module, name, value)
                assert await _answers(store, moments) == expected
        await store.close()
    await reference.close()
