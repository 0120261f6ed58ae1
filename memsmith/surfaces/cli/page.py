"""A key's two axes of time as one page that needs nothing else: no script, no font, no network."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from html import escape
from typing import Final

from memsmith.surfaces.cli.drawing import Drawing, interval_label, labels_of, moment_label
from memsmith.surfaces.cli.visible import visible, visible_json
from memsmith.temporal import until
from memsmith.types import Interval, Memory, Rectangle

HUES: Final = (150, 200, 45, 310, 250, 10, 100, 180, 275, 70)
"""Far apart, and each with another lightness, so that neighbours differ without colour too."""

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #66707b; --paper: #fff; --line: #d5dae0; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8ebee; --dim: #98a2ad; --paper: #14171a; --line: #363d45; }
}
body { margin: 2rem auto; max-width: 68rem; padding: 0 1rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.3rem; } p { color: var(--dim); } code { font-family: ui-monospace, monospace; }
figure { margin: 0; overflow-x: auto; } svg { display: block; min-width: 40rem; width: 100%; height: auto; }
table { border-collapse: collapse; width: 100%; margin-top: 1.5rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem .8rem .4rem 0; }
tr + tr > * { border-top: 1px solid var(--line); }
th { color: var(--dim); font-weight: normal; } td { overflow-wrap: anywhere; }
.swatch { display: inline-block; width: 1.6em; text-align: center; border-radius: 3px; color: #fff;
  font-weight: bold; }
"""
_DRAWN: Final = """
text { font: 12px system-ui, sans-serif; fill: #7a858f; }
.sign { font-weight: bold; fill: #fff; text-anchor: middle; }
.grid { stroke: #8884; } .now { stroke: #d33; stroke-dasharray: 4 3; } .piece { stroke: #fff; }
"""

_LEFT: Final = 150
_TOP: Final = 44
_RIGHT: Final = 24
_COLUMN: Final = 118
_ROW: Final = 38


def page(title: str, drawing: Drawing, *, system_at: datetime | None = None) -> str:
    """Return a whole HTML document with the drawing, and a table of what is drawn."""
    name = escape(visible(title))
    known = "" if system_at is None else f" As known at {escape(moment_label(system_at))}."
    left = "".join(
        f" {count} earlier {name} are left out."
        for count, name in ((drawing.earlier_rows, "rows"), (drawing.earlier_columns, "columns"))
        if count
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{name}: what was known, and when</title>
<style>{_STYLE}</style>
</head>
<body>
<h1><code>{name}</code>: what was known, and when</h1>
<p>Across: when it holds in the world. Down: since when the store believed so. Columns and rows begin where
something changes, so they are not to scale. Times are in UTC.{known}{left}</p>
<figure>
{svg(drawing)}
</figure>
<table>
<tr><th></th><th>content</th><th>holds, as believed in the last row</th><th>status</th><th>memory</th></tr>
{chr(10).join(_legend(drawing))}
</table>
</body>
</html>
"""


def svg(drawing: Drawing, *, background: str | None = None) -> str:
    """Return the drawing as an SVG image: one rectangle for each stretch of either axis."""
    tall = _ROW * drawing.depth
    width = _LEFT + _COLUMN * len(drawing.columns) + _RIGHT
    height = _TOP + tall * len(drawing.rows) + 12
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'aria-label="valid time across, system time down">',
        f"<style>{_DRAWN}</style>",
    ]
    over: list[str] = []
    if background is not None:
        lines.append(f'<rect width="{width}" height="{height}" fill="{background}"/>')
    lines.append('<text x="8" y="16">valid time →</text><text x="8" y="34">believed from ↓</text>')
    for at, label in enumerate(labels_of(drawing.columns)):
        x = _LEFT + _COLUMN * at
        is_now = drawing.columns[at] == drawing.now
        lines.append(f'<text x="{x + 3}" y="34">{"now" if is_now else escape(label)}</text>')
        kind = "now" if is_now else "grid"
        (over if is_now else lines).append(
            f'<line class="{kind}" x1="{x}" x2="{x}" y1="22" y2="{height - 8}"/>'
        )
    for at, label in enumerate(labels_of(drawing.rows)):
        y = _TOP + tall * at
        lines.append(f'<text x="8" y="{y + 23}">{escape(label)}</text>')
        lines.append(f'<line class="grid" x1="0" x2="{width}" y1="{y}" y2="{y}"/>')
    lines += [_rectangle(drawing, piece) for piece in drawing.pieces]
    return "\n".join([*lines, *over, "</svg>"])


def _rectangle(drawing: Drawing, piece: Rectangle) -> str:
    columns = [at for at, start in enumerate(drawing.columns) if _in(start, piece.valid_from, piece.valid_to)]
    rows = [at for at, start in enumerate(drawing.rows) if _in(start, piece.system_from, piece.system_to)]
    tall, track = _ROW * drawing.depth, drawing.tracks[piece.memory_id]
    boxes: list[str] = []
    # On a key with many values a rectangle is as many bars as it has rows.
    runs = [rows] if drawing.depth == 1 else [[row] for row in rows]
    for run in runs:
        x, y = _LEFT + _COLUMN * columns[0], _TOP + tall * run[0] + _ROW * track
        wide, high = _COLUMN * len(columns), tall * len(run) if drawing.depth == 1 else _ROW
        boxes.append(
            f'<rect class="piece" x="{x}" y="{y}" width="{wide}" height="{high}" rx="3" '
            f'fill="{colour_of(drawing, piece.memory_id)}"/>'
            f'<text class="sign" x="{x + wide / 2:g}" y="{y + high / 2 + 4:g}">'
            f"{drawing.signs[piece.memory_id]}</text>"
        )
    return f"<g><title>{escape(_told(drawing.memories[piece.memory_id], piece))}</title>{''.join(boxes)}</g>"


def _in(moment: datetime, start: datetime, end: datetime | None) -> bool:
    return start <= moment < until(end)


def _told(memory: Memory, piece: Rectangle) -> str:
    holds = interval_label(Interval(piece.valid_from, piece.valid_to))
    believed = interval_label(Interval(piece.system_from, piece.system_to))
    return f"{_content(memory)}\nholds {holds}\nbelieved {believed}"


def _content(memory: Memory) -> str:
    return "(not kept)" if memory.content is None else visible_json(memory.content)


def colour_of(drawing: Drawing, ident: str) -> str:
    """Return the colour of a memory."""
    at = list(drawing.memories).index(ident)
    return f"hsl({HUES[at % len(HUES)]} 45% {34 + at % 3 * 6}%)"


def _legend(drawing: Drawing) -> Iterator[str]:
    for ident, memory in drawing.memories.items():
        holds = "<br>".join(escape(interval_label(i)) for i in drawing.holds[ident]) or "(not any more)"
        swatch = f'<span class="swatch" style="background: {colour_of(drawing, ident)}">'
        yield (
            f"<tr><td>{swatch}{drawing.signs[ident]}</span></td><td><code>{escape(_content(memory))}</code></td>"
            f"<td>{holds}</td><td>{memory.status.name}</td><td><code>{escape(visible(ident))}</code></td></tr>"
        )
