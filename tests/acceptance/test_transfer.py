"""Export, and import into an empty store: nothing is lost, and a file that is off is refused as a whole."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from backends import KINDS, ON_DISK, Place
from stores_apart import OTHER_SECRET, SECRET, Lines, Stores, lines_of

from memsmith import MemoryStatus, MemoryStore, Rejected
from memsmith.errors import (
    ArgumentError,
    ImportRefusedError,
    LedgerError,
    LifetimeError,
    SecretRequiredError,
)
from memsmith.ledger.entry import GENESIS, seal
from memsmith.types import Memory

S = MemoryStatus
MemoryIn = Callable[..., Awaitable[Memory]]


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


async def test_an_export_passes_through_the_other_backends_unchanged(
    source: MemoryStore, source_secret: bytes, backend: Any, tmp_path: Path
) -> None:
    lines = await lines_of(source)
    for kind in set(KINDS) - {backend.name}:
        folder = tmp_path / kind
        folder.mkdir()
        async with await MemoryStore.init(Place(kind, folder).connect()) as copy:
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
    stores: Stores, backend: Any
) -> None:
    store = await stores("one")
    await store.propose("x", "s", 0.9)
    if backend.name == "memory":
        stores.connect("one")._data("default").memories.clear()  # type: ignore[attr-defined]  # by hand
    else:
        with stores.place("one").raw() as raw:
            raw.execute("DELETE FROM memories")
    with pytest.raises(LedgerError, match="1 memories, 0 are stored"):
        await lines_of(store)


@pytest.mark.parametrize(
    ("kind", "damage", "match"),
    [
        ("sqlite", "UPDATE audit_log SET actor = CAST(x'ff' AS TEXT) WHERE seq = 1", "can't be exported"),
        *((kind, "DELETE FROM audit_log WHERE seq = 2", "found none after 1") for kind in ON_DISK),
    ],
)
async def test_an_export_of_a_damaged_ledger_is_refused(
    tmp_path: Path, kind: str, damage: str, match: str
) -> None:
    place = Place(kind, tmp_path)
    async with await MemoryStore.init(place.connect()) as store:
        for content in "ab":
            await store.propose(content, "s", 0.9)
        with place.tampered() as raw:
            raw.execute(damage)
        with pytest.raises(LedgerError, match=match):
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


async def test_an_import_that_is_cancelled_while_the_file_is_checked_did_not_happen(
    source: MemoryStore, source_secret: bytes, stores: Stores
) -> None:
    lines = await lines_of(source)
    copy = await stores("copy")
    task = asyncio.create_task(copy.import_lines(lines, secret=source_secret))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert await copy.list(kind=None) == []
    assert (await copy.import_lines(lines, secret=source_secret)).restored


async def test_an_import_that_is_cancelled_while_it_writes_happened_wholly(
    source: MemoryStore, source_secret: bytes, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = await lines_of(source)
    copy = await stores("copy")
    handle = stores.handles[id(copy)]
    restore, begun = handle.restore, asyncio.Event()

    async def slowly(*args: Any) -> None:
        begun.set()
        await asyncio.sleep(0)
        await restore(*args)

    monkeypatch.setattr(handle, "restore", slowly)
    task = asyncio.create_task(copy.import_lines(lines, secret=source_secret))
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert await lines_of(copy) == lines
    assert await stores.secret_of("copy") == source_secret


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
        (_with("tombstone", created_at="2026-03-01T09:30:00Z"), "not in stored form"),
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


async def test_a_chain_that_holds_but_tells_what_no_memory_can_be_is_refused(stores: Stores) -> None:
    header, trailer = await lines_of(await stores("one"))
    time = "2026-03-01T09:30:00.000000Z"
    for payload in (b"[]", b'{"refused_by":"nobody"}', b'{"set":{"confidence":"high"}}'):
        (row,) = seal(
            "default", [("m", "proposed", "proposed", "active", time, "owner", payload)], 0, GENESIS
        )
        line = edited(b"{}", record="row", **row._asdict())
        forged = [edited(header, rows=1), line]
        forged = resealed([*forged, edited(trailer, count=1, hash=row.hash)])
        await refuses(await stores("two"), forged, b"x" * 16, "can't be replayed")


@pytest.mark.parametrize(
    ("move", "match"),
    [
        (("confirmed", "rejected", "active"), "row 2: expected a move from active, found rejected"),
        (("confirmed", "active", "active"), "is active and can't be confirmed"),
        (("retracted", "active", "expired"), "cannot go from active to expired"),
        (("made_up", "active", "active"), "row 2: expected an action, found 'made_up'"),
        (("proposed", "proposed", "active"), "row 2: expected a move from active, found proposed"),
    ],
)
async def test_a_chain_that_holds_but_tells_of_moves_no_machine_makes_is_refused(
    stores: Stores, move: tuple[str, str, str], match: str
) -> None:
    header, trailer = await lines_of(await stores("one"))
    moves = [("proposed", "proposed", "active"), move]
    time = "2026-03-01T09:30:00.00000{}Z"
    drafts = [("m", *how, time.format(n), "owner", b'{"set":{}}') for n, how in enumerate(moves)]
    rows = seal("default", drafts, 0, GENESIS)
    told = [edited(b"{}", record="row", **row._asdict()) for row in rows]
    forged = [edited(header, rows=2), *told, edited(trailer, count=2, hash=rows[-1].hash)]
    await refuses(await stores("two"), resealed(forged), b"x" * 16, match)


async def test_an_import_makes_its_own_transaction(stores: Stores) -> None:
    lines = await lines_of(await stores("one"))
    store = await stores("two")
    async with store.transaction():
        with pytest.raises(LifetimeError):
            await store.import_lines(lines)
