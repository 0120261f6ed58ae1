"""Commands that look and change nothing: list, show, count, pending, audit, tombstones, verify, replay."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from memsmith.connect import backend_for
from memsmith.errors import ArgumentError, NotFoundError
from memsmith.ledger.verify import Verification
from memsmith.lifecycle import Action
from memsmith.protocols import ORDERS
from memsmith.store.replaying import ReplayReport
from memsmith.store.store import MemoryStore
from memsmith.surfaces._errors import Exit
from memsmith.surfaces.cli.render import (
    Out,
    audit_table,
    counted,
    differences_table,
    memories_table,
    memory_card,
    pending_table,
    tombstones_table,
    verification_data,
    verification_text,
)
from memsmith.surfaces.cli.shared import (
    DEFAULT_STORE,
    File,
    Json,
    Limit,
    Store,
    SystemAt,
    ValidAt,
    answering,
    point_of,
    require_file,
    url_of,
    with_store,
)
from memsmith.types import COUNTED, FACT, AuditEntry, Memory, MemoryStatus, Page, Tombstone

Cursor = Annotated[
    str | None, typer.Option("--cursor", help="Where an earlier page ended.", show_default=False)
]
Status = Annotated[MemoryStatus | None, typer.Option("--status", help="Only this status.")]
Session = Annotated[str | None, typer.Option("--session", help="Only this session.")]
Kind = Annotated[str, typer.Option("--kind", help="Only this kind.")]
AllKinds = Annotated[bool, typer.Option("--all-kinds", help="Every kind.")]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", "-w", metavar="NAME=VALUE", help="A column or content.PATH; may be repeated."),
]


def list_memories(
    store: Store = DEFAULT_STORE,
    status: Status = None,
    session: Session = None,
    kind: Kind = FACT,
    all_kinds: AllKinds = False,
    where: Where = None,
    limit: Limit = 50,
    offset: Annotated[int, typer.Option("--offset", help="How many to pass over.")] = 0,
    order_by: Annotated[str, typer.Option("--order-by", help=", ".join(ORDERS))] = "created_at",
    descending: Annotated[bool, typer.Option("--descending", "-d", help="Last first.")] = False,
    cursor: Cursor = None,
    valid_at: ValidAt = None,
    system_at: SystemAt = None,
    as_json: Json = False,
) -> None:
    """List memories, a page at a time; of every status unless one is named.

    With --valid-at or --system-at only what holds there, in the versions of then.
    """
    out = Out(json=as_json)
    with answering(out):
        filters = dict(filter_of(text) for text in where or ())
        point = point_of(valid_at, system_at)

    async def work(opened: MemoryStore) -> Page[Memory]:
        reader = opened if point is None else opened.as_of(**point)
        return await reader.list(
            status, session, filters, limit, offset, order_by,
            descending=descending, cursor=cursor, kind=None if all_kinds else kind,
        )  # fmt: skip

    page = with_store(out, store, work)
    table = memories_table(page, out.console.width)
    _answer_page(out, page, page, table if page else Text("No memories.", "dim"))


def show(
    ident: Annotated[str, typer.Argument(metavar="ID", help="A memory's id.", show_default=False)],
    store: Store = DEFAULT_STORE,
    valid_at: ValidAt = None,
    system_at: SystemAt = None,
    as_json: Json = False,
) -> None:
    """Show one memory, whatever its status, and what depends on it.

    With --valid-at or --system-at the version of then, if it holds there; if not, the exit code is 1.
    """
    out = Out(json=as_json)
    with answering(out):
        point = point_of(valid_at, system_at)

    async def work(opened: MemoryStore) -> tuple[Memory | None, Sequence[Memory]]:
        memory = await opened.get(ident)
        if memory is None:
            raise NotFoundError(ident)
        if point is not None:
            return await opened.as_of(**point).get(ident), ()
        return memory, await opened.dependants(ident)

    memory, dependants = with_store(out, store, work)
    if memory is None:
        out.answer({"id": ident, "holds": False}, Text("It does not hold there.", "yellow"))
        raise typer.Exit(Exit.NO)
    shown: list[RenderableType] = [memory_card(memory)]
    if dependants:
        shown += [Text("\nWhat depends on it:", "bold"), memories_table(dependants, out.console.width)]
    found = {} if point is not None else {"dependants": [found.id for found in dependants]}
    out.answer({**memory.__dict__, **found}, *shown)


def count(
    store: Store = DEFAULT_STORE,
    status: Status = None,
    session: Session = None,
    kind: Kind = FACT,
    all_kinds: AllKinds = False,
    where: Where = None,
    valid_at: ValidAt = None,
    system_at: SystemAt = None,
    as_json: Json = False,
) -> None:
    """Count the memories that hold: now, or where --valid-at and --system-at say."""
    out = Out(json=as_json)
    with answering(out):
        filters = dict(filter_of(text) for text in where or ())
        point = point_of(valid_at, system_at) or {}

    async def work(opened: MemoryStore) -> dict[str, int]:
        reader = opened.as_of(**point)
        counts = {
            name.value: await reader.count(name, session, filters, kind=None if all_kinds else kind)
            for name in sorted(COUNTED if status is None else {status})
        }
        return {name: number for name, number in counts.items() if number}

    counts = with_store(out, store, work)
    total = sum(counts.values())
    words = ", ".join(f"{number} {name.upper()}" for name, number in counts.items())
    shown = Text.assemble((f"{total}", "bold"), f" {'holds' if total == 1 else 'hold'}")
    out.answer({"count": total, "statuses": counts}, shown + Text(f"  {words}", "dim"))


def pending(
    store: Store = DEFAULT_STORE, limit: Limit = 50, cursor: Cursor = None, as_json: Json = False
) -> None:
    """List what waits for a person, oldest first, and why."""
    out = Out(json=as_json)

    async def work(opened: MemoryStore) -> tuple[Page[Memory], dict[str, list[str]]]:
        page = await opened.list(MemoryStatus.PENDING_CONFIRMATION, limit=limit, cursor=cursor, kind=None)
        return page, {memory.id: await _why_held(opened, memory.id) for memory in page}

    page, reasons = with_store(out, store, work)
    table = pending_table(page, reasons, out.console.width) if page else Text("Nothing waits.", "dim")
    _answer_page(out, page, [{**m.__dict__, "reasons": reasons[m.id]} for m in page], table)


def audit(
    ident: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="A memory's id; the whole ledger without.", show_default=False),
    ] = None,
    store: Store = DEFAULT_STORE,
    limit: Limit = 50,
    before: Annotated[int | None, typer.Option("--before", help="Only rows below this seq.")] = None,
    as_json: Json = False,
) -> None:
    """Show what happened, newest first: to one memory, or to all."""
    out = Out(json=as_json)

    async def work(opened: MemoryStore) -> list[AuditEntry]:
        entries = await opened.audit(ident, limit, before=before)
        if ident is not None and not entries and await opened.get(ident) is None:
            raise NotFoundError(ident)
        return entries

    entries = with_store(out, store, work)
    table = audit_table(entries, out.console.width, memory_ids=ident is None)
    out.answer({"items": entries}, table if entries else Text("No entries.", "dim"))


def tombstones(
    store: Store = DEFAULT_STORE,
    lifted: Annotated[bool, typer.Option("--lifted", help="The lifted ones too.")] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: Json = False,
) -> None:
    """List tombstones: the values that may not come back, by digest."""
    out = Out(json=as_json)

    async def work(opened: MemoryStore) -> Page[Tombstone]:
        return await opened.tombstones(lifted=lifted, limit=limit, cursor=cursor)

    page = with_store(out, store, work)
    _answer_page(out, page, page, tombstones_table(page) if page else Text("No tombstones.", "dim"))


def verify(
    file: File = None,
    store: Store = DEFAULT_STORE,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also replay the ledger and compare what is stored with it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check the ledger: the verdict, how many rows, the head; or the first bad row.

    At best SELF_CONSISTENT: without something kept outside, a chain is no proof against
    the owner of the file.
    """
    out = Out(json=as_json)

    async def work(opened: MemoryStore) -> tuple[Verification, ReplayReport | None]:
        answer = await opened.verify(progress=task.reach)
        # A ledger that fails is nothing to compare with.
        return answer, await opened.replay(progress=task.reach) if deep and answer.ok else None

    with out.working("Checking the ledger") as task:
        answer, report = with_store(out, file or store, work)
    data = verification_data(answer)
    shown: list[RenderableType] = [verification_text(answer)]
    if report is not None:
        data["replay"] = _replay_data(report)
        shown += _replay_lines(report)
    out.answer(data, *shown)
    if not answer.ok or (report is not None and not report.identical):
        raise typer.Exit(Exit.NO)


