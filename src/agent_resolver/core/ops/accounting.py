"""The rules about what a plan has to show: where its costs go, and that it was tried."""

from collections.abc import Iterator

from agent_resolver.core.ops.draft import AuditedDraft
from agent_resolver.core.ops.rule import OpsFinding
from agent_resolver.schema.planning import TestResult


def wrong_cost_center(draft: AuditedDraft) -> Iterator[OpsFinding]:
    """A cost centre that is not the initiator's."""
    subject = draft.subject
    expected = subject.context.cost_center or subject.caller.cost_center
    found = subject.blueprint.blueprint_metadata.cost_center
    if expected and found != expected:
        says = f"the cost centre {found}" if found else "no cost centre"
        yield OpsFinding(
            about="cost_center",
            message=f"The draft has {says}, and the initiator's is {expected}",
            remedy=f"Set `cost_center: {expected}` in `blueprint_metadata`",
            action="add-cost-center",
        )


def failed_tests(draft: AuditedDraft) -> Iterator[OpsFinding]:
    """Acceptance tests that fail, were not run, or are missing altogether."""
    tests = draft.subject.blueprint.acceptance_tests
    if not tests:
        yield OpsFinding(
            about="none",
            message="The draft has no acceptance test",
            remedy="Add an acceptance test with a recorded result of each step",
            action="add-test",
        )
    names = [test.name for test in tests]
    for name in dict.fromkeys(names):
        why = _why_not_passed(name, names.count(name), draft.subject.tests)
        if why:
            yield OpsFinding(
                about=name,
                message=f"The acceptance test '{name}' {why}",
                remedy="Correct the draft, or the test where it expects something wrong",
                action="correct",
            )


def _why_not_passed(name: str, count: int, results: tuple[TestResult, ...]) -> str:
    """The reason why the tests of one name do not count as passed, in words; empty if they do.

    Tests that share a name pass or fail together: their results do not say which of them is which.
    """
    own = [result for result in results if result.name == name]
    # Sorted, so that the failure which is shown does not depend on the order of the
    # results.
    failed = sorted(result.message for result in own if not result.passed)
    if failed:
        return f"fails: {failed[0]}"
    if len(own) >= count:
        return ""
    return "was not run"
