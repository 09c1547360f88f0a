"""Counts calls and stages, and measures their time."""

from collections import Counter, deque
from collections.abc import Iterable
from threading import Lock
from typing import Final

from msgspec import Struct
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from agent_resolver._version import __version__
from agent_resolver.telemetry.attribute import (
    CALLS,
    CLASSIFICATION,
    DURATION,
    OUTCOME,
    SCOPE,
    STAGE,
    STAGE_DURATION,
    STAGES,
    TOOL_NAME,
)

MOST_WAITING: Final = 8_192
_BUCKETS: Final = (
    0.001,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
)
"""In seconds."""


class Kind(Struct, frozen=True):
    """The properties by which calls are counted."""

    tool: str
    outcome: str
    classification: str


class CallMetrics:
    """Counts calls by tool, outcome and classification, and times them by tool and outcome.

    The SDK takes as long to note one measurement as a call takes without it. So calls only wait in a queue, and are
    counted by the thread that reads the metrics, when it does; one that finds the queue full counts the oldest.
    Stages of tasks are counted and timed by stage and outcome.
    """

    def __init__(self, provider: MeterProvider) -> None:
        meter = provider.get_meter(SCOPE, __version__)
        # Appending to a deque is atomic, so a call needs no lock to be noted.
        self._waiting: deque[tuple[Kind, float]] = deque()
        self._counts: Counter[Kind] = Counter()
        self._lock = Lock()
        meter.create_observable_counter(
            CALLS, [self._observe], "{call}", "Calls of tools"
        )
        self._duration = meter.create_histogram(
            DURATION,
            "s",
            "How long calls of tools took",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )

        self._stages = meter.create_counter(STAGES, "{stage}", "Stages of tasks")
        self._stage_duration = meter.create_histogram(
            STAGE_DURATION,
            "s",
            "How long stages of tasks took",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )

    def record_stage(self, stage: str, outcome: str, seconds: float) -> None:
        """Note a stage at once: unlike calls they are few, and each takes far longer than to note it."""
        attributes = {STAGE: stage, OUTCOME: outcome}
        self._stages.add(1, attributes)
        self._stage_duration.record(seconds, attributes)

    def record(self, kind: Kind, seconds: float) -> None:
        """Note a call."""
        self._waiting.append((kind, seconds))
        if len(self._waiting) > MOST_WAITING:
            self.count(1)

    def count(self, most: int = MOST_WAITING) -> None:
        """Count what waits, oldest first."""
        # The length is read under the lock, so that no other thread takes what this one
        # is about to count.
        with self._lock:
            for _ in range(min(most, len(self._waiting))):
                kind, seconds = self._waiting.popleft()
                self._counts[kind] += 1
                self._duration.record(
                    seconds, {TOOL_NAME: kind.tool, OUTCOME: kind.outcome}
                )

    def _observe(self, _options: CallbackOptions) -> Iterable[Observation]:
        # The SDK asks this before it reads the histogram, so that what is timed here
        # goes with what is counted.
        self.count()
        with self._lock:
            # A copy, so that calls are counted on while the SDK reads.
            counts = dict(self._counts)
        return [
            Observation(
                count,
                {
                    TOOL_NAME: kind.tool,
                    OUTCOME: kind.outcome,
                    CLASSIFICATION: kind.classification,
                },
            )
            for kind, count in counts.items()
        ]
