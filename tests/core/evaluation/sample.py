"""Small plans, cases and reports to start a test from."""

from collections.abc import Sequence
from typing import Any

import msgspec

from agent_resolver.core import Evaluated, judge_case, report_of
from agent_resolver.schema import (
    Blueprint,
    CaseResult,
    EvalAnswer,
    EvalCase,
    EvalReport,
    Expectation,
    ExpectedStep,
)


def plan(*steps: dict[str, Any]) -> Blueprint:
    """A plan of these steps; each needs an `id`."""
    metadata = {"id": "plans.any", "version": "1.0.0", "description": "Any plan."}
    return msgspec.convert({"blueprint_metadata": metadata, "dag": {"steps": steps}}, Blueprint)


def case(name: str = "a", expect: Expectation | None = None, **more: Any) -> EvalCase:
    """A case; without an expectation, one that takes `tickets.open`."""
    wanted = expect or Expectation(
        kind="BLUEPRINT",
        tools=("tickets.open",),
        steps=(ExpectedStep(tool="tickets.open", from_request={"title": "VPN"}),),
    )
    return EvalCase(**{"id": name, "request": f"Request {name}", "sort": "single", "expect": wanted, **more})


def report(results: Sequence[CaseResult], **more: Any) -> EvalReport:
    """The report on these results."""
    evaluated = Evaluated(**{"planner": "offline", "set": "sha256-set", "tools": "sha256-tools", **more})
    return report_of(evaluated, [case()], results)


def result(name: str, answer: EvalAnswer, **more: Any) -> CaseResult:
    """A judged answer to `case(name)`."""
    return judge_case(case(name, **more), answer)
