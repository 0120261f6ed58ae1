"""A setting of no sense is refused when the store is made, by its name, and leaves nothing open."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import timedelta, timezone
from typing import Any

import pytest

from memsmith import ConfidenceThreshold, MemoryStore, Reinforcement
from memsmith.errors import ArgumentError, InvalidConfidenceError, NaiveDatetimeError
from memsmith.testing.clock import START


@pytest.mark.parametrize(
    "setting",
    [
        {"dedup": ["session"]}, {"clock": None}, {"hooks": [5]}, {"hooks": "hook"}, {"validators": [5]},
        {"reinforcement": 0.5}, {"protect_origin": "yes"}, {"patience": 0}, {"patience": "5"},
        {"patience": float("nan")}, {"sweep_every": 5}, {"sweep_every": timedelta(0)},
        {"sweep_every": timedelta(-1)}, {"max_content_bytes": 0}, {"max_content_bytes": "5"},
        {"max_content_bytes": True}, {"secret": 5}, {"secret": bytearray(16)}, {"secret": "\ud800" * 16},
        {"cardinality": 5}, {"keyed_by": "subject"}, {"storage": "store.db"},
    ],
    ids=ascii,
)  # fmt: skip
async def test_a_setting_of_no_sense_is_refused_by_its_name(backend: Any, setting: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError) as caught:
        await MemoryStore.init(**({"storage": backend.connect()} | setting))
    assert caught.value.argument == next(iter(setting))
    # A database's thread that was left behind would keep the program from ending.
    for thread in threading.enumerate():
        if "connection_worker" in thread.name:
            await asyncio.to_thread(thread.join, 5)
            assert not thread.is_alive()


async def test_a_clock_of_any_zone_is_read_in_utc_and_a_naive_one_refused(backend: Any) -> None:
    east = START.astimezone(timezone(timedelta(hours=5)))
    async with await MemoryStore.init(backend.connect(), clock=lambda: east) as store:
        memory = (await store.propose("Rome", "s", 0.9)).memory
        assert await store.get(memory.id) == memory
        assert (await store.audit())[0].timestamp == memory.created_at == START
        assert str(memory.created_at.tzinfo) == "UTC"
    async with await MemoryStore.init(backend.connect(), clock=lambda: START.replace(tzinfo=None)) as store:
        with pytest.raises(NaiveDatetimeError, match="clock"):
            await store.propose("Oslo", "s", 0.9)


async def test_a_metrics_sink_that_raises_is_logged_and_changes_nothing(
    backend: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def count(self, name: str, value: float = 1, /, **labels: str) -> None:
            raise OSError("the counters are gone")

        def observe(self, name: str, value: float, /, **labels: str) -> None:
            raise OSError("the histograms are gone")

    options: dict[str, Any] = {"metrics": Broken(), "validators": [ConfidenceThreshold(0.5)]}
    with caplog.at_level(logging.ERROR, logger="memsmith"):
        async with await MemoryStore.init(backend.connect(), **options) as store:
            ident = (await store.propose("Rome", "s", 0.9)).memory_id
            async with store.transaction():
                await store.retract(ident)
            assert (await store.get(ident)) is not None
    assert "the counters are gone" in caplog.text
    assert "the histograms are gone" in caplog.text


@pytest.mark.parametrize(
    "setting", [{"step": 5}, {"step": float("nan")}, {"ceiling": 1.5}, {"ceiling": None}], ids=ascii
)
def test_reinforcement_stays_in_the_range_of_confidence(setting: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfidenceError):
        Reinforcement(**setting)
