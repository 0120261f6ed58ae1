"""What was effective on a key, laid out on both axes of time: what `plot` and `page` draw. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Final

from memsmith._clock import to_text
from memsmith.temporal import until
from memsmith.types import Interval, Memory, MemoryStatus, Rectangle, Version

S = MemoryStatus

SIGNS: Final = ascii_uppercase + ascii_lowercase + digits
MANY: Final = "#"
"""Stands for every memory that is left when the signs are used up."""

MOST: Final = 20
"""Rows and columns that are drawn: more are hard to read."""


@dataclass(frozen=True)
class Drawing:
    """Rectangles over columns of valid time and rows of system time.

    Columns and rows begin at the moments where something changes, so they are not to scale. `tracks`
    keeps apart what holds at once, as on a key with many values.
    """

    pieces: Sequence[Rectangle]
    memories: Mapping[str, Memory]
    signs: Mapping[str, str]
    columns: Sequence[datetime]
    rows: Sequence[datetime]
    tracks: Mapping[str, int]
    now: datetime
    holds: Mapping[str, Sequence[Interval]]
    """Where each memory holds as believed in the last row."""
    earlier_rows: int = 0
    earlier_columns: int = 0
    """How many there are before the first that is drawn."""

    @property
    def depth(self) -> int:
        """How many tracks there are."""
        return max(self.tracks.values(), default=0) + 1

    def line(self, row: datetime, track: int = 0) -> list[str | None]:
        """Return what holds in each column, as believed from the beginning of a row on."""
        believed = [
            piece
            for piece in self.pieces
            if self.tracks[piece.memory_id] == track and piece.system_from <= row < until(piece.system_to)
        ]
        return [
            next((p.memory_id for p in believed if p.valid_from <= at < until(p.valid_to)), None)
            for at in self.columns
        ]


def drawing_of(
    rectangles: Iterable[Rectangle],
    versions: Sequence[Version],
    now: datetime,
    *,
    system_at: datetime | None = None,
    most: int = MOST,
) -> Drawing | None:
    """Return the drawing of a key's rectangles, as far as known at `system_at`; None if there is nothing.

    It shows what reads answer at each point: nothing of what is quarantined by now.

    `versions` are those of its memories. Of more than `most` rows, or columns, the last are drawn.
    """
    hidden = {version.memory.id for version in versions if _out_of_sight(version)}
    seen = [rectangle for rectangle in rectangles if rectangle.memory_id not in hidden]
    of: dict[str, list[Version]] = {}
    for version in versions:
        of.setdefault(version.memory.id, []).append(version)
    pieces = [cut for rectangle in seen for cut in _alive(rectangle, of[rectangle.memory_id])]
    if system_at is not None:
        pieces = [_known(piece, system_at) for piece in pieces if piece.system_from <= system_at]
    if not pieces:
        return None
    pieces.sort(key=lambda piece: (piece.system_from, piece.valid_from, piece.memory_id))
    rows = _moments((piece.system_from, piece.system_to) for piece in pieces)
    shown_rows = rows[-most:]
    shown = [piece for piece in pieces if until(piece.system_to) > shown_rows[0]]
    columns = _moments((piece.valid_from, piece.valid_to) for piece in shown)
    if columns and now > columns[0]:
        columns = sorted({*columns, now})
    shown_columns = columns[-most:]
    shown = [piece for piece in shown if until(piece.valid_to) > shown_columns[0]]
    ids = dict.fromkeys(piece.memory_id for piece in shown)
    return Drawing(
        shown,
        _memories(ids, versions, system_at),
        {ident: SIGNS[at] if at < len(SIGNS) else MANY for at, ident in enumerate(ids)},
        shown_columns,
        shown_rows,
        _tracks(shown),
        now,
        {ident: _held(ident, pieces, rows[-1]) for ident in ids},
        len(rows) - len(shown_rows),
        len(columns) - len(shown_columns),
    )


def _out_of_sight(version: Version) -> bool:
    """Tell whether this is how a memory is now, and reads see it at no point of time."""
    return version.system_to is None and version.memory.status in {S.QUARANTINED, S.ERASED}


def _moments(intervals: Iterable[tuple[datetime, datetime | None]]) -> list[datetime]:
    return sorted({moment for interval in intervals for moment in interval if moment is not None})


def _held(ident: str, pieces: Sequence[Rectangle], row: datetime) -> list[Interval]:
    return sorted(
        Interval(piece.valid_from, piece.valid_to)
        for piece in pieces
        if piece.memory_id == ident and piece.system_from <= row < until(piece.system_to)
    )


def _alive(rectangle: Rectangle, versions: Sequence[Version]) -> list[Rectangle]:
    """Return a rectangle without what lies past its memory's lifetime, as believed when."""
    found: list[Rectangle] = []
    for version in versions:
        start = max(rectangle.system_from, version.system_from)
        end = min(until(rectangle.system_to), until(version.system_to))
        lived = min(until(rectangle.valid_to), until(version.memory.expires_at))
        if start >= end or lived <= rectangle.valid_from:
            continue
        piece = Rectangle(
            rectangle.memory_id, rectangle.valid_from, None if lived == until(None) else lived,
            start, None if end == until(None) else end,
        )  # fmt: skip
        last = found[-1] if found else None
        if last is not None and (last.valid_to, last.system_to) == (piece.valid_to, piece.system_from):
            found[-1] = replace(last, system_to=piece.system_to)
        else:
            found.append(piece)
    return found


