"""The demonstration's chapter on both axes of time: a fact superseded, and one that arrives late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from rich.text import Text

from memsmith.store.store import MemoryStore
from memsmith.surfaces.cli.drawing import drawing_of
from memsmith.surfaces.cli.plot import legend, plot
from memsmith.surfaces.cli.render import status_text, table_of
from memsmith.surfaces.cli.stage import Stage, claim_text, ticked
from memsmith.types import Memory, Origin, ProposalResult

KEY: Final = "atlas/on_call"
FIRST, LATE, SECOND = 60, 40, 20
"""How many days ago each one took over."""
ASKED: Final = 30
HALF_AN_HOUR: Final = timedelta(minutes=30)


@dataclass(frozen=True)
class Teller:
    """Proposes who is on call, as the agent hears of it."""

    store: MemoryStore
    session: str
    actor: str
    today: datetime

    def day(self, ago: int) -> datetime:
        """Return the midnight so many days ago."""
        return self.today - timedelta(days=ago)

    async def say(self, who: str, since: int) -> ProposalResult:
        """Propose that somebody has been on call for so many days."""
        content = {"about": "atlas", "attribute": "on call", "value": who}
        return await self.store.propose(
            content, self.session, 0.9, source="chat", origin=Origin.AGENT, key=KEY,
            valid_from=self.day(since), actor=self.actor,
        )  # fmt: skip

    async def answer(self, about: datetime, believed: datetime) -> str:
        """Return who was on call, as believed at some moment."""
        reader = self.store.as_of(valid_at=about, system_at=believed)
        found = await reader.list(field_filters={"key": KEY})
        return ", ".join(memory.content["value"] for memory in found) or "nobody"


async def change_and_arrive_late(
    stage: Stage,
    store: MemoryStore,
    session: str,
    actor: str,
    clock: Callable[[], datetime],
    wait: Callable[[timedelta], None],
) -> None:
    """Let a key's value change, learn of the past too late, and ask what was known when."""
    began = clock()
    teller = Teller(store, session, actor, began.replace(hour=0, minute=0, second=0, microsecond=0))
    stage.scene(
        "A fact changes, and one arrives late",
        "Who is on call? One key holds one value at a time, so the next one takes over.",
        "Later the agent hears of somebody in between, and that lands in the past.",
    )
    told = [await teller.say("Noor", FIRST)]
    wait(HALF_AN_HOUR)
    told.append(await teller.say("Idris", SECOND))
    before = clock()
    wait(HALF_AN_HOUR)
    told.append(await teller.say("Mei", LATE))
    memories = [memory for memory in [await store.get(r.memory_id) for r in told] if memory is not None]
    for memory, since in zip(memories, (FIRST, SECOND, LATE), strict=True):
        stage.show(memory.content["value"], memory, _line(memory, teller.day(since)))
    await _ask(stage, teller, before, clock())
    drawing = drawing_of(await store.rectangles(KEY), await store.history(key=KEY), clock())
    if drawing is not None:
        rows = [*plot(drawing, stage.width), legend(drawing, stage.width, _claim, ids=False)]
        stage.show("timeline", await store.timeline(KEY), Text(""), *rows)


def _claim(memory: Memory) -> Text:
    return claim_text(memory.content)


def _line(memory: Memory, since: datetime) -> Text:
    return ticked(claim_text(memory.content), f", since {since:%Y-%m-%d}  → ", status_text(memory.status))


async def _ask(stage: Stage, teller: Teller, before: datetime, now: datetime) -> None:
    """Ask about two days, as believed before the late message and after it."""
    table = table_of("who was on call", "as believed before it came", "as believed now")
    asked: list[dict[str, str]] = []
    for about, name in ((teller.day(ASKED), f"{ASKED} days ago"), (now, "today")):
        answers = [await teller.answer(about, believed) for believed in (before, now)]
        asked.append({"about": name, "before": answers[0], "now": answers[1]})
        changed = "bold cyan" if answers[0] != answers[1] else ""
        table.add_row(name, answers[0], Text(answers[1], changed))
    stage.show("asked", asked, table)
