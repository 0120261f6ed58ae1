r"""Hold text that speaks to the model rather than about the world.

A heuristic that catches the usual wording in English, and markup that mimics a conversation. It is
not a boundary: other words, other languages and look-alike letters pass. What protects a prompt is
that memories are quoted as data and carry their origin; this makes a person look at the blatant.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from memsmith.errors import ArgumentError
from memsmith.types import Memory, ValidationResult
from memsmith.validators._base import FACTS, SyncValidator, require_kinds
from memsmith.validators._texts import most, texts_of


@dataclass(frozen=True)
class InstructionRule:
    r"""One kind of wording. `name` is what errors say.

    `pattern` is searched in folded text: NFKC, lower case, no invisible characters, single spaces,
    line ends kept but for empty lines. A space in it stands for any gap between words, or none.
    """

    name: str
    pattern: str
    _compiled: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            compiled = re.compile(self.pattern.replace(" ", r"[\W_]{0,4}"), re.MULTILINE)
        except (re.error, AttributeError) as error:
            raise ArgumentError("pattern", "a regular expression", self.pattern) from error
        object.__setattr__(self, "_compiled", compiled)

    def found_in(self, folded: str) -> bool:
        """Tell whether the wording occurs in text that :func:`fold` has prepared."""
        return self._compiled.search(folded) is not None


_BEFORE: Final = r"(?:previous|prior|above|earlier|preceding|foregoing|former|existing|original|system)"
_ORDERS: Final = (
    r"(?:instruction|prompt|message|rule|direction|directive|guideline|command|order|constraint|context)"
)
_FILL: Final = r"(?: (?:all|any|the|your|my|of|these|those|every|other|and)){0,4}"
_DROP: Final = r"\b(?:ignore|disregard|forget|override|bypass|discard)"
_ROLES: Final = r"(?:system|assistant|developer)"
_OPENERS: Final = (
    rf"(?:{_ROLES}|tool (?:calls?|use|results?|output)|function (?:calls?|results?)|invoke|"
    r"system (?:prompt|message|reminder|instructions?)|important instructions?)"
)
_CLOSERS: Final = (
    r"(?:user|human|tool|function|memory|memories|context|documents?|data|untrusted|content|"
    r"instructions?|prompt|conversation|results?|message)"
)

RULES: Final = tuple(
    InstructionRule(name, pattern)
    for name, pattern in (
        ("override", rf"{_DROP}{_FILL} {_BEFORE}{_FILL} {_ORDERS}"),
        ("override", rf"{_DROP}{_FILL} (?:your|system|safety) {_ORDERS}"),
        (
            "override",
            rf"{_DROP} (?:everything|anything|all|what)(?: (?:that|is|was|came|written|said)){{0,3}} "
            r"(?:above|before|previously|earlier|you (?:were|have been|are|had been) told)\b",
        ),
        ("new-instructions", r"\b(?:new|updated|revised|real|actual|true) (?:system )?instructions?\s?:"),
        (
            "new-instructions",
            r"\byour (?:new|real|actual|true|only) (?:instruction|task|goal|objective|role|purpose)",
        ),
        ("role-change", r"\byou are now\b"),
        ("role-change", r"\bfrom now on you (?:are|will|must|should|shall)\b"),
        ("role-change", r"\b(?:pretend|imagine) (?:that )?(?:you are|to be|you re)\b"),
        (
            "role-change",
            r"\bact as (?:(?:if|though) you|an? (?:unrestricted|uncensored|unfiltered|jailbroken))",
        ),
        (
            "jailbreak",
            r"\b(?:developer|god|dan|jailbreak|unrestricted|admin) mode "
            r"(?:is )?(?:on|enabled|activated|engaged)\b",
        ),
        ("jailbreak", r"\bdo anything now\b"),
        (
            "secrecy",
            r"\b(?:do not|don t|never|must not|without) (?:ever )?"
            r"(?:tell|inform|mention|reveal|show|notify|alert|disclose)(?:ing)?"
            r"(?: (?:this|that|it|about|anything|to)){0,4} (?:the |your )?"
            r"(?:user|human|owner|operator|reviewer)",
        ),
        (
            "prompt-theft",
            r"\b(?:reveal|print|show|repeat|output|leak|expose|send|tell)"
            r"(?: (?:me|us|out|back|verbatim)){0,2} (?:your|the) "
            r"(?:(?:full|entire|hidden|initial|original|secret) )?"
            r"(?:system|developer|hidden|initial) (?:prompt|instruction|message)",
        ),
        (
            "model-address",
            r"\b(?:attention|(?:note|message|notice|instructions?|important) (?:to|for)) "
            r"(?:the |all |any )?(?:ai|llm|language model|chatbot)s?\b",
        ),
        (
            "model-address",
            r"\b(?:as|you are) an? (?:ai|llm|(?:large )?language model)"
            r"(?: (?:model|assistant|agent))? you (?:must|should|will|are)\b",
        ),
        ("role-marker", rf"^[#*>\s]{{0,4}}{_ROLES}(?: (?:message|prompt|note))?[*\s]{{0,3}}:"),
        ("role-marker", rf"^#{{1,6}}\s?(?:{_ROLES}|instructions?|response)\s?:?\s?$"),
        ("chat-markup", r"<\|[^|<>\n]{1,40}\|>"),
        ("chat-markup", r"\[/?inst\]|<</?sys>>|<(?:start|end)_of_turn>"),
        ("fake-tag", rf"<\s?/?\s?(?:\w{{1,20}}:)?{_OPENERS}(?:\s[^<>]{{0,200}}|\s?/)?>"),
        ("fake-tag", rf"<\s?/\s?(?:\w{{1,20}}[:_-])?{_CLOSERS}\s?>"),
    )
)
"""The wording looked for. Several rules may share a name."""


class InstructionLike(SyncValidator):
    """Holds memories with text that addresses the model; `rules` replaces the built-in table.

    Looks at content, metadata, key, source and thread. A person decides: notes about prompts, and
    chat logs, look the same.
    """

    def __init__(self, rules: Iterable[InstructionRule] = RULES, *, kinds: Iterable[str] = FACTS) -> None:
        self.rules: Sequence[InstructionRule] = tuple(rules)
        for rule in self.rules:
            if not isinstance(rule, InstructionRule):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not be typed
                raise ArgumentError("rules", "InstructionRule objects", rule)
        self.kinds = require_kinds(kinds)

    def check(self, memory: Memory) -> ValidationResult:
        """Search every text for every rule."""
        errors: dict[str, None] = {}
        for text in texts_of(memory):
            folded = fold(text.text)
            for rule in self.rules:
                if rule.found_in(folded):
                    errors[f"{text.place}: reads like an instruction to the model (rule {rule.name})"] = None
        return (
            ValidationResult(passed=False, errors=most(list(errors)))
            if errors
            else ValidationResult(passed=True)
        )


def fold(text: str) -> str:
    """Return text in the form rules are searched in; folding twice changes nothing more."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
        text = "".join(c for c in text if unicodedata.category(c) not in {"Cf", "Mn"})
        text = unicodedata.normalize("NFKC", text)
    lines = (" ".join(line.split()) for line in text.casefold().splitlines())
    return _SPACED.sub(lambda match: re.sub(r"\W|_", "", match[0]), "\n".join(filter(None, lines)))


_SPACED: Final = re.compile(r"(?<![a-z0-9])[a-z0-9](?:[ ._*-][a-z0-9](?![a-z0-9])){3,}")
"""Letters set one by one: `i g n o r e`."""
