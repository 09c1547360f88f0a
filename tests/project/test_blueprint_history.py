"""The order of what happened in a run, where several things happened within one millisecond."""

from agent_resolver.project.blueprint_history import RunEvent, _in_order

AT, LATER = "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.001Z"


def event(kind: str, at: str = AT) -> RunEvent:
    return RunEvent(at=at, kind=kind)


def kinds(journalled: list[RunEvent], others: list[RunEvent]) -> list[str]:
    return [each.kind for each in _in_order(journalled, others)]


def test_a_call_comes_after_the_segment_and_before_the_end_of_its_millisecond() -> None:
    journalled = [event("run.started"), event("segment.started"), event("run.ended")]

    assert kinds(journalled, [event("call")]) == ["run.started", "segment.started", "call", "run.ended"]


def test_an_answer_comes_before_the_wait_that_it_ends_and_what_follows() -> None:
    journalled = [event("run.waiting"), event("wait.ended", LATER), event("segment.started", LATER)]

    assert kinds(journalled, [event("answer", LATER)]) == ["run.waiting", "answer", "wait.ended", "segment.started"]


def test_a_call_of_another_millisecond_keeps_its_time() -> None:
    journalled = [event("segment.started"), event("run.ended", LATER)]

    assert kinds(journalled, [event("call")]) == ["segment.started", "call", "run.ended"]
