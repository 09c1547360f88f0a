"""What a verifier finds in the evidence of a task, though a forger made every digest and the whole chain again."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from agent_resolver.core.evidence.check import evidence_faults, evidence_seal
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.evidence import TaskEvidence, evidence_digest
from tests.core.evidence.sample import (
    ARGUMENTS,
    BLUEPRINT,
    EVALUATION,
    PLAN,
    TASK,
    body_of,
    decision,
    drop_record,
    evaluation_of,
    forge,
    record,
    redo_contents,
    sample,
    whole,
    with_chain,
)

Change = Callable[[dict[str, Any]], object]
OTHER = digest("other")


def codes(evidence: TaskEvidence) -> set[str]:
    return {fault.code for fault in evidence_faults(evidence)}


def test_untouched_evidence_has_no_fault() -> None:
    assert evidence_faults(whole()) == []
    assert [plan.artifact for plan in whole().certified] == [PLAN]
    assert whole().certified[0].approvals[0].by == "bo"


# Tampering ------------------------------------------------------------------------------------------------------------


def task_of(**more: Any) -> Change:
    return lambda document: document["task"].update(more)


def with_task_and_context(document: dict[str, Any], environment: str) -> None:
    document["task"]["environment"] = document["context"]["environment"] = environment


def with_initiator(document: dict[str, Any], **more: Any) -> None:
    document["context"]["initiator"].update(more)
    document["task"]["initiator_id"] = document["context"]["initiator"]["id"]


def drop_decision(document: dict[str, Any], name: str) -> None:
    drop_record(document, name)
    document["task"]["reasoning_history"].remove(name)


def move_decision(document: dict[str, Any], name: str, to: int) -> None:
    """Move a decision in the records and in the history, so that both agree."""
    document["records"].insert(to, drop_record(document, name))
    order = [each["body"]["decision"] for each in document["records"] if "decision" in each["body"]]
    document["task"]["reasoning_history"] = order


def approve_as(document: dict[str, Any], caller: str, **more: Any) -> None:
    body_of(document, "action.approved").update(caller=caller, **more)
    document["actions"][0]["answeredBy"] = caller


def without_approval(document: dict[str, Any]) -> None:
    """Remove every trace of the approval."""
    drop_record(document, "action.asked")
    drop_record(document, "action.approved")
    document["actions"].clear()
    document["task"]["pending_actions"].clear()
    del body_of(document, "call.started")["approval"]


def late_approval(document: dict[str, Any]) -> None:
    document["records"].insert(7, drop_record(document, "action.approved"))


def other_evaluation(**more: Any) -> Change:
    """An evaluation that says something else, with every digest of it made again."""

    def change(document: dict[str, Any]) -> None:
        redo_contents(document, evaluation=evaluation_of(document["references"][PLAN], **more))
        body_of(document, "d5")["digests"][EVALUATION] = document["references"][EVALUATION]

    return change


def other_plan(document: dict[str, Any]) -> None:
    """Another plan in the place of the certified one; the records still have the digest of the first."""
    changed = {**BLUEPRINT, "acceptance_tests": [{"name": "a ticket", "results": {"open": None}}]}
    redo_contents(document, plan=changed)
    redo_contents(document, evaluation=evaluation_of(document["references"][PLAN]))


def uncertified(document: dict[str, Any]) -> None:
    """A rejected plan that the document calls certified."""
    body_of(document, "d4")["choice"] = "REJECTED"


def called_uncertified(document: dict[str, Any]) -> None:
    uncertified(document)
    document["task"]["artifacts"][PLAN]["status"] = "REJECTED"


def rejected_answer(document: dict[str, Any]) -> None:
    document["actions"][0].update(answer="rejected", answerDigest=digest("rejected"))


def run_after_end(document: dict[str, Any]) -> None:
    document["records"].append(record(TASK, "run.resumed"))


def two_ends(document: dict[str, Any]) -> None:
    document["records"].append(record(TASK, "run.ended", status="done", result=document["task"]["result"]))


def no_result(document: dict[str, Any]) -> None:
    """A document that hides the result, but not what the plan returned."""
    document["task"]["result"] = None
    del document["contents"][document["references"].pop("result")]


TAMPERED: dict[str, tuple[Change, str]] = {
    "the request": (task_of(intent="Delete all tickets"), "STORY"),
    "the request and its digest": (
        lambda document: (document.update(request=digest("x")), document["task"].update(intent="x")),
        "STORY",
    ),
    "the environment": (lambda document: with_task_and_context(document, "dev"), "STORY"),
    "the environment of the context": (lambda document: document["context"].update(environment="dev"), "STORY"),
    "the initiator": (lambda document: with_initiator(document, id="eve"), "STORY"),
    "the initiator of the task": (task_of(initiator_id="eve"), "STORY"),
    "the issuer": (lambda document: with_initiator(document, issuer="https://evil.test"), "STORY"),
    "an initiator who is verified": (lambda document: with_initiator(document, is_verified=False), "STORY"),
    "a failure that was a success": (task_of(status="failed"), "STORY"),
    "a task that still waits": (task_of(status="waiting", stage="ops_audit"), "STORY"),
    "the stage": (task_of(stage="execution"), "STORY"),
    "a status without its stage": (task_of(status="cancelled"), "STORY"),
    "the result": (task_of(result=OTHER), "STORY"),
    "the output": (task_of(output={"ticket_id": 8}), "SUMMARY"),
    "a hidden result": (no_result, "SUMMARY"),
    "a decision that is removed": (lambda document: drop_record(document, "d3"), "STORY"),
    "a decision that is added": (
        lambda document: document["records"].insert(5, decision(9, "ops_audit", "AUDITED")),
        "STORY",
    ),
    "decisions in another order": (
        lambda document: document["records"].insert(2, drop_record(document, "d4")),
        "STORY",
    ),
    "certified without an audit": (lambda document: drop_decision(document, "d4"), "CERTIFICATION"),
    "certified before it was drafted": (lambda document: move_decision(document, "d4", 1), "CERTIFICATION"),
    "a draft that was never made": (lambda document: drop_decision(document, "d2"), "CERTIFICATION"),
    "certified though rejected": (uncertified, "STORY"),
    "executed though rejected": (called_uncertified, "EXECUTION"),
    "an approval that is removed": (lambda document: drop_record(document, "action.approved"), "ANSWER"),
    "an approval that is removed everywhere": (without_approval, "APPROVAL"),
    "another approver in the trail": (
        lambda document: body_of(document, "action.approved").update(caller="eve"),
        "ANSWER",
    ),
    "another approver in the question": (lambda document: document["actions"][0].update(answeredBy="eve"), "ANSWER"),
    "an approval of one's own": (lambda document: approve_as(document, "ada"), "APPROVAL"),
    "an approver who is not verified": (lambda document: approve_as(document, "bo", verified=False), "APPROVAL"),
    "an approver without an issuer": (lambda document: approve_as(document, "bo", issuer=""), "APPROVAL"),
    "a worker that approved its own call": (
        lambda document: body_of(document, "call.started").update(via="bo"),
        "APPROVAL",
    ),
    "a worker that approved for another": (lambda document: approve_as(document, "bo", via="worker"), "APPROVAL"),
    "a call with a list for an approval": (
        lambda document: body_of(document, "call.started").update(approval=[1]),
        "APPROVAL",
    ),
    "an approval of another tool": (
        lambda document: body_of(document, "action.approved").update(tool="plans.other"),
        "APPROVAL",
    ),
    "an approval of other arguments": (
        lambda document: body_of(document, "action.approved").update(arguments=OTHER),
        "APPROVAL",
    ),
    "an approval that came too late": (late_approval, "APPROVAL"),
    "a question about another tool": (
        lambda document: body_of(document, "action.asked").update(tool="plans.other"),
        "APPROVAL",
    ),
    "a call without its approval": (lambda document: body_of(document, "call.started").pop("approval"), "APPROVAL"),
    "a rejection in place of an approval": (rejected_answer, "ANSWER"),
    "an answer without a digest": (lambda document: document["actions"][0].update(answerDigest=""), "ANSWER"),
    "an answer of no caller": (lambda document: document["actions"][0].update(answeredBy=None), "ANSWER"),
    "a question of another task": (lambda document: document["task"]["pending_actions"].clear(), "ANSWER"),
    "the plan": (lambda document: document["contents"][digest(BLUEPRINT)].pop("acceptance_tests"), "CONTENT"),
    "the plan and every digest of it": (other_plan, "STORY"),
    "a content that is removed": (lambda document: document["contents"].pop(digest(ARGUMENTS)), "CONTENT"),
    "a content that is added": (lambda document: document["contents"].update({digest("x"): "x"}), "CONTENT"),
    "a reference that is added": (
        lambda document: document["references"].update({"more": digest(ARGUMENTS)}),
        "CONTENT",
    ),
    "a reference that is changed": (
        lambda document: document["references"].update({PLAN: digest(ARGUMENTS)}),
        "CONTENT",
    ),
    "a plan that is not a plan": (
        lambda document: redo_contents(document, plan={"not": "a plan"}),
        "CERTIFICATION",
    ),
    "an evaluation that is removed": (lambda document: document["references"].pop(EVALUATION), "CERTIFICATION"),
    "an evaluation of something else": (other_evaluation(content=OTHER), "CERTIFICATION"),
    "a test that failed": (
        other_evaluation(tests=[{"name": "a ticket", "passed": False, "message": "it loops"}]),
        "CERTIFICATION",
    ),
    "a test that was not run": (other_evaluation(tests=[]), "CERTIFICATION"),
    "another test": (other_evaluation(tests=[{"name": "another", "passed": True}]), "CERTIFICATION"),
    "a rule that was not checked": (other_evaluation(rules=["OPS-TOOL-001"]), "CERTIFICATION"),
    "a rule that was broken": (other_evaluation(outcome="REJECTED"), "CERTIFICATION"),
    "another plan that was executed": (
        lambda document: body_of(document, "run.started", 1).update(plan=OTHER),
        "EXECUTION",
    ),
    "another plan that was installed": (
        lambda document: body_of(document, "d5")["digests"].update({PLAN: OTHER}),
        "EXECUTION",
    ),
    "installed before it was certified": (lambda document: move_decision(document, "d5", 3), "EXECUTION"),
    "called before it was installed": (lambda document: move_decision(document, "d5", 12), "EXECUTION"),
    "called with other arguments": (
        lambda document: body_of(document, "call.started").update(arguments=OTHER),
        "EXECUTION",
    ),
    "a plan that returned something else": (
        lambda document: body_of(document, "call.done").update(result=OTHER),
        "EXECUTION",
    ),
    "a run that is hidden": (
        lambda document: document.update(records=[each for each in document["records"] if each["run"] != "run"]),
        "EXECUTION",
    ),
    "a record after the end": (run_after_end, "STORY"),
    "two ends": (two_ends, "STORY"),
    "a start that is removed": (lambda document: drop_record(document, "run.started"), "STORY"),
    "the start of another kind of run": (
        lambda document: body_of(document, "run.started").update(kind="agent"),
        "STORY",
    ),
    "every record": (lambda document: document["records"].clear(), "STORY"),
    "a record of another trace": (lambda document: body_of(document, "d3").update(trace="2" * 32), "RECORD"),
    "digests that are not an object": (lambda document: body_of(document, "d2").update(digests=[1]), "STORY"),
    "digests that are not texts": (lambda document: body_of(document, "d2").update(digests={PLAN: 1}), "STORY"),
}


@pytest.mark.parametrize(("change", "expected"), TAMPERED.values(), ids=TAMPERED.keys())
def test_tampering_is_found_though_every_digest_was_made_again(change: Change, expected: str) -> None:
    document = sample()
    change(document)

    assert expected in codes(forge(document))


def first_record(evidence: TaskEvidence, **more: Any) -> TaskEvidence:
    records = (structs.replace(evidence.records[0], **more), *evidence.records[1:])
    return structs.replace(evidence, records=records)


CARELESS: dict[str, Callable[[TaskEvidence], TaskEvidence]] = {
    "the body of a record": lambda found: first_record(found, body={}),
    "the time of a record": lambda found: first_record(found, at="2027-01-01T00:00:00.000Z"),
    "the hash of a record": lambda found: first_record(found, hash="0" * 64),
    "the place of a record": lambda found: first_record(found, position=5),
    "records in reverse": lambda found: structs.replace(found, records=found.records[::-1]),
    "the last records": lambda found: structs.replace(found, records=found.records[:-3]),
    "a record in the middle": lambda found: structs.replace(found, records=found.records[:4] + found.records[5:]),
    "a trail that is too short": lambda found: structs.replace(found, trail=structs.replace(found.trail, count=3)),
    "what is certified": lambda found: structs.replace(found, certified=()),
    "the number of cycles": lambda found: structs.replace(found, task=structs.replace(found.task, cycles=9)),
    "the version of the product": lambda found: structs.replace(
        found, product=structs.replace(found.product, version="9")
    ),
    "the digest": lambda found: structs.replace(found, digest=OTHER),
}


@pytest.mark.parametrize("change", CARELESS.values(), ids=CARELESS.keys())
def test_careless_tampering_is_found(change: Callable[[TaskEvidence], TaskEvidence]) -> None:
    assert codes(change(whole()))


def test_an_excerpt_that_no_hash_covers_is_found() -> None:
    evidence = whole()
    records = (structs.replace(evidence.records[0], sealed=b"words"), *evidence.records[1:])
    made_again = structs.replace(evidence, records=records)
    made_again = structs.replace(made_again, digest=evidence_digest(made_again))

    assert codes(made_again) == {"RECORD"}


def test_numbers_that_no_program_keeps_exactly_are_a_fault_and_no_error() -> None:
    broken = structs.replace(whole(), contents={OTHER: [10**249, float("inf")]})

    assert {"DIGEST", "CONTENT"} <= codes(broken)


def test_every_change_of_a_value_is_found() -> None:
    """Whatever single text or number of the document is changed, the digest alone finds it."""
    document = msgspec.to_builtins(whole())
    changed = 0
    for key in ("product", "task", "context", "references", "trail"):
        for name, value in document[key].items():
            if not isinstance(value, str | int) or isinstance(value, bool):
                continue
            other = msgspec.json.decode(msgspec.json.encode(document))
            other[key][name] = f"{value}x" if isinstance(value, str) else value + 1
            try:
                evidence = msgspec.convert(other, TaskEvidence)
            except msgspec.ValidationError:
                continue
            changed += 1
            assert codes(evidence), name
    assert changed > 10


def places_in(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path to every value below a value."""
    keyed = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in keyed:
        yield (*at, key)
        yield from places_in(each, (*at, key))


