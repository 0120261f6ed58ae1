"""Where the time of one row goes: py-spy watches a process that does nothing but our side of it.

A sampler from outside, because the work changes threads twice per call and a profiler from inside
would cost more than what it measures.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.environments import installed

SECONDS = 8.0
_PY_SPY = "py-spy==0.4.3"
_HERTZ = 500
_WAITING = ("_connection_worker_thread (", "_worker (", "EpollSelector.select (", "KqueueSelector.select (")
"""Where a thread waits for work: the innermost frame of one that does nothing."""
_STARTING = ("<frozen importlib", "benchmarks/write/content.py", "_parse_args")


@dataclass
class Samples:
    """How often each function was found running, itself (`own`) or in what it called (`within`)."""

    taken: int = 0
    own: Counter[str] = field(default_factory=Counter[str])
    within: Counter[str] = field(default_factory=Counter[str])
    lines: Counter[str] = field(default_factory=Counter[str])
    micros_per_item: float = 0.0
    """Measured by the watched process itself."""

    def take(self, stack: str, times: int) -> None:
        """Count one stack, outermost frame first: ``name (file:line);name (file:line);…``."""
        frames = stack.split(";")
        names = [frame.rpartition(":")[0] + ")" if ":" in frame else frame for frame in frames]
        self.taken += times
        self.own[names[-1]] += times
        self.lines[frames[-1]] += times
        for name in set(names):
            self.within[name] += times


def profile(name: str, folder: Path) -> Samples:
    """Run the row whose name holds `name` under py-spy."""
    py_spy = installed(folder / "py-spy", _PY_SPY) / "py-spy"
    with TemporaryDirectory(dir=folder) as temporary:
        stacks = Path(temporary, "stacks.txt")
        options = ["--rate", str(_HERTZ), "--format", "raw", "--full-filenames", "--output", str(stacks)]
        child = [sys.executable, "-m", "benchmarks.profiling", name, temporary]
        done = subprocess.run(
            [py_spy, "record", *options, "--", *child], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(done.stderr)
        samples = Samples(**json.loads(Path(temporary, "answer.json").read_text()))
        root = f"{Path.cwd()}/"
        for line in stacks.read_text().splitlines():
            stack, times = line.rsplit(" ", 1)
            waits = stack.rsplit(";", 1)[-1].startswith(_WAITING)
            if not waits and not any(part in stack for part in _STARTING):
                samples.take(_short(stack, root), int(times))
    return samples


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
    micros = asyncio.run(_repeat(sys.argv[1], Path(sys.argv[2])))
    Path(sys.argv[2], "answer.json").write_text(json.dumps({"micros_per_item": micros}))
