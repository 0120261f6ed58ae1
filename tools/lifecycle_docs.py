"""Write the lifecycle's diagram and table into the documentation, from the one table that knows it.

`python tools/lifecycle_docs.py` brings README.md and docs/ up to date; a test fails when they lag.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from memsmith.lifecycle import TABLE, Action, Transition
from memsmith.types import MemoryStatus

ROOT: Final = Path(__file__).resolve().parent.parent
PROPOSED: Final = MemoryStatus.PROPOSED

EVERYWHERE: Final = frozenset({Action.IMPORT, Action.ERASE})
"""Actions between almost all statuses; as arrows they would hide the rest."""


def diagram() -> str:
    """Return a Mermaid state diagram: one arrow for each pair of statuses, actions as its label."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for row in TABLE:
        if row.action in EVERYWHERE:
            continue
        for source in row.from_statuses:
            for target in row.to_statuses:
                start = "[*]" if source is PROPOSED else source.name
                arrows.setdefault((start, target.name), []).append(name_of(row))
    lines = [f"    {a} --> {b} : {', '.join(names)}" for (a, b), names in arrows.items()]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def table() -> str:
    """Return the whole machine as a Markdown table, in the order it is written down."""
    lines = ["| from | to | action | in the ledger | who |", "|---|---|---|---|---|"]
    for row in TABLE:
        sources = ", ".join("(new)" if s is PROPOSED else s.name for s in row.from_statuses)
        targets = ", ".join(t.name for t in row.to_statuses) or "(unchanged)"
        lines.append(f"| {sources} | {targets} | {name_of(row)} | `{row.action.value}` | {row.who.value} |")
    return "\n".join(lines)


def name_of(row: Transition) -> str:
    """Return an action's name as people say it."""
    return row.action.name.lower().replace("_", " ")


PARTS: Final[dict[str, Callable[[], str]]] = {"diagram": diagram, "table": table}
FILES: Final = (ROOT / "README.md", ROOT / "docs" / "concepts" / "lifecycle.md")


def updated(text: str) -> str:
    """Return a document with every part between its markers as it should be."""
    for name, make in PARTS.items():
        start, end = f"<!-- lifecycle: {name} -->", f"<!-- end of {name} -->"
        if start in text:
            before, rest = text.split(start, 1)
            text = f"{before}{start}\n{make()}\n{end}{rest.split(end, 1)[1]}"
    return text


def main() -> int:
    """Rewrite what lags."""
    for path in FILES:
        found = path.read_text(encoding="utf-8")
        if (wanted := updated(found)) != found:
            path.write_text(wanted, encoding="utf-8")
            print(f"updated {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
