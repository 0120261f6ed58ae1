"""A clock that moves when told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from memsmith._clock import require_aware

START = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


class ManualClock:
    """Stands still until it is moved, in either direction: give it to a store as ``clock=``."""

    def __init__(self, start: datetime = START) -> None:
        self._now = require_aware("start", start)

    def __call__(self) -> datetime:
        """Return the time it was last set to."""
        return self._now

    def advance(self, by: timedelta) -> datetime:
        """Move on (or back, by a negative amount) and return the new time."""
        self._now += by
        return self._now

    def set(self, moment: datetime) -> None:
        """Move to an instant."""
        self._now = require_aware("moment", moment)
