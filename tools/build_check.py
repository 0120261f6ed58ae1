"""Build the sdist, the wheel from it, install that elsewhere, and run the conformance suite there.

This finds what a source checkout hides: files missing from the package, imports that only work in
the repository, a suite that needs this project's own pytest settings.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent

SUITE: Final = """\
from pathlib import Path

from memsmith import MemoryBackend, SQLiteBackend
from memsmith.testing.conformance import BackendConformance


class TestMemory(BackendConformance):
    def make_backend(self, tmp_path: Path) -> MemoryBackend:
        return MemoryBackend()


class TestSQLite(BackendConformance):
    persistent = True

    def make_backend(self, tmp_path: Path) -> SQLiteBackend:
        return SQLiteBackend(tmp_path / "store.db")
"""


def run(*command: str | Path, cwd: Path) -> None:
    """Run a command and fail with it."""
    subprocess.run([str(part) for part in command], cwd=cwd, check=True)


def main() -> int:
    """Return 0 when the installed wheel passes its own conformance suite."""
    with tempfile.TemporaryDirectory(prefix="memsmith-build-") as name:
        folder = Path(name)
        built, elsewhere, empty = folder / "dist", folder / "venv", folder / "empty"
        empty.mkdir()
        # `build` without a choice makes the sdist, then the wheel out of the sdist.
        run(sys.executable, "-m", "build", "--outdir", built, ROOT, cwd=folder)
        (wheel,) = built.glob("*.whl")
        venv.create(elsewhere, with_pip=True)
        python = elsewhere / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", f"{wheel}[testing]", cwd=folder)
        (empty / "test_conformance.py").write_text(SUITE)
        run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=empty)
        run(elsewhere / "bin" / "memsmith", "--help", cwd=empty)
        shutil.copytree(built, ROOT / "dist", dirs_exist_ok=True)
    print("build check: the wheel made from the sdist passes its conformance suite where it is installed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
