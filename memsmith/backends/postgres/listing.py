"""Lists and counts in PostgreSQL's words."""

from __future__ import annotations

from typing import Any

from memsmith._canonical import canonical
from memsmith.backends import _listing
from memsmith.backends._asking import Question
from memsmith.backends._listing import WALK, Way
from memsmith.protocols import MemoryQuery


def compose(tenant: str, query: MemoryQuery, way: Way = WALK) -> list[Question]:
    """Return the statements of a list."""
    return _listing.compose(tenant, query, way, _content_values)


def compose_count(tenant: str, query: MemoryQuery, way: Way = WALK) -> list[Question]:
    """Return the statements of a count."""
    return _listing.compose_count(tenant, query, way, _content_values)


def _content_values(path: tuple[str, ...], value: Any) -> list[Any]:
    """Return path, JSON type and texts: content is canonical, so equal scalars have equal texts."""
    if value is None:
        return [path, "null", ["null"]]
    if isinstance(value, bool):
        return [path, "boolean", [canonical(value).decode()]]
    if isinstance(value, str):
        return [path, "string", [canonical(value).decode()]]
    # A whole number may have been written as either, and the two are equal.
    texts = {canonical(value).decode()}
    for other in (int(value), float(value)):
        if other == value:
            texts.add(canonical(other).decode())
    if value == 0:
        texts.add(canonical(-0.0).decode())
    return [path, "number", sorted(texts)]
