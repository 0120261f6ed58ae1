"""A setting of no sense is refused when the store is made, by its name, and leaves nothing open."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from memsmith import MemoryStore, Reinforcement
from memsmith.errors import ArgumentError, InvalidConfidenceError


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


@pytest.mark.parametrize(
    "setting", [{"step": 5}, {"step": float("nan")}, {"ceiling": 1.5}, {"ceiling": None}], ids=ascii
)
def test_reinforcement_stays_in_the_range_of_confidence(setting: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfidenceError):
        Reinforcement(**setting)
