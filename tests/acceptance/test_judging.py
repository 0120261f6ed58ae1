"""Validators that misbehave: the proposal is held for a person with the reason, and the store stays whole."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from memsmith import MemoryStore, PendingConfirmation, ValidationResult, ValidatorSpec
from memsmith.errors import ArgumentError
from memsmith.types import Memory

Opened = Callable[..., Awaitable[MemoryStore]]
OK = ValidationResult(passed=True)


async def verdict_of(open_store: Opened, fn: Any, **spec: Any) -> tuple[str, ...]:
    """Return why a proposal is held that a validator judges; the ledger must rebuild what is stored."""
    async with await open_store([ValidatorSpec(fn, **spec)]) as store:
        result = await store.propose({"city": "Rome"}, "s", 0.9, metadata={"a": [1]})
        assert (await store.replay()).identical
        found = await store.get(result.memory_id)
        assert found is not None
        assert (found.content, found.metadata) == ({"city": "Rome"}, {"a": [1]})
        return result.reasons if isinstance(result, PendingConfirmation) else ()


async def test_words_that_no_database_can_hold_are_escaped(open_store: Opened) -> None:
    async def raises(memory: Memory) -> ValidationResult:
        raise ValueError("bad \ud800")

    assert await verdict_of(open_store, raises) == ("raises raised ValueError: bad \\ud800",)


@pytest.mark.parametrize(
    ("errors", "told"),
    [("abc", ("abc",)), ([ValueError("no good")], ("no good",)), (["\ud800"], ("\\ud800",))],
)
async def test_errors_of_any_shape_are_told_in_words(
    open_store: Opened, errors: Any, told: tuple[str, ...]
) -> None:
    async def refuses(memory: Memory) -> ValidationResult:
        return ValidationResult(passed=False, errors=errors)

    assert await verdict_of(open_store, refuses) == told


async def test_a_validator_that_awaits_something_cancelled_has_failed(open_store: Opened) -> None:
    async def awaits(memory: Memory) -> ValidationResult:
        task = asyncio.create_task(asyncio.sleep(60))
        task.cancel()
        await task
        return OK

    (reason,) = await verdict_of(open_store, awaits)
    assert reason.startswith("awaits raised CancelledError")


async def test_a_cancelled_proposal_is_not_taken_for_a_validator_that_failed(open_store: Opened) -> None:
    asked = asyncio.Event()

    async def waits(memory: Memory) -> ValidationResult:
        asked.set()
        await asyncio.sleep(60)
        return OK

    async with await open_store([waits]) as store:
        task = asyncio.create_task(store.propose("Rome", "s", 0.9))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await store.list() == []


async def test_a_validator_that_swallows_its_timeout_has_timed_out(open_store: Opened) -> None:
    async def swallows(memory: Memory) -> ValidationResult:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return OK
        return OK

    assert await verdict_of(open_store, swallows, timeout=0.01) == ("swallows timed out after 0.01s",)


async def test_what_a_validator_does_to_the_memory_it_is_shown_changes_nothing(
    open_store: Opened,
) -> None:
    async def meddles(memory: Memory) -> ValidationResult:
        memory.content["city"] = "Oslo"
        memory.metadata["a"].append(2)
        return OK

    assert await verdict_of(open_store, meddles) == ()


@pytest.mark.parametrize("timeout", [0, -1, None, float("nan"), float("inf"), True, "5"])
async def test_a_timeout_of_no_sense_is_refused_by_the_validators_name(
    open_store: Opened, timeout: Any
) -> None:
    async def fine(memory: Memory) -> ValidationResult:
        return OK

    with pytest.raises(ArgumentError, match="timeout of fine"):
        await open_store([ValidatorSpec(fine, timeout=timeout)])


async def test_kinds_that_are_one_string_are_refused_rather_than_never_matched(
    open_store: Opened,
) -> None:
    class Strict:
        kinds = "fact"

        async def __call__(self, memory: Memory) -> ValidationResult:
            return ValidationResult(passed=False, errors=["no"], critical=True)

    with pytest.raises(ArgumentError, match="kinds of Strict"):
        await open_store([Strict()])
