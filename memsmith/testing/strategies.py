"""Hypothesis strategies for what a store takes: JSON content, scopes, keys, whole proposals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from memsmith._canonical import encode_content
from memsmith.errors import InvalidContentError
from memsmith.types import SENSITIVITIES, Origin, ProposalInput

MAX_SAFE = 2**53 - 1


def texts(max_size: int = 20) -> SearchStrategy[str]:
    """Return text that every database can hold: no NUL, no lone surrogates."""
    return st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=max_size)


def words() -> SearchStrategy[str]:
    """Return text that is not blank."""
    return texts().filter(lambda text: bool(text.strip()))


def scalars() -> SearchStrategy[Any]:
    """Return JSON values without parts."""
    return st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        texts(),
    )


def json_values() -> SearchStrategy[Any]:
    """Return JSON data of a few levels."""
    return st.recursive(
        scalars(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts(8), inner, max_size=4),
        max_leaves=10,
    )


def hashed_values() -> SearchStrategy[Any]:
    """Return data of the subset that the ledger hashes, where RFC 8785 and `json.dumps` agree."""
    leaves = st.none() | st.booleans() | st.integers(-MAX_SAFE, MAX_SAFE) | texts()
    keys = st.text(st.characters(codec="ascii", exclude_characters="\x00"), max_size=8)
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=10,
    )


def contents() -> SearchStrategy[Any]:
    """Return content that a store accepts."""
    return json_values().filter(_acceptable)


def _acceptable(content: Any) -> bool:
    try:
        encode_content(content)
    except InvalidContentError:
        return False
    return True


def scopes() -> SearchStrategy[str]:
    """Return scopes, the tenant-wide one among them."""
    segment = st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1, max_size=6)
    good = segment.filter(lambda text: "/" not in text and text not in {".", ".."})
    return st.lists(good, max_size=3).map("/".join)


def moments() -> SearchStrategy[datetime]:
    """Return aware times of this and the neighbouring centuries, in UTC."""
    return st.datetimes(datetime(1900, 1, 1), datetime(2199, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis wants bounds without a zone


def proposals() -> SearchStrategy[ProposalInput]:
    """Return proposals whose every argument a store accepts."""
    return st.builds(
        ProposalInput,
        contents(),
        st.floats(0, 1),
        st.none() | texts(),
        st.booleans(),
        thread_id=st.none() | texts(),
        scope=scopes(),
        key=st.none() | words(),
        origin=st.none() | st.sampled_from(Origin),
        sensitivity=st.none() | st.sampled_from(SENSITIVITIES),
        valid_from=st.none() | moments(),
        ttl=st.none() | st.timedeltas(timedelta(seconds=1), timedelta(days=1000)),
        metadata=st.none() | st.dictionaries(texts(8), scalars(), max_size=3),
        actor=st.none() | words(),
    )
