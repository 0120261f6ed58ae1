"""Which slot a fact fills, and how many values the slot holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, cast

from memsmith._canonical import normalise, require_text
from memsmith.errors import ArgumentError
from memsmith.types import FACT

SINGLE: Final = "single"
MANY: Final = "many"


@dataclass(frozen=True, init=False)
class KeyedBy:
    """Derives the key of a memory from fields of its content: ``KeyedBy("subject", "predicate")``.

    The values, folded as tombstones fold them and joined by ``/``, are the key. Content that lacks
    one of the fields, or has something other than a text or a whole number there, gets none.
    """

    fields: tuple[str, ...]
    kind: str

    def __init__(self, *fields: str, kind: str = FACT) -> None:
        if not fields:
            raise ArgumentError("fields", "names of content fields", fields)
        object.__setattr__(self, "fields", tuple(require_text("fields", name) for name in fields))
        object.__setattr__(self, "kind", require_text("kind", kind))

    def key_of(self, kind: str, content: Any) -> str | None:
        """Return the key that content names, if it does."""
        if kind != self.kind or not isinstance(content, dict):
            return None
        parts: list[str] = []
        for name in self.fields:
            value = cast(dict[str, Any], content).get(name)
            folded = str(normalise(value))
            if isinstance(value, bool) or not isinstance(value, str | int) or not folded:
                return None
            # A slash inside a value must not make two subjects one.
            parts.append(folded.replace("%", "%25").replace("/", "%2F"))
        return "/".join(parts)


@dataclass(frozen=True)
class Keys:
    """A store's rules about keys: where one comes from, and its cardinality by pattern.

    `cardinality` maps patterns (``*`` and ``?`` as in file names) to ``"single"`` or ``"many"``; the
    first that matches counts, and without a match a key holds one value.
    """

    derived: Sequence[KeyedBy] = ()
    cardinality: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        for rule in self.derived:
            if not isinstance(rule, KeyedBy):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are untyped
                raise ArgumentError("keyed_by", "a KeyedBy, or a list of them", rule)
        if self.cardinality is not None and not isinstance(self.cardinality, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are untyped
            raise ArgumentError("cardinality", "a mapping of patterns", self.cardinality)
        for pattern, cardinality in (self.cardinality or {}).items():
            require_text("cardinality", pattern)
            if cardinality not in {SINGLE, MANY}:
                raise ArgumentError(f"cardinality of {pattern!r}", "'single' or 'many'", cardinality)

    def key_of(self, given: str | None, source: object, kind: str, content: Any) -> str | None:
        """Return the key given, or what the content's model or a policy derives.

        `source` is the content as the caller passed it: a model may have a ``memory_key()``.
        """
        if given is not None:
            return require_text("key", given)
        if type(source) is not dict:
            hook = getattr(source, "memory_key", None)
            if callable(hook):
                key = hook()
                return None if key is None else require_text("memory_key()", key)
        for rule in self.derived:
            key = rule.key_of(kind, content)
            if key is not None:
                return require_text("key", key)
        return None

    def is_many(self, key: str) -> bool:
        """Tell whether a key holds many values."""
        for pattern, cardinality in (self.cardinality or {}).items():
            # A bracket is one: what file names make of it was not promised.
            if fnmatchcase(key, pattern.replace("[", "[[]")):
                return cardinality == MANY
        return False


NO_RULES: Final = Keys()
"""Only the keys that callers give, each holding one value."""
