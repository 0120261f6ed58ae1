"""Hooks hear of what was committed, in ledger order, and can change nothing about it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from memsmith import MemoryStatus, MemoryStore, ProposalInput
from memsmith.errors import ClosedError
from memsmith.types import Memory

S = MemoryStatus
OpenStore = Callable[..., Awaitable[MemoryStore]]
Heard = list[tuple[str, MemoryStatus, MemoryStatus]]


def _listen(store: MemoryStore) -> Heard:
    heard: Heard = []

    async def hook(memory_id: str, before: MemoryStatus, after: MemoryStatus) -> None:
        await asyncio.sleep(0)
        heard.append((memory_id, before, after))

    store.on_transition(hook)
    return heard


async def test_a_verb_returns_after_its_hooks_heard_of_it(store: MemoryStore) -> None:
    heard = _listen(store)
    ident = (await store.propose("Rome", "s", 0.9)).memory_id
    assert heard == [(ident, S.PROPOSED, S.ACTIVE)]
    await store.revise(ident, "Oslo")
    assert heard[-1] == (ident, S.ACTIVE, S.ACTIVE)
    await store.quarantine(ident)
    await store.release(ident)
    await store.reject(ident)
    assert [h[1:] for h in heard[2:]] == [
        (S.ACTIVE, S.QUARANTINED),
        (S.QUARANTINED, S.ACTIVE),
        (S.ACTIVE, S.RETRACTED),
    ]
    refused = await store.propose("wrong", "s", 0.9)
    assert heard[-1] == (refused.memory_id, S.PROPOSED, S.REJECTED)


async def test_hooks_given_at_the_start_and_later_all_hear(open_store: OpenStore) -> None:
    order: list[str] = []

    async def first(memory_id: str, before: MemoryStatus, after: MemoryStatus) -> None:
        order.append("first")

    async def second(memory_id: str, before: MemoryStatus, after: MemoryStatus) -> None:
        order.append("second")

    store = await open_store(hooks=[first])
    store.on_transition(second)
    await store.propose("Rome", "s", 0.9)
    assert order == ["first", "second"]


async def test_transitions_arrive_in_ledger_order_however_many_tasks_write(store: MemoryStore) -> None:
    heard = _listen(store)
    results = await asyncio.gather(*(store.propose(n, "s", 0.9) for n in range(20)))
    await asyncio.gather(*(store.retract(r.memory_id) for r in results))
    await store.propose_many([ProposalInput(n, 0.9) for n in range(50, 55)], "s")
    ledger = [(e.memory_id, e.from_status, e.to_status) for e in reversed(await store.audit(limit=100))]
    assert heard == ledger


async def test_a_hook_that_raises_is_logged_and_changes_nothing(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    async def bad(memory_id: str, before: MemoryStatus, after: MemoryStatus) -> None:
        raise RuntimeError("the index is down")

    store.on_transition(bad)
    heard = _listen(store)
    with caplog.at_level(logging.ERROR, logger="memsmith"):
        result = await store.propose("Rome", "s", 0.9)
    assert await store.get(result.memory_id) == result.memory
    assert len(heard) == 1
    assert "the index is down" in caplog.text
    assert result.memory_id in caplog.text


async def test_a_hook_whose_work_was_cancelled_is_logged_and_the_others_hear(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    async def bad(memory_id: str, before: MemoryStatus, after: MemoryStatus) -> None:
        work = asyncio.ensure_future(asyncio.sleep(60))
        work.cancel("the index went away")
        await work

    store.on_transition(bad)
    heard = _listen(store)
    with caplog.at_level(logging.ERROR, logger="memsmith"):
        await store.propose("Rome", "s", 0.9)
        await store.propose("Oslo", "s", 0.9)
    assert len(heard) == 2
    assert caplog.text.count("raised for memory") == 2


async def test_a_verb_called_from_inside_a_hook_returns_and_is_heard_of_next(store: MemoryStore) -> None:
    async def tidy(memory_id: str, before: MemoryStatus, after: MemoryStatus) -> None:
        if after is S.ACTIVE:
            assert (await store.retract(memory_id)).status is S.RETRACTED

    store.on_transition(tidy)
    heard = _listen(store)
    async with asyncio.timeout(5):
        ident = (await store.propose("Rome", "s", 0.9)).memory_id
        await store.propose("other", "s", 0.4)
    assert heard[:2] == [(ident, S.PROPOSED, S.ACTIVE), (ident, S.ACTIVE, S.RETRACTED)]


async def test_a_transaction_inside_a_hook_works(store: MemoryStore) -> None:
    async def copy(memory_id: str, before: MemoryStatus, after: MemoryStatus) -> None:
        memory = await store.get(memory_id)
        if memory is not None and memory.session_id == "s":
            async with store.transaction():
                await store.propose(["copy", memory.content], "copies", 0.9)

    store.on_transition(copy)
    async with asyncio.timeout(5):
        await store.propose("Rome", "s", 0.9)
    assert len(await store.list()) == 2


async def test_hooks_hear_of_a_transaction_after_the_outermost_block_and_never_of_what_was_undone(
    store: MemoryStore,
) -> None:
    heard = _listen(store)

    async def undone() -> None:
        async with store.transaction():
            await store.propose("undone", "s", 0.9)
            raise LookupError

    async with store.transaction():
        kept = await store.propose("kept", "s", 0.9)
        async with store.transaction():
            nested = await store.propose("nested", "s", 0.9)
        with pytest.raises(LookupError):
            await undone()
        await asyncio.sleep(0)
        assert heard == []
    assert [h[0] for h in heard] == [kept.memory_id, nested.memory_id]
    with pytest.raises(LookupError):
        await undone()
    await store.propose("after", "s", 0.9)
    assert len(heard) == 3


async def test_closing_waits_until_the_hooks_heard_of_everything(open_store: OpenStore) -> None:
    store = await open_store()
    heard = _listen(store)
    tasks = [asyncio.ensure_future(store.propose(n, "s", 0.9)) for n in range(5)]
    await asyncio.sleep(0)
    await store.close()
    results = await asyncio.gather(*tasks)
    assert [h[0] for h in heard] == [r.memory_id for r in results]


async def test_a_hook_may_still_read_while_the_store_is_being_closed(open_store: OpenStore) -> None:
    seen: list[MemoryStatus] = []
    started = asyncio.Event()
    go_on = asyncio.Event()

    async def slow(memory_id: str, from_status: MemoryStatus, to_status: MemoryStatus) -> None:
        started.set()
        await go_on.wait()
        memory = await store.get(memory_id)
        assert memory is not None
        seen.append(memory.status)

    store = await open_store(hooks=[slow])
    proposing = asyncio.create_task(store.propose({"a": 1}, "s", 0.9))
    await started.wait()
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    with pytest.raises(ClosedError):
        await store.propose({"a": 2}, "s", 0.9)
    go_on.set()
    await closing
    await proposing

    assert seen == [MemoryStatus.ACTIVE]


async def test_an_index_fed_by_a_hook_stays_equal_to_what_is_active(store: MemoryStore) -> None:
    index: dict[str, Memory] = {}

    async def sync(memory_id: str, before: MemoryStatus, after: MemoryStatus) -> None:
        memory = await store.get(memory_id)
        if memory is not None and memory.status is S.ACTIVE:
            index[memory_id] = memory
        else:
            index.pop(memory_id, None)

    store.on_transition(sync)
    ids = [(await store.propose(n, "s", [0.4, 0.9][n % 2])).memory_id for n in range(8)]
    await store.confirm(ids[0])
    await store.retract(ids[1])
    await store.revise(ids[3], "new")
    await store.reject(ids[5])
    await store.quarantine(ids[7])
    assert index == {m.id: m for m in await store.list("active")}


async def test_a_hook_of_one_store_writes_to_another_even_during_that_ones_transaction(
    open_store: OpenStore, tmp_path_factory: pytest.TempPathFactory
) -> None:
    source = await open_store()
    async with await MemoryStore.open("memory://") as mirror:

        async def forward(memory_id: str, before: MemoryStatus, after: MemoryStatus) -> None:
            memory = await source.get(memory_id)
            assert memory is not None
            await mirror.propose(memory.content, "mirror", 0.9)

        source.on_transition(forward)
        async with asyncio.timeout(10):
            await source.propose("first", "s", 0.9)
            async with mirror.transaction():
                await mirror.propose("own", "mirror", 0.9)
        assert {m.content for m in await mirror.list()} == {"first", "own"}
