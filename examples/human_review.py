"""A person works through what waits: looks, confirms, rejects, and is told when something changed.

Two reviewers share the queue here, so that each sees what the other one did.
"""

import asyncio
from contextlib import chdir
from tempfile import TemporaryDirectory

from memsmith import (
    ConfidenceThreshold,
    InvalidTransitionError,
    MemoryStatus,
    MemoryStore,
    PendingConfirmation,
    Rejected,
)
from memsmith.errors import BaseChangedError, TombstoneConflictError

PENDING = MemoryStatus.PENDING_CONFIRMATION


async def propose(store: MemoryStore, what: str, confidence: float = 0.3, session: str = "intake") -> str:
    result = await store.propose({"says": what}, session, confidence, source="form", actor="agent")
    return result.memory_id


async def main() -> None:
    async with await MemoryStore.open("sqlite:///review.db", validators=[ConfidenceThreshold(0.5)]) as store:
        for what in ("prefers tea", "is called Kim", "owes 40 euros"):
            await propose(store, what)

        print("what waits:")
        queue = await store.list(status=PENDING)
        for memory in queue:
            (held,) = await store.audit(memory.id)
            print(f"  {memory.content['says']:16} v{memory.version}  because {held.metadata['errors'][0]}")
        tea, kim, debt = (memory.id for memory in queue)

        # Of two people who decide at once, one wins and the other is told.
        answers = await asyncio.gather(
            store.confirm(tea, actor="ines"), store.retract(tea, actor="joao"), return_exceptions=True
        )
        lost = [a for a in answers if isinstance(a, InvalidTransitionError)]
        print(f"\ntwo at once: {lost[0] if lost else 'ines first, then joao took it back'}")
        settled = await store.get(tea)
        assert settled is not None
        assert settled.status is not PENDING

        # Meanwhile somebody told the store that Kim is Kim: confirming would now say it twice.
        twin = await store.propose({"says": "is called Kim"}, "intake", 0.9, dedup=False)
        try:
            await store.confirm(kim, actor="ines")
            raise AssertionError("the reviewer should have been told")
        except BaseChangedError as changed:
            print(f"\nnot what you saw: {changed.difference}")
            await store.confirm(kim, expected_version=changed.version, actor="ines")
            print("confirmed all the same, knowing it")

        # "Never true" blocks the value. Others that hold it are named first, and go along if asked.
        other = await propose(store, "owes 40 euros", session="another day")
        try:
            await store.reject(debt, reason="invented", actor="joao")
            raise AssertionError("the other memory should have been named")
        except TombstoneConflictError as conflict:
            assert conflict.others == [other]
            print(f"\n{len(conflict.others)} other memory says so too; both go")
            await store.reject(debt, reason="invented", also=True, actor="joao")

        again = await store.propose({"says": "Owes  40 EUROS"}, "a third day", 1.0)
        assert isinstance(again, Rejected)
        assert again.code == "tombstoned"
        print(f"proposed again: {again.reason}")

        (stone,) = await store.tombstones()
        assert stone.refused == 1
        await store.lift_tombstone(stone.id, reason="there is an invoice now", actor="joao")
        lifted = await store.propose({"says": "owes 40 euros"}, "a third day", 0.4, actor="agent")
        assert isinstance(lifted, PendingConfirmation)
        print("lifted: the same value may be proposed again, and waits like any other")
        assert (await store.get(twin.memory_id)) is not None


if __name__ == "__main__":
    # In a folder of its own, so that it can be run again.
    with TemporaryDirectory() as folder, chdir(folder):
        asyncio.run(main())
