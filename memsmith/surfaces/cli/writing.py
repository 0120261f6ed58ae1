"""Commands that change memories: propose, confirm, reject, retract, amend, sweep, lift."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, cast

import typer
from rich.console import RenderableType
from rich.text import Text

from memsmith.errors import ArgumentError, MemsmithError, NotFoundError
from memsmith.store.store import MemoryStore
from memsmith.surfaces._errors import Exit, exit_code
from memsmith.surfaces.cli.render import Out, content_text, counted, error_data, status_text
from memsmith.surfaces.cli.shared import (
    DEFAULT_STORE,
    STDIO,
    Actor,
    Json,
    Reason,
    Store,
    answering,
    moment_of,
    read_text,
    with_store,
)
from memsmith.surfaces.cli.visible import visible
from memsmith.types import FACT, Accepted, Memory, Origin, PendingConfirmation, ProposalResult

Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Memory ids.", show_default=False)]
MaybeText = str | None

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def propose(
    content: Annotated[
        str, typer.Argument(metavar="CONTENT", help="JSON; - reads standard input.", show_default=False)
    ],
    store: Store = DEFAULT_STORE,
    text: Annotated[bool, typer.Option("--text", help="Take the content as plain text.")] = False,
    session: Annotated[str, typer.Option("--session", help="The session it comes from.")] = "cli",
    confidence: Annotated[float, typer.Option("--confidence", "-c", help="From 0 to 1.")] = 1.0,
    scope: Annotated[
        str, typer.Option("--scope", help="Where it applies: a path such as user:7/atlas.")
    ] = "",
    key: Annotated[MaybeText, typer.Option("--key", help="The slot it fills.")] = None,
    kind: Annotated[str, typer.Option("--kind")] = FACT,
    origin: Annotated[Origin | None, typer.Option("--origin", help="Who the content comes from.")] = None,
    source: Annotated[MaybeText, typer.Option("--source", help="A label for where it comes from.")] = None,
    thread: Annotated[MaybeText, typer.Option("--thread")] = None,
    sensitivity: Annotated[
        MaybeText, typer.Option("--sensitivity", help="public, internal, confidential or restricted.")
    ] = None,
    ttl: Annotated[MaybeText, typer.Option("--ttl", help="How long it lives: 24h, 7d, 1d12h.")] = None,
    expires_at: Annotated[MaybeText, typer.Option("--expires-at", help="ISO 8601 with an offset.")] = None,
    valid_from: Annotated[MaybeText, typer.Option("--valid-from", help="ISO 8601 with an offset.")] = None,
    valid_to: Annotated[MaybeText, typer.Option("--valid-to", help="ISO 8601 with an offset.")] = None,
    depends_on: Annotated[
        list[str] | None, typer.Option("--depends-on", help="A memory id; may be repeated.")
    ] = None,
    metadata: Annotated[MaybeText, typer.Option("--metadata", help="A JSON object.")] = None,
    idempotency_key: Annotated[
        MaybeText, typer.Option("--idempotency-key", help="A repeated call gives the first outcome again.")
    ] = None,
    actor: Actor = None,
    as_json: Json = False,
) -> None:
    """Propose a memory; makes the store if there is none.

    No validators run here: which ones to use is for the program that opens the store. Bad
    arguments, duplicates and values with a tombstone are refused all the same.
    """
    out = Out(json=as_json)
    with answering(out):
        arguments: dict[str, Any] = {
            "content": content_of(content, text),
            "session_id": session,
            "confidence": confidence,
            "thread_id": thread,
            "source": source,
            "scope": scope,
            "key": key,
            "kind": kind,
            "origin": origin,
            "sensitivity": sensitivity,
            "ttl": None if ttl is None else lifetime_of(ttl),
            "expires_at": moment_of("expires_at", expires_at),
            "valid_from": moment_of("valid_from", valid_from),
            "valid_to": moment_of("valid_to", valid_to),
            "depends_on": depends_on or (),
            "metadata": None if metadata is None else _json_of("metadata", metadata),
            "idempotency_key": idempotency_key,
            "actor": actor,
        }

    async def work(opened: MemoryStore) -> ProposalResult:
        return await opened.propose(**arguments)

    result = with_store(out, store, work, create=True)
    out.answer(result_data(result), *result_lines(result))
    if result_word(result) == "rejected":
        raise typer.Exit(Exit.NO)


def confirm(
    ids: Ids,
    store: Store = DEFAULT_STORE,
    reason: Reason = None,
    expected_version: Annotated[
        int | None,
        typer.Option("--expected-version", help="Confirm this version, whatever else changed since."),
    ] = None,
    actor: Actor = None,
    as_json: Json = False,
) -> None:
    """Confirm memories that wait: PENDING_CONFIRMATION → ACTIVE."""

    def each(opened: MemoryStore, ident: str) -> Awaitable[Memory]:
        return opened.confirm(ident, reason=reason, expected_version=expected_version, actor=actor)

    _decide(Out(json=as_json), store, ids, each)


def reject(
    ids: Ids,
    store: Store = DEFAULT_STORE,
    reason: Reason = None,
    also: Annotated[
        bool, typer.Option("--also", help="Take along other memories of the same value.")
    ] = False,
    actor: Actor = None,
    as_json: Json = False,
) -> None:
    """Say "never true": → RETRACTED, and the value is blocked from now on."""

    def each(opened: MemoryStore, ident: str) -> Awaitable[Memory]:
        return opened.reject(ident, reason, also=also, actor=actor)

    _decide(Out(json=as_json), store, ids, each)


def retract(
    ids: Ids,
    store: Store = DEFAULT_STORE,
    reason: Reason = None,
    during: Annotated[
        MaybeText,
        typer.Option(
            "--during", metavar="FROM..TO", help="Only this portion of its time; FROM.. is all from then on."
        ),
    ] = None,
    cascade: Annotated[bool, typer.Option("--cascade", help="Take along what depends on it.")] = False,
    actor: Actor = None,
    as_json: Json = False,
) -> None:
    """Say "does not hold": → RETRACTED; the value may be proposed again."""
    out = Out(json=as_json)
    with answering(out):
        portion = None if during is None else portion_of(during)

    def each(opened: MemoryStore, ident: str) -> Awaitable[Memory]:
        return opened.retract(ident, reason, during=portion, cascade=cascade, actor=actor)

    _decide(out, store, ids, each)


def amend(
    ident: Annotated[str, typer.Argument(metavar="ID", help="A memory's id.", show_default=False)],
    store: Store = DEFAULT_STORE,
    start: Annotated[
        MaybeText,
        typer.Option("--from", metavar="TIME", help="Since when it holds; as it was, if not given."),
    ] = None,
    end: Annotated[
        MaybeText, typer.Option("--to", metavar="TIME", help="Until when it holds; as it was, if not given.")
    ] = None,
    open_end: Annotated[bool, typer.Option("--open", help="It holds without an end.")] = False,
    reason: Reason = None,
    expected_version: Annotated[
        int | None, typer.Option("--expected-version", help="Only if it is still this version.")
    ] = None,
    actor: Actor = None,
    as_json: Json = False,
) -> None:
    """Correct when a memory holds. Portions that were retracted stay out."""
    out = Out(json=as_json)
    with answering(out):
        first, last = moment_of("from", start), moment_of("to", end)
        if open_end and last is not None:
            raise ArgumentError("to", "nothing beside --open", end)
        if first is None and last is None and not open_end:
            raise ArgumentError("from", "--from, --to or --open", None)

    async def work(opened: MemoryStore) -> Memory:
        memory = await opened.get(ident)
        if memory is None:
            raise NotFoundError(ident)
        began = memory.valid_from or memory.created_at
        # Half of the interval may be as it was read: then somebody else's change must not be undone.
        expected = memory.version if expected_version is None else expected_version
        return await opened.amend_validity(
            ident, first or began, None if open_end else last or memory.valid_to, reason,
            expected_version=expected, actor=actor,
        )  # fmt: skip

    memory = with_store(out, store, work)
    out.answer(memory, _decided(memory))


def sweep(store: Store = DEFAULT_STORE, as_json: Json = False) -> None:
    """Expire what is due, and supersede what a successor took over by now. Reads are right without it."""
    out = Out(json=as_json)
    swept = with_store(out, store, lambda opened: opened.sweep())
    shown = f"{swept.expired} expired, {swept.superseded} superseded"
    out.answer(swept, Text.assemble(("✔ ", "green"), shown))


def lift(
    ident: Annotated[str, typer.Argument(metavar="ID", help="A tombstone's id.", show_default=False)],
    store: Store = DEFAULT_STORE,
    reason: Reason = None,
    actor: Actor = None,
    as_json: Json = False,
) -> None:
    """Lift a tombstone, so that its value may be proposed again."""
    out = Out(json=as_json)
    stone = with_store(out, store, lambda opened: opened.lift_tombstone(ident, reason, actor=actor))
    shown = Text.assemble(
        ("✔ lifted ", "green"),
        (visible(stone.id), "cyan"),
        f"  it refused {counted(stone.refused, 'proposal', 'proposals')}",
    )
    out.answer(stone, shown)


# -- what was decided -----------------------------------------------------------------------------


def result_word(result: ProposalResult) -> str:
    """Return accepted, pending or rejected."""
    if isinstance(result, Accepted):
        return "accepted"
    return "pending" if isinstance(result, PendingConfirmation) else "rejected"


def result_data(result: ProposalResult) -> dict[str, Any]:
    """Return a proposal's outcome as data, with the same names whatever it is."""
    data: dict[str, Any] = {
        "outcome": result_word(result),
        "memory_id": result.memory_id,
        "code": None,
        "reasons": [],
        "tombstone_id": None,
        "memory": result.memory,
    }
    if isinstance(result, PendingConfirmation):
        data["reasons"] = list(result.reasons)
    elif not isinstance(result, Accepted):
        data |= {"code": result.code, "reasons": [result.reason], "tombstone_id": result.tombstone_id}
    return data


