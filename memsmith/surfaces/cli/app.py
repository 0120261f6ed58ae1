"""The typer application: which commands there are, and what `--help` says of exit codes."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from memsmith import __version__
from memsmith.surfaces._errors import MEANINGS
from memsmith.surfaces.cli import demo, looking_back, moving, reading, writing

# Shown as markup, which is safe: all of it is ours.
_EXIT_CODES: Final = " · ".join(f"[bold]{code:d}[/] {meaning}" for code, meaning in MEANINGS.items())

app = typer.Typer(
    name="memsmith",
    epilog=f"Exit codes: {_EXIT_CODES}\n\nNO_COLOR=1 switches colours off.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"memsmith {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Govern what AI agents remember: propose, decide, confirm, look back."""


_LOOK: Final = "Look"
_DECIDE: Final = "Propose and decide"
_KEEP: Final = "Check, move, recover"

app.command(rich_help_panel="Start here")(demo.demo)
app.command(rich_help_panel=_DECIDE)(writing.propose)
app.command(rich_help_panel=_DECIDE)(reading.pending)
app.command(rich_help_panel=_DECIDE)(writing.confirm)
app.command(rich_help_panel=_DECIDE)(writing.reject)
app.command(rich_help_panel=_DECIDE)(writing.retract)
app.command(rich_help_panel=_DECIDE)(writing.amend)
app.command("list", rich_help_panel=_LOOK)(reading.list_memories)
app.command(rich_help_panel=_LOOK)(reading.show)
app.command(rich_help_panel=_LOOK)(reading.count)
app.command(rich_help_panel=_LOOK)(looking_back.timeline)
app.command(rich_help_panel=_LOOK)(looking_back.history)
app.command(rich_help_panel=_LOOK)(looking_back.diff)
app.command(rich_help_panel=_LOOK)(reading.audit)
app.command(rich_help_panel=_LOOK)(reading.tombstones)
app.command(rich_help_panel=_DECIDE)(writing.lift)
app.command(rich_help_panel=_KEEP)(writing.sweep)
app.command(rich_help_panel=_KEEP)(reading.verify)
app.command(rich_help_panel=_KEEP)(reading.replay)
app.command("export", rich_help_panel=_KEEP)(moving.export)
app.command("import", rich_help_panel=_KEEP)(moving.import_file)
app.command(rich_help_panel=_KEEP)(moving.upgrade)
app.command(rich_help_panel=_KEEP)(moving.secret)
