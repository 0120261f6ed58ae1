"""The in-memory reference passes the suite."""

from __future__ import annotations

from pathlib import Path

from memsmith import MemoryBackend
from memsmith.testing.conformance import BackendConformance


class TestMemoryBackend(BackendConformance):
    def make_backend(self, tmp_path: Path) -> MemoryBackend:
        return MemoryBackend()
