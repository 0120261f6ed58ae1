"""Reads at a past point beside reads now, and a chain of one beside a chain of many.

The store is filled through the library: in every unit each key gets its next value, so that the
chains have `members` members and each of them, but for the last, two versions.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.write import ours
from memsmith import MemoryStore, ProposalInput
from memsmith.testing.clock import ManualClock

DAY = timedelta(days=1)
READ_TARGET = 2.0
GROWTH_TARGET = 1.3


@dataclass
class Comparison:
    """Median seconds of one call, per round, of a case and of what it is held against."""

    name: str
    against: str
    target: float | None
    ours: list[float] = field(default_factory=list[float])
    base: list[float] = field(default_factory=list[float])

    @property
    def ratio(self) -> float:
        """How many times longer the case takes."""
        return median(self.ours) / median(self.base)

    def as_json(self) -> dict[str, Any]:
        """Return everything measured and what follows from it."""
        return {**vars(self), "ratio": self.ratio}


@dataclass
class Stored:
    """A filled store and where to look in it."""

    store: MemoryStore
    clock: ManualClock
    ids: list[list[str]]
    """The members' ids, a list per unit, in the order of the keys."""
    times: list[datetime]
    """The system time of each unit."""


async def measure(folder: Path, keys: int, members: int, rounds: int, count: int) -> list[Comparison]:
    """Fill a store with `keys` chains of `members` and compare `count` calls of each kind per round."""
    clock = ManualClock()
    async with await MemoryStore.init(ours.backend(folder / "chains.db", "normal"), clock=clock) as store:
        stored = await _filled(store, clock, keys, members)
        return [*await _reads(stored, rounds, count), *await _writes(stored, rounds, count)]


async def _filled(store: MemoryStore, clock: ManualClock, keys: int, members: int) -> Stored:
    stored = Stored(store, clock, [], [])
    for number in range(members):
        stored.times.append(clock.advance(DAY))
        batch = [
            ProposalInput({"value": f"{key} {number}"}, ours.CONFIDENCE, key=_key(key)) for key in range(keys)
        ]
        results = await store.propose_many(batch, ours.SESSION)
        ours.accepted(results)
        stored.ids.append([result.memory_id for result in results])
    clock.advance(DAY)
    return stored


def _key(number: int) -> str:
    return f"user:{number}/lives_in"


async def _reads(stored: Stored, rounds: int, count: int) -> list[Comparison]:
    store, source = stored.store, random.Random(0)
    get = Comparison("as-of get", "get of what holds now", READ_TARGET)
    now = "list page of what holds now"
    oldest = Comparison("as-of list page of 50, oldest first", now, READ_TARGET)
    newest = Comparison("as-of list page of 50, newest first", now, READ_TARGET)
    valid = Comparison("list page of 50 valid then, as believed now", now, READ_TARGET)
    units = range(len(stored.times))
    for _ in range(rounds):
        places = [source.choice(units) for _ in range(count)]
        keys = [source.randrange(len(stored.ids[0])) for _ in range(count)]
        past = [(stored.ids[p][k], stored.times[p]) for p, k in zip(places, keys, strict=True)]
        get.base.append(await _median([_getting(store, stored.ids[-1][k], None) for k in keys]))
        get.ours.append(await _median([_getting(store, ident, at) for ident, at in past]))
        for page, descending in ((oldest, False), (newest, True)):
            page.base.append(await _median([_listing(store, None, None, descending) for _ in places]))
            page.ours.append(await _median([_listing(store, at, at, descending) for _, at in past]))
        valid.base.append(oldest.base[-1])
        valid.ours.append(await _median([_listing(store, at, None, False) for _, at in past]))
    return [get, oldest, newest, valid]


def _getting(store: MemoryStore, ident: str, at: datetime | None) -> Callable[[], Awaitable[None]]:
    async def call() -> None:
        if await store.as_of(valid_at=at, system_at=at).get(ident) is None:
            raise RuntimeError(f"expected {ident} to hold at {at}")

    return call


def _listing(
    store: MemoryStore, valid_at: datetime | None, system_at: datetime | None, descending: bool
) -> Callable[[], Awaitable[None]]:
    async def call() -> None:
        if not await store.as_of(valid_at=valid_at, system_at=system_at).list(descending=descending):
            raise RuntimeError(f"expected something to hold at {valid_at}")

    return call


async def _writes(stored: Stored, rounds: int, count: int) -> list[Comparison]:
    """Propose onto long chains, at their ends and in their middles, beside chains of one member."""
    store, clock, keys = stored.store, stored.clock, len(stored.ids[0])
    members = len(stored.times)
    append = Comparison(f"propose onto a chain of {members:,}", "onto a chain of 1", GROWTH_TARGET)
    late = Comparison(f"a late arrival in a chain of {members:,}", "onto a chain of 1", GROWTH_TARGET)
    for number in range(rounds):
        short = [f"short:{number}/{n}" for n in range(count)]
        first = [ProposalInput({"value": "first"}, ours.CONFIDENCE, key=key) for key in short]
        ours.accepted(await store.propose_many(first, ours.SESSION))
        clock.advance(DAY)
        base = await _median([_proposing(store, key, f"next {number}", None) for key in short])
        long = [_key(n % keys) for n in range(count)]
        append.base.append(base)
        append.ours.append(
            await _median([_proposing(store, k, f"n {number} {n}", None) for n, k in enumerate(long)])
        )
        middle = stored.times[members // 2]
        moments = [middle + timedelta(seconds=number * count + n) for n in range(count)]
        calls = [
            _proposing(store, k, f"l {number} {n}", at)
            for n, (k, at) in enumerate(zip(long, moments, strict=True))
        ]
        late.base.append(base)
        late.ours.append(await _median(calls))
    return [append, late]


def _proposing(
    store: MemoryStore, key: str, value: str, at: datetime | None
) -> Callable[[], Awaitable[None]]:
    async def call() -> None:
        result = await store.propose({"value": value}, ours.SESSION, ours.CONFIDENCE, key=key, valid_from=at)
        ours.accepted([result])

    return call


async def _median(calls: list[Callable[[], Awaitable[None]]]) -> float:
    times: list[float] = []
    gc.collect()
    for call in calls:
        started = perf_counter()
        await call()
        times.append(perf_counter() - started)
    return median(times)
