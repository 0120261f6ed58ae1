"""The command line on both axes of time: drawing, looking back, correcting."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from test_cli import NASTY, Cli

from memsmith import MemoryStore
from memsmith.testing.clock import ManualClock

KEY = "user:ann/lives_in"


def day(month: int, number: int = 1) -> datetime:
    return datetime(2025, month, number, tzinfo=UTC)


def text(moment: datetime) -> str:
    return moment.isoformat()


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "store.db")


@pytest.fixture
def moved(cli: Cli) -> dict[str, str]:
    """Let Ann move, travel, and be corrected: three memories on one key, told in January to August."""

    async def work(store: MemoryStore) -> dict[str, str]:
        more: dict[str, Any] = {"session_id": "s", "confidence": 0.9, "key": KEY}
        ids: dict[str, str] = {}
        ids["Lisbon"] = (await store.propose("Lisbon", valid_from=day(1), **more)).memory_id
        clock.set(day(3, 2))
        ids["Berlin"] = (await store.propose("Berlin", valid_from=day(3), **more)).memory_id
        clock.set(day(6, 20))
        trip = await store.propose("Rome", valid_from=day(6), valid_to=day(6, 15), **more)
        clock.set(day(7, 5))
        await store.amend_validity(ids["Berlin"], day(2, 15), None, reason="she moved earlier")
        return {**ids, "Rome": trip.memory_id}

    clock = ManualClock(day(1, 10))
    return cli.library(work, clock=clock)


def rows_of(shown: str) -> list[str]:
    """Return the bars of a plot, each letter once where it repeats."""
    label = r"20\d\d-\d\d-\d\d(?:[T ][0-9:.]+Z)?"
    bars = re.findall(rf"^ *{label} {{2}}([A-Za-z·#▒]+)$", shown, re.MULTILINE)
    return [re.sub(r"(.)\1+", r"\1", bar) for bar in bars]


# -- timeline --------------------------------------------------------------------------------------


def test_a_timeline_draws_one_row_for_each_belief_and_one_column_for_each_stretch(
    cli: Cli, moved: dict[str, str]
) -> None:
    shown = cli("timeline", KEY).stdout
    assert rows_of(shown) == ["A", "AB", "ABCB", "ABCB"]
    for part in (
        KEY,
        "valid time",
        "believed from",
        "2025-02-15",
        "now",
        '"Rome"',
        "2025-06-01 → 2025-06-15",
    ):
        assert part in shown, part
    for ident in moved.values():
        assert ident in shown


def test_a_timeline_as_known_then_knows_nothing_that_came_later(cli: Cli, moved: dict[str, str]) -> None:
    shown = cli("timeline", KEY, "--as-of-system", text(day(6))).stdout
    assert rows_of(shown) == ["A", "AB"]
    assert "Rome" not in shown
    found = cli.json("timeline", KEY, "--system-at", text(day(6)))
    assert [span["memory"]["content"] for span in found["spans"]] == ["Lisbon", "Berlin"]
    assert all(r["system_from"] <= found["system_at"] for r in found["rectangles"])
    assert len(found["rectangles"]) == 3
    assert "Nothing was ever effective" in cli("timeline", KEY, "--system-at", text(day(1))).stdout


def test_a_timeline_as_data_has_spans_and_rectangles(cli: Cli, moved: dict[str, str]) -> None:
    found = cli.json("timeline", KEY)
    assert [(s["valid_from"][5:10], s["memory"]["content"]) for s in found["spans"]] == [
        ("01-01", "Lisbon"), ("02-15", "Berlin"), ("06-01", "Rome"), ("06-15", "Berlin"),
    ]  # fmt: skip
    assert found["spans"][-1]["valid_to"] is None
    assert {r["memory_id"] for r in found["rectangles"]} == set(moved.values())


def test_scope_and_kind_are_part_of_the_key(cli: Cli) -> None:
    cli.propose("Rome", "--key", KEY, "--scope", "user:ann", "--kind", "note")
    assert cli.json("timeline", KEY)["spans"] == []
    assert len(cli.json("timeline", KEY, "--scope", "user:ann", "--kind", "note")["spans"]) == 1
    assert len(cli.json("history", "--key", KEY, "--scope", "user:ann", "--kind", "note")["items"]) == 1


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_a_plot_fits_its_terminal(tmp_path: Path, columns: int) -> None:
    cli = Cli(tmp_path / "store.db", columns)

    async def work(store: MemoryStore) -> None:
        for number in range(30):
            await store.propose(f"value {number}", "s", 0.9, key=KEY, valid_from=day(1) + timedelta(number))

    cli.library(work)
    shown = cli("timeline", KEY).stdout
    assert max(map(len, shown.splitlines())) <= columns
    assert len(rows_of(shown)) == 20
    assert "(10 earlier)" in shown
    assert len(rows_of(cli("timeline", KEY, "--limit", "3").stdout)) == 3
    assert len(cli.json("timeline", KEY)["spans"]) == 30


def test_a_key_that_holds_many_values_has_a_line_for_each(cli: Cli) -> None:
    async def work(store: MemoryStore) -> None:
        for number, hobby in enumerate(("chess", "tennis")):
            clock.set(day(2 + number))
            await store.propose(hobby, "s", 0.9, key="ann/hobby", valid_from=day(1))

    clock = ManualClock(day(2))
    cli.library(work, clock=clock, cardinality={"*/hobby": "many"})
    shown = cli("timeline", "ann/hobby").stdout
    assert rows_of(shown) == ["A", "A"]
    assert re.search(r"^ +B+$", shown, re.MULTILINE)


def test_what_outlived_its_lifetime_is_a_gap_in_the_plot(cli: Cli) -> None:
    async def work(store: MemoryStore) -> None:
        await store.propose("red", "s", 0.9, key="branch", valid_from=day(1), expires_at=day(2))

    cli.library(work, clock=ManualClock(day(1, 2)))
    assert rows_of(cli("timeline", "branch").stdout) == ["A·"]
    assert cli.json("timeline", "branch")["spans"][0]["valid_to"] == "2025-02-01T00:00:00.000000Z"


# -- the page --------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Counts elements, and collects what would reach out of the page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.reaches: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.reaches += [a for a in attrs if a[0] in {"src", "href", "action", "srcset"} or a[0][:2] == "on"]


def test_the_page_has_every_rectangle_and_needs_nothing_else(
    cli: Cli, moved: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    assert str(file.name) in cli("timeline", KEY, "--html", str(file)).stdout.replace("\n", "")
    html = file.read_text(encoding="utf-8")
    found = Page()
    found.feed(html)
    assert found.tags.count("g") == len(cli.json("timeline", KEY)["rectangles"])
    assert found.reaches == []
    assert not {"script", "link", "img", "iframe"} & set(found.tags)
    assert "url(" not in html
    assert "@import" not in html
    for ident in moved.values():
        assert ident in html


def test_the_page_shows_content_and_obeys_none_of_it(cli: Cli) -> None:
    evil = {"text": f"</title></svg><script>alert(1)</script>{NASTY}&amp;"}
    cli.propose(evil, "--key", '<b onload="x">')
    html = cli("timeline", '<b onload="x">', "--html", "-").stdout
    found = Page()
    found.feed(html)
    assert "script" not in found.tags
    assert "b" not in found.tags
    assert found.reaches == []
    assert "&lt;script&gt;alert(1)" in html
    for hidden in "\x1b\x07\u202e\u200b":
        assert hidden not in html


def test_a_page_replaces_no_file_unless_told_to(cli: Cli, moved: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "notes.html"
    file.write_text("mine")
    assert cli.failure("timeline", KEY, "--html", str(file), code=3)["type"] == "ArgumentError"
    assert file.read_text() == "mine"
    assert cli.json("timeline", KEY, "--html", str(file), "--force")["html"] == str(file)
    assert "<svg" in file.read_text()
    nothing = tmp_path / "nothing.html"
    cli("timeline", "no/such/key", "--html", str(nothing), code=3)
    assert not nothing.exists()


# -- history and diff ------------------------------------------------------------------------------


def test_history_tells_each_version_with_who_and_why(cli: Cli, moved: dict[str, str]) -> None:
    items = cli.json("history", moved["Berlin"])["items"]
    assert [(v["action"], v["actor"], v["reason"]) for v in items] == [
        ("proposed", "owner", None), ("validity_amended", "owner", "she moved earlier"),
    ]  # fmt: skip
    assert items[0]["system_to"] == items[1]["system_from"]
    assert items[1]["system_to"] is None
    shown = cli("history", moved["Berlin"]).stdout
    assert "she moved earlier" in shown
    assert "2025-02-15" in shown


def test_the_history_of_a_key_is_that_of_all_its_memories(cli: Cli, moved: dict[str, str]) -> None:
    items = cli.json("history", "--key", KEY)["items"]
    assert {v["memory"]["id"] for v in items} == set(moved.values())
    assert [v["system_from"] for v in items] == sorted(v["system_from"] for v in items)
    known = cli.json("history", "--key", KEY, "--system-at", text(day(2)))["items"]
    assert [v["memory"]["content"] for v in known] == ["Lisbon"]
    assert "Nothing was known" in cli("history", "--key", "another").stdout
    for ident in moved.values():
        assert ident in cli("history", "--key", KEY).stdout


def test_history_needs_an_id_or_a_key_and_not_both(cli: Cli, moved: dict[str, str]) -> None:
    assert cli.failure("history", code=3)["type"] == "ArgumentError"
    assert cli.failure("history", moved["Rome"], "--key", KEY, code=3)["type"] == "ArgumentError"
    assert cli.failure("history", "nope", code=4)["type"] == "NotFoundError"


def test_diff_says_what_was_learned_between_two_moments(cli: Cli, moved: dict[str, str]) -> None:
    items = cli.json("diff", text(day(3)), text(day(6)))["items"]
    found = {i["memory_id"]: (i["before"] and i["before"]["status"], i["after"]["status"]) for i in items}
    assert found == {moved["Berlin"]: (None, "active"), moved["Lisbon"]: ("active", "superseded")}
    shown = cli("diff", text(day(3)), text(day(6))).stdout
    assert "2 memories changed" in shown
    assert "(not known)" in shown
    assert len(cli.json("diff", text(day(1)))["items"]) == 3
    assert cli.json("diff", text(day(8)), text(day(9)))["items"] == []
    assert cli.failure("diff", text(day(6)), text(day(3)), code=3)["type"] == "ArgumentError"


# -- reading at a point ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        (["--valid-at", text(day(2))], "Lisbon"),
        (["--valid-at", text(day(2, 20))], "Berlin"),
        (["--valid-at", text(day(2, 20)), "--system-at", text(day(7))], "Lisbon"),
        (["--valid-at", text(day(6, 5))], "Rome"),
        (["--valid-at", text(day(6, 5)), "--system-at", text(day(6, 6))], "Berlin"),
        (["--valid-at", "2025-06-15T02:00:00+02:00"], "Berlin"),
        (["--system-at", text(day(2))], "Lisbon"),
        (["--valid-at", text(day(1) - timedelta(1))], None),
    ],
)
def test_what_holds_at_a_point_is_listed_counted_and_shown(
    cli: Cli, moved: dict[str, str], point: list[str], expected: str | None
) -> None:
    listed = [memory["content"] for memory in cli.json("list", *point)["items"]]
    assert listed == ([] if expected is None else [expected])
    assert cli.json("count", *point)["count"] == len(listed)
    for content, ident in moved.items():
        if content == expected:
            assert cli.json("show", ident, *point)["content"] == content
        else:
            assert cli.json("show", ident, *point, code=1) == {"id": ident, "holds": False}
            assert "does not hold" in cli("show", ident, *point, code=1).stdout


def test_a_version_of_then_is_shown_as_it_was(cli: Cli, moved: dict[str, str]) -> None:
    then = ["--valid-at", text(day(4)), "--system-at", text(day(4))]
    assert cli.json("show", moved["Berlin"], *then)["valid_from"] == "2025-03-01T00:00:00.000000Z"
    assert cli.json("show", moved["Berlin"])["valid_from"] == "2025-02-15T00:00:00.000000Z"
    assert cli.failure("show", "nope", *then, code=4)["type"] == "NotFoundError"


def test_count_counts_what_holds_by_status(cli: Cli, moved: dict[str, str]) -> None:
    cli.propose("tea")
    cli.hold("waits")
    assert cli.json("count") == {"count": 2, "statuses": {"active": 2}}
    assert "2 hold" in cli("count").stdout
    assert cli.json("count", "--where", f"key={KEY}") == {"count": 1, "statuses": {"active": 1}}
    assert cli.json("count", "--valid-at", text(day(2))) == {"count": 1, "statuses": {"superseded": 1}}
    assert cli.json("count", "--kind", "note")["count"] == 0
    assert cli.json("count", "--status", "superseded")["count"] == 0


# -- correcting ------------------------------------------------------------------------------------


def test_amend_corrects_one_end_and_keeps_the_other(cli: Cli, moved: dict[str, str]) -> None:
    rome = moved["Rome"]
    later = cli.json("amend", rome, "--to", text(day(6, 20)), "--reason", "stayed on", "--actor", "kim")
    assert (later["valid_from"][:10], later["valid_to"][:10]) == ("2025-06-01", "2025-06-20")
    assert cli.json("amend", rome, "--from", text(day(6, 2)))["valid_to"][:10] == "2025-06-20"
    assert cli.json("amend", rome, "--open")["valid_to"] is None
    entry = cli.json("audit", rome)["items"][2]
    assert (entry["action"], entry["actor"], entry["metadata"]["reason"]) == (
        "validity_amended", "kim", "stayed on",
    )  # fmt: skip
    assert rome in cli("amend", rome, "--to", text(day(6, 21))).stdout


@pytest.mark.parametrize(
    ("arguments", "kind", "code"),
    [
        ([], "ArgumentError", 3),
        (["--from", "soon"], "ArgumentError", 3),
        (["--from", "2025-06-02"], "NaiveDatetimeError", 3),
        (["--to", "2025-06-02T00:00:00Z", "--open"], "ArgumentError", 3),
        (["--to", "2025-05-01T00:00:00Z"], "InvalidIntervalError", 3),
        (["--open", "--expected-version", "9"], "StaleVersionError", 5),
    ],
)
def test_an_amendment_that_makes_no_sense_changes_nothing(
    cli: Cli, moved: dict[str, str], arguments: list[str], kind: str, code: int
) -> None:
    before = cli.json("show", moved["Rome"])
    assert cli.failure("amend", moved["Rome"], *arguments, code=code)["type"] == kind
    assert cli.json("show", moved["Rome"]) == before
    assert cli.failure("amend", "nope", "--open", code=4)["type"] == "NotFoundError"


def test_a_portion_is_retracted_and_what_lies_beneath_holds_again(cli: Cli, moved: dict[str, str]) -> None:
    rome = moved["Rome"]
    (item,) = cli.json("retract", rome, "--during", "2025-06-10T00:00:00Z..")["items"]
    assert item["memory"]["status"] == "active"
    assert item["memory"]["retracted_during"] == [["2025-06-10T00:00:00.000000Z", None]]
    assert "2025-06-10 → …" in cli("show", rome).stdout
    at = ["--valid-at", text(day(6, 12))]
    assert [memory["content"] for memory in cli.json("list", *at)["items"]] == ["Berlin"]
    (gone,) = cli.json("retract", rome, "--during", "2025-01-01T00:00:00Z..2025-06-11T00:00:00Z")["items"]
    assert gone["memory"]["status"] == "retracted"


@pytest.mark.parametrize(
    ("during", "kind"),
    [
        ("2025-06-02T00:00:00Z", "ArgumentError"),
        ("..2025-06-02T00:00:00Z", "ArgumentError"),
        ("2025-06-02T00:00:00Z..soon", "ArgumentError"),
        ("2025-06-02..2025-06-03", "NaiveDatetimeError"),
        ("2025-06-03T00:00:00Z..2025-06-02T00:00:00Z", "InvalidIntervalError"),
    ],
)
def test_a_portion_that_makes_no_sense_is_bad_input(
    cli: Cli, moved: dict[str, str], during: str, kind: str
) -> None:
    result = cli("retract", moved["Rome"], "--during", during, "--json", code=3)
    assert json.loads(result.stderr)["type"] == kind
    assert cli.json("show", moved["Rome"])["version"] == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "--valid-at"], ["list", "--system-at"], ["count", "--valid-at"], ["show", "x", "--valid-at"],
        ["timeline", KEY, "--system-at"], ["history", "x", "--system-at"], ["diff"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_time_that_is_none_or_has_no_zone_is_bad_input(cli: Cli, arguments: list[str]) -> None:
    ident = cli.propose("tea")
    arguments = [ident if argument == "x" else argument for argument in arguments]
    assert cli.failure(*arguments, "yesterday", code=3)["type"] == "ArgumentError"
    assert cli.failure(*arguments, "2025-01-01T00:00:00", code=3)["type"] == "NaiveDatetimeError"


def test_sweep_says_how_many_it_expired_and_superseded(cli: Cli) -> None:
    async def work(store: MemoryStore) -> None:
        await store.propose("red", "s", 0.9, ttl=timedelta(hours=1))
        await store.propose("Lisbon", "s", 0.9, key=KEY)
        await store.propose("Berlin", "s", 0.9, key=KEY, valid_from=day(2))

    cli.library(work, clock=ManualClock(day(1)))
    assert cli.json("sweep") == {"expired": 1, "superseded": 1}
    assert "0 expired, 0 superseded" in cli("sweep").stdout
    actions = [entry["action"] for entry in cli.json("audit", "-n", "2")["items"]]
    assert sorted(actions) == ["expired", "superseded"]


def test_what_waits_says_whose_place_it_would_take_and_when(cli: Cli) -> None:
    home = cli.json("propose", "--text", "Rome", "--key", "home")["memory_id"]
    cli.json("propose", "--text", "Oslo", "--key", "home", "--origin", "tool")
    (waiting,) = cli.json("pending")["items"]
    assert waiting["displaces"] == [{"memory_id": home, "start": waiting["valid_from"], "end": None}]
    assert f"→ …  {home}" in cli("show", waiting["id"]).stdout
    assert cli.json("show", waiting["id"])["displaces"] == waiting["displaces"]
