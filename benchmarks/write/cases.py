"""The rows of the table that write: how many, by whom, and what they are held to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WARM = 64
"""Memories written before the clock starts, on every side: statements are prepared, the WAL is there."""

Durability = Literal["full", "normal"]


@dataclass(frozen=True, kw_only=True)
class WriteCase:
    """`count` proposals by `clients` at once, or all in one call of `propose_many`.

    `floor_target` and `legacy_target` are the least shares of the floor's and of 0.1.0's speed.
    """

    name: str
    count: int
    clients: int = 1
    batch: bool = False
    durability: Durability = "full"
    validators: bool = False
    floor_target: float | None = None
    legacy_target: float = 1.0

    @property
    def group(self) -> int:
        """How many proposals the floor writes in one transaction."""
        return self.count if self.batch else self.clients


WRITE_CASES = (
    WriteCase(name="serial, normal", count=1000, durability="normal", floor_target=0.35),
    WriteCase(name="serial, full", count=400, floor_target=0.6),
    WriteCase(name="serial, full, 2 validators", count=400, validators=True),
    WriteCase(name="16 concurrent, full", count=1600, clients=16),
    WriteCase(name="64 concurrent, full", count=3200, clients=64, floor_target=0.4, legacy_target=4.0),
    WriteCase(name="batch of 1,000", count=1000, batch=True, legacy_target=8.0),
    WriteCase(name="batch of 10,000", count=10_000, batch=True, floor_target=0.5, legacy_target=8.0),
)
