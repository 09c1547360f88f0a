"""Circuit breakers: a model that keeps failing is left alone for a while."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic
from typing import Final

from agent_resolver.runtime.executor import InferenceFailure

_FAILURES: Final = 5
_COOL_DOWN_SECONDS: Final = 30.0


class Breaker:
    """Opens after some failures in a row; after a cool-down, one request at a time may try whether the model is back.

    Only failures of the model count. A request that is too long or not allowed fails at every model.
    """

    def __init__(
        self, failures: int, cool_down_seconds: float, clock: Callable[[], float]
    ) -> None:
        self._limit = failures
        self._cool_down_seconds = cool_down_seconds
        self._clock = clock
        self._failures = 0
        self._opened_at = 0.0
        self._is_probed = False
        # Runs may be in several threads, and one of them alone may have the probe.
        self._changing = Lock()

    @property
    def is_open(self) -> bool:
        """True if the model failed too often of late; it may still be due for a probe."""
        return self._failures >= self._limit

    def admits(self) -> bool:
        """True if a request may be made now. If the breaker is open, the request is the probe."""
        with self._changing:
            if not self.is_open:
                return True
            is_cool = self._clock() - self._opened_at >= self._cool_down_seconds
            if self._is_probed or not is_cool:
                return False
            self._is_probed = True
            return True

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count how the request inside ends; it must have been admitted."""
        try:
            yield
        except InferenceFailure as failure:
            self._count(has_failed=failure.is_of_model)
            raise
        except BaseException:
            # A caller that gave up says nothing about the model.
            self._count(has_failed=False)
            raise
        # One answer closes the breaker, whatever other requests came to meanwhile.
        with self._changing:
            self._failures, self._is_probed = 0, False

    def _count(self, *, has_failed: bool) -> None:
        with self._changing:
            # However the request ended, it holds the probe no longer.
            self._is_probed = False
            if has_failed:
                self._failures += 1
                self._opened_at = self._clock()


class Breakers:
    """The breakers of one runtime, by model."""

    def __init__(
        self,
        *,
        failures: int = _FAILURES,
        cool_down_seconds: float = _COOL_DOWN_SECONDS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._failures = failures
        self._cool_down_seconds = cool_down_seconds
        self._clock = clock
        self._by_model: dict[str, Breaker] = {}

    def of(self, model_id: str) -> Breaker:
        """The breaker of a model, closed at first."""
        known = self._by_model.get(model_id)
        if known is None:
            made = Breaker(self._failures, self._cool_down_seconds, self._clock)
            # Two threads may come here at once, and one of both breakers has to count.
            known = self._by_model.setdefault(model_id, made)
        return known
