"""What the units of one transaction see and change: no I/O, and everything can be undone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, TypeVar

from memsmith._canonical import canonical
from memsmith._clock import to_text
from memsmith.errors import NotFoundError
from memsmith.ledger.entry import Draft, seal
from memsmith.ledger.record import Record, field_record, memory_record
from memsmith.lifecycle import ASSERTING, Action, check
from memsmith.temporal import FOREVER, Chains, Segment, until
from memsmith.types import COUNTED, LIVE, Head, Memory, MemoryStatus, Slot, Tombstone
from memsmith.wants import Beneath, Changes, Columns, Loaded, NeedMore, OutcomeKey, OutcomeRecord, Tail, Wants

K = TypeVar("K")

Index: TypeAlias = dict[K, tuple[str, ...]]
"""Ids by something; tuples, because a batch makes thousands that the collector need not visit."""

_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_PROPOSED: Final = MemoryStatus.PROPOSED


class State:
    """What the units of one transaction see: the rows loaded, and what earlier units made of them."""

    def __init__(self, tenant: str, head: Head) -> None:
        self.tenant = tenant
        self._head = head
        self._seen = Wants()
        self._memories: dict[str, Memory] = {}
        self._by_value: Index[str] = {}
        self._by_slot: Index[Slot] = {}
        self._chains = Chains()
        self._dependants: Index[str] = {}
        self._stones: dict[str, Tombstone] = {}
        self._blocks: Index[str] = {}
        self._outcomes: dict[OutcomeKey, OutcomeRecord] = {}
        self._due: list[str] = []
        self._handed_over: list[str] = []
        self._columns: dict[str, Columns] = {}
        self._inserted: list[str] = []
        self._touched: dict[str, None] = {}
        self._history: list[tuple[Memory, datetime]] = []
        self._new_stones: dict[str, None] = {}
        self._new_outcomes: list[OutcomeRecord] = []
        self._drafts: list[Draft] = []
        self._undo: list[Callable[[], object]] = []
        self.now = head.time or _NEVER
        self.now_text = ""
        self.last_seq = head.count

    # -- reading ------------------------------------------------------------------------------

    def need(self, wants: Wants) -> None:
        """Have everything of `wants` loaded at once, rather than piece by piece."""
        wants -= self._seen
        for slot in wants.chains:
            if slot in self._seen.chains:
                wants.want_chain(slot, self._seen.chains[slot])
        if wants:
            raise NeedMore(wants)

    def memory(self, memory_id: str) -> Memory:
        """Return a memory or raise NotFoundError."""
        if not self.has(memory_id):
            raise NotFoundError(memory_id)
        return self._memories[memory_id]

    def has(self, memory_id: str) -> bool:
        """Tell whether a memory exists."""
        if memory_id in self._memories:
            return True
        if memory_id not in self._seen.memories:
            raise NeedMore(Wants(memories={memory_id}))
        return False

    def live_with_value(self, digest: str) -> list[Memory]:
        """Return the live memories whose normalised value has this digest."""
        if digest not in self._seen.values:
            raise NeedMore(Wants(values={digest}))
        found = self._gather(self._by_value, digest)
        return [m for m in found if m.value_digest == digest] if found else found

    def segments(self, slot: Slot, moment: datetime, above: datetime = FOREVER) -> list[Segment]:
        """Return a chain's current segments that end at or after a moment, in order.

        Those of members that begin after `above` may be joined, see :class:`memsmith.wants.Tail`.
        """
        loaded, wanted = self._seen.chains.get(slot), Tail(moment, above)
        if loaded is None or not loaded.covers(wanted):
            # What was loaded more finely must not come back joined.
            raise NeedMore(Wants(chains={slot: wanted if loaded is None else loaded.with_(wanted)}))
        return self._chains.from_on(slot, moment)

    def current_on(self, slot: Slot) -> Memory | None:
        """Return the memory that is effective on a chain now."""
        for segment in self.segments(slot, self.now, self.now):
            if segment.start <= self.now < until(segment.end):
                return self.memory(segment.memory_id)
        return None

    def waiting_on(self, slot: Slot) -> list[Memory]:
        """Return the memories that wait for a person on a chain."""
        if slot not in self._seen.chains:
            raise NeedMore(Wants(chains={slot: Tail(self.now, self.now)}))
        waiting = MemoryStatus.PENDING_CONFIRMATION
        return [m for m in self._gather(self._by_slot, slot) if m.status is waiting and m.slot == slot]

    def beneath(self, slot: Slot, start: datetime, end: datetime | None, besides: str) -> list[Memory]:
        """Return the other counted members of a chain that may hold somewhere in an interval."""
        members = [self._memories[ident] for ident in self._by_slot.get(slot, ())]
        # A member that another might be left out for must not itself have changed here.
        pruned = all(m.seq <= self._head.count for m in members)
        wanted = Beneath(slot, start, end, besides, pruned)
        if wanted not in self._seen.beneath:
            raise NeedMore(Wants(beneath={wanted}))
        return [m for m in members if m.counted and m.slot == slot and m.id != besides]

    def _gather(self, index: Index[Any], key: object) -> list[Memory]:
        ids = index.get(key)
        if not ids:
            return []
        # Oldest first, so that what was loaded when does not decide which of several is named.
        return [m for m in map(self._memories.__getitem__, sorted(ids)) if m.status in LIVE]

    def handed_over(self, after: str, limit: int) -> list[str]:
        """Return ids of ACTIVE memories of which nothing was effective any more when they were loaded."""
        if self._seen.handed_over != (after, limit):
            raise NeedMore(Wants(handed_over=(after, limit)))
        return self._handed_over

    def blocks(self, digests: Iterable[str]) -> list[Tombstone]:
        """Return the standing tombstones with one of these digests."""
        found: list[Tombstone] = []
        for digest in digests:
            if digest not in self._seen.blocks:
                raise NeedMore(Wants(blocks=set(digests)))
            found += [self._stones[i] for i in self._blocks.get(digest, ())]
        return [stone for stone in found if stone.lifted_at is None] if found else found

    def tombstone(self, ident: str) -> Tombstone:
        """Return a tombstone or raise NotFoundError."""
        if ident not in self._seen.tombstones:
            raise NeedMore(Wants(tombstones={ident}))
        if ident not in self._stones:
            raise NotFoundError(ident, "Tombstone")
        return self._stones[ident]

    def outcome(self, key: OutcomeKey) -> OutcomeRecord | None:
        """Return what an earlier call left under its idempotency key."""
        if key not in self._seen.outcomes:
            raise NeedMore(Wants(outcomes={key}))
        return self._outcomes.get(key)

    def dependants(self, memory_id: str) -> list[str]:
        """Return the ids of the memories that name this one in `depends_on`."""
        if memory_id not in self._seen.dependants:
            raise NeedMore(Wants(dependants={memory_id}))
        return list(self._dependants.get(memory_id, ()))

    def due(self, limit: int) -> list[str]:
        """Return ids of live memories whose time was over when they were loaded."""
        if self._seen.due < limit:
            raise NeedMore(Wants(due=limit))
        return self._due

    # -- changing -----------------------------------------------------------------------------

    def insert(
        self,
        memory: Memory,
        changes: dict[str, Any],
        action: Action,
        payload: dict[str, Any],
        text: str | None = None,
    ) -> Memory:
        """Add a proposed memory with `changes`; what the store assigns is filled in here.

        `text` is its content as canonical JSON, where the caller has it.
        """
        now = self.now
        self.last_seq += 1
        seq = self.last_seq
        fields = {"created_at": now, "updated_at": now, **changes, "seq": seq, "system_from": now}
        if action in ASSERTING and fields.get("status", memory.status) in COUNTED:
            fields["asserted_order"] = seq
        memory = memory.evolve(fields)
        check(memory.id, _PROPOSED, action, memory.status)
        record = memory_record(memory, text)
        payload["set"] = _inserted_fields(record, self.now_text)
        self._log(memory, action, _PROPOSED, payload, memory.actor)
        self._memories[memory.id] = memory
        self._columns[memory.id] = tuple(record.values())
        self._inserted.append(memory.id)
        self._index(memory)
        return memory

    def change(
        self,
        memory: Memory,
        action: Action,
        changes: dict[str, Any],
        payload: dict[str, Any] | None = None,
        *,
        actor: str,
    ) -> Memory:
        """Take `memory` through `action`; a status among `changes` is checked against the machine."""
        status = changes.get("status", memory.status)
        check(memory.id, memory.status, action, status)
        self.last_seq += 1
        now, seq = self.now, self.last_seq
        fields = {**changes, "updated_at": now, "version": memory.version + 1, "seq": seq, "system_from": now}
        if action in ASSERTING and status in COUNTED:
            fields["asserted_order"] = seq
        changed = memory.evolve(fields)
        if memory.system_from != now:
            self._history.append((memory, now))
            self._undo.append(self._history.pop)
        payload = payload or {}
        payload["set"] = {name: field_record(name, value) for name, value in changes.items()}
        self._log(changed, action, memory.status, payload, actor)
        ident = memory.id
        self._memories[ident] = changed
        self._undo.append(lambda: self._memories.__setitem__(ident, memory))
        if ident in self._columns:
            before = self._columns[ident]
            self._columns[ident] = tuple(memory_record(changed).values())
            self._undo.append(lambda: self._columns.__setitem__(ident, before))
        elif ident not in self._touched:
            self._touched[ident] = None
            self._undo.append(lambda: self._touched.pop(ident))
        if changed.value_digest != memory.value_digest or changed.key != memory.key:
            self._index(changed)
        return changed

    def note(self, memory: Memory, action: Action, payload: dict[str, Any], *, actor: str) -> None:
        """Record something about a memory that changes none of its columns."""
        check(memory.id, memory.status, action, memory.status)
        self.last_seq += 1
        self._log(memory, action, memory.status, payload, actor)

    def replace_segments(self, slot: Slot, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        """Put segments in place of those that `segments` returned."""
        self._undo.append(self._chains.replace(slot, old, new, self.now))

    def history(
        self, memory_id: str, action: str, statuses: tuple[str, str], payload: dict[str, Any]
    ) -> None:
        """Record what another ledger said about a memory to come; no hook hears of it."""
        self.last_seq += 1
        self._drafts.append((memory_id, action, *statuses, self.now_text, "upgrade", canonical(payload)))

    def put_tombstone(self, stone: Tombstone) -> None:
        """Plant a tombstone, or replace it by its changed self."""
        before = self._stones.get(stone.id)
        self._stones[stone.id] = stone
        if before is None:
            _add(self._blocks, stone.digest, stone.id)
            self._undo.append(lambda: self._stones.pop(stone.id))
            self._undo.append(lambda: _drop(self._blocks, stone.digest, stone.id))
        else:
            self._undo.append(lambda: self._stones.__setitem__(stone.id, before))
        if stone.id not in self._new_stones:
            self._new_stones[stone.id] = None
            self._undo.append(lambda: self._new_stones.pop(stone.id))

    def put_outcome(self, record: OutcomeRecord) -> None:
        """Keep the outcome of a call for whoever repeats it."""
        o = record.outcome
        key = (o.actor, o.verb, o.idempotency_key)
        self._outcomes[key] = record
        self._new_outcomes.append(record)
        self._undo.append(lambda: (self._outcomes.pop(key), self._new_outcomes.pop()))

    def _index(self, memory: Memory) -> None:
        """Make a memory findable by value, chain and dependency for the units that follow."""
        if memory.key is None and not memory.depends_on:
            _add(self._by_value, memory.value_digest, memory.id)
            return
        for index, key in self._places(memory):
            _add(index, key, memory.id)

    def _places(self, memory: Memory) -> list[tuple[Index[Any], Any]]:
        places: list[tuple[Index[Any], Any]] = [(self._by_value, memory.value_digest)]
        slot = memory.slot
        if slot is not None:
            places.append((self._by_slot, slot))
        if memory.depends_on:
            places += [(self._dependants, parent) for parent in memory.depends_on]
        return places

    def _log(
        self,
        memory: Memory,
        action: Action,
        from_status: MemoryStatus,
        payload: dict[str, Any],
        actor: str,
    ) -> None:
        words = (action._value_, from_status._value_, memory.status._value_)
        self._drafts.append((memory.id, *words, self.now_text, actor, canonical(payload)))

    # -- driving ------------------------------------------------------------------------------

    def take(self, wants: Wants, loaded: Loaded) -> None:
        """Add rows just loaded; what earlier units changed stays changed."""
        for memory in loaded.memories:
            if memory.id not in self._memories:
                self._memories[memory.id] = memory
                self._index(memory)
        for stone in loaded.tombstones:
            if stone.id not in self._stones:
                self._stones[stone.id] = stone
                _add(self._blocks, stone.digest, stone.id)
        for record in loaded.outcomes:
            o = record.outcome
            self._outcomes.setdefault((o.actor, o.verb, o.idempotency_key), record)
        for parent, children in loaded.dependants.items():
            for child in children:
                _add(self._dependants, parent, child)
        self._due.extend(loaded.due)
        if wants.handed_over is not None:
            self._handed_over = list(loaded.handed_over)
        if wants.chains:
            self._chains.load(wants.chains, loaded.segments)
        self._seen |= wants

    def begin(self, now: datetime) -> None:
        """Start a unit that happens at `now`."""
        self.now, self.now_text = now, to_text(now)
        self._undo.clear()
        self._inserted.clear()
        self._chains.begin()

    def revert(self, drafts: int) -> None:
        """Undo the unit, back to when the ledger had `drafts` new rows."""
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()
        for memory_id in self._inserted:
            memory = self._memories.pop(memory_id)
            del self._columns[memory_id]
            for index, key in self._places(memory):
                _drop(index, key, memory_id)
        self._inserted.clear()
        del self._drafts[drafts:]
        self.last_seq = self._head.count + len(self._drafts)

    @property
    def drafts(self) -> int:
        """How many ledger rows there are to seal."""
        return len(self._drafts)

    def seal(self, last: datetime | None) -> Changes:
        """Chain what happened and return everything to write."""
        rows = seal(self.tenant, self._drafts, self._head.count, self._head.hash)
        head = Head(rows[-1].seq, rows[-1].hash, last) if rows else self._head
        return Changes(
            inserted=[(self._memories[i], columns) for i, columns in self._columns.items()],
            updated=[self._memories[i] for i in self._touched],
            rows=rows,
            tombstones=[self._stones[i] for i in self._new_stones],
            outcomes=list(self._new_outcomes),
            head=head,
            history=self._history,
            closed=list(self._chains.closed.values()),
            dropped=list(self._chains.dropped.values()),
            opened=list(self._chains.opened.values()),
        )


def _add(index: Index[K], key: K, ident: str) -> None:
    ids = index.get(key)
    if ids is None:
        index[key] = (ident,)
    elif ident not in ids:
        index[key] = (*ids, ident)


def _drop(index: Index[K], key: K, ident: str) -> None:
    index[key] = tuple(other for other in index[key] if other != ident)


def _inserted_fields(record: Record, now: str) -> Record:
    """Return what the ledger must say of a new memory for replay to rebuild it."""
    fields = {name: record[name] for name in _ALWAYS}
    fields["confidence"] = repr(record["confidence"])
    for name, implied in _IMPLIED:
        value = record[name]
        if value != implied:
            fields[name] = value
    for name in ("created_at", "updated_at"):
        if record[name] != now:
            fields[name] = record[name]
    return fields


_ALWAYS: Final = ("content", "content_hash", "value_digest", "session_id", "actor", "valid_from")
_IMPLIED: Final = (
    ("kind", "fact"),
    ("scope", ""),
    ("key", None),
    ("thread_id", None),
    ("source", None),
    ("origin", "owner"),
    ("sensitivity", "internal"),
    ("held_status", None),
    ("code", None),
    ("depends_on", "[]"),
    ("metadata", "{}"),
    ("valid_to", None),
    ("expires_at", None),
    ("retracted_at", None),
    ("retraction_reason", None),
    ("version", 1),
    ("retracted_during", "[]"),
    ("displaces", "[]"),
    ("many", 0),
)
"""What a new memory's ledger row leaves out, and what that means."""
