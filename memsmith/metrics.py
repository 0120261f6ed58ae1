"""What the library measures, and where the numbers go.

The names below are the whole list. A store is given a sink (`metrics=`); the default does nothing.
Durations are in seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal
from weakref import WeakKeyDictionary

from memsmith.errors import ArgumentError, MissingExtraError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Histogram

    from memsmith.protocols import Metrics

logger = logging.getLogger("memsmith")

PROPOSALS: Final = "memsmith_proposals_total"
TRANSITIONS: Final = "memsmith_transitions_total"
BUSY: Final = "memsmith_busy_total"
HOOK_ERRORS: Final = "memsmith_hook_errors_total"
VALIDATOR_SECONDS: Final = "memsmith_validator_seconds"
COMMIT_SECONDS: Final = "memsmith_commit_seconds"
GROUP_SIZE: Final = "memsmith_group_size"


@dataclass(frozen=True)
class Metric:
    """One metric: `buckets` are a histogram's upper bounds, smallest first."""

    kind: Literal["counter", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


METRICS: Final[Mapping[str, Metric]] = MappingProxyType(
    {
        PROPOSALS: Metric("counter", "Proposals decided, by outcome.", ("outcome",)),
        TRANSITIONS: Metric("counter", "Transitions recorded, by action.", ("action",)),
        BUSY: Metric("counter", "Commits given up because the storage stayed busy."),
        HOOK_ERRORS: Metric("counter", "Hooks that raised."),
        VALIDATOR_SECONDS: Metric(
            "histogram",
            "Time a validator took to judge one proposal.",
            ("validator",),
            # From a check in memory to one that asks a service, up to the default timeout of 10 s.
            (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0),
        ),
        COMMIT_SECONDS: Metric(
            "histogram",
            "Time from sending a group of units to the backend until it was durable.",
            (),
            (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0),
        ),
        GROUP_SIZE: Metric(
            "histogram",
            "Units that were written in one commit.",
            (),
            (1, 2, 4, 8, 16, 32, 64, 128, 256),
        ),
    }
)
"""Every metric by name. Labels hold names from closed sets, never ids or content."""


class NullMetrics:
    """A sink that keeps nothing."""

    def count(self, name: str, value: float = 1, /, **labels: str) -> None:
        """Do nothing."""

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        """Do nothing."""


class GuardedMetrics:
    """Passes everything on to a sink; what the sink raises is logged, for by then it was committed."""

    def __init__(self, sink: Metrics) -> None:
        self._sink = sink

    def count(self, name: str, value: float = 1, /, **labels: str) -> None:
        """Add `value` to a counter of the sink."""
        try:
            self._sink.count(name, value, **labels)
        except Exception:  # numbers are not worth a call that failed
            logger.exception("The metrics sink raised for %s", name)

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        """Record one value in a histogram of the sink."""
        try:
            self._sink.observe(name, value, **labels)
        except Exception:  # numbers are not worth a call that failed
            logger.exception("The metrics sink raised for %s", name)


class PrometheusMetrics:
    """A sink that feeds a prometheus_client registry, its default one unless given another.

    Sinks on one registry share its collectors, so each store may have its own.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        try:
            import prometheus_client  # an optional dependency, and slow to load
        except ImportError as error:
            raise MissingExtraError("prometheus", "PrometheusMetrics") from error
        self._counters, self._histograms = _collectors(
            prometheus_client.REGISTRY if registry is None else registry
        )

    def count(self, name: str, value: float = 1, /, **labels: str) -> None:
        """Add `value` to a counter of the table; other names or labels raise ArgumentError."""
        counter = self._counters.get(name)
        if counter is None:
            raise ArgumentError("name", "a counter of memsmith.metrics", name)
        _require_labels(name, labels)
        (counter.labels(**labels) if labels else counter).inc(value)

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        """Record one value in a histogram of the table; other names or labels raise ArgumentError."""
        histogram = self._histograms.get(name)
        if histogram is None:
            raise ArgumentError("name", "a histogram of memsmith.metrics", name)
        _require_labels(name, labels)
        (histogram.labels(**labels) if labels else histogram).observe(value)


_Collectors = tuple[dict[str, "Counter"], dict[str, "Histogram"]]

_registered: Final[WeakKeyDictionary[CollectorRegistry, _Collectors]] = WeakKeyDictionary()
_registering: Final = Lock()


def _collectors(registry: CollectorRegistry) -> _Collectors:
    # A registry refuses a name it has, and has no public way to ask for its collector.
    with _registering:
        known = _registered.get(registry)
        if known is None:
            known = _registered[registry] = _register(registry)
        return known


def _register(registry: CollectorRegistry) -> _Collectors:
    from prometheus_client import Counter, Histogram

    counters: dict[str, Counter] = {}
    histograms: dict[str, Histogram] = {}
    for name, metric in METRICS.items():
        if metric.kind == "counter":
            counters[name] = Counter(name, metric.help, metric.labels, registry=registry)
        else:
            histograms[name] = Histogram(
                name, metric.help, metric.labels, registry=registry, buckets=metric.buckets
            )
    return counters, histograms


def _require_labels(name: str, labels: Mapping[str, str]) -> None:
    expected = METRICS[name].labels
    if set(labels) != set(expected):
        raise ArgumentError("labels", f"{', '.join(expected) or 'none'} for {name}", sorted(labels))
