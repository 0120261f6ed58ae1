"""How answers look: rich tables for people, JSON for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final, TextIO, cast

import orjson
from rich import box
from rich.console import Console, Group, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
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
from memsmith.surfaces.cli.drawing import interval_label
from memsmith.surfaces.cli.visible import inert_json, visible, visible_json
from memsmith.types import (
    AuditEntry,
    Difference,
    Displaced,
    Interval,
    Memory,
    MemoryStatus,
    Tombstone,
    Version,
)

WIDE: Final = 150
"""Columns where nothing says how wide the output is, as in a pipe."""
NARROW: Final = 100
ROOMY: Final = 140
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
            sys.stderr.write(inert_json(to_json(error_data(error))).decode() + "\n")
        else:
            self.note(Text.assemble(("error: ", "bold red"), visible(str(error))))

    def note(self, text: RenderableType) -> None:
        """Say something beside the answer, on standard error."""
        self._err.print(text, soft_wrap=True)

    @contextmanager
    def working(self, what: str) -> Generator[Task, None, None]:
        """Show a progress bar on standard error while the body runs, where that is a terminal."""
        columns = (SpinnerColumn(), TextColumn(what), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        bar = Progress(*columns, console=self._err, transient=True, disable=not self._err.is_terminal)
        with bar:
            yield Task(bar, bar.add_task(what, total=None))


class Task:
    """Long work, as its progress bar shows it."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar = bar
        self._task = task

    def expect(self, total: int) -> None:
        """Say how many steps there are."""
        self._bar.update(self._task, total=total)

    def reach(self, done: int, total: int) -> None:
        """Say how many steps are done, of how many."""
        self._bar.update(self._task, completed=done, total=total)

    def advance(self, steps: int = 1) -> None:
        """Count steps that are done."""
        self._bar.advance(self._task, steps)


def _console(stream: TextIO) -> Console:
    sized = stream.isatty() or os.environ.get("COLUMNS", "").isdigit()
    # No markup, no emoji codes: what memories hold is shown, never obeyed.
    return Console(file=stream, width=None if sized else WIDE, markup=False, emoji=False, highlight=False)


# -- for programs ---------------------------------------------------------------------------------


def to_json(data: Any) -> bytes:
    """Return the JSON of answers; times as everywhere in memsmith."""
    return orjson.dumps(data, default=_plain, option=orjson.OPT_PASSTHROUGH_DATETIME)


def _plain(value: Any) -> Any:
    if isinstance(value, Interval):
        return [value.start, value.end]
    if isinstance(value, Displaced):
        return value._asdict()
    return to_text(value)


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


def counted(number: int, one: str, many: str) -> str:
    """Return a number with its noun."""
    return f"{number} {one if number == 1 else many}"


def id_text(ident: str) -> Text:
    """Return an id."""
    return Text(visible(ident), "cyan")


def stacked(*lines: Text) -> Text:
    """Return texts under each other, for one cell."""
    return Text("\n").join(line for line in lines if line)


def moment_text(moment: datetime | None) -> Text:
    """Return a time to the second, in UTC."""
    return Text("" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}Z", "dim")


_WHOLE: Final = frozenset(
    {
        "id",
        "memory",
        "status",
        "seq",
        "time",
        "updated",
        "action",
        "tombstone",
        "believed",
        "holds",
        "asserted",
    }
)


