import base64
import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsmith.errors import ArgumentError, MissingExtraError
from memsmith.types import UNCHANGED, Memory, MemoryStatus
from memsmith.validators.secrets import SecretScan

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def proposed(content: Any, **fields: Any) -> Memory:
    fixed: Any = {"id": "m", "session_id": "s", "content_hash": "", "created_at": NOW, "updated_at": NOW}
    return Memory(content=content, status=MemoryStatus.PROPOSED, **fixed | {"confidence": 0.9} | fields)


def encoded(part: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def pem(label: str) -> str:
    return f"-----BEGIN {label}-----\nMIIBOgIBAAJBAKj34GkxFhD9\n+Kx0zw==\n-----END {label}-----"


def fake(*parts: str) -> str:
    """Join what would set off a scanner of this repository if it stood here in one piece."""
    return "".join(parts)


JWT = f"{encoded({'alg': 'HS256', 'typ': 'JWT'})}.{encoded({'sub': 'alice'})}.c2ln-bmF0dXJl_xyz"

SECRETS = {
    "AWS Access Key": fake("AK", "IAIOSFODNN7EXAMPLE"),
    "Azure Storage Account access key": fake("Account", "Key=", "aB3+" * 22),
    "Discord Bot Token": fake("M", "x1" * 12, ".", "ab3de_", ".", "q" * 27),
    "GitHub Token": fake("gh", "p_", "a1B2" * 9),
    "GitLab Token": fake("gl", "pat-", "a1B2c" * 4),
    "Mailchimp Access Key": fake("0a1b" * 8, "-us12"),
    "PyPI Token": fake("py", "pi-AgEIcHlwaS5vcmc", "a1" * 40),
    "SendGrid API Key": fake("S", "G.", "a1" * 11, ".", "b" * 43),
    "Slack Token": fake("xo", "xb-123-456-abcDEF7"),
    "Square OAuth Secret": fake("sq", "0csp-", "a" * 43),
    "Stripe Access Key": fake("sk", "_live_", "a1B2" * 6),
    "Telegram Bot Token": fake("123456789", ":AA", "b" * 33),
    "Twilio API Key": fake("S", "K", "0a1b" * 8),
    "OpenAI Token": fake("sk", "-proj-", "a1" * 10, "T3Blbk", "FJ", "b2" * 10),
    "NPM tokens": fake("np", "m_", "a1B2" * 9),
    "JSON Web Token": JWT,
    "Anthropic API Key": fake("sk", "-ant-", "api03-", "a1" * 20),
    "Google API Key": fake("AI", "za", "a" * 35),
    "Hugging Face Token": fake("h", "f_", "a1" * 17),
    "Private Key": pem(fake("RSA PRIVATE", " KEY")),
}

SENTENCES = ("{}", "The key is {}.", "first line\nuse {} please", '{{"a": "{}"}}', "({})")


def assert_gone(secret: str, text: str) -> None:
    """No piece of the secret is left that is long enough to matter."""
    for start in range(len(secret) - 12):
        assert secret[start : start + 13] not in text


@pytest.mark.parametrize("sentence", SENTENCES)
@pytest.mark.parametrize("kind", SECRETS)
def test_each_kind_is_refused_by_name_and_never_quoted(kind: str, sentence: str) -> None:
    secret = SECRETS[kind]
    verdict = SecretScan().check(proposed(sentence.format(secret)))
    assert not verdict.passed
    assert verdict.withhold
    assert not verdict.tombstone
    assert verdict.content is UNCHANGED
    assert verdict.errors == [f"content: holds a secret ({kind})"]


@pytest.mark.parametrize("sentence", SENTENCES)
@pytest.mark.parametrize("kind", SECRETS)
def test_each_kind_is_redacted_whole(kind: str, sentence: str) -> None:
    verdict = SecretScan("redact").check(proposed(sentence.format(SECRETS[kind])))
    assert verdict.passed
    assert isinstance(verdict.content, str)
    assert f"[redacted: {kind}]" in verdict.content
    assert_gone(SECRETS[kind], verdict.content)


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("postgres://bob:hunter2@db/x", "postgres[redacted: Basic Auth Credentials]db/x"),
        ("password=hunter2", "password=[redacted: Named Secret]"),
        ('DB_PASSWORD = "hunter2,x"', 'DB_PASSWORD = "[redacted: Named Secret]"'),
        ("api-key: 'abc123def'", "api-key: '[redacted: Named Secret]'"),
        ("pwd => `hunter2`", "pwd => `[redacted: Named Secret]`"),
        ('{"client_secret": "abc123"}', '{"client_secret": "[redacted: Named Secret]"}'),
        ("https://x/?api_key=abc123&next=2", "https://x/?api_key=[redacted: Named Secret]"),
        ("Authorization: Bearer abcdefghij0123456789", "Authorization: [redacted: Bearer Token]"),
        (
            fake("//registry.npm", "js.org/:_auth", "Token=", "3f2504e0-4f89-41d3-9a0c-0305e82c3301"),
            "[redacted: NPM tokens]",
        ),
        (fake("aws_secret_key = '", "aB3+" * 10, "'"), "[redacted: AWS Access Key]"),
        (fake("x\\n", "AK", "IAIOSFODNN7EXAMPLE"), "x\\n[redacted: AWS Access Key]"),
        ("password=hunter2 password=hunter3", "password=[redacted: Named Secret] " * 2),
        (fake("BEGIN ENCRYPTED PRIVATE", " KEY-----\nMII"), "[redacted: Private Key]"),
        (f"token {JWT}, and more", "token [redacted: JSON Web Token], and more"),
        (f"v1.x.{JWT}", "v1.x.[redacted: JSON Web Token]"),
    ],
)
def test_what_is_not_secret_stays(text: str, redacted: str) -> None:
    assert SecretScan("redact").redact(text) == redacted.rstrip()


