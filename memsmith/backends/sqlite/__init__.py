"""SQLite inside the process: one file, WAL, a writer and readers that never wait for it."""

from memsmith.backends.sqlite.backend import SQLiteBackend

__all__ = ["SQLiteBackend"]
