"""`memsmith demo`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Final

import typer
from rich import box
from rich.panel import Panel
from rich.text import Text

from memsmith.surfaces.cli.render import Out
from memsmith.surfaces.cli.shared import Json, run
from memsmith.surfaces.cli.stage import Stage

DEMO_STORE: Final = "memsmith-demo.db"


def demo(
    store: Annotated[
        str,
        typer.Option("--store", "-s", help="The SQLite file to make; one of an earlier demo is replaced."),
    ] = DEMO_STORE,
    as_json: Json = False,
) -> None:
    """Watch proposals being decided, on a fresh SQLite file in this folder."""
    # Loaded here: validators and schemas would more than double what every other command takes to start.
    from memsmith.surfaces.cli.play import play

    out = Out(json=as_json)
    stage = Stage(out)
    path = run(out, lambda: play(stage, store))
    _closing(out, stage, path)


def _closing(out: Out, stage: Stage, path: Path) -> None:
    name = shlex.quote(str(path))
    commands = (
        (f"memsmith list -s {name}", "all memories"),
        (f"memsmith pending -s {name}", "two still wait for you: confirm or reject them"),
        (f"memsmith timeline atlas/on_call -s {name}", "both axes of time, drawn"),
        (f"memsmith audit -s {name}", "the whole ledger"),
        (f"memsmith tombstones -s {name}", "what may not come back"),
        (f"memsmith verify {name} --deep", "check it yourself"),
    )
    width = max(len(command) for command, _ in commands)
    lines = [Text.assemble((f"{command:<{width}}", "bold green"), f"   {says}") for command, says in commands]
    stage.close(store=str(path), next=[command for command, _ in commands])
    if not out.json:
        panel = Panel(
            Text("\n").join(lines), title="Try next", title_align="left", box=box.ROUNDED, expand=False
        )
        out.console.print("", panel)
