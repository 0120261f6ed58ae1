"""The named statements, and how what reads ask is put to a connection."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from memsmith.backends._asking import Asking, Question
from memsmith.backends._sql import load_queries

if TYPE_CHECKING:
    from asyncpg import Connection as _Connection
    from asyncpg.pool import PoolConnectionProxy

    Connection: TypeAlias = _Connection[Any] | PoolConnectionProxy[Any]

T = TypeVar("T")

SQL: Final = load_queries("memsmith.backends.postgres")
COMMIT_SQL: Final = load_queries("memsmith.backends.postgres", "commit.sql")

_NUMBER: Final = re.compile(r"\$(\d+)")

_joined: Final[dict[tuple[str, ...], str]] = {}
"""Statements in several parts by the names of their parts: there are as many as there are kinds of lists."""


def joined(question: Question) -> str:
    """Return a statement as it is executed: each part's values are numbered on from those before it."""
    names = tuple(name for name, _ in question)
    if len(names) == 1:
        return SQL[names[0]]
    known = _joined.get(names)
    if known is None:
        before = 0
        pieces: list[str] = []
        for name, values in question:
            pieces.append(_numbered_on(SQL[name], before))
            before += len(values)
        known = _joined[names] = "\n".join(pieces)
    return known


def _numbered_on(piece: str, before: int) -> str:
    def number(match: re.Match[str]) -> str:
        return f"${int(match[1]) + before}"

    return _NUMBER.sub(number, piece)


async def answer(connection: Connection, asking: Asking[T]) -> T:
    """Put the questions of a read to a connection, one by one, and return what it makes of the answers.

    What is worth little effort is asked like the rest: its statements go along an index of what covers
    a moment and return no more than a few rows. The answers are the same.
    """
    try:
        question = next(asking)
        while True:
            question = asking.send(await _put(connection, question))
    except StopIteration as done:
        found: T = done.value
        return found


async def _put(connection: Connection, question: Question) -> Sequence[Any]:
    values = [value for _, part in question for value in part]
    return await connection.fetch(joined(question), *values)
