"""The text of `agent eval run`: scores, wrong answers, and what changed."""

from collections.abc import Sequence
from typing import Final

from agent_resolver.cli.output import err, out, safe
from agent_resolver.core.count import counted
from agent_resolver.core.evaluation.difference import (
    AnswerChangeKind,
    CaseChange,
    EvalDifference,
    ScorePair,
)
from agent_resolver.core.evaluation.report import passes_gate
from agent_resolver.core.shorten import shorten
from agent_resolver.schema.eval_report import CaseResult, EvalReport, Score, SortScore

_MAX_REQUEST: Final = 100
_MOST_WRONG: Final = 20
_SIGNS: Final = {AnswerChangeKind.WORSE: "✗", AnswerChangeKind.BETTER: "✓"}


def print_report(report: EvalReport) -> None:
    """Print the scores in total and by sort, then the wrong answers."""
    requests = counted(len(report.cases), "request")
    tools = counted(report.covered, "tool")
    tokens = f", {counted(report.tokens, 'token')}" if report.tokens else ""
    out(f"{requests} over {tools}, planned by {safe(report.planner)}{tokens}")
    for reason, count in report.fallbacks.items():
        out(f"  {safe(reason)}: {counted(count, 'request')} planned without the model")
    # `unseen` has the phrasings that the planner was not changed for.
    rows = [
        SortScore(sort="all", routing=report.routing, plan=report.plan),
        report.unseen,
        *report.sorts,
    ]
    width = max(len(row.sort) for row in rows)
    out(f"  {'':{width}}  {'routing':18}  plan")
    for row in rows:
        out(
            f"  {safe(row.sort):{width}}  {_render_score(row.routing):18}  {_render_score(row.plan)}".rstrip()
        )
    _print_wrong([result for result in report.cases if result.wrong])


def _print_wrong(results: Sequence[CaseResult]) -> None:
    if results:
        out(f"{counted(len(results), 'request')} answered wrongly")
    for result in results[:_MOST_WRONG]:
        out(f"  ✗ {safe(result.id)}: {_render_request(result.request)}")
        for fault in result.wrong:
            out(f"    {safe(fault)}")
    if len(results) > _MOST_WRONG:
        out(
            f"  … and {len(results) - _MOST_WRONG:,} more: `--json` and `--report` have all of them"
        )


def print_difference(difference: EvalDifference, *, is_from_baseline: bool) -> None:
    """Print how the scores changed, and every request that changed."""
    origin = "Baseline of " if is_from_baseline else ""
    out(f"{origin}{safe(difference.before)} → {safe(difference.after)}")
    for name, pair in (("routing", difference.routing), ("plan", difference.plan)):
        out(f"  {name:7}  {render_pair(pair)}")
    # The worse answers come first, as the comparison sorts them.
    for change in difference.changes:
        _print_change(change)
    if not difference.changes:
        out("  Every request has the same answer")
    if not difference.same_tools:
        err(
            "warning: the tools are others than before, so that not only the planner may have changed"
        )


def render_pair(pair: ScorePair) -> str:
    """A score before and after, and the difference."""
    return f"{pair.before.score:.3f} → {pair.after.score:.3f} ({pair.change:+.3f})"


def _print_change(change: CaseChange) -> None:
    sign = _SIGNS.get(change.kind, "·")
    out(f"  {sign} {change.kind}: {safe(change.id)}: {_render_request(change.request)}")
    for label, answer in (("before", change.before), ("after", change.after)):
        if answer:
            out(f"    {label}: {safe(answer)}")
    for fault in change.wrong:
        out(f"    {safe(fault)}")


def print_verdict(report: EvalReport, gate: float) -> None:
    """Say whether both scores reach the gate."""
    if passes_gate(report, gate):
        out(f"✓ {safe(report.planner)}: both scores reach the gate of {gate:g}")
        return
    for name, score in (("routing", report.routing), ("plan", report.plan)):
        # The exact quotient counts, as in `passes_gate`: a rounded score may reach a
        # gate that it misses.
        if score.of and score.right / score.of < gate:
            err(
                f"✗ {safe(report.planner)}: {name} has {score.score:.3f}, below the gate of {gate:g}"
            )


def _render_score(score: Score) -> str:
    # A score without requests counts as 1, which would look like success.
    if score.of:
        return f"{score.score:.3f}  {score.right} of {score.of}"
    return "-"


def _render_request(request: str) -> str:
    return safe(shorten(request, _MAX_REQUEST)) or "(an empty request)"
