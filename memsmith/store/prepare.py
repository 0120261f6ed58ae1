"""Argument checks: from what a caller passed to a proposal that can be judged.

Everything refused here is an ArgumentError (a ValueError); nothing was written.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, cast

import orjson

from memsmith._canonical import (
    MAX_CONTENT_BYTES,
    canonical,
    encode_content,
    encode_json,
    keyed_hash,
    normal_form,
    normalise,
    optional_text,
    require_text,
    sha256_hex,
)
from memsmith._clock import require_aware, to_text
from memsmith._ids import new_id
from memsmith.errors import ArgumentError, InvalidConfidenceError, InvalidIntervalError, InvalidScopeError
from memsmith.policy.keys import NO_RULES, Keys
from memsmith.types import (
    DEFAULT_ACTOR,
    DEFAULT_SENSITIVITY,
    EPISODE,
    FACT,
    SENSITIVITIES,
    Interval,
    Memory,
    MemoryStatus,
    Origin,
    ProposalInput,
    memory_from,
)

MAX_REASON: Final = 10_000
MAX_METADATA_BYTES: Final = 64 * 1024
MAX_TTL: Final = timedelta(days=365_000)

# On Python 3.11 an enum member costs a descriptor call per look; proposals come in thousands.
_PROPOSED: Final = MemoryStatus.PROPOSED
_OWNER: Final = Origin.OWNER


class Digester:
    """Keyed digests under every secret the store holds; new rows use the first."""

    def __init__(self, secrets: Sequence[tuple[str, bytes]]) -> None:
        self.use(secrets)

    def use(self, secrets: Sequence[tuple[str, bytes]]) -> None:
        """Take these secrets in place of the ones so far, as an import may ask for."""
        self.secrets = tuple(secrets)
        self.current_id = self.secrets[0][0]
        self._keyed = [keyed_hash(secret) for _, secret in self.secrets]
        # Most values are facts: their hash, begun once, is copied for each.
        self._facts = [_begun(keyed, FACT, "") for keyed in self._keyed]

    def value(self, kind: str, content: Any, text: bytes, session_id: str) -> str:
        """Return the digest a new memory carries; `text` is the content's canonical JSON."""
        return self._digest(0, kind, session_id, normal_form(content, text))

    def values(self, memory: Memory) -> tuple[str, ...]:
        """Return the digests of a memory's value under all secrets, the current one first."""
        if len(self.secrets) == 1:
            return (memory.value_digest,)
        normal = canonical(normalise(memory.content))
        every = range(len(self.secrets))
        return tuple(self._digest(which, memory.kind, memory.session_id, normal) for which in every)

    def _digest(self, which: int, kind: str, session_id: str, normal: bytes) -> str:
        if kind == FACT:
            digest = self._facts[which].copy()
        else:
            # What was said in one session is another turn in the next, even in the same words.
            digest = _begun(self._keyed[which], kind, session_id if kind == EPISODE else "")
        digest.update(normal)
        return digest.hexdigest()

    def arguments(self, verb: str, arguments: object) -> str:
        """Return the digest that recognises a repeated call."""
        digest = self._keyed[0].copy()
        digest.update(canonical([verb, arguments]))
        return digest.hexdigest()


def _begun(keyed: hashlib.blake2b, kind: str, discriminator: str) -> hashlib.blake2b:
    digest = keyed.copy()
    digest.update(canonical([kind, discriminator]))
    return digest


@dataclass(slots=True)
class Prepared:
    """A checked proposal. `memory` has status PROPOSED; times that the store assigns are filled in later."""

    memory: Memory
    text: str
    """The content as canonical JSON."""
    dedup: bool
    ttl: timedelta | None
    asserted_from: bool
    digests: tuple[str, ...]
    """Of the value, under every secret of the store."""
    idempotency_key: str | None = None
    arguments: str = ""
    errors: tuple[str, ...] = ()
    refuse: bool = False
    tombstone: bool = False
    withhold: bool = False

    def replace_content(self, content: Any, text: bytes, digester: Digester) -> None:
        """Take other content, as a validator or a revision hands it on."""
        digest = digester.value(self.memory.kind, content, text, self.memory.session_id)
        changes = {"content": content, "content_hash": sha256_hex(text), "value_digest": digest}
        self.memory = self.memory.evolve(changes)
        self.text = text.decode()
        self.digests = digester.values(self.memory)


@dataclass(frozen=True)
class Limits:
    """What a store takes at most."""

    content_bytes: int = MAX_CONTENT_BYTES