def table_of(*columns: str) -> Table:
    """Return an empty table; columns of ids, statuses and times never wrap."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold dim")
    for name in columns:
        whole = name in _WHOLE
        right = name in {"confidence", "seq", "refused"}
        table.add_column(name, no_wrap=whole, overflow="fold", justify="right" if right else "left")
    return table


def memories_table(
    memories: Iterable[Memory], width: int, show: Callable[[Memory], Text] = content_text
) -> Table:
    """Return memories, one a row; on a narrow terminal the status stands under the id."""
    narrow, wide = width < NARROW, width >= ROOMY
    table = table_of(
        *(["memory"] if narrow else ["id", "status", "confidence"]),
        "content",
        *(["session", "updated"] if wide else []),
    )
    for memory in memories:
        first = [id_text(memory.id), status_text(memory.status)]
        cells = [stacked(*first)] if narrow else [*first, Text(f"{memory.confidence:g}")]
        more = [Text(visible(memory.session_id)), moment_text(memory.updated_at)] if wide else []
        table.add_row(*cells, show(memory), *more)
    return table


def pending_table(
    memories: Sequence[Memory],
    reasons: Mapping[str, Sequence[str]],
    width: int,
    show: Callable[[Memory], Text] = content_text,
) -> Table:
    """Return what waits for a person, and why."""
    narrow = width < NARROW
    table = table_of(*(["memory"] if narrow else ["id", "from"]), "content", "why it waits")
    for memory in memories:
        why = Text("\n".join(visible(reason) for reason in reasons[memory.id]), "yellow")
        claim = f"{memory.origin.value}, {memory.confidence:g}"
        first = [id_text(memory.id), stacked(Text(visible(memory.actor)), Text(claim, "dim"))]
        table.add_row(*([stacked(*first)] if narrow else first), show(memory), why)
    return table


def memory_card(memory: Memory) -> Table:
    """Return all there is to one memory."""
    card = Table.grid(padding=(0, 2))
    card.add_column(style="bold dim", no_wrap=True)
    card.add_column(overflow="fold")
    for name, value in memory.__dict__.items():
        if name != "content" and (value is None or value is False or value in ([], {}, "", ())):
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
    if name == "retracted_during":
        return Text("\n".join(map(interval_label, value)))
    if name == "displaces":
        return Text("\n".join(map(_displaced_label, value)))
    if isinstance(value, list | dict | tuple):
        return Text(visible_json(value))
    return Text(visible(str(value)), "cyan" if name == "id" else "")


def _displaced_label(displaced: Displaced) -> str:
    whose = displaced.memory_id or "nobody's"
    return f"{interval_label(Interval(displaced.start, displaced.end))}  {whose}"


def audit_table(entries: Iterable[AuditEntry], width: int, *, memory_ids: bool = True) -> Table:
    """Return ledger rows, one a line."""
    if width < NARROW:
        return _narrow_audit_table(entries, memory_ids=memory_ids)
    table = table_of("seq", "time", "action", *(["id"] if memory_ids else []), "status", "actor", "details")
    for entry in entries:
        ident = [id_text(entry.memory_id)] if memory_ids else []
        table.add_row(
            str(entry.seq), moment_text(entry.timestamp), Text(visible(entry.action)), *ident,
            status_text(entry.to_status), Text(visible(entry.actor)), Text(details_of(entry.metadata), "dim"),
        )  # fmt: skip
    return table


def _narrow_audit_table(entries: Iterable[AuditEntry], *, memory_ids: bool) -> Table:
    table = table_of("seq", "action", "details")
    for entry in entries:
        action = Text.assemble(visible(entry.action), " → ", status_text(entry.to_status))
        whose = [id_text(entry.memory_id)] if memory_ids else []
        details = stacked(Text(visible(entry.actor)), Text(details_of(entry.metadata), "dim"))
        table.add_row(str(entry.seq), stacked(action, *whose, moment_text(entry.timestamp)), details)
    return table


def details_of(metadata: Mapping[str, Any]) -> str:
    """Return an entry's details as one line."""
    return "; ".join(f"{visible(name)}: {_detail(value)}" for name, value in metadata.items())


def _detail(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_detail, cast(list[Any], value)))
    return visible(value) if isinstance(value, str) else visible_json(value)


