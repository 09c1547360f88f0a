"""Metrics of a process in the text format of Prometheus: numbers, under labels that have few values."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from agent_resolver._extra import MissingExtra
from agent_resolver._version import __version__
from agent_resolver.project.session import Session
from agent_resolver.project.state_count import StateNumbers, count_state
from agent_resolver.schema.errors import ResolverError

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from agent_resolver.project.worker import ProjectWorker

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX: Final = "agent_resolver"
_STUCK_SECONDS: Final = 60.0
"""Seconds after which a worker whose loop did not turn counts as stuck."""


class ServedProcess:
    """A process of `agent serve` as probes see it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._started = time.monotonic()
        self._is_state_known = False

    def find_fault(self) -> str:
        """Nothing: that it answers shows that its loop turns."""
        return ""

    async def find_obstacle(self) -> str:
        """Nothing, if the state can be read; a project that has no state yet needs none."""
        if await self._has_state():
            await count_state(self._session)
        return ""

    async def _has_state(self) -> bool:
        """True once there is a state: a server makes one with the first call, and looking for it must not."""
        if not self._is_state_known:
            # In a thread: the state may be on another machine.
            self._is_state_known = await asyncio.to_thread(
                lambda: self._session.has_state
            )
        return self._is_state_known

    async def measure(self) -> bytes:
        """The metrics of the process and of the state."""
        return render([*await self._common(), *self._own()])

    def _own(self) -> Iterator["Metric"]:
        """More metrics, of a process that does more."""
        return iter(())

    async def _common(self) -> list["Metric"]:
        _require_package()
        numbers: StateNumbers | None = None
        is_up = True
        try:
            if await self._has_state():
                numbers = await count_state(self._session)
        # A state that cannot be read is a number to report, and no reason to fail the
        # scrape.
        except (ResolverError, OSError):
            is_up = False
        found = [
            _gauge(
                "build_info",
                "The version that runs, always 1",
                {(__version__,): 1.0},
                "version",
            ),
            _gauge(
                "uptime_seconds",
                "Seconds since the process started",
                time.monotonic() - self._started,
            ),
            _gauge("state_up", "1 if the state can be read", float(is_up)),
        ]
        if numbers is not None:
            found += _of_state(numbers)
            found.append(
                _counter(
                    "commits",
                    "Commits that the process made",
                    float(self._session.store.commits),
                )
            )
        return found


class WorkerProcess(ServedProcess):
    """A worker as probes see it."""

    def __init__(
        self,
        session: Session,
        worker: "ProjectWorker",
        capacity: int,
    ) -> None:
        super().__init__(session)
        self._is_state_known = True
        self._worker = worker
        self._capacity = capacity

    def find_fault(self) -> str:
        """`loop_stuck` once the worker looks for no runs any longer."""
        is_stuck = time.monotonic() - self._worker.turned_at > _STUCK_SECONDS
        # A worker that stops waits for its runs, and looks for no others.
        if is_stuck and not self._worker.is_stopping:
            return "loop_stuck"
        return ""

    async def find_obstacle(self) -> str:
        """`draining` or `engine_broken`; else as for every process."""
        if self._worker.is_broken:
            return "engine_broken"
        if self._worker.is_stopping:
            return "draining"
        return await super().find_obstacle()

    def _own(self) -> Iterator["Metric"]:
        worker, counts = self._worker, self._worker.counts
        yield _gauge(
            "worker_capacity",
            "The most runs that the worker drives at once",
            float(self._capacity),
        )
        yield _gauge(
            "worker_draining",
            "1 once the worker takes up nothing further",
            float(worker.is_stopping),
        )
        yield _gauge(
            "worker_driven_runs",
            "Runs that the worker drives now",
            _by_one(worker.driven),
            "kind",
        )
        yield _counter(
            "worker_taken_runs",
            "Runs that the worker took up",
            _by_one(counts.taken),
            "kind",
        )
        adopted = "Runs among them whose process was gone or had lost them"
        yield _counter("worker_adopted_runs", adopted, _by_one(counts.adopted), "kind")
        ended = "Runs that the worker brought to an end, a wait, or handed over"
        yield _counter(
            "worker_ended_runs", ended, _numbers(counts.ended), "kind", "status"
        )
        lost = "Runs that another process took because the lease had run out"
        yield _counter("worker_lost_leases", lost, _by_one(counts.lost), "kind")
        yield _counter(
            "state_errors",
            "Times that the state could not be used",
            float(counts.state_errors),
        )


def _of_state(numbers: StateNumbers) -> list["Metric"]:
    return [
        _gauge("runs", "Runs in the state", _by_one(numbers.runs), "status"),
        _gauge(
            "pending_actions", "Questions without an answer", float(numbers.unanswered)
        ),
        _gauge(
            "due_runs",
            "Runs of blueprints that a worker may take up, up to 1000",
            float(numbers.due),
        ),
        _gauge(
            "oldest_due_seconds",
            "Seconds for which the oldest of them is due",
            numbers.oldest_due_seconds,
        ),
        _gauge("workers", "Workers that are listed", _by_one(numbers.workers), "state"),
    ]


_Labelled = Mapping[tuple[str, ...], float]


def _by_one(counted: Mapping[Any, int]) -> _Labelled:
    return {(str(label),): float(number) for label, number in counted.items()}


def _numbers(counted: Mapping[Any, int]) -> _Labelled:
    return {
        tuple(map(str, labels)): float(number) for labels, number in counted.items()
    }


def _gauge(
    name: str,
    help_text: str,
    value: float | _Labelled,
    *labels: str,
) -> "Metric":
    from prometheus_client.core import GaugeMetricFamily

    return _filled(
        GaugeMetricFamily(f"{_PREFIX}_{name}", help_text, labels=labels), value
    )


def _counter(
    name: str,
    help_text: str,
    value: float | _Labelled,
    *labels: str,
) -> "Metric":
    from prometheus_client.core import CounterMetricFamily

    return _filled(
        CounterMetricFamily(f"{_PREFIX}_{name}", help_text, labels=labels), value
    )


def _filled(family: Any, value: float | _Labelled) -> "Metric":  # noqa: ANN401 - both kinds take the same
    values = value if isinstance(value, Mapping) else {(): value}
    for labels, number in sorted(values.items()):
        family.add_metric(labels, number)
    filled: Metric = family
    return filled


def render(metrics: list["Metric"]) -> bytes:
    """Metrics as Prometheus reads them, in the order of their names."""
    from prometheus_client import CollectorRegistry, generate_latest

    class Collected:
        def collect(self) -> list["Metric"]:
            return sorted(metrics, key=lambda metric: metric.name)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collected())
    return generate_latest(registry)


def _require_package() -> None:
    try:
        import prometheus_client  # noqa: F401 - only whether it is there
    except ModuleNotFoundError as error:
        raise MissingExtra("prometheus-client", "telemetry") from error