def prepare(
    item: ProposalInput,
    session_id: str,
    thread_id: str | None,
    limits: Limits,
    digester: Digester,
    tenant: str,
    now: datetime,
    keys: Keys = NO_RULES,
) -> Prepared:
    """Check every argument of one proposal but the session and thread, which its batch shares."""
    text = encode_content(item.content, limits.content_bytes)
    ttl = require_ttl(item.ttl, item.expires_at)
    valid_from = None if item.valid_from is None else require_aware("valid_from", item.valid_from)
    valid_to = None if item.valid_to is None else require_aware("valid_to", item.valid_to)
    if valid_from is not None and valid_to is not None:
        require_interval(valid_from, valid_to)
    expires_at = None if item.expires_at is None else require_aware("expires_at", item.expires_at)
    content = orjson.loads(text)
    kind = FACT if item.kind == FACT else require_kind(item.kind)
    key = keys.key_of(item.key, item.content, kind, content)
    memory = memory_from(
        {
            "id": new_id(),
            "content": content,
            "session_id": session_id,
            "confidence": require_confidence(item.confidence),
            "content_hash": sha256_hex(text),
            "status": _PROPOSED,
            "created_at": now,
            "updated_at": now,
            "thread_id": thread_id if item.thread_id is None else optional_text("thread_id", item.thread_id),
            "source": None if item.source is None else optional_text("source", item.source),
            "depends_on": require_ids(item.depends_on) if item.depends_on else [],
            "expires_at": now + ttl if ttl else expires_at,
            "retracted_at": None,
            "retraction_reason": None,
            "tenant": tenant,
            "kind": kind,
            "scope": require_scope(item.scope) if item.scope else _root(item.scope),
            "key": key,
            "origin": _OWNER if item.origin is None else require_origin(item.origin),
            "sensitivity": DEFAULT_SENSITIVITY
            if item.sensitivity is None
            else require_sensitivity(item.sensitivity),
            "valid_from": valid_from,
            "valid_to": valid_to,
            "metadata": {} if item.metadata is None else require_metadata(item.metadata),
            "actor": DEFAULT_ACTOR if item.actor is None else require_actor(item.actor),
            "code": None,
            "version": 1,
            "seq": 0,
            "held_status": None,
            "retracted_during": (),
            "asserted_order": 0,
            "displaces": (),
            "many": key is not None and keys.is_many(key),
            "system_from": None,
            "value_digest": digester.value(kind, content, text, session_id),
        }
    )
    dedup = require_flag("dedup", item.dedup)
    prepared = Prepared(memory, text.decode(), dedup, ttl, valid_from is not None, digester.values(memory))
    if item.idempotency_key is not None:
        prepared.idempotency_key = require_text("idempotency_key", item.idempotency_key)
    return prepared


def arguments_of(prepared: Prepared) -> list[Any]:
    """Return what makes two calls the same call, as plain data; never stored, only digested."""
    m = prepared.memory
    times = [m.valid_from, m.valid_to, None if prepared.ttl else m.expires_at]
    return [
        m.content_hash, m.session_id, m.thread_id, m.source, repr(m.confidence), m.kind, m.scope, m.key,
        m.origin.value, m.sensitivity, m.depends_on, canonical(m.metadata).decode(), prepared.dedup,
        *(None if t is None else to_text(t) for t in times),
        None if prepared.ttl is None else repr(prepared.ttl.total_seconds()),
    ]  # fmt: skip


def require_confidence(value: object, argument: str = "confidence") -> float:
    """Return a confidence as float; 85, NaN, None and True are all refused."""
    if type(value) is float and 0.0 <= value <= 1.0:
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidConfidenceError(value, argument)
    if not math.isfinite(value) or not 0 <= value <= 1:
        raise InvalidConfidenceError(value, argument)
    return float(value)


def require_interval(
    start: datetime, end: datetime, arguments: tuple[str, str] = ("valid_from", "valid_to")
) -> None:
    """Refuse an interval that is empty or inverted."""
    if end <= start:
        first, last = arguments
        after = "its start" if first == last else first
        raise InvalidIntervalError(last, f"a time after {after} ({to_text(start)})", to_text(end))


def require_portion(argument: str, given: object) -> Interval:
    """Return a stretch of time from a (start, end) pair of aware datetimes; None is an open end."""
    pair = cast(tuple[Any, ...], given)
    if type(pair) is not tuple or len(pair) != 2:
        raise ArgumentError(argument, "a pair of times, (start, end)", given)
    return require_stretch(pair[0], pair[1], (argument, argument))


