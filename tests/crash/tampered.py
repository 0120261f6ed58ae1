"""A store's file in the hands of somebody who owns it, and what replay says afterwards."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

from memsmith import MemoryStore, SQLiteBackend

EDITS: dict[str, object] = {
    "kind": "episode",
    "scope": "elsewhere",
    "key": "other",
    "content": '"Milan"',
    "content_hash": "00",
    "value_digest": "00",
    "session_id": "other",
    "thread_id": "other",
    "source": "other",
    "confidence": 1.0,
    "origin": "untrusted",
    "sensitivity": "restricted",
    "status": "superseded",
    "held_status": "active",
    "code": "policy",
    "depends_on": '[["x","2020-01-01T00:00:00.000000Z",null]]',
    "metadata": '{"x":1}',
    "actor": "mallory",
    "created_at": "2020-01-01T00:00:00.000000Z",
    "updated_at": "2020-01-01T00:00:00.000000Z",
    "valid_from": "2020-01-01T00:00:00.000000Z",
    "valid_to": "2040-01-01T00:00:00.000000Z",
    "expires_at": "2040-01-01T00:00:00.000000Z",
    "retracted_at": "2020-01-01T00:00:00.000000Z",
    "retraction_reason": "other",
    "version": 99,
    "seq": 99,
    "retracted_during": '[["2020-01-01T00:00:00.000000Z",null]]',
    "asserted_order": 99,
    "displaces": '[["x","2020-01-01T00:00:00.000000Z",null]]',
    "many": 1,
    "system_from": "2020-01-01T00:00:00.000000Z",
}


@contextmanager
def opened(path: Path) -> Generator[sqlite3.Connection]:
    """Open the file as anybody who owns it could."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        guards = "name LIKE 'audit_log_%' OR name LIKE 'heads_%'"
        for (name,) in connection.execute(
            f"SELECT name FROM sqlite_master WHERE type = 'trigger' AND ({guards})"
        ).fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        yield connection


@asynccontextmanager
async def reopened(path: Path) -> AsyncGenerator[MemoryStore]:
    backend = SQLiteBackend(path, durability="normal")
    async with await MemoryStore.init(backend) as store:
        yield store


async def differences(path: Path) -> dict[str, list[str]]:
    async with reopened(path) as store:
        return (await store.replay()).differences
