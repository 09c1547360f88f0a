"""The rules that the check of blueprints decides: what it finds is worded by the rule that it belongs to."""

from collections.abc import Iterator
from typing import Final

from agent_resolver.core.ops.draft import AuditedDraft
from agent_resolver.core.ops.rule import LEAVE_OUT, OpsFinding
from agent_resolver.schema.blueprint import MAX_UNBATCHED_ITEMS
from agent_resolver.schema.issue import Issue, IssueCode

_WORDED_ELSEWHERE: Final = frozenset(
    {IssueCode.UNKNOWN_CAPABILITY, IssueCode.MISSING_COMPENSATION, IssueCode.UNBATCHED}
)


def malformed_parts(draft: AuditedDraft) -> Iterator[OpsFinding]:
    """Faults of the draft that no other rule words."""
    for issue in draft.errors:
        if issue.code not in _WORDED_ELSEWHERE:
            step = _step_of(issue, draft)
            yield OpsFinding(
                about=f"{issue.path}/{issue.code}",
                step=step,
                message=str(issue),
                remedy=_sentence(issue.hint) or "Correct the draft",
                action="correct",
                choices=(LEAVE_OUT,) if step else (),
            )


def missing_compensations(draft: AuditedDraft) -> Iterator[OpsFinding]:
    """Steps with a lasting effect that nothing takes back if a later step fails.

    A person cannot accept the risk instead: the check of blueprints refuses to run such a step whatever was answered.
    """
    for issue in draft.errors:
        if issue.code is IssueCode.MISSING_COMPENSATION:
            step = _step_of(issue, draft)
            yield OpsFinding(
                about=step,
                step=step,
                message=f"Step `{step}`: {issue.message}",
                remedy="Add a compensation to the step, or leave the step out",
                action="add-compensation",
                choices=(LEAVE_OUT,),
            )


def missing_batches(draft: AuditedDraft) -> Iterator[OpsFinding]:
    """Steps that take more items at once than a run may."""
    for issue in draft.errors:
        if issue.code is IssueCode.UNBATCHED:
            step = _step_of(issue, draft)
            yield OpsFinding(
                about=step,
                step=step,
                message=f"Step `{step}` takes more than {MAX_UNBATCHED_ITEMS} items without batches",
                remedy=f"Give the step a `batch_size` of at most {MAX_UNBATCHED_ITEMS}",
                action="batch",
            )


def _step_of(issue: Issue, draft: AuditedDraft) -> str:
    """The id of the step that an issue is in; empty if it is in none."""
    # An issue of a step has a path that begins like this, whatever key it is about.
    match issue.at:
        case ("dag", "steps", int() as position, *_):
            return draft.subject.blueprint.dag.steps[position].id
    return ""


def _sentence(hint: str) -> str:
    return hint[:1].upper() + hint[1:]
