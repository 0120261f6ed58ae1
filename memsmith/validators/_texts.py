"""Every text of a memory, with the place it lies at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from memsmith.types import Memory

Path = tuple[str | int, ...]

MOST_FINDINGS = 20
"""Longer lists of errors help nobody, and they are stored."""


@dataclass(frozen=True, slots=True)
class Text:
    """One text; `is_key` when it is not the value at `path` but the last key of it."""

    path: Path
    text: str
    is_key: bool = False

    @property
    def place(self) -> str:
        """Where it lies, fit to be shown."""
        return f"the key {show(self.path)}" if self.is_key else show(self.path)


def texts_of(memory: Memory) -> Iterator[Text]:
    """Yield the texts a proposer chose freely: content, metadata, key, source and thread."""
    for name, value in labels_of(memory).items():
        yield from texts_in(value, (name,))


def labels_of(memory: Memory) -> Mapping[str, Any]:
    """Return the fields that hold free text, content first, by the names of `propose`."""
    return {
        "content": memory.content,
        "metadata": memory.metadata,
        "key": memory.key,
        "source": memory.source,
        "thread_id": memory.thread_id,
    }


def texts_in(value: Any, path: Path) -> Iterator[Text]:
    """Yield the texts of JSON data, keys included."""
    if isinstance(value, str):
        yield Text(path, value)
    elif isinstance(value, dict):
        for key, item in cast(dict[str, Any], value).items():
            yield Text((*path, key), key, is_key=True)
            yield from texts_in(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(cast(Sequence[Any], value)):
            yield from texts_in(item, (*path, index))


def show(path: Path) -> str:
    """Return `content.people[0]["full name"]`; what can't be seen or is not plain is escaped."""
    return "".join(_step(step, first=position == 0) for position, step in enumerate(path))


def _step(step: str | int, *, first: bool) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if step.isascii() and step.isidentifier() and len(step) <= 40:
        return step if first else f".{step}"
    shown = step if len(step) <= 40 else step[:39] + "…"
    return '["' + "".join(map(_visible, shown)) + '"]'


def _visible(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character == "…" or character.isalnum() or (character.isascii() and character.isprintable()):
        return character
    return f"\\u{{{ord(character):x}}}"


def most(errors: list[str]) -> list[str]:
    """Return the first errors, and how many there are beside."""
    if len(errors) <= MOST_FINDINGS:
        return errors
    return [*errors[:MOST_FINDINGS], f"and {len(errors) - MOST_FINDINGS} more"]
