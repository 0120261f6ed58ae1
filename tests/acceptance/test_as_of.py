"""Reads at points in time, at the edges: the end of time, transactions, clocks that stand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest
from stores_apart import SECRET, Stores, lines_of

from memsmith import MemoryStore
from memsmith.errors import ArgumentError, InvalidIntervalError
from memsmith.testing.clock import ManualClock

OpenStore = Callable[..., Awaitable[MemoryStore]]


async def test_the_last_microsecond_there_is_can_not_be_named(store: MemoryStore) -> None:
    last = datetime.max.replace(tzinfo=UTC)
    calls = [
        store.propose("Rome", "s", 0.9, valid_from=last),
        store.propose("Rome", "s", 0.9, valid_to=last),
        store.propose("Rome", "s", 0.9, expires_at=last),
    ]
    for call in calls:
        with pytest.raises(ArgumentError, match="9999"):
            await call
    for name in ("valid_at", "system_at"):
        with pytest.raises(ArgumentError, match="9999"):
            store.as_of(**{name: last})
    assert await store.audit() == []


async def test_a_portion_that_ends_before_it_begins_is_refused_under_the_name_it_was_given(
    store: MemoryStore, clock: ManualClock
) -> None:
    told = await store.propose("Rome", "s", 0.9)
    with pytest.raises(InvalidIntervalError) as caught:
        await store.retract(told.memory_id, during=(clock() + timedelta(1), clock()))
    assert caught.value.argument == "during"


async def test_a_handle_read_inside_a_transaction_that_is_undone_sees_what_stays(
    store: MemoryStore, clock: ManualClock
) -> None:
    await store.propose("Rome", "s", 0.9, key="k")
    handle = store.as_of(system_at=clock() + timedelta(days=100), valid_at=clock() + timedelta(days=50))

    async def undone() -> None:
        async with store.transaction():
            await store.propose("Oslo", "s", 0.9, key="k")
            assert [m.content for m in await handle.list()] == ["Oslo"]
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await undone()
    assert [m.content for m in await handle.list()] == ["Rome"]
    await store.propose("Bern", "s", 0.9, key="k")
    assert [m.content for m in await handle.list()] == ["Rome"]


async def test_a_standing_clock_hides_nothing_from_who_asks_what_is_believed_later(
    store: MemoryStore, clock: ManualClock
) -> None:
    for content in ("Rome", "Oslo"):
        await store.propose(content, "s", 0.9, key="k")
    later = store.as_of(system_at=clock() + timedelta(days=1))
    assert [m.content for m in await later.list()] == ["Oslo"]


async def test_the_history_of_a_handle_hides_what_is_quarantined_today(
    store: MemoryStore, clock: ManualClock
) -> None:
    told = await store.propose("Rome", "s", 0.9, key="k")
    handle = store.as_of(system_at=clock())
    assert [v.memory.content for v in await handle.history(told.memory_id)] == ["Rome"]
    await store.quarantine(told.memory_id)
    assert await handle.history(told.memory_id) == await handle.history(key="k") == []
    # The governor's own read shows all.
    assert len(await store.history(told.memory_id)) == 2


async def test_a_bracket_in_a_cardinality_pattern_is_a_bracket(open_store: OpenStore) -> None:
    store = await open_store(cardinality={"tag[1]/*": "many"})
    for content in ("Rome", "Oslo"):
        await store.propose(content, "s", 0.9, key="tag[1]/a")
    assert await store.as_of().count() == 2


async def test_one_of_many_values_that_moved_to_another_key_is_restored_with_its_past(
    open_store: OpenStore, stores: Stores
) -> None:
    source = await open_store(cardinality={"*/hobby": "many"}, secret=SECRET)
    ident = (await source.propose("chess", "s", 0.9, key="ann/hobby")).memory_id
    await source.revise(ident, "chess", key="ann/job")
    lines = await lines_of(source)
    copy = await stores("copy")
    assert (await copy.import_lines(lines, secret=SECRET)).restored
    assert await copy.rectangles("ann/hobby") == await source.rectangles("ann/hobby") != []
