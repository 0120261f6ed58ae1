"""A key's two axes of time, drawn for a terminal: valid time across, system time down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from memsmith.surfaces.cli.drawing import Drawing, interval_label, labels_of
from memsmith.surfaces.cli.render import NARROW, content_text, id_text, stacked, status_text, table_of
from memsmith.types import Memory

COLOURS: Final = ("green", "cyan", "yellow", "magenta", "blue", "bright_red", "bright_green", "bright_cyan")
GAP: Final = "·"
MIXED: Final = "▒"
"""Several columns share a place, and not all of them hold the same."""

_CORNER: Final = "believed from ▼"
_ARROW: Final = "▶ valid time"
_WIDEST_COLUMN: Final = 16


def plot(drawing: Drawing, width: int) -> list[RenderableType]:
    """Return the lines of a plot, without its legend."""
    rows = labels_of(drawing.rows)
    gutter = max(map(len, (_CORNER, *rows))) + 2
    room = max(8, width - gutter - len(_ARROW))
    # Where there are more columns than places, several share one.
    shared = -(-len(drawing.columns) // room)
    places = [list(drawing.columns[at : at + shared]) for at in range(0, len(drawing.columns), shared)]
    wide = max(1, min(_WIDEST_COLUMN, room // len(places)))
    now = next((at for at, starts in enumerate(places) if drawing.now in starts), None)
    axis = "".join(("▼" if at == now else "┬") + "─" * (wide - 1) for at in range(len(places)))
    before = f"({drawing.earlier_columns} earlier)" if drawing.earlier_columns else ""
    lines = [
        _line(before, gutter, Text(_ruler(drawing, shared, wide, now), "dim")),
        _line(_CORNER, gutter, Text(axis + _ARROW, "dim")),
    ]
    if drawing.earlier_rows:
        lines.append(_line(f"({drawing.earlier_rows} earlier)", gutter, Text("")))
    for moment, label in zip(drawing.rows, rows, strict=True):
        for track in range(drawing.depth):
            held = drawing.line(moment, track)
            if track == 0 or any(held):
                cells = [_sign(drawing, held[at : at + shared]) for at in range(0, len(held), shared)]
                lines.append(_line(label if track == 0 else "", gutter, _bar(cells, wide)))
    return [*lines]


def _line(label: str, gutter: int, text: Text) -> Text:
    return Text.assemble((f"{label:>{gutter - 2}}  ", "dim"), text, no_wrap=True, overflow="crop")


def _ruler(drawing: Drawing, shared: int, wide: int, now: int | None) -> str:
    """Return the labels over the columns, but for those that there is no room for."""
    labels = labels_of(drawing.columns)
    named = {at // shared * wide: label for at, label in enumerate(labels) if at % shared == 0}
    ruler = ""
    if now is not None:
        named[now * wide] = "now"
    for start, label in sorted(named.items()):
        end = start + len(label)
        crowded = now is not None and start < now * wide <= end
        if (start == 0 or start > len(ruler)) and not crowded:
            ruler = f"{ruler:<{start}}{label}"
    return ruler


def _sign(drawing: Drawing, held: Sequence[str | None]) -> tuple[str, str]:
    """Return what stands for what some columns hold, and its style."""
    if len(set(held)) > 1:
        return MIXED, "dim"
    ident = held[0]
    return (GAP, "dim") if ident is None else (drawing.signs[ident], f"bold {colour_of(drawing, ident)}")


def _bar(cells: Sequence[tuple[str, str]], wide: int) -> Text:
    bar = Text()
    for (sign, style), same in groupby(cells):
        bar.append(sign * wide * len(list(same)), style)
    return bar


def colour_of(drawing: Drawing, ident: str) -> str:
    """Return the colour of a memory."""
    return COLOURS[list(drawing.memories).index(ident) % len(COLOURS)]


def legend(
    drawing: Drawing,
    width: int,
    show: Callable[[Memory], Text] = content_text,
    *,
    ids: bool = True,
) -> Table:
    """Return what each sign stands for, and where it holds as believed in the last row."""
    narrow = width < NARROW
    table = table_of("", "content", "holds", "status", *(["id"] if ids and not narrow else []))
    for ident, memory in drawing.memories.items():
        holds = [Text(interval_label(interval)) for interval in drawing.holds[ident]]
        content = show(memory)
        table.add_row(
            Text(drawing.signs[ident], f"bold {colour_of(drawing, ident)}"),
            stacked(content, id_text(ident)) if ids and narrow else content,
            stacked(*holds) if holds else Text("(not any more)", "dim"),
            status_text(memory.status),
            *([id_text(ident)] if ids and not narrow else []),
        )
    return table
