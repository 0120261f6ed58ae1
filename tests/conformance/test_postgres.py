"""PostgreSQL passes the suite, at either durability."""

from __future__ import annotations

from pathlib import Path

from postgres import databases

from memsmith import PostgresBackend
from memsmith.testing.conformance import BackendConformance


class TestFull(BackendConformance):
    persistent = True

    def make_backend(self, tmp_path: Path) -> PostgresBackend:
        return PostgresBackend(databases.at(tmp_path))


class TestAtNormalDurability(BackendConformance):
    persistent = True

    def make_backend(self, tmp_path: Path) -> PostgresBackend:
        return PostgresBackend(databases.at(tmp_path), durability="normal")
