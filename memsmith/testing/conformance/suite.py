"""All parts of the suite in one class."""

from __future__ import annotations

from typing import Any

from memsmith.testing.conformance.as_of import PastReads
from memsmith.testing.conformance.chaining import Chaining
from memsmith.testing.conformance.committing import Committing
from memsmith.testing.conformance.confirming import Confirming
from memsmith.testing.conformance.governing import Governing
from memsmith.testing.conformance.holding import Holding, Isolation
from memsmith.testing.conformance.listing import Listing
from memsmith.testing.conformance.past_lists import PastLists
from memsmith.testing.conformance.recording import Recording
from memsmith.testing.conformance.remembering import Remembering
from memsmith.testing.conformance.reopening import Reopening
from memsmith.testing.conformance.timing import Timing


class BackendConformance(
    Committing,
    Holding,
    Isolation,
    Listing,
    Recording,
    Remembering,
    Governing,
    Timing,
    Chaining,
    Confirming,
    PastReads,
    PastLists,
    Reopening,
):
    """Subclass it, say how a backend is made, and pytest runs the suite on it.

    Parts that a backend's flags exclude are not collected at all.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        excluded = [
            part for part, out in ((Reopening, not cls.persistent), (Isolation, cls.dirty_reads)) if out
        ]
        for part in excluded:
            for name in vars(part):
                if name.startswith("test_"):
                    setattr(cls, name, None)
