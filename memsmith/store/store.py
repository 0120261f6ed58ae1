"""`MemoryStore`: one short method per verb."""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, Final, Self

from memsmith._canonical import require_text
from memsmith._clock import require_seconds, to_text
from memsmith.errors import ArgumentError, ValidationError
from memsmith.metrics import PROPOSALS
from memsmith.protocols import TransitionHandler
from memsmith.state import State
from memsmith.store import change
from memsmith.store.importing import Transfers
from memsmith.store.once import once
from memsmith.store.prepare import (
    Prepared,
    arguments_of,
    require_actor,
    require_confidence,
    require_flag,
    require_portion,
    require_reason,
    require_stretch,
    require_version,
)
from memsmith.store.propose import code_of, decide_proposal, result_of, wants_of
from memsmith.store.retold import is_wordless, retold
from memsmith.types import (
    FACT,
    UNCHANGED,
    Interval,
    Memory,
    Origin,
    ProposalInput,
    ProposalResult,
    Swept,
    Tombstone,
    Unchanged,
)
from memsmith.wants import Wants

TRANSACTION_SECONDS: Final = 5.0
REVISED: Final = ("content", "content_hash", "value_digest", "key", "many", "status", "actor")
"""What is new of a revision while validators judge it."""


class MemoryStore(Transfers):
    """Governed memory: agents propose, validators decide, people confirm, the ledger remembers.

    Make one with `init` or `open`. The bare store acts as the owner and reads as
    a governor: every status, nothing masked. It belongs to the event loop it was made on.
    """

    @classmethod
    async def open(cls, url: str, **options: Any) -> Self:
        """Open the store a URL names; `options` are those of `init`.

        ``sqlite:///file.db`` (relative), ``sqlite:////srv/file.db`` (absolute), ``memory://``.
        """
        from memsmith.connect import backend_for  # the one reach upwards, so that a URL is enough

        return await cls.init(backend_for(url), **options)

    async def propose(
        self,
        content: Any,
        session_id: str,
        confidence: float,
        thread_id: str | None = None,
        source: str | None = None,
        dedup: bool = True,
        *,
        scope: str = "",
        key: str | None = None,
        kind: str = FACT,
        origin: Origin | str | None = None,
        sensitivity: str | None = None,
        valid_from: datetime | None = None,
        valid_to: datetime | None = None,
        expires_at: datetime | None = None,
        ttl: timedelta | None = None,
        depends_on: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        actor: str | None = None,
    ) -> ProposalResult:
        """Propose a memory: Accepted, PendingConfirmation or Rejected.

        `content` is JSON data, a pydantic model or a dataclass. `ttl` counts from the moment of
        writing. A repeated `idempotency_key` gives the first outcome again.
        """
        item = ProposalInput(
            content, confidence, source, dedup,
            thread_id=thread_id, scope=scope, key=key, kind=kind, origin=origin, sensitivity=sensitivity,
            valid_from=valid_from, valid_to=valid_to, expires_at=expires_at, ttl=ttl,
            depends_on=depends_on, metadata=metadata, idempotency_key=idempotency_key, actor=actor,
        )  # fmt: skip
        self._enter()
        prepared = self._prepared([item], session_id, None)
        await self._judge(prepared)
        result = await self._run(
            lambda state: decide_proposal(state, prepared[0], self._rules), wants_of(prepared)
        )
        self._metrics.count(PROPOSALS, outcome=code_of(result))
        return await self._retold(result) if is_wordless(result) else result

    async def propose_many(
        self,
        memories: Sequence[ProposalInput],
        session_id: str,
        thread_id: str | None = None,
        *,
        idempotency_key: str | None = None,
        actor: str | None = None,
    ) -> builtins.list[ProposalResult]:
        """Propose several memories as one unit: one transaction, one result per item, in order.

        `thread_id` and `actor` are those of the items that name none. The batch is deduplicated against
        itself too. An argument error or an unknown id in any item
        refuses the whole batch, with nothing written.
        """
        self._enter()
        prepared = self._prepared(memories, session_id, thread_id, actor)
        told = [] if idempotency_key is None else [_told(item) for item in prepared]
        await self._judge(prepared)
        wants = wants_of(prepared)

        def decide_all(state: State) -> builtins.list[ProposalResult]:
            return [decide_proposal(state, item, self._rules) for item in prepared]

        decide: Callable[[State], builtins.list[ProposalResult]] = decide_all
        if idempotency_key is not None:
            name = (require_actor(actor), "propose_many", require_text("idempotency_key", idempotency_key))
            digest = self._digester.arguments("propose_many", told)
            wants.outcomes.add(name)
            decide = once(
                name,
                digest,
                decide_all,
                lambda results: ([code_of(r) for r in results], [r.memory_id for r in results]),
                lambda state, seen: [
                    result_of(state, code, ident)
                    for code, ident in zip(seen.codes, seen.memory_ids, strict=True)
                ],
            )
        results = await self._run(decide, wants, size=len(prepared))
        for outcome, times in Counter(map(code_of, results)).items():
            self._metrics.count(PROPOSALS, times, outcome=outcome)
        return [await self._retold(result) if is_wordless(result) else result for result in results]

    async def _retold(self, result: ProposalResult) -> ProposalResult:
        return await self._read(lambda reads: retold(reads, self._tenant, self._clock(), result))

    async def confirm(
        self,
        memory_id: str,
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> Memory:
        """PENDING_CONFIRMATION → ACTIVE, judged again on what is stored now.

        Raises BaseChangedError where it would no longer do what the reviewer saw, until repeated
        with `expected_version`; TombstonedError where the value was rejected meanwhile;
        PermissionDeniedError where anyone but the owner confirms what they proposed.
        """
        who = require_actor(actor)
        why, version = require_reason(reason), require_version(expected_version)
        decide = change.confirm(memory_id, who, why, version, self._digester, self._rules)
        return await self._change("confirm", memory_id, decide, who, idempotency_key, reason, version)

    async def reject(
        self,
        memory_id: str,
        reason: str | None = None,
        *,
        also: bool = False,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> Memory:
        """Say "never true": → RETRACTED, and the value is blocked by a tombstone from now on.

        Raises TombstoneConflictError listing other live memories of the same value in reach, unless
        `also` takes them along.
        """
        who = require_actor(actor)
        decide = change.reject(
            memory_id, who, require_reason(reason), require_flag("also", also), self._rules
        )
        return await self._change("reject", memory_id, decide, who, idempotency_key, reason, also)

    async def retract(
        self,
        memory_id: str,
        reason: str | None = None,
        *,
        during: tuple[datetime, datetime | None] | None = None,
        cascade: bool = False,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> Memory:
        """Say "does not hold": → RETRACTED; the value may be proposed again.

        `during` takes out that portion only, start inside and end not (None: all that follows); the
        status stays while something remains. `cascade` retracts what depends on the memory, directly
        or not, in the same transaction.
        """
        who, why = require_actor(actor), require_reason(reason)
        if during is None:
            decide = change.retract(memory_id, who, why, require_flag("cascade", cascade))
            return await self._change("retract", memory_id, decide, who, idempotency_key, reason, cascade)
        if cascade:
            raise ArgumentError("cascade", "False where only a portion is retracted", cascade)
        portion = require_portion("during", during)
        decide = change.retract_during(memory_id, who, why, portion)
        extra = [reason, *_texts(portion)]
        return await self._change("retract", memory_id, decide, who, idempotency_key, *extra)

    async def amend_validity(
        self,
        memory_id: str,
        valid_from: datetime,
        valid_to: datetime | None,
        reason: str | None = None,
        *,
        expected_version: int | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> Memory:
        """Correct when a memory holds: asserted anew, so of members that begin together it holds now.

        Portions that were retracted stay out. InvalidIntervalError where nothing would remain.
        """
        who = require_actor(actor)
        asserted = require_stretch(valid_from, valid_to)
        version = require_version(expected_version)
        decide = change.amend_validity(memory_id, who, require_reason(reason), version, asserted)
        extra = [reason, version, *_texts(asserted)]
        return await self._change("amend_validity", memory_id, decide, who, idempotency_key, *extra)

    async def revise(
        self,
        memory_id: str,
        new_content: Any,
        reason: str | None = None,
        *,
        key: str | Unchanged | None = UNCHANGED,
        expected_version: int | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> Memory:
        """Give a memory new content under the same id; the status stays.

        A new `key`, given or derived from the new content where the old one was, moves it to
        another chain, and both chains settle.

        Passes every check a proposal passes: ValidationError for a critical failure (TombstonedError
        for a blocked value), ReviewRequiredError where a person would be asked, DuplicateError where
        another live memory says it already, StaleVersionError where somebody edited since.
        """
        self._enter()
        who = require_actor(actor)
        memory = await self._get_or_raise(memory_id)
        revised_key = self._revised_key(memory, new_content, key)
        item = ProposalInput(new_content, memory.confidence, key=revised_key, kind=memory.kind, actor=who)
        (prepared,) = self._prepared([item], memory.session_id, None, stored=True)
        # Judged is what the memory would be: all it has stays, whatever a proposal may have today.
        new = {name: getattr(prepared.memory, name) for name in REVISED}
        prepared.memory = memory.evolve(new)
        # What was told, whatever validators make of it and wherever the memory has moved since.
        told = [prepared.memory.content_hash, None if isinstance(key, Unchanged) else [key]]
        await self._judge([prepared])
        decide = change.revise(
            prepared, memory_id, who, require_reason(reason), require_version(expected_version), self._rules
        )
        extra = [*told, reason, expected_version]
        wants = Wants(blocks=set(prepared.digests))
        try:
            return await self._change("revise", memory_id, decide, who, idempotency_key, *extra, wants=wants)
        except ValidationError:
            if prepared.tombstone:
                block = change.block_value(prepared, memory_id, who, self._rules)
                await self._run(block, Wants(memories={memory_id}, blocks=set(prepared.digests)))
            raise

    def _revised_key(self, memory: Memory, content: object, given: str | Unchanged | None) -> str | None:
        if not isinstance(given, Unchanged):
            return given
        derived = memory.key == self._keys.key_of(None, memory.content, memory.kind, memory.content)
        # Without one, the new content names its key as that of a proposal does.
        return None if derived or callable(getattr(content, "memory_key", None)) else memory.key

    async def update_confidence(
        self,
        memory_id: str,
        new_value: float,
        *,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> Memory:
        """Raise a memory's confidence; ConfidenceMonotonicityError unless it rises."""
        who = require_actor(actor)
        value = require_confidence(new_value, "new_value")
        decide = change.update_confidence(memory_id, who, value)
        return await self._change("update_confidence", memory_id, decide, who, idempotency_key, repr(value))

    async def quarantine(
        self,
        memory_id: str,
        reason: str | None = None,
        *,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> Memory:
        """Take a memory out of every read until somebody looked: → QUARANTINED."""
        who = require_actor(actor)
        decide = change.quarantine(memory_id, who, require_reason(reason))
        return await self._change("quarantine", memory_id, decide, who, idempotency_key, reason)

    async def release(
        self,
        memory_id: str,
        reason: str | None = None,
        *,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> Memory:
        """Return a quarantined memory to what it was, or to EXPIRED if its time ran out."""
        who = require_actor(actor)
        decide = change.release(memory_id, who, require_reason(reason), self._digester)
        return await self._change("release", memory_id, decide, who, idempotency_key, reason)

    async def expire_batch(self, *, idempotency_key: str | None = None) -> int:
        """Expire every ACTIVE and pending memory whose `expires_at` has passed; return how many.

        A call that ended half-way goes on when it is repeated.
        """
        self._enter()
        return await self._expire_due(self._repeatable("expire_batch", idempotency_key))

    async def sweep(self, *, idempotency_key: str | None = None) -> Swept:
        """Bring statuses up to date with the clock: expire what is due, supersede what has a successor.

        Reads are right without it; hooks and the audit hear of the change when it runs. A call that
        ended half-way goes on when it is repeated.
        """
        self._enter()
        return await self._sweep_all(self._repeatable("sweep", idempotency_key))

    async def lift_tombstone(
        self,
        tombstone_id: str,
        reason: str | None = None,
        *,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> Tombstone:
        """Let a blocked value be proposed again; recorded, and lifting twice changes nothing."""
        self._enter()
        who = require_actor(actor)
        wants = Wants(tombstones={require_text("tombstone_id", tombstone_id)})
        decide = change.lift_tombstone(tombstone_id, who, require_reason(reason))
        if idempotency_key is not None:
            name = (who, "lift_tombstone", require_text("idempotency_key", idempotency_key))
            digest = self._digester.arguments("lift_tombstone", [tombstone_id, reason])
            wants.outcomes.add(name)
            decide = once(
                name,
                digest,
                decide,
                lambda stone: (["lifted"], [stone.id]),
                lambda state, seen: state.tombstone(seen.memory_ids[0]),
            )
        return await self._run(decide, wants)

    @asynccontextmanager
    async def transaction(self, timeout: float = TRANSACTION_SECONDS) -> AsyncGenerator[Self, None]:
        """Group several verbs into one unit; a raise undoes all of it.

        Tasks started inside are inside, others wait. Nested ones are savepoints. Results are
        provisional until the outermost block ends, and hooks fire then. After `timeout` seconds the
        transaction is undone and its verbs raise TransactionTimeoutError.
        """
        self._enter()
        require_seconds("timeout", timeout)
        async with self._transactions.open(timeout, self._published) as scope:
            yield self
        if self._transactions.current() is None:
            await self._heard(scope.rows)

    def on_transition(self, callback: TransitionHandler) -> None:
        """Call back (memory_id, from_status, to_status) after each commit, in ledger order."""
        self._hooks.register(callback)


def _told(item: Prepared) -> builtins.list[Any]:
    """Return what makes an item of a batch the same as before; who proposes it is part of that."""
    return [*arguments_of(item), item.memory.actor, item.idempotency_key]


def _texts(interval: Interval) -> tuple[str, str | None]:
    return to_text(interval.start), None if interval.end is None else to_text(interval.end)
