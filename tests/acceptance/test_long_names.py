"""Names as long as they may be, of signs that take the most bytes, are stored, found and told apart."""

from __future__ import annotations

import random
from typing import Any

from memsmith import Accepted, MemoryStore, Rejected

SIGNS = [chr(code) for code in range(0x20000, 0x2A000)]
"""Four bytes each in UTF-8, and so many that nothing about them can be compressed."""


def a_name(number: int, length: int = 1024) -> str:
    return "".join(random.Random(number).choices(SIGNS, k=length))


async def test_the_longest_names_work_on_every_backend(open_store: Any) -> None:
    store: MemoryStore = await open_store(tenant=a_name(0, 256))
    key, scope, session, call = (a_name(number) for number in range(1, 5))
    names: dict[str, Any] = {"session_id": session, "actor": a_name(5, 256)}
    first = await store.propose("Rome", confidence=0.9, key=key, scope=scope, idempotency_key=call, **names)
    again = await store.propose("Rome", confidence=0.9, key=key, scope=scope, idempotency_key=call, **names)
    assert isinstance(first, Accepted)
    assert again == first
    second = await store.propose("Oslo", confidence=0.9, key=key, scope=scope, **names)
    assert isinstance(second, Accepted)
    # All but the last sign alike is another name.
    for other in (
        {"key": key[:-1] + "x", "scope": scope},
        {"key": key, "scope": scope[:-1] + "\\"},
    ):
        assert isinstance(await store.propose("Bern", confidence=0.9, **other, **names), Accepted)

    assert [span.memory.content for span in await store.timeline(key, scope=scope)] == ["Rome", "Oslo"]
    for filters, count in (({"key": key}, 3), ({"scope": scope}, 3), ({"session_id": session}, 4)):
        assert len(await store.list(limit=100, field_filters=filters)) == count
    assert len(await store.as_of().list(session_id=session, limit=100)) == 3
    now = await store.as_of().list(limit=9, field_filters={"key": key})
    assert {memory.content for memory in now} == {"Oslo", "Bern"}
    outcome = await store.outcome(call, verb="propose", actor=a_name(5, 256))
    assert outcome is not None
    assert outcome.memory_ids == (first.memory_id,)

    child = await store.propose("follows", confidence=0.9, depends_on=[first.memory_id], **names)
    assert isinstance(child, Accepted)
    await store.reject(second.memory_id, "never")
    assert isinstance(await store.propose("Oslo", confidence=0.9, key=key, scope=scope, **names), Rejected)
    assert (await store.verify()).ok
    assert (await store.replay()).identical
