"""Keep passwords, tokens and keys out of memory.

The formats come from Yelp's detect-secrets, whose detectors are used one by one: its scanner works on
files, keeps settings per process and can ask the issuer whether a key is live. Nothing here does.
Its entropy detectors are left out, for they take hashes, UUIDs and long words for secrets; so are
those for formats that ordinary text can have by accident.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any, Final, Literal, cast

from memsmith.errors import ArgumentError, MissingExtraError
from memsmith.types import Memory, ValidationResult
from memsmith.validators._base import FACTS, SyncValidator, require_kinds
from memsmith.validators._texts import Path, Text, labels_of, most

Span = tuple[int, int, str]
"""(start, end, kind of secret)."""

Finder = Callable[[str], Iterator[Span]]


class SecretScan(SyncValidator):
    """Refuses, or redacts, content with secrets in it.

    ``mode="refuse"`` refuses the memory and keeps none of its content. ``mode="redact"`` passes it on
    with each secret replaced by ``[redacted: <kind>]``; a secret outside the content (metadata, key,
    source, thread), which can't be replaced, is refused in either mode.

    Found are secrets with a format of their own, and values that stand beside a name such as
    `password` or `api_key` and hold a digit. A password that reads like words is not found: this is a
    net for accidents. Errors name the kind and the place, never the secret.
    """

    critical = True

    def __init__(self, mode: Literal["refuse", "redact"] = "refuse", *, kinds: Iterable[str] = FACTS) -> None:
        if mode not in ("refuse", "redact"):
            raise ArgumentError("mode", "'refuse' or 'redact'", mode)
        self.mode = mode
        self.transforms = mode == "redact"
        self.kinds = require_kinds(kinds)
        try:
            self._finders, self._name = _load()
        except ImportError as error:
            raise MissingExtraError("secrets", "SecretScan") from error

    def check(self, memory: Memory) -> ValidationResult:
        """Scan every text of the memory."""
        found: list[str] = []
        fields = labels_of(memory)
        content = self._clean(fields["content"], ("content",), "", found)
        redacted = bool(found) and self.mode == "redact"
        if redacted:
            found = []
        for name, value in fields.items():
            if name != "content":
                self._clean(value, (name,), "", found)
        if found:
            return ValidationResult(passed=False, errors=most(list(dict.fromkeys(found))), withhold=True)
        return ValidationResult(passed=True, content=content) if redacted else ValidationResult(passed=True)

    def redact(self, value: Any) -> Any:
        """Return JSON data with its secrets replaced; data without any is returned equal."""
        return self._clean(value, (), "", [])

    def _clean(self, value: Any, path: Path, name: str, found: list[str]) -> Any:
        if isinstance(value, str):
            cleaned, kinds = self._clean_text(value, name)
            found.extend(_error(Text(path, cleaned), kind) for kind in kinds)
            return cleaned
        if isinstance(value, list):
            items = enumerate(cast(Sequence[Any], value))
            return [self._clean(item, (*path, index), name, found) for index, item in items]
        if isinstance(value, dict):
            return self._clean_object(cast(dict[str, Any], value), path, found)
        return value

    def _clean_object(self, value: dict[str, Any], path: Path, found: list[str]) -> dict[str, Any]:
        cleaned: dict[str, Any] = {}
        for key, item in value.items():
            label, kinds = self._clean_text(key, "")
            if kinds:
                # Paths show the key as cleaned, for an error must not quote what it complains about.
                label = _unused(label, value, cleaned)
                found.extend(_error(Text((*path, label), label, is_key=True), kind) for kind in kinds)
            cleaned[label] = self._clean(item, (*path, label), key, found)
        return cleaned

    def _clean_text(self, text: str, name: str) -> tuple[str, list[str]]:
        if name and self._name.search(name) and _is_credential(text):
            return _mark(NAMED), [NAMED]
        kinds: list[str] = []
        # Once more after each replacement, until nothing is found: what remains around one is text too.
        while spans := self._spans(text):
            pieces: list[str] = []
            at = 0
            for start, end, kind in spans:
                pieces += (text[at:start], _mark(kind))
                kinds.append(kind)
                at = end
            text = "".join((*pieces, text[at:]))
        return text, kinds

    def _spans(self, text: str) -> list[Span]:
        spans: list[Span] = []
        for start, end, kind in sorted(
            (span for finder in self._finders for span in finder(text)), key=lambda span: span[0]
        ):
            if spans and start < spans[-1][1]:
                first, last, first_kind = spans[-1]
                spans[-1] = (first, max(last, end), first_kind)
            else:
                spans.append((start, end, kind))
        return spans


NAMED: Final = "Named Secret"


def _mark(kind: str) -> str:
    return f"[redacted: {kind}]"


def _error(where: Text, kind: str) -> str:
    return f"{where.place}: holds a secret ({kind})"


def _unused(label: str, *taken: Collection[str]) -> str:
    """Return the label, numbered by its position where another key has it already."""
    free, number = label, len(taken[-1]) + 1
    while any(free in keys for keys in taken):
        free, number = f"{label} {number}", number + 1
    return free


# -- what is looked for ---------------------------------------------------------------------------

_PREFIXED: Final = (
    ("azure_storage_key", "AzureStorageKeyDetector"),
    ("basic_auth", "BasicAuthDetector"),
    ("discord", "DiscordBotTokenDetector"),
    ("github_token", "GitHubTokenDetector"),
    ("gitlab_token", "GitLabTokenDetector"),
    ("mailchimp", "MailchimpDetector"),
    ("pypi_token", "PypiTokenDetector"),
    ("sendgrid", "SendGridDetector"),
    ("slack", "SlackDetector"),
    ("square_oauth", "SquareOAuthDetector"),
    ("stripe", "StripeDetector"),
)
"""(module, class) of detectors whose formats are unmistakable wherever they occur."""

_WHOLE_WORDS: Final = (
    ("aws", "AWSKeyDetector"),
    ("telegram_token", "TelegramBotTokenDetector"),
    ("twilio", "TwilioKeyDetector"),
)
"""Detectors whose formats also occur inside longer ids and hashes; here they must stand alone."""

_ONCE_PER_RUN: Final = (
    ("openai", "OpenAIDetector", r"[A-Za-z0-9_-]+", "T3BlbkFJ", "sk-"),
    ("npm", "NpmDetector", r"[^\n]+", ":_authToken=", "//"),
)
"""(module, class, run, what a run must hold, where the format begins in it).

