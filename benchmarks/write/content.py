"""What is proposed: made up, realistic in size, and the same in every run."""

from __future__ import annotations

import random
from typing import Any

_ATTRIBUTES = ("lives_in", "works_at", "prefers", "speaks", "allergic_to", "birthday", "manager", "deadline")
_TEXT = (
    "the user said in the morning call that this holds since last spring and asked to keep it in mind when "
    "planning trips meetings or dinners with the team unless somebody from the family tells otherwise before "
    "summer according to a message forwarded by their assistant on the second day of the project review"
)
_WORDS = _TEXT.split()


def contents(count: int, seed: int) -> list[dict[str, Any]]:
    """Return `count` different contents with notes of about 120 characters."""
    source = random.Random(seed)
    return [
        {
            "attribute": source.choice(_ATTRIBUTES),
            "value": f"{source.choice(_WORDS)} {seed}-{number}",
            "note": " ".join(source.choices(_WORDS, k=23)),
        }
        for number in range(count)
    ]