@pytest.mark.parametrize(
    "text",
    [
        "Alice lives in Rome and likes pneumonoultramicroscopicsilicovolcanoconiosis",
        "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        fake("0123AK", "IAIOSFODNN7EXAMPLE", "9"),
        "1709280000:550e8400-e29b-41d4-a716-446655440000",
        "1709280000:da39a3ee5e6b4b0d3255bfef95601890afd80709",
        fake("sha256-AC", "0a1b" * 8, "ff"),
        "my password is on a sticky note",
        "Password: required. Secret: patience",
        "password=${DB_PASSWORD_1}",
        "password = <your-password-1>",
        "secret: /run/secrets/db1",
        "secret: https://vault.example.com/v1/x",
        "secret_santa: Charlie2",
        "bearer of bad news and internationalisation",
        "eyJhb.eyJzd.c2ln looks like a token and is none",
        "eyJunk",
        "https://example.com:8080/a@b",
        "sk-learn has T3BlbkFJ nowhere",
        "T3BlbkFJ alone",
        "the setting //registry/:_authToken= is empty",
        "8.8.8.8",
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    ],
)
def test_ordinary_text_passes(text: str) -> None:
    assert SecretScan().check(proposed(text)).errors == []


@pytest.mark.parametrize(
    "content",
    [
        {"password": "not set"},
        {"password": "swordfish"},
        {"password_changed_at": "2026-03-01T09:30:00Z"},
        {"secret_recipe": "grandma's tiramisu, 6 eggs"},
        {"api_key_count": "1234567"},
        {"secret": 1234567},
        {"passphrase": None, "ok": True, "x": [1.5]},
    ],
)
def test_names_that_announce_a_secret_do_not_make_one(content: Any) -> None:
    assert SecretScan().check(proposed(content)).errors == []


@pytest.mark.parametrize(
    "name",
    ["password", "DB_PASSWORD", "api-key", "apiKey", "aws_secret_access_key", "access token", "passwd"],
)
def test_a_value_is_a_secret_by_the_name_it_has_in_the_content(name: str) -> None:
    assert SecretScan("redact").check(proposed({"u": {name: "hunter2"}})).content == {
        "u": {name: "[redacted: Named Secret]"}
    }
    assert SecretScan("redact").redact({name: ["hunter2", "x"]}) == {name: ["[redacted: Named Secret]", "x"]}


def test_secrets_are_found_in_keys_and_values_at_any_depth_and_paths_do_not_quote_them() -> None:
    token = SECRETS["GitHub Token"]
    verdict = SecretScan().check(proposed({"people": [{"notes": {f"of {token}": "x", "b": [token]}}]}))
    assert verdict.errors == [
        'the key content.people[0].notes["of [redacted: GitHub Token]"]: holds a secret (GitHub Token)',
        "content.people[0].notes.b[0]: holds a secret (GitHub Token)",
    ]


def test_keys_that_are_redacted_alike_keep_their_values_apart() -> None:
    one, two = fake("gh", "p_", "a" * 36), fake("gh", "p_", "b" * 36)
    assert SecretScan("redact").redact({one: 1, two: 2, "c": 3}) == {
        "[redacted: GitHub Token]": 1,
        "[redacted: GitHub Token] 2": 2,
        "c": 3,
    }
    assert SecretScan("redact").redact({one: 1, "[redacted: GitHub Token]": 2}) == {
        "[redacted: GitHub Token] 1": 1,
        "[redacted: GitHub Token]": 2,
    }


@pytest.mark.parametrize("mode", ["refuse", "redact"])
@pytest.mark.parametrize("field", ["source", "key", "thread_id", "metadata"])
def test_a_secret_beside_the_content_is_refused_in_either_mode(field: str, mode: Any) -> None:
    token = SECRETS["GitHub Token"]
    value = {"from": token} if field == "metadata" else f"x {token}"
    verdict = SecretScan(mode).check(proposed("fine", **{field: value}))
    assert not verdict.passed
    assert verdict.withhold
    assert len(verdict.errors) == 1
    assert verdict.errors[0].startswith(field)
    assert token not in verdict.errors[0]


def test_content_without_secrets_is_not_touched() -> None:
    verdict = SecretScan("redact").check(proposed({"a": ["x", 1, None]}, metadata={"b": 2}))
    assert verdict.passed
    assert verdict.content is UNCHANGED


