"""Draw the example of docs/concepts/time.md from a run of that page's own first blocks.

`python tools/timeline_docs.py` brings the page and its image up to date; a test fails when they lag.
"""

from __future__ import annotations

import ast
import asyncio
import io
import re
import sys
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from memsmith import MemoryStore
from memsmith.surfaces.cli.drawing import Drawing, drawing_of
from memsmith.surfaces.cli.page import svg
from memsmith.surfaces.cli.plot import legend, plot

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "concepts" / "time.md"
IMAGE: Final = PAGE.with_suffix(".svg")
START: Final = "<!-- timeline: plot -->"
END: Final = "<!-- end of plot -->"
WIDTH: Final = 112
PAPER: Final = "#fbfaf7"


async def drawn(page: str) -> Drawing:
    """Run the Python blocks that come before the drawing, and lay out what their store has."""
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", page.split(START)[0], re.MULTILINE | re.DOTALL))
    names: dict[str, Any] = {}
    await eval(compile(code, PAGE.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    store: MemoryStore = names["store"]
    async with store:
        key = names["KEY"]
        drawing = drawing_of(await store.rectangles(key), await store.history(key=key), names["clock"]())
    assert drawing is not None
    return drawing


def as_text(drawing: Drawing) -> str:
    """Return the plot and its legend as a block of text."""
    console = Console(file=io.StringIO(), width=WIDTH, color_system=None, legacy_windows=False)
    console.print(*plot(drawing, WIDTH), legend(drawing, WIDTH, ids=False), sep="\n")
    assert isinstance(console.file, io.StringIO)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    return "\n".join(["```text", *lines, "```"])


async def updated(page: str) -> tuple[str, str]:
    """Return the page and the image as they should be."""
    drawing = await drawn(page)
    before, rest = page.split(START, 1)
    text = f"{before}{START}\n{as_text(drawing)}\n{END}{rest.split(END, 1)[1]}"
    return text, svg(drawing, background=PAPER) + "\n"


def main() -> int:
    """Rewrite what lags."""
    wanted = asyncio.run(updated(PAGE.read_text(encoding="utf-8")))
    for path, text in zip((PAGE, IMAGE), wanted, strict=True):
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"updated {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