Searched freely these patterns take quadratic time on hostile text. A match from a later beginning in
the same run implies one from the first, so the first is all that needs trying.
"""

_MORE: Final = (
    ("GitHub Token", r"github_pat_[A-Za-z0-9_]{22,}"),
    ("Anthropic API Key", r"sk-ant-[A-Za-z0-9_-]{20,}"),
    ("Google API Key", r"AIza[A-Za-z0-9_-]{35}"),
    ("Hugging Face Token", r"\bhf_[A-Za-z0-9]{34,}"),
    ("NPM tokens", r"\bnpm_[A-Za-z0-9]{36}"),
    ("Slack Token", r"xapp-\d-[A-Z0-9]+-\d+-[a-f0-9]+"),
    ("Bearer Token", r"(?i:\bbearer)\s{1,3}(?=[A-Za-z._~+/=-]{0,64}\d)[A-Za-z0-9._~+/=-]{20,}"),
)
"""Formats that detect-secrets 1.5 has no detector for."""

_MORE_PRIVATE_KEYS: Final = r"BEGIN ENCRYPTED PRIVATE KEY|PuTTY-User-Key-File-3"
_PRIVATE_KEY_END: Final = re.compile(r"-{0,5}END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-{0,5}")

_MORE_NAMES: Final = (
    "access_?token", "auth_?token", "refresh_?token", "bearer_?token", "passphrase", "passcode",
)  # fmt: skip

_TAIL: Final = re.compile(r"(?:(?<=[A-Za-z0-9_+/=~-])[A-Za-z0-9_+/=~-]+)?")
"""What may follow a token's minimal form: the pattern says how short it can be, not where it ends."""

_STANDS_ALONE_BEFORE: Final = re.compile(r"(?:^|[^A-Za-z0-9]|\\[nrt])\Z")
_STANDS_ALONE_AFTER: Final = re.compile(r"(?![A-Za-z0-9])")


def _load() -> tuple[tuple[Finder, ...], re.Pattern[str]]:
    """Return the finders, specific ones first, and the pattern of names that announce a secret."""
    names = _names()
    finders = (
        *(_prefixed(_detector(*row)) for row in _PREFIXED),
        *(_whole_words(_detector(*row)) for row in _WHOLE_WORDS),
        *(_once_per_run(_detector(*row[:2]), *row[2:]) for row in _ONCE_PER_RUN),
        *(_matches(kind, [re.compile(pattern)]) for kind, pattern in _MORE),
        _jwt(_detector("jwt", "JwtTokenDetector")),
        _private_key(_detector("private_key", "PrivateKeyDetector")),
        _assignments(names),
    )
    return finders, re.compile(rf"(?i:{names})\Z")


