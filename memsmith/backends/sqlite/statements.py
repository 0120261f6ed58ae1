"""The named statements, and the read that everything begins with."""

from __future__ import annotations

import sqlite3
from operator import index
from typing import Final

from memsmith._clock import from_text
from memsmith.backends._sql import load_queries
from memsmith.errors import LedgerError
from memsmith.types import Head

SQL: Final = load_queries("memsmith.backends.sqlite")


def head(connection: sqlite3.Connection, tenant: str) -> Head | None:
    """Return the head record."""
    row = connection.execute(SQL["head"], (tenant,)).fetchone()
    try:
        return None if row is None else Head(index(row[0]), row[1], from_text(row[2]))
    except (TypeError, ValueError) as error:
        raise LedgerError(f"The head record of tenant {tenant!r} was damaged: {error}") from error
