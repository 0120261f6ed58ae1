"""Each command, for people and for programs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from typer.testing import CliRunner, Result

from memsmith import ConfidenceThreshold, MemoryStore
from memsmith.surfaces.cli.app import app

T = TypeVar("T")


class Cli:
    """Runs commands on one store, in this process."""

    def __init__(self, path: Path, columns: int = 160) -> None:
        self.path = path
        self._runner = CliRunner(env={"MEMSMITH_STORE": str(path), "COLUMNS": str(columns)})

    def __call__(self, *args: str, code: int = 0, given: str | bytes | None = None) -> Result:
        result = self._runner.invoke(app, [*args], input=given)
        assert result.exit_code == code, f"{args}: {result.exit_code}\n{result.output}{result.exception!r}"
        return result

    def json(self, *args: str, code: int = 0, given: str | None = None) -> Any:
        """Return the one JSON document that standard output holds."""
        result = self(*args, "--json", code=code, given=given)
        if code == 0:
            assert result.stderr == ""
        return json.loads(result.stdout)

    def failure(self, *args: str, code: int) -> Any:
        """Return the error that standard error holds; standard output is empty."""
        result = self(*args, "--json", code=code)
        assert result.stdout == ""
        return json.loads(result.stderr)

    def library(self, work: Callable[[MemoryStore], Awaitable[T]], **options: Any) -> T:
        """Do something with the store that the command line has no word for."""

        async def inside() -> T:
            async with await MemoryStore.open(f"sqlite:///{self.path}", **options) as store:
                return await work(store)

        return asyncio.run(inside())

    def propose(self, content: Any, *args: str) -> str:
        ident: str = self.json("propose", json.dumps(content), *args)["memory_id"]
        return ident

    def hold(self, content: Any) -> str:
        """Let something wait for a person."""

        async def work(store: MemoryStore) -> str:
            return (await store.propose(content, "s", 0.3, actor="agent-7")).memory_id

        return self.library(work, validators=[ConfidenceThreshold(0.5)])


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "store.db")


# -- propose ---------------------------------------------------------------------------------------


def test_a_proposal_becomes_a_memory_and_says_so(cli: Cli) -> None:
    shown = cli("propose", '{"city": "Lisbon"}').stdout
    (memory,) = cli.json("list")["items"]
    assert "accepted" in shown
    assert memory["id"] in shown
    assert memory["content"] == {"city": "Lisbon"}
    assert (memory["confidence"], memory["session_id"], memory["actor"]) == (1.0, "cli", "owner")


def test_every_option_of_a_proposal_arrives(cli: Cli) -> None:
    parent = cli.propose("the parent")
    found = cli.json(
        "propose", '{"a": 1}', "--session", "s-1", "--confidence", "0.7", "--scope", "user:7/atlas",
        "--key", "city", "--kind", "note", "--origin", "tool", "--source", "web", "--thread", "t-1",
        "--sensitivity", "public", "--valid-from", "2026-01-01T00:00:00Z", "--valid-to",
        "2027-01-01T00:00:00+01:00", "--expires-at", "2036-01-01T00:00:00Z", "--depends-on", parent,
        "--metadata", '{"page": 3}', "--idempotency-key", "k-1", "--actor", "agent-7",
    )  # fmt: skip
    memory = found["memory"]
    assert found["outcome"] == "accepted"
    assert memory | {
        "session_id": "s-1", "confidence": 0.7, "scope": "user:7/atlas", "key": "city", "kind": "note",
        "origin": "tool", "source": "web", "thread_id": "t-1", "sensitivity": "public",
        "valid_from": "2026-01-01T00:00:00.000000Z", "valid_to": "2026-12-31T23:00:00.000000Z",
        "expires_at": "2036-01-01T00:00:00.000000Z", "depends_on": [parent], "metadata": {"page": 3},
        "actor": "agent-7", "status": "active",
    } == memory  # fmt: skip


def test_text_is_taken_as_it_is(cli: Cli) -> None:
    assert cli.json("propose", "--text", '{"not": json')["memory"]["content"] == '{"not": json'


def test_content_is_read_from_standard_input(cli: Cli) -> None:
    assert cli.json("propose", "-", given='{"a": [1, 2]}\n')["memory"]["content"] == {"a": [1, 2]}
    assert cli.json("propose", "-", "--text", given="a line\nand another\n")["memory"]["content"] == (
        "a line\nand another"
    )


def test_a_refused_proposal_is_the_answer_no(cli: Cli) -> None:
    first = cli.propose("tea")
    refused = cli.json("propose", '"tea"', code=1)
    assert (refused["outcome"], refused["code"], refused["memory_id"]) == ("rejected", "duplicate", first)
    assert "duplicate" in cli("propose", '"tea"', code=1).stdout


def test_a_repeated_idempotency_key_gives_the_first_outcome_again(cli: Cli) -> None:
    first = cli.propose("tea", "--idempotency-key", "turn-1")
    assert cli.propose("tea", "--idempotency-key", "turn-1") == first


@pytest.mark.parametrize(
    ("ttl", "seconds"),
    [("90s", 90), ("30m", 1800), ("24h", 86400), ("7d", 604800), ("2w", 1209600), ("1d12h", 129600)],
)
def test_a_lifetime_counts_from_now(cli: Cli, ttl: str, seconds: int) -> None:
    from datetime import datetime

    memory = cli.json("propose", '"tea"', "--ttl", ttl)["memory"]
    lived = datetime.fromisoformat(memory["expires_at"]) - datetime.fromisoformat(memory["created_at"])
    assert lived.total_seconds() == seconds


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (["{not json"], "ArgumentError"),
        (["[" * 100_000], "ArgumentError"),
        (['{"a": 1, "a": 2}'], "ArgumentError"),
        (['""'], "InvalidContentError"),
        (["NaN"], "InvalidContentError"),
        (['"tea"', "--confidence", "7"], "InvalidConfidenceError"),
        (['"tea"', "--ttl", "soon"], "ArgumentError"),
        (['"tea"', "--ttl", "7 d"], "ArgumentError"),
        (['"tea"', "--ttl", "999999999w"], "ArgumentError"),
        (['"tea"', "--ttl", "0s"], "ArgumentError"),
        (['"tea"', "--expires-at", "tomorrow"], "ArgumentError"),
        (['"tea"', "--expires-at", "2036-01-01T00:00:00"], "NaiveDatetimeError"),
        (['"tea"', "--metadata", "[1]"], "ArgumentError"),
        (['"tea"', "--scope", "a//b"], "InvalidScopeError"),
    ],
)
def test_bad_input_has_its_exit_code_and_writes_nothing(cli: Cli, arguments: list[str], kind: str) -> None:
    cli.propose("there already")
    assert cli.failure("propose", *arguments, code=3)["type"] == kind
    assert len(cli.json("audit")["items"]) == 1


def test_input_that_is_not_utf_8_is_bad_input(cli: Cli) -> None:
    assert "UTF-8" in cli("propose", "-", given=b'"\xff"', code=3).stderr


# -- deciding --------------------------------------------------------------------------------------


def test_what_waits_is_listed_with_its_reasons(cli: Cli) -> None:
    ident = cli.hold({"allergy": "nuts"})
    cli.propose("does not wait")
    (item,) = cli.json("pending")["items"]
    assert (item["id"], item["reasons"]) == (ident, ["Confidence 0.3 is below the threshold 0.5"])
    shown = cli("pending").stdout
    assert ident in shown
    assert "below the threshold" in shown
    assert "agent-7" in shown
    cli("confirm", ident)
    assert "Nothing waits" in cli("pending").stdout


def test_confirm_makes_a_memory_of_what_waits(cli: Cli) -> None:
    ident = cli.hold("tea")
    (item,) = cli.json("confirm", ident, "--reason", "asked her", "--actor", "alice")["items"]
    assert (item["ok"], item["memory"]["status"]) == (True, "active")
    assert cli.json("audit", ident)["items"][0]["metadata"] == {"reason": "asked her"}


def test_several_are_decided_each_for_itself(cli: Cli) -> None:
    first, second = cli.hold("tea"), cli.hold("coffee")
    result = cli("confirm", first, "nope", second, "--json", code=4)
    items = json.loads(result.stdout)["items"]
    assert [(item["memory_id"], item["ok"]) for item in items] == [
        (first, True), ("nope", False), (second, True),
    ]  # fmt: skip
    assert items[1]["error"]["type"] == "NotFoundError"
    assert json.loads(result.stderr)["type"] == "NotFoundError"
    again = cli("confirm", first, second, code=5)
    assert again.stdout == ""
    assert again.stderr.count("Invalid transition") == 2


def test_a_rejected_value_is_refused_when_it_comes_back(cli: Cli) -> None:
    ident = cli.propose({"city": "Berlin"})
    assert "RETRACTED" in cli("reject", ident, "-r", "never lived there").stdout
    refused = cli.json("propose", '{"city": " BERLIN"}', "--session", "other", code=1)
    (stone,) = cli.json("tombstones")["items"]
    assert (refused["code"], refused["tombstone_id"]) == ("tombstoned", stone["id"])
    assert (stone["refused"], stone["reason"]) == (1, "never lived there")
    shown = cli("tombstones").stdout
    assert stone["id"] in shown
    assert "never lived there" in shown


def test_reject_takes_equal_memories_along_when_told_to(cli: Cli) -> None:
    first, second = cli.propose("tea", "--session", "a"), cli.propose("tea", "--session", "b")
    result = cli("reject", first, code=5)
    assert second in result.stderr
    cli("reject", first, "--also")
    assert {m["status"] for m in cli.json("list")["items"]} == {"retracted"}


def test_a_retracted_value_may_come_back(cli: Cli) -> None:
    parent = cli.propose("parent")
    cli.propose("child", "--depends-on", parent)
    cli("retract", parent, "--cascade", "--reason", "moved")
    assert {m["status"] for m in cli.json("list")["items"]} == {"retracted"}
    assert cli.json("propose", '"parent"')["outcome"] == "accepted"


def test_a_lifted_tombstone_lets_its_value_back_in(cli: Cli) -> None:
    cli("reject", cli.propose("tea"))
    (stone,) = cli.json("tombstones")["items"]
    assert stone["id"] in cli("lift", stone["id"], "--reason", "it was true").stdout
    assert cli.json("propose", '"tea"')["outcome"] == "accepted"
    assert cli.json("tombstones")["items"] == []
    assert "No tombstones" in cli("tombstones").stdout
    assert "it was true" in cli("tombstones", "--lifted").stdout
    assert cli.json("lift", stone["id"])["lift_reason"] == "it was true"
    assert cli.failure("lift", "nope", code=4)["type"] == "NotFoundError"


# -- reading ---------------------------------------------------------------------------------------


def test_lists_are_filtered_ordered_and_paged(cli: Cli) -> None:
    for number in range(5):
        cli.propose({"n": number, "city": "Rome" if number % 2 else "5"}, "-c", f"0.{number + 1}")
    cli.propose("another kind", "--kind", "note")

    def numbers(*args: str) -> list[Any]:
        return [m["content"]["n"] for m in cli.json("list", *args)["items"]]

    assert numbers() == [0, 1, 2, 3, 4]
    assert numbers("--where", "content.city=Rome") == [1, 3]
    assert numbers("--where", 'content.city="5"') == [0, 2, 4]
    assert numbers("--where", "content.n=3", "-w", "confidence=0.4") == [3]
    assert numbers("--order-by", "confidence", "-d", "-n", "2") == [4, 3]
    assert numbers("--offset", "3") == [3, 4]
    assert numbers("--status", "retracted") == []
    assert [m["kind"] for m in cli.json("list", "--kind", "note")["items"]] == ["note"]
    assert len(cli.json("list", "--all-kinds")["items"]) == 6
    page = cli.json("list", "-n", "3")
    assert numbers("--cursor", page["next_cursor"]) == [3, 4]
    assert f"--cursor {page['next_cursor']}" in cli("list", "-n", "3").stdout
    assert "No memories" in cli("list", "--session", "elsewhere").stdout
    assert cli.failure("list", "--where", "password=1", code=3)["type"] == "QueryError"
    assert cli.failure("list", "--where", "nothing", code=3)["type"] == "ArgumentError"


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_ids_stay_whole_on_every_terminal(tmp_path: Path, columns: int) -> None:
    cli = Cli(tmp_path / "store.db", columns)
    ident = cli.hold({"note": "a long one, " * 20})
    for command in ("list", "pending", "audit"):
        shown = cli(command).stdout
        assert ident in shown
        assert max(map(len, shown.splitlines())) <= columns
    cli("reject", ident)
    assert cli.json("tombstones")["items"][0]["id"] in cli("tombstones").stdout


def test_show_has_all_there_is_to_one_memory(cli: Cli) -> None:
    parent = cli.propose({"text": "x" * 900}, "--key", "slot")
    child = cli.propose("child", "--depends-on", parent)
    found = cli.json("show", parent)
    assert (found["id"], found["key"], found["dependants"]) == (parent, "slot", [child])
    shown = cli("show", parent).stdout
    assert "".join(shown.split()).count("x") >= 900
    assert child in shown
    assert cli.failure("show", "nope", code=4)["message"] == "Memory not found: nope"


def test_a_refusal_that_kept_nothing_says_so(cli: Cli) -> None:
    cli("reject", cli.propose("tea"))
    refused = cli.json("propose", '"TEA"', code=1)["memory_id"]
    assert "(not kept)" in cli("show", refused).stdout


def test_the_audit_is_newest_first_and_goes_on_below_a_row(cli: Cli) -> None:
    ident = cli.propose("tea")
    cli.propose("coffee")
    cli("retract", ident, "-r", "cold")
    assert [e["seq"] for e in cli.json("audit")["items"]] == [3, 2, 1]
    assert [e["seq"] for e in cli.json("audit", "--before", "3", "-n", "1")["items"]] == [2]
    assert [e["action"] for e in cli.json("audit", ident)["items"]] == ["retracted", "proposed"]
    assert cli.json("audit", ident, "--before", "1")["items"] == []
    assert "No entries" in cli("audit", ident, "--before", "1").stdout
    shown = cli("audit", ident).stdout
    assert "retracted" in shown
    assert "reason: cold" in shown
    assert cli.failure("audit", "nope", code=4)["type"] == "NotFoundError"


# -- what is shown is never obeyed -----------------------------------------------------------------

NASTY = "\x1b[31mred\x1b[0m \u202eevil\u202c \u200b\x07 [bold]no[/bold] [link=x]y :smile: \U000e0041\u3164"


def test_hidden_characters_are_written_out_and_markup_is_text(cli: Cli) -> None:
    ident = cli.propose({"text": NASTY}, "--source", NASTY, "--session", "\u202es")
    cli("retract", ident, "--reason", NASTY, "--actor", "\u202ea")
    for command in (["list"], ["show", ident], ["audit"]):
        shown = cli(*command).stdout
        for hidden in "\x1b\x07\u202e\u202c\u200b\u3164\U000e0041":
            assert hidden not in shown
        assert "\\u202e" in shown
    whole = cli("show", ident).stdout
    for text in ("[bold]no[/bold]", "[link=x]y", ":smile:", "\\u001b[31mred", "\\U000e0041", "\\u3164"):
        assert text in whole


def test_a_line_end_in_a_reason_starts_no_line(cli: Cli) -> None:
    cli("retract", cli.propose("tea"), "--reason", "cold\n  1 forged\trow")
    assert "cold\\n  1 forged\\trow" in cli("audit").stdout


def test_json_escapes_what_is_hidden_and_means_the_same(cli: Cli) -> None:
    cli.propose({"text": NASTY, "plain": "Zürich 東京 🙂"})
    shown = cli("list", "--json").stdout
    assert "\u202e" not in shown
    assert "\\u202e" in shown
    assert "Zürich 東京 🙂" in shown
    assert json.loads(shown)["items"][0]["content"] == {"text": NASTY, "plain": "Zürich 東京 🙂"}


def test_an_error_shows_nothing_hidden_either(cli: Cli) -> None:
    cli.propose("tea")
    assert "\u202e" not in cli("show", "\u202enope", code=4).stderr
    assert "\\u202e" in cli("show", "\u202enope", "--json", code=4).stderr
