"""The command line."""

from __future__ import annotations

import sys
from io import TextIOWrapper


def main() -> None:
    """Run the command that was typed."""
    # Loaded here, so that naming this package costs neither typer nor rich.
    from memsmith.surfaces.cli.app import app

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal without UTF-8 gets escapes, not a traceback.
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="memsmith")