def tombstones_table(stones: Iterable[Tombstone]) -> Table:
    """Return tombstones, one a row. They hold no value to show."""
    table = table_of("tombstone", "refused", "reason", "applies to")
    for stone in stones:
        lines = [
            id_text(stone.id),
            Text.assemble(("of ", "dim"), visible(stone.memory_id)),
            moment_text(stone.created_at),
        ]
        if stone.lifted_at is not None:
            lines.append(Text(f"lifted {stone.lifted_at:%Y-%m-%d %H:%M:%S}Z", "green"))
            lines.append(Text(visible(stone.lift_reason or ""), "green"))
        names = {"kind": stone.kind, "scope": stone.scope, "key": stone.key}
        where = "\n".join(f"{name} {visible(value)}" for name, value in names.items() if value)
        table.add_row(stacked(*lines), str(stone.refused), visible(stone.reason or ""), where)
    return table


def verification_text(answer: Verification) -> Group:
    """Return a verdict; of a failed one the first bad row, what was expected and what is there."""
    rows = f"{counted(answer.rows, 'row', 'rows')} in order"
    if answer.ok:
        head = Text.assemble(("✔ ", "bold green"), (answer.verdict.value, "bold green"), f"  {rows}")
        return Group(head, Text(f"  head {answer.head}", "dim"))
    fault = "" if answer.fault is None else answer.fault.value
    return Group(
        Text.assemble(("✘ ", "bold red"), (answer.verdict.value, "bold red"), f"  {rows}"),
        Text.assemble(("  row      ", "dim"), (f"{answer.seq}: {fault}", "bold red")),
        Text.assemble(("  expected ", "dim"), visible(answer.expected)),
        Text.assemble(("  found    ", "dim"), visible(answer.found)),
    )


def versions_table(versions: Iterable[Version], width: int, *, memory_ids: bool) -> Table:
    """Return versions, one a row, each with when it was believed, what it asserts, and what made it so."""
    narrow = width < NARROW
    table = table_of(*(["believed"] if narrow else ["believed", "asserted", "status"]), "content", "because")
    for version in versions:
        memory = version.memory
        believed = stacked(moment_text(version.system_from), _until_text(version.system_to))
        asserted = [stacked(moment_text(memory.valid_from), _until_text(memory.valid_to))]
        asserted += [Text(f"not {interval_label(out)}", "dim") for out in memory.retracted_during]
        status = status_text(memory.status)
        content = stacked(content_text(memory), *([id_text(memory.id)] if memory_ids else []))
        why = stacked(
            Text.assemble((f"{memory.seq} ", "dim"), f"{visible(version.action)}, {visible(version.actor)}"),
            Text(visible(version.reason or ""), "dim"),
        )
        if narrow:
            table.add_row(believed, stacked(status, content, *asserted), why)
        else:
            table.add_row(believed, stacked(*asserted), status, content, why)
    return table


def _until_text(moment: datetime | None) -> Text:
    return Text("→ …", "dim") if moment is None else Text("→ ", "dim") + moment_text(moment)


def learned_table(differences: Iterable[Difference], width: int) -> Table:
    """Return how memories changed, before and after."""
    narrow = width < NARROW
    table = table_of(*([] if narrow else ["id"]), "before", "after")
    for difference in differences:
        sides = [_side(difference.before), _side(difference.after)]
        if narrow:
            sides[0] = stacked(id_text(difference.memory_id), sides[0])
        table.add_row(*([] if narrow else [id_text(difference.memory_id)]), *sides)
    return table


def _side(memory: Memory | None) -> Text:
    if memory is None:
        return Text("(not known)", "dim italic")
    start = memory.valid_from
    holds = "" if start is None else interval_label(Interval(start, memory.valid_to))
    return stacked(
        Text.assemble(status_text(memory.status), (f"  {memory.confidence:g}", "dim")),
        content_text(memory),
        Text(holds, "dim"),
    )


def differences_table(differences: Mapping[str, Sequence[str]]) -> Table:
    """Return what is not as the ledger says."""
    table = table_of("id", "differs in")
    for ident, names in differences.items():
        table.add_row(id_text(ident), Text(", ".join(map(visible, names)), "red"))
    return table
