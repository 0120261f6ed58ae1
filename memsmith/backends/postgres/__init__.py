"""PostgreSQL, for many processes on one store: every tenant's writes take turns, flushes are shared."""

from memsmith.backends.postgres.backend import PostgresBackend

__all__ = ["PostgresBackend"]