def replay(
    file: File = None,
    store: Store = DEFAULT_STORE,
    into: Annotated[
        str | None, typer.Option("--into", help="A new SQLite file to write what the ledger says to.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Rebuild every memory from the ledger alone, and compare what is stored with it."""
    out = Out(json=as_json)
    with answering(out):
        if into is not None and require_file(into).exists():
            raise ArgumentError("into", "a file that is not there yet", into)

    async def work(opened: MemoryStore) -> ReplayReport:
        if into is None:
            return await opened.replay(progress=task.reach)
        target = backend_for(url_of(into))
        try:
            return await opened.replay(into=target, progress=task.reach)
        finally:
            await target.close()

    with out.working("Replaying the ledger") as task:
        report = with_store(out, file or store, work)
    out.answer(_replay_data(report), *_replay_lines(report))
    if not report.identical:
        raise typer.Exit(Exit.NO)


# -- inside ---------------------------------------------------------------------------------------


def _answer_page(out: Out, page: Page[Any], items: Sequence[Any], table: RenderableType) -> None:
    more = Text(f"More: --cursor {page.next_cursor}", "dim") if page.next_cursor else Text("")
    shown = [table, more] if page.next_cursor else [table]
    out.answer({"items": list(items), "next_cursor": page.next_cursor}, *shown)


async def _why_held(opened: MemoryStore, ident: str) -> list[str]:
    for entry in await opened.audit(ident, 1000):
        if entry.action == Action.HOLD.value:
            return [str(error) for error in entry.metadata.get("errors", [])]
    return []


def filter_of(text: str) -> tuple[str, Any]:
    """Return name and value of ``name=value``; the value is JSON where it reads as a scalar, else text."""
    name, sign, given = text.partition("=")
    if not sign:
        raise ArgumentError("where", "name=value", text)
    try:
        value = json.loads(given)
    except (ValueError, RecursionError):
        value = given
    return name, given if isinstance(value, list | dict) else value


def _replay_data(report: ReplayReport) -> dict[str, Any]:
    return {
        "identical": report.identical,
        "memories": report.memories,
        "tombstones": report.tombstones,
        "differences": report.differences,
    }


def _replay_lines(report: ReplayReport) -> list[RenderableType]:
    told = counted(report.memories, "memory", "memories")
    told += f" and {counted(report.tombstones, 'tombstone', 'tombstones')}"
    if report.identical:
        return [Text.assemble(("✔ ", "bold green"), f"as the ledger says: {told}")]
    many = len(report.differences)
    head = f"{many} {'is' if many == 1 else 'are'} not as the ledger says; it tells of {told}"
    return [Text.assemble(("✘ ", "bold red"), head), differences_table(report.differences)]
