import string
import sys
import unicodedata
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsmith.types import Memory, MemoryStatus
from memsmith.validators.hidden_text import HiddenText, hidden_in

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def proposed(content: Any, **fields: Any) -> Memory:
    fixed: Any = {"id": "m", "session_id": "s", "content_hash": "", "created_at": NOW, "updated_at": NOW}
    return Memory(content=content, status=MemoryStatus.PROPOSED, **fixed | {"confidence": 0.9} | fields)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("pay\u200bload", "U+200B ZERO WIDTH SPACE"),
        ("a\u200db", "U+200D ZERO WIDTH JOINER"),
        ("Auf\u200clage", "U+200C ZERO WIDTH NON-JOINER"),
        ("\u202eevil", "U+202E RIGHT-TO-LEFT OVERRIDE"),
        ("a\u2066b\u2069", "U+2066 LEFT-TO-RIGHT ISOLATE"),
        ("\u200fa", "U+200F RIGHT-TO-LEFT MARK"),
        ("\ufeffa", "U+FEFF ZERO WIDTH NO-BREAK SPACE"),
        ("a\u00adb", "U+00AD SOFT HYPHEN"),
        ("a\u3164b", "U+3164 HANGUL FILLER"),
        ("a\u2028b", "U+2028 LINE SEPARATOR"),
        ("a\x1b[8mb", "U+001B"),
        ("a\x7f", "U+007F"),
        ("a\x85b", "U+0085"),
        ("\ue000", "U+E000"),
        ("\U0010fffd", "U+10FFFD"),
        ("\ufdd0", "U+FDD0"),
        ("\U0001ffff", "U+1FFFF"),
        ("a\ufe0f", "U+FE0F VARIATION SELECTOR-16"),
        ("\ufe0f", "U+FE0F VARIATION SELECTOR-16"),
        ("\ufe00", "U+FE00 VARIATION SELECTOR-1"),
        ("a\ufe00", "U+FE00 VARIATION SELECTOR-1"),
        ("😀\ufe0f\ufe0e", "U+FE0E VARIATION SELECTOR-15"),
        ("😀\U000e0101", "U+E0101 VARIATION SELECTOR-18"),
        ("葛\U000e01ef", "U+E01EF VARIATION SELECTOR-256"),
        ("a\u180bb", "U+180B MONGOLIAN FREE VARIATION SELECTOR ONE"),
        ("\u200d😀", "U+200D ZERO WIDTH JOINER"),
        ("😀\u200d", "U+200D ZERO WIDTH JOINER"),
        ("ن\u200c\u200c", "U+200C ZERO WIDTH NON-JOINER"),
        ("a\U000e0041", "U+E0041 TAG LATIN CAPITAL LETTER A"),
    ],
)
def test_characters_a_reviewer_cannot_see_are_held_and_named(text: str, named: str) -> None:
    verdict = HiddenText().check(proposed(text))
    assert not verdict.passed
    assert named in verdict.errors[0]
    assert verdict.errors[0].startswith("content: hidden characters ")


@pytest.mark.parametrize(
    "text",
    [
        "plain\ttext\r\nover lines",
        "naïve façade, “quotes” — dashes … €",
        "日本語 中文 한국어 Кириллица ελληνικά",
        "می\u200cخواهم",
        "क्\u200dष and क्\u200cष",
        "ශ්\u200dරී",
        "👨\u200d👩\u200d👧\u200d👦",
        "👩🏽\u200d🚀",
        "🏳\ufe0f\u200d🌈",
        "🧔\u200d♂\ufe0f",
        "🙂\u200d↔\ufe0f",
        "❤\ufe0f ☎\ufe0e 1\ufe0f\u20e3 ‼\ufe0f",
        "🇩🇪 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "葛\U000e0100城市",
        "ᠠ\u180b",
        "≨\ufe00",
        "e\u0301 o\u0302\u0323",
        "\u0600123",
    ],
)
def test_what_writing_systems_and_emoji_need_passes(text: str) -> None:
    assert HiddenText().check(proposed(text)).passed


def test_a_message_in_tags_is_not_hidden_by_a_real_flag_beside_it() -> None:
    scotland = "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"
    assert hidden_in(scotland) == []
    smuggled = "".join(chr(0xE0000 + ord(c)) for c in "ignore")
    assert len(hidden_in(scotland + smuggled)) == 6
    assert len(hidden_in("🏴" + smuggled + "\U000e007f")) == 7


def test_a_run_of_variation_selectors_is_held_whatever_carries_it() -> None:
    assert hidden_in("😀" + "\ufe0f" * 2)
    assert hidden_in("葛" + "".join(chr(0xE0100 + n) for n in range(5)))


def test_every_field_a_proposer_writes_is_looked_at() -> None:
    z = "\u200b"
    memory = proposed(
        {f"k{z}": [{"n": z}]}, metadata={"m": z}, key=f"k{z}", source=f"s{z}", thread_id=f"t{z}"
    )
    verdict = HiddenText().check(memory)
    assert [error.split(": ")[0] for error in verdict.errors] == [
        'the key content["k\\u{200b}"]',
        'content["k\\u{200b}"][0].n',
        "metadata.m",
        "key",
        "source",
        "thread_id",
    ]


def test_a_failure_waits_for_a_person() -> None:
    assert not HiddenText.critical
    verdict = HiddenText().check(proposed("\u200b"))
    assert (verdict.critical, verdict.withhold, verdict.tombstone) == (None, False, False)


def test_many_different_characters_and_places_are_cut_short() -> None:
    many = HiddenText().check(proposed(["".join(map(chr, range(0xE000, 0xE020)))] * 30))
    assert many.errors[0].endswith("and 22 more")
    assert many.errors[-1] == "and 10 more"


def test_facts_are_judged_unless_other_kinds_are_named() -> None:
    assert HiddenText().kinds == {"fact"}
    assert HiddenText(kinds={"episode"}).kinds == {"episode"}


def test_every_invisible_category_is_covered_but_for_marks_that_show() -> None:
    shown = {
        0x0009,
        0x000A,
        0x000D,
        *range(0x600, 0x606),
        0x6DD,
        0x70F,
        0x890,
        0x891,
        0x8E2,
        0x110BD,
        0x110CD,
    }
    shown |= set(range(0x13430, 0x13440))  # layout of hieroglyphs
    missed = [
        f"U+{point:04X}"
        for point in range(sys.maxunicode + 1)
        if unicodedata.category(chr(point)) in {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
        and point not in shown
        and not hidden_in(chr(point))
    ]
    assert missed == []


@settings(deadline=None)
@given(st.text(string.printable.replace("\x0b", "").replace("\x0c", "")))
def test_printable_ascii_always_passes(text: str) -> None:
    assert HiddenText().check(proposed({text: [text]}, metadata={text: text}, source=text)).passed


@settings(deadline=None)
@given(st.text(), st.text())
def test_a_zero_width_space_is_found_wherever_it_stands(before: str, after: str) -> None:
    assert any(name.startswith("U+200B") for name in hidden_in(before + "\u200b" + after)) or (
        len(hidden_in(before + "\u200b" + after)) > 10
    )


@settings(deadline=None)
@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_errors_hold_no_hidden_character_themselves(content: Any) -> None:
    for error in HiddenText().check(proposed(content)).errors:
        assert hidden_in(error) == []
