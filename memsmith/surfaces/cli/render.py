"""How answers look: rich tables for people, JSON for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final, TextIO

import orjson
from rich import box
from rich.console import Console, Group, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from memsmith._clock import to_text
from memsmith.errors import MemsmithError
from memsmith.ledger.verify import Verification
from memsmith.surfaces._errors import exit_code, is_retryable
from memsmith.surfaces.cli.visible import inert_json, visible, visible_json
from memsmith.types import AuditEntry, Memory, MemoryStatus, Tombstone

WIDE: Final = 150
"""Columns where nothing says how wide the output is, as in a pipe."""
MOST_CONTENT: Final = 400
"""Characters of content shown in a list; `show` has all of it."""

S = MemoryStatus

STYLES: Final[Mapping[MemoryStatus, str]] = {
    S.PROPOSED: "dim",
    S.ACTIVE: "bold green",
    S.PENDING_CONFIRMATION: "bold yellow",
    S.SUPERSEDED: "blue",
    S.REJECTED: "bold red",
    S.RETRACTED: "magenta",
    S.EXPIRED: "bright_black",
    S.QUARANTINED: "bold white on red",
    S.ERASED: "bright_black",
}


class Out:
    """Where a command's answer goes: standard output for the answer, standard error for the rest."""

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self.console = _console(sys.stdout)
        self._err = _console(sys.stderr)

    def answer(self, data: Any, *shown: RenderableType) -> None:
        """Print `data` for a program, or what is `shown` for a person."""
        if self.json:
            self.raw(inert_json(to_json(data)) + b"\n")
        else:
            for one in shown:
                self.console.print(one)

    def raw(self, data: bytes) -> None:
        """Write bytes to standard output as they are."""
        sys.stdout.buffer.write(data)
        sys.stdout.flush()

    def error(self, error: MemsmithError) -> None:
        """Say what went wrong, on standard error."""
        if self.json:
            print(inert_json(to_json(error_data(error))).decode(), file=sys.stderr)  # noqa: T201
        else:
            self.note(Text.assemble(("error: ", "bold red"), visible(str(error))))

    def note(self, text: RenderableType) -> None:
        """Say something beside the answer, on standard error."""
        self._err.print(text, soft_wrap=True)

    @contextmanager
    def working(self, what: str, total: int | None = None) -> Generator[Callable[[int], None], None, None]:
        """Show a progress bar while the body runs; it is given what counts progress."""
        columns = (SpinnerColumn(), TextColumn(what), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        bar = Progress(*columns, console=self._err, transient=True, disable=not self._err.is_terminal)
        with bar:
            task = bar.add_task(what, total=total)
            yield lambda steps: bar.advance(task, steps)


def _console(stream: TextIO) -> Console:
    sized = stream.isatty() or os.environ.get("COLUMNS", "").isdigit()
    # No markup, no emoji codes: what memories hold is shown, never obeyed.
    return Console(file=stream, width=None if sized else WIDE, markup=False, emoji=False, highlight=False)


# -- for programs ---------------------------------------------------------------------------------


def to_json(data: Any) -> bytes:
    """Return the JSON of answers; times as everywhere in memsmith."""
    return orjson.dumps(data, default=_plain, option=orjson.OPT_PASSTHROUGH_DATETIME)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return to_text(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def error_data(error: MemsmithError) -> dict[str, Any]:
    """Return an error as data."""
    return {
        "type": type(error).__name__,
        "message": str(error).encode("utf-8", "backslashreplace").decode(),
        "exit_code": int(exit_code(error)),
        "retryable": is_retryable(error),
    }


def verification_data(answer: Verification) -> dict[str, Any]:
    """Return a verification as data."""
    return {"ok": answer.ok, **asdict(answer)}


# -- for people -----------------------------------------------------------------------------------


def status_text(status: MemoryStatus | None) -> Text:
    """Return a status in its colour."""
    return Text("") if status is None else Text(status.name, STYLES[status])


def content_text(memory: Memory, most: int = MOST_CONTENT) -> Text:
    """Return content on one line; what a refusal did not keep is said."""
    if memory.content is None:
        return Text("(not kept)", "dim italic")
    shown = visible_json(memory.content)
    return Text(shown if len(shown) <= most else f"{shown[: most - 1]}…")


def moment_text(moment: datetime | None) -> Text:
    """Return a time to the second, in UTC."""
    return Text("" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}Z", "dim")


def table_of(*columns: str, title: str | None = None) -> Table:
    """Return an empty table; the columns named ``id`` and ``status`` never wrap."""
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False)
    for name in columns:
        whole = name in {"id", "status", "seq", "change"}
        right = name in {"confidence", "seq", "refused"}
        table.add_column(
            name,
            no_wrap=whole,
            overflow="fold",
            justify="right" if right else "left",
            header_style="bold dim",
        )
    return table


def memories_table(memories: Iterable[Memory], *, wide: bool) -> Table:
    """Return memories, one a row."""
    table = table_of("id", "status", "confidence", "content", *(["session", "updated"] if wide else []))
    for memory in memories:
        more = (Text(visible(memory.session_id)), moment_text(memory.updated_at)) if wide else ()
        table.add_row(
            Text(visible(memory.id), "cyan"), status_text(memory.status), f"{memory.confidence:g}",
            content_text(memory), *more,
        )  # fmt: skip
    return table


def pending_table(memories: Sequence[Memory], reasons: Mapping[str, Sequence[str]]) -> Table:
    """Return what waits for a person, and why."""
    table = table_of("id", "content", "why it waits", "from")
    for memory in memories:
        why = "\n".join(visible(reason) for reason in reasons[memory.id])
        who = f"{memory.actor} ({memory.origin.value}), {memory.confidence:g}"
        table.add_row(
            Text(visible(memory.id), "cyan"), content_text(memory), Text(why, "yellow"), Text(visible(who))
        )
    return table


def memory_card(memory: Memory) -> Table:
    """Return all there is to one memory."""
    card = Table.grid(padding=(0, 2))
    card.add_column(style="bold dim", no_wrap=True)
    card.add_column(overflow="fold")
    for name, value in memory.__dict__.items():
        if value is None and name != "content" or value in ([], {}, ""):
            continue
        card.add_row(name, _field_text(memory, name, value))
    return card


def _field_text(memory: Memory, name: str, value: Any) -> Text:
    if name == "content":
        return content_text(memory, most=sys.maxsize)
    if isinstance(value, MemoryStatus):
        return status_text(value)
    if isinstance(value, datetime):
        return Text(to_text(value))
    if isinstance(value, list | dict):
        return Text(visible_json(value))
    return Text(visible(str(value)), "cyan" if name == "id" else "")


def audit_table(entries: Iterable[AuditEntry], *, memory_ids: bool = True) -> Table:
    """Return ledger rows, one a line."""
    table = table_of("seq", "time", "action", "change", "actor", *(["id"] if memory_ids else []), "details")
    for entry in entries:
        details = "" if not entry.metadata else details_of(entry.metadata)
        whose = [Text(visible(entry.memory_id), "cyan")] if memory_ids else []
        table.add_row(
            str(entry.seq), moment_text(entry.timestamp), Text(visible(entry.action)), _change_text(entry),
            Text(visible(entry.actor)), *whose, Text(details, "dim"),
        )  # fmt: skip
    return table


def details_of(metadata: Mapping[str, Any]) -> str:
    """Return an entry's details as one line."""
    parts: list[str] = []
    for name, value in metadata.items():
        text = value if isinstance(value, str) else visible_json(value)
        parts.append(f"{visible(name)}: {visible(text)}")
    return "; ".join(parts)


def _change_text(entry: AuditEntry) -> Text:
    if entry.from_status == entry.to_status:
        return status_text(entry.to_status)
    return Text(" → ").join([status_text(entry.from_status), status_text(entry.to_status)])


def tombstones_table(stones: Iterable[Tombstone]) -> Table:
    """Return tombstones, one a row. They hold no value to show."""
    table = table_of("id", "of memory", "refused", "kind", "scope", "key", "reason", "since", "lifted")
    for stone in stones:
        lifted = Text.assemble(moment_text(stone.lifted_at), f" {visible(stone.lift_reason or '')}")
        table.add_row(
            Text(visible(stone.id), "cyan"), visible(stone.memory_id), str(stone.refused), visible(stone.kind),
            visible(stone.scope), visible(stone.key or ""), visible(stone.reason or ""),
            moment_text(stone.created_at), lifted,
        )  # fmt: skip
    return table


def verification_text(answer: Verification) -> Group:
    """Return a verdict; of a failed one the first bad row, what was expected and what is there."""
    rows = f"{answer.rows} {'row' if answer.rows == 1 else 'rows'}"
    if answer.ok:
        head = Text.assemble(("✔ ", "bold green"), (answer.verdict.value, "bold green"), f"  {rows}")
        return Group(head, Text(f"  head {answer.head}", "dim"))
    fault = "" if answer.fault is None else answer.fault.value
    return Group(
        Text.assemble(("✘ ", "bold red"), (answer.verdict.value, "bold red"), f"  after {rows} in order"),
        Text.assemble(("  row      ", "dim"), (f"{answer.seq}: {fault}", "bold red")),
        Text.assemble(("  expected ", "dim"), visible(answer.expected)),
        Text.assemble(("  found    ", "dim"), visible(answer.found)),
    )


def differences_table(differences: Mapping[str, Sequence[str]]) -> Table:
    """Return what is not as the ledger says."""
    table = table_of("id", "differs in")
    for ident, names in differences.items():
        table.add_row(Text(visible(ident), "cyan"), Text(", ".join(map(visible, names)), "red"))
    return table