def _detector(module: str, name: str) -> Any:
    # By module: importing the collection would read plugins and settings from the working directory.
    return getattr(import_module(f"detect_secrets.plugins.{module}"), name)()


def _names() -> str:
    words = cast(tuple[str, ...], import_module("detect_secrets.plugins.keyword").DENYLIST)
    either = "|".join(word.replace("_?", "[ _.-]?") for word in (*words, *_MORE_NAMES))
    return rf"(?:{either})(?:[ _.-]?(?:access|key|token|value|text)){{0,3}}s?"


def _matches(kind: str, patterns: Iterable[re.Pattern[str]]) -> Finder:
    def find(text: str) -> Iterator[Span]:
        for pattern in patterns:
            covered = 0
            for match in pattern.finditer(text):
                if match.start() >= covered:
                    covered = _TAIL.match(text, match.end()).end()  # type: ignore[union-attr]  # matches ""
                    yield match.start(), covered, kind

    return find


def _prefixed(detector: Any) -> Finder:
    return _matches(detector.secret_type, detector.denylist)


def _whole_words(detector: Any) -> Finder:
    def find(text: str) -> Iterator[Span]:
        for pattern in cast(Iterable[re.Pattern[str]], detector.denylist):
            for match in pattern.finditer(text):
                start, end = match.span()
                if _STANDS_ALONE_BEFORE.search(text[max(0, start - 2) : start]) and _STANDS_ALONE_AFTER.match(
                    text, end
                ):
                    yield start, end, detector.secret_type

    return find


def _once_per_run(detector: Any, run: str, needs: str, begins: str) -> Finder:
    runs = re.compile(run)

    def find(text: str) -> Iterator[Span]:
        if needs not in text:
            return
        for stretch in runs.finditer(text):
            start = text.find(begins, *stretch.span())
            if start < 0:
                continue
            for pattern in cast(Iterable[re.Pattern[str]], detector.denylist):
                match = pattern.match(text, start, stretch.end())
                if match is not None:
                    yield start, stretch.end(), detector.secret_type

    return find


def _jwt(detector: Any) -> Finder:
    runs = re.compile(r"[A-Za-z0-9_=.-]+")

    def find(text: str) -> Iterator[Span]:
        if "eyJ" not in text:
            return
        for run in runs.finditer(text):
            parts = run[0].split(".")
            start = run.start()
            for part, following in pairwise(parts):
                at = part.find("eyJ")
                if at >= 0 and _is_jwt(detector, f"{part[at:]}.{following}"):
                    yield start + at, run.end(), detector.secret_type
                    break
                start += len(part) + 1

    return find


def _is_jwt(detector: Any, candidate: str) -> bool:
    try:
        return bool(detector.is_formally_valid(candidate))
    except RecursionError:  # JSON nested too deep to read; nothing but a token looks like that
        return True


def _private_key(detector: Any) -> Finder:
    begins = re.compile(
        "-{0,5}(?:" + "|".join([*(p.pattern for p in detector.denylist), _MORE_PRIVATE_KEYS]) + ")"
    )

    def find(text: str) -> Iterator[Span]:
        covered = 0
        for match in begins.finditer(text):
            if match.start() >= covered:
                end = _PRIVATE_KEY_END.search(text, match.end())
                covered = end.end() if end else len(text)
                yield match.start(), covered, detector.secret_type

    return find


def _assignments(names: str) -> Finder:
    assignment = re.compile(
        rf"(?i:{names})[\"'`\]]{{0,2}}\s{{0,3}}(?::=|=>|={{1,3}}|:)\s{{0,3}}"
        r"(?:\"(?P<double>[^\s\"]+)|'(?P<single>[^\s']+)|`(?P<back>[^\s`]+)|(?P<bare>[^\s\"'`]+))"
    )

    def find(text: str) -> Iterator[Span]:
        for match in assignment.finditer(text):
            group = cast(str, match.lastgroup)
            if _is_credential(match[group]):
                yield *match.span(group), NAMED

    return find


def _is_credential(value: str) -> bool:
    """Tell a credential from a word, a placeholder, a path or a link."""
    bare = value.strip(".,;:!?)]}>")
    return (
        len(bare) >= 6
        and not any(character.isspace() for character in bare)
        and any(character.isdigit() for character in bare)
        and bare[0] not in "$<{[%*/"
        and "://" not in bare
    )
