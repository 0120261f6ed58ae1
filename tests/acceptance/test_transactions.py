"""`async with store.transaction()`: all or nothing, nested, bounded, and for its own tasks only."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from memsmith import Accepted, Memory, MemoryStatus, MemoryStore, NotFoundError, Rejected
from memsmith.errors import (
    ArgumentError,
    ClosedError,
    StoreBusyError,
    TransactionTimeoutError,
    WrongContextError,
)
from memsmith.types import ValidationResult

S = MemoryStatus
OpenStore = Callable[..., Awaitable[MemoryStore]]
Rows = Callable[[MemoryStore], Awaitable[Any]]


async def _contents(store: MemoryStore) -> list[Any]:
    return [m.content for m in await store.list()]


async def _undone(store: MemoryStore, *verbs: Callable[[], Awaitable[object]]) -> None:
    """Run verbs in a transaction that raises."""
    async with store.transaction():
        for verb in verbs:
            await verb()
        raise LookupError


async def test_several_verbs_are_one_unit_at_one_time(store: MemoryStore) -> None:
    held = await store.propose("held", "s", 0.4)
    async with store.transaction() as same:
        assert same is store
        await store.confirm(held.memory_id)
        new = await store.propose("new", "s", 0.9, depends_on=[held.memory_id])
        await store.revise(new.memory_id, "newer")
        assert [m.content for m in await store.list()] == ["held", "newer"]
        assert (await store.dependants(held.memory_id))[0].id == new.memory_id
        assert len(await store.audit()) == 4
    times = {e.timestamp for e in (await store.audit())[:3]}
    assert len(times) == 1
    assert (await store.verify()).rows == 4
    assert (await store.replay()).identical


async def test_a_raise_undoes_everything(store: MemoryStore, rows_of: Rows) -> None:
    memory = (await store.propose("there", "s", 0.9)).memory_id
    before = await rows_of(store)
    with pytest.raises(LookupError):
        await _undone(
            store,
            lambda: store.propose("new", "s", 0.9),
            lambda: store.revise(memory, "other"),
            lambda: store.reject(memory),
        )
    assert await rows_of(store) == before
    assert isinstance(await store.propose("new", "s", 0.9), Accepted)
    assert (await store.verify()).ok


async def test_a_nested_raise_undoes_the_nested_part_alone(store: MemoryStore) -> None:
    async with store.transaction():
        await store.propose("outer", "s", 0.9)
        async with store.transaction():
            await store.propose("kept", "s", 0.9)
            with pytest.raises(LookupError):
                await _undone(store, lambda: store.propose("undone", "s", 0.9))
            assert isinstance(await store.propose("undone", "t", 0.9), Accepted)
        with pytest.raises(LookupError):
            await _undone(store, lambda: store.propose("undone too", "s", 0.9))
        await store.propose("last", "s", 0.9)
    assert await _contents(store) == ["outer", "kept", "undone", "last"]
    assert [e.seq for e in await store.audit()] == [4, 3, 2, 1]
    assert (await store.verify()).ok


async def test_an_outer_raise_undoes_what_a_nested_part_kept(store: MemoryStore) -> None:
    async def nested() -> None:
        async with store.transaction():
            await store.propose("nested", "s", 0.9)

    with pytest.raises(LookupError):
        await _undone(store, nested)
    assert await _contents(store) == []


async def test_a_verb_that_fails_inside_undoes_itself_and_the_rest_goes_on(store: MemoryStore) -> None:
    async with store.transaction():
        await store.propose("one", "s", 0.9)
        with pytest.raises(NotFoundError):
            await store.retract("unknown")
        again = await store.propose("one", "s", 0.9)
        assert isinstance(again, Rejected)
        await store.propose("two", "s", 0.9)
    assert await _contents(store) == ["one", "two"]


async def test_other_tasks_see_nothing_and_wait_to_write(store: MemoryStore) -> None:
    inside, go_on = asyncio.Event(), asyncio.Event()

    async def holder() -> None:
        async with store.transaction():
            await store.propose("inside", "s", 0.9)
            inside.set()
            await go_on.wait()

    holding = asyncio.create_task(holder())
    await inside.wait()
    assert await _contents(store) == []
    writing = asyncio.create_task(store.propose("outside", "s", 0.9))
    entering = asyncio.create_task(_undone(store))
    done, _ = await asyncio.wait([writing, entering], timeout=0.05)
    assert not done
    assert await _contents(store) == []
    go_on.set()
    await asyncio.gather(holding, writing, entering, return_exceptions=True)
    assert await _contents(store) == ["inside", "outside"]


async def test_other_tasks_that_lose_patience_are_told_to_try_again(open_store: OpenStore) -> None:
    store = await open_store(patience=0.02)
    inside, go_on = asyncio.Event(), asyncio.Event()

    async def holder() -> None:
        async with store.transaction():
            inside.set()
            await go_on.wait()

    holding = asyncio.create_task(holder())
    await inside.wait()
    with pytest.raises(StoreBusyError) as caught:
        await store.propose("outside", "s", 0.9)
    assert caught.value.retryable
    with pytest.raises(StoreBusyError):
        await _undone(store)
    go_on.set()
    await holding
    assert isinstance(await store.propose("outside", "s", 0.9), Accepted)


async def test_tasks_started_inside_are_inside_and_take_turns(store: MemoryStore) -> None:
    async with store.transaction():
        async with asyncio.TaskGroup() as group:
            for n in range(8):
                group.create_task(store.propose(n, "s", 0.9))
        same = await asyncio.gather(*(store.propose("same", "s", 0.9) for _ in range(5)))
        assert sorted(type(r).__name__ for r in same) == ["Accepted", *["Rejected"] * 4]
    assert len(await _contents(store)) == 9
    assert (await store.verify()).ok


async def test_two_nested_parts_at_once_take_turns(store: MemoryStore) -> None:
    async def part(name: str, fail: bool) -> None:
        async with store.transaction():
            await store.propose([name, 1], "s", 0.9)
            await asyncio.sleep(0)
            await store.propose([name, 2], "s", 0.9)
            if fail:
                raise LookupError

    async with store.transaction():
        await asyncio.gather(*(part(str(n), n % 2 == 1) for n in range(4)), return_exceptions=True)
    assert sorted(await _contents(store)) == [["0", 1], ["0", 2], ["2", 1], ["2", 2]]


async def test_use_after_the_exit_raises(store: MemoryStore) -> None:
    go_on = asyncio.Event()

    async def late(verb: Callable[[], Awaitable[object]]) -> None:
        await go_on.wait()
        await verb()

    async with store.transaction():
        tasks = [
            asyncio.create_task(late(verb))
            for verb in (
                lambda: store.propose("late", "s", 0.9),
                lambda: store.list(),
                lambda: store.get("id"),
                lambda: _undone(store),
            )
        ]
    go_on.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(r) for r in results] == [ClosedError] * 4
    assert await _contents(store) == []


@pytest.mark.parametrize("timeout", ["5", None, True, 0, -1, float("nan"), float("inf")])
async def test_a_deadline_of_no_sense_is_refused_and_keeps_nobody_out(
    store: MemoryStore, timeout: Any
) -> None:
    with pytest.raises(ArgumentError, match=r"^timeout: "):
        async with store.transaction(timeout):
            pass
    async with asyncio.timeout(5):
        assert isinstance(await store.propose("other", "s", 0.9), Accepted)


async def test_a_transaction_past_its_deadline_is_undone_and_says_so(store: MemoryStore) -> None:
    never = asyncio.Event()

    async def stuck() -> None:
        async with store.transaction(timeout=0.05):
            await store.propose("stuck", "s", 0.9)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(never.wait(), 0.2)
            with pytest.raises(TransactionTimeoutError):
                await store.propose("later", "s", 0.9)

    with pytest.raises(TransactionTimeoutError):
        await stuck()
    assert await _contents(store) == []
    assert isinstance(await store.propose("after", "s", 0.9), Accepted)


async def test_a_stuck_transaction_keeps_nobody_out_for_longer_than_its_deadline(store: MemoryStore) -> None:
    inside, never = asyncio.Event(), asyncio.Event()

    async def stuck() -> None:
        async with store.transaction(timeout=0.05):
            inside.set()
            await never.wait()

    task = asyncio.create_task(stuck())
    await inside.wait()
    async with asyncio.timeout(5):
        assert isinstance(await store.propose("other", "s", 0.9), Accepted)
    never.set()
    with pytest.raises(TransactionTimeoutError):
        await task
    assert await _contents(store) == ["other"]


async def test_a_nested_part_waiting_for_a_task_outside_it_ends_at_the_deadline(
    store: MemoryStore,
) -> None:
    async def wait_for_a_turn() -> None:
        async with store.transaction(timeout=0.2):
            go_on = asyncio.Event()

            async def outside_the_nested_part() -> None:
                await go_on.wait()
                await store.propose("never its turn", "s", 0.9)

            waiting = asyncio.create_task(outside_the_nested_part())
            async with store.transaction():
                go_on.set()
                await waiting

    with pytest.raises(TransactionTimeoutError):
        await asyncio.wait_for(wait_for_a_turn(), 10)
    assert await _contents(store) == []
    assert isinstance(await store.propose("next", "s", 0.9), Accepted)


async def test_validators_inside_run_under_the_deadline(open_store: OpenStore) -> None:
    async def slow(memory: Memory) -> ValidationResult:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    store = await open_store([slow])

    async def inside() -> None:
        async with store.transaction(timeout=0.05):
            await store.propose("Rome", "s", 0.9)

    async with asyncio.timeout(5):
        with pytest.raises(TransactionTimeoutError):
            await inside()
    assert await _contents(store) == []


async def test_a_cancelled_transaction_is_undone_and_lets_the_next_one_in(store: MemoryStore) -> None:
    for steps in range(12):

        async def work() -> None:
            async with store.transaction():
                await store.propose("one", "s", 0.9)
                async with store.transaction():
                    await store.propose("two", "s", 0.9)
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        for _ in range(steps * 3):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert await _contents(store) == []
    assert isinstance(await store.propose("after", "s", 0.9), Accepted)
    assert (await store.verify()).rows == 1


async def test_a_verb_cancelled_inside_leaves_the_transaction_usable(store: MemoryStore) -> None:
    async with store.transaction():
        task = asyncio.create_task(store.propose("cancelled", "s", 0.9))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await store.propose("kept", "s", 0.9)
    contents = await _contents(store)
    assert contents[-1] == "kept"
    assert (await store.verify()).rows == len(contents)


async def test_a_transaction_of_one_store_is_none_of_another(open_store: OpenStore, rows_of: Rows) -> None:
    store = await open_store()
    async with await MemoryStore.open("memory://") as other:

        async def both() -> None:
            await store.propose("undone", "s", 0.9)
            await other.propose("kept", "s", 0.9)

        with pytest.raises(LookupError):
            await _undone(store, both)
        assert (await _contents(store), await _contents(other)) == ([], ["kept"])


async def test_a_task_started_inside_a_nested_part_belongs_to_it(store: MemoryStore) -> None:
    async def spawn() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(store.propose("child", "s", 0.9))

    async with store.transaction():
        await store.propose("outer", "s", 0.9)
        with pytest.raises(LookupError):
            await _undone(store, spawn)
    assert await _contents(store) == ["outer"]


# -- the place a store belongs to ------------------------------------------------------------------


async def test_another_event_loop_is_refused(store: MemoryStore) -> None:
    def elsewhere() -> list[type[Any]]:
        async def call() -> list[type[Any]]:
            verbs = [
                store.propose("x", "s", 0.9),
                store.list(),
                store.get("id"),
                store.close(),
                _undone(store),
            ]
            return [type(r) for r in await asyncio.gather(*verbs, return_exceptions=True) if r is not None]

        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            return runner.run(call())

    assert await asyncio.to_thread(elsewhere) == [WrongContextError] * 5
    assert isinstance(await store.propose("here", "s", 0.9), Accepted)


async def test_a_forked_process_is_refused(store: MemoryStore) -> None:
    with warnings.catch_warnings():
        # Newer Pythons warn of any fork beside threads; this child runs a few lines and leaves.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            store.propose("x", "s", 0.9).send(None)
        except WrongContextError:
            code = 0
        finally:
            os._exit(code)
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert isinstance(await store.propose("here", "s", 0.9), Accepted)
