"""The system's PostgreSQL passes the suite too: the oldest version at hand, beside the wheel's new one."""

from __future__ import annotations

from pathlib import Path

import pytest
from postgres import OLDEST, on_own_loop, server, system_databases, version_of

from memsmith import PostgresBackend
from memsmith.testing.conformance import BackendConformance

pytestmark = pytest.mark.system_postgres


def test_the_server_is_of_a_version_that_is_supported() -> None:
    assert on_own_loop(version_of(server(("system",)))) // 10_000 >= OLDEST


class TestSystemPostgres(BackendConformance):
    persistent = True

    def make_backend(self, tmp_path: Path) -> PostgresBackend:
        return PostgresBackend(system_databases.at(tmp_path), durability="normal")
