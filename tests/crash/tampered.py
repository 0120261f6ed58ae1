"""A store's file in the hands of somebody who owns it, and what replay says afterwards."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from backends import Place

from memsmith import MemoryStore

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


@asynccontextmanager
async def reopened(place: Place) -> AsyncGenerator[MemoryStore]:
    async with await MemoryStore.init(place.connect()) as store:
        yield store


async def differences(place: Place) -> dict[str, list[str]]:
    async with reopened(place) as store:
        return (await store.replay()).differences
