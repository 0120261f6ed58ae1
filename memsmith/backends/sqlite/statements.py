"""The named statements, and how what reads ask is put to a connection."""

from __future__ import annotations

import sqlite3
from typing import Any, Final, TypeAlias, TypeVar

from memsmith.backends import _asking
from memsmith.backends._asking import Asking, Question, Sought
from memsmith.backends._sql import load_queries
from memsmith.types import Head

T = TypeVar("T")

SQL: Final = load_queries("memsmith.backends.sqlite")

Statement: TypeAlias = tuple[str, list[Any]]
"""SQL and the values it binds."""


def joined(question: Question) -> Statement:
    """Return a statement as it is executed."""
    if len(question) == 1:
        ((name, values),) = question
        return SQL[name], list(values)
    return "\n".join([SQL[name] for name, _ in question]), [v for _, values in question for v in values]


STEPS: Final = 400_000
"""How many steps of SQLite's machine an effort is: a few milliseconds, some ten thousand rows of an index."""


def answer(connection: sqlite3.Connection, asking: Asking[T]) -> T:
    """Put the questions of a read to a connection, one by one, and return what it makes of the answers."""
    try:
        question = next(asking)
        while True:
            execute = _execute_with_little_effort if isinstance(question, Sought) else _execute
            question = asking.send(execute(connection, question))
    except StopIteration as done:
        found: T = done.value
        return found


def _execute(connection: sqlite3.Connection, question: Question) -> list[Any]:
    return connection.execute(*joined(question)).fetchall()


def _execute_with_little_effort(connection: sqlite3.Connection, question: Question) -> list[Any] | None:
    """Execute a read, and give up after so many steps. Counting first would take as long as the read."""
    connection.set_progress_handler(lambda: True, STEPS)
    try:
        return _execute(connection, question)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        return None
    finally:
        connection.set_progress_handler(None, STEPS)


def head(connection: sqlite3.Connection, tenant: str) -> Head | None:
    """Return the head record."""
    return answer(connection, _asking.head(tenant))
