"""Whole stores on the move: export, import, the secret."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from test_cli import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Return a store with a memory, one that waits, and a tombstone."""
    cli = Cli(tmp_path / "store.db")
    cli.propose({"city": "Zürich \u202e"})
    cli.hold("nuts")
    cli("reject", cli.propose("tea"), "-r", "never true")
    return cli


@pytest.fixture
def other(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "other.db")


@pytest.fixture
def secret(cli: Cli, tmp_path: Path) -> str:
    path = tmp_path / "secret.txt"
    path.write_bytes(cli("secret", str(cli.path)).stdout_bytes)
    return str(path)


def test_export_import_export_is_the_same_bytes(cli: Cli, other: Cli, secret: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    written = cli.json("export", str(lines))
    assert written == {"file": str(lines), "lines": len(lines.read_bytes().splitlines())}
    report = other.json("import", str(lines), "--secret-file", secret)
    assert (report["restored"], report["memories"], report["tombstones"]) == (True, 3, 1)
    assert other("export").stdout_bytes == lines.read_bytes()
    assert other.json("list") == cli.json("list")
    assert other.json("verify", "--deep")["replay"]["identical"] is True
    assert other.json("propose", '"TEA"', code=1)["code"] == "tombstoned"


def test_an_export_to_standard_output_is_the_lines_alone(cli: Cli) -> None:
    plain = cli("export").stdout_bytes
    assert cli("export", "-", "--json").stdout_bytes == plain
    assert all(json.loads(line) for line in plain.splitlines())


def test_an_export_replaces_no_file_unless_told_to(cli: Cli, tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text("mine")
    assert cli.failure("export", str(lines), code=3)["type"] == "ArgumentError"
    assert lines.read_text() == "mine"
    assert "lines in" in cli("export", str(lines), "--force").stdout
    assert lines.read_bytes() == cli("export").stdout_bytes


def test_an_export_that_fails_leaves_nothing(cli: Cli, tmp_path: Path) -> None:
    assert cli.failure("export", str(tmp_path / "no" / "lines"), code=7)["type"] == "StorageError"
    folder = tmp_path / "exports"
    folder.mkdir()
    cli("export", str(folder), "--force", code=7)
    assert list(folder.iterdir()) == []
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_an_export_that_breaks_off_leaves_no_file(cli: Cli, tmp_path: Path) -> None:
    connection = sqlite3.connect(cli.path)
    connection.execute("DELETE FROM memories WHERE status = 'active'")
    connection.commit()
    connection.close()
    assert cli.failure("export", str(tmp_path / "lines.jsonl"), code=9)["type"] == "LedgerError"
    assert not [path for path in tmp_path.iterdir() if "lines" in path.name]


def test_an_import_without_the_secret_is_refused_as_a_whole(cli: Cli, other: Cli, tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    cli("export", str(lines))
    failure = other.failure("import", str(lines), code=10)
    assert failure["type"] == "SecretRequiredError"
    assert "memsmith secret" in failure["message"]
    assert other.json("audit")["items"] == []


def test_an_import_of_a_file_that_was_cut_or_changed_is_refused_as_a_whole(
    cli: Cli, other: Cli, secret: str
) -> None:
    lines = cli("export").stdout
    for broken in (lines[:-40], lines.replace("nuts", "cake"), "{}", "not JSON"):
        result = other("import", "-", "--secret-file", secret, code=10, given=broken)
        assert result.stderr.startswith("error: ")
        assert other.json("audit")["items"] == []


def test_a_used_store_takes_an_import_by_the_door(cli: Cli, other: Cli, secret: str) -> None:
    other.propose("milk")
    lines = cli("export").stdout
    shown = other("import", "--secret-file", secret, given=lines).stdout
    for part in ("merged", "3 memories", "accepted 1", "pending 1", "1 new"):
        assert part in shown
    assert other.json("propose", '"TEA"', code=1)["code"] == "tombstoned"
    again = other.json("import", "--secret-file", secret, given=lines)
    assert (again["restored"], again["planted"], again["refused"]) == (False, 0, [])


def test_what_the_door_refuses_of_an_import_is_listed(cli: Cli, other: Cli, secret: str) -> None:
    other("reject", other.propose("nuts"))
    lines = cli("export").stdout
    ident = cli.json("pending")["items"][0]["id"]
    shown = other("import", "--secret-file", secret, code=1, given=lines).stdout
    assert ident in shown
    assert "tombstoned" in shown


def test_an_import_needs_a_file_that_can_be_read(other: Cli, tmp_path: Path) -> None:
    assert other.failure("import", str(tmp_path / "nope"), code=3)["type"] == "ArgumentError"
    assert not other.path.exists()  # where there is nothing to import no store is made
    assert other.failure("import", "-", "--secret-file", str(tmp_path / "nope"), code=3)["type"] == (
        "ArgumentError"
    )


def test_the_secret_is_printed_in_hex(cli: Cli) -> None:
    (item,) = cli.json("secret")["items"]
    assert cli("secret", str(cli.path)).stdout.split() == [item["secret"]]
    assert len(bytes.fromhex(item["secret"])) == 32


def test_a_secret_from_outside_is_not_in_the_file(other: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMSMITH_SECRET", "a secret from outside")
    other.propose("tea")
    assert other.failure("secret", code=7)["type"] == "StorageError"
    monkeypatch.delenv("MEMSMITH_SECRET")
    assert other.failure("list", code=10)["type"] == "SecretRequiredError"


# -- upgrade ---------------------------------------------------------------------------------------

TIME = "2025-05-01T09:00:00+00:00"
OLD_TABLES = """
CREATE TABLE _migrations (version INTEGER PRIMARY KEY, applied_at TEXT NOT NULL);
CREATE TABLE memories (
    id TEXT PRIMARY KEY, content TEXT, session_id TEXT, thread_id TEXT, source TEXT, confidence REAL,
    content_hash TEXT, status TEXT, depends_on TEXT, created_at TEXT, updated_at TEXT, expires_at TEXT,
    retracted_at TEXT, retraction_reason TEXT
);
CREATE TABLE audit_log (
    id TEXT PRIMARY KEY, memory_id TEXT, action TEXT, from_status TEXT, to_status TEXT, timestamp TEXT,
    metadata TEXT
);
"""


def old_file(path: Path, *contents: str) -> None:
    """Write a file as 0.1.0 laid it out."""
    connection = sqlite3.connect(path)
    connection.executescript(OLD_TABLES)
    for number, content in enumerate(contents):
        status = "active" if number else "pending_confirmation"
        values = (content, "s", None, None, 0.9, "", status, "[]", TIME, TIME, None, None, None)
        memory = (f"m{number}", *values)
        connection.execute(f"INSERT INTO memories VALUES ({', '.join('?' * 14)})", memory)
        entry = (f"a{number}", f"m{number}", "proposed", "proposed", status, TIME, "{}")
        connection.execute("INSERT INTO audit_log VALUES (?, ?, ?, ?, ?, ?, ?)", entry)
    connection.commit()
    connection.close()


def test_an_old_file_is_upgraded_and_a_copy_kept(other: Cli) -> None:
    old_file(other.path, '{"city": "Rome"}', '"tea"')
    failure = other.failure("list", code=7)
    assert failure["type"] == "LegacyDatabaseError"
    assert f"memsmith upgrade {other.path}" in failure["message"]
    report = other.json("upgrade", str(other.path))
    assert (report["memories"], report["history"], report["skipped"]) == (2, 2, {})
    assert other.failure("list", "-s", report["backup"], code=7)["type"] == "LegacyDatabaseError"
    assert [m["content"] for m in other.json("list")["items"]] == [{"city": "Rome"}, "tea"]
    assert [(m["id"], m["reasons"]) for m in other.json("pending")["items"]] == [("m0", [])]
    assert other.json("verify", "--deep")["replay"]["identical"] is True


def test_what_can_not_be_carried_over_refuses_the_upgrade_or_is_left_out(other: Cli) -> None:
    old_file(other.path, '"tea"', '""')
    before = other.path.read_bytes()
    assert other.failure("upgrade", code=10)["type"] == "ImportRefusedError"
    assert other.path.read_bytes() == before
    shown = other("upgrade", "--skip-bad").stdout
    for part in ("upgraded 1 memory", "pending_confirmation 1", "0.1.0.bak", "left out  m1"):
        assert part in shown


def test_a_file_of_ours_needs_no_upgrade(cli: Cli) -> None:
    before = cli.json("list")
    cli("upgrade", code=7)
    assert cli.json("list") == before
