from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from memsmith.errors import ArgumentError
from memsmith.types import Memory, MemoryStatus
from memsmith.validators.schema import SchemaCheck

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def proposed(content: Any, **fields: Any) -> Memory:
    fixed: Any = {"id": "m", "session_id": "s", "content_hash": "", "created_at": NOW, "updated_at": NOW}
    return Memory(content=content, status=MemoryStatus.PROPOSED, **fixed | {"confidence": 0.9} | fields)


class Person(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = Field(min_length=2, max_length=10)
    age: int


@dataclass
class Point:
    x: int
    y: int


class Colour(Enum):
    RED = "red"


class Dated(BaseModel):
    day: date
    colour: Colour
    pair: tuple[int, int]


def errors(model: Any, content: Any, strict: bool = False) -> list[str]:
    verdict = SchemaCheck(model, strict=strict).check(proposed(content))
    assert verdict.passed is (not verdict.errors)
    return verdict.errors


async def test_content_the_model_accepts_passes_unchanged() -> None:
    verdict = await SchemaCheck(Person, strict=False)(proposed({"name": "Alice", "age": "42"}))
    assert verdict.passed
    assert verdict == type(verdict)(passed=True)


def test_a_failure_refuses_by_itself_and_blocks_nothing_for_good() -> None:
    assert SchemaCheck.critical
    verdict = SchemaCheck(Person).check(proposed({}))
    assert (verdict.critical, verdict.tombstone, verdict.withhold) == (None, False, False)


def test_strict_refuses_what_would_need_a_conversion() -> None:
    assert errors(Person, {"name": "Alice", "age": "42"}, strict=True) == [
        "content.age: expected a valid integer, found text"
    ]


def test_strict_reads_dates_enums_and_tuples_from_the_json_they_are_written_as() -> None:
    assert errors(Dated, {"day": "2026-03-01", "colour": "red", "pair": [1, 2]}, strict=True) == []
    assert errors(Point, {"x": 1, "y": 2}, strict=True) == []


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ({"name": "Alice"}, "content.age: expected a value, found nothing"),
        ({"name": "Alice", "age": "old"}, "content.age: expected a valid integer, "
            "unable to parse string as an integer, found text"),
        ({"name": "A", "age": 1}, "content.name: expected string with at least 2 characters, found text"),
        ({"name": "Alice", "age": 1, "x": 2}, "content.x: expected no such field, found an integer"),
        ({"name": None, "age": 1}, "content.name: expected a valid string, found null"),
        ("Alice", "content: expected a valid dictionary or instance of Person, found text"),
    ],
)  # fmt: skip
def test_errors_say_field_expected_and_found(content: Any, error: str) -> None:
    assert errors(Person, content) == [error]


@pytest.mark.parametrize(
    ("model", "content", "error"),
    [
        (Point, {"x": 1}, "content.y: expected a value, found nothing"),
        (list[int], [1, "b"], "content[1]: expected a valid integer, "
            "unable to parse string as an integer, found text"),
        (dict[str, int], {"a b": True, "c": []}, "content.c: expected a valid integer, found a list"),
        (Literal["a", "b"], "c", "content: expected 'a' or 'b', found text"),
        (Annotated[list[int], Field(max_length=2)], [1, 2, 3], "content: expected list with at most 2 items, "
            "found a list of length 3"),
        (Annotated[int, Field(gt=3)], 2, "content: expected greater than 3, found an integer"),
    ],
)  # fmt: skip
def test_dataclasses_and_annotations_are_schemas_too(model: Any, content: Any, error: str) -> None:
    assert errors(model, content) == [error]


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Owner(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


class Talkative(BaseModel):
    a: str = ""
    b: str = ""
    c: str = ""
    d: UUID | None = None

    @field_validator("a")
    @classmethod
    def quote(cls, value: str) -> str:
        raise ValueError(f"{value} is wrong")

    @field_validator("b")
    @classmethod
    def assert_(cls, value: str) -> str:
        raise AssertionError(value)

    @field_validator("c")
    @classmethod
    def custom(cls, value: str) -> str:
        raise PydanticCustomError("too_odd", "{value} is odd", {"value": value})


def test_errors_of_the_models_own_validators_do_not_quote_the_value() -> None:
    found = errors(Talkative, {"a": "hunter2", "b": "hunter2", "c": "hunter2", "d": "hunter2"})
    assert len(found) == 4
    assert "hunter2" not in " ".join(found)
    assert "`" not in found[3]
    assert found[2] == "content.c: expected what the model's own validator accepts (too_odd), found text"


def test_an_unknown_tag_is_answered_with_the_known_ones() -> None:
    assert errors(Owner, {"pet": {"kind": "hunter2"}}) == [
        "content.pet: expected one of 'cat', 'dog' in 'kind', found an object"
    ]


@settings(deadline=None)
@given(st.text(min_size=3).filter(lambda text: not text.isdigit()))
def test_no_error_holds_the_value_that_failed(value: str) -> None:
    for model in (int, float, date, datetime, UUID, Colour, Literal["no"], bool):
        marked = f"§{value}§"
        assert marked not in " ".join(errors(model, marked))


def test_a_flood_of_errors_is_cut_short() -> None:
    found = errors(list[int], ["x"] * 100)
    assert len(found) == 21
    assert found[-1] == "and 80 more"


@pytest.mark.parametrize("model", [42, "Nonsense[", object()])
def test_what_is_no_type_is_refused_at_construction(model: Any) -> None:
    with pytest.raises(ArgumentError, match="model: expected a pydantic model"):
        SchemaCheck(model)