def result_lines(result: ProposalResult) -> list[RenderableType]:
    """Return a proposal's outcome as people read it."""
    word = result_word(result)
    sign = {
        "accepted": ("✔ accepted", "bold green"),
        "pending": ("… held for a person", "bold yellow"),
        "rejected": ("✘ refused", "bold red"),
    }
    data = result_data(result)
    code = f" ({data['code']})" if data["code"] else ""
    lines: list[RenderableType] = [
        Text.assemble(
            sign[word], (code, "red"), "  ", (visible(result.memory_id), "cyan"), "  ",
            status_text(result.memory.status),
        )
    ]  # fmt: skip
    lines += [Text(f"  {visible(reason)}", "dim") for reason in data["reasons"]]
    return lines


def _decide(
    out: Out, store: str, ids: list[str], each: Callable[[MemoryStore, str], Awaitable[Memory]]
) -> None:
    """Decide one memory after the other; one that can't be decided does not stop the rest."""

    async def work(opened: MemoryStore) -> list[tuple[str, Memory | MemsmithError]]:
        outcomes: list[tuple[str, Memory | MemsmithError]] = []
        for ident in ids:
            try:
                outcomes.append((ident, await each(opened, ident)))
            except MemsmithError as error:
                outcomes.append((ident, error))
        return outcomes

    outcomes = with_store(out, store, work)
    failures = [found for _, found in outcomes if isinstance(found, MemsmithError)]
    data = [
        {"memory_id": ident, "ok": False, "error": error_data(found)}
        if isinstance(found, MemsmithError)
        else {"memory_id": ident, "ok": True, "memory": found}
        for ident, found in outcomes
    ]
    lines = [_decided(found) for _, found in outcomes if isinstance(found, Memory)]
    out.answer({"items": data}, *lines)
    for failure in failures:
        out.error(failure)
    if failures:
        raise typer.Exit(exit_code(failures[0]))


