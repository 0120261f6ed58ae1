"""Facts change, and some are told late: each takes its place in time, and no key has two current values.

A key names a slot, and a slot holds one value at any time. `valid_from` says since when something is
true, which may lie long before the day somebody mentions it.
"""

import asyncio
from contextlib import chdir
from datetime import UTC, datetime
from tempfile import TemporaryDirectory

from memsmith import Accepted, MemoryStatus, MemoryStore
from memsmith.types import Memory

KEY = "user:ana/lives_in"


def day(month: int, number: int) -> datetime:
    return datetime(2025, month, number, tzinfo=UTC)


async def tell(store: MemoryStore, city: str, since: datetime, until: datetime | None = None) -> Memory:
    result = await store.propose(city, "chat", 0.9, key=KEY, valid_from=since, valid_to=until)
    assert isinstance(result, Accepted)
    print(f"\n{city}, from {since:%d %b}{f' to {until:%d %b}' if until else ''}: {result.memory.status.name}")
    for span in await store.timeline(KEY):
        end = f"{span.valid_to:%d %b}" if span.valid_to else "now and on"
        print(f"    {span.valid_from:%d %b} to {end:10}  {span.memory.content}")
    return result.memory


async def told(store: MemoryStore) -> list[str]:
    return [span.memory.content for span in await store.timeline(KEY)]


async def main() -> None:
    async with await MemoryStore.open("sqlite:///late.db") as store:
        await tell(store, "Lisbon", day(1, 10))
        await tell(store, "Berlin", day(5, 1))
        assert await told(store) == ["Lisbon", "Berlin"]

        # Nobody had mentioned Porto. It lands where it belongs, and Berlin stays the current value.
        porto = await tell(store, "Porto", day(3, 1))
        assert porto.status is MemoryStatus.SUPERSEDED
        assert await told(store) == ["Lisbon", "Porto", "Berlin"]

        # A trip has an end, so it lies over Berlin and does not make us forget it.
        rome = await tell(store, "Rome", day(6, 1), day(6, 15))
        assert await told(store) == ["Lisbon", "Porto", "Berlin", "Rome", "Berlin"]

        # She came home early: that portion is taken out, and Berlin holds there again.
        await store.retract(rome.id, reason="home early", during=(day(6, 10), None))
        spans = await store.timeline(KEY)
        assert spans[3].valid_to == spans[4].valid_from == day(6, 10)

        # "True then" is SUPERSEDED and keeps its interval; "was wrong" is RETRACTED and leaves none.
        await store.retract(porto.id, reason="that was somebody else")
        assert await told(store) == ["Lisbon", "Berlin", "Rome", "Berlin"]
        assert (await store.timeline(KEY))[0].valid_to == day(5, 1)

        (current,) = await store.as_of().list(field_filters={"key": KEY})
        assert current.content == "Berlin"
        print(
            f"\nwhat holds today: {current.content}; and in March it was {await told_on(store, day(3, 15))}"
        )


async def told_on(store: MemoryStore, moment: datetime) -> str:
    (found,) = await store.as_of(valid_at=moment).list(field_filters={"key": KEY})
    return str(found.content)


if __name__ == "__main__":
    # In a folder of its own, so that it can be run again.
    with TemporaryDirectory() as folder, chdir(folder):
        asyncio.run(main())
