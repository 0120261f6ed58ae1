"""Questions to the store, checked before they become queries."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, cast

import orjson

from memsmith._canonical import canonical
from memsmith._clock import require_aware, to_text
from memsmith.errors import ArgumentError, QueryError
from memsmith.protocols import FILTER_COLUMNS, ORDERS, MemoryQuery
from memsmith.types import Memory, MemoryStatus, Origin

MAX_LIMIT: Final = 10_000
_PATH_PREFIX: Final = "content."
_TIMES: Final = frozenset(
    {"created_at", "updated_at", "expires_at", "retracted_at", "valid_from", "valid_to"}
)
_NUMBERS: Final = frozenset({"confidence", "version"})


def memory_query(
    *,
    status: MemoryStatus | str | None,
    session_id: str | None,
    field_filters: Mapping[str, Any] | None,
    limit: int,
    offset: int,
    order_by: str,
    descending: bool,
    cursor: str | None,
    kind: str | None,
) -> MemoryQuery:
    """Return a query whose every name is known and whose every value is plain."""
    if order_by not in ORDERS:
        raise QueryError("order_by", "one of " + ", ".join(ORDERS), order_by)
    columns, paths = _filters(field_filters or {})
    return MemoryQuery(
        status=None if status is None else require_status(status),
        session_id=None if session_id is None else _text("session_id", session_id),
        kind=None if kind is None else _text("kind", kind),
        columns=columns,
        paths=paths,
        order_by=order_by,
        descending=descending,
        limit=require_count("limit", limit, MAX_LIMIT),
        offset=require_count("offset", offset, 2**62),
        after=None if cursor is None else _read_cursor(cursor, order_by, descending),
    )


def require_status(status: object) -> MemoryStatus:
    """Return a status that memories can have."""
    try:
        return MemoryStatus(str(status))
    except ValueError:
        raise QueryError("status", "one of " + ", ".join(s.value for s in MemoryStatus), status) from None


def require_count(argument: str, value: object, most: int) -> int:
    """Return a whole number from 0 to `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise QueryError(argument, f"a whole number from 0 to {most}", value)
    return value


def _filters(filters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[tuple[str, ...], Any]]:
    columns: dict[str, Any] = {}
    paths: dict[tuple[str, ...], Any] = {}
    if not isinstance(filters, Mapping) or not all(isinstance(name, str) for name in filters):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are untyped
        raise QueryError("field_filters", "a mapping from names to values", filters)
    for name, value in filters.items():
        if name in FILTER_COLUMNS:
            columns[name] = _column_value(name, value)
        elif name.startswith(_PATH_PREFIX):
            paths[_path(name)] = _scalar(name, value)
        else:
            expected = f"a column ({', '.join(sorted(FILTER_COLUMNS))}) or content.<path>"
            raise QueryError("field_filters", expected, name)
    return columns, paths


def _column_value(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return to_text(require_aware(name, value))
    if name == "status" and value is not None:
        return require_status(value).value
    if isinstance(value, Origin):
        return value.value
    if name == "depends_on" and isinstance(value, list):
        ids = cast(list[object], value)
        if not all(isinstance(ident, str) and _storable(ident) for ident in ids):
            raise QueryError("filter depends_on", "a list of memory ids", ids)
        return canonical(ids).decode()
    if name in _TIMES and isinstance(value, str):
        return _time_text(name, value)
    # Exactly, so nothing is left for a database to convert: SQLite would find text "5" by the number.
    if value is not None and not (_is_number(value) if name in _NUMBERS else isinstance(value, str)):
        raise QueryError(
            f"filter {name}", "a number or None" if name in _NUMBERS else "a text or None", value
        )
    return _scalar(name, value)


def _is_bound(value: Any) -> bool:
    """Tell whether a value is a number that a database can be asked to compare with."""
    return _is_number(value) and abs(value) <= 2**53


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(argument: str, value: object) -> str:
    if not isinstance(value, str) or not _storable(value):
        raise QueryError(argument, "text a database can hold", value)
    return value


def _time_text(name: str, value: str) -> str:
    try:
        return to_text(require_aware(name, datetime.fromisoformat(value)))
    except ArgumentError:
        raise
    except ValueError:
        raise QueryError(name, "an ISO 8601 time with an offset", value) from None


def _scalar(name: str, value: Any) -> Any:
    plain = value is None or isinstance(value, str | bool | int | float)
    if not plain or (isinstance(value, float) and not math.isfinite(value)):
        raise QueryError(f"filter {name}", "a text, number, boolean or None", value)
    if isinstance(value, str) and not _storable(value):
        raise QueryError(f"filter {name}", "text a database can hold", value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise QueryError(f"filter {name}", "an integer of at most 64 bits", value)
    return value


def _storable(text: str) -> bool:
    return "\x00" not in text and not any("\ud800" <= c <= "\udfff" for c in text)


def _path(name: str) -> tuple[str, ...]:
    segments = tuple(name[len(_PATH_PREFIX) :].split("."))
    for segment in segments:
        # A path goes to the database as a bound value, where these can't be quoted.
        if not segment or '"' in segment or "\\" in segment or not segment.isprintable():
            raise QueryError("field_filters", "content.<path> with plain, non-empty segments", name)
    return segments


def next_cursor(query: MemoryQuery, page: list[Memory]) -> str | None:
    """Return where the next page starts; None when this one was not full."""
    if len(page) < query.limit or not page:
        return None
    last = page[-1]
    value = getattr(last, query.order_by)
    if isinstance(value, datetime):
        value = to_text(value)
    parts = [query.order_by, query.descending, value, last.id]
    return base64.urlsafe_b64encode(canonical(parts)).decode().rstrip("=")


def _read_cursor(cursor: str, order_by: str, descending: bool) -> tuple[Any, str]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        order, direction, value, ident = orjson.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
    except (AttributeError, TypeError, ValueError, UnicodeEncodeError, binascii.Error):
        raise QueryError("cursor", "a next_cursor that a page gave", cursor) from None
    if (
        (order, direction) != (order_by, descending)
        or not isinstance(ident, str)
        or not (_is_bound(value) if order_by in _NUMBERS else isinstance(value, str) and _storable(value))
        or not _storable(ident)
    ):
        raise QueryError("cursor", f"one of a list ordered by {order_by}, in this direction", cursor)
    return value, ident
