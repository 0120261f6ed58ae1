"""Canonical JSON, and what content may be.

Canonical text is UTF-8 JSON with sorted keys and no white space. Inside the subset the ledger
hashes (strings, booleans, null, integers within ±(2^53-1), ASCII keys) it is RFC 8785 to the byte.
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, Final, cast
from uuid import UUID

import orjson
from pydantic import BaseModel

from memsmith.errors import ArgumentError, ContentTooLargeError, InvalidContentError

MAX_CONTENT_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 64

_OPTIONS: Final = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATETIME
_BLANK: Final = frozenset({b'""', b"{}", b"[]", b"null"})


def canonical(value: Any) -> bytes:
    """Return the canonical JSON of plain data that is known to be JSON."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of `data` in hex."""
    return hashlib.sha256(data).hexdigest()


def encode_json(argument: str, value: Any, max_bytes: int = MAX_CONTENT_BYTES) -> bytes:
    """Return the canonical JSON of caller data, or raise saying where it is not JSON."""
    try:
        data = orjson.dumps(value, default=_as_plain, option=_OPTIONS)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidContentError(*_complaint(argument, value, error)) from error
    if len(data) > max_bytes:
        raise ContentTooLargeError(argument, f"at most {max_bytes} bytes of JSON", f"{len(data)} bytes")
    # NaN and infinities are written as null, and NUL as an escape: only where those bytes, or
    # enough brackets for the depth limit, appear is the data worth a walk in Python.
    if b"null" in data or b"\\u0" in data or data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        found = _first_fault(argument, _plain(value), 0)
        if found is not None:
            raise InvalidContentError(*found)
    return data


def encode_content(content: Any, max_bytes: int = MAX_CONTENT_BYTES) -> bytes:
    """Return the canonical JSON of a memory's content; blank content is refused too."""
    data = encode_json("content", content, max_bytes)
    if data in _BLANK or (data[0] == 0x22 and not orjson.loads(data).strip()):
        raise InvalidContentError("content", "content that says something", content)
    return data


def require_text(argument: str, value: object, *, blank: bool = False, most: int = 1024) -> str:
    """Return `value` if it is text that every database can hold, else raise."""
    if not isinstance(value, str):
        raise ArgumentError(argument, "text", value)
    if not blank and not value.strip():
        raise ArgumentError(argument, "text that is not blank", value)
    if not value.isascii() or "\x00" in value:
        fault = _text_fault(argument, value)
        if fault is not None:
            raise ArgumentError(*fault)
    if len(value) > most:
        raise ArgumentError(argument, f"at most {most} characters", f"{len(value)} characters")
    return value


def optional_text(argument: str, value: object, *, most: int = 1024) -> str | None:
    """Like :func:`require_text`, letting None through."""
    return None if value is None else require_text(argument, value, blank=True, most=most)


def normalise(value: Any) -> Any:
    """Return JSON data in the form tombstones compare.

    Text is folded (NFKC, case, runs of white space, invisible format characters), a whole float
    is the integer it equals. Two values with one normal form are one value to a tombstone.
    """
    if isinstance(value, str):
        return _fold(value)
    if isinstance(value, dict):
        original = cast(dict[str, Any], value)
        folded = {_fold_key(key): normalise(item) for key, item in original.items()}
        # Keys that differ only in case stay apart: folding must not drop one of them.
        return folded if len(folded) == len(original) else {k: normalise(v) for k, v in original.items()}
    if isinstance(value, list):
        return [normalise(item) for item in cast(list[Any], value)]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def _fold(text: str) -> str:
    if text.isascii():
        return " ".join(text.lower().split())
    # Invisible characters go first: one between a letter and its accent would keep them from composing.
    folded = "".join(c for c in text if unicodedata.category(c) != "Cf")
    # Folding case can bring back characters that NFKC decomposes (ß, Greek): two passes settle it.
    for _ in range(2):
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", folded).casefold())
    return " ".join(folded.split())


