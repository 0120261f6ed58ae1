"""Every cell of both axes, as asserted and as read, on every backend."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from memsmith import MemoryBackend, SQLiteBackend, StorageBackend
from memsmith.testing.oracle import TwoAxesMachine


class MemoryMachine(TwoAxesMachine):
    def make_backend(self) -> StorageBackend:
        return MemoryBackend()


class SQLiteMachine(TwoAxesMachine):
    def make_backend(self) -> StorageBackend:
        return SQLiteBackend(":memory:")


@pytest.mark.soak
@pytest.mark.parametrize("machine", [MemoryMachine, SQLiteMachine])
def test_no_cell_of_a_history_differs_from_the_oracle(machine: type[TwoAxesMachine]) -> None:
    asked = settings().max_examples
    histories = asked if asked > 1000 else 200
    run_state_machine_as_test(
        machine, settings=settings(max_examples=histories, stateful_step_count=50, print_blob=True)
    )
