"""Runs `agent eval run`: plans, compares, writes files and prints."""

import argparse
import asyncio
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from agent_resolver.cli.errors import Refusal
from agent_resolver.cli.eval.text import print_difference, print_report, print_verdict
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out, out_json, safe, shown
from agent_resolver.cli.progress import status_line
from agent_resolver.core.count import counted
from agent_resolver.core.evaluation.difference import (
    AnswerChangeKind,
    EvalDifference,
    compare_reports,
)
from agent_resolver.core.evaluation.report import passes_gate
from agent_resolver.project.evaluation import (
    Evals,
    NamedPlanner,
    load_evals,
    planners_to_compare,
    read_kept_report,
    run_evals,
)
from agent_resolver.schema.eval_report import EvalReport, encode_eval_report
from agent_resolver.storage.file import read_head, write_atomic
from agent_resolver.storage.ownership import require_safe_target

if TYPE_CHECKING:
    from agent_resolver.project.session import Session

_HEAD_BYTES: Final = 1024
# The first keys of a report that `--save` wrote, of this version alone.
_KEPT: Final = re.compile(rb'\{\s*"version": "1",\s*"planner": "')
# Nothing but elements comes before the mark, so a page that only quotes it is not taken
# for one of ours.
_PAGE: Final = re.compile(
    rb'<!doctype html>\n(?:<[^>]*>\n)*?<meta name="generator" content="agent eval run">\n'
)


class EvalOutcome(Struct, frozen=True, kw_only=True):
    """Everything that a run of an eval set found."""

    path: str
    gate: float
    reports: tuple[EvalReport, ...]
    """One for each planner."""
    differences: tuple[EvalDifference, ...] = ()
    """From the baseline to each report; without a baseline, from the first planner to each other one."""
    has_baseline: bool = False

    @property
    def is_passed(self) -> bool:
        """True if every planner reaches the gate and none answers a request worse than the baseline did."""
        # Without a baseline, planners are compared with each other, and the worse of
        # two is no failure.
        is_worse = self.has_baseline and any(
            each.of_kind(AnswerChangeKind.WORSE) for each in self.differences
        )
        return not is_worse and all(
            passes_gate(report, self.gate) for report in self.reports
        )


def run(options: argparse.Namespace) -> int:
    """Evaluate the planners that the options name; without any, the one that needs no model."""
    return run_with(
        options,
        lambda session: planners_to_compare(session, options.model, options.skills),
    )


def run_with(
    options: argparse.Namespace,
    planners_of: Callable[["Session"], Sequence[NamedPlanner]],
) -> int:
    """Plan every request, print and write the scores, and compare them with a baseline or with each other."""
    # Every target is judged before the planning, which may take minutes, and tokens of
    # a model.
    _refuse_foreign(options.save, _KEPT)
    _refuse_foreign(options.report, _PAGE)
    # Read first: the same file may be given to `--save`.
    baseline = read_kept_report(options.baseline) if options.baseline else None
    with session_of(options) as session:
        for target in filter(None, (options.save, options.report)):
            require_safe_target(target, session.root, session.users, is_named=True)
        evals = load_evals(session, options.set)
        reports = _planned_with_progress(
            evals, planners_of(session), is_shown=not options.json
        )
    outcome = EvalOutcome(
        path=evals.path,
        gate=options.gate,
        reports=reports,
        differences=_differences(baseline, reports, options.baseline),
        has_baseline=baseline is not None,
    )
    written = _write_files(options, outcome)
    if options.json:
        _print_json(outcome)
    else:
        _print_text(outcome, written)
    return 0 if outcome.is_passed else 1


def _planned_with_progress(
    evals: Evals, planners: Sequence[NamedPlanner], *, is_shown: bool
) -> tuple[EvalReport, ...]:
    total = len(evals.set.cases)
    with status_line(f"Planning {total} requests", is_shown=is_shown) as status:

        def watch(done: int) -> None:
            status.text = f"Planning request {done} of {total}"

        return asyncio.run(run_evals(evals, planners, watch))


def _differences(
    baseline: EvalReport | None, reports: Sequence[EvalReport], path: str | None
) -> tuple[EvalDifference, ...]:
    first, *others = reports if baseline is None else (baseline, *reports)
    found = []
    for report in others:
        difference = compare_reports(first, report)
        if difference is None:
            hint = "name a baseline of this set, or write one with `--save`"
            raise Refusal(
                f"`{path}` is the report of another set: no request is in both",
                hint,
                "OTHER_EVAL_SET",
            )
        found.append(difference)
    return tuple(found)


# Files --------------------------------------------------------------------------------


def _refuse_foreign(path: str | None, ours: re.Pattern[bytes]) -> None:
    """Stop before a file is overwritten that this command did not write."""
    head = read_head(path, _HEAD_BYTES) if path else None
    if head and not ours.match(head):
        raise Refusal(
            f"`{path}` exists and was not written by `agent eval run`",
            "name another file, or move it away",
        )


def _write_files(options: argparse.Namespace, outcome: EvalOutcome) -> list[str]:
    """Write what was asked for; the paths."""
    written = []
    if options.save:
        # A baseline is the report of one planner: that of the first.
        write_atomic(options.save, [encode_eval_report(outcome.reports[0])])
        written.append(options.save)
    # The template engine is imported only for a page.
    if options.report:
        from agent_resolver.cli.eval.page import render_page

        write_atomic(options.report, [render_page(outcome).encode()])
        written.append(options.report)
    return written


# Output -------------------------------------------------------------------------------


def _print_json(outcome: EvalOutcome) -> None:
    out_json(
        {
            "success": outcome.is_passed,
            "gate": outcome.gate,
            "reports": outcome.reports,
            "differences": outcome.differences,
        }
    )


def _print_text(outcome: EvalOutcome, written: Sequence[str]) -> None:
    for report in outcome.reports:
        print_report(report)
    for difference in outcome.differences:
        print_difference(difference, is_from_baseline=outcome.has_baseline)
    for path in written:
        out(f"✓ Wrote {safe(shown(path))}")
    worse = [
        change
        for each in outcome.differences
        for change in each.of_kind(AnswerChangeKind.WORSE)
    ]
    if outcome.has_baseline and worse:
        # A request that several planners answer worse is named once.
        named = ", ".join(dict.fromkeys(change.id for change in worse))
        err(f"✗ {counted(len(worse), 'request')} got worse: {safe(named)}")
    for report in outcome.reports:
        print_verdict(report, outcome.gate)