def test_refusing_is_critical_and_only_redacting_transforms() -> None:
    assert SecretScan.critical
    assert not SecretScan().transforms
    assert SecretScan("redact").transforms
    assert SecretScan().kinds == {"fact"}
    assert SecretScan(kinds={"fact", "episode"}).kinds == {"fact", "episode"}


def test_an_unknown_mode_is_refused() -> None:
    mode: Any = "warn"
    with pytest.raises(ArgumentError, match="mode: expected 'refuse' or 'redact', found 'warn'"):
        SecretScan(mode)


def test_a_missing_library_is_said_at_construction_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "detect_secrets.plugins.aws", None)
    with pytest.raises(MissingExtraError, match=r"SecretScan .* pip install 'memsmith\[secrets\]'"):
        SecretScan()


def test_the_library_is_loaded_only_when_a_scan_is_made() -> None:
    code = "import sys, memsmith.validators.secrets; sys.exit('detect_secrets' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_token_nested_too_deep_to_read_counts_as_one() -> None:
    head = base64.urlsafe_b64encode(b'{"a":' * 120_000).decode().rstrip("=")
    assert SecretScan().check(proposed(f"{head}.{encoded({})}")).errors == [
        "content: holds a secret (JSON Web Token)"
    ]


async def test_nothing_is_asked_over_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the network was asked")

    scan = SecretScan("redact")
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert (await scan(proposed(list(SECRETS.values())))).passed


def test_the_settings_other_users_made_are_neither_read_nor_changed() -> None:
    from detect_secrets.settings import get_settings, transient_settings

    with transient_settings({"plugins_used": [{"name": "TwilioKeyDetector"}]}):
        before = get_settings().json()
        assert not SecretScan().check(proposed(SECRETS["GitHub Token"])).passed
        assert get_settings().json() == before


def test_one_scan_serves_many_threads() -> None:
    scan = SecretScan("redact")
    texts = [f"{n} {secret}" for n in range(20) for secret in SECRETS.values()]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(scan.redact, texts)) == [scan.redact(text) for text in texts]


@pytest.mark.parametrize(
    "hostile",
    [
        "eyJ" * 80_000,
        "eyJ." * 60_000,
        "sk-" * 80_000 + "T3BlbkFJ",
        "sk-aaaaaaaaaaaaaaaaaaaaaaaaT3BlbkFJ" * 7_000 + "!",
        "//" * 100_000 + ":_authToken=",
        "/:_authToken= " * 15_000,
        "`" * 200_000,
        "password = '" * 20_000,
        "password" + " " * 200_000,
        "a" * 250_000,
        "://a:" * 50_000,
        "xoxb-" + "1-" * 100_000,
        "aws key" * 30_000,
        fake("BEGIN RSA PRIVATE", " KEY") * 10_000,
        "glagent-" * 30_000,
    ],
    ids=range(15),
)
def test_hostile_text_is_scanned_in_linear_time(hostile: str) -> None:
    # Not a measurement: a pattern that backtracks over all of it would not come back at all.
    SecretScan().check(proposed(hostile))


redact, refuse = SecretScan("redact"), SecretScan()
filler = st.text(st.characters(codec="utf-8"), max_size=20)
texts = st.lists(filler | st.sampled_from([*SECRETS.values(), "password=", "hunter2", '"'])).map(" ".join)
contents = st.recursive(
    texts | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(texts, inner)
)


@settings(deadline=None, max_examples=60)
@given(contents)
def test_redaction_leaves_no_secret_that_the_scan_would_find(content: Any) -> None:
    verdict = redact.check(proposed(content))
    assert verdict.passed
    left = content if verdict.content is UNCHANGED else verdict.content
    assert refuse.check(proposed(left)).passed
    assert redact.check(proposed(left)).content is UNCHANGED
    assert refuse.check(proposed(content)).passed is (verdict.content is UNCHANGED)


@settings(deadline=None, max_examples=60)
@given(contents)
def test_redaction_keeps_the_shape(content: Any) -> None:
    def shape(value: Any) -> Any:
        if isinstance(value, dict):
            return [shape(item) for item in cast(dict[str, Any], value).values()]
        if isinstance(value, list):
            return [shape(item) for item in cast(Sequence[Any], value)]
        return "text" if isinstance(value, str) else value

    assert shape(redact.redact(content)) == shape(content)


@settings(deadline=None)
@given(st.sampled_from(sorted(SECRETS.values())), filler, filler)
def test_a_secret_between_words_is_always_found_and_never_quoted(
    secret: str, before: str, after: str
) -> None:
    verdict = refuse.check(proposed(f"{before} {secret} {after}"))
    assert not verdict.passed
    assert_gone(secret, " ".join(verdict.errors))


@settings(deadline=None)
@given(st.uuids(), st.binary(min_size=16, max_size=64))
def test_ids_and_hashes_are_no_secrets(identifier: Any, digest: bytes) -> None:
    for text in (str(identifier), identifier.hex, digest.hex(), f"{identifier}:{digest.hex()}"):
        assert refuse.check(proposed({"id": text, "note": f"see {text}"})).passed
