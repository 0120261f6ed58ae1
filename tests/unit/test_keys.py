"""Where a fact's key comes from, and how many values it holds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from memsmith import Accepted, MemoryStatus, MemoryStore, Rejected
from memsmith.errors import ArgumentError, DuplicateError
from memsmith.policy.keys import NO_RULES, KeyedBy, Keys
from memsmith.testing.clock import ManualClock

OpenStore = Callable[..., Awaitable[MemoryStore]]

RULE = KeyedBy("subject", "predicate")


@dataclass
class Home:
    person: str
    city: str

    def memory_key(self) -> Any:
        return {"": None, "nobody": 7, "blank": " "}.get(self.person, f"home/{self.person}")


@dataclass
class Field:
    """Content with a field of the hook's name is no content with the hook."""

    memory_key: str


@dataclass
class Triple:
    subject: str
    predicate: str
    object: str


# -- derived from fields ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ({"subject": "Ann", "predicate": "lives_in", "object": "Rome"}, "ann/lives_in"),
        ({"subject": "  ANN \u200b", "predicate": "Lives\tin"}, "ann/lives in"),
        ({"subject": "Jos\u00e9", "predicate": "\uff41ge"}, "jos\u00e9/age"),
        ({"subject": "Jose\u0301", "predicate": "age"}, "jos\u00e9/age"),
        ({"subject": "a/b", "predicate": "c"}, "a%2Fb/c"),
        ({"subject": "a", "predicate": "b/c"}, "a/b%2Fc"),
        ({"subject": "a%2Fb", "predicate": "c"}, "a%252fb/c"),
        ({"subject": 7, "predicate": "x"}, "7/x"),
        ({"subject": 0, "predicate": -1}, "0/-1"),
    ],
)
def test_the_values_of_the_fields_folded_and_joined_are_the_key(content: Any, key: str) -> None:
    assert RULE.key_of("fact", content) == key


def test_a_slash_in_a_value_never_makes_two_subjects_one() -> None:
    subjects = [("a/b", "c"), ("a", "b/c"), ("a%2fb", "c"), ("a", "b%2fc"), ("a%", "2fb/c")]
    keys = [RULE.key_of("fact", {"subject": s, "predicate": p}) for s, p in subjects]
    assert len(set(keys)) == len(subjects)


@pytest.mark.parametrize(
    "content",
    [
        {"subject": "Ann"},
        {"subject": "Ann", "predicate": None},
        {"subject": "Ann", "predicate": ""},
        {"subject": "Ann", "predicate": " \t"},
        {"subject": "Ann", "predicate": "\u200b"},
        {"subject": "Ann", "predicate": True},
        {"subject": "Ann", "predicate": 1.5},
        {"subject": "Ann", "predicate": ["x"]},
        {"subject": {"name": "Ann"}, "predicate": "x"},
        {},
        ["Ann", "lives_in"],
        "Ann lives in Rome",
        None,
    ],
)
def test_content_without_a_text_or_whole_number_in_each_field_has_no_key(content: Any) -> None:
    assert RULE.key_of("fact", content) is None


def test_a_rule_is_about_one_kind() -> None:
    content = {"topic": "x"}
    assert KeyedBy("topic").key_of("note", content) is None
    assert KeyedBy("topic", kind="note").key_of("note", content) == "x"
    assert KeyedBy("topic", kind="note").key_of("fact", content) is None


def test_a_rule_names_at_least_one_field() -> None:
    with pytest.raises(ArgumentError, match="fields"):
        KeyedBy()
    with pytest.raises(ArgumentError, match="fields"):
        KeyedBy(" ")
    with pytest.raises(ArgumentError, match="kind"):
        KeyedBy("subject", kind="")


# -- which of them counts --------------------------------------------------------------------------


def test_a_key_that_is_given_wins_over_the_model_and_that_over_the_rules_in_order() -> None:
    content = {"person": "ann", "city": "Rome"}
    keys = Keys((KeyedBy("none"), KeyedBy("city"), KeyedBy("person")))
    assert keys.key_of("given", Home("ann", "Rome"), "fact", content) == "given"
    assert keys.key_of(None, Home("ann", "Rome"), "fact", content) == "home/ann"
    assert keys.key_of(None, content, "fact", content) == "rome"
    assert keys.key_of(None, "text", "fact", "text") is None
    assert NO_RULES.key_of(None, content, "fact", content) is None