def _decided(memory: Memory) -> Text:
    line = Text.assemble(
        ("✔ ", "green"), (visible(memory.id), "cyan"), "  ", status_text(memory.status), "  "
    )
    return line + content_text(memory)


# -- reading arguments ----------------------------------------------------------------------------


def content_of(argument: str, as_text: bool) -> Any:
    """Return the content an argument, or standard input, holds."""
    given = read_text("content", STDIO) if argument == STDIO else argument
    if as_text:
        return given.removesuffix("\n") if argument == STDIO else given
    return _json_of("content", given, " (--text takes it as it is)")


def _json_of(name: str, given: str, hint: str = "") -> Any:
    try:
        return json.loads(given, object_pairs_hook=_once_each)
    except _RepeatedKeyError as error:
        raise ArgumentError(name, "each key once", str(error)) from error
    except (ValueError, RecursionError) as error:
        raise ArgumentError(name, f"JSON{hint}", given) from error


class _RepeatedKeyError(ValueError):
    """An object names a key twice, and only one could be kept."""


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise _RepeatedKeyError(next(name for name in names if names.count(name) > 1))
    return found


def lifetime_of(given: str) -> timedelta:
    """Return a lifetime from text such as ``90m``, ``24h``, ``7d`` or ``1d12h``."""
    parts = cast(list[tuple[str, str]], re.findall(r"(\d{1,9})([smhdw])", given))
    if not parts or "".join(number + unit for number, unit in parts) != given:
        raise ArgumentError("ttl", "a lifetime such as 90m, 24h, 7d or 1d12h", given)
    try:
        return sum((timedelta(**{_UNITS[unit]: int(number)}) for number, unit in parts), timedelta())
    except OverflowError as error:
        raise ArgumentError("ttl", "a lifetime of at most 1000 years", given) from error


def portion_of(given: str) -> tuple[datetime, datetime | None]:
    """Return the portion of time that ``FROM..TO`` stands for; ``FROM..`` has no end."""
    first, dots, last = given.partition("..")
    start = moment_of("during", first)
    if not dots or start is None:
        raise ArgumentError("during", "FROM..TO, two ISO 8601 times with offsets", given)
    return start, moment_of("during", last) if last else None
