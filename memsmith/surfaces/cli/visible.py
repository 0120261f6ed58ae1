"""Text made safe to look at: nothing hidden, nothing that steers a terminal."""

from __future__ import annotations

import json
import re
from typing import Any, Final

# Printable to Python, and yet nothing to see: fillers, joiners and variation selectors.
_BLANK: Final = frozenset(
    map(
        chr,
        (
            0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0,
            *range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0),
        ),
    )
)  # fmt: skip


def visible(text: str) -> str:
    r"""Return text with everything hidden written out, U+202E as ``\u202e``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() and c not in _BLANK else _escape(c) for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    if character in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[character]
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def visible_json(value: Any) -> str:
    """Return JSON data as one line of text to look at."""
    return visible(json.dumps(value, ensure_ascii=False, sort_keys=True))


def inert_json(data: bytes) -> bytes:
    """Return JSON that means the same, with hidden characters written as JSON escapes."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return _HIDDEN.sub(lambda match: _json_escape(match[0]), data.decode()).encode()


def _json_escape(character: str) -> str:
    if character.isprintable() and character not in _BLANK:
        return character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


_HIDDEN: Final = re.compile(r"[^\x0a\x20-\x7e]")
