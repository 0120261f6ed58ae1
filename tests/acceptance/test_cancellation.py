"""A call cancelled at any await has happened wholly or not at all, and leaves the store usable."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from backends import KINDS, ON_DISK, Place, fresh_place
from postgres import databases

from memsmith import (
    ConfidenceThreshold,
    MemoryStatus,
    MemoryStore,
    ProposalInput,
    SQLiteBackend,
    StorageBackend,
)

PATIENCE = 10.0
DELAYS = (0, 1, 3)
"""How many turns of the event loop pass between the await and the cancellation."""

numbers = count()


class CancelledAt:
    """Awaits a coroutine and cancels it at its n-th suspension, some turns of the loop later."""

    def __init__(self, coroutine: Coroutine[Any, Any, object], step: int, delay: int) -> None:
        self._coroutine = coroutine
        self._step = step
        self._delay = delay
        self.reached = False

    def __await__(self) -> Generator[Any, Any, object]:
        inner = self._coroutine.__await__()
        value: Any = None
        steps = 0
        while True:
            try:
                waited = inner.send(value)
            except StopIteration as done:
                return done.value
            steps += 1
            if steps == self._step:
                self.reached = True
                self._cancel_in(self._delay)
            try:
                value = yield waited
            except BaseException as error:
                try:
                    waited = inner.throw(error)
                except StopIteration as done:
                    return done.value
                value = yield waited

    def _cancel_in(self, turns: int) -> None:
        task = asyncio.current_task()
        assert task is not None

        def tick(left: int) -> None:
            if left == 0:
                task.cancel()
            else:
                asyncio.get_running_loop().call_soon(tick, left - 1)

        tick(turns)


async def cancelled_at(coroutine: Coroutine[Any, Any, object], step: int, delay: int) -> bool:
    """Run a call, cancelled at its n-th suspension; False once it has fewer of them."""
    call = CancelledAt(coroutine, step, delay)

    async def run() -> None:
        await call

    task = asyncio.create_task(run())
    await asyncio.wait([task], timeout=PATIENCE)
    assert task.done(), "a cancelled call never ended"
    if not task.cancelled():
        assert task.exception() is None
    return call.reached


async def everywhere(attempt: Callable[[int, int], Awaitable[bool]]) -> None:
    """Cancel at every await of a call, until it has no more."""
    for delay in DELAYS:
        for step in range(1, 60):
            if not await attempt(step, delay):
                break
        else:
            raise AssertionError("the call never ran to its end")


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


clock = Clock()


@pytest.fixture(params=[*KINDS, ":memory:"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> StorageBackend:
    if request.param == ":memory:":
        return SQLiteBackend(":memory:")
    return Place(request.param, tmp_path).connect()


@pytest.fixture
async def store(backend: StorageBackend) -> AsyncIterator[MemoryStore]:
    heard: list[str] = []

    async def hook(memory_id: str, before: MemoryStatus, after: MemoryStatus) -> None:
        await asyncio.sleep(0)
        heard.append(memory_id)

    async with await MemoryStore.init(backend, [ConfidenceThreshold(0.5)], [hook], clock=clock) as store:
        yield store
        assert (await store.verify()).ok
        assert (await store.replay()).identical


async def rows_of(store: MemoryStore) -> int:
    return (await store.verify()).rows


async def still_writes(store: MemoryStore) -> None:
    """The next write works, so no transaction was left open; it waits for what is under way."""
    async with asyncio.timeout(PATIENCE):
        await store.propose({"next": next(numbers)}, "s", 0.9)


async def new(store: MemoryStore, confidence: float = 0.9, **options: Any) -> str:
    return (await store.propose({"n": next(numbers)}, "s", confidence, **options)).memory_id


async def waiting(store: MemoryStore) -> str:
    return await new(store, 0.1)


async def with_dependant(store: MemoryStore) -> str:
    parent = await new(store)
    await new(store, depends_on=[parent])
    return parent


async def quarantined(store: MemoryStore) -> str:
    memory_id = await new(store)
    await store.quarantine(memory_id)
    return memory_id


async def nothing(store: MemoryStore) -> str:
    return f"content {next(numbers)}"


Prepare = Callable[[MemoryStore], Awaitable[str]]
Call = Callable[[MemoryStore, str, str], Coroutine[Any, Any, object]]

VERBS: dict[str, tuple[Prepare, Call, int]] = {
    "propose": (nothing, lambda s, text, key: s.propose(text, "s", 0.9, idempotency_key=key), 1),
    "propose_many": (
        nothing,
        lambda s, text, key: s.propose_many(
            [ProposalInput([text, n], 0.9) for n in range(3)], "s", idempotency_key=key
        ),
        3,
    ),
    "confirm": (waiting, lambda s, ident, key: s.confirm(ident, idempotency_key=key), 1),
    "reject": (new, lambda s, ident, key: s.reject(ident, idempotency_key=key), 1),
    "retract": (
        with_dependant,
        lambda s, ident, key: s.retract(ident, cascade=True, idempotency_key=key),
        2,
    ),
    "revise": (new, lambda s, ident, key: s.revise(ident, {"new": ident}, idempotency_key=key), 1),
    "update_confidence": (
        new,
        lambda s, ident, key: s.update_confidence(ident, 0.95, idempotency_key=key),
        1,
    ),
    "quarantine": (new, lambda s, ident, key: s.quarantine(ident, idempotency_key=key), 1),
    "release": (quarantined, lambda s, ident, key: s.release(ident, idempotency_key=key), 1),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_a_cancelled_verb_happened_wholly_or_not_and_its_repetition_has_one_effect(
    store: MemoryStore, verb: str
) -> None:
    prepare, call, rows = VERBS[verb]

    async def attempt(step: int, delay: int) -> bool:
        subject, key = await prepare(store), f"{verb} {step} {delay}"
        before = await rows_of(store)
        reached = await cancelled_at(call(store, subject, key), step, delay)
        await still_writes(store)
        outcome = await store.outcome(key, verb=verb)
        assert await rows_of(store) == before + 1 + (0 if outcome is None else rows)
        await call(store, subject, key)
        assert await rows_of(store) == before + 1 + rows
        again = await store.outcome(key, verb=verb)
        assert again is not None
        assert outcome is None or outcome == again
        return reached

    await everywhere(attempt)


async def test_a_cancelled_sweep_expired_all_that_was_due_or_nothing(store: MemoryStore) -> None:
    rounds = count(1)

    async def attempt(step: int, delay: int) -> bool:
        for _ in range(3):
            await new(store, ttl=timedelta(seconds=1))
        clock.now += timedelta(minutes=1)
        reached = await cancelled_at(store.expire_batch(), step, delay)
        await still_writes(store)
        expired = len(await store.list(MemoryStatus.EXPIRED, limit=500))
        assert expired % 3 == 0
        await store.expire_batch()
        assert len(await store.list(MemoryStatus.EXPIRED, limit=500)) == 3 * next(rounds)
        return reached

    await everywhere(attempt)


async def test_a_cancelled_lifting_of_a_tombstone_happened_or_not(store: MemoryStore) -> None:
    async def attempt(step: int, delay: int) -> bool:
        await store.reject(await new(store))
        (stone,) = await store.tombstones()
        before = await rows_of(store)
        reached = await cancelled_at(store.lift_tombstone(stone.id), step, delay)
        await still_writes(store)
        standing = len(await store.tombstones())
        assert await rows_of(store) == before + 2 - standing
        await store.lift_tombstone(stone.id)
        assert await rows_of(store) == before + 2
        return reached

    await everywhere(attempt)


async def test_a_cancelled_transaction_happened_wholly_or_not_at_all(store: MemoryStore) -> None:
    async def work(text: str) -> None:
        async with store.transaction():
            await store.propose([text, 1], "s", 0.9)
            async with store.transaction():
                await store.propose([text, 2], "s", 0.9)
            await store.propose([text, 3], "s", 0.9)

    async def attempt(step: int, delay: int) -> bool:
        before = await rows_of(store)
        reached = await cancelled_at(work(f"tx {step} {delay}"), step, delay)
        await still_writes(store)
        written = await rows_of(store) - before - 1
        assert written in ({0, 3} if reached else {3})
        return reached

    await everywhere(attempt)


READS: dict[str, Callable[[MemoryStore, str], Coroutine[Any, Any, object]]] = {
    "get": lambda s, i: s.get(i),
    "list": lambda s, i: s.list(),
    "audit": lambda s, i: s.audit(i),
    "tombstones": lambda s, i: s.tombstones(),
    "dependants": lambda s, i: s.dependants(i),
    "outcome": lambda s, i: s.outcome("k"),
    "verify": lambda s, i: s.verify(),
    "replay": lambda s, i: s.replay(),
}


@pytest.mark.parametrize("read", READS)
async def test_a_cancelled_read_leaves_the_store_usable_and_unchanged(store: MemoryStore, read: str) -> None:
    async def attempt(step: int, delay: int) -> bool:
        memory_id = await with_dependant(store)
        before = await rows_of(store)
        reached = await cancelled_at(READS[read](store, memory_id), step, delay)
        assert await rows_of(store) == before
        await still_writes(store)
        return reached

    await everywhere(attempt)


def _threads() -> set[threading.Thread]:
    return {t for t in threading.enumerate() if t.is_alive() and "asyncio_" not in t.name}


async def _nothing_goes_on(place: Place, before: set[threading.Thread]) -> None:
    """A database thread, or a session, that outlives its store would keep a program, or a server, busy."""
    if place.name == "postgres":
        async with asyncio.timeout(PATIENCE):
            while await asyncio.to_thread(databases.sessions, place.path):  # noqa: ASYNC110  # the server's
                await asyncio.sleep(0.002)
        return
    for thread in _threads() - before:
        await asyncio.to_thread(thread.join, PATIENCE)
    assert not _threads() - before


@pytest.mark.parametrize("kind", ON_DISK)
async def test_a_cancelled_close_can_be_repeated_and_loses_nothing(kind: str, tmp_path: Path) -> None:
    async def attempt(step: int, delay: int) -> bool:
        with fresh_place(kind, tmp_path) as place:
            threads = _threads()
            store = await MemoryStore.init(place.connect())
            memory_id = await new(store)
            reached = await cancelled_at(store.close(), step, delay)
            await store.close()
            await _nothing_goes_on(place, threads)
            async with await MemoryStore.init(place.connect()) as again:
                assert await again.get(memory_id) is not None
                await still_writes(again)
        return reached

    await everywhere(attempt)


@pytest.mark.parametrize("kind", ON_DISK)
async def test_a_cancelled_opening_leaves_nothing_behind(kind: str, tmp_path: Path) -> None:
    async def attempt(step: int, delay: int) -> bool:
        with fresh_place(kind, tmp_path) as place:
            threads = _threads()
            # The place is there before it is opened.
            assert place.url

            async def opening() -> None:
                store = await MemoryStore.init(place.connect())
                await store.close()

            reached = await cancelled_at(opening(), step, delay)
            await _nothing_goes_on(place, threads)
            async with await MemoryStore.init(place.connect()) as store:
                await still_writes(store)
        return reached

    await everywhere(attempt)
