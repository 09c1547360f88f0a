"""Judges answers: what differs from the expectation of a case, in a sentence each."""

from collections.abc import Iterator
from typing import Any, Final

from msgspec import UNSET

from agent_resolver.core.blueprint.expression_value import are_equal
from agent_resolver.core.count import counted
from agent_resolver.core.shorten import shorten
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.eval_report import AnsweredStep, CaseResult, EvalAnswer
from agent_resolver.schema.eval_set import EvalCase, Expectation, ExpectedStep

_MAX_SHOWN: Final = 80


def judge_case(case: EvalCase, answer: EvalAnswer) -> CaseResult:
    """Compare an answer with what a case expects."""
    found_in_routing = routing_faults(case.expect, answer)
    found_in_plan = plan_faults(case.expect, answer)
    of_routing = [f"routing: {fault}" for fault in found_in_routing]
    of_plan = [f"plan: {fault}" for fault in found_in_plan]
    return CaseResult(
        id=case.id,
        request=case.request,
        sort=case.sort,
        unseen=case.unseen,
        case=digest(case),
        routing=not of_routing,
        plan=not of_plan if case.expect.wants_plan else None,
        wrong=(*of_routing, *of_plan),
        answer=answer,
    )


def routing_faults(expect: Expectation, answer: EvalAnswer) -> Iterator[str]:
    """The faults of the kind, the tools, what is missing, and the questions that come first."""
    if sorted(expect.routing_asks) != sorted(answer.routing_asks):
        yield _other_questions(expect.routing_asks, answer.routing_asks)
    if expect.routing_asks or answer.routing_asks:
        # Nothing else is settled before they are answered.
        return
    if answer.kind != expect.kind:
        yield f"expected {expect.kind}, and it is {answer.kind or 'nothing'}"
    if answer.tools != expect.tools:
        wanted = _listed(expect.tools)
        yield f"expected {wanted}, and it takes {_listed(answer.tools)}"
    if answer.missing != expect.missing:
        missing = counted(expect.missing, "missing tool")
        yield f"expected {missing}, and it finds {answer.missing} missing"


def plan_faults(expect: Expectation, answer: EvalAnswer) -> Iterator[str]:
    """The faults of the plan, or of the questions that it needs; none if no plan is expected."""
    if not expect.wants_plan:
        return
    if sorted(expect.plan_asks) != sorted(answer.plan_asks):
        yield _other_questions(expect.plan_asks, answer.plan_asks)
    if expect.plan_asks or answer.plan_asks:
        return
    if not answer.steps:
        yield "there is none"
        return
    # The audit of the plan found these faults, and a plan with faults is wrong whatever
    # its steps are.
    yield from answer.faults
    yield from _steps_faults(expect, answer)


def _steps_faults(expect: Expectation, answer: EvalAnswer) -> Iterator[str]:
    """The faults of the steps of a plan: other tools, or the right ones with other arguments."""
    # A case without steps expects each of its tools once, in the order of the list.
    wanted = expect.steps
    if not wanted:
        wanted = tuple(ExpectedStep(tool=tool) for tool in expect.tools)
    expected = tuple(step.tool for step in wanted)
    found = tuple(step.tool for step in answer.steps)
    # Steps can be compared one by one only where both sides have the same tools.
    if expected != found:
        yield f"expected the steps {_listed(expected)}, and it has {_listed(found)}"
        return
    pairs = zip(wanted, answer.steps, strict=True)
    for number, (step, answered) in enumerate(pairs, start=1):
        for fault in _step_faults(step, answered):
            yield f"step {number}, `{step.tool}`: {fault}"


def _step_faults(expected: ExpectedStep, found: AnsweredStep) -> Iterator[str]:
    if expected.wave is not UNSET and expected.wave != found.wave:
        yield f"expected in wave {expected.wave}, and it is in {found.wave}"
    if expected.for_each is not UNSET and expected.for_each != found.for_each:
        wanted = _times(is_each=expected.for_each)
        yield f"expected {wanted}, and it is taken {_times(is_each=found.for_each)}"
    if expected.undo is not UNSET and expected.undo != found.undo:
        undo = _tool(expected.undo)
        yield f"expected to be taken back by {undo}, and it is by {_tool(found.undo)}"
    for name, value in expected.from_request.items():
        yield from _value_faults(name, value, found)
    for name, tool in expected.from_step.items():
        if found.from_step.get(name) != tool:
            yield f"expected `{name}` from `{tool}`, and it is {_origin(name, found)}"


def _value_faults(name: str, value: Any, found: AnsweredStep) -> Iterator[str]:  # noqa: ANN401 - a JSON value
    given = found.from_request
    if name not in given or not are_equal(given[name], value):
        origin = _origin(name, found)
        yield f"expected `{name}` to be {_quoted(value)}, and it is {origin}"


# Words --------------------------------------------------------------------------------


def _listed(tools: tuple[str, ...]) -> str:
    return ", ".join(tools) or "no tool"


def _other_questions(expected: tuple[str, ...], asked: tuple[str, ...]) -> str:
    return f"expected {_questions(expected)}, and it {_asked(asked)}"


def _questions(keys: tuple[str, ...]) -> str:
    if keys:
        return f"the questions {', '.join(sorted(keys))}"
    return "no question"


def _asked(keys: tuple[str, ...]) -> str:
    if keys:
        return f"asks {', '.join(sorted(keys))}"
    return "asks nothing"


def _times(*, is_each: bool) -> str:
    if is_each:
        return "once for each item"
    return "once"


def _tool(tool: str) -> str:
    if tool:
        return f"`{tool}`"
    return "nothing"


def _origin(name: str, found: AnsweredStep) -> str:
    if name in found.from_step:
        return f"from `{found.from_step[name]}`"
    if name in found.from_request:
        return _quoted(found.from_request[name])
    return "left out"


def _quoted(value: Any) -> str:  # noqa: ANN401 - a JSON value
    return f"`{shorten(str(value), _MAX_SHOWN)}`"
