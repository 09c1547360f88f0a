"""The remedies for a rejected draft: the changes that the Builder is asked for, and the choice that a person gets."""

from collections.abc import Collection, Iterable, Mapping
from itertools import accumulate
from typing import Final

from agent_resolver.core.count import counted
from agent_resolver.core.ops.rule import LEAVE_OUT
from agent_resolver.schema.golden_path import MAX_MESSAGE
from agent_resolver.schema.planning import RemedyRequest, Violation

_ROOM_FOR_REST: Final = 40
"""The characters that are kept free for the line that counts what is left out."""


def remedy_requests(
    violations: Iterable[Violation],
    answers: Mapping[str, str],
) -> tuple[RemedyRequest, ...]:
    """The changes that the Builder has to make: those it can make by itself, and the parts that people want left out.

    Args:
        violations: What an audit found.
        answers: What people answered, by the id of the violation. An answer that is not among the choices is ignored.
    """
    requests = (
        _request(violation, answers.get(violation.id, "")) for violation in violations
    )
    return tuple(request for request in requests if request.action)


def _request(violation: Violation, answer: str) -> RemedyRequest:
    # An answer that is not among the choices must not remove a step.
    is_left_out = answer.strip().lower() == LEAVE_OUT and LEAVE_OUT in violation.choices
    return RemedyRequest(
        id=violation.id,
        rule=violation.rule,
        step=violation.step,
        action=LEAVE_OUT if is_left_out else violation.action,
        message=violation.message,
    )


def is_builder_able(
    violations: Iterable[Violation],
    tried: Collection[str] = (),
) -> bool:
    """True if the Builder can apply every remedy by itself, so that no person has to be asked.

    Args:
        violations: What an audit found.
        tried: The ids of violations that the Builder was asked to mend before. One that is found again needs a person:
            a Builder that knows no remedy would otherwise be asked until the guardrail trips.
    """
    return all(
        violation.action and violation.id not in tried for violation in violations
    )


def checklist(violations: Iterable[Violation]) -> str:
    """The violations as a list for the person who is asked, with at most 4,000 characters; empty if there are none."""
    entries = [
        _entry(number, violation) for number, violation in enumerate(violations, 1)
    ]
    text = "\n".join(entries)
    if len(text) <= MAX_MESSAGE:
        return text
    # The length of the list up to the end of each entry, line ends included.
    ends = accumulate(len(entry) + 1 for entry in entries)
    kept = [
        entry
        for entry, end in zip(entries, ends, strict=True)
        if end <= MAX_MESSAGE - _ROOM_FOR_REST
    ]
    return "\n".join(
        [*kept, f"… and {counted(len(entries) - len(kept), 'more finding')}"]
    )


def _entry(number: int, violation: Violation) -> str:
    lines = [
        f"{number}. [{violation.id}] {violation.message} ({violation.standard})",
        f"   Remedy: {violation.remedy}",
    ]
    if violation.choices:
        choices = " or ".join(f"`{choice}`" for choice in violation.choices)
        lines.append(f"   Answer: {choices}")
    return "\n".join(lines)
