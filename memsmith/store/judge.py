"""Running validators: outside any transaction, each with its timeout, errors in a stable order."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import orjson

from memsmith._canonical import encode_content
from memsmith._clock import require_aware, require_seconds
from memsmith.errors import ArgumentError, MemsmithError
from memsmith.metrics import VALIDATOR_SECONDS, NullMetrics
from memsmith.protocols import Metrics, ValidationContext, ValidatorFn, ValidatorSpec
from memsmith.store.prepare import Digester, Limits, Prepared
from memsmith.types import FACT, UNCHANGED, Memory, ValidationResult

CONCURRENT_ITEMS: Final = 64
"""How many proposals of a batch are judged at once by validators that wait for something."""

ContextSource = Callable[[Memory], Awaitable[ValidationContext]]


@dataclass(frozen=True, slots=True)
class Judge:
    """A validator with everything about it settled."""

    name: str
    fn: ValidatorFn
    check: Callable[[Memory], ValidationResult] | None
    timeout: float
    critical: bool
    kinds: frozenset[str]
    transforms: bool
    wants_context: bool


def appoint(validator: ValidatorFn | ValidatorSpec) -> Judge:
    """Settle one entry of the validators list; a bare validator is wrapped."""
    entry: Any = validator
    spec = entry if isinstance(entry, ValidatorSpec) else ValidatorSpec(cast(ValidatorFn, entry))
    fn: Any = spec.fn
    name = cast(str, getattr(fn, "name", None) or getattr(fn, "__name__", None) or type(fn).__name__)
    if not callable(fn):
        raise ArgumentError("validators", "async callables", fn)
    timeout = require_seconds(f"timeout of {name}", spec.timeout)
    kinds = getattr(fn, "kinds", {FACT})
    if isinstance(kinds, str):  # its letters would be taken for kinds, and none would ever match
        raise ArgumentError(f"kinds of {name}", "a set of kinds", kinds)
    critical = getattr(fn, "critical", False) if spec.critical is None else spec.critical
    return Judge(
        name=name,
        fn=spec.fn,
        check=getattr(fn, "check", None),
        timeout=timeout,
        critical=bool(critical),
        kinds=frozenset(kinds),
        transforms=bool(getattr(fn, "transforms", False)),
        wants_context=_positional_arguments(fn) >= 2,
    )


def _positional_arguments(fn: Callable[..., Any]) -> int:
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):  # builtins without a signature take the memory alone
        return 1
    return sum(p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD} for p in parameters)


class Bench:
    """All judges of a store. Those that transform sit first, one after the other."""

    def __init__(
        self,
        validators: Sequence[ValidatorFn | ValidatorSpec],
        limits: Limits,
        digester: Digester,
        metrics: Metrics,
    ) -> None:
        judges = [appoint(v) for v in validators]
        self._judges = [j for j in judges if j.transforms] + [j for j in judges if not j.transforms]
        self._by_kind: dict[str, tuple[Judge, ...]] = {}
        self._limits = limits
        self._digester = digester
        self._metrics = None if isinstance(metrics, NullMetrics) else metrics

    def judge_at_once(self, items: Sequence[Prepared]) -> list[Prepared]:
        """Judge what checks alone can judge; return the items for which somebody must be awaited."""
        if not self._judges:
            return []
        waiting: list[Prepared] = []
        for item in items:
            judges = self._judges_of(item.memory.kind)
            if all(judge.check for judge in judges):
                for judge in judges:
                    self._pronounce(item, judge, self._examine(judge, item.memory))
            else:
                waiting.append(item)
        return waiting

    async def hear(self, waiting: Sequence[Prepared], context_of: ContextSource) -> None:
        """Judge the items that `judge_at_once` left; verdicts are written into them."""
        if len(waiting) == 1:
            await self._judge(waiting[0], context_of)
            return
        places = asyncio.Semaphore(CONCURRENT_ITEMS)

        async def judge_one(item: Prepared) -> None:
            async with places:
                await self._judge(item, context_of)

        async with asyncio.TaskGroup() as group:
            for item in waiting:
                group.create_task(judge_one(item))

    def _judges_of(self, kind: str) -> tuple[Judge, ...]:
        judges = self._by_kind.get(kind)
        if judges is None:
            judges = self._by_kind[kind] = tuple(j for j in self._judges if kind in j.kinds)
        return judges

    def _examine(self, judge: Judge, memory: Memory) -> ValidationResult:
        assert judge.check is not None
        started = time.perf_counter()
        try:
            return _checked(judge, judge.check(memory))
        except Exception as error:  # a validator that raises has failed, and says so
            return _failed(judge, f"raised {type(error).__name__}: {error}")
        finally:
            self._observe(judge, started)

    async def _judge(self, item: Prepared, context_of: ContextSource) -> None:
        judges = self._judges_of(item.memory.kind)
        context = (
            await context_of(item.memory)
            if any(j.wants_context for j in judges)
            else ValidationContext(item.memory.actor)
        )
        for judge in judges:
            if judge.transforms:
                self._pronounce(item, judge, await self._ask(judge, _lent(item, judge), context))
        peers = [j for j in judges if not j.transforms]
        results = await asyncio.gather(*(self._ask(j, _lent(item, j), context) for j in peers))
        for judge, result in zip(peers, results, strict=True):
            self._pronounce(item, judge, result)

    async def _ask(self, judge: Judge, memory: Memory, context: ValidationContext) -> ValidationResult:
        if judge.check is not None:
            return self._examine(judge, memory)
        started = time.perf_counter()
        limit = asyncio.timeout(judge.timeout)
        try:
            async with limit:
                answer: Any = judge.fn(memory, context) if judge.wants_context else judge.fn(memory)
                verdict = _checked(judge, await answer if inspect.isawaitable(answer) else answer)
            # Some swallow the cancellation by which they are told that their time is over.
            return _failed(judge, f"timed out after {judge.timeout}s") if limit.expired() else verdict
        except asyncio.CancelledError as error:
            # It may have awaited something that was cancelled; this is not our own cancellation.
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            return _failed(judge, f"raised CancelledError: {error}")
        except TimeoutError as error:
            if limit.expired():
                return _failed(judge, f"timed out after {judge.timeout}s")
            return _failed(judge, f"raised TimeoutError: {error}")
        except Exception as error:  # a validator that raises has failed, and says so
            return _failed(judge, f"raised {type(error).__name__}: {error}")
        finally:
            self._observe(judge, started)

    def _observe(self, judge: Judge, started: float) -> None:
        if self._metrics is not None:
            self._metrics.observe(VALIDATOR_SECONDS, time.perf_counter() - started, validator=judge.name)

    def _pronounce(self, item: Prepared, judge: Judge, result: ValidationResult) -> None:
        if result.passed:
            if judge.transforms:
                self._transform(item, judge, result)
            return
        errors = result.errors or [f"{judge.name} failed"]
        if result.withhold and not item.withhold:
            # Other validators' words may quote what must not be kept.
            item.errors = tuple(errors)
            item.withhold = True
        elif result.withhold or not item.withhold:
            item.errors += tuple(errors)
        if judge.critical if result.critical is None else result.critical:
            item.refuse = True
        if result.tombstone:
            item.tombstone = item.refuse = True

    def _transform(self, item: Prepared, judge: Judge, result: ValidationResult) -> None:
        try:
            if result.content is not UNCHANGED:
                text = encode_content(result.content, self._limits.content_bytes)
                item.replace_content(orjson.loads(text), text, self._digester)
            if result.expires_at is not UNCHANGED:
                item.memory = item.memory.evolve(
                    {"expires_at": require_aware("expires_at", result.expires_at)}
                )
                item.ttl = None
        except MemsmithError as error:
            item.errors += (f"{judge.name} handed on something unusable: {error}",)


def _checked(judge: Judge, result: object) -> ValidationResult:
    if isinstance(result, ValidationResult):
        errors: Any = result.errors
        if isinstance(errors, str):
            errors = [errors]
        return replace(result, errors=[_storable(error) for error in errors]) if errors else result
    return _failed(judge, f"returned {type(result).__name__}, not a ValidationResult")


def _failed(judge: Judge, what: str) -> ValidationResult:
    return ValidationResult(passed=False, errors=[_storable(f"{judge.name} {what}")])


def _storable(error: object) -> str:
    """Return an error's words; what no database can hold of them is escaped."""
    return str(error).encode("utf-8", "backslashreplace").decode()


def _lent(item: Prepared, judge: Judge) -> Memory:
    """Return the memory for a validator to look at: a copy for code that might change what it is shown."""
    if judge.check is not None:
        return item.memory
    return item.memory.evolve(
        {
            "content": orjson.loads(item.text),
            "metadata": deepcopy(item.memory.metadata),
            "depends_on": list(item.memory.depends_on),
        }
    )
