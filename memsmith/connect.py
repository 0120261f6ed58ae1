"""The composition root: from a URL to an open store. Nothing else names a concrete backend."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from memsmith.backends.memory import MemoryBackend
from memsmith.errors import ArgumentError
from memsmith.protocols import StorageBackend

SCHEMES: Final = ("sqlite", "memory")


def backend_for(url: str) -> StorageBackend:
    """Return the backend a URL names.

    ``sqlite:///relative.db``, ``sqlite:////absolute.db``, ``sqlite://`` (in memory, for tests), with
    ``?durability=normal`` and ``?busy_seconds=3``; ``memory://`` for the plain-Python reference.
    """
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme == "memory":
        _no_more(options)
        return MemoryBackend()
    if parts.scheme != "sqlite" or parts.netloc:
        raise ArgumentError("url", "sqlite:///path or memory://", url)
    # sqlite3 and aiosqlite are loaded only by who asks for them.
    from memsmith.backends.sqlite import SQLiteBackend

    settings: dict[str, Any] = {}
    if "durability" in options:
        settings["durability"] = options.pop("durability")
    if "busy_seconds" in options:
        settings["busy_seconds"] = _seconds(options.pop("busy_seconds"))
    _no_more(options)
    path = unquote(parts.path)
    return SQLiteBackend(path[1:] or ":memory:", **settings)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 86_400:
        raise ArgumentError("busy_seconds", "seconds between 0 and 86400", text)
    return value


def _no_more(options: dict[str, str]) -> None:
    if options:
        raise ArgumentError("url", "no options but durability and busy_seconds", ", ".join(sorted(options)))
