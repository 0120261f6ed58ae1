import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

from memsmith.errors import ArgumentError, MissingExtraError
from memsmith.metrics import (
    BUSY,
    COMMIT_SECONDS,
    GROUP_SIZE,
    HOOK_ERRORS,
    METRICS,
    PROPOSALS,
    TRANSITIONS,
    VALIDATOR_SECONDS,
    NullMetrics,
    PrometheusMetrics,
)
from memsmith.protocols import Metrics


def exposed(registry: CollectorRegistry) -> list[str]:
    return generate_latest(registry).decode().splitlines()


def test_counters_are_exposed_with_their_labels() -> None:
    registry = CollectorRegistry()
    metrics: Metrics = PrometheusMetrics(registry)
    metrics.count(PROPOSALS, outcome="accepted")
    metrics.count(PROPOSALS, 2, outcome="rejected")
    metrics.count(TRANSITIONS, action="confirmed")
    metrics.count(HOOK_ERRORS)
    metrics.count(BUSY, 3)
    lines = exposed(registry)
    assert 'memsmith_proposals_total{outcome="accepted"} 1.0' in lines
    assert 'memsmith_proposals_total{outcome="rejected"} 2.0' in lines
    assert 'memsmith_transitions_total{action="confirmed"} 1.0' in lines
    assert "memsmith_hook_errors_total 1.0" in lines
    assert "memsmith_busy_total 3.0" in lines


def test_histograms_are_exposed_with_the_buckets_of_the_table() -> None:
    registry = CollectorRegistry()
    metrics: Metrics = PrometheusMetrics(registry)
    metrics.observe(VALIDATOR_SECONDS, 0.02, validator="SchemaCheck")
    metrics.observe(COMMIT_SECONDS, 0.004)
    metrics.observe(GROUP_SIZE, 3)
    lines = exposed(registry)
    assert 'memsmith_validator_seconds_bucket{le="0.05",validator="SchemaCheck"} 1.0' in lines
    assert 'memsmith_validator_seconds_bucket{le="0.01",validator="SchemaCheck"} 0.0' in lines
    assert 'memsmith_commit_seconds_bucket{le="0.005"} 1.0' in lines
    assert 'memsmith_group_size_bucket{le="2.0"} 0.0' in lines
    assert 'memsmith_group_size_bucket{le="4.0"} 1.0' in lines
    assert "memsmith_group_size_sum 3.0" in lines


def test_every_metric_of_the_table_is_registered_with_its_help() -> None:
    registry = CollectorRegistry()
    PrometheusMetrics(registry)
    lines = exposed(registry)
    for name, metric in METRICS.items():
        assert f"# HELP {name} {metric.help}" in lines
        assert f"# TYPE {name} {metric.kind}" in lines


def test_names_follow_the_conventions_and_buckets_rise() -> None:
    for name, metric in METRICS.items():
        assert name.startswith("memsmith_")
        assert name.endswith("_total") is (metric.kind == "counter")
        assert list(metric.buckets) == sorted(set(metric.buckets))
        assert bool(metric.buckets) is (metric.kind == "histogram")


def test_two_sinks_on_one_registry_add_up() -> None:
    registry = CollectorRegistry()
    PrometheusMetrics(registry).count(BUSY)
    PrometheusMetrics(registry).count(BUSY)
    assert registry.get_sample_value(BUSY) == 2


def test_two_registries_are_kept_apart() -> None:
    one, other = CollectorRegistry(), CollectorRegistry()
    PrometheusMetrics(one).count(BUSY)
    PrometheusMetrics(other)
    assert other.get_sample_value(BUSY) == 0


def test_the_default_registry_is_the_clients_own() -> None:
    metrics = PrometheusMetrics()
    before = REGISTRY.get_sample_value(BUSY)
    assert before is not None
    metrics.count(BUSY)
    assert REGISTRY.get_sample_value(BUSY) == before + 1


@pytest.mark.parametrize(
    ("verb", "name", "labels", "message"),
    [
        ("count", "memsmith_other_total", {}, "name: expected a counter"),
        ("count", GROUP_SIZE, {}, "name: expected a counter"),
        ("observe", BUSY, {}, "name: expected a histogram"),
        ("count", BUSY, {"why": "busy"}, f"labels: expected none for {BUSY}, found \\['why'\\]"),
        ("count", PROPOSALS, {"who": "x"}, "labels: expected outcome"),
        ("count", PROPOSALS, {}, "labels: expected outcome"),
        ("observe", VALIDATOR_SECONDS, {}, "labels: expected validator"),
    ],
)
def test_what_is_not_in_the_table_is_refused(
    verb: str, name: str, labels: dict[str, str], message: str
) -> None:
    metrics = PrometheusMetrics(CollectorRegistry())
    with pytest.raises(ArgumentError, match=message):
        getattr(metrics, verb)(name, 1, **labels)


def test_the_null_sink_takes_anything() -> None:
    metrics: Metrics = NullMetrics()
    metrics.count(PROPOSALS, outcome="accepted")
    metrics.observe("anything", -1)


def test_a_missing_client_is_said_at_construction_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingExtraError, match=r"PrometheusMetrics .* pip install 'memsmith\[prometheus\]'"):
        PrometheusMetrics()


def test_the_client_is_loaded_only_when_a_sink_is_made() -> None:
    code = "import sys, memsmith.metrics; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@settings(deadline=None)
@given(st.lists(st.floats(min_value=0, max_value=20)))
def test_the_count_of_a_histogram_is_the_number_of_observations(values: list[float]) -> None:
    registry: Any = CollectorRegistry()
    metrics = PrometheusMetrics(registry)
    for value in values:
        metrics.observe(COMMIT_SECONDS, value)
    assert registry.get_sample_value(f"{COMMIT_SECONDS}_count") == len(values)
