"""The table people read and the JSON that machines read."""

from __future__ import annotations

import os
import platform
import sqlite3
from dataclasses import dataclass, field
from importlib.metadata import version
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.profiling import Samples
from benchmarks.time.chains import Comparison
from benchmarks.write.growth import TARGET, Growth


@dataclass
class Row:
    """One row: what each side took per round, in seconds, for `count` items."""

    name: str
    count: int
    floor_target: float | None = None
    legacy_target: float | None = None
    ours: list[float] = field(default_factory=list[float])
    floor: list[float] = field(default_factory=list[float])
    legacy: list[float] = field(default_factory=list[float])
    notes: list[str] = field(default_factory=list[str])

    def rate(self, seconds: list[float]) -> float | None:
        """Items per second, by the median round; None where the side did not run."""
        return self.count / median(seconds) if seconds else None

    @property
    def of_floor(self) -> float | None:
        """Our speed as a multiple of the floor's."""
        return median(self.floor) / median(self.ours) if self.floor else None

    @property
    def of_legacy(self) -> float | None:
        """Our speed as a multiple of 0.1.0's."""
        return median(self.legacy) / median(self.ours) if self.legacy else None

    def as_json(self) -> dict[str, Any]:
        """Return everything measured and what follows from it."""
        return {
            "name": self.name,
            "count": self.count,
            "per_second": {
                "ours": self.rate(self.ours),
                "floor": self.rate(self.floor),
                "legacy": self.rate(self.legacy),
            },
            "of_floor": self.of_floor,
            "floor_target": self.floor_target,
            "of_legacy": self.of_legacy,
            "legacy_target": self.legacy_target,
            "seconds": {"ours": self.ours, "floor": self.floor, "legacy": self.legacy},
            "notes": self.notes,
        }


def environment() -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "memsmith": version("memsmith"),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "aiosqlite": version("aiosqlite"),
        "asyncpg": version("asyncpg"),
        "system": platform.system(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
    }


def as_json(
    rows: list[Row], growth: Growth | None, compared: list[Comparison], rounds: int
) -> dict[str, Any]:
    """Return a whole run as plain data."""
    found: dict[str, Any] = {
        "environment": environment(),
        "rounds": rounds,
        "rows": [row.as_json() for row in rows],
        "comparisons": [comparison.as_json() for comparison in compared],
    }
    if growth is not None:
        found["growth"] = {**vars(growth), "ratio": growth.ratio, "floor_ratio": growth.floor_ratio}
    return found


def show(
    console: Console, rows: list[Row], growth: Growth | None, compared: list[Comparison], rounds: int
) -> None:
    """Print the table, the figures beside it and the notes."""
    table = Table(title=f"items per second, medians of {rounds} interleaved rounds")
    table.add_column("row", no_wrap=True)
    for heading in ("items", "memsmith", "floor", "× floor", "target", "0.1.0", "× 0.1.0", "target"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.name,
            f"{row.count:,}",
            _rate(row.rate(row.ours)),
            _rate(row.rate(row.floor)),
            *_held(row.of_floor, row.floor_target),
            _rate(row.rate(row.legacy)),
            *_held(row.of_legacy, row.legacy_target),
        )
    console.print(table)
    if growth is not None:
        console.print(
            f"propose at {growth.small:,} and at {growth.large:,} memories: "
            f"{_micros(growth.ours_small)} and {_micros(growth.ours_large)} µs, "
            f"ratio {growth.ratio:.2f} ({_at_most(growth.ratio, TARGET)}); "
            f"bare sqlite3 {_micros(growth.floor_small)} and {_micros(growth.floor_large)} µs, "
            f"ratio {growth.floor_ratio:.2f}"
        )
    for one in compared:
        verdict = "" if one.target is None else " (" + _at_most(one.ratio, one.target) + ")"
        console.print(
            f"{one.name} {_micros(one.ours)} µs, {one.against} {_micros(one.base)} µs: "
            f"ratio {one.ratio:.2f}{verdict}"
        )
    for row in rows:
        for note in row.notes:
            console.print(f"{row.name}: {note}")
    console.print(", ".join(f"{name} {value}" for name, value in environment().items()), style="dim")


def show_samples(console: Console, samples: Samples, most: int = 30) -> None:
    """Print where a row's time went, in microseconds per item."""
    share = samples.micros_per_item / max(samples.taken, 1)
    for title, found in (
        ("functions, their own time", samples.own),
        ("functions, with what they call", samples.within),
        ("lines", samples.lines),
    ):
        table = Table(title=f"{title}: {samples.micros_per_item:.1f} µs per item, {samples.taken} samples")
        table.add_column("µs", justify="right")
        table.add_column("%", justify="right")
        table.add_column("where", no_wrap=True)
        for where, times in found.most_common(most):
            table.add_row(f"{times * share:.1f}", f"{100 * times / samples.taken:.1f}", where)
        console.print(table)


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _held(value: float | None, target: float | None) -> tuple[str, str]:
    if value is None:
        return "", ""
    if target is None:
        return f"{value:.2f}", ""
    colour = "green" if value >= target else "red"
    verdict = "met" if value >= target else "missed"
    return f"[{colour}]{value:.2f}[/]", f"[{colour}]≥ {target:g} {verdict}[/]"


def _at_most(ratio: float, target: float) -> str:
    return f"at most {target:g}: " + ("[green]met[/]" if ratio <= target else "[red]missed[/]")


def _micros(seconds: list[float]) -> str:
    return f"{median(seconds) * 1e6:.0f}"
