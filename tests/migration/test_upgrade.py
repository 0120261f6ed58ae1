"""`upgrade` turns a file of memsmith 0.1.0 into ours: all of it, or not at all."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from memsmith import MemoryBackend, MemoryStatus, MemoryStore, Rejected, SQLiteBackend, connect
from memsmith.backends.sqlite import legacy
from memsmith.connect import upgrade
from memsmith.errors import (
    DamagedDatabaseError,
    ImportRefusedError,
    InvalidTransitionError,
    LedgerError,
    LegacyDatabaseError,
    NotAMemsmithDatabaseError,
    StorageError,
    StoreBusyError,
)
from memsmith.store.upgrading import take_over
from memsmith.types import Memory

TIMES = ("created_at", "updated_at", "expires_at", "retracted_at")
SAME = (
    "id", "content", "session_id", "thread_id", "source", "confidence", "depends_on", "retraction_reason",
)  # fmt: skip

Write = Callable[..., Any]


def at(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def content_of(path: Path) -> tuple[list[Any], list[Any]]:
    """Return the rows of a 0.1.0 file."""
    with closing(sqlite3.connect(path)) as connection:
        return tuple(  # type: ignore[return-value]  # two lists
            connection.execute(f"SELECT * FROM {table} ORDER BY id").fetchall()
            for table in ("memories", "audit_log")
        )


def beside(path: Path) -> set[str]:
    return {entry.name for entry in path.parent.iterdir() if entry.name.startswith(path.name)}


@pytest.fixture(params=[False, True], ids=["closed", "killed"])
def old(request: pytest.FixtureRequest, written_by_0_1_0: Write) -> Any:
    """Return a file of 0.1.0: one that was closed, and one whose last commits lie in its WAL."""
    return written_by_0_1_0(killed=request.param)


async def everything(path: Path) -> dict[str, Memory]:
    async with await MemoryStore.init(SQLiteBackend(path)) as store:
        return {memory.id: memory for memory in await store.list(limit=1000, kind=None)}


async def test_every_memory_is_carried_over_as_it_was(old: Any) -> None:
    report = await upgrade(old.path)
    found = await everything(old.path)
    assert found.keys() == {memory["id"] for memory in old.memories}
    assert {memory["status"] for memory in old.memories} == {
        "active", "expired", "pending_confirmation", "rejected", "retracted",
    }  # fmt: skip
    for memory in old.memories:
        ours = found[memory["id"]]
        assert {name: getattr(ours, name) for name in SAME} == {name: memory[name] for name in SAME}
        assert {name: getattr(ours, name) for name in TIMES} == {n: at(memory[n]) for n in TIMES}
        assert ours.status.value == memory["status"]
        assert ours.valid_from == ours.created_at
    assert report.memories == len(found)
    assert sum(report.statuses.values()) == report.memories
    assert report.statuses["pending_confirmation"] == 1
    assert report.skipped == {}


async def test_the_audit_trail_is_history_in_the_ledger(old: Any) -> None:
    report = await upgrade(old.path)
    async with await MemoryStore.init(SQLiteBackend(old.path)) as store:
        entries = await store.audit(limit=1000)
        assert (await store.verify()).ok
        assert (await store.replay()).identical
    imported = entries[: len(old.memories)]
    history = entries[len(old.memories) :]
    assert len(history) == report.history == len(old.audit)
    for ours, theirs in zip(history, old.audit, strict=True):
        whence = ours.metadata["imported_from"]
        assert whence["id"] == theirs["id"]
        assert at(whence["timestamp"]) == at(theirs["timestamp"])
        assert ours.metadata == {**theirs["metadata"], "imported_from": whence}
        assert (ours.memory_id, ours.action, ours.actor) == (theirs["memory_id"], theirs["action"], "upgrade")
        if theirs["action"] == "confidence_updated":
            assert (theirs["from_status"], theirs["to_status"]) == (None, None)
            assert (ours.from_status, ours.to_status) == ("active", "active")
        else:
            assert (ours.from_status, ours.to_status) == (theirs["from_status"], theirs["to_status"])
    now = {memory["id"]: memory["status"] for memory in old.memories}
    assert {entry.memory_id: entry.to_status for entry in imported} == now
    assert {(entry.action, entry.from_status) for entry in imported} == {("imported", "proposed")}


async def test_the_copy_is_the_old_file_and_nothing_else_stays_beside(old: Any) -> None:
    report = await upgrade(old.path)
    assert report.backup.name == "old.db.0.1.0.bak"
    memories, audit = content_of(report.backup)
    assert [row[0] for row in memories] == sorted(memory["id"] for memory in old.memories)
    assert [row[0] for row in audit] == sorted(entry["id"] for entry in old.audit)
    assert beside(old.path) == {"old.db", "old.db-lock", "old.db.0.1.0.bak"}


async def test_an_upgraded_store_goes_on_governing(written_by_0_1_0: Write) -> None:
    old = written_by_0_1_0()
    await upgrade(old.path)
    async with await MemoryStore.init(SQLiteBackend(old.path)) as store:
        again = await store.propose("one of many: 1", "s3", 0.9)
        assert isinstance(again, Rejected)
        assert again.code == "duplicate"
        (pending,) = await store.list("pending_confirmation")
        await store.reject(pending.id, "never true")
        blocked = await store.propose("UNSURE", "another", 0.9)
        assert isinstance(blocked, Rejected)
        assert blocked.code == "tombstoned"
        (parent,) = await store.list(session_id="s1", field_filters={"thread_id": "t1"})
        assert [m.content for m in await store.dependants(parent.id)] == ["unsure, then sure"]
        assert [entry.action for entry in await store.audit(parent.id)] == [
            "imported", "revised", "confidence_updated", "proposed",
        ]  # fmt: skip
        assert (await store.verify()).ok
        assert (await store.replay()).identical


async def test_a_secret_and_a_tenant_of_ones_own_are_taken(written_by_0_1_0: Write) -> None:
    old = written_by_0_1_0()
    await upgrade(old.path, secret="kept outside, 0123456789", tenant="acme")
    with closing(sqlite3.connect(old.path)) as connection:
        assert connection.execute("SELECT secret FROM secrets").fetchall() == [(None,)]
    store = await MemoryStore.init(SQLiteBackend(old.path), secret="kept outside, 0123456789", tenant="acme")
    async with store:
        assert len(await store.list(limit=100)) == len(old.memories)


async def test_the_mode_of_the_file_is_kept(written_by_0_1_0: Write) -> None:
    old = written_by_0_1_0()
    old.path.chmod(0o640)
    report = await upgrade(old.path)
    assert [path.stat().st_mode & 0o777 for path in (old.path, report.backup)] == [0o640, 0o640]


async def test_a_link_leads_to_the_file_that_is_upgraded(written_by_0_1_0: Write, tmp_path: Path) -> None:
    old = written_by_0_1_0()
    link = tmp_path / "link.db"
    link.symlink_to(old.path)
    await upgrade(link)
    assert link.is_symlink()
    assert len(await everything(old.path)) == len(old.memories)


# -- refusing -------------------------------------------------------------------------------------


async def test_opening_a_file_of_0_1_0_leaves_it_untouched(old: Any) -> None:
    kept = {name: (old.path.parent / name).read_bytes() for name in beside(old.path) if "-shm" not in name}
    with pytest.raises(LegacyDatabaseError, match="memsmith upgrade"):
        await MemoryStore.init(SQLiteBackend(old.path))
    assert {name: (old.path.parent / name).read_bytes() for name in kept} == kept


async def test_an_upgraded_file_is_not_upgraded_again(written_by_0_1_0: Write) -> None:
    old = written_by_0_1_0()
    await upgrade(old.path)
    with pytest.raises(NotAMemsmithDatabaseError, match=r"expected a database of memsmith 0\.1\.0"):
        await upgrade(old.path)
    assert len(await everything(old.path)) == len(old.memories)


async def test_a_missing_file_and_one_of_another_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="there is no file"):
        await upgrade(tmp_path / "none.db")
    text = tmp_path / "notes.txt"
    text.write_text("no database at all" * 10)
    with pytest.raises(NotAMemsmithDatabaseError):
        await upgrade(text)
    assert {entry.name for entry in tmp_path.iterdir()} == {"notes.txt"}


async def test_a_copy_that_is_in_the_way_is_not_overwritten(written_by_0_1_0: Write) -> None:
    old = written_by_0_1_0()
    bytes_before = old.path.read_bytes()
    in_the_way = old.path.with_name("old.db.0.1.0.bak")
    in_the_way.write_text("precious")
    with pytest.raises(StorageError, match="in the way"):
        await upgrade(old.path)
    assert in_the_way.read_text() == "precious"
    assert old.path.read_bytes() == bytes_before


BAD = [
    ("content = '\"  \"'", "content that says something"),
    ("content = '[NaN]'", "a finite number"),
    ("content = '[1e999]'", "a finite number"),
    ("content = '\"\\ud800\"'", "lone surrogates"),
    ("content = 'not json'", "Expecting value"),
    ("content = '[' || replace(hex(zeroblob(80)), '00', '[') || replace(hex(zeroblob(80)), '00', ']') || ']'",
     "nesting"),
    ("content = '[18446744073709551616]'", "64 bits"),
    ("content = x'00'", "JSON text"),
    ("confidence = 1.5", "between 0 and 1"),
    ("confidence = 'high'", "between 0 and 1"),
    ("status = 'proposed'", "one a memory can rest in"),
    ("status = 'thinking'", "not a valid MemoryStatus"),
    ("depends_on = '{}'", "a list of ids"),
    ("depends_on = '[1]'", "depends_on"),
    ("created_at = 'yesterday'", "yesterday"),
    ("expires_at = 5.5", "5.5"),
    ("updated_at = x'00'", "ISO 8601"),
]  # fmt: skip


async def test_what_no_memory_can_be_refuses_the_upgrade_unless_it_may_be_skipped(
    written_by_0_1_0: Write,
) -> None:
    old = written_by_0_1_0()
    victims = [memory["id"] for memory in old.memories]
    entries = [entry["id"] for entry in old.audit]
    with closing(sqlite3.connect(old.path)) as connection, connection:
        for (damage, _), victim in zip(BAD, victims, strict=False):
            connection.execute(f"UPDATE memories SET {damage} WHERE id = ?", (victim,))
        connection.execute("UPDATE audit_log SET metadata = '[]' WHERE id = ?", (entries[0],))
        connection.execute("UPDATE audit_log SET to_status = 'odd' WHERE id = ?", (entries[1],))
    rows, names = content_of(old.path), beside(old.path)
    with pytest.raises(ImportRefusedError, match="skip_bad=True") as caught:
        await upgrade(old.path)
    bad = victims[: len(BAD)]
    assert len(bad) == len(BAD)
    assert [ident for ident in (*bad, *entries[:2]) if ident not in str(caught.value)] == []
    assert content_of(old.path) == rows
    assert beside(old.path) - names <= {"old.db-lock"}

    report = await upgrade(old.path, skip_bad=True)
    assert report.skipped.keys() == {*bad, *entries[:2]}
    for ident, (damage, why) in zip(bad, BAD, strict=False):
        assert why in report.skipped[ident], damage
    found = await everything(old.path)
    assert found.keys() == set(victims) - set(bad)
    assert content_of(report.backup) == rows


async def test_nulls_naive_times_and_orphans_are_carried_over(written_by_0_1_0: Write) -> None:
    old = written_by_0_1_0()
    ident = old.memories[0]["id"]
    with closing(sqlite3.connect(old.path)) as connection, connection:
        connection.execute(
            "UPDATE memories SET expires_at = '2030-01-01T00:00:00', depends_on = NULL WHERE id = ?", (ident,)
        )
        connection.execute(
            "INSERT INTO audit_log VALUES ('a1', 'nobody', 'wondered', NULL, NULL, '2026-01-01T00:00', NULL)"
        )
    await upgrade(old.path)
    async with await MemoryStore.init(SQLiteBackend(old.path)) as store:
        memory = await store.get(ident)
        assert memory is not None
        assert str(memory.expires_at) == "2030-01-01 00:00:00+00:00"
        assert memory.depends_on == []
        (orphan,) = await store.audit("nobody")
        assert (orphan.action, orphan.to_status) == ("wondered", MemoryStatus.ACTIVE)
        assert (await store.replay()).identical


async def test_a_file_that_is_open_elsewhere_is_not_replaced(
    written_by_0_1_0: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = written_by_0_1_0()
    monkeypatch.setattr(legacy, "BUSY_SECONDS", 0.05)
    with closing(sqlite3.connect(old.path)) as other:
        other.execute("SELECT count(*) FROM memories").fetchone()
        with pytest.raises(StoreBusyError, match="open elsewhere, or was written"):
            await upgrade(old.path)
    assert not old.path.with_name("old.db.0.1.0.bak").exists()
    await upgrade(old.path)
    assert len(await everything(old.path)) == len(old.memories)


async def test_a_file_that_was_written_to_meanwhile_is_not_replaced(
    written_by_0_1_0: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = written_by_0_1_0()
    finish = legacy.finish

    def write_first(site: legacy.Site) -> None:
        with closing(sqlite3.connect(old.path)) as other, other:
            other.execute("UPDATE memories SET source = 'late'")
        finish(site)

    monkeypatch.setattr(legacy, "finish", write_first)
    with pytest.raises(StoreBusyError, match="written to meanwhile: close it"):
        await upgrade(old.path)
    monkeypatch.setattr(legacy, "finish", finish)
    await upgrade(old.path)
    assert {memory.source for memory in (await everything(old.path)).values()} == {"late"}


async def test_a_truncated_file_is_refused_and_left_as_it_is(written_by_0_1_0: Write) -> None:
    old = written_by_0_1_0()
    whole = old.path.read_bytes()
    old.path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StorageError):
        await upgrade(old.path)
    assert old.path.read_bytes() == whole[: len(whole) // 2]
    assert beside(old.path) <= {"old.db", "old.db-lock"}


async def test_a_damaged_file_is_refused_and_left_as_it_is(written_by_0_1_0: Write) -> None:
    old = written_by_0_1_0()
    damaged = bytearray(old.path.read_bytes())
    damaged[4096 * 2 : 4096 * 2 + 8] = b"\xff" * 8
    for content in (bytes(damaged), bytes(damaged[: 4096 * 3]) + b"\xff" * (len(damaged) - 4096 * 3)):
        old.path.write_bytes(content)
        with pytest.raises(DamagedDatabaseError):
            await upgrade(old.path)
        assert old.path.read_bytes() == content
        assert beside(old.path) <= {"old.db", "old.db-lock"}


async def test_a_new_file_that_does_not_hold_never_takes_the_place_of_the_old_one(
    written_by_0_1_0: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = written_by_0_1_0()
    take_over = connect.take_over

    async def lose_one(*given: Any, **more: Any) -> None:
        await take_over(*given[:3], given[3][1:], *given[4:], **more)

    monkeypatch.setattr(connect, "take_over", lose_one)
    rows = content_of(old.path)
    with pytest.raises(LedgerError, match="the old file was kept"):
        await upgrade(old.path)
    assert content_of(old.path) == rows
    assert beside(old.path) <= {"old.db", "old.db-lock"}


async def test_an_upgrade_that_is_cancelled_is_seen_through(written_by_0_1_0: Write) -> None:
    old = written_by_0_1_0()
    task = asyncio.create_task(upgrade(old.path))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert len(await everything(old.path)) == len(old.memories)
    assert beside(old.path) == {"old.db", "old.db-lock", "old.db.0.1.0.bak"}


async def test_a_memory_no_lifecycle_allows_is_not_taken_over() -> None:
    backend = MemoryBackend()
    await backend.initialize()
    memory = await a_memory()
    with pytest.raises(InvalidTransitionError):
        await take_over(backend, "default", None, [memory.evolve({"status": MemoryStatus.PROPOSED})], [])
    assert await backend.head("default") is None


async def test_a_memory_of_any_session_that_0_1_0_took_can_be_revised() -> None:
    backend = MemoryBackend()
    await backend.initialize()
    memory = (await a_memory()).evolve({"session_id": "", "thread_id": "t" * 3000, "source": "s" * 3000})
    await take_over(backend, "default", None, [memory], [])
    async with await MemoryStore.init(backend) as store:
        assert (await store.revise(memory.id, "y")).content == "y"


async def a_memory() -> Memory:
    async with await MemoryStore.init(MemoryBackend()) as store:
        return (await store.propose("x", "s", 0.9)).memory


# -- being killed ---------------------------------------------------------------------------------

KILLED = """
import asyncio, os, sqlite3, sys
from memsmith.connect import upgrade
from memsmith.store import upgrading

