"""Lists, pages, filters and the other reads of the bare store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from memsmith import Memory, MemoryStatus, MemoryStore, ProposalInput
from memsmith.errors import QueryError
from memsmith.testing.clock import START, ManualClock

S = MemoryStatus
OpenStore = Callable[..., Awaitable[MemoryStore]]


async def _walk(
    store: MemoryStore, between: Callable[[], Awaitable[object]] | None = None, **query: Any
) -> list[Memory]:
    """Read every page of a list, doing something between pages."""
    seen: list[Memory] = []
    cursor: str | None = None
    for _ in range(200):
        page = await store.list(cursor=cursor, **query)
        seen += page
        cursor = page.next_cursor
        if cursor is None:
            return seen
        if between is not None:
            await between()
    raise AssertionError("the pages do not end")


async def test_a_list_shows_every_status_and_facts_only_unless_asked(
    store: MemoryStore, memory_in: Callable[..., Awaitable[Memory]]
) -> None:
    stored = [s for s in S if s is not S.PROPOSED]
    made = {s: await memory_in(store, s, f"content {n}") for n, s in enumerate(stored)}
    note = await store.propose("note", "s", 0.9, kind="note")
    assert {m.id for m in await store.list()} == {m.id for m in made.values()}
    assert {m.id for m in await store.list(kind=None)} == {note.memory_id, *(m.id for m in made.values())}
    for status, memory in made.items():
        assert [m.id for m in await store.list(status)] == [memory.id]
        assert [m.id for m in await store.list(status.value)] == [memory.id]
        assert [m.id for m in await store.list(field_filters={"status": status})] == [memory.id]


async def test_the_old_columns_and_content_paths_filter(store: MemoryStore) -> None:
    wanted = await store.propose(
        {"user": {"city": "Rome", "age": 30, "vip": True, "pet": None}},
        "s",
        0.75,
        "t",
        "web",
        key="k",
        actor="ann",
    )
    memory = wanted.memory
    await store.propose({"user": {"city": "rome", "age": "30", "vip": 1}}, "t", 0.5)
    for filters in (
        {"id": memory.id}, {"session_id": "s"}, {"thread_id": "t"}, {"source": "web"}, {"confidence": 0.75},
        {"content_hash": memory.content_hash}, {"key": "k"}, {"actor": "ann"},
        {"created_at": memory.created_at},
        {"created_at": memory.created_at.isoformat()}, {"content.user.city": "Rome"},
        {"content.user.age": 30},
        {"content.user.age": 30.0}, {"content.user.vip": True}, {"content.user.pet": None},
        {"session_id": "s", "content.user.age": 30},
    ):  # fmt: skip
        filtered: dict[str, Any] = dict(filters)
        found = await store.list(field_filters=filtered)
        assert [m.id for m in found] == [memory.id], filters
    assert await store.list(field_filters={"session_id": "t", "content.user.age": 30}) == []
    assert await store.list(field_filters={"content.user.nothing": None}) == []
    assert len(await store.list(field_filters={"retracted_at": None})) == 2


async def test_filter_values_are_literal(store: MemoryStore) -> None:
    await store.propose("a", "%", 0.9, source="a_c", scope="%")
    await store.propose("b", "abc", 0.9, source="abc", scope="abc")
    assert [m.content for m in await store.list(session_id="%")] == ["a"]
    assert [m.content for m in await store.list(field_filters={"source": "a_c"})] == ["a"]
    assert [m.content for m in await store.list(field_filters={"scope": "%"})] == ["a"]
    assert await store.list(field_filters={"source": "' OR 1=1 --"}) == []


async def test_fifteen_rows_of_one_time_come_once_each_in_pages_of_ten(store: MemoryStore) -> None:
    await store.propose_many([ProposalInput(n, 0.9) for n in range(15)], "s")
    assert len({m.created_at for m in await store.list()}) == 1
    first = await store.list(limit=10)
    second = await store.list(limit=10, cursor=first.next_cursor)
    assert [m.content for m in (*first, *second)] == list(range(15))
    assert second.next_cursor is None


@pytest.mark.parametrize("order", ["created_at", "updated_at", "confidence", "status", "session_id"])
@pytest.mark.parametrize("descending", [False, True])
async def test_pages_neither_skip_nor_repeat_while_rows_are_written_between_them(
    store: MemoryStore, order: str, descending: bool
) -> None:
    await store.propose_many([ProposalInput(n, [0.3, 0.5, 0.9][n % 3]) for n in range(14)], "s")
    await store.propose_many([ProposalInput(-n, 0.5) for n in range(1, 8)], "t")
    there = {m.id for m in await store.list()}
    new = iter(range(1000, 2000))

    async def write() -> None:
        for confidence in (0.1, 0.5, 1.0):
            await store.propose(next(new), "s", confidence)

    seen = await _walk(store, write, limit=4, order_by=order, descending=descending)
    ids = [m.id for m in seen]
    assert len(ids) == len(set(ids))
    assert there <= set(ids)
    values = [getattr(m, order) for m in seen]
    assert values == sorted(values, reverse=descending)


async def test_pages_of_a_filtered_list_are_full_however_rare_the_match(store: MemoryStore) -> None:
    await store.propose_many([ProposalInput({"type": "A", "n": n}, 0.9) for n in range(50)], "s")
    rare = await store.propose({"type": "B"}, "s", 0.9)
    found = await store.list(field_filters={"content.type": "B"}, limit=10)
    assert [m.id for m in found] == [rare.memory_id]
    assert len(await _walk(store, limit=7, field_filters={"content.type": "A"})) == 50


async def test_limit_and_offset_work_beside_cursors(store: MemoryStore) -> None:
    await store.propose_many([ProposalInput(n, 0.9) for n in range(9)], "s")
    assert [m.content for m in await store.list(limit=3, offset=2)] == [2, 3, 4]
    assert [m.content for m in await store.list(limit=2, descending=True)] == [8, 7]
    empty = await store.list(limit=0)
    assert (empty, empty.next_cursor) == ([], None)


async def test_an_unknown_filter_is_refused_never_dropped(store: MemoryStore) -> None:
    await store.propose("Rome", "s", 0.9)
    for name in ("colour", "contentx", "tenant", "seq", "metadata"):
        with pytest.raises(QueryError, match=name):
            await store.list(field_filters={name: "x"})


async def test_audit_is_newest_first_for_all_or_for_one_and_pages_by_seq(store: MemoryStore) -> None:
    ids = [(await store.propose(n, "s", 0.5)).memory_id for n in range(3)]
    await store.update_confidence(ids[0], 0.75)
    await store.retract(ids[0], "moved", actor="ann")
    entries = await store.audit()
    assert [e.seq for e in entries] == [5, 4, 3, 2, 1]
    assert [e.seq for e in await store.audit(ids[0])] == [5, 4, 1]
    assert [e.seq for e in await store.audit(limit=2, before=4)] == [3, 2]
    assert (entries[0].actor, entries[0].metadata) == ("ann", {"reason": "moved"})
    assert entries[1].metadata == {"old_value": 0.5, "new_value": 0.75}
    assert [e.prev_hash for e in entries[:-1]] == [e.hash for e in entries[1:]]


async def test_tombstones_come_oldest_first_in_pages(store: MemoryStore) -> None:
    for n in range(5):
        await store.reject((await store.propose(n, "s", 0.9)).memory_id, f"reason {n}")
    first = await store.tombstones(limit=2)
    second = await store.tombstones(limit=2, cursor=first.next_cursor)
    third = await store.tombstones(limit=2, cursor=second.next_cursor)
    assert [t.reason for t in (*first, *second, *third)] == [f"reason {n}" for n in range(5)]
    assert third.next_cursor is None


async def test_tenants_of_one_place_see_nothing_of_each_other(open_store: OpenStore) -> None:
    one, two = await open_store(tenant="one"), await open_store(tenant="two")
    memory = await one.propose("Rome", "s", 0.9)
    await one.reject((await one.propose("wrong", "s", 0.9)).memory_id)
    assert await two.get(memory.memory_id) is None
    assert (await two.list(), await two.audit(), await two.tombstones()) == ([], [], [])
    assert (await two.verify()).rows == 0


async def test_times_come_back_in_utc_to_the_microsecond(store: MemoryStore, clock: ManualClock) -> None:
    clock.set(START + timedelta(microseconds=123_456))
    from_elsewhere = START.astimezone() - timedelta(days=3, microseconds=1)
    memory = (await store.propose("Rome", "s", 0.9, valid_from=from_elsewhere)).memory
    assert (memory.created_at, memory.valid_from) == (clock(), from_elsewhere)
    assert {memory.created_at.utcoffset(), memory.valid_from and memory.valid_from.utcoffset()} == {
        timedelta(0)
    }
    assert await store.get(memory.id) == memory
