"""Where the time of one row goes: py-spy watches a process that does nothing but our side of it.

A sampler from outside, because the work changes threads twice per call and a profiler from inside
would cost more than what it measures.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.environments import installed

SECONDS = 6.0
_PY_SPY = "py-spy==0.4.3"
_HERTZ = 500
_WAITING = ("_connection_worker_thread (", "_worker (", "EpollSelector.select (", "KqueueSelector.select (")
"""Where a thread waits for work: the innermost frame of one that does nothing."""
_APART = ("<frozen importlib", "benchmarks/write/content.py", "fill (", "filled (")
"""Frames of what is not the row itself: starting, making up contents, filling a store to read from."""


@dataclass
class Samples:
    """How often a function was found running: itself (`own`), or in a call from it (`within`)."""

    taken: int = 0
    own: Counter[str] = field(default_factory=Counter[str])
    within: Counter[str] = field(default_factory=Counter[str])
    lines: Counter[str] = field(default_factory=Counter[str])
    micros_per_item: float = 0.0
    """Measured without the sampler, which stops the process to look at it."""

    def take(self, stack: str, times: int) -> None:
        """Count one stack, outermost frame first: ``name (file:line);name (file:line);…``."""
        frames = stack.split(";")
        names = [frame.rpartition(":")[0] + ")" if ":" in frame else frame for frame in frames]
        self.taken += times
        self.own[names[-1]] += times
        self.lines[frames[-1]] += times
        for name in {name for name in names if "(memsmith/" in name}:
            self.within[name] += times


async def profile(name: str, folder: Path) -> Samples:
    """Run the row whose name holds `name`, first unwatched and then under py-spy."""
    with TemporaryDirectory(dir=folder) as temporary:
        samples = Samples(micros_per_item=await _repeat(name, Path(temporary)))
        await asyncio.to_thread(_watch, name, folder, Path(temporary), samples)
    return samples


def _watch(name: str, folder: Path, temporary: Path, samples: Samples) -> None:
    py_spy, stacks = installed(folder / "py-spy", _PY_SPY) / "py-spy", temporary / "stacks.txt"
    options = ["--rate", str(_HERTZ), "--format", "raw", "--full-filenames", "--output", str(stacks)]
    child = [sys.executable, "-m", "benchmarks.profiling", name, str(temporary)]
    done = subprocess.run(
        [str(py_spy), "record", *options, "--", *child], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    root = f"{Path.cwd()}/"
    for line in stacks.read_text().splitlines():
        stack, times = line.rsplit(" ", 1)
        innermost = stack.rsplit(";", 1)[-1]
        idle = innermost.startswith(_WAITING) or "/benchmarks/" in innermost
        if stack and not idle and not any(part in stack for part in _APART):
            samples.take(_short(stack, root), int(times))


def _short(stack: str, root: str) -> str:
    """Name files of the repository from its root, others by their last two parts."""
    frames: list[str] = []
    for frame in stack.split(";"):
        name, _, place = frame.partition(" (")
        place = place.removeprefix(root) if place.startswith(root) else "/".join(place.split("/")[-2:])
        frames.append(f"{name} ({place}")
    return ";".join(frames)


async def _repeat(name: str, folder: Path) -> float:
    from benchmarks.run import once  # only the watched process runs rows

    seconds, items, number = 0.0, 0, 0
    started = perf_counter()
    while perf_counter() - started < SECONDS:
        took, count = await once(name, folder, number)
        seconds, items, number = seconds + took, items + count, number + 1
    return seconds / items * 1e6


if __name__ == "__main__":
    asyncio.run(_repeat(sys.argv[1], Path(sys.argv[2])))
