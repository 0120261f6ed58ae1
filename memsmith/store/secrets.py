"""The secret under which value digests are keyed.

It lies in the storage by default, which protects an exported table but not a stolen file; given as
``secret=`` or MEMSMITH_SECRET it stays outside and only its id is recorded.
"""

from __future__ import annotations

import hashlib
import os
from typing import Final

from memsmith._canonical import require_text
from memsmith.errors import ArgumentError, SecretRequiredError
from memsmith.protocols import StorageBackend
from memsmith.store.prepare import Digester

ENVIRONMENT: Final = "MEMSMITH_SECRET"
_LENGTH: Final = 32
_LEAST: Final = 16


def secret_id(secret: bytes) -> str:
    """Return the public name of a secret: 16 hex digits that do not give it away."""
    return hashlib.sha256(b"memsmith secret id\x00" + secret).hexdigest()[:16]


def require_secret(secret: str | bytes) -> bytes:
    """Return a secret as bytes; text of hex digits is decoded, other text is taken as UTF-8."""
    if not isinstance(secret, str | bytes):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are untyped
        raise ArgumentError("secret", "bytes or text", type(secret).__name__)
    data = secret if isinstance(secret, bytes) else _decoded(secret)
    if len(data) < _LEAST:
        raise ArgumentError("secret", f"at least {_LEAST} bytes", f"{len(data)} bytes")
    return data


def _decoded(secret: str) -> bytes:
    try:
        return bytes.fromhex(secret)
    except ValueError:
        return require_text("secret", secret, most=65_536).encode()


async def open_secrets(storage: StorageBackend, given: str | bytes | None) -> Digester:
    """Return the digester of a store: the given secret, the one in the storage, or a new one."""
    stored = await storage.secrets()
    given = given if given is not None else os.environ.get(ENVIRONMENT)
    if given is not None:
        secret = require_secret(given)
        name = secret_id(secret)
        if stored and name not in stored:
            raise SecretRequiredError(next(iter(stored)))
        if not stored:
            await storage.add_secret(name, None)
        stored = {name: secret} | {k: v for k, v in stored.items() if k != name}
    elif not stored:
        secret = os.urandom(_LENGTH)
        await storage.add_secret(secret_id(secret), secret)
        # Another process may have been first: what is stored counts, oldest first.
        stored = await storage.secrets()
    for name, kept in stored.items():
        if not kept:
            raise SecretRequiredError(name)
    return Digester(list(stored.items()))
