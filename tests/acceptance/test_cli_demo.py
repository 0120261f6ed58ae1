"""The demonstration: every claim it prints is true of the file it leaves."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest
from test_cli import Cli

from memsmith import MemoryStore


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    return Cli(tmp_path / "memsmith-demo.db", columns=118)


def scenes(cli: Cli) -> dict[str, Any]:
    document = cli.json("demo")
    return {scene["title"]: scene for scene in document["scenes"]}


def test_the_demo_shows_every_outcome_and_takes_seconds(cli: Cli) -> None:
    began = time.monotonic()
    shown = cli("demo").stdout
    assert time.monotonic() - began < 15  # a second or two; the rest is for busy machines
    for part in (
        "ACTIVE", "HELD", "REFUSED", "is below the", "expected a value", "holds a secret",
        "nothing of it was stored", "instruction to the model", "RIGHT-TO-LEFT OVERRIDE",
        "setup-\\u202egpj.sh",
        "Duplicate content", "tombstoned", "1 expired", "believed from", "SELF_CONSISTENT", "append-only",
        "1: changed",
        "expected a payload with digest", "memsmith pending -s memsmith-demo.db",
    ):  # fmt: skip
        assert part in shown, part
    assert "Xk9-harbour-42" not in shown
    assert "\u202e" not in shown


def test_what_the_demo_says_is_so(cli: Cli) -> None:
    found = scenes(cli)
    results = found["An agent proposes"]["results"]
    assert [r["outcome"] for r in results] == [
        "accepted", "accepted", "accepted", "pending", "pending", "rejected", "rejected", "pending",
        "pending", "rejected",
    ]  # fmt: skip
    assert [r["code"] for r in results if r["code"]] == ["validation", "validation", "duplicate"]
    assert all(scene["index"]["equal"] for scene in found.values() if "index" in scene)
    back = found["The rejected value comes back"]
    assert back["result"]["code"] == "tombstoned"
    assert back["result"]["tombstone_id"] == back["tombstone"]["id"]
    late = found["A fact changes, and one arrives late"]
    assert {who: late[who]["status"] for who in ("Noor", "Idris", "Mei")} == {
        "Noor": "superseded", "Idris": "active", "Mei": "superseded",
    }  # fmt: skip
    assert [(asked["before"], asked["now"]) for asked in late["asked"]] == [
        ("Noor", "Mei"),
        ("Idris", "Idris"),
    ]
    assert [span["memory"]["content"]["value"] for span in late["timeline"]] == ["Noor", "Mei", "Idris"]
    assert found["Two hours pass"]["expired"]["count"] == 1
    assert found["Is the record whole?"]["replay"]["identical"] is True
    edited = found["Somebody edits the file by hand"]
    assert (edited["verification"]["fault"], edited["verification"]["seq"]) == ("changed", 1)
    assert list(edited["replay"]["differences"].values()) == [["content"]]


def test_the_file_it_leaves_is_sound_and_holds_no_secret_and_no_future(cli: Cli) -> None:
    from datetime import UTC, datetime

    cli("demo")
    assert cli.json("verify", str(cli.path), "--deep")["replay"]["identical"] is True
    assert b"Xk9-harbour-42" not in cli.path.read_bytes()
    newest = cli.json("audit", "-n", "1")["items"][0]["timestamp"]
    assert datetime.fromisoformat(newest) <= datetime.now(UTC)
    statuses = sorted(m["status"] for m in cli.json("list")["items"])
    assert statuses == ["active"] * 4 + ["expired"] + ["pending_confirmation"] * 2 + [
        "rejected", "rejected", "rejected", "retracted", "superseded", "superseded",
    ]  # fmt: skip


def test_the_commands_it_ends_with_run(cli: Cli) -> None:
    for command in cli.json("demo")["next"]:
        cli(*command.split()[1:])


def test_a_second_demo_replaces_the_first(cli: Cli) -> None:
    cli("demo")
    cli("demo")
    assert len(cli.json("list")["items"]) == 13


def test_a_store_that_is_not_a_demos_own_is_left_alone(cli: Cli) -> None:
    cli("demo")
    cli.propose("something of my own")
    before = cli.json("list")
    assert cli.failure("demo", code=3)["type"] == "ArgumentError"
    assert cli.json("list") == before


def test_a_store_that_holds_nothing_yet_is_left_alone_too(cli: Cli) -> None:
    async def nothing(store: MemoryStore) -> None: ...

    cli.library(nothing)
    before = cli.json("secret")
    cli("demo", code=3)
    assert cli.json("secret") == before


def test_the_store_of_the_environment_is_not_the_demos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mine = Cli(tmp_path / "mine.db")
    mine.propose("tea")
    mine("demo")
    assert len(mine.json("list")["items"]) == 1
    assert (tmp_path / "memsmith-demo.db").exists()


def test_a_demo_needs_a_file(cli: Cli) -> None:
    assert cli.failure("demo", "-s", "memory://", code=3)["type"] == "ArgumentError"


def test_without_the_extra_the_secret_is_left_out_and_said_so(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "detect_secrets"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "detect_secrets", None)
    shown = cli("demo").stdout
    assert "left out: a secret" in shown
    assert "memsmith[secrets]" in shown
    assert "staging" not in shown
    assert len(cli.json("list")["items"]) == 12
