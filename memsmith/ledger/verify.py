"""Checking a chain: the first bad row, and what was done to it.

A chain that holds together proves only that nobody edited it clumsily: whoever owns the file can
forge it anew or drop its tail together with the head record. So the best answer here is
SELF_CONSISTENT; VERIFIED needs something kept outside to compare with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from sys import maxsize
from typing import Final, cast

from memsmith._clock import to_text
from memsmith.ledger.entry import GENESIS, SALT_BYTES, Row, fields_hash, payload_digest, row_hash
from memsmith.lifecycle import Action
from memsmith.types import Head


class Verdict(StrEnum):
    """How much a verification can say."""

    SELF_CONSISTENT = "SELF_CONSISTENT"
    VERIFIED = "VERIFIED"
    FAILED = "FAILED"


class Fault(StrEnum):
    """What was done to the chain at its first bad row."""

    CHANGED = "changed"
    MISSING = "missing"
    REORDERED = "reordered"
    INSERTED = "inserted"
    TRUNCATED = "truncated"


@dataclass(frozen=True)
class Verification:
    """The answer of `verify()`; `seq`, `fault`, `expected` and `found` describe the first bad row."""

    verdict: Verdict
    rows: int
    head: str
    seq: int | None = None
    fault: Fault | None = None
    expected: str = ""
    found: str = ""

    @property
    def ok(self) -> bool:
        """True unless the chain failed."""
        return self.verdict is not Verdict.FAILED


_ERASE: Final = Action.ERASE.value
REACH: Final = 256
"""How many rows put in between, each chained to the one before, are traced back to the first."""


class ChainVerifier:
    """Holds rows against `head`, the head record read before them.

    Feed it the rows from the lowest number on until they end or it is `satisfied`, then ask `finish`.
    Rows numbered above the head count as new, unless the head read afterwards does not cover them.
    """

    def __init__(self, tenant: str, head: Head | None) -> None:
        self._tenant = tenant
        self._head = head
        self._rows = 0
        self._hash = GENESIS
        self._time = ""
        self._recent: deque[tuple[int, str]] = deque([(0, GENESIS)], maxlen=REACH)
        self._withheld: dict[str, int] = {}
        self._past: list[Row] = []
        self._strangers = 0
        self._highest = 0
        self._bad_payload: tuple[int, str, str] | None = None
        self._suspect: Row | None = None
        self._following: Row | None = None
        self._rightful: Row | None = None

    @property
    def satisfied(self) -> bool:
        """True once no further row could change the answer."""
        return (
            self._head is not None
            and self._rows >= self._head.count
            and self._strangers > 0
            and not self._withheld
        )

    def feed(self, rows: Iterable[Row]) -> None:
        """Check the next rows. After a bad one the rest is only searched for what became of it."""
        # Good rows come by the million, so they take the shortest way.
        end = maxsize if self._head is None else self._head.count
        for row in rows:
            if self._suspect is None and self._rows < end and self._accept(row):
                continue
            self._strangers += 1
            if _is_number(row.seq):
                self._highest = max(self._highest, row.seq)
            if self._suspect is None and self._rows >= end:
                self._pass_by(row)
                continue
            self._suspect = self._suspect or row
            self._search(row)

    def _accept(self, row: Row) -> bool:
        """Take the row if it is whole and follows its predecessor; tell whether it was taken."""
        (
            seq, ident, memory_id, action, before, after, time, actor, payload, salt, digest, previous, kept,
        ) = row  # fmt: skip
        if seq != self._rows + 1 or previous != self._hash:
            return False
        try:
            hashed = fields_hash(
                self._tenant, seq, ident, memory_id, action, before, after, time, actor, digest, previous
            )
        except TypeError:  # a value no ledger row can hold
            return False
        if hashed != kept:
            return False
        if payload is None and salt is None:
            self._withheld.setdefault(memory_id, seq)
        elif not _payload_holds(payload, salt, digest) and self._bad_payload is None:
            self._bad_payload = seq, digest, _digest_now(payload, salt)
        if self._withheld and action == _ERASE:
            self._withheld.pop(memory_id, None)
        self._rows, self._hash, self._time = seq, hashed, time
        self._recent.append((seq, hashed))
        return True

    def _pass_by(self, row: Row) -> None:
        # An erasure under way destroys payloads below the head and is recorded above it.
        self._past.append(row)
        if row.action == _ERASE:
            self._withheld.pop(row.memory_id, None)

    def _search(self, row: Row) -> None:
        if row is not self._suspect and self._following is None:
            self._following = row
        at = self._rows + 1
        if row.prev_hash == self._hash and self._is_whole(row, at):
            self._rightful = row if self._rightful is None or row.seq == at else self._rightful

    def _is_whole(self, row: Row, seq: int | None = None) -> bool:
        """Tell whether a row's hash is its own, under its number or another."""
        try:
            return row_hash(self._tenant, row if seq is None else row._replace(seq=seq)) == row.hash
        except TypeError:  # a value no ledger row can hold, such as a blob or text that is not UTF-8
            return False

    def _hash_now(self, row: Row) -> str:
        try:
            return f"hash {row_hash(self._tenant, row)}"
        except TypeError:
            return "what no ledger row can hold"

    def finish(self, later: Head | None) -> Verification:
        """Give the answer; `later` is the head record read after the last row."""
        covered = 0 if later is None else later.count
        if self._head is None and later is None:
            covered = max(self._rows, self._highest)
        broken, forged = self._chain_fault(covered), self._payload_fault()
        if broken is not None and forged is not None:
            broken = min(broken, forged, key=lambda fault: fault.seq or 0)
        return (
            broken
            or forged
            or self._head_fault(later, covered)
            or self._unexplained_erasure()
            or Verification(Verdict.SELF_CONSISTENT, self._rows, self._hash)
        )

    # -- naming the fault ---------------------------------------------------------------------

    def _chain_fault(self, covered: int) -> Verification | None:
        """Name what was done at the suspect row."""
        row = self._suspect
        if row is None:
            return None
        at = self._rows + 1
        if self._rightful is not None:
            return self._displaced(row, self._rightful, at, covered)
        if (first := self._put_between(row, at)) is not None:
            return self._failed(first, Fault.INSERTED, f"row {first} as first written", "a row before it")
        if row.seq != at:
            return self._misnumbered(row, at)
        if self._is_whole(row):
            return self._unlinked(row, at)
        if self._moved_up(row, at):
            return self._failed(at, Fault.MISSING, f"row {at}", "a later row under its number")
        return self._failed(at, Fault.CHANGED, f"hash {row.hash}", self._hash_now(row))

    def _displaced(self, row: Row, rightful: Row, at: int, covered: int) -> Verification:
        """The row that belongs at `at` is there, but `row` stands where it should."""
        if row is rightful:
            return self._failed(at, Fault.REORDERED, f"row {at}", f"it is numbered {row.seq}")
        if rightful.seq == at:
            seq = row.seq if _is_number(row.seq) else at
            return self._failed(seq, Fault.INSERTED, f"row {at}", f"a row numbered {row.seq} before it")
        if self._rows + self._strangers <= covered and self._home(row) is not None:
            return self._failed(at, Fault.REORDERED, f"row {at}", "a row from another place")
        return self._failed(at, Fault.INSERTED, f"row {at}", "a row put before it")

    def _put_between(self, row: Row, at: int) -> int | None:
        """Return the first stranger before `row`, where that is what keeps the row from its predecessor."""
        places = {known: seq for seq, known in self._recent}
        before = places.get(row.prev_hash)
        if before is None or row.hash in places or not self._is_whole(row, before + 1):
            return None
        return before + 1 if before + 1 < at else None

    def _misnumbered(self, row: Row, at: int) -> Verification:
        if _is_number(row.seq) and row.seq > at:
            return self._failed(at, Fault.MISSING, f"row {at}", f"row {row.seq}")
        seq = row.seq if _is_number(row.seq) else at
        return self._failed(seq, Fault.INSERTED, f"row {at}", f"a row numbered {row.seq}")

    def _unlinked(self, row: Row, at: int) -> Verification:
        """A row that is whole but does not follow from its predecessor: one of the two was rewritten.

        A row that its successor (or the head) vouches for is as first written, so it was the other.
        """
        successor = self._following
        vouched = self._head.hash if self._head is not None and successor is None else None
        if successor is not None:
            vouched = successor.prev_hash
        bad = max(at - 1, 1) if vouched == row.hash else at
        return self._failed(bad, Fault.CHANGED, f"hash {row.prev_hash}", f"hash {self._hash}")

    def _moved_up(self, row: Row, at: int) -> bool:
        """Tell whether `row` took the number of one that is gone, and all after it moved up."""
        home = self._home(row)
        alone = self._following is not None and self._is_whole(self._following)
        return home is not None and home > at and not alone

    def _home(self, row: Row) -> int | None:
        """Return the number under which a row is whole; only asked once a chain is known to be bad."""
        last = max(self._rows, self._highest, 0 if self._head is None else self._head.count)
        return next((seq for seq in range(1, last + 2) if self._is_whole(row, seq)), None)

    def _head_fault(self, later: Head | None, covered: int) -> Verification | None:
        """Compare with the head record a chain whose rows are all in order."""
        head = self._head
        strangers = [row for row in self._past if not (_is_number(row.seq) and row.seq <= covered)]
        if strangers:
            at = self._rows + 1
            first = strangers[0].seq if _is_number(strangers[0].seq) else at
            between = [seq for row in strangers if (seq := self._put_between(row, at)) is not None]
            return self._failed(min([first, *between]), Fault.INSERTED, f"{covered} rows", "a row more")
        if head is None:
            if self._rows and later is None:
                return self._failed(self._rows, Fault.MISSING, f"a head record of row {self._rows}", "none")
            return None
        if head.count > self._rows:
            lost = self._rows + 1
            return self._failed(lost, Fault.TRUNCATED, f"{head.count} rows", f"{self._rows} rows")
        kept = (head.hash, "" if head.time is None else to_text(head.time))
        if kept != (self._hash, self._time):
            at = max(self._rows, 1)
            return self._failed(at, Fault.CHANGED, f"a head record of row {at}", f"{kept[0]} at {kept[1]}")
        return None

    def _payload_fault(self) -> Verification | None:
        if self._bad_payload is None:
            return None
        seq, digest, now = self._bad_payload
        return self._failed(seq, Fault.CHANGED, f"a payload with digest {digest}", now)

    def _unexplained_erasure(self) -> Verification | None:
        if not self._withheld:
            return None
        seq = min(self._withheld.values())
        return self._failed(seq, Fault.CHANGED, "a payload, or a later erasure of it", "neither")

    def _failed(self, seq: int, fault: Fault, expected: str, found: str) -> Verification:
        return Verification(Verdict.FAILED, self._rows, self._hash, seq, fault, expected, found)


def _payload_holds(payload: str | None, salt: str | None, digest: str) -> bool:
    """Tell whether payload and salt are those whose digest is hashed; half an erasure is none."""
    if not isinstance(payload, str) or not isinstance(salt, str):
        return False
    try:
        return (
            salt == salt.lower() and len(salt) == 2 * SALT_BYTES and payload_digest(salt, payload) == digest
        )
    except ValueError:
        return False


def _digest_now(payload: object, salt: object) -> str:
    try:
        digest = payload_digest(cast(str, salt), cast(str, payload))
    except (AttributeError, TypeError, ValueError):
        return "none that can be read with its salt"
    return f"one with digest {digest}"


def _is_number(seq: object) -> bool:
    """Tell whether a row's number is one; SQLite keeps text and fractions in integer columns."""
    return isinstance(seq, int)
