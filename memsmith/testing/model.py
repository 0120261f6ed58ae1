"""The lifecycle in plain Python: what a store must do, with none of how.

This is the specification that :mod:`memsmith.testing.stateful` holds every store to. Memories are
numbered in order of creation, so are tombstones. Values that contain "wrong" are refused, confidence
below 0.5 is held. Time is counted in microseconds; each unit has its own, later than the last.

Nobody asserts here when a fact begins or ends: it holds from when it was proposed until a later one
on its key begins.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

PENDING, ACTIVE, SUPERSEDED, REJECTED, RETRACTED, EXPIRED, QUARANTINED = (
    "pending_confirmation", "active", "superseded", "rejected", "retracted", "expired", "quarantined",
)  # fmt: skip

LIVE = {PENDING, ACTIVE}
COUNTED = {ACTIVE, SUPERSEDED, EXPIRED}
ALLOWED = {
    "confirm": {PENDING},
    "reject": {PENDING, ACTIVE, SUPERSEDED, QUARANTINED},
    "retract": {PENDING, ACTIVE, SUPERSEDED, QUARANTINED},
    "revise": {PENDING, ACTIVE, SUPERSEDED},
    "update_confidence": {PENDING, ACTIVE, SUPERSEDED},
    "quarantine": {PENDING, ACTIVE, SUPERSEDED, EXPIRED},
    "release": {QUARANTINED},
}
OWNER, OWNER_ORIGIN = "owner", 3


@dataclass
class Entry:
    """One memory."""

    value: str | None
    session: str
    scope: str
    key: str | None
    confidence: float
    origin: int
    actor: str
    parents: list[int]
    expires: int | None
    status: str = ACTIVE
    held: str | None = None
    version: int = 1
    begin: int = 0
    order: int = 0
    """Counts assertions: greater than that of all asserted before, 0 while it never was."""
    displaces: tuple[Entry | None, int | None] | None = None
    """While it waits with a key: whose place it would have taken when it was held, and until when."""

    @property
    def rank(self) -> tuple[int, int]:
        """The greatest of a chain holds: who began last, or was asserted last of those."""
        return self.begin, self.order


@dataclass
class Block:
    """One tombstone."""

    value: str
    scope: str
    key: str | None
    refused: int = 0
    lifted: bool = False

    def reach(self, scope: str, key: str | None) -> str:
        """Return blocks, near (a person decides) or none, for a proposal of the same value."""
        below = self.scope in {"", scope} or scope.startswith(self.scope + "/")
        above = scope == "" or self.scope.startswith(scope + "/")
        if not (below or above) or (key is not None and self.key not in {None, key}):
            return "none"
        return "blocks" if below and key in {None, self.key} else "near"


class Refused(Exception):
    """The store must raise the error of this name, and nothing changes."""


def normal(value: str) -> str:
    """Return a value as tombstones compare it."""
    return " ".join(value.casefold().split())


@dataclass
class Model:
    """All of a store; the methods are its verbs."""

    entries: list[Entry] = field(default_factory=list[Entry])
    blocks: list[Block] = field(default_factory=list[Block])
    now: int = 0
    asserted: int = 0

    def propose(self, new: Entry, dedup: bool) -> tuple[str, int]:
        """Return the code of the result and the number of the memory it names."""
        assert new.value is not None
        new.begin = self.now
        met = [(b.reach(new.scope, new.key), b) for b in self._standing(new.value)]
        if blocking := [block for reach, block in met if reach == "blocks"]:
            blocking[0].refused += 1
            new.value = None
            return self._enter(new, REJECTED, "tombstoned")
        twin = self._twin(new) if dedup else None
        if twin is not None:
            self._endorse(self.entries[twin], new)
            return "duplicate", twin
        if "wrong" in new.value:
            return self._enter(new, REJECTED, "validation")
        before = self._before(new)
        outranked = before is not None and before.origin > new.origin
        if new.confidence < 0.5 or outranked or any(reach == "near" for reach, _ in met):
            new.displaces = self._place(new)
            return self._enter(new, PENDING, "pending")
        new.order = self._next_order()
        return self._enter(new, ACTIVE, "accepted")

    def confirm(self, n: int, actor: str, version: int | None) -> None:
        """A reviewer says yes; judged again."""
        entry = self._allowed("confirm", n)
        self._refuse("PermissionDeniedError", actor not in {OWNER} and actor == entry.actor)
        self._refuse("StaleVersionError", version not in {None, entry.version})
        self._refuse("InvalidTransitionError", self._over(entry))
        self._refuse_blocked(entry.value, entry)
        twin = self._twin(entry)
        said = twin is not None and self.entries[twin].status == ACTIVE
        changed = said or self._place(entry) != entry.displaces
        self._refuse("BaseChangedError", changed and version is None)
        self._assert(entry, origin=OWNER_ORIGIN)

    def reject(self, n: int, also: bool) -> None:
        """Never true: gone, and the value is blocked."""
        entry = self._allowed("reject", n)
        block = Block(normal(entry.value or ""), entry.scope, entry.key)
        saved = deepcopy(self)
        self.blocks.append(block)
        self._change(entry, status=RETRACTED, held=None)
        # What held before it on its key may hold again now, and say the same.
        while others := self._blocked_by(block):
            if not also:
                self.__dict__.update(saved.__dict__)
                raise Refused("TombstoneConflictError")
            for other in others:
                self._change(other, status=RETRACTED, held=None)

    def retract(self, n: int, cascade: bool) -> None:
        """Does not hold (any more)."""
        self._allowed("retract", n)
        doomed = generation = [n]
        while cascade and generation:
            below = [c for p in generation for c, e in enumerate(self.entries) if p in e.parents]
            generation = [c for c in dict.fromkeys(below) if c not in doomed]
            doomed = doomed + generation
        for i in doomed:
            if self.entries[i].status in ALLOWED["retract"]:
                self._change(self.entries[i], status=RETRACTED, held=None)

    def revise(self, n: int, value: str, version: int | None) -> None:
        """Pass all a proposal passes, under the same number."""
        entry = self._allowed("revise", n)
        self._refuse("StaleVersionError", version not in {None, entry.version})
        self._refuse_blocked(value, entry)
        self._refuse("ValidationError", "wrong" in value)
        self._refuse("ReviewRequiredError", entry.confidence < 0.5)
        self._refuse("DuplicateError", self._twin(entry, value=value) is not None)
        self._change(entry, value=value)

    def update_confidence(self, n: int, value: float) -> None:
        """Only rises."""
        entry = self._allowed("update_confidence", n)
        self._refuse("ConfidenceMonotonicityError", value <= entry.confidence)
        self._change(entry, confidence=value)

    def quarantine(self, n: int) -> None:
        """Out of every read."""
        entry = self._allowed("quarantine", n)
        self._change(entry, held=entry.status, status=QUARANTINED)

    def release(self, n: int) -> None:
        """Back to what its chain and the clock now give, unless blocked."""
        entry = self._allowed("release", n)
        status = entry.held
        if status in {ACTIVE, SUPERSEDED}:
            successor = next((e for e in self._chain(entry) if e.rank > entry.rank), None)
            status = SUPERSEDED if self._taken_over(entry, successor) else ACTIVE
        if status in LIVE:
            self._refuse_blocked(entry.value, entry)
        if status in LIVE and self._over(entry):
            status = EXPIRED
        self._change(entry, status=status, held=None)

    def lift(self, n: int) -> None:
        """The value may come back."""
        self.blocks[n].lifted = True

    def expire(self) -> int:
        """Return how many live memories ran out. They keep their place: nothing older comes back."""
        due = [e for e in self.entries if e.status in LIVE and self._over(e)]
        for entry in due:
            self._change(entry, status=EXPIRED)
        return len(due)

    def holding(self) -> list[int]:
        """Return what holds now, in order: of each key at most one."""

        def holds(e: Entry) -> bool:
            return e.status == ACTIVE and not self._over(e) and (e.key is None or self._chain(e)[-1] is e)

        return [n for n, entry in enumerate(self.entries) if holds(entry)]

    def number(self, entry: Entry | None) -> int | None:
        """Return an entry's number."""
        return next((n for n, other in enumerate(self.entries) if other is entry), None)

    # -- inside ---------------------------------------------------------------------------------

    def _allowed(self, verb: str, n: int) -> Entry:
        self._refuse("InvalidTransitionError", self.entries[n].status not in ALLOWED[verb])
        return self.entries[n]

    def _refuse(self, error: str, when: bool) -> None:
        if when:
            raise Refused(error)

    def _refuse_blocked(self, value: str | None, entry: Entry) -> None:
        for block in self._standing(value or ""):
            if block.reach(entry.scope, entry.key) == "blocks":
                block.refused += 1
                raise Refused("TombstonedError")

    def _standing(self, value: str) -> list[Block]:
        return [b for b in self.blocks if b.value == normal(value) and not b.lifted]

    def _blocked_by(self, block: Block) -> list[Entry]:
        same = [e for e in self.entries if e.status in LIVE and normal(e.value or "") == block.value]
        return [e for e in same if block.reach(e.scope, e.key) == "blocks"]

    def _others(self, entry: Entry) -> list[Entry]:
        return [e for e in self.entries if e is not entry]

    def _over(self, entry: Entry) -> bool:
        return entry.expires is not None and entry.expires <= self.now

    def _twin(self, entry: Entry, value: str | None = None) -> int | None:
        """Return who says the same already.

        On its key, who holds now, or waits to hold from a later start; of one whose time went by, only
        who began with it. Without a key, any in its session and scope.
        """
        same = [e for e in self._others(entry) if (e.scope, e.key) == (entry.scope, entry.key)]
        if entry.key is None:
            found = [e for e in same if e.status in LIVE and e.session == entry.session]
        elif entry.status == SUPERSEDED:
            begun = [e for e in self._chain(entry) if e.begin == entry.begin][-1:]
            found = [e for e in begun if e is not entry and e.status != EXPIRED]
            found += [e for e in same if e.status == PENDING and e.begin == entry.begin]
        else:
            last = self._chain(entry)[-1:]
            found = [e for e in last if e is not entry and e.status == ACTIVE]
            found += [e for e in same if e.status == PENDING and all(e.begin >= c.begin for c in last)]
        says = value or entry.value
        return self.number(next((e for e in found if e.value == says and not self._over(e)), None))

    def _endorse(self, live: Entry, again: Entry) -> None:
        if again.origin > live.origin:
            self._change(live, origin=again.origin)
            if live.status == PENDING and again.actor == OWNER:
                self._assert(live)

    def _enter(self, new: Entry, status: str, code: str) -> tuple[str, int]:
        new.status = status
        self.entries.append(new)
        self._settle(new)
        return code, len(self.entries) - 1

    def _assert(self, entry: Entry, **changes: Any) -> None:
        self._change(entry, status=ACTIVE, order=self._next_order(), displaces=None, **changes)

    def _next_order(self) -> int:
        self.asserted += 1
        return self.asserted

    def _change(self, entry: Entry, **changes: Any) -> None:
        entry.version += 1
        for name, value in changes.items():
            setattr(entry, name, value)
        self._settle(entry)

    def _chain(self, entry: Entry) -> list[Entry]:
        """Return the members on an entry's key, each taken over by the next."""
        on_key = [e for e in self.entries if e.key == entry.key is not None and e.scope == entry.scope]
        return sorted((e for e in on_key if e.order and e.status in COUNTED), key=lambda e: e.rank)

    def _before(self, entry: Entry) -> Entry | None:
        """Return whom a new assertion takes over from."""
        return next((e for e in reversed(self._chain(entry)) if e.begin <= entry.begin), None)

    def _place(self, entry: Entry) -> tuple[Entry | None, int | None] | None:
        """Return whom a new assertion takes over from and when the next takes over from it."""
        after = next((e.begin for e in self._chain(entry) if e.begin > entry.begin), None)
        return None if entry.key is None else (self._before(entry), after)

    def _taken_over(self, member: Entry, successor: Entry | None) -> bool:
        # Whose time ran out before is for a sweep to expire.
        return successor is not None and (member.expires is None or successor.begin < member.expires)

    def _settle(self, entry: Entry) -> None:
        """Let statuses follow from the chain: the last is ACTIVE, the others SUPERSEDED."""
        chain = self._chain(entry)
        for member, successor in zip_longest(chain, chain[1:]):
            if member.status == ACTIVE and self._taken_over(member, successor):
                self._change(member, status=SUPERSEDED)
            elif member.status == SUPERSEDED and successor is None:
                self._change(member, status=ACTIVE)
