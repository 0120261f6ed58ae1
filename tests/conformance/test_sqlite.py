"""SQLite passes the suite, in a file at either durability and in memory."""

from __future__ import annotations

from pathlib import Path

from memsmith import SQLiteBackend
from memsmith.testing.conformance import BackendConformance


class TestFile(BackendConformance):
    persistent = True

    def make_backend(self, tmp_path: Path) -> SQLiteBackend:
        return SQLiteBackend(tmp_path / "store.db")


class TestFileAtNormalDurability(BackendConformance):
    persistent = True

    def make_backend(self, tmp_path: Path) -> SQLiteBackend:
        return SQLiteBackend(tmp_path / "store.db", durability="normal")


class TestInMemory(BackendConformance):
    dirty_reads = True

    def make_backend(self, tmp_path: Path) -> SQLiteBackend:
        return SQLiteBackend(":memory:")
