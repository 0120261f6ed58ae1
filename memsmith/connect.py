"""The composition root: from a URL to an open store. Nothing else names a concrete backend."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from memsmith.backends.memory import MemoryBackend
from memsmith.errors import ArgumentError, ImportRefusedError, LedgerError
from memsmith.protocols import Progress, StorageBackend
from memsmith.store.store import MemoryStore
from memsmith.store.upgrading import take_over
from memsmith.types import DEFAULT_TENANT

LISTED: Final = 50
"""How many rows that can't be carried over an error names."""


def backend_for(url: str) -> StorageBackend:
    """Return the backend a URL names.

    ``sqlite:///relative.db``, ``sqlite:////absolute.db``, ``sqlite://`` (in memory, for tests), with
    ``?durability=normal`` and ``?busy_seconds=3``; ``memory://`` for the plain-Python reference;
    ``postgresql://user@host/database`` with the same options, ``?pool_size=20`` and
    ``?statement_cache_size=0``, and whatever else the server's own URLs may say.
    """
    expected = "sqlite:///path, postgresql://host/database or memory://"
    if not isinstance(url, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are untyped
        raise ArgumentError("url", expected, url)
    scheme, slashes, rest = url.partition("://")
    is_postgres = scheme.lower() in {"postgresql", "postgres"}
    if not slashes or not (is_postgres or scheme.lower() in {"sqlite", "memory"}):
        raise ArgumentError("url", expected, url)
    # What may hold a password is not repeated.
    shown = "postgresql://…" if is_postgres else url
    if "#" in rest:
        raise ArgumentError("url", f"%23 in place of # in a {'password' if is_postgres else 'path'}", shown)
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ArgumentError("url", expected, shown) from None
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    options = dict(pairs)
    if len(options) < len(pairs):
        raise ArgumentError("url", "each option once", shown)
    if is_postgres:
        return _postgres(parts, options)
    if parts.netloc or (parts.scheme == "memory" and parts.path):
        raise ArgumentError("url", expected, url)
    if parts.scheme == "memory":
        _no_more(options)
        return MemoryBackend()
    # sqlite3 and aiosqlite are loaded only by who asks for them.
    from memsmith.backends.sqlite import SQLiteBackend

    settings = _settings(options)
    _no_more(options)
    if parts.path == "/":
        raise ArgumentError("url", "a path after sqlite:///, or sqlite:// for a store in memory", url)
    path = unquote(parts.path)
    return SQLiteBackend(path[1:] or ":memory:", **settings)


def _postgres(parts: SplitResult, options: dict[str, str]) -> StorageBackend:
    from memsmith.backends.postgres import PostgresBackend

    settings = _settings(options)
    for name in ("pool_size", "statement_cache_size"):
        if name in options:
            settings[name] = _count(name, options.pop(name))
    # The rest (sslmode, target_session_attrs, …) is the driver's.
    return PostgresBackend(urlunsplit(parts._replace(query=urlencode(options))), **settings)


def _settings(options: dict[str, str]) -> dict[str, Any]:
    """Take out what both databases know."""
    settings: dict[str, Any] = {}
    if "durability" in options:
        settings["durability"] = options.pop("durability")
    if "busy_seconds" in options:
        settings["busy_seconds"] = _seconds(options.pop("busy_seconds"))
    return settings


def _count(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ArgumentError(name, "a number of 0 or more", text)
    return int(text)


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


@dataclass(frozen=True)
class UpgradeReport:
    """What an upgrade carried over: memories, by status too, and audit rows as history.

    `backup` is the copy of the old file. `skipped` says of each id that was left out why.
    """

    memories: int
    statuses: dict[str, int]
    history: int
    backup: Path
    skipped: dict[str, str]


async def upgrade(
    path: str | Path,
    *,
    skip_bad: bool = False,
    tenant: str = DEFAULT_TENANT,
    secret: str | bytes | None = None,
    progress: Progress | None = None,
) -> UpgradeReport:
    """Turn a database of memsmith 0.1.0 into one of ours, keeping a copy as ``FILE.0.1.0.bak``.

    Memories keep their ids, content, times and status; its audit rows become history in the ledger,
    then each memory gets one ``imported`` row. The new file is written beside, verified and replayed
    before it takes the old one's place at once, so that at any moment one of the two is there, whole.
    The old file must be open nowhere else (StoreBusyError). Times without an offset count as UTC.

    What a memory can't be here (blank content, NaN, an unknown status) refuses the upgrade with
    ImportRefusedError, naming the ids, unless `skip_bad` leaves those rows to the copy alone. `progress`
    counts memories and audit rows together.
    """
    work = asyncio.ensure_future(_upgrade(Path(path), skip_bad, tenant, secret, progress))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        # The files beside are cleared away at its end, so it is seen through.
        await asyncio.wait([work])
        raise


async def _upgrade(
    path: Path, skip_bad: bool, tenant: str, secret: str | bytes | None, progress: Progress | None
) -> UpgradeReport:
    from memsmith.backends.sqlite import SQLiteBackend
    from memsmith.backends.sqlite.legacy import finish, upgrading

    with ExitStack() as stack:
        site = await asyncio.to_thread(stack.enter_context, upgrading(path))
        old = site.legacy
        if old.faults and not skip_bad:
            listed = "; ".join(f"{ident}: {why}" for ident, why in list(old.faults.items())[:LISTED])
            raise ImportRefusedError(
                f"{path}: {len(old.faults)} rows can't be carried over ({listed}); "
                f"skip_bad=True leaves them to the copy"
            )
        backend = SQLiteBackend(site.work)
        await backend.initialize()
        try:
            await take_over(backend, tenant, secret, old.memories, old.audit, progress=progress)
        finally:
            await backend.close()
        async with await MemoryStore.init(SQLiteBackend(site.work), tenant=tenant, secret=secret) as store:
            answer, replayed = await store.verify(), await store.replay()
        rows = len(old.audit) + len(old.memories)
        if not (
            answer.ok and replayed.identical and (answer.rows, replayed.memories) == (rows, len(old.memories))
        ):
            raise LedgerError(f"{path}: what was written does not hold ({answer}); the old file was kept")
        await asyncio.to_thread(finish, site)
        return UpgradeReport(
            memories=len(old.memories),
            statuses=dict(Counter(memory.status.value for memory in old.memories)),
            history=len(old.audit),
            backup=site.backup,
            skipped=old.faults,
        )
