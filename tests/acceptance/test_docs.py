"""The documentation runs, and has a heading for everything it promises to list."""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from doc_blocks import LANGUAGES, ROOT, blocks_of, run_document
from postgres import databases

from memsmith import MemoryStore, PostgresBackend, SQLiteBackend, errors
from memsmith.metrics import METRICS

DOCS: Final = sorted((ROOT / "docs").rglob("*.md"))
PAGES: Final = [*DOCS, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]
ADRS: Final = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
WITH_CODE: Final = [
    path for path in DOCS if any(block.language in {"python", "bash"} for block in blocks_of(path))
]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def headings(path: Path, level: int) -> list[str]:
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.findall(rf"^{'#' * level} (.+)$", text, re.MULTILINE)


@pytest.mark.parametrize("path", WITH_CODE, ids=name_of)
async def test_every_block_of_a_page_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if "DATABASE_URL" in path.read_text(encoding="utf-8"):
        monkeypatch.setenv("DATABASE_URL", databases.at(tmp_path))
    assert await run_document(path) > 0


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_block_names_a_language_that_is_checked(path: Path) -> None:
    assert {block.language for block in blocks_of(path)} <= LANGUAGES


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_link_between_pages_leads_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), target


def lifecycle_docs() -> Any:
    spec = importlib.util.spec_from_file_location("lifecycle_docs", ROOT / "tools" / "lifecycle_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_diagram_and_table_of_the_lifecycle_are_those_of_the_machine() -> None:
    generator = lifecycle_docs()
    updated: Callable[[str], str] = generator.updated
    for path in generator.FILES:
        text = path.read_text(encoding="utf-8")
        assert "<!-- lifecycle: diagram -->" in text
        assert updated(text) == text, f"run tools/lifecycle_docs.py: {name_of(path)} lags"


def test_every_error_has_a_heading_and_no_heading_is_left_over() -> None:
    documented = headings(ROOT / "docs" / "reference" / "errors.md", 3)
    raised = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.MemsmithError)
    ]
    assert sorted(documented) == sorted(raised)


def test_every_setting_has_a_heading_and_no_heading_is_left_over() -> None:
    documented = headings(ROOT / "docs" / "reference" / "settings.md", 3)
    arguments = [*inspect.signature(MemoryStore.init).parameters]
    options = {
        name
        for backend in (SQLiteBackend, PostgresBackend)
        for name in inspect.signature(backend).parameters
        if name not in {"path", "dsn"}
    }
    variables = {
        name
        for source in (ROOT / "memsmith").rglob("*.py")
        for name in re.findall(r"\"(MEMSMITH_[A-Z_]+)\"", source.read_text(encoding="utf-8"))
    }
    assert sorted(documented) == sorted([*arguments, *options, *variables])


def test_every_metric_is_listed_with_its_kind_and_labels() -> None:
    text = (ROOT / "docs" / "howto" / "metrics.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip(" `") for cell in line.split("|")[1:4]] for line in text.splitlines() if "| `mem" in line
    ]
    assert rows == [[name, metric.kind, ", ".join(metric.labels)] for name, metric in METRICS.items()]


def test_decisions_are_numbered_without_gaps_and_listed() -> None:
    listed = (ROOT / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    for number, path in enumerate(ADRS, start=1):
        assert path.name.startswith(f"{number:04}-")
        assert f"[{headings(path, 1)[0]}]({path.name})" in listed


@pytest.mark.parametrize("path", ADRS, ids=name_of)
def test_a_decision_says_what_else_was_considered_and_what_it_leaves_open(path: Path) -> None:
    assert headings(path, 2) == ["Status", "Context", "Decision", "Alternatives considered", "Not covered"]