def require_stretch(
    start: datetime, end: datetime | None, arguments: tuple[str, str] = ("valid_from", "valid_to")
) -> Interval:
    """Return a stretch of time from its ends; None is an open end."""
    first, last = arguments
    begin = require_aware(first, start)
    if end is None:
        return Interval(begin, None)
    over = require_aware(last, end)
    require_interval(begin, over, arguments)
    return Interval(begin, over)


def require_scope(scope: object) -> str:
    """Return a scope whose segments are all real ones."""
    try:
        text = require_text("scope", scope, blank=True)
    except ArgumentError as error:
        raise InvalidScopeError(error.argument, error.expected, error.found) from None
    if text and any(not segment.strip() or segment in {".", ".."} for segment in text.split("/")):
        raise InvalidScopeError("scope", "segments separated by '/', none empty, '.' or '..'", scope)
    return text


def _root(scope: object) -> str:
    if scope != "":
        raise InvalidScopeError("scope", "a text, '' for the whole tenant", scope)
    return ""


def require_kind(kind: object) -> str:
    """Return a kind: a short lower-case word."""
    text = require_text("kind", kind, most=64)
    if not (text.isascii() and text.replace("_", "").isalnum() and text == text.lower()):
        raise ArgumentError("kind", "lower-case letters, digits and underscores", kind)
    return text


def require_origin(origin: object) -> Origin:
    """Return an Origin from its value."""
    try:
        return Origin(str(origin))
    except ValueError:
        expected = "one of " + ", ".join(o.value for o in Origin)
        raise ArgumentError("origin", expected, origin) from None


def require_sensitivity(label: object) -> str:
    """Return a known sensitivity label."""
    if label not in SENSITIVITIES:
        raise ArgumentError("sensitivity", "one of " + ", ".join(SENSITIVITIES), label)
    return str(label)


def require_metadata(metadata: object) -> dict[str, Any]:
    """Return metadata as plain JSON data."""
    if not hasattr(metadata, "keys"):
        raise ArgumentError("metadata", "a mapping", metadata)
    return dict(orjson.loads(encode_json("metadata", dict(metadata), MAX_METADATA_BYTES)))  # type: ignore[call-overload]  # checked by its keys() above


def require_actor(actor: object) -> str:
    """Return the acting principal's id; None is the owner."""
    return DEFAULT_ACTOR if actor is None else require_text("actor", actor, most=256)


def require_ids(ids: object) -> list[str]:
    """Return memory ids without repeats, in order."""
    if isinstance(ids, str) or not isinstance(ids, Sequence):
        raise ArgumentError("depends_on", "a list of memory ids", ids)
    every = cast(Sequence[object], ids)
    return list(dict.fromkeys(require_text("depends_on", ident) for ident in every))


def require_items(items: object) -> Sequence[ProposalInput]:
    """Return the proposals of a batch; what has not their fields is refused by its type."""
    if isinstance(items, str | Mapping) or not isinstance(items, Iterable):
        raise ArgumentError("memories", "a list of ProposalInput", cast(object, items))
    every = list(cast(Iterable[object], items))
    for item in every:
        if not isinstance(item, ProposalInput):
            raise ArgumentError("memories", "ProposalInput items", item)
    return cast(list[ProposalInput], every)


def require_version(version: object) -> int | None:
    """Return the version a caller expects, or None."""
    if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
        raise ArgumentError("expected_version", "a version number", version)
    return version


def require_size(argument: str, value: object) -> int:
    """Return a number of bytes."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ArgumentError(argument, "a whole number of bytes above 0", value)
    return value


def require_flag(argument: str, value: object) -> bool:
    """Return a real boolean."""
    if not isinstance(value, bool):
        raise ArgumentError(argument, "True or False", value)
    return value


def require_reason(reason: object) -> str | None:
    """Return a reason, or None."""
    return optional_text("reason", reason, most=MAX_REASON)


def require_ttl(ttl: object, expires_at: object) -> timedelta | None:
    """Return a positive lifetime; a lifetime and an end together are refused."""
    if ttl is None:
        return None
    lifetime = require_lifetime("ttl", ttl)
    if expires_at is not None:
        raise ArgumentError("ttl", "either ttl or expires_at", "both")
    return lifetime


def require_lifetime(argument: str, value: object) -> timedelta:
    """Return a positive length of time that can be added to a date."""
    if not isinstance(value, timedelta) or value <= timedelta(0):
        raise ArgumentError(argument, "a positive timedelta", value)
    if value > MAX_TTL:
        raise ArgumentError(argument, f"at most {MAX_TTL.days} days", value)
    return value