def test_a_model_that_says_none_has_no_key_whatever_the_rules_say() -> None:
    content = {"person": "", "city": "Rome"}
    assert Keys((KeyedBy("city"),)).key_of(None, Home("", "Rome"), "fact", content) is None


def test_a_model_that_answers_with_no_text_is_refused_by_the_hooks_name() -> None:
    for person in ("nobody", "blank"):
        with pytest.raises(ArgumentError, match=r"memory_key\(\)"):
            NO_RULES.key_of(None, Home(person, "Rome"), "fact", {})
    assert NO_RULES.key_of(None, Field("x"), "fact", {"memory_key": "x"}) is None
    assert NO_RULES.key_of(None, {"memory_key": "x"}, "fact", {"memory_key": "x"}) is None


@pytest.mark.parametrize("key", ["", "  ", 7, "\x00", "\ud800", "k" * 1025])
def test_a_key_that_no_database_could_hold_is_refused(key: Any) -> None:
    with pytest.raises(ArgumentError, match="key"):
        NO_RULES.key_of(key, "Rome", "fact", "Rome")


# -- cardinality -----------------------------------------------------------------------------------


def test_a_key_holds_one_value_unless_the_first_pattern_that_matches_says_many() -> None:
    keys = Keys(cardinality={"user:*/hobby": "many", "user:ann/*": "single", "tag?": "many", "*/pet": "many"})
    many = ["user:ann/hobby", "user:/hobby", "tag1", "x/pet"]
    single = ["user:ann/pet", "user:ann/city", "tag", "tag12", "USER:ann/hobby", "hobby", "elsewhere"]
    assert [key for key in many + single if keys.is_many(key)] == many
    assert not any(map(NO_RULES.is_many, many))


@pytest.mark.parametrize("cardinality", ["two", "", None, 2, "MANY"])
async def test_another_cardinality_is_refused_when_the_store_is_opened(
    open_store: OpenStore, cardinality: Any
) -> None:
    with pytest.raises(ArgumentError, match="'single' or 'many'"):
        await open_store(cardinality={"k": cardinality})


# -- through the store -----------------------------------------------------------------------------


def spo(subject: str, predicate: str, thing: str) -> dict[str, str]:
    return {"subject": subject, "predicate": predicate, "object": thing}


async def values_now(store: MemoryStore) -> list[Any]:
    found = await store.as_of().list(order_by="created_at")
    return [m.content if isinstance(m.content, str) else m.content["object"] for m in found]


async def test_a_fact_of_a_derived_key_supersedes_the_one_before(
    open_store: OpenStore, clock: ManualClock
) -> None:
    store = await open_store(keyed_by=RULE)
    first = await store.propose(spo("Ann", "lives_in", "Rome"), "s", 0.9)
    await store.propose(spo("Bob", "lives_in", "Rome"), "s", 0.9)
    await store.propose("Ann lives in Rome", "s", 0.9)
    await store.propose(spo("ANN", "lives_in", "Oslo"), "t", 0.9)
    assert await values_now(store) == ["Rome", "Ann lives in Rome", "Oslo"]
    memory = await store.get(first.memory_id)
    assert memory is not None
    assert (memory.key, memory.status) == ("ann/lives_in", MemoryStatus.SUPERSEDED)


async def test_several_rules_are_tried_in_order(open_store: OpenStore) -> None:
    store = await open_store(keyed_by=[RULE, KeyedBy("topic", kind="note"), KeyedBy("object")])
    kinds_and_contents: list[tuple[str, Any]] = [
        ("fact", spo("a", "b", "c")),
        ("fact", {"object": "c"}),
        ("note", {"topic": "t", "object": "c"}),
        ("note", {"object": "c"}),
    ]
    results = [await store.propose(content, "s", 0.9, kind=kind) for kind, content in kinds_and_contents]
    assert [result.memory.key for result in results] == ["a/b", "c", "t", None]


