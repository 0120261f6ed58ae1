"""Random histories: every backend does what the model says, and all do the same."""

from __future__ import annotations

from contextlib import ExitStack
from typing import ClassVar

import pytest
from backends import fresh
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from memsmith import MemoryBackend, StorageBackend
from memsmith.testing.stateful import ComparisonMachine, ModelMachine


class MachineOn(ModelMachine):
    kind: ClassVar[str]

    def make_backend(self) -> StorageBackend:
        self._lent = ExitStack()
        return self._lent.enter_context(fresh(self.kind))

    def teardown(self) -> None:
        super().teardown()
        self._lent.close()


class BesideMemory(ComparisonMachine):
    kind: ClassVar[str]

    def make_backends(self) -> tuple[StorageBackend, StorageBackend]:
        self._lent = ExitStack()
        return MemoryBackend(), self._lent.enter_context(fresh(self.kind))

    def teardown(self) -> None:
        super().teardown()
        self._lent.close()


def _histories(modest: int, steps: int) -> settings:
    """Return settings for so many histories, or as many as a soak asks for."""
    asked = settings().max_examples
    return settings(max_examples=asked if asked > 1000 else modest, stateful_step_count=steps)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("kind", "histories", "steps"),
    [("memory", 25, 25), ("sqlite", 12, 25), ("file", 5, 15), ("postgres", 8, 20)],
)
def test_a_store_does_what_the_model_says(kind: str, histories: int, steps: int) -> None:
    machine = type(f"Machine{kind}", (MachineOn,), {"kind": kind})
    run_state_machine_as_test(machine, settings=_histories(histories, steps))


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_database_does_what_the_reference_does(kind: str) -> None:
    machine = type(f"Beside{kind}", (BesideMemory,), {"kind": kind})
    run_state_machine_as_test(machine, settings=_histories(15, 25))
