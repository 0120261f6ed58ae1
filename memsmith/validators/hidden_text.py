"""Hold text with characters a reviewer can't see.

Invisible characters carry instructions past a person's eyes, reorder what they read (CVE-2021-42574,
"Trojan Source"), and make two equal-looking values differ. What writing systems and emoji need is let
through: joiners inside Arabic-script, Indic and emoji sequences (Unicode UTS #51, UAX #31), one
variation selector after a character that takes one, and the three flags spelled with tags.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from memsmith.types import Memory, ValidationResult
from memsmith.validators._base import FACTS, SyncValidator, require_kinds
from memsmith.validators._texts import most, texts_of

_SUSPECTS: Final = (
    (0x00, 0x08), (0x0B, 0x0C), (0x0E, 0x1F), (0x7F, 0x9F),  # controls, but for tab and line ends
    (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C),  # soft hyphen, grapheme joiner, Arabic letter mark
    (0x115F, 0x1160), (0x17B4, 0x17B5), (0x3164, 0x3164), (0xFFA0, 0xFFA0),  # letters that are blank
    (0x180B, 0x180F),  # Mongolian variation selectors and vowel separator
    (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F),  # zero width, separators, bidirectional
    (0xD800, 0xDFFF), (0xE000, 0xF8FF),  # surrogates, private use
    (0xFDD0, 0xFDEF), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFF0, 0xFFFB), (0xFFFE, 0xFFFF),
    (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A),  # shorthand and music controls
    *((plane + 0xFFFE, plane + 0xFFFF) for plane in range(0x10000, 0xF0000, 0x10000)),
    (0xE0000, 0xE0FFF), (0xF0000, 0x10FFFF),  # tags, more variation selectors, private use
)  # fmt: skip

_SUSPECT: Final = re.compile("[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in _SUSPECTS) + "]")

_JOINED_SCRIPTS: Final = re.compile(
    # Arabic to Mandaic with extensions, Indic with Sinhala, Myanmar, Khmer, Mongolian, South-East Asian
    "[\u0600-\u08ff\ufb50-\ufdff\ufe70-\ufefc\u0900-\u0dff\u1000-\u109f\u1780-\u18af"
    "\u1a20-\u1aad\u1b00-\u1bff\u1c00-\u1c4f\u1cd0-\u1cff\ua840-\ua8ff\ua930-\ua9ff\uaa00-\uabff"
    "\U00010a00-\U00010a5f\U00011000-\U00011fff\U0001e900-\U0001e95f]"
)

_FLAG_OF_A_NATION: Final = re.compile(
    "\U0001f3f4(?:"
    + "|".join("".join(chr(0xE0000 + ord(c)) for c in nation) for nation in ("gbeng", "gbsct", "gbwls"))
    + ")\U000e007f"
)


class HiddenText(SyncValidator):
    """Holds memories with invisible, reordering or private-use characters.

    Looks at content (keys too), metadata, key, source and thread. Errors name each character by its
    code point and the place, and hold none of them themselves.
    """

    def __init__(self, *, kinds: Iterable[str] = FACTS) -> None:
        self.kinds = require_kinds(kinds)

    def check(self, memory: Memory) -> ValidationResult:
        """Search every text."""
        errors = [
            f"{text.place}: hidden characters {', '.join(found)}"
            for text in texts_of(memory)
            if (found := hidden_in(text.text))
        ]
        return (
            ValidationResult(passed=False, errors=most(errors)) if errors else ValidationResult(passed=True)
        )


def hidden_in(text: str) -> list[str]:
    """Return the hidden characters of a text, as `U+200B ZERO WIDTH SPACE`, each once, in order."""
    found = {match[0] for match in _SUSPECT.finditer(text) if not _belongs(text, match.start())}
    if not found:
        return []
    # A flag is judged as a whole, its tags are not; only text with tags pays for the second look.
    if any("\U000e0020" <= character <= "\U000e007f" for character in found):
        return (
            hidden_in(bare) if (bare := _FLAG_OF_A_NATION.sub("\U0001f3f4", text)) != text else _names(found)
        )
    return _names(found)


def _names(found: Iterable[str]) -> list[str]:
    names = [f"U+{ord(c):04X} {unicodedata.name(c, '')}".rstrip() for c in sorted(found)]
    return names if len(names) <= 10 else [*names[:10], f"and {len(names) - 10} more"]


def _belongs(text: str, at: int) -> bool:
    character = text[at]
    before = text[at - 1] if at else ""
    if character == "\u200c":
        return _JOINED_SCRIPTS.match(before) is not None
    if character == "\u200d":
        return _JOINED_SCRIPTS.match(before) is not None or (
            _ends_emoji(text, at) and _is_emoji(text[at + 1 : at + 2])
        )
    if "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e011f":
        return _takes_selector(before, character)
    if "\u180b" <= character <= "\u180d" or character == "\u180f":
        return "\u1800" <= before <= "\u18aa" and _SUSPECT.match(before) is None
    return False


def _takes_selector(before: str, selector: str) -> bool:
    if selector >= "\ufe0e" and selector <= "\ufe0f":
        return before != "" and (before in "#*0123456789‼⁉〰" or _is_emoji(before))
    if not before:
        return False
    if selector > "\uffff":
        return unicodedata.name(before, "").startswith("CJK UNIFIED IDEOGRAPH")
    # Standardised variants of ideographs, Myanmar and Phags-pa letters, and mathematical signs.
    return unicodedata.category(before) in {"Lo", "Sm"} and _SUSPECT.match(before) is None


def _ends_emoji(text: str, end: int) -> bool:
    at = end - 1
    if at > 0 and (text[at] == "\ufe0f" or "\U0001f3fb" <= text[at] <= "\U0001f3ff"):
        at -= 1
    return at >= 0 and _is_emoji(text[at])


def _is_emoji(character: str) -> bool:
    # By block for the newest, which an older Unicode database does not know yet.
    return character != "" and (
        "\U0001f000" <= character <= "\U0001faff" or unicodedata.category(character) in {"So", "Sm"}
    )