_fold_key = lru_cache(maxsize=1024)(_fold)
"""Keys of content are few and repeat; values are neither."""


def keyed_hash(secret: bytes) -> hashlib.blake2b:
    """Return a keyed BLAKE2b (RFC 7693, 32 bytes) to copy and update: a MAC cheaper than HMAC."""
    key = secret if len(secret) <= hashlib.blake2b.MAX_KEY_SIZE else hashlib.sha256(secret).digest()
    return hashlib.blake2b(key=key, digest_size=32)


def normal_form(content: Any, text: bytes) -> bytes:
    """Return ``canonical(normalise(content))``, where `text` is ``canonical(content)``.

    Most content is ASCII without odd spacing, escapes or whole floats: lower-casing its text folds
    it all at once, and then at most the order of the keys is to be settled.
    """
    # What folding would change beside case: white space, escapes, and what may be a whole float.
    unusual = b"\\" in text or b"  " in text or b'" ' in text or b' "' in text or b".0" in text
    if not unusual and text.isascii():
        lowered = text.lower()
        if lowered == text:
            return text
        settled = canonical(orjson.loads(lowered))
        # Keys that differ only in case would have become one, and the text shorter.
        if len(settled) == len(lowered):
            return settled
    return canonical(normalise(content))


def _as_plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is not JSON")


def _plain(value: Any) -> Any:
    """Return models and dataclasses as the dictionaries they are written as."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    return value


Fault = tuple[str, str, object]


def _complaint(argument: str, value: Any, error: BaseException) -> Fault:
    try:
        found = _first_fault(argument, _plain(value), 0)
    except RecursionError:
        found = (argument, f"nesting of at most {MAX_DEPTH}", "a deeper or circular value")
    return found or (argument, "JSON data", str(error))


def _first_fault(path: str, value: Any, depth: int) -> Fault | None:
    if depth > MAX_DEPTH:
        return path[:80], f"nesting of at most {MAX_DEPTH}", "a deeper or circular value"
    check = _CHECKS.get(type(value))  # pyright: ignore[reportUnknownArgumentType]  # any type may be asked for
    if check is not None:
        return check(path, value)
    value = _plain(value)
    if isinstance(value, Mapping):
        for key, item in cast(Mapping[Any, Any], value).items():
            if not isinstance(key, str):
                return f"{path} key", "text", key
            fault = _text_fault(f"{path} key", key) or _first_fault(f"{path}.{key}", item, depth + 1)
            if fault is not None:
                return fault
        return None if isinstance(value, dict) else (path, "JSON data", cast(object, value))
    if isinstance(value, list | tuple):
        for index, item in enumerate(cast(Sequence[Any], value)):
            fault = _first_fault(f"{path}[{index}]", item, depth + 1)
            if fault is not None:
                return fault
        return None
    return _scalar_fault(path, value)


def _scalar_fault(path: str, value: Any) -> Fault | None:
    for base in (str, bool, int, float):
        if isinstance(value, base):
            return _CHECKS[base](path, value)
    return None if isinstance(value, Enum | UUID) else (path, "JSON data", value)


def _text_fault(path: str, value: str) -> Fault | None:
    if "\x00" in value:
        return path, "text without NUL characters", value
    try:
        value.encode()
    except UnicodeEncodeError:
        return path, "text without lone surrogates", value
    return None


def _int_fault(path: str, value: int) -> Fault | None:
    return None if -(2**63) <= value < 2**64 else (path, "an integer of at most 64 bits", value)


def _float_fault(path: str, value: float) -> Fault | None:
    return None if math.isfinite(value) else (path, "a finite number", value)


def _no_fault(path: str, value: object) -> None:
    return None


_CHECKS: Final[dict[type, Callable[[str, Any], Fault | None]]] = {
    str: _text_fault,
    bool: _no_fault,
    int: _int_fault,
    float: _float_fault,
    type(None): _no_fault,
}
