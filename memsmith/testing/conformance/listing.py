# ruff: noqa: D102 - a test's name says what it tests
"""Lists: filters compare exactly, orders are total, pages neither skip nor repeat."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from memsmith.ledger.record import memory_record
from memsmith.protocols import ORDERS, MemoryQuery, StorageBackend
from memsmith.testing.clock import START, ManualClock
from memsmith.testing.conformance.base import TENANT, Suite, a_memory, adding, committed, stored
from memsmith.types import Memory, MemoryStatus, Origin

S = MemoryStatus

PATH_VALUES: list[Any] = [
    True,
    False,
    1,
    1.0,
    0,
    "1",
    "true",
    "",
    None,
    1.5,
    -(2**63),
    "é",
    "e\u0301",
    "%",
    "A",
    "a",
]


async def _listed(backend: StorageBackend, **query: Any) -> list[Memory]:
    return await backend.list(TENANT, MemoryQuery(**query))


def _same(found: Any, wanted: Any) -> bool:
    """Tell whether two JSON scalars are one: 1 is 1.0, but neither is True, and "1" is text."""
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    return bool(found == wanted)


async def _varied(backend: StorageBackend) -> list[Memory]:
    """Store memories with many equal sort values, among them equal times."""
    clock = ManualClock()
    for part in range(5):
        memories = [
            a_memory(
                {"n": n}, session_id=f"s{n % 2}", confidence=[0.0, 0.1 + 0.2, 0.3, 1.0][n % 4],
                thread_id=[None, "t"][n % 2], source=[None, "", "web"][n % 3],
            )
            for n in range(part * 5, part * 5 + 5)
        ]  # fmt: skip
        status = S.PENDING_CONFIRMATION if part % 2 else S.ACTIVE
        await committed(backend, adding(*memories, status=status), clock=clock)
        clock.advance(timedelta(seconds=part % 2))
    return await _listed(backend, limit=100)


class Listing(Suite):
    """What `list` returns."""

    async def test_facts_are_listed_unless_another_kind_or_all_are_asked_for(
        self, backend: StorageBackend
    ) -> None:
        fact, note = a_memory("fact"), a_memory("note", kind="note")
        await stored(backend, fact, note)
        assert [m.id for m in await _listed(backend)] == [fact.id]
        assert [m.id for m in await _listed(backend, kind="note")] == [note.id]
        assert {m.id for m in await _listed(backend, kind=None)} == {fact.id, note.id}

    @pytest.mark.parametrize(
        ("column", "value", "other"),
        [
            ("thread_id", "t", "T"),
            ("source", "a%", "a_"),
            ("key", "user:ann/city", "user:bob/city"),
            ("retraction_reason", "moved", ""),
            ("code", "policy", "validation"),
            ("scope", "acme", "acme-corp"),
            ("session_id", "5", "5.0"),
            ("confidence", 0.5, 0.25),
            ("origin", "tool", "agent"),
            ("sensitivity", "public", "restricted"),
            ("actor", "ann", "Ann"),
            ("content_hash", "aa", "AA"),
        ],
    )
    async def test_a_column_filter_finds_exactly_its_value(
        self, backend: StorageBackend, column: str, value: Any, other: Any
    ) -> None:
        def of(given: Any) -> Memory:
            return a_memory(repr(given), **{column: Origin(given) if column == "origin" else given})

        ours, theirs = of(value), of(other)
        await stored(backend, ours, theirs)
        assert [m.id for m in await _listed(backend, columns={column: value})] == [ours.id]

    @pytest.mark.parametrize(
        "column",
        ["thread_id", "source", "key", "expires_at", "retracted_at", "retraction_reason", "code", "valid_to"],
    )
    async def test_a_filter_for_nothing_finds_what_has_nothing(
        self, backend: StorageBackend, column: str
    ) -> None:
        value: Any = START + timedelta(1) if column.endswith(("_at", "_to")) else "x"
        without, having = a_memory("without"), a_memory("having", **{column: value})
        await stored(backend, without, having)
        assert [m.id for m in await _listed(backend, columns={column: None})] == [without.id]
        text = memory_record(having)[column]
        assert [m.id for m in await _listed(backend, columns={column: text})] == [having.id]

    async def test_filters_narrow_each_other(self, backend: StorageBackend) -> None:
        every = await _varied(backend)
        found = await _listed(
            backend, status=S.ACTIVE, session_id="s1", columns={"thread_id": "t"}, paths={("n",): 3}
        )
        assert [m.content for m in found] == [{"n": 3}]
        assert await _listed(backend, status=S.RETRACTED) == []
        assert len(await _listed(backend, session_id="s0", limit=100)) == sum(
            m.session_id == "s0" for m in every
        )

    @pytest.mark.parametrize("wanted", PATH_VALUES, ids=repr)
    async def test_a_content_filter_compares_json_types_too(
        self, backend: StorageBackend, wanted: Any
    ) -> None:
        await committed(backend, adding(*(a_memory({"a": {"b": value}}) for value in PATH_VALUES)))
        shapes: list[Any] = [
            {"a": {}},
            {"a": None},
            {"a": [wanted]},
            {"b": wanted},
            {"a": {"b": [wanted]}},
            [wanted],
            "text",
        ]
        await committed(backend, adding(*(a_memory(shape) for shape in shapes)))
        found = await _listed(backend, paths={("a", "b"): wanted}, limit=100)
        expected = [value for value in PATH_VALUES if _same(value, wanted)]
        assert sorted(repr(m.content["a"]["b"]) for m in found) == sorted(map(repr, expected))

    async def test_the_segments_of_a_path_are_literal(self, backend: StorageBackend) -> None:
        awkward = ["$", "a b", "[0]", "%", "*", "'", "ключ", "#", "@", "a-b", "-1", "?"]
        await committed(backend, adding(*(a_memory({name: n, "z": n}) for n, name in enumerate(awkward))))
        for n, name in enumerate(awkward):
            assert [m.content["z"] for m in await _listed(backend, paths={(name,): n})] == [n]

    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("descending", [False, True])
    async def test_an_order_is_total_because_ids_break_ties(
        self, backend: StorageBackend, order: str, descending: bool
    ) -> None:
        every = await _varied(backend)
        found = await _listed(backend, order_by=order, descending=descending, limit=100)
        expected = sorted(every, key=lambda m: (memory_record(m)[order], m.id), reverse=descending)
        assert [m.id for m in found] == [m.id for m in expected]

    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("descending", [False, True])
    async def test_pages_show_every_row_once(
        self, backend: StorageBackend, order: str, descending: bool
    ) -> None:
        every = await _varied(backend)
        seen: list[str] = []
        after: tuple[Any, str] | None = None
        while page := await _listed(backend, order_by=order, descending=descending, limit=4, after=after):
            seen += [m.id for m in page]
            after = (memory_record(page[-1])[order], page[-1].id)
        assert sorted(seen) == sorted(m.id for m in every)
        assert len(seen) == len(every)

    async def test_limit_and_offset_cut_the_same_order(self, backend: StorageBackend) -> None:
        every = [m.id for m in await _varied(backend)]
        assert [m.id for m in await _listed(backend, limit=7, offset=5)] == every[5:12]
        assert await _listed(backend, limit=0) == []
        assert await _listed(backend, offset=1000) == []
