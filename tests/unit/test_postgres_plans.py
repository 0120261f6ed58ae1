"""How PostgreSQL answers: each hot query by its index, whatever is stored."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from backends import Place

from memsmith import MemoryStore, ProposalInput
from memsmith.backends.postgres.listing import compose
from memsmith.backends.postgres.statements import SQL, joined
from memsmith.protocols import MemoryQuery
from memsmith.types import Point

NOW = "2030-03-01T09:30:00.000000Z"
CHAIN = '[["fact", "", "key 7", "", "2030-03-01T09:30:00.000000Z", "2030-03-01T09:30:00.000000Z", ""]]'
BENEATH = '[["fact", "", "key 7", "2030-03-01T09:30:00.000000Z", null, true, ""]]'
COVERING = '[[1, "2001-03-01T09:30:00.000000Z", "", "fact"]]'

MORE = """
INSERT INTO memsmith.tombstones
SELECT 'default', n::text, 'm', 'fact', '', NULL, 'digest ' || n, 's', NULL, 'a', now(), 0, NULL, NULL
FROM generate_series(1, 2000) AS n;
INSERT INTO memsmith.outcomes
SELECT 'default', 'actor ' || n % 10, 'propose', n::text, '[]', '[]', '', now()
FROM generate_series(1, 2000) AS n;
INSERT INTO memsmith.dependencies SELECT 'default', n::text, 'child' FROM generate_series(1, 2000) AS n;
ANALYZE"""

HOT: dict[str, tuple[list[Any], str]] = {
    "head": (["default"], "heads_pkey"),
    "memory": (["default", "m"], "memories_pkey"),
    "memories_by_id": (['["m"]', "default"], "memories_pkey"),
    "memories_by_value": (['["v"]', "default"], "memories_value"),
    "chain_segments": ([CHAIN, "default", "default"], "segments_current"),
    "chain_segments_joined": ([CHAIN, "default", "default", "default"], "memories_lasting"),
    "memories_by_slot": ([CHAIN, "default"], "memories_slot"),
    "memories_beneath": ([BENEATH, "default", "default"], "memories_slot"),
    "memories_due": (["default", NOW, 10], "memories_due"),
    "dependants": (['["m"]', "default"], "dependencies_parent"),
    "outcomes": ([CHAIN, "default"], "outcomes_call"),
    "tombstones_by_digest": (['["d"]', "default"], "tombstones_digest"),
    "ledger": (["default", 5, 10], "audit_log_pkey"),
    "audit": (["default", 5, 10], "audit_log_pkey"),
    "audit_of_memory": (["default", "m", 5, 10], "audit_memory"),
    "members": (["default", "key 7", "", "fact"] * 2, "memories_slot"),
    "segments": (['["m"]', "default"], "memory_segments_pkey"),
    "few_valid_on_key": ([COVERING, "default", "key 7", NOW, NOW, NOW], "segments_"),
    "few_valid": ([COVERING, "default", NOW, NOW, NOW], "segments_valid"),
    "slots_on_key": (["default", "key 7"] * 2 + [9], "segments_"),
}


@pytest.fixture
async def connection(tmp_path: Path) -> Any:
    place = Place("postgres", tmp_path)
    async with await MemoryStore.init(place.connect()) as store:
        for part in range(2):
            await store.propose_many(
                [ProposalInput({"n": n, "part": part}, 0.9, key=f"key {n}") for n in range(1000)], f"s{part}"
            )
    connection = await asyncpg.connect(place.url)
    await connection.set_type_codec(
        "timestamptz", schema="pg_catalog", encoder=str, decoder=str, format="text"
    )
    changes = connection.transaction()
    await changes.start()
    await connection.execute(MORE)
    yield connection
    await changes.rollback()
    await connection.close()


async def plan(connection: asyncpg.Connection[Any], sql: str, values: list[Any]) -> str:
    return "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN (COSTS OFF) {sql}", *values))


async def test_each_hot_query_can_go_by_its_index(connection: asyncpg.Connection[Any]) -> None:
    # To read a small table whole takes no longer, so it is made to look dear: what matters is that no
    # size of the table leaves anything else to do.
    for way in ("seqscan", "hashjoin", "mergejoin"):
        await connection.execute(f"SET enable_{way} = off")
    # Few wait for a person, so that those of all keys are as good a start.
    await connection.execute("DROP INDEX memsmith.memories_pending")
    for name, (values, index) in HOT.items():
        found = await plan(connection, SQL[name], values)
        assert index in found, f"{name}: {found}"
        assert "Seq Scan on" not in found, f"{name}: {found}"


@pytest.mark.parametrize("descending", [False, True])
async def test_a_page_is_read_in_the_order_of_an_index(
    connection: asyncpg.Connection[Any], descending: bool
) -> None:
    moment = datetime(2030, 3, 1, 9, 30, tzinfo=UTC)
    for query, index in (
        (MemoryQuery(descending=descending, after=(NOW, "m")), "memories_"),
        (MemoryQuery(descending=descending, at=Point(moment, present=True)), "memories_active"),
        (MemoryQuery(descending=descending, session_id="s1"), "memories_session"),
        (MemoryQuery(columns={"key": "key 7"}, descending=descending), "memories_slot"),
    ):
        for question in compose("default", query):
            values = [value for _, part in question for value in part]
            found = await plan(connection, joined(question), values)
            assert index in found, found
            assert "Seq Scan" not in found, found
