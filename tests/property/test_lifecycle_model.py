"""Random histories: every backend does what the model says, and all do the same."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from memsmith import MemoryBackend, SQLiteBackend, StorageBackend
from memsmith.testing.stateful import ComparisonMachine, ModelMachine


class MemoryMachine(ModelMachine):
    def make_backend(self) -> StorageBackend:
        return MemoryBackend()


class SQLiteMachine(ModelMachine):
    def make_backend(self) -> StorageBackend:
        return SQLiteBackend(":memory:")


class FileMachine(ModelMachine):
    def make_backend(self) -> StorageBackend:
        self._folder = tempfile.mkdtemp(prefix="memsmith-machine-")
        return SQLiteBackend(Path(self._folder) / "store.db", durability="normal")

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self._folder)


class SQLiteBesideMemory(ComparisonMachine):
    def make_backends(self) -> tuple[StorageBackend, StorageBackend]:
        return MemoryBackend(), SQLiteBackend(":memory:")


def _histories(modest: int, steps: int) -> settings:
    """Return settings for so many histories, or as many as a soak asks for."""
    asked = settings().max_examples
    return settings(max_examples=asked if asked > 1000 else modest, stateful_step_count=steps)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("machine", "histories", "steps"),
    [(MemoryMachine, 25, 25), (SQLiteMachine, 12, 25), (FileMachine, 5, 15)],
)
def test_a_store_does_what_the_model_says(machine: type[ModelMachine], histories: int, steps: int) -> None:
    run_state_machine_as_test(machine, settings=_histories(histories, steps))


@pytest.mark.soak
def test_sqlite_does_what_the_reference_does() -> None:
    run_state_machine_as_test(SQLiteBesideMemory, settings=_histories(15, 25))