PLACES = sorted(places_in(sample()), key=str)
ANY_JSON: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -1, 10**30, 1.5, "", "x", "sha256-", [], [1], {}, {"x": 1}, [[]], ["x"]]
)


@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), ANY_JSON), min_size=1, max_size=4))
def test_no_document_makes_the_verifier_fail(changes: list[tuple[tuple[str | int, ...], Any]]) -> None:
    document = sample()
    for (*above, last), value in changes:
        inner: Any = document
        with suppress(LookupError, TypeError):
            for key in above:
                inner = inner[key]
            inner[last] = deepcopy(value)
    try:
        evidence = with_chain(document)
    except (LookupError, TypeError, ValueError):
        # Not even the structure of a document.
        return
    evidence_faults(evidence)
    evidence_faults(structs.replace(evidence, records=evidence.records[::-1]))


# Other endings --------------------------------------------------------------------------------------------------------


def ended_early(*records: dict[str, Any], **task: Any) -> dict[str, Any]:
    """A task that certified nothing."""
    document = sample()
    document["records"] = [*document["records"][:2], *records]
    document["references"], document["contents"], document["actions"] = {}, {}, []
    order = [each["body"]["decision"] for each in document["records"] if "decision" in each["body"]]
    nothing: dict[str, Any] = {
        "artifacts": {},
        "pending_actions": [],
        "result": None,
        "output": None,
        "reasoning_history": order,
    }
    document["task"].update({**nothing, **task})
    return document


