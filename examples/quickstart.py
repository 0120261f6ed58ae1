"""An agent proposes three facts; the store accepts one, holds one and refuses one.

Run it: python examples/quickstart.py
"""

import asyncio
from contextlib import chdir
from tempfile import TemporaryDirectory

from pydantic import BaseModel

from memsmith import (
    Accepted,
    ConfidenceThreshold,
    MemoryStatus,
    MemoryStore,
    PendingConfirmation,
    Rejected,
    SchemaCheck,
    SQLiteBackend,
    Verdict,
)


class UserFact(BaseModel):
    attribute: str
    value: str


async def main() -> None:
    store = await MemoryStore.init(
        storage=SQLiteBackend("quickstart.db"),
        validators=[SchemaCheck(UserFact), ConfidenceThreshold(0.5)],
    )
    async with store:
        sure = await store.propose({"attribute": "language", "value": "Python"}, "session-1", confidence=0.9)
        unsure = await store.propose({"attribute": "os", "value": "Linux"}, "session-1", confidence=0.3)
        broken = await store.propose({"bad": "data"}, "session-1", confidence=0.9)

        for result in (sure, unsure, broken):
            match result:
                case Accepted(memory=memory):
                    print(f"accepted  {memory.content}")
                case PendingConfirmation(memory=memory, reasons=reasons):
                    print(f"pending   {memory.content}: {reasons[0]}")
                case Rejected(reason=reason, code=code):
                    print(f"rejected  ({code}) {reason}")

        assert isinstance(unsure, PendingConfirmation)
        confirmed = await store.confirm(unsure.memory_id, reason="the user said so")
        print(f"confirmed {confirmed.content}")

        active = await store.list(status=MemoryStatus.ACTIVE, session_id="session-1")
        assert [m.content["attribute"] for m in active] == ["language", "os"]

        print("\nthe ledger, newest first:")
        for entry in await store.audit():
            print(f"  {entry.seq}  {entry.action:18} {entry.memory_id}")

        checked = await store.verify()
        assert checked.verdict is Verdict.SELF_CONSISTENT
        print(f"\nchain of {checked.rows} rows: {checked.verdict.value}")


if __name__ == "__main__":
    # In a folder of its own, so that it can be run again.
    with TemporaryDirectory() as folder, chdir(folder):
        asyncio.run(main())
