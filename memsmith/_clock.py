"""Time as text and back: UTC, fixed width, microseconds, so that text order is time order."""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from memsmith.errors import ArgumentError, NaiveDatetimeError

MICROSECOND = timedelta(microseconds=1)

TOO_LATE = 9000
"""What a clock may not show: a lifetime of up to a thousand years can begin at any moment before."""

LAST = datetime.max.replace(tzinfo=UTC)
"""Stands for an open end where ends are compared, so it is no moment that can be named."""


def utc_now() -> datetime:
    """Return the current instant, aware, in UTC."""
    return datetime.now(UTC)


def checked(clock: Callable[[], datetime]) -> Callable[[], datetime]:
    """Return a clock whose readings are aware, in UTC, and leave room for lifetimes that begin then."""
    if clock is utc_now:
        return clock
    if not callable(clock):
        raise ArgumentError("clock", "a callable that gives the current time", clock)

    def read() -> datetime:
        moment = require_aware("clock", clock())
        if moment.year >= TOO_LATE:
            raise ArgumentError("clock", f"a time before the year {TOO_LATE}", moment)
        return moment

    return read


def next_time(now: datetime, last: datetime | None) -> datetime:
    """Return the system time of what happens at `now` after `last`, whatever the clock says."""
    return now if last is None else max(now, last + MICROSECOND)


def to_text(moment: datetime) -> str:
    """Format an aware UTC datetime as ``2026-03-01T09:30:00.000000Z`` (27 characters)."""
    global _latest
    latest, text = _latest
    if moment is not latest:
        text = moment.isoformat(timespec="microseconds")[:26] + "Z"
        _latest = (moment, text)
    return text


_latest: tuple[datetime | None, str] = (None, "")
"""The moment formatted last: a unit stamps all its rows with one and the same object."""


def from_text(text: str) -> datetime:
    """Parse what :func:`to_text` wrote."""
    return datetime.fromisoformat(text)


def require_aware(argument: str, moment: datetime) -> datetime:
    """Return `moment` in UTC; a naive or non-datetime value is refused by the argument's name.

    So is the last microsecond that a datetime can hold: after it nothing can end.
    """
    if not isinstance(moment, datetime) or moment.utcoffset() is None:  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are untyped
        raise NaiveDatetimeError(argument, moment)
    try:
        instant = moment.astimezone(UTC)
    except OverflowError:
        raise ArgumentError(argument, "a time in the years 1 to 9999 of UTC", moment) from None
    if instant == LAST:
        raise ArgumentError(argument, "a time before the last microsecond of the year 9999", moment)
    return instant


def require_seconds(argument: str, value: object) -> float:
    """Return a length of time in seconds, above 0 and finite."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ArgumentError(argument, "a finite number of seconds above 0", value)
    return value
