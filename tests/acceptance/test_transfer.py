"""Export and import: lossless into an empty store, through the door into a used one."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from memsmith import (
    Accepted,
    ConfidenceThreshold,
    MemoryBackend,
    MemoryStatus,
    MemoryStore,
    PendingConfirmation,
    ProposalInput,
    Rejected,
    SQLiteBackend,
    StorageBackend,
)
from memsmith.errors import (
    ArgumentError,
    ImportRefusedError,
    LedgerError,
    LifetimeError,
    SecretRequiredError,
    TombstonedError,
)
from memsmith.store.merging import WAITED
from memsmith.testing.clock import ManualClock
from memsmith.types import LIVE, Memory

S = MemoryStatus
Lines = list[bytes]
MemoryIn = Callable[..., Awaitable[Memory]]

SECRET = "5ec2e7" * 8
OTHER_SECRET = "07e2" * 8


async def lines_of(store: MemoryStore) -> Lines:
    return [line async for line in store.export()]


class Stores:
    """Opens stores over named places of the backend under test."""

    def __init__(self, kind: str, folder: Path, clock: ManualClock) -> None:
        self._kind = kind
        self._folder = folder
        self._clock = clock
        self._memories: dict[str, MemoryBackend] = {}
        self._opened: list[MemoryStore] = []

    def connect(self, name: str) -> StorageBackend:
        if self._kind == "memory":
            return self._memories.setdefault(name, MemoryBackend())
        return SQLiteBackend(self._folder / f"{name}.db", durability="normal")

    async def __call__(self, name: str, *validators: Any, **options: Any) -> MemoryStore:
        store = await MemoryStore.init(self.connect(name), list(validators), clock=self._clock, **options)
        self._opened.append(store)
        return store

    async def secret_of(self, name: str) -> bytes:
        handle = self.connect(name)
        await handle.initialize()
        try:
            (secret,) = (await handle.secrets()).values()
        finally:
            if self._kind == "sqlite":
                await handle.close()
        return secret

    async def close(self) -> None:
        for store in self._opened:
            await store.close()


@pytest.fixture
async def stores(backend: Any, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Stores]:
    opened = Stores(backend.name, tmp_path, clock)
    yield opened
    await opened.close()


@pytest.fixture
async def source(store: MemoryStore, memory_in: MemoryIn, clock: ManualClock) -> MemoryStore:
    """Return a store with every status, both kinds of tombstone, and content that is easy to lose."""
    for status in S:
        if status is not S.PROPOSED:
            await memory_in(store, status, f"a thing that is {status.value}", metadata={"n": [1, None, 0.1]})
    odd = {
        "float": 1.0,
        "tiny": 5e-324,
        "big": 2**64 - 1,
        "ü": ["\u2028", "😀", "\\", None],
        "a": {"b": -0.0},
    }
    first = await store.propose(odd, "s", 2 / 3, source="web", thread_id="t", scope="user:ann", key="odd")
    clock.advance(timedelta(seconds=1))
    await store.propose(
        "depends", "s", 0.9, depends_on=[first.memory_id], sensitivity="restricted", origin="tool",
        valid_from=clock(), valid_to=clock() + timedelta(days=1), ttl=timedelta(days=2), kind="episode",
        actor="agent-7",
    )  # fmt: skip
    for value in ("a lie", "an error"):
        await store.reject((await store.propose(value, "s", 0.9)).memory_id, reason="never true")
    await store.propose("a lie", "s2", 0.9)
    await store.lift_tombstone((await store.tombstones())[-1].id, "a mistake")
    await store.update_confidence(first.memory_id, 0.7)
    return store


@pytest.fixture
async def source_secret(source: MemoryStore, open_store: Any) -> bytes:
    (secret,) = (await open_store.handles[id(source)].secrets()).values()
    return bytes(secret)


def resealed(lines: Lines) -> Lines:
    """Return lines whose trailer has the right digest again, as a careful forger would."""
    trailer = orjson.loads(lines[-1])
    trailer["sha256"] = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    return [*lines[:-1], orjson.dumps(trailer, option=orjson.OPT_SORT_KEYS) + b"\n"]


def edited(line: bytes, **changes: Any) -> bytes:
    return orjson.dumps({**orjson.loads(line), **changes}, option=orjson.OPT_SORT_KEYS) + b"\n"


def at(lines: Lines, record: str, which: int = 0) -> int:
    found = [n for n, line in enumerate(lines) if orjson.loads(line)["record"] == record]
    return found[which]


# -- verbatim -------------------------------------------------------------------------------------


async def test_an_export_imported_into_an_empty_store_is_exported_as_the_same_bytes(
    source: MemoryStore, source_secret: bytes, stores: Stores
) -> None:
    lines = await lines_of(source)
    copy = await stores("copy")
    report = await copy.import_lines(lines, secret=source_secret)
    assert report.restored
    assert await lines_of(copy) == lines
    memories, stones = await source.list(kind=None, limit=100), await source.tombstones(lifted=True)
    assert await copy.list(kind=None, limit=100) == memories
    assert await copy.tombstones(lifted=True) == stones
    assert {stone.lifted_at is None for stone in stones} == {True, False}
    assert {memory.status for memory in memories} == set(S) - {S.PROPOSED}
    assert (report.memories, report.tombstones) == (len(memories), len(stones))
    assert (await copy.verify()).ok
    assert (await copy.replay()).identical


async def test_an_export_passes_through_the_other_backend_unchanged(
    source: MemoryStore, source_secret: bytes, backend: Any, tmp_path: Path
) -> None:
    lines = await lines_of(source)
    other = MemoryBackend() if backend.name == "sqlite" else SQLiteBackend(tmp_path / "other.db")
    async with await MemoryStore.init(other) as copy:
        await copy.import_lines(lines, secret=source_secret)
        assert await lines_of(copy) == lines


async def test_each_line_is_canonical_json_and_the_header_says_how_many_there_are(
    source: MemoryStore,
) -> None:
    lines = await lines_of(source)
    records = [orjson.loads(line) for line in lines]
    for line, record in zip(lines, records, strict=True):
        assert line == orjson.dumps(record, option=orjson.OPT_SORT_KEYS) + b"\n"
    told = records[0]
    assert (told["format"], told["tenant"]) == (1, "default")
    for name, record in (("memories", "memory"), ("tombstones", "tombstone"), ("rows", "row")):
        assert told[name] == sum(r["record"] == record for r in records)
    assert len(records) == told["memories"] + told["tombstones"] + told["rows"] + 2


async def test_an_export_is_of_one_moment_however_much_is_written_meanwhile(
    source: MemoryStore, memory_in: MemoryIn
) -> None:
    quiet = await lines_of(source)
    (standing,) = await source.tombstones()
    live = await source.list("active", kind=None)
    seen: Lines = []
    async for line in source.export():
        seen.append(line)
        n = len(seen)
        await source.propose(f"new {n}", "s", 0.9)
        await source.propose("a lie", f"again {n}", 0.9)
        if live:
            await source.update_confidence(live[-1].id, 0.99)
            await source.reject(live.pop().id)
        if n == 5:
            await source.lift_tombstone(standing.id)
    assert seen == quiet
    assert not live


async def test_an_empty_store_exports_and_imports_too(stores: Stores) -> None:
    lines = await lines_of(await stores("one"))
    report = await (await stores("two")).import_lines(lines)
    assert len(lines) == 2
    assert (report.restored, report.memories, report.rows) == (True, 0, 0)


async def test_an_export_of_a_store_whose_memories_are_not_what_the_ledger_tells_is_refused(
    stores: Stores, backend: Any, tmp_path: Path
) -> None:
    store = await stores("one")
    await store.propose("x", "s", 0.9)
    if backend.name == "sqlite":
        with closing(sqlite3.connect(tmp_path / "one.db")) as connection, connection:
            connection.execute("DELETE FROM memories")
    else:
        stores.connect("one")._data("default").memories.clear()  # type: ignore[attr-defined]  # by hand
    with pytest.raises(LedgerError, match="1 memories, 0 are stored"):
        await lines_of(store)


async def test_lines_may_come_asynchronously_and_with_other_line_ends(
    source: MemoryStore, source_secret: bytes, stores: Stores
) -> None:
    lines = await lines_of(source)

    async def slowly() -> AsyncIterator[bytes]:
        for line in lines:
            await asyncio.sleep(0)
            yield line.replace(b"\n", b"\r\n")

    copy = await stores("copy")
    await copy.import_lines(slowly(), secret=source_secret)
    assert await lines_of(copy) == lines


# -- secrets --------------------------------------------------------------------------------------


async def test_a_restored_store_knows_its_values_again(
    source: MemoryStore, source_secret: bytes, stores: Stores
) -> None:
    copy = await stores("copy")
    await copy.import_lines(await lines_of(source), secret=source_secret.hex())
    for store in (copy, await stores("copy")):
        again = await store.propose(" A  LIE", "elsewhere", 0.9)
        assert isinstance(again, Rejected)
        assert again.code == "tombstoned"
        same = await store.propose("a thing that is active", "s", 0.9)
        assert isinstance(same, Rejected)
        assert same.code == "duplicate"
        new = await store.propose("another lie", "s", 0.9)
        stone_ids = {stone.secret_id for stone in await store.tombstones()}
        await store.reject(new.memory_id)
        assert {stone.secret_id for stone in await store.tombstones()} == stone_ids
        await store.lift_tombstone((await store.tombstones())[-1].id)
    assert await stores.secret_of("copy") == source_secret


async def test_without_the_secret_of_the_source_nothing_is_imported(
    source: MemoryStore, stores: Stores
) -> None:
    lines = await lines_of(source)
    copy = await stores("copy")
    own = await stores.secret_of("copy")
    for secret in (None, OTHER_SECRET, []):
        with pytest.raises(SecretRequiredError, match="memsmith secret FILE") as caught:
            await copy.import_lines(lines, secret=secret)
        assert caught.value.secret_id == orjson.loads(lines[0])["secret_id"]
    assert await copy.list(kind=None) == []
    assert await stores.secret_of("copy") == own
    with pytest.raises(ArgumentError, match="at least 16 bytes"):
        await copy.import_lines(lines, secret="short")


async def test_a_store_opened_with_the_secret_of_the_source_needs_no_other(stores: Stores) -> None:
    source = await stores("source", secret=SECRET)
    await source.propose("x", "s", 0.9)
    lines = await lines_of(source)
    copy = await stores("copy", secret=SECRET)
    assert (await copy.import_lines(lines)).restored
    assert await stores.secret_of("copy") == b""


async def test_a_secret_kept_outside_is_not_replaced(stores: Stores) -> None:
    source = await stores("source", secret=SECRET)
    await source.propose("x", "s", 0.9)
    copy = await stores("copy", secret=OTHER_SECRET)
    with pytest.raises(ImportRefusedError, match="open the empty store with"):
        await copy.import_lines(await lines_of(source), secret=SECRET)
    assert await copy.list() == []


async def test_a_secret_that_another_tenant_uses_is_not_replaced(stores: Stores) -> None:
    source = await stores("source", secret=SECRET)
    await source.propose("x", "s", 0.9)
    neighbour = await stores("copy", tenant="neighbour")
    await neighbour.propose("y", "s", 0.9)
    copy = await stores("copy")
    with pytest.raises(ImportRefusedError, match="Other tenants"):
        await copy.import_lines(await lines_of(source), secret=SECRET)
    assert await copy.list() == []
    again = await neighbour.propose("y", "s", 0.9)
    assert isinstance(again, Rejected)


async def test_an_import_that_is_cancelled_happened_wholly_or_not_at_all(
    source: MemoryStore, source_secret: bytes, stores: Stores
) -> None:
    lines = await lines_of(source)
    for steps in range(0, 30, 3):
        copy = await stores(f"copy{steps}")
        task = asyncio.create_task(copy.import_lines(lines, secret=source_secret))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        if await copy.list(kind=None):
            assert await lines_of(copy) == lines
            assert await stores.secret_of(f"copy{steps}") == source_secret
        else:
            assert (await copy.import_lines(lines, secret=source_secret)).restored


# -- refusing -------------------------------------------------------------------------------------


async def refuses(store: MemoryStore, lines: Any, secret: bytes, match: str | None = None) -> None:
    with pytest.raises(ImportRefusedError, match=match):
        await store.import_lines(lines, secret=secret)
    assert await store.list(kind=None) == []
    assert await store.audit() == []
    assert await store.tombstones(lifted=True) == []


async def test_a_file_that_was_cut_short_anywhere_is_refused(
    source: MemoryStore, source_secret: bytes, stores: Stores
) -> None:
    lines = await lines_of(source)
    copy = await stores("copy")
    for length in range(len(lines)):
        await refuses(copy, lines[:length], source_secret, "cut short")
    await refuses(copy, [*lines[:-1], lines[-1][:-20]], source_secret, f"Line {len(lines)}: expected JSON")


async def test_a_file_with_a_line_dropped_changed_swapped_or_added_is_refused(
    source: MemoryStore, source_secret: bytes, stores: Stores
) -> None:
    lines = await lines_of(source)
    copy = await stores("copy")
    for n in range(len(lines)):
        await refuses(copy, lines[:n] + lines[n + 1 :], source_secret)
        await refuses(copy, [*lines[:n], lines[n].replace(b"e", b"a", 1), *lines[n + 1 :]], source_secret)
        await refuses(copy, [*lines[: n + 1], lines[n], *lines[n + 1 :]], source_secret)
        if n:
            await refuses(copy, [*lines[: n - 1], lines[n], lines[n - 1], *lines[n + 1 :]], source_secret)


Edit = Callable[[Lines], Lines]


def _with(kind: str, which: int = 0, /, **changes: Any) -> Edit:
    def edit(lines: Lines) -> Lines:
        n = at(lines, kind, which)
        return [*lines[:n], edited(lines[n], **changes), *lines[n + 1 :]]

    return edit


def _without(record: str, counted: str) -> Edit:
    def edit(lines: Lines) -> Lines:
        n = at(lines, record)
        told = orjson.loads(lines[0])[counted] - 1
        return [edited(lines[0], **{counted: told}), *lines[1:n], *lines[n + 1 :]]

    return edit


NEW_HASH = hashlib.sha256(b'"Forged"').hexdigest()


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        (_with("header", format=2), "expected format 1, found 2"),
        (_with("header", tenant="other"), "not in stored form"),
        (_with("header", rows=1), "as the header says"),
        (_with("header", more=1), "its fields differ"),
        (_with("memory", content='"Forged"'), "another hash"),
        (_with("memory", content='"Forged"', content_hash=NEW_HASH), "not as the ledger says: content"),
        (_with("memory", content="{ }"), "not in stored form"),
        (_with("memory", content="nothing"), "not a memory as exported"),
        (_with("memory", status="retracted"), "not as the ledger says: status"),
        (_with("memory", status="proposed"), "no memory can be stored like this"),
        (_with("memory", status="unheard of"), "not a memory as exported"),
        (_with("memory", confidence=1.5), "no memory can be stored like this"),
        (_with("memory", confidence="0.5"), "confidence is '0.5'"),
        (_with("memory", confidence=1), "confidence is 1"),
        (_with("memory", version=True), "version is True"),
        (_with("memory", depends_on='["a","a"]'), "twice"),
        (_with("memory", created_at="2026-03-01 09:30"), "not a memory as exported"),
        (_with("memory", created_at="2026-03-01T09:30:00Z"), "not in stored form"),
        (_with("memory", id="another"), "in one of memories and ledger"),
        (_with("tombstone", reason="forged"), "tombstones are not as the ledger says"),
        (_with("tombstone", refused=-1), "tombstones are not as the ledger says"),
        (_with("tombstone", lifted_at=1), "lifted_at is 1"),
        (_with("tombstone", digest=None), "digest is None"),
        (_with("row", payload="{}"), "fails at row 1"),
        (_with("row", 2, to_status="retracted"), "fails at row 3"),
        (_with("row", to_status="unheard of"), "its statuses or its time"),
        (_with("row", time="today"), "not a row as exported"),
        (_with("row", seq="1"), "seq is '1'"),
        (_with("row", -1, actor="somebody"), "fails at row"),
        (_with("trailer", count=1), "The ledger of the file fails"),
        (_with("trailer", hash="0" * 64), "The ledger of the file fails"),
        (_with("row", record="novelty"), "a record of a known kind, found 'novelty'"),
        (_with("row", record=["row"]), "a record of a known kind"),
        (_without("memory", "memories"), "in one of memories and ledger"),
        (_without("tombstone", "tombstones"), "tombstones are not as the ledger says"),
        (_without("row", "rows"), "fails at row 1"),
    ],
)
async def test_a_forged_file_is_refused_though_its_seal_is_right(
    source: MemoryStore, source_secret: bytes, stores: Stores, edit: Edit, match: str
) -> None:
    lines = await lines_of(source)
    await refuses(await stores("copy"), resealed(edit(lines)), source_secret, match)


@pytest.mark.parametrize(
    "lines", [[b"\n"], [b"[]\n"], [b"\xff\xfe\n"], [b"{}\n"], [b'{"record":"row"}\n'], []]
)
async def test_what_is_no_export_is_refused(stores: Stores, lines: Lines) -> None:
    await refuses(await stores("copy"), lines, b"x" * 16)


@pytest.mark.parametrize("lines", [None, "text", b"bytes", ["text"], [1], 5])
async def test_lines_that_are_no_lines_of_bytes_are_an_argument_error(stores: Stores, lines: Any) -> None:
    with pytest.raises(ArgumentError, match="lines of bytes"):
        await (await stores("copy")).import_lines(lines)


async def test_an_empty_ledger_with_a_head_that_names_rows_is_refused(stores: Stores) -> None:
    lines = await lines_of(await stores("one"))
    await refuses(
        await stores("two"), resealed([lines[0], edited(lines[1], count=3)]), b"x" * 16, "not there"
    )


async def test_an_import_makes_its_own_transaction(stores: Stores) -> None:
    lines = await lines_of(await stores("one"))
    store = await stores("two")
    async with store.transaction():
        with pytest.raises(LifetimeError):
            await store.import_lines(lines)


# -- through the door -----------------------------------------------------------------------------


async def settled(store: MemoryStore) -> tuple[Any, Any]:
    return await store.list(kind=None, limit=5000), await store.tombstones(lifted=True)


async def test_into_a_used_store_live_memories_are_proposed_as_they_were(
    source: MemoryStore, source_secret: bytes, stores: Stores
) -> None:
    used = await stores("used")
    await used.propose("already here", "s", 0.9)
    report = await used.import_lines(await lines_of(source), secret=source_secret)
    there = [m for m in await source.list(kind=None, limit=100) if m.status in LIVE]
    here = {
        m.metadata["imported_from"]["id"]: m
        for m in await used.list(kind=None, limit=100)
        if "imported_from" in m.metadata and m.status is not S.REJECTED
    }
    assert not report.restored
    assert report.outcomes == {"accepted": 3, "pending": 1}
    assert report.left_out == {
        "expired": 1, "superseded": 1, "rejected": 2, "retracted": 3, "quarantined": 1, "erased": 1,
        "lifted": 1,
    }  # fmt: skip
    assert report.planted == 1
    assert report.refused == ()
    assert here.keys() == {memory.id for memory in there}
    kept = (
        "content", "session_id", "thread_id", "scope", "key", "kind", "origin", "confidence", "source",
        "valid_from", "valid_to", "expires_at", "sensitivity", "actor", "status", "content_hash",
    )  # fmt: skip
    for memory in there:
        ours = here[memory.id]
        assert [getattr(ours, name) for name in kept] == [getattr(memory, name) for name in kept]
        whence = ours.metadata["imported_from"]
        assert ours.metadata == {**memory.metadata, "imported_from": whence}
        assert whence["tenant"] == "default"
        assert whence["created_at"].startswith("2026-03-01T09:3")
        assert ours.depends_on == [here[parent].id for parent in memory.depends_on]
    assert any(memory.depends_on for memory in here.values())
    assert (await used.verify()).ok
    assert (await used.replay()).identical


async def test_a_second_import_adds_nothing(
    source: MemoryStore, source_secret: bytes, stores: Stores
) -> None:
    lines = await lines_of(source)
    used = await stores("used")
    await used.propose("already here", "s", 0.9)
    await used.import_lines(lines, secret=source_secret)
    before, audit = await settled(used), await used.audit(limit=1000)
    again = await used.import_lines(lines, secret=source_secret)
    assert again.outcomes == {"duplicate": 4}
    assert again.planted == 0
    assert await settled(used) == before
    assert await used.audit(limit=1000) == audit


async def test_a_value_rejected_there_is_blocked_here(
    source: MemoryStore, source_secret: bytes, stores: Stores
) -> None:
    lines = await lines_of(source)
    used = await stores("used")
    held = await used.propose({"draft": True}, "s", 0.9)
    with pytest.raises(SecretRequiredError):
        await used.import_lines(lines)
    assert len(await used.list(kind=None)) == 1
    await used.import_lines(lines, secret=source_secret)
    (stone,) = await used.tombstones()
    assert stone.id == (await source.tombstones())[0].id
    for store in (used, await stores("used")):
        refused = await store.propose("a  Lie", "any", 0.9)
        assert isinstance(refused, Rejected)
        assert refused.tombstone_id == stone.id
        assert isinstance(await store.propose("an error", f"any{id(store)}", 0.9), Accepted)
    with pytest.raises(TombstonedError):
        await used.revise(held.memory_id, "a lie")
    bearer = await used.get(stone.memory_id)
    assert bearer is not None
    assert (bearer.status, bearer.content, bearer.code) == (S.REJECTED, None, "tombstoned")
    assert (await used.verify()).ok
    assert (await used.replay()).identical


async def test_an_imported_tombstone_that_was_lifted_here_stays_lifted(
    source: MemoryStore, source_secret: bytes, stores: Stores
) -> None:
    lines = await lines_of(source)
    used = await stores("used")
    await used.propose("already here", "s", 0.9)
    await used.import_lines(lines, secret=source_secret)
    (stone,) = await used.tombstones()
    await used.lift_tombstone(stone.id)
    assert (await used.import_lines(lines, secret=source_secret)).planted == 0
    assert await used.tombstones() == []
    assert isinstance(await used.propose("a lie", "s9", 0.9), Accepted)


async def test_a_value_that_is_blocked_here_already_is_not_blocked_twice(stores: Stores) -> None:
    one, two = await stores("one", secret=SECRET), await stores("two", secret=SECRET)
    for store in (one, two):
        await store.reject((await store.propose("a lie", "s", 0.9)).memory_id)
    assert (await two.import_lines(await lines_of(one))).planted == 0
    assert len(await two.tombstones()) == 1


async def test_a_tombstone_here_refuses_what_a_file_brings(stores: Stores) -> None:
    one, two = await stores("one"), await stores("two")
    kept = await one.propose("a lie", "s", 0.9)
    await two.reject((await two.propose("A lie", "t", 0.9)).memory_id, "we know better")
    report = await two.import_lines(await lines_of(one))
    (refusal,) = report.refused
    assert (refusal.memory_id, refusal.code) == (kept.memory_id, "tombstoned")
    assert "we know better" in refusal.reason
    assert report.outcomes == {"tombstoned": 1}
    assert await two.list("active") == []


async def test_the_validators_of_the_store_judge_what_a_file_brings(stores: Stores) -> None:
    one = await stores("one")
    await one.propose("sure", "s", 0.9)
    doubtful = await one.propose("doubtful", "s", 0.1)
    too_long = await one.propose("long" * 100, "s2", 0.9)

    two = await stores("two", ConfidenceThreshold(0.5), max_content_bytes=100)
    await two.propose("already here", "s", 0.9)
    report = await two.import_lines(await lines_of(one))
    assert report.outcomes == {"accepted": 1, "pending": 1, "argument": 1}
    (refusal,) = report.refused
    assert (refusal.memory_id, refusal.code) == (too_long.memory_id, "argument")
    (waiting,) = await two.list("pending_confirmation")
    assert waiting.metadata["imported_from"]["id"] == doubtful.memory_id


async def test_what_waited_for_a_person_there_waits_here_too(stores: Stores) -> None:
    strict, lax = await stores("strict", ConfidenceThreshold(0.5)), await stores("lax")
    assert isinstance(await strict.propose("maybe", "s", 0.1, actor="agent"), PendingConfirmation)
    await lax.propose("already here", "s", 0.9)
    report = await lax.import_lines(await lines_of(strict))
    assert report.outcomes == {"pending": 1}
    (waiting,) = await lax.list("pending_confirmation")
    assert (await lax.audit(waiting.id))[0].metadata["errors"] == [WAITED]
    assert waiting.actor == "agent"


async def test_links_to_memories_that_were_left_out_are_kept_in_the_metadata(stores: Stores) -> None:
    one, two = await stores("one"), await stores("two")
    gone = await one.propose("premise", "s", 0.9)
    stays = await one.propose("other premise", "s", 0.9)
    await one.propose("conclusion", "s", 0.9, depends_on=[gone.memory_id, stays.memory_id])
    await one.retract(gone.memory_id)
    ours = await two.propose("other premise", "s", 0.9)
    report = await two.import_lines(await lines_of(one))
    assert report.outcomes == {"duplicate": 1, "accepted": 1}
    conclusion = (await two.list())[-1]
    assert conclusion.depends_on == [ours.memory_id]
    assert conclusion.metadata["imported_from"]["depends_on"] == [gone.memory_id]
    assert [m.id for m in await two.dependants(ours.memory_id)] == [conclusion.id]


async def test_what_ran_out_meanwhile_is_left_out(stores: Stores, clock: ManualClock) -> None:
    one, two = await stores("one"), await stores("two")
    await one.propose("soon over", "s", 0.9, ttl=timedelta(minutes=1))
    await two.propose("already here", "s", 0.9)
    clock.advance(timedelta(minutes=2))
    assert (await two.import_lines(await lines_of(one))).left_out == {"over": 1}


async def test_a_file_of_another_tenant_comes_in_through_the_door(stores: Stores) -> None:
    one = await stores("one", tenant="acme")
    await one.propose("x", "s", 0.9)
    two = await stores("two")
    report = await two.import_lines(await lines_of(one))
    assert (report.restored, report.outcomes) == (False, {"accepted": 1})
    (memory,) = await two.list()
    assert (memory.tenant, memory.metadata["imported_from"]["tenant"]) == ("default", "acme")


async def test_more_than_a_unit_of_memories_comes_in_whole(stores: Stores) -> None:
    one, two = await stores("one"), await stores("two")
    await one.propose_many([ProposalInput(f"value {n}", 0.9) for n in range(1200)], "s")
    last = await one.propose("last", "s", 0.9, depends_on=[(await one.list(limit=1))[0].id])
    await two.propose("value 7", "s", 0.9)
    heard: list[str] = []

    async def hear(memory_id: str, before: MemoryStatus, after: MemoryStatus) -> None:
        heard.append(after)

    two.on_transition(hear)
    report = await two.import_lines(await lines_of(one))
    assert report.outcomes == {"accepted": 1200, "duplicate": 1}
    assert heard == ["active"] * 1200
    found = await two.list(limit=2000)
    assert len(found) == 1201
    parent = next(m for m in found if m.content == "value 0")
    child = next(m for m in found if m.metadata.get("imported_from", {}).get("id") == last.memory_id)
    assert child.depends_on == [parent.id]
    assert (await two.verify()).ok