ENDINGS: dict[str, dict[str, Any]] = {
    "it waits": ended_early(record(TASK, "run.waiting"), status="waiting", stage="builder"),
    "it was cancelled": ended_early(record(TASK, "run.ended", status="cancelled"), status="cancelled", stage="builder"),
    "it failed": ended_early(
        decision(2, "builder", "FAILED", codes=["INVALID_DRAFT"]),
        record(TASK, "run.ended", status="failed"),
        status="failed",
        stage="failed",
        reason="INVALID_DRAFT: it is broken",
    ),
}


@pytest.mark.parametrize("document", ENDINGS.values(), ids=ENDINGS.keys())
def test_evidence_of_a_task_without_a_plan_holds_and_certifies_nothing(document: dict[str, Any]) -> None:
    evidence = forge(document)

    assert evidence_faults(evidence) == []
    assert evidence.certified == ()


def test_a_failure_for_another_reason_is_found() -> None:
    document = ENDINGS["it failed"]

    assert "STORY" in codes(forge({**document, "task": {**document["task"], "reason": "OTHER: words"}}))


def test_a_failure_without_a_decision_is_found() -> None:
    document = ended_early(record(TASK, "run.ended", status="failed"), status="failed", stage="failed", reason="X: y")
    document["records"].pop(1)
    document["task"]["reasoning_history"] = []

    assert "STORY" in codes(forge(document))


