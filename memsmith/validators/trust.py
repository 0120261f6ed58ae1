"""Weigh a proposal by where it comes from."""

from __future__ import annotations

from collections.abc import Mapping

from memsmith.errors import ArgumentError
from memsmith.types import Memory, Origin, ValidationResult
from memsmith.validators._base import SyncValidator, require_share


class SourceTrust(SyncValidator):
    """Holds, or refuses, what trust × confidence puts below a line.

    ::

        SourceTrust({"user": 1.0, "web": 0.3}, origins={Origin.TOOL: 0.5}, hold_below=0.5)

    `baselines` are by source label, compared exactly; `origins` by origin; `default` counts where
    neither names the proposal. A label is what the proposer claims, an origin is what it is: where
    both are named the lower one counts, so that no label raises what an origin is worth.

    A score below `hold_below` waits for a person, one below `refuse_below` is refused.
    """

    def __init__(
        self,
        baselines: Mapping[str, float],
        *,
        origins: Mapping[Origin, float] | None = None,
        default: float = 0.5,
        hold_below: float = 0.5,
        refuse_below: float = 0.0,
    ) -> None:
        self._baselines = _baselines(baselines)
        self._origins = {
            _origin(origin): require_share(f"origins[{str(origin)!r}]", trust)
            for origin, trust in (origins or {}).items()
        }
        self._default = require_share("default", default)
        self._hold_below = require_share("hold_below", hold_below)
        self._refuse_below = require_share("refuse_below", refuse_below)
        if self._refuse_below > self._hold_below:
            raise ArgumentError("refuse_below", f"at most hold_below ({hold_below})", refuse_below)

    def trust(self, memory: Memory) -> float:
        """Return how much the memory's source and origin are trusted, from 0 to 1."""
        named: list[float] = []
        if memory.source is not None and memory.source in self._baselines:
            named.append(self._baselines[memory.source])
        if memory.origin in self._origins:
            named.append(self._origins[memory.origin])
        return min(named, default=self._default)

    def check(self, memory: Memory) -> ValidationResult:
        """Compare trust × confidence with the two lines."""
        trust = self.trust(memory)
        score = trust * memory.confidence
        if score >= self._hold_below:
            return ValidationResult(passed=True)
        refused = score < self._refuse_below
        line = f"refuse_below {self._refuse_below}" if refused else f"hold_below {self._hold_below}"
        return ValidationResult(
            passed=False,
            errors=[f"trust {trust:g} × confidence {memory.confidence:g} is {score:.3g}, under {line}"],
            critical=refused,
        )


def _baselines(given: Mapping[str, float]) -> dict[str, float]:
    if not isinstance(given, Mapping) or not all(isinstance(label, str) for label in given):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not be typed
        raise ArgumentError("baselines", "a mapping of source labels to trust", given)
    return {label: require_share(f"baselines[{label!r}]", trust) for label, trust in given.items()}


def _origin(given: Origin | str) -> Origin:
    try:
        return Origin(given)
    except ValueError as error:
        raise ArgumentError("origins", f"one of {', '.join(o.value for o in Origin)}", given) from error
