"""What did we know, and when? One question with two dates, asked of a refund that went wrong.

The support agent refunded at the old price on 10 March. Was it wrong, or did it not know better? Every
read takes `valid_at` (when it holds in the world) and `system_at` (what the store believed by then).
"""

import asyncio
from contextlib import chdir
from datetime import UTC, datetime
from tempfile import TemporaryDirectory

from memsmith import MemoryStore
from memsmith.testing.clock import ManualClock

KEY = "plan:pro/price"


def march(number: int, hour: int = 0) -> datetime:
    return datetime(2026, 3, number, hour, tzinfo=UTC)


async def price(store: MemoryStore, *, about: datetime, known: datetime | None = None) -> int | None:
    """Return the price that held on a day, as known on another."""
    found = await store.as_of(valid_at=about, system_at=known).list(field_filters={"key": KEY})
    return found[0].content["euros"] if found else None


async def main() -> None:
    # A clock that is moved by hand stands for the days that pass.
    clock = ManualClock(march(1))
    async with await MemoryStore.open("sqlite:///as_of.db", clock=clock) as store:
        old = await store.propose({"euros": 40}, "catalogue", 1.0, key=KEY)

        # The price rose on the 5th, and on the 12th somebody told the store.
        clock.set(march(12))
        new = await store.propose({"euros": 50}, "catalogue", 1.0, key=KEY, valid_from=march(5))

        # On the 20th it is corrected: the rise came into force on the 8th.
        clock.set(march(20))
        await store.amend_validity(new.memory_id, march(8), None, reason="contract, page 3")

        print("the price on   6 March   10 March")
        for known in (march(11), march(15), march(25)):
            prices = [await price(store, about=march(about), known=known) for about in (6, 10)]
            print(f"known on {known:%d}    {prices[0]}        {prices[1]}")

        # On the 10th nobody could know: the agent did what the store believed.
        assert await price(store, about=march(10), known=march(10)) == 40
        assert await price(store, about=march(10)) == 50
        # About the 6th the store was wrong for eight days, and then right again.
        assert await price(store, about=march(6), known=march(15)) == 50
        assert await price(store, about=march(6)) == 40

        learned = await store.diff(march(11), march(25))
        print("\nlearned between the 11th and the 25th:")
        for change in learned:
            before = change.before.status.name if change.before else "not known"
            assert change.after is not None
            print(f"    {change.after.content['euros']} euros: {before} → {change.after.status.name}")
        assert {change.memory_id for change in learned} == {old.memory_id, new.memory_id}

        print("\nhow it got there:")
        for version in await store.history(new.memory_id):
            since, why = version.memory.valid_from, version.reason or "told"
            assert since is not None
            print(f"    {version.system_from:%d %b}  {version.action}: since {since:%d %b} ({why})")

        # A handle stays at its point: nothing that is written later changes what it answers.
        then = store.as_of(valid_at=march(10), system_at=march(11))
        await store.retract(old.memory_id, reason="never on sale")
        assert await then.count() == 1
        assert await price(store, about=march(6)) is None


if __name__ == "__main__":
    # In a folder of its own, so that it can be run again.
    with TemporaryDirectory() as folder, chdir(folder):
        asyncio.run(main())
