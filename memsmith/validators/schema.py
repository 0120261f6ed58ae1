"""Refuse content that is not of the shape it should have."""

from __future__ import annotations

import re
from typing import Any, Final, get_args

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails
from pydantic_core.core_schema import ErrorType

from memsmith._canonical import canonical
from memsmith.errors import ArgumentError
from memsmith.types import Memory, ValidationResult
from memsmith.validators._base import SyncValidator
from memsmith.validators._texts import most, show


class SchemaCheck(SyncValidator):
    """Refuses content that `model` does not accept: a pydantic model, a dataclass, any annotation.

    `strict` forbids conversions, `"1"` for an integer among them. Content is JSON, so what JSON
    has no type for (dates, tuples, enums) is read from text and lists even then.

    Errors name the field, what was expected and what type was found. They quote neither the value
    nor what a model's own validators say, which mostly quotes it.
    """

    critical = True

    def __init__(self, model: Any, strict: bool = False) -> None:
        try:
            if isinstance(model, str):  # pydantic would take it for a name to look up later
                raise TypeError("a forward reference")
            self._adapter: TypeAdapter[Any] = TypeAdapter(model)
        except (PydanticUserError, TypeError) as error:
            raise ArgumentError("model", "a pydantic model, a dataclass or another type", model) from error
        self._strict = strict

    def check(self, memory: Memory) -> ValidationResult:
        """Validate the content; what the model would convert is kept as it came."""
        try:
            if self._strict:
                self._adapter.validate_json(canonical(memory.content), strict=True)
            else:
                self._adapter.validate_python(memory.content)
        except ValidationError as failure:
            return ValidationResult(
                passed=False, errors=most([_sentence(error) for error in failure.errors(include_url=False)])
            )
        return ValidationResult(passed=True)


_FOUND: Final[dict[type, str]] = {
    type(None): "null",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}

_EXPECTED: Final = {
    "missing": "a value",
    "extra_forbidden": "no such field",
    "union_tag_invalid": "one of {expected_tags} in {discriminator}",
    "value_error": "what the model's own validator accepts",
    "assertion_error": "what the model's own validator accepts",
}

_BUILT_IN: Final = frozenset(get_args(ErrorType))


def _sentence(error: ErrorDetails) -> str:
    kind = error["type"]
    found = "nothing" if kind == "missing" else _type_name(error["input"])
    length = error.get("ctx", {}).get("actual_length")
    if length is not None:
        found = f"{found} of length {length}"
    return f"{show(('content', *error['loc']))}: expected {_expected(error)}, found {found}"


def _type_name(value: object) -> str:
    return _FOUND.get(type(value), type(value).__name__)


def _expected(error: ErrorDetails) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in _EXPECTED:
        return _EXPECTED[kind].format_map(context)
    if kind not in _BUILT_IN:
        return f"what the model's own validator accepts ({kind})"
    message = error["msg"]
    if "error" in context:
        # The parser's detail may hold a piece of the value ("found `x` at 3").
        message = message.replace(str(context["error"]), "").rstrip(" ,:;")
    message = message.removeprefix("Input should be ")
    message = re.sub(r"^(\w+) should (?:have|match) ", lambda match: f"{match[1].lower()} with ", message)
    return re.sub(r" after validation, not \d+$", "", message)
