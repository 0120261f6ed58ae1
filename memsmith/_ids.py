"""Identifiers: UUIDv7 as 32 hex digits, so that id order follows creation order."""

from uuid_utils import uuid7


def new_id() -> str:
    """Return a fresh UUIDv7 in hex, without dashes."""
    return uuid7().hex