path, step, when = sys.argv[1], sys.argv[2], int(sys.argv[3])
owner, _, name = step.rpartition(".")
module = {"os": os, "upgrading": upgrading}[owner]
real = getattr(module, name)
calls = 0

def die(*args, **options):
    global calls
    calls += 1
    if calls == when:
        os._exit(9)
    return real(*args, **options)

setattr(module, name, die)
asyncio.run(upgrade(path))
"""


@pytest.mark.parametrize(
    ("step", "when", "done"),
    [
        ("upgrading.open_secrets", 1, False),
        ("upgrading.statuses_of", 1, False),
        ("os.fsync", 1, False),
        ("os.link", 1, False),
        ("os.fsync", 3, False),
        ("os.replace", 1, False),
        ("os.fsync", 4, True),
    ],
)
async def test_killed_at_any_step_the_old_file_or_the_new_one_is_whole_and_it_can_be_run_again(
    written_by_0_1_0: Write, step: str, when: int, done: bool
) -> None:
    old = written_by_0_1_0()
    rows = content_of(old.path)
    command = [sys.executable, "-c", KILLED, str(old.path), step, str(when)]
    ran = await asyncio.to_thread(subprocess.run, command, check=False, timeout=60)
    assert ran.returncode == 9
    if not done:
        assert content_of(old.path) == rows
        await upgrade(old.path)
    assert len(await everything(old.path)) == len(old.memories)
    assert content_of(old.path.with_name("old.db.0.1.0.bak")) == rows
    if not done:
        assert beside(old.path) == {"old.db", "old.db-lock", "old.db.0.1.0.bak"}


def test_the_file_the_tests_upgrade_is_one_of_0_1_0(written_by_0_1_0: Write) -> None:
    old = written_by_0_1_0()
    with closing(sqlite3.connect(old.path)) as connection:
        (text,) = connection.execute(
            "SELECT content FROM memories WHERE id = ?", (old.memories[0]["id"],)
        ).fetchone()
    assert json.loads(text)["n"] == 2
    assert os.path.getsize(old.path) > 0
