"""memsmith 0.1.0 from the package index, in an environment made for it, behind JSON lines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.environments import installed

VERSION = "0.1.0"
_WORKER = Path(__file__).with_name("legacy_worker.py")
_LINE_BYTES = 64 * 1024 * 1024


def environment(folder: Path) -> Path:
    """Return the Python of 0.1.0's environment.

    It gets the drivers this process runs on, so that only memsmith differs.
    """
    drivers = (f"{name}=={version(name)}" for name in ("aiosqlite", "pydantic"))
    return installed(folder / f"memsmith-{VERSION}", f"memsmith=={VERSION}", *drivers) / "python"


class Legacy:
    """Asks the worker; measured times are the worker's own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Send one request and return its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": command, **arguments}).encode() + b"\n")
        await self._process.stdin.drain()
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"memsmith {VERSION} ended during {command!r}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@asynccontextmanager
async def started(folder: Path) -> AsyncIterator[Legacy]:
    """Run the worker."""
    python = await asyncio.to_thread(environment, folder)
    process = await asyncio.create_subprocess_exec(
        str(python),
        str(_WORKER),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_LINE_BYTES,
    )
    try:
        yield Legacy(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