async def test_a_revision_moves_a_fact_whose_key_was_derived_and_leaves_a_given_one(
    open_store: OpenStore,
) -> None:
    store = await open_store(keyed_by=RULE)
    derived = await store.propose(spo("Ann", "lives_in", "Rome"), "s", 0.9)
    given = await store.propose(spo("Ann", "lives_in", "Oslo"), "s", 0.9, key="mine")
    moved = await store.revise(derived.memory_id, spo("Bob", "lives_in", "Rome"))
    kept = await store.revise(given.memory_id, spo("Cat", "lives_in", "Oslo"))
    assert (moved.key, kept.key) == ("bob/lives_in", "mine")
    assert await store.timeline("ann/lives_in") == []
    assert [span.memory.id for span in await store.timeline("bob/lives_in")] == [derived.memory_id]
    modelled = await store.revise(derived.memory_id, Triple("Dan", "lives_in", "Rome"))
    assert modelled.key == "dan/lives_in"
    unkeyed = await store.revise(derived.memory_id, "Bob lives in Rome")
    assert unkeyed.key is None
    assert await store.timeline("bob/lives_in") == []
    assert (await store.replay()).identical


async def test_a_revision_onto_a_key_that_says_so_already_is_refused(open_store: OpenStore) -> None:
    store = await open_store(keyed_by=RULE)
    there = await store.propose(spo("Bob", "lives_in", "Rome"), "s", 0.9)
    other = await store.propose(spo("Ann", "lives_in", "Rome"), "s", 0.9)
    with pytest.raises(DuplicateError) as caught:
        await store.revise(other.memory_id, spo("Bob", "lives_in", "Rome"))
    assert caught.value.other_id == there.memory_id
    assert [span.memory.id for span in await store.timeline("ann/lives_in")] == [other.memory_id]


async def test_values_of_a_many_valued_key_stand_side_by_side(
    open_store: OpenStore, clock: ManualClock
) -> None:
    store = await open_store(keyed_by=RULE, cardinality={"*/likes": "many"})
    for thing in ("tea", "chess", "golf"):
        await store.propose(spo("Ann", "likes", thing), "s", 0.9)
    for city in ("Rome", "Oslo"):
        await store.propose(spo("Ann", "lives_in", city), "s", 0.9)
    assert await values_now(store) == ["tea", "chess", "golf", "Oslo"]
    again = await store.propose(spo("Ann", "likes", "tea"), "t", 0.9)
    assert isinstance(again, Rejected)
    assert again.code == "duplicate"
    await store.retract(again.memory_id)
    assert isinstance(await store.propose(spo("Ann", "likes", "tea"), "t", 0.9), Accepted)
    assert await values_now(store) == ["chess", "golf", "Oslo", "tea"]


async def test_a_revision_between_a_single_and_a_many_valued_key_settles_both(
    open_store: OpenStore, clock: ManualClock
) -> None:
    store = await open_store(cardinality={"many*": "many"})
    first = await store.propose("Rome", "s", 0.9, key="one")
    second = await store.propose("Oslo", "s", 0.9, key="one")
    other = await store.propose("Bern", "s", 0.9, key="many")
    assert (await store.revise(second.memory_id, "Oslo", key="many")).many
    assert [span.memory.id for span in await store.timeline("one")] == [first.memory_id]
    assert {span.memory.id for span in await store.timeline("many")} == {second.memory_id, other.memory_id}
    # It was asserted after Rome, and begins later.
    assert not (await store.revise(second.memory_id, "Oslo", key="one")).many
    assert [s.memory.id for s in await store.timeline("one")] == [first.memory_id, second.memory_id]
    assert (await store.replay()).identical


async def test_the_same_key_in_another_case_is_another_key(open_store: OpenStore) -> None:
    store = await open_store()
    for key in ("k", "K", "k ", "\u212a"):
        await store.propose("Rome", "s", 0.9, key=key)
    assert len(await store.as_of().list()) == 4
