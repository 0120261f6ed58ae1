"""Run by memsmith 0.1.0: writes a store with every status and says what is in it. Arguments: FILE [kill]."""

import asyncio
import json
import os
import sys
from datetime import UTC, datetime, timedelta
from importlib.metadata import version

import memsmith
from memsmith import MemoryStore, ProposalInput, SQLiteBackend, ValidationResult, ValidatorSpec


async def refuse(memory):
    return ValidationResult(passed="wrong" not in str(memory.content), errors=["it is wrong"])


async def hold(memory):
    return ValidationResult(passed="unsure" not in str(memory.content), errors=["it is unsure"])


async def heard(memory_id, before, after):
    """Stand in for the hooks of a real program."""


async def write(path):
    backend = SQLiteBackend(path)
    validators = [ValidatorSpec(fn=refuse, critical=True), ValidatorSpec(fn=hold)]
    store = await MemoryStore.init(storage=backend, validators=validators, hooks=[heard])
    odd = {"float": 1.0, "tiny": 5e-324, "big": 2**63, "ü": ["\u2028", "😀", None], "when": datetime.now(UTC)}
    first = await store.propose(odd, "s1", 0.7, thread_id="t1", source="web")
    await store.update_confidence(first.memory_id, 0.8)
    await store.revise(first.memory_id, {**odd, "n": 2}, "it moved on")
    await store.propose("wrong", "s1", 0.7)
    await store.propose("unsure", "s1", 0.7)
    confirmed = await store.propose("unsure, then sure", "s1", 0.7)
    await store.confirm(confirmed.memory_id)
    rejected = await store.propose("unsure, then no", "s2", 0.7)
    await store.reject(rejected.memory_id, "never true")
    retracted = await store.propose("true for a while", "s2", 1)
    await store.retract(retracted.memory_id)
    await store.propose_many([ProposalInput(f"one of many: {n}", n / 12) for n in range(12)], "s3", "t3")
    for content in ("short-lived", "longer-lived"):
        await store.propose(content, "s4", 0.5)
    # 0.1.0 has columns that none of its calls fills: programs did, by SQL of their own.
    ends = [(timedelta(hours=-1), "short-lived"), (timedelta(days=900), "longer-lived")]
    for span, content in ends:
        end = (datetime.now(UTC) + span).isoformat()
        await backend._conn.execute(
            "UPDATE memories SET expires_at = ? WHERE content = ?", (end, json.dumps(content))
        )
    await backend._conn.execute(
        "UPDATE memories SET depends_on = ? WHERE id = ?",
        (json.dumps([first.memory_id, "gone"]), confirmed.memory_id),
    )
    await backend._conn.execute(
        "UPDATE memories SET retracted_at = ? WHERE id = ?",
        (datetime.now(UTC).isoformat(), retracted.memory_id),
    )
    await backend._conn.commit()
    await store.expire_batch()
    memories = [json.loads(m.model_dump_json()) for m in await store.list(limit=1000)]
    audit = [
        {
            "id": e.id, "memory_id": e.memory_id, "action": e.action, "metadata": e.metadata,
            "from_status": e.from_status and e.from_status.value,
            "to_status": e.to_status and e.to_status.value, "timestamp": e.timestamp.isoformat(),
        }
        for e in await store.audit(limit=1000)
    ]  # fmt: skip
    json.dump({"version": version("memsmith"), "memories": memories, "audit": audit}, sys.stdout)
    sys.stdout.flush()
    if sys.argv[2:] == ["kill"]:
        os._exit(0)
    await store.close()


assert not hasattr(memsmith, "MemoryBackend"), "this is not 0.1.0"
asyncio.run(write(sys.argv[1]))
