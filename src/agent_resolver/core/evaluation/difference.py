"""Compares two reports: which requests are answered better, worse or otherwise."""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from agent_resolver.core.count import counted
from agent_resolver.schema.eval_report import CaseResult, EvalAnswer, EvalReport, Score


class AnswerChangeKind(StrEnum):
    """The kinds of change of a case, in the order in which they are listed."""

    WORSE = "worse"
    BETTER = "better"
    OTHER = "other"
    """The answer is another one, and right or wrong as before."""
    EDITED = "edited"
    """The case itself was changed, so that its two answers cannot be compared."""
    ADDED = "added"
    REMOVED = "removed"


class CaseChange(Struct, frozen=True, kw_only=True):
    """A case that the two reports do not say the same about."""

    kind: AnswerChangeKind
    id: str
    request: str
    before: str = ""
    """The earlier answer in a sentence; empty if there is none."""
    after: str = ""
    wrong: tuple[str, ...] = ()
    """The faults of the later answer, in a sentence each."""


class ScorePair(Struct, frozen=True):
    """A score before and after."""

    before: Score
    after: Score

    @property
    def change(self) -> float:
        """The later score less the earlier one."""
        return round(self.after.score - self.before.score, 4)


class EvalDifference(Struct, frozen=True, kw_only=True):
    """All that changed between two reports."""

    before: str
    """The planner of the earlier report."""
    after: str
    same_tools: bool
    """False if the two were made with other tools: then the planner is not the only thing that changed."""
    routing: ScorePair
    plan: ScorePair
    changes: tuple[CaseChange, ...]

    def of_kind(self, kind: AnswerChangeKind) -> tuple[CaseChange, ...]:
        """The changes of one kind, in the order of the set."""
        return tuple(change for change in self.changes if change.kind is kind)


def compare_reports(before: EvalReport, after: EvalReport) -> EvalDifference | None:
    """The changes from one report to the other; None if they have no case in common."""
    earlier = {result.id: result for result in before.cases}
    later = {result.id: result for result in after.cases}
    if not earlier.keys() & later.keys():
        return None
    found = [
        change
        for result in after.cases
        for change in _change_of(earlier.get(result.id), result)
    ]
    found += [_removed(result) for result in before.cases if result.id not in later]
    order = list(AnswerChangeKind)
    return EvalDifference(
        before=before.planner,
        after=after.planner,
        same_tools=before.tools == after.tools,
        routing=ScorePair(before.routing, after.routing),
        plan=ScorePair(before.plan, after.plan),
        changes=tuple(sorted(found, key=lambda change: order.index(change.kind))),
    )


def _change_of(before: CaseResult | None, after: CaseResult) -> Iterator[CaseChange]:
    kind = _kind_of(before, after)
    if kind is not None:
        yield CaseChange(
            kind=kind,
            id=after.id,
            request=after.request,
            before="" if before is None else describe_answer(before.answer),
            after=describe_answer(after.answer),
            wrong=after.wrong,
        )


def _kind_of(before: CaseResult | None, after: CaseResult) -> AnswerChangeKind | None:
    if before is None:
        return AnswerChangeKind.ADDED
    if before.case != after.case:
        return AnswerChangeKind.EDITED
    verdicts = [(before.routing, after.routing), (before.plan, after.plan)]
    # A loss counts before a gain: a case that has both must not look like progress.
    if any(old and not new for old, new in verdicts):
        return AnswerChangeKind.WORSE
    if any(new and not old for old, new in verdicts):
        return AnswerChangeKind.BETTER
    if before.answer == after.answer:
        return None
    return AnswerChangeKind.OTHER


def _removed(result: CaseResult) -> CaseChange:
    answer = describe_answer(result.answer)
    return CaseChange(
        kind=AnswerChangeKind.REMOVED,
        id=result.id,
        request=result.request,
        before=answer,
    )


def describe_answer(answer: EvalAnswer) -> str:
    """An answer in one line."""
    parts: list[str] = [answer.kind or "no kind"]
    called = tuple(step.tool for step in answer.steps) or answer.tools
    if called:
        parts.append(", ".join(called))
    if answer.missing:
        parts.append(counted(answer.missing, "missing tool"))
    if answer.asks:
        parts.append(f"asks {', '.join(answer.asks)}")
    if answer.faults:
        parts.append(counted(len(answer.faults), "fault"))
    return "; ".join(parts)
