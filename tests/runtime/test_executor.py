"""Who tries again: what, how often, and after how long."""

import asyncio
from typing import Any, get_args

import pytest

from agent_resolver.runtime import FailureKind, InferenceFailure, RetryConfig, RetryingExecutor

PASSING = {"provider", "rate_limited", "overloaded", "timeout", "stream_interrupted"}


class Failing:
    """Fails as told, then answers."""

    def __init__(self, *failures: InferenceFailure) -> None:
        self._failures = list(failures)
        self.calls = 0

    async def execute(self, request: Any) -> Any:
        self.calls += 1
        if self._failures:
            raise self._failures.pop(0)
        return request


def tried(inner: Failing, **config: Any) -> tuple[Any, list[float]]:
    """The answer or the failure, and the seconds that were waited."""
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    executor = RetryingExecutor(inner, RetryConfig(**config), wait)
    try:
        return asyncio.run(executor.execute("hello")), waits
    except InferenceFailure as failure:
        return failure, waits


def failure(kind: FailureKind = "timeout", retry_after_ms: int | None = None) -> InferenceFailure:
    return InferenceFailure(kind, "no answer", retry_after_ms)


def test_what_passes_is_tried_again_and_waited_for_longer_each_time() -> None:
    inner = Failing(failure(), failure(), failure())

    assert tried(inner, max_retries=3) == ("hello", [0.5, 1.0, 2.0])
    assert inner.calls == 4


def test_after_the_last_try_the_failure_is_told() -> None:
    failures = [failure(), failure(), failure()]
    inner = Failing(*failures)

    assert tried(inner, max_retries=2) == (failures[2], [0.5, 1.0])
    assert inner.calls == 3


@pytest.mark.parametrize("kind", get_args(FailureKind))
def test_only_what_may_pass_is_tried_again(kind: FailureKind) -> None:
    inner = Failing(failure(kind))
    answer, waits = tried(inner, max_retries=1)

    assert (answer == "hello") is (kind in PASSING)
    assert inner.calls == 1 + len(waits) == (2 if kind in PASSING else 1)


def test_an_overloaded_provider_is_given_more_time() -> None:
    assert tried(Failing(failure("overloaded"), failure("overloaded")), max_retries=2) == ("hello", [2.0, 4.0])


def test_no_wait_is_longer_than_eight_seconds_unless_the_provider_asks_for_it() -> None:
    many = [failure() for _ in range(100)]

    assert tried(Failing(*many), max_retries=100)[1][4:] == [8.0] * 96
    assert tried(Failing(failure(retry_after_ms=20_000)), max_retries=1)[1] == [20.0]
    assert tried(Failing(failure(retry_after_ms=1)), max_retries=1)[1] == [0.5]
    assert tried(Failing(failure()), max_retries=1, backoff_base_ms=0)[1] == [0.0]