@pytest.mark.parametrize(
    ("choice", "status", "expected"),
    [
        ("REJECTED", "REJECTED", set()),
        ("RETURNED", "REJECTED", set()),
        ("AUDITED", "AUDITED", set()),
        ("FAILED", "AUDITED", set()),
        ("FAILED", "REJECTED", {"STORY"}),
        ("", "DRAFT", set()),
        ("", "REJECTED", {"STORY"}),
        ("REJECTED", "AUDITED", {"STORY"}),
    ],
)
def test_the_status_of_a_plan_is_what_ops_decided(choice: str, status: str, expected: set[str]) -> None:
    about = {"digests": {PLAN: digest(BLUEPRINT)}}
    audits = [decision(3, "ops_audit", choice, **about)] if choice else []
    document = ended_early(decision(2, "builder", "DRAFT", **about), *audits, status="waiting", stage="ops_audit")
    document["contents"] = {digest(BLUEPRINT): BLUEPRINT}
    document["references"] = {PLAN: digest(BLUEPRINT)}
    document["task"]["artifacts"] = {PLAN: {"type": "BLUEPRINT", "status": status, "content": digest(BLUEPRINT)}}

    assert codes(forge(document)) == expected


def test_a_plan_outside_of_prd_takes_no_approval_unless_it_is_restricted() -> None:
    document = sample()
    without_approval(document)
    with_task_and_context(document, "dev")
    body_of(document, "d1")["codes"] = ["dev"]

    assert evidence_faults(forge(document)) == []


