"""Commands about both axes of time: timeline, history, diff."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from memsmith._clock import require_aware, utc_now
from memsmith.errors import ArgumentError, NotFoundError
from memsmith.store.store import MemoryStore
from memsmith.surfaces.cli.drawing import MOST, Drawing, drawing_of
from memsmith.surfaces.cli.moving import sink
from memsmith.surfaces.cli.page import page
from memsmith.surfaces.cli.plot import legend, plot
from memsmith.surfaces.cli.render import Out, counted, learned_table, versions_table
from memsmith.surfaces.cli.shared import (
    DEFAULT_STORE,
    STDIO,
    Json,
    KeyKind,
    KeyScope,
    Store,
    SystemAt,
    answering,
    moment_of,
    with_store,
)
from memsmith.surfaces.cli.visible import visible
from memsmith.types import FACT, Difference, Rectangle, Span, Version


@dataclass(frozen=True)
class _Told:
    spans: Sequence[Span]
    rectangles: Sequence[Rectangle]
    drawing: Drawing | None


def timeline(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The slot that facts fill.", show_default=False)],
    store: Store = DEFAULT_STORE,
    scope: KeyScope = "",
    kind: KeyKind = FACT,
    system_at: Annotated[
        str | None,
        typer.Option(
            "--system-at", "--as-of-system", metavar="TIME", help="As far as the store knew it then."
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Rows and columns at most.")] = MOST,
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Write a page that needs nothing else.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    as_json: Json = False,
) -> None:
    """Draw what a key said: across when it holds, down since when the store believed so."""
    out = Out(json=as_json)
    with answering(out):
        known_at = moment_of("system_at", system_at)
        if html not in {None, STDIO} and Path(str(html)).exists() and not force:
            raise ArgumentError("html", "a file that is not there yet (--force replaces one)", html)

    async def work(opened: MemoryStore) -> _Told:
        return await _told(opened, key, scope, kind, known_at, limit)

    told = with_store(out, store, work)
    if html is not None:
        _write(out, html, key, told.drawing, known_at)
        if html == STDIO:
            return
    data = {
        "key": key,
        "scope": scope,
        "kind": kind,
        "system_at": known_at,
        "spans": told.spans,
        "rectangles": told.rectangles,
        "html": html,
    }
    out.answer(data, *_lines(out, key, told.drawing, html))


def history(
    ident: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="A memory's id; or --key.", show_default=False)
    ] = None,
    store: Store = DEFAULT_STORE,
    key: Annotated[str | None, typer.Option("--key", help="All memories that ever had this key.")] = None,
    scope: KeyScope = "",
    kind: KeyKind = FACT,
    system_at: SystemAt = None,
    as_json: Json = False,
) -> None:
    """Show every version, each with when it holds, when the store had it so, who did it and why."""
    out = Out(json=as_json)
    with answering(out):
        known_at = moment_of("system_at", system_at)

    async def work(opened: MemoryStore) -> list[Version]:
        reader = opened.as_of(system_at=known_at)
        versions = await reader.history(ident, key=key, scope=scope, kind=kind)
        if ident is not None and not versions and await opened.get(ident) is None:
            raise NotFoundError(ident)
        return versions

    versions = with_store(out, store, work)
    table = versions_table(versions, out.console.width, memory_ids=ident is None)
    out.answer({"items": versions}, table if versions else Text("Nothing was known.", "dim"))


def diff(
    since: Annotated[
        str, typer.Argument(metavar="FROM", help="ISO 8601 with an offset.", show_default=False)
    ],
    to: Annotated[
        str | None, typer.Argument(metavar="[TO]", help="The same; now without.", show_default=False)
    ] = None,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Show what the store learned between two moments: each memory that changed, before and after."""
    out = Out(json=as_json)
    with answering(out):
        first, last = moment_of("from", since), moment_of("to", to)
        assert first is not None

    async def work(opened: MemoryStore) -> list[Difference]:
        now = utc_now()
        if last is None and require_aware("from", first) >= now:
            raise ArgumentError("from", "a time that has passed", since)
        return await opened.diff(first, last or now)

    differences = with_store(out, store, work)
    head = Text(f"{counted(len(differences), 'memory', 'memories')} changed", "bold")
    out.answer({"items": differences}, head, *([_learned(out, differences)] if differences else []))


# -- inside ---------------------------------------------------------------------------------------


async def _told(
    store: MemoryStore, key: str, scope: str, kind: str, known_at: datetime | None, most: int
) -> _Told:
    reader = store.as_of(system_at=known_at)
    spans = await reader.timeline(key, scope=scope, kind=kind)
    rectangles = await store.rectangles(key, scope=scope, kind=kind)
    versions = await store.history(key=key, scope=scope, kind=kind)
    drawing = drawing_of(rectangles, versions, utc_now(), system_at=known_at, most=most)
    if known_at is not None:
        rectangles = [rectangle for rectangle in rectangles if rectangle.system_from <= known_at]
    return _Told(spans, rectangles, drawing)


def _lines(out: Out, key: str, drawing: Drawing | None, html: str | None) -> list[RenderableType]:
    if drawing is None:
        return [Text("Nothing was ever effective on this key.", "dim")]
    width = out.console.width
    lines: list[RenderableType] = [Text(visible(key), "bold"), *plot(drawing, width), legend(drawing, width)]
    if html is not None:
        lines.append(Text.assemble(("✔ ", "green"), f"drawn in {visible(html)}"))
    return lines


def _write(out: Out, html: str, key: str, drawing: Drawing | None, known_at: datetime | None) -> None:
    with answering(out):
        if drawing is None:
            raise ArgumentError("key", "a key that something was ever effective on", key)
        with sink(html) as write:
            write(page(key, drawing, system_at=known_at).encode())


def _learned(out: Out, differences: Sequence[Difference]) -> RenderableType:
    return learned_table(differences, out.console.width)
