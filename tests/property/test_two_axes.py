"""Every cell of both axes, as asserted and as read, on every backend.

Histories are random; a failure says with which seed its own were made, and how to run them again.
"""

from __future__ import annotations

import importlib
import os
import re
import secrets
from contextlib import ExitStack
from pathlib import Path

import pytest
from backends import fresh
from hypothesis import settings

from memsmith import StorageBackend
from memsmith.testing.oracle import Oracle
from memsmith.testing.two_axes import HISTORIES_A_SEED, TwoAxesMachine, run_histories

HISTORIES = 200
BACKENDS = {"memory": HISTORIES, "sqlite": HISTORIES, "postgres": HISTORIES // 8}
"""How many histories each is run through."""

SEED, SHRINK = "MEMSMITH_SEED", "MEMSMITH_SHRINK"


def _machine(backend: str, base: type[TwoAxesMachine] = TwoAxesMachine) -> type[TwoAxesMachine]:
    class Machine(base):  # type: ignore[misc, valid-type]  # mypy takes no variable as a base
        def make_backend(self) -> StorageBackend:
            self._lent = ExitStack()
            return self._lent.enter_context(fresh(backend))

        def teardown(self) -> None:
            try:
                super().teardown()
            finally:
                self._lent.close()

    return Machine


@pytest.mark.soak
@pytest.mark.parametrize("backend", BACKENDS)
def test_no_cell_of_a_history_differs_from_the_oracle(
    backend: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    asked, given = settings().max_examples, os.environ.get(SEED)
    histories = HISTORIES_A_SEED if given else asked if asked > 1000 else BACKENDS[backend]
    first = int(given) if given else secrets.randbelow(2**32)
    if asked > 1000 or given:
        with capsys.disabled():
            said = f"\n{backend}: {histories} histories, {HISTORIES_A_SEED} a seed, from seed {first} on"
            print(said)  # noqa: T201 - what is asked for by hand says how to have it again
    try:
        run_histories(_machine(backend), first, histories, shrink=bool(os.environ.get(SHRINK)))
    except Exception as error:
        again = f"{SEED}=<that seed> python -m pytest '{request.node.nodeid}'"
        error.add_note(f"The same histories again: {again}; with {SHRINK}=1 the shortest that fails.")
        raise


def test_a_failing_history_names_its_seed_and_fails_again_with_it_whatever_is_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Oracle, "amend", lambda *_: None)

    def failing(seed: int, histories: int) -> tuple[str, int]:
        with pytest.raises(AssertionError) as caught:
            run_histories(_machine("memory"), seed, histories)
        (note,) = (note for note in caught.value.__notes__ if "seed" in note)
        return re.sub("[0-9a-f]{32}", "id", str(caught.value)), int(note.split()[-1].rstrip("."))

    fault, seed = failing(7, 100)
    # Numbers that stand in a module of ours are what hypothesis would draw more often.
    (tmp_path / "full_of_numbers.py").write_text("N = [3, 5, 7, 11, 13, 17, 19, 23, 29]")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("full_of_numbers")
    assert failing(seed, HISTORIES_A_SEED) == (fault, seed)
