"""The backends under test, each over places of its own: what every fixture and machine opens them by."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from postgres import databases
from raw import Raw, raw_postgres, raw_sqlite

from memsmith import MemoryBackend, PostgresBackend, SQLiteBackend, StorageBackend

KINDS: Final = ("memory", "sqlite", "postgres")
ON_DISK: Final = ("sqlite", "postgres")
"""Those that several processes can share."""


class Place:
    """Where a backend keeps its data; each `connect` is another handle on it."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.path = folder / "store.db"
        self._memory = MemoryBackend()

    @property
    def url(self) -> str:
        """Return what another process opens it by."""
        return databases.at(self.path) if self.name == "postgres" else f"sqlite:///{self.path}"

    @contextmanager
    def raw(self) -> Generator[Raw]:
        """Open the database past the library."""
        opening = raw_postgres(self.url) if self.name == "postgres" else raw_sqlite(self.path)
        with opening as connection:
            yield connection

    @contextmanager
    def tampered(self) -> Generator[Raw]:
        """Open it as whoever owns it can, with nothing that guards its rows."""
        with self.raw() as connection:
            if self.name == "postgres":
                connection.execute("SET session_replication_role = replica")
            else:
                guards = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
                for (name,) in connection.execute(guards).fetchall():
                    connection.execute(f"DROP TRIGGER {name}")
            yield connection

    def connect(self, durability: str = "normal", busy_seconds: float = 10.0) -> StorageBackend:
        if self.name == "memory":
            return self._memory
        how = "full" if durability == "full" else "normal"
        if self.name == "postgres":
            return PostgresBackend(
                databases.at(self.path), durability=how, busy_seconds=busy_seconds, pool_size=4
            )
        return SQLiteBackend(self.path, durability=how, busy_seconds=busy_seconds)


@contextmanager
def fresh_place(name: str, folder: Path) -> Generator[Place]:
    """Lend a place in which nothing is stored yet, for one example of many."""
    with tempfile.TemporaryDirectory(dir=folder) as inside:
        place = Place(name, Path(inside))
        try:
            yield place
        finally:
            databases.take_back(place.path)


@contextmanager
def fresh(name: str) -> Generator[StorageBackend]:
    """Lend an empty store of a backend, for one example of many; SQLite's is in memory."""
    if name == "postgres":
        with fresh_place(name, Path(tempfile.gettempdir())) as place:
            yield place.connect()
    elif name == "file":
        with fresh_place("sqlite", Path(tempfile.gettempdir())) as place:
            yield place.connect()
    else:
        yield MemoryBackend() if name == "memory" else SQLiteBackend(":memory:")
