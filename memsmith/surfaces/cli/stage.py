"""How the demonstration is shown: scenes with a title, lines and tables; or one JSON document."""

from __future__ import annotations

from typing import Any, cast

from rich.console import RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from memsmith.surfaces.cli.render import Out, table_of
from memsmith.surfaces.cli.visible import visible, visible_json
from memsmith.surfaces.cli.writing import result_data, result_word
from memsmith.types import ProposalResult

_INDENT = 2
_WIDEST = 118
_OUTCOMES = {
    "accepted": ("ACTIVE", "bold green"),
    "pending": ("HELD", "bold yellow"),
    "rejected": ("REFUSED", "bold red"),
}


class Stage:
    """Shows scenes as they happen, and remembers them as data."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._scenes: list[dict[str, Any]] = []
        out.console.width = min(out.console.width, _WIDEST)

    @property
    def width(self) -> int:
        """How wide a table may be."""
        return self._out.console.width - 2 * _INDENT

    def scene(self, title: str, *says: str) -> None:
        """Start a scene."""
        self._scenes.append({"title": title})
        heading = Text.assemble((f" {len(self._scenes)} ", "bold black on cyan"), (f" {title} ", "bold cyan"))
        self._print(Text(""))
        self._print(Rule(heading, align="left", style="cyan"))
        for line in says:
            self._print(Padding(Text(line, "italic"), (0, 0, 0, _INDENT)))

    def show(self, name: str, data: Any, *shown: RenderableType) -> None:
        """Show something, remembered under a name."""
        self._scenes[-1][name] = data
        for one in shown:
            self._print(Padding(one, (0, 0, 0, _INDENT)))

    def close(self, **more: Any) -> None:
        """End; the JSON document is printed now."""
        if self._out.json:
            self._out.answer({**more, "scenes": self._scenes})

    def _print(self, shown: RenderableType) -> None:
        if not self._out.json:
            self._out.console.print(shown)


def claim_text(content: Any) -> Text:
    """Return what was claimed as a sentence; content of another shape as JSON."""
    parts = cast(dict[str, Any], content) if isinstance(content, dict) else {}
    if {"about", "attribute", "value"} <= parts.keys():
        about, attribute, value = (visible(str(parts[name])) for name in ("about", "attribute", "value"))
        return Text.assemble((f"{about} · {attribute}: ", "dim"), value)
    return Text(visible_json(content))


def proposals_table() -> Table:
    """Return an empty table for `add_proposal`."""
    return table_of("proposed", "confidence", "outcome", "why")


def add_proposal(
    table: Table, content: Any, confidence: float, result: ProposalResult, note: str = ""
) -> None:
    """Add what was proposed, and what became of it."""
    data = result_data(result)
    why = "; ".join([visible(reason) for reason in data["reasons"]] + ([note] if note else []))
    word, style = _OUTCOMES[result_word(result)]
    code = f"\n{data['code']}" if data["code"] else ""
    table.add_row(claim_text(content), f"{confidence:g}", Text.assemble((word, style), (code, "red")), why)


def ticked(*parts: str | tuple[str, str] | Text, good: bool = True) -> Text:
    """Return a line that begins with a tick, or a cross."""
    return Text.assemble(("✔ ", "bold green") if good else ("✘ ", "bold red"), *parts)
