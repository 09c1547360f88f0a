from threading import Event
from time import monotonic

from agent_resolver.telemetry import Closing, close_all


def test_what_is_left_is_sent_and_nothing_is_lost() -> None:
    done: list[str] = []

    close_all([Closing(lambda: done.append("a"), lambda: done.append("lost")) for _ in range(3)], seconds=5)

    assert done == ["a"] * 3


def test_what_takes_too_long_is_not_waited_for() -> None:
    never, lost = Event(), list[str]()
    closing = [Closing(never.wait, lambda name=name: lost.append(name)) for name in ("a", "b")]  # type: ignore[misc]
    start = monotonic()

    close_all(closing, seconds=0.05)
    took = monotonic() - start
    never.set()

    assert lost == ["a", "b"]
    assert took < 2


def test_what_breaks_is_lost_and_nothing_else_is() -> None:
    lost: list[str] = []

    def breaks() -> None:
        raise RuntimeError("the collector is away")

    close_all([Closing(breaks, lambda: lost.append("a")), Closing(lambda: None, lambda: lost.append("b"))], seconds=5)

    assert lost == ["a"]


def test_with_nothing_to_close_it_ends_at_once() -> None:
    close_all([], seconds=0)
