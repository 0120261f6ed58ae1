"""Lists and counts in SQLite's words."""

from __future__ import annotations

from typing import Any, Final

from memsmith.backends import _listing
from memsmith.backends._asking import Question
from memsmith.backends._listing import WALK, Way
from memsmith.protocols import MemoryQuery

_JSON_TYPES: Final = {
    str: ("text", "text"),
    int: ("integer", "real"),
    float: ("integer", "real"),
    type(None): ("null", "null"),
}


def compose(tenant: str, query: MemoryQuery, way: Way = WALK) -> list[Question]:
    """Return the statements of a list."""
    return _listing.compose(tenant, query, way, _content_values)


def compose_count(tenant: str, query: MemoryQuery, way: Way = WALK) -> list[Question]:
    """Return the statements of a count."""
    return _listing.compose_count(tenant, query, way, _content_values)


def _content_values(path: tuple[str, ...], value: Any) -> list[Any]:
    at = "$" + "".join(f'."{segment}"' for segment in path)
    kinds = (str(value).lower(),) * 2 if isinstance(value, bool) else _JSON_TYPES[type(value)]
    return [at, value, at, *kinds]
