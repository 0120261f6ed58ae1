"""What the commands share: how a store is named, opened and closed, and how errors are answered."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import quote, unquote, urlsplit

import typer

from memsmith.errors import ArgumentError, MemsmithError, StorageError
from memsmith.store.store import MemoryStore
from memsmith.surfaces._errors import exit_code
from memsmith.surfaces.cli.render import Out

T = TypeVar("T")

DEFAULT_STORE: Final = "sqlite:///memsmith.db"
STDIO: Final = "-"

Store = Annotated[
    str, typer.Option("--store", "-s", envvar="MEMSMITH_STORE", help="The store: a URL, or an SQLite file.")
]
File = Annotated[
    str | None, typer.Argument(metavar="FILE", help="The store, in place of --store.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Actor = Annotated[str | None, typer.Option("--actor", help="Who acts; the owner if nobody is named.")]
Reason = Annotated[str | None, typer.Option("--reason", "-r", help="Why; kept in the audit trail.")]
Limit = Annotated[int, typer.Option("--limit", "-n", help="How many at most.")]
ValidAt = Annotated[
    str | None,
    typer.Option("--valid-at", metavar="TIME", help="What holds then; now, if only --system-at is given."),
]
SystemAt = Annotated[
    str | None, typer.Option("--system-at", metavar="TIME", help="As the store believed it then.")
]
KeyScope = Annotated[str, typer.Option("--scope", help="The scope of the key.")]
KeyKind = Annotated[str, typer.Option("--kind", help="The kind of the key's memories.")]


def url_of(store: str) -> str:
    """Return a store's URL; what is not one is the path of an SQLite file."""
    return store if "://" in store else f"sqlite:///{quote(store)}"


def path_of(store: str) -> Path | None:
    """Return the file a store lies in; None for one in memory."""
    parts = urlsplit(url_of(store))
    path = unquote(parts.path)[1:] if parts.scheme == "sqlite" else ""
    return Path(path) if path and path != ":memory:" else None


def require_file(store: str) -> Path:
    """Return the SQLite file a store lies in."""
    path = path_of(store)
    if path is None:
        raise ArgumentError("store", "an SQLite file", store)
    return path


def require_there(store: str) -> None:
    """Refuse a file that is not there, or is empty: looking must not make a database of it."""
    path = path_of(store)
    if path is not None and not (path.is_dir() or (path.is_file() and path.stat().st_size)):
        raise StorageError(f"{path}: there is no store; `memsmith propose` or `memsmith import` makes one")


@contextmanager
def answering(out: Out) -> Generator[None, None, None]:
    """Turn errors into messages and exit codes."""
    try:
        yield
    except MemsmithError as error:
        out.error(error)
        raise typer.Exit(exit_code(error)) from error


def run(out: Out, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run asynchronous work to its end, errors answered."""
    with answering(out):
        return asyncio.run(work())


def with_store(
    out: Out, store: str, work: Callable[[MemoryStore], Awaitable[T]], *, create: bool = False
) -> T:
    """Open a store, do the work, close the store. Only where `create` is set may it be a new one."""

    async def inside() -> T:
        if not create:
            require_there(store)
        async with await MemoryStore.open(url_of(store)) as opened:
            return await work(opened)

    return run(out, inside)


def read_bytes(argument: str, name: str) -> bytes:
    """Return a file's bytes, or those of standard input."""
    if name == STDIO:
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise ArgumentError(argument, "a file that can be read", f"{name}: {error.strerror}") from error


def read_text(argument: str, name: str) -> str:
    """Return the UTF-8 text of a file, or of standard input."""
    try:
        return read_bytes(argument, name).decode()
    except UnicodeDecodeError as error:
        raise ArgumentError(argument, "UTF-8 text", f"byte {error.start} that is none") from error


def moment_of(name: str, given: str | None) -> datetime | None:
    """Return the time a text stands for; a naive one is for the store to refuse."""
    if given is None:
        return None
    try:
        return datetime.fromisoformat(given)
    except ValueError as error:
        raise ArgumentError(name, "an ISO 8601 time with an offset", given) from error


def point_of(valid_at: str | None, system_at: str | None) -> dict[str, datetime | None] | None:
    """Return the arguments of `as_of`; None where no point in time was asked for."""
    if valid_at is None and system_at is None:
        return None
    return {"valid_at": moment_of("valid_at", valid_at), "system_at": moment_of("system_at", system_at)}
