"""Exit codes: one table, the same in the program, its help and its page; and files left alone."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Final

import pytest
from doc_blocks import ROOT
from test_cli import Cli
from typer.testing import CliRunner

from memsmith import errors
from memsmith.errors import MemsmithError, StoreBusyError
from memsmith.surfaces._errors import EXIT_CODES, MEANINGS, Exit, exit_code, is_retryable
from memsmith.surfaces.cli.app import app

CLASSES: Final = [
    value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, MemsmithError)
]
PAGE: Final = ROOT / "docs" / "reference" / "cli.md"
READS: Final = (
    ["list"], ["show", "x"], ["pending"], ["audit"], ["audit", "x"], ["tombstones"], ["verify"],
    ["verify", "--deep"], ["replay"], ["export"], ["secret"], ["confirm", "x"], ["reject", "x"],
    ["retract", "x"], ["lift", "x"], ["upgrade"], ["count"], ["sweep"], ["timeline", "x"], ["history", "x"],
    ["diff", "2026-01-01T00:00:00Z"], ["amend", "x", "--open"],
)  # fmt: skip


def bare(cls: type[MemsmithError]) -> MemsmithError:
    """Return an error of a class, whatever its constructor asks for."""
    return cls.__new__(cls)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_class_has_an_exit_code_of_its_own_kind(cls: type[MemsmithError]) -> None:
    code = exit_code(bare(cls))
    assert code > Exit.USAGE
    assert (code is Exit.OTHER) is (cls is MemsmithError)


def test_the_table_knows_no_class_that_is_gone_and_every_code_has_a_meaning() -> None:
    assert set(EXIT_CODES) <= set(CLASSES)
    assert set(MEANINGS) == set(Exit)
    assert set(EXIT_CODES.values()) | {Exit.OK, Exit.NO, Exit.USAGE} == set(Exit)


def test_busy_is_the_only_thing_to_simply_try_again() -> None:
    assert [cls for cls in CLASSES if is_retryable(bare(cls))] == [StoreBusyError]


def test_help_and_page_list_every_exit_code() -> None:
    shown = " ".join(CliRunner(env={"COLUMNS": "4000"}).invoke(app, ["--help"]).stdout.split())
    listed = dict(re.findall(r"^\| (\d+) \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert listed == {f"{code:d}": meaning for code, meaning in MEANINGS.items()}
    for code, meaning in MEANINGS.items():
        assert f"{code:d} {meaning}" in shown


def test_the_page_has_a_heading_for_every_command() -> None:
    names = [command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands]
    headings = re.findall(r"^### memsmith (\w+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(headings) == sorted(names)


def test_every_command_takes_json_and_explains_itself() -> None:
    runner = CliRunner(env={"COLUMNS": "200"})
    for command in app.registered_commands:
        name = command.name or getattr(command.callback, "__name__", "")
        shown = runner.invoke(app, [name, "--help"])
        assert shown.exit_code == 0
        assert "--json" in shown.stdout, name
        assert "--store" in shown.stdout, name


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["propose"], ["list", "--status", "nonsense"]])
def test_a_wrong_command_line_is_usage(cli: Cli, arguments: list[str]) -> None:
    cli(*arguments, code=2)


# -- files that are not there, or not ours ---------------------------------------------------------


@pytest.mark.parametrize("arguments", READS, ids=" ".join)
def test_looking_makes_no_file(tmp_path: Path, arguments: list[str]) -> None:
    cli = Cli(tmp_path / "store.db")
    failure = cli.failure(*arguments, code=7)
    assert failure["type"] == "StorageError"
    assert "there is no store" in failure["message"]
    assert list(tmp_path.iterdir()) == []


def test_looking_makes_no_database_of_an_empty_file(cli: Cli) -> None:
    cli.path.touch()
    cli("list", code=7)
    assert cli.path.stat().st_size == 0


def test_a_file_of_another_kind_is_left_as_it_was(cli: Cli) -> None:
    cli.path.write_bytes(b"# notes\n" * 100)
    assert cli.failure("list", code=7)["type"] == "NotAMemsmithDatabaseError"
    assert cli.failure("propose", '"tea"', code=7)["type"] == "NotAMemsmithDatabaseError"
    assert cli.path.read_bytes() == b"# notes\n" * 100


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    assert Cli(tmp_path).failure("list", code=7)["type"] == "NotAMemsmithDatabaseError"


def test_a_store_is_named_by_url_by_path_or_by_the_environment(tmp_path: Path) -> None:
    cli = Cli(tmp_path / "a #1 %41?.db")
    ident = cli.propose("tea")
    assert cli.path.is_file()
    elsewhere = Cli(tmp_path / "other.db")
    assert elsewhere.json("list", "-s", str(cli.path))["items"][0]["id"] == ident
    elsewhere("list", "--store", "mysql://host/db", code=3)
    elsewhere.propose("coffee")
    url = f"sqlite:///{elsewhere.path}?durability=normal"
    assert cli.json("list", "--store", url)["items"][0]["content"] == "coffee"


def test_an_unknown_option_of_the_url_is_bad_input(cli: Cli) -> None:
    cli.propose("tea")
    assert cli.failure("list", "-s", f"sqlite:///{cli.path}?mode=ro", code=3)["type"] == "ArgumentError"


def test_memory_is_a_store_too(cli: Cli) -> None:
    assert cli.json("propose", '"tea"', "-s", "memory://")["outcome"] == "accepted"
    assert cli.json("list", "-s", "memory://")["items"] == []
    assert not cli.path.exists()


def test_a_database_that_another_process_holds_is_busy_and_worth_another_try(cli: Cli) -> None:
    cli.propose("tea")
    holder = sqlite3.connect(cli.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    url = f"sqlite:///{cli.path}?busy_seconds=0.1"
    failure = cli.failure("propose", '"coffee"', "-s", url, code=8)
    holder.execute("ROLLBACK")
    holder.close()
    assert (failure["type"], failure["retryable"]) == ("StoreBusyError", True)
    cli("propose", '"coffee"', "-s", url)


def test_a_store_in_a_folder_that_is_not_there_is_no_store(cli: Cli) -> None:
    url = str(cli.path.parent / "nowhere" / "store.db")
    assert cli.failure("propose", '"tea"', "-s", url, code=7)["type"] == "StorageError"


# -- checking --------------------------------------------------------------------------------------


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "store.db")


def tamper(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in (
        "DROP TRIGGER audit_log_keeps_rows",
        "DROP TRIGGER audit_log_keeps_values",
        *statements,
    ):
        connection.execute(statement)
    connection.close()


def test_verify_prints_the_verdict_the_rows_and_the_head(cli: Cli) -> None:
    cli.propose("tea")
    cli.propose("coffee")
    found = cli.json("verify")
    assert (found["ok"], found["verdict"], found["rows"]) == (True, "SELF_CONSISTENT", 2)
    shown = cli("verify", str(cli.path)).stdout
    for part in ("SELF_CONSISTENT", "2 rows", found["head"]):
        assert part in shown


def test_verify_names_the_first_bad_row_with_what_was_expected_and_what_is_there(cli: Cli) -> None:
    for name in ("tea", "coffee", "milk"):
        cli.propose(name)
    tamper(cli.path, "UPDATE audit_log SET actor = 'nobody' WHERE seq = 2")
    found = cli.json("verify", str(cli.path), code=1)
    assert (found["ok"], found["verdict"], found["seq"], found["fault"]) == (False, "FAILED", 2, "changed")
    assert found["expected"]
    assert found["found"]
    shown = cli("verify", str(cli.path), code=1).stdout
    for part in ("FAILED", "2: changed", f"expected {found['expected']}", f"found    {found['found']}"):
        assert part in shown


def test_a_deep_check_and_a_replay_list_what_differs_from_the_ledger(cli: Cli) -> None:
    ident = cli.propose({"city": "Rome"})
    assert cli.json("verify", "--deep")["replay"]["identical"] is True
    assert "as the ledger says" in cli("verify", "--deep").stdout
    tamper(cli.path, 'UPDATE memories SET content = \'{"city":"Oslo"}\'')
    assert cli.json("verify")["ok"] is True
    assert cli.json("verify", "--deep", code=1)["replay"]["differences"] == {ident: ["content"]}
    assert cli.json("replay", code=1)["differences"] == {ident: ["content"]}
    for command in (["verify", "--deep"], ["replay", str(cli.path)]):
        shown = cli(*command, code=1).stdout
        assert ident in shown
        assert "content" in shown


def test_a_replay_writes_what_the_ledger_says_to_a_new_file(cli: Cli, tmp_path: Path) -> None:
    cli.propose({"city": "Rome"})
    tamper(cli.path, 'UPDATE memories SET content = \'{"city":"Oslo"}\'')
    rescued = Cli(tmp_path / "rescued.db")
    cli("replay", "--into", str(rescued.path), code=1)
    assert rescued.json("list")["items"][0]["content"] == {"city": "Rome"}
    assert rescued.json("verify", "--deep")["replay"]["identical"] is True
    assert cli.failure("replay", "--into", str(rescued.path), code=3)["type"] == "ArgumentError"
    assert "as the ledger says" in rescued("replay").stdout
