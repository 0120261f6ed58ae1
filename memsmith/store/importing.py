"""Moving a store: `export`, and `import_lines` into an empty one (verbatim) or a used one (by the door)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from memsmith.errors import ArgumentError, ImportRefusedError, LifetimeError, SecretRequiredError
from memsmith.metrics import PROPOSALS
from memsmith.state import State
from memsmith.store.governance import GovernanceReads
from memsmith.store.merging import (
    ImportReport,
    Tally,
    held_as_there,
    is_here,
    linked,
    plant_all,
    proposal_of,
)
from memsmith.store.prepare import Prepared, require_actor
from memsmith.store.propose import decide_proposal, wants_of
from memsmith.store.replaying import restored
from memsmith.store.secrets import require_secret, secret_id
from memsmith.store.transfer import Contents, Lines, exported, read_lines
from memsmith.types import Memory, ProposalResult, Tombstone
from memsmith.wants import Wants

UNIT: Final = 1000
"""How many memories or tombstones of a file are one unit of a merge."""

Secret = str | bytes
Secrets = Sequence[tuple[str, bytes]]


class Transfers(GovernanceReads):
    """Export and import of the bare store."""

    async def export(self) -> AsyncIterator[bytes]:
        """Yield everything of the tenant as JSON Lines: memories, tombstones, ledger, a closing seal.

        It is one consistent moment, that of the first line; writers go on meanwhile. Imported into an
        empty store and exported from there it is the same bytes. Outcomes of idempotency keys are not
        in it (they answer callers of this store), nor is the secret (an import asks for it).
        """
        self._enter()
        async for line in exported(self._storage, self._tenant, self._digester.current_id):
            yield line

    async def import_lines(
        self, lines: Lines, *, secret: Secret | Sequence[Secret] | None = None, actor: str | None = None
    ) -> ImportReport:
        """Take in an export, after the whole of it was checked.

        Into an empty store of the same tenant it is restored verbatim, in one transaction. Its digests
        are keyed: the `secret` of the exporting store is needed and becomes this store's own, unless
        this one was opened with it. No other process may have the empty store open.

        Otherwise each ACTIVE and PENDING_CONFIRMATION memory is proposed like any other, in units of
        1000, with its own session, key, scope, origin, times and proposer; ``imported_from`` in its
        metadata says whence. What waited there waits here. Standing tombstones are planted before, in
        `actor`'s name, and need their `secret` to be recognised (other processes learn it when they
        open the store anew). Again, it adds nothing; one that broke off between units can be repeated.

        ImportRefusedError where anything in the file is off, SecretRequiredError for a missing secret;
        nothing was written then.
        """
        self._enter()
        if self._transactions.current() is not None:
            raise LifetimeError("Import outside a transaction: it makes its own")
        who = require_actor(actor)
        given = _named(secret)
        contents = await read_lines(lines)
        self._enter()
        if contents.tenant == self._tenant and await self._storage.head(self._tenant) is None:
            restoring = asyncio.ensure_future(self._restore(contents, given))
            try:
                await asyncio.shield(restoring)
            except asyncio.CancelledError:
                # Neither the rows nor the secret they are keyed with may come alone.
                await asyncio.wait([restoring])
                raise
            return _report(contents, restored=True)
        return await self._merge(contents, given, who)

    async def _restore(self, contents: Contents, given: Mapping[str, bytes]) -> None:
        keyed = any(memory.value_digest for memory in contents.memories.values())
        needed = [contents.secret_id] if keyed else []
        needed += [stone.secret_id for stone in contents.tombstones.values()]
        secrets = self._secrets_named(needed, given)
        own = self._digester.current_id
        adopts = keyed and contents.secret_id != own
        if adopts and not (await self._storage.secrets()).get(own):
            raise ImportRefusedError(
                f"The file is keyed with secret {contents.secret_id}, the store was opened with {own}: "
                f"open the empty store with the secret of the file"
            )
        changes = restored(contents.rows, contents.replay)
        await self._group.hold_writer()
        try:
            if not adopts:
                await self._learn(secrets)
            await self._storage.restore(self._tenant, changes, secrets if adopts else ())
            if adopts:
                self._use_secrets(secrets)
        finally:
            self._group.writer.release()

    async def _merge(self, contents: Contents, given: Mapping[str, bytes], actor: str) -> ImportReport:
        tally = Tally()
        stones = tally.to_plant(contents.tombstones.values())
        await self._learn(self._secrets_named([stone.secret_id for stone in stones], given))
        for first in range(0, len(stones), UNIT):
            tally.planted += await self._plant(contents, stones[first : first + UNIT], actor)
        held = {b.segment.memory_id for b in contents.replay.segments if b.system_to is None}
        live = tally.to_propose(contents.memories.values(), held, self._clock())
        for first in range(0, len(live), UNIT):
            await self._admit(contents.tenant, live[first : first + UNIT], tally)
        await self._expire_due()
        for outcome, times in tally.outcomes.items():
            self._metrics.count(PROPOSALS, times, outcome=outcome)
        return replace(
            _report(contents, restored=False),
            outcomes=dict(tally.outcomes),
            left_out=dict(tally.left_out),
            planted=tally.planted,
            refused=tuple(tally.refused),
        )

    async def _plant(self, contents: Contents, stones: Sequence[Tombstone], actor: str) -> int:
        def decide(state: State) -> int:
            return plant_all(state, stones, contents.memories, contents.tenant, actor)

        wants = Wants(tombstones={stone.id for stone in stones}, blocks={stone.digest for stone in stones})
        return await self._run(decide, wants, size=len(stones))

    async def _admit(self, tenant: str, batch: Sequence[Memory], tally: Tally) -> None:
        """Propose memories of a file as one unit."""
        found: dict[str, Prepared] = {}
        for session_id in dict.fromkeys(memory.session_id for memory in batch):
            group = [memory for memory in batch if memory.session_id == session_id]
            found |= await self._examined(tenant, group, session_id, tally)
        items = [(memory, found[memory.id]) for memory in batch if memory.id in found]

        def decide_all(state: State) -> list[ProposalResult]:
            ids = dict(tally.ids)
            results: list[ProposalResult] = []
            for memory, item in items:
                result = decide_proposal(state, linked(item, memory, ids), self._rules)
                if is_here(result):
                    ids[memory.id] = result.memory_id
                results.append(result)
            return results

        if items:
            results = await self._run(decide_all, wants_of(list(found.values())), size=len(items))
            for (memory, _), result in zip(items, results, strict=True):
                tally.add(memory.id, result)

    async def _examined(
        self, tenant: str, group: Sequence[Memory], session_id: str, tally: Tally
    ) -> dict[str, Prepared]:
        """Check and judge memories of one session; an argument that can't be refuses its memory alone."""
        try:
            prepared = self._prepared([proposal_of(m, tenant) for m in group], session_id, None)
        except ArgumentError as error:
            if len(group) == 1:
                tally.refuse(group[0].id, "argument", str(error))
                return {}
            found: dict[str, Prepared] = {}
            for memory in group:
                found |= await self._examined(tenant, [memory], session_id, tally)
            return found
        await self._judge(prepared)
        for memory, item in zip(group, prepared, strict=True):
            held_as_there(memory, item)
        return {memory.id: item for memory, item in zip(group, prepared, strict=True)}

    # -- secrets ------------------------------------------------------------------------------

    def _secrets_named(self, needed: Iterable[str], given: Mapping[str, bytes]) -> Secrets:
        """Return the secrets of these ids, each once, in order, or raise for the first nobody has."""
        held = {**dict(self._digester.secrets), **given}
        names = list(dict.fromkeys(needed))
        for name in names:
            if name not in held:
                raise SecretRequiredError(name)
        return [(name, held[name]) for name in names]

    async def _learn(self, secrets: Secrets) -> None:
        """Recognise digests under more secrets; new ones stay keyed with the store's own."""
        known = dict(self._digester.secrets)
        new = [(name, secret) for name, secret in secrets if name not in known]
        for name, secret in new:
            await self._storage.add_secret(name, secret)
        if new:
            self._use_secrets([*self._digester.secrets, *new])

    def _use_secrets(self, secrets: Secrets) -> None:
        self._digester.use(secrets)
        self._rules = replace(self._rules, secret_id=self._digester.current_id)


def _named(secret: Secret | Sequence[Secret] | None) -> dict[str, bytes]:
    """Return the secrets given, by id."""
    if secret is None:
        return {}
    secrets = map(require_secret, [secret] if isinstance(secret, str | bytes) else secret)
    return {secret_id(each): each for each in secrets}


def _report(contents: Contents, *, restored: bool) -> ImportReport:
    counts = len(contents.memories), len(contents.tombstones), len(contents.rows)
    return ImportReport(restored, *counts)
