"""Counts judged cases: the scores of a planner in total, by sort, and on phrasings that it was not changed for."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from agent_resolver.schema.eval_report import CaseResult, EvalReport, Score, SortScore
from agent_resolver.schema.eval_set import EvalCase

_DIGITS: Final = 4


class Evaluated(Struct, frozen=True, kw_only=True):
    """The subject of a report: a planner, and the set and tools that it was tried on."""

    planner: str
    set: str
    """The digest of the set."""
    tools: str
    """The digest of the tools."""
    tokens: int = 0
    fallbacks: dict[str, int] = {}


def report_of(
    evaluated: Evaluated,
    cases: Iterable[EvalCase],
    results: Sequence[CaseResult],
) -> EvalReport:
    """The report on the results of these cases."""
    # The tools that the set asks for show how much of the manifest it tries.
    covered = {tool for case in cases for tool in case.expect.tools}
    sorts = dict.fromkeys(result.sort for result in results)
    scores = [
        sort_score(sort, [each for each in results if each.sort == sort])
        for sort in sorted(sorts)
    ]
    total = sort_score("all", results)
    return EvalReport(
        planner=evaluated.planner,
        set=evaluated.set,
        tools=evaluated.tools,
        covered=len(covered),
        tokens=evaluated.tokens,
        fallbacks=dict(sorted(evaluated.fallbacks.items())),
        routing=total.routing,
        plan=total.plan,
        unseen=sort_score("unseen", [result for result in results if result.unseen]),
        sorts=tuple(scores),
        cases=tuple(results),
    )


def sort_score(sort: str, results: Sequence[CaseResult]) -> SortScore:
    """The scores of some cases."""
    planned = [result.plan for result in results if result.plan is not None]
    return SortScore(
        sort=sort,
        routing=_score([result.routing for result in results]),
        plan=_score(planned),
    )


def _score(verdicts: Sequence[bool]) -> Score:
    right = sum(verdicts)
    return Score(
        right,
        len(verdicts),
        round(right / len(verdicts), _DIGITS) if verdicts else 1.0,
    )


def passes_gate(report: EvalReport, gate: float) -> bool:
    """True if both scores reach the gate; a score without cases does."""
    # The division is exact to the last digit, where the rounded score of the report
    # could pass a gate just above it.
    return all(
        not score.of or score.right / score.of >= gate
        for score in (report.routing, report.plan)
    )
