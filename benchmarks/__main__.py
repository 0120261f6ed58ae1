"""`python -m benchmarks`: run the rows, print the table, write the JSON."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
from rich.console import Console

from benchmarks import report, run
from benchmarks.profiling import profile
from benchmarks.write import legacy, ours

ROOT = Path(__file__).resolve().parent.parent


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller stores, for a look")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only rows whose name holds this, or 'growth' or 'chains'"
    )
    parser.add_argument(
        "--alone", action="store_true", help="without memsmith 0.1.0 (needs no package index)"
    )
    parser.add_argument("--chains", type=int, metavar="N", help="how many chains of 1,000 are filled")
    parser.add_argument("--profile", metavar="TEXT", help="say where the time of one row goes, and stop")
    parser.add_argument("--json", type=Path, default=ROOT / "benchmarks" / "results.json", metavar="FILE")
    return parser.parse_args()


async def _main() -> None:
    arguments = _arguments()
    console = Console(width=None if Console().is_terminal else 140)
    sizes = run.QUICK if arguments.quick else run.FULL
    if arguments.chains is not None:
        sizes = replace(sizes, chains=arguments.chains)
    folder = ROOT / ".bench"
    folder.mkdir(exist_ok=True)
    if arguments.profile is not None:
        report.show_samples(console, await profile(arguments.profile, folder))
        return
    async with AsyncExitStack() as stack:
        status = stack.enter_context(console.status("starting"))
        worker = None if arguments.alone else await stack.enter_async_context(legacy.started(folder))
        temporary = stack.enter_context(TemporaryDirectory(dir=folder))
        pragmas = await ours.pragmas(Path(temporary, "pragmas.db"))
        bench = run.Bench(folder, sizes, pragmas, worker, arguments.only, status.update)
        await bench.writes()
        await bench.reads()
        await bench.postgres()
        growth = await bench.growth()
        compared = await bench.chains()
    report.show(console, bench.rows, growth, compared, sizes.rounds)
    found = report.as_json(bench.rows, growth, compared, sizes.rounds)
    arguments.json.write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2))
    console.print(f"written to {arguments.json}")


if __name__ == "__main__":
    asyncio.run(_main())
