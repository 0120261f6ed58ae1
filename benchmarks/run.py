"""Runs the rows: in each round all sides of a row, one after the other, on fresh files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.report import Row
from benchmarks.time import chains
from benchmarks.time.chains import Comparison
from benchmarks.write import floor, ours, postgres
from benchmarks.write.cases import WARM, WRITE_CASES, WriteCase
from benchmarks.write.content import contents
from benchmarks.write.growth import Growth, measure
from benchmarks.write.legacy import Legacy
from benchmarks.write.reads import filled, read_cases


@dataclass(frozen=True)
class Sizes:
    """How much is run; the quick form is for a look, not for a record."""

    rounds: int = 5
    stored: int = 10_000
    large: int = 1_000_000
    growth_count: int = 300
    chains: int = 50
    members: int = 1000
    divisor: int = 1


FULL = Sizes()
QUICK = Sizes(rounds=3, stored=2000, large=100_000, growth_count=100, chains=20, members=200, divisor=4)


@dataclass
class Bench:
    """One run. `folder` is where files are made, `tell` hears which row is next."""

    folder: Path
    sizes: Sizes
    pragmas: Mapping[str, int]
    legacy: Legacy | None = None
    only: str = ""
    tell: Callable[[str], None] = print
    rows: list[Row] = field(default_factory=list[Row])

    async def writes(self) -> None:
        """Measure every row that writes."""
        for case in WRITE_CASES:
            if self.only in case.name:
                self.tell(case.name)
                self.rows.append(await self._write(case))

    async def reads(self) -> None:
        """Measure every row that reads."""
        cases = [case for case in read_cases(self.sizes.stored) if self.only in case.name]
        if not cases:
            return
        self.tell("filling the stores to read from")
        with TemporaryDirectory(dir=self.folder) as folder:
            kept = contents(self.sizes.stored, 0)
            async with filled(Path(folder, "reads.db"), kept, self.legacy) as shelf:
                for case in cases:
                    self.tell(case.name)
                    row = Row(case.name, case.count, case.floor_target, case.legacy_target)
                    for _ in range(self.sizes.rounds):
                        row.ours.append(await case.ours(shelf, case.count))
                        row.floor.append(await case.floor(shelf, case.count))
                        if self.legacy is not None and case.legacy is not None:
                            row.legacy.append(await case.legacy(shelf, self.legacy, case.count))
                    self.rows.append(row)

    async def postgres(self) -> None:
        """Measure the rows on PostgreSQL."""
        if any(self.only in name for name in postgres.NAMES):
            with postgres.served() as databases:
                self.rows += await postgres.measure(
                    databases, self.folder, self.only, self.sizes.rounds, self.sizes.divisor, self.tell
                )

    async def growth(self) -> Growth | None:
        """Measure how a proposal's cost grows with the store."""
        if self.only not in "growth":
            return None
        self.tell(f"growth: filling a store with {self.sizes.large:,} memories")
        with TemporaryDirectory(dir=self.folder) as folder:
            sizes = self.sizes
            return await measure(Path(folder), sizes.large, sizes.rounds, sizes.growth_count, self.pragmas)

    async def chains(self) -> list[Comparison]:
        """Measure what reads at past points and long chains cost."""
        if self.only not in "chains":
            return []
        sizes = self.sizes
        self.tell(f"chains: filling {sizes.chains:,} of {sizes.members:,} members")
        with TemporaryDirectory(dir=self.folder) as folder:
            return await chains.measure(
                Path(folder), sizes.chains, sizes.members, sizes.rounds, sizes.growth_count
            )

    async def _write(self, case: WriteCase) -> Row:
        count = case.count if case.batch else case.count // self.sizes.divisor
        row = Row(case.name, count, case.floor_target, case.legacy_target)
        failed: Counter[str] = Counter()
        kept: list[int] = []
        syncs: list[float] = []
        for number in range(self.sizes.rounds):
            made = contents(count + WARM, number)
            with TemporaryDirectory(dir=self.folder) as folder:
                syncs.append(floor.sync_micros(Path(folder, "sync")))
                path = Path(folder, "ours.db")
                row.ours.append(await ours.write(case, path, made))
                row.floor.append(
                    floor.write(case, Path(folder, "floor.db"), floor.read_back(path), self.pragmas)
                )
                if self.legacy is not None:
                    answer = await self.legacy.ask(
                        "write", path=str(Path(folder, "legacy.db")), warm=made[:WARM], contents=made[WARM:],
                        clients=case.clients, batch=case.batch, validators=case.validators,
                    )  # fmt: skip
                    row.legacy.append(answer["seconds"])
                    failed.update(answer["failed"])
                    kept.append(answer["kept"])
        if case.durability == "full":
            row.notes.append(
                "the disk took 40 KiB in " + ", ".join(f"{micros:.0f}" for micros in syncs) + " µs"
            )
        row.notes += [f"0.1.0 raised {times} times: {error}" for error, times in failed.items()]
        if lost := count * len(kept) - sum(kept) - failed.total():
            row.notes.append(f"0.1.0 lost {lost} memories it had reported as written")
        return row


async def once(name: str, folder: Path, number: int) -> tuple[float, int]:
    """Run our side of one row once; return the seconds and the number of items."""
    with TemporaryDirectory(dir=folder) as temporary:
        path = Path(temporary, "once.db")
        for case in WRITE_CASES:
            if name in case.name:
                return await ours.write(case, path, contents(case.count + WARM, number)), case.count
        for reading in read_cases(FULL.stored):
            if name in reading.name:
                async with filled(path, contents(FULL.stored, number), None) as shelf:
                    times = [await reading.ours(shelf, reading.count) for _ in range(20)]
                return sum(times), reading.count * len(times)
    raise SystemExit(f"no row is called {name!r}")