def test_a_result_that_was_too_large_to_keep_is_no_fault() -> None:
    document = sample()
    no_result(document)
    document["task"]["output"] = None
    body_of(document, "d6")["digests"] = {}
    del body_of(document, "run.ended", 1)["result"]

    assert evidence_faults(forge(document)) == []


def test_a_certified_plan_that_was_not_executed_yet_holds() -> None:
    document = sample()
    no_result(document)
    document["records"] = document["records"][:7]
    history = document["task"]["reasoning_history"][:4]
    document["task"].update(status="running", stage="assembly", output=None, reasoning_history=history)

    evidence = forge(document)

    assert evidence_faults(evidence) == []
    assert (evidence.certified[0].installed, evidence.certified[0].run) == (None, "")


# Answers in words -----------------------------------------------------------------------------------------------------


def with_question(**more: Any) -> dict[str, Any]:
    """The task with a question that was answered in words."""
    document = sample()
    known = {"id": "q1", "type": "CLARIFICATION", "subject": "reasoner.ask", "message": "Which?", "askedAt": AT_ASKED}
    answered = {"answer": "this", "answeredBy": "ada", "answeredAt": AT_ASKED, "answerDigest": digest("this")}
    document["actions"].append({**known, **answered, **more})
    pending = {"id": "q1", "type": "CLARIFICATION", "message": "Which?", "resolved": True}
    document["task"]["pending_actions"].append(pending)
    document["records"].insert(3, record("inbox2", "action.answered", action="q1", type="CLARIFICATION"))
    return document


AT_ASKED = "2026-01-01T00:00:00.000Z"


def test_an_answer_in_words_holds_with_its_words_and_with_its_digest_alone() -> None:
    assert evidence_faults(forge(with_question())) == []
    assert evidence_faults(forge(with_question(answer=None))) == []


def test_other_words_of_an_answer_are_found_by_their_digest() -> None:
    assert "ANSWER" in codes(forge(with_question(answer="that")))


def test_what_was_answered_by_being_there_has_no_caller_to_compare() -> None:
    document = with_question(needs="API_KEY", type="SECRET", answer="ready", answeredBy="ready")
    document["actions"][-1]["answerDigest"] = digest("ready")

    assert evidence_faults(forge(document)) == []


def test_an_open_question_is_no_fault() -> None:
    document = with_question(answer=None, answeredBy=None, answeredAt=None, answerDigest="")
    drop_record(document, "action.answered")

    assert evidence_faults(forge(document)) == []


# Seals ----------------------------------------------------------------------------------------------------------------


def test_a_seal_is_that_of_one_document_and_one_key() -> None:
    evidence = whole()
    other = structs.replace(evidence, request=OTHER)

    assert evidence_seal(evidence, b"key") == evidence_seal(evidence, b"key")
    assert evidence_seal(evidence, b"key") != evidence_seal(evidence, b"other")
    assert evidence_seal(evidence, b"key") != evidence_seal(other, b"key")
    assert evidence_digest(evidence) == evidence_digest(structs.replace(evidence, seal="0" * 64))


def test_a_fault_names_its_code_and_what_is_wrong() -> None:
    (fault, *_) = evidence_faults(structs.replace(whole(), digest=OTHER))

    assert str(fault) == "DIGEST: the document was changed after its digest was made"
