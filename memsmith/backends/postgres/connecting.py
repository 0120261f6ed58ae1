"""Connections: a pool whose sessions all speak UTC, and times in the shared stored form."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from memsmith.errors import MissingExtraError

if TYPE_CHECKING:
    import asyncpg

    from memsmith.backends.postgres.statements import Connection

    Pool = asyncpg.Pool[Any]

# They go along with the start of a session, for settings made later are lost where sessions are shared.
_SETTINGS: Final = {"timezone": "UTC", "datestyle": "ISO", "application_name": "memsmith"}


def require_driver(what: str) -> None:
    """Raise MissingExtraError, naming who asked, where the driver is not installed."""
    try:
        import_module("asyncpg")
    except ImportError as error:
        raise MissingExtraError("postgres", what) from error


async def open_pool(dsn: str, size: int, statement_cache_size: int) -> Pool:
    """Connect to a server."""
    import asyncpg

    return await asyncpg.create_pool(
        dsn,
        min_size=1,
        max_size=size,
        init=_speak_in_stored_form,
        reset=_leave_as_it_is,
        statement_cache_size=statement_cache_size,
        server_settings=_SETTINGS,
    )


async def _speak_in_stored_form(connection: Connection) -> None:
    await connection.set_type_codec(
        "timestamptz", schema="pg_catalog", encoder=str, decoder=stored_form, format="text"
    )


async def _leave_as_it_is(connection: Connection) -> None:
    """Spare the round trip that undoes settings of a session: none are made."""


def stored_form(text: str) -> str:
    """Return ``2026-03-01 09:30:00.25+00`` in stored form."""
    whole, _, fraction = text.removesuffix("+00").partition(".")
    return f"{whole[:10]}T{whole[11:]}.{fraction:0<6}Z"
