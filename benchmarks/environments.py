"""Virtual environments of the benchmarks' own, under `.bench/`, made when first needed."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path


def installed(home: Path, *requirements: str) -> Path:
    """Return the folder of programs of an environment that holds `requirements`."""
    programs, stamp = home / "bin", home / "installed"
    wanted = "\n".join(requirements)
    if not stamp.exists() or stamp.read_text() != wanted:
        venv.create(home, with_pip=True, clear=True)
        python = str(programs / "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", *requirements], check=True)
        stamp.write_text(wanted)
    return programs
