"""The drawn example of both axes is what its page's own code leads to."""

from __future__ import annotations

import importlib.util
from typing import Any

from doc_blocks import ROOT


def timeline_docs() -> Any:
    spec = importlib.util.spec_from_file_location("timeline_docs", ROOT / "tools" / "timeline_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_plot_and_image_are_drawn_from_a_run_of_the_page_they_stand_on() -> None:
    tool = timeline_docs()
    page = tool.PAGE.read_text(encoding="utf-8")
    text, image = await tool.updated(page)
    assert text == page, "run tools/timeline_docs.py: the plot lags"
    assert image == tool.IMAGE.read_text(encoding="utf-8"), "run tools/timeline_docs.py: the image lags"


async def test_a_change_of_the_story_changes_the_drawing() -> None:
    tool = timeline_docs()
    page = tool.PAGE.read_text(encoding="utf-8")
    other, _ = await tool.updated(page.replace("day(6, 20))  # a trip", "day(6, 21))  # a trip"))
    assert "2026-06-21" in other
