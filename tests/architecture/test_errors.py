"""The error tree: drawn where it is defined, and known to whoever turns errors into answers."""

from __future__ import annotations

import re
from typing import Final

from memsmith import errors
from memsmith.errors import MemsmithError
from memsmith.surfaces._errors import EXIT_CODES, MEANINGS, Exit

CLASSES: Final = [
    value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, MemsmithError)
]


def drawn() -> dict[str, str | None]:
    """Return each error of the drawing with its parent."""
    assert errors.__doc__ is not None
    parents: dict[str, str | None] = {}
    above: list[str] = []
    for line in errors.__doc__.splitlines():
        match = re.match(r"    ([│ ├└─]*)(\w+Error)\b", line)
        if match:
            depth = len(match[1]) // 4
            parents[match[2]] = above[depth - 1] if depth else None
            above[depth:] = [match[2]]
    return parents


def test_the_drawing_is_the_tree() -> None:
    real = {cls.__name__: None if cls is MemsmithError else cls.__bases__[0].__name__ for cls in CLASSES}
    assert drawn() == real


def test_a_second_base_is_named_in_the_drawing() -> None:
    for cls in CLASSES:
        for base in cls.__bases__[1:]:
            assert re.search(rf"{cls.__name__} \(also {base.__name__}\)", errors.__doc__ or "")


def test_every_name_ends_in_error_and_says_what_it_is() -> None:
    for cls in CLASSES:
        assert cls.__name__.endswith("Error")
        assert cls.__doc__, cls


def test_every_error_has_an_exit_code_of_its_own_or_of_a_base_below_the_root() -> None:
    for cls in CLASSES:
        nearest = next(EXIT_CODES[base] for base in cls.__mro__ if base in EXIT_CODES)
        assert (nearest is Exit.OTHER) is (cls is MemsmithError), cls


def test_every_exit_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(Exit)
