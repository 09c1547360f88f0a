from threading import Thread
from typing import Any

from msgspec import structs
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from agent_resolver.schema import Descriptor, Outcome, Rules
from agent_resolver.telemetry import MOST_WAITING, CallMetrics, Kind
from tests.telemetry.sample import DONE, ECHO, FAILED, PENDING, RESOURCE, Watched

KIND = Kind("memory.echo", "DONE", "INTERNAL")


def test_calls_are_counted_by_tool_outcome_and_classification() -> None:
    watched = Watched()
    restricted = structs.replace(ECHO, id="memory.erase", rules=Rules(classification="RESTRICTED"))

    calls: list[tuple[Outcome, Descriptor]] = [(DONE, ECHO), (DONE, ECHO), (FAILED, ECHO), (PENDING, restricted)]
    for outcome, tool in calls:
        watched.call(outcome, tool)

    counted = {tuple((point.attributes or {}).values()): point.value for point in counts(watched)}
    assert counted == {
        ("memory.echo", "DONE", "INTERNAL"): 2,
        ("memory.echo", "TIMEOUT", "INTERNAL"): 1,
        ("memory.erase", "APPROVAL_REQUIRED", "RESTRICTED"): 1,
    }
    assert list(counts(watched)[0].attributes or {}) == [
        "gen_ai.tool.name",
        "golden.outcome",
        "golden.data_classification",
    ]


def test_counts_grow_over_all_that_was_read_before() -> None:
    watched = Watched()

    watched.call()
    first = [point.value for point in counts(watched)]
    watched.call()

    assert (first, [point.value for point in counts(watched)]) == ([1], [2])


def test_calls_are_timed_in_seconds_by_tool_and_outcome() -> None:
    watched = Watched()

    watched.call()
    watched.call(FAILED)

    found = watched.points()["golden_executable_duration"]
    assert [point.attributes for point in found] == [
        {"gen_ai.tool.name": "memory.echo", "golden.outcome": "DONE"},
        {"gen_ai.tool.name": "memory.echo", "golden.outcome": "TIMEOUT"},
    ]
    assert [point.count for point in found] == [1, 1]
    assert all(0 < point.sum < 1 for point in found)
    assert found[0].explicit_bounds[:2] == (0.001, 0.005)


def test_no_more_calls_wait_to_be_counted_than_the_most() -> None:
    reader = InMemoryMetricReader()
    metrics = CallMetrics(MeterProvider([reader], RESOURCE, shutdown_on_exit=False))

    for _ in range(MOST_WAITING + 100):
        metrics.record(KIND, 0.01)
    waiting = len(metrics._waiting)

    assert waiting == MOST_WAITING
    assert totals(reader) == (MOST_WAITING + 100, MOST_WAITING + 100)
    assert len(metrics._waiting) == 0


def test_calls_of_many_threads_are_all_counted_while_others_read() -> None:
    reader = InMemoryMetricReader()
    metrics = CallMetrics(MeterProvider([reader], RESOURCE, shutdown_on_exit=False))

    def many() -> None:
        for _ in range(5_000):
            metrics.record(KIND, 0.01)

    threads = [Thread(target=many) for _ in range(4)]

    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        reader.collect()
    for thread in threads:
        thread.join()

    assert totals(reader) == (20_000, 20_000)


def totals(reader: InMemoryMetricReader) -> tuple[int, int]:
    """What the count and the histogram have come to."""
    data = reader.get_metrics_data()
    assert data is not None
    found: dict[str, Any] = {
        metric.name: metric.data.data_points[0] for metric in data.resource_metrics[0].scope_metrics[0].metrics
    }
    return found["golden_executable_calls"].value, found["golden_executable_duration"].count


def counts(watched: Watched) -> list[Any]:
    return watched.points()["golden_executable_calls"]
