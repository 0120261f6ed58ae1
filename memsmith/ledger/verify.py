"""Checking a chain: the first bad row, and what was done to it.

A chain that holds together proves only that nobody edited it clumsily: whoever owns the file can
forge it anew or drop its tail together with the head record. So the best answer here is
SELF_CONSISTENT; VERIFIED needs something kept outside to compare with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from memsmith.ledger.entry import GENESIS, Row, payload_digest, row_hash
from memsmith.lifecycle import Action
from memsmith.types import Head


class Verdict(str, Enum):
    """How much a verification can say."""

    SELF_CONSISTENT = "SELF_CONSISTENT"
    VERIFIED = "VERIFIED"
    FAILED = "FAILED"


class Fault(str, Enum):
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


class ChainVerifier:
    """Feed it the rows in order of seq, then ask `finish` with the head record."""

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant
        self._rows = 0
        self._hash = GENESIS
        self._failure: Verification | None = None
        self._pending: Row | None = None
        self._withheld: dict[str, int] = {}
        self._erased: set[str] = set()

    @property
    def failed(self) -> bool:
        """True once a bad row was found and its kind is known."""
        return self._failure is not None

    def feed(self, rows: Iterable[Row]) -> None:
        """Check the next rows; after the first bad one the rest is not looked at."""
        if self._failure is not None:
            return
        for row in rows:
            if self._pending is not None:
                self._failure = self._broken_link(self._pending, row)
                return
            self._check(row)
            if self._failure is not None:
                return

    def _check(self, row: Row) -> None:
        expected_seq = self._rows + 1
        if row.seq != expected_seq:
            self._fail(expected_seq, Fault.MISSING, f"row {expected_seq}", f"row {row.seq}")
            return
        if row.payload is None or row.salt is None:
            self._withheld.setdefault(row.memory_id, row.seq)
        elif payload_digest(row.salt, row.payload) != row.payload_digest:
            self._fail(row.seq, Fault.CHANGED, f"payload digest {row.payload_digest}", "another payload")
            return
        actual = row_hash(self._tenant, row)
        if actual != row.hash:
            self._failure = self._diagnose(row, actual)
            return
        if row.prev_hash != self._hash:
            # Whether this row is a stranger or its predecessor is gone shows in the next one.
            self._pending = row
            return
        if row.action == Action.ERASE.value:
            self._erased.add(row.memory_id)
        self._rows = row.seq
        self._hash = row.hash

    def _diagnose(self, row: Row, actual: str) -> Verification:
        """Name the fault of a row whose hash is not its own: would it be whole at another place?"""
        at = self._rows + 1
        if row_hash(self._tenant, row._replace(seq=row.seq + 1)) == row.hash:
            return self._failed(at, Fault.MISSING, f"row {at}", f"row {at + 1} under its number")
        if row.seq > 1 and row_hash(self._tenant, row._replace(seq=row.seq - 1)) == row.hash:
            if row.prev_hash == self._hash:
                return self._failed(at, Fault.INSERTED, f"row {at - 1} before it", "a row put in between")
            return self._failed(
                at - 1, Fault.INSERTED, f"row {at - 1} as first written", "a row put in its place"
            )
        if row.prev_hash != self._hash and self._moved(row):
            return self._failed(at, Fault.REORDERED, f"row {at}", "a row from another place")
        return self._failed(at, Fault.CHANGED, f"hash {row.hash}", f"hash {actual}")

    def _moved(self, row: Row, reach: int = 100_000) -> bool:
        """Tell whether the row is whole under some other number; only asked once a row is bad."""
        return any(
            row_hash(self._tenant, row._replace(seq=seq)) == row.hash
            for seq in range(1, max(self._rows, row.seq) + reach)
        )

    def _broken_link(self, row: Row, following: Row | None) -> Verification:
        """Name the fault of a row that is whole but does not follow from its predecessor."""
        if following is not None and following.prev_hash == self._hash:
            return self._failed(row.seq, Fault.INSERTED, f"previous hash {self._hash}", row.prev_hash)
        return self._failed(row.seq, Fault.CHANGED, f"previous hash {self._hash}", row.prev_hash)

    def finish(self, head: Head | None) -> Verification:
        """Compare what was fed with the head record and give the answer."""
        if self._failure is None and self._pending is not None:
            self._failure = self._broken_link(self._pending, None)
        if self._failure is None:
            self._failure = self._against_head(head) or self._unexplained_erasure()
        return self._failure or Verification(Verdict.SELF_CONSISTENT, self._rows, self._hash)

    def _against_head(self, head: Head | None) -> Verification | None:
        if head is None:
            if not self._rows:
                return None
            return self._failed(self._rows, Fault.TRUNCATED, "a head record", "none")
        if head.count > self._rows:
            lost = self._rows + 1
            return self._failed(lost, Fault.TRUNCATED, f"{head.count} rows", f"{self._rows} rows")
        if head.count < self._rows:
            return self._failed(head.count + 1, Fault.INSERTED, f"{head.count} rows", f"{self._rows} rows")
        if head.hash != self._hash:
            return self._failed(self._rows or None, Fault.CHANGED, f"head hash {head.hash}", self._hash)
        return None

    def _unexplained_erasure(self) -> Verification | None:
        for memory_id, seq in self._withheld.items():
            if memory_id not in self._erased:
                return self._failed(seq, Fault.CHANGED, "a payload, or an erasure of it", "neither")
        return None

    def _fail(self, seq: int, fault: Fault, expected: str, found: str) -> None:
        self._failure = self._failed(seq, fault, expected, found)

    def _failed(self, seq: int | None, fault: Fault, expected: str, found: str) -> Verification:
        return Verification(Verdict.FAILED, self._rows, self._hash, seq, fault, expected, found)