def _known(piece: Rectangle, moment: datetime) -> Rectangle:
    return replace(piece, system_to=None) if until(piece.system_to) > moment else piece


def _memories(
    ids: Iterable[str], versions: Sequence[Version], system_at: datetime | None
) -> dict[str, Memory]:
    newest: dict[str, Memory] = {}
    for version in sorted(versions, key=lambda version: version.system_from):
        if system_at is None or version.system_from <= system_at:
            newest[version.memory.id] = version.memory
    return {ident: newest[ident] for ident in ids}


def _tracks(pieces: Sequence[Rectangle]) -> dict[str, int]:
    """Give each memory the first track on which it meets no other."""
    tracks: dict[str, int] = {}
    taken: list[list[Rectangle]] = []
    for ident in dict.fromkeys(piece.memory_id for piece in pieces):
        own = [piece for piece in pieces if piece.memory_id == ident]
        free = (at for at, others in enumerate(taken) if not any(_meet(a, b) for a in own for b in others))
        track = next(free, len(taken))
        if track == len(taken):
            taken.append([])
        taken[track] += own
        tracks[ident] = track
    return tracks


def _meet(a: Rectangle, b: Rectangle) -> bool:
    return (
        a.valid_from < until(b.valid_to)
        and b.valid_from < until(a.valid_to)
        and a.system_from < until(b.system_to)
        and b.system_from < until(a.system_to)
    )


def labels_of(moments: Sequence[datetime]) -> list[str]:
    """Return moments as text, as short as tells them apart."""
    for length, end in _LENGTHS:
        texts = [f"{to_text(moment)[:length].replace('T', ' ')}{end}" for moment in moments]
        if len(set(texts)) == len(texts):
            return texts
    return [to_text(moment) for moment in moments]


_LENGTHS: Final = ((10, ""), (16, "Z"), (19, "Z"))
"""To the day, the minute, the second."""


def moment_label(moment: datetime) -> str:
    """Return a moment as text, without what is zero in it."""
    text = to_text(moment).replace("T", " ")
    for zeros in (".000000Z", ":00Z", " 00:00Z"):
        if not text.endswith(zeros):
            break
        text = text.removesuffix(zeros) + ("" if zeros == " 00:00Z" else "Z")
    return text


def interval_label(interval: Interval) -> str:
    """Return an interval as text."""
    end = "…" if interval.end is None else moment_label(interval.end)
    return f"{moment_label(interval.start)} → {end}"
