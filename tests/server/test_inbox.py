"""The inbox as tools: the same five commands, the same rules, and whoever calls is whoever answers."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from agent_resolver.project import Session, open_tools
from agent_resolver.registry import AnswerRefused, PendingActions
from agent_resolver.schema import (
    ANONYMOUS,
    PENDING,
    Caller,
    Classification,
    Done,
    Failed,
    FailureCode,
    Pending,
    PendingAction,
    Rules,
    local_caller,
)
from agent_resolver.server import inbox_tools
from tests.registry.sample import TRACE, MemoryTool
from tests.registry.stage import NOW, Stage, code_of, in_memory, run

ADA = Caller(id="ada", is_verified=True, clearance="RESTRICTED", roles=frozenset({"approver"}))
GRACE = Caller(id="grace", is_verified=True, clearance="INTERNAL", roles=frozenset({"approver"}))
EVE = Caller(id="eve", is_verified=True, clearance="INTERNAL")
LOCAL = local_caller("lin")
UNVERIFIED = "is not verified, and a RESTRICTED call takes an approver that an issuer vouches for"


def staged(classification: Classification = "RESTRICTED", **more: Any) -> Stage:
    """A registry that has the inbox beside a tool that takes an approval and one that lacks a secret."""
    stage = in_memory(**more)
    stage.add(
        MemoryTool("tickets.close", rules=Rules(classification=classification, needs_approval=True)),
        MemoryTool("notes.read", rules=Rules(secrets=("KEY",))),
        *inbox_tools(stage.inbox),
    )
    return stage


def asked(stage: Stage, tool_id: str = "tickets.close", by: Caller = ADA) -> str:
    outcome = stage.call(tool_id, by)
    assert isinstance(outcome, Pending)
    return outcome.id


def result(stage: Stage, tool_id: str, by: Caller = GRACE, **arguments: Any) -> Any:
    outcome = stage.call(f"inbox_{tool_id}", by, arguments)
    assert isinstance(outcome, Done), outcome
    return outcome.result


def refusal(stage: Stage, tool_id: str, by: Caller = GRACE, **arguments: Any) -> tuple[FailureCode, str, str]:
    outcome = stage.call(f"inbox_{tool_id}", by, arguments)
    assert isinstance(outcome, Failed), outcome
    return outcome.code, outcome.message, outcome.remedy


def test_there_are_five_of_them_and_each_says_whether_it_only_looks() -> None:
    described = {tool.descriptor.id: tool.descriptor for tool in inbox_tools(in_memory().inbox)}

    assert {name: each.hints["readOnlyHint"] for name, each in described.items()} == {  # type: ignore[index]
        "inbox_list": True,
        "inbox_show": True,
        "inbox_approve": False,
        "inbox_reject": False,
        "inbox_answer": False,
    }
    assert {each.source for each in described.values()} == {"inbox"}
    assert all(each.input_schema["additionalProperties"] is False for each in described.values())


def test_an_empty_inbox_is_an_empty_list() -> None:
    assert result(staged(), "list") == {"actions": []}


def test_arguments_are_shown_to_the_cleared_and_never_listed() -> None:
    stage = staged()
    stage.call("tickets.close", ADA, {"ticket": "canary-40aa"})

    (listed,) = result(stage, "list")["actions"]

    shown = result(stage, "show", id=listed["id"])
    assert shown == {**listed, "argumentsShown": "(grace is not cleared for RESTRICTED data)"}
    cleared = structs.replace(GRACE, clearance="RESTRICTED")
    assert "canary" in result(stage, "show", cleared, id=listed["id"])["argumentsShown"]
    assert msgspec.json.decode(msgspec.json.encode(listed)) == listed
    assert (listed["state"], listed["type"], listed["subject"], listed["requester"], listed["traceId"]) == (
        "open",
        "APPROVAL",
        "tickets.close",
        "ada",
        TRACE,
    )
    assert (listed["askedAt"], listed["expiresAt"]) == (NOW, "2026-03-01T13:00:00.000Z")
    assert "canary" not in str(listed)


def test_the_trail_keeps_no_arguments_that_an_approver_looked_at() -> None:
    """They are kept sealed until the question is answered; the trail stays."""
    stage = staged()
    stage.call("tickets.close", ADA, {"ticket": "canary-40aa"})
    cleared = structs.replace(GRACE, clearance="RESTRICTED")
    (listed,) = result(stage, "list", cleared)["actions"]

    assert "canary" in result(stage, "show", cleared, id=listed["id"])["argumentsShown"]

    assert "canary" not in str(stage.records())


def test_what_was_answered_is_listed_on_request() -> None:
    stage = staged()
    action_id = asked(stage)
    result(stage, "reject", id=action_id)

    assert result(stage, "list") == {"actions": []}
    assert [each["state"] for each in result(stage, "list", all=True)["actions"]] == ["rejected"]


def test_an_approval_over_the_tools_lets_the_same_call_pass_once() -> None:
    stage = staged()
    action_id = asked(stage)

    approved = result(stage, "approve", id=action_id, reason="change 4711")

    assert (approved["state"], approved["answeredBy"], approved["reason"]) == ("approved", "grace", "change 4711")
    assert code_of(stage.call("tickets.close", ADA)) == "DONE"
    assert code_of(stage.call("tickets.close", ADA)) == "APPROVAL_REQUIRED"
    assert stage.kinds()[2:6] == ["call.started", "action.approved", "call.done", "call.started"]
    body = stage.records()[3][1]
    assert (body["caller"], body["verified"], body["action"]) == ("grace", True, action_id)


def test_a_rejection_is_told_to_whoever_asked() -> None:
    stage = staged()

    result(stage, "reject", id=asked(stage), reason="not today")

    outcome = stage.call("tickets.close", ADA)
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.message) == (
        FailureCode.APPROVAL_REJECTED,
        "grace rejected this call: not today",
    )


def test_a_question_is_answered_in_words() -> None:
    stage = staged("INTERNAL")
    action_id = asked(stage)
    question = structs.replace(stage.show(action_id), type="CLARIFICATION", expires_at=None)
    run(stage.store.write(lambda transaction: transaction.put(PENDING, question)))

    answered = result(stage, "answer", LOCAL, id=action_id, text="retry")

    assert (answered["state"], answered["answer"], answered["answeredBy"]) == ("answered", "retry", "local:lin")


@pytest.mark.parametrize(
    ("tool_id", "by", "words"),
    [
        ("approve", ADA, "OWN_CALL: ada asked for this call, and cannot approve it"),
        ("approve", EVE, "MISSING_ROLE: eve does not have the role `approver`"),
        ("approve", LOCAL, f"UNVERIFIED_APPROVER: local:lin {UNVERIFIED}"),
        ("reject", EVE, "MISSING_ROLE: eve does not have the role `approver`"),
    ],
)
def test_who_may_answer_is_decided_by_the_same_rules(tool_id: str, by: Caller, words: str) -> None:
    stage = staged()
    action_id = asked(stage)

    code, message, remedy = refusal(stage, tool_id, by, id=action_id)

    assert (code, message) == (FailureCode.TOOL_ERROR, words)
    assert remedy
    assert stage.show(action_id).is_open
    assert stage.kinds()[-3:] == ["call.started", "action.refused", "call.failed"]
    body = stage.records()[-2][1]
    assert (body["caller"], body["action"], body["code"]) == (by.id, action_id, words.partition(":")[0])


def test_the_tools_of_a_project_record_what_the_inbox_refuses(tmp_path: Path) -> None:
    required = "{mcp: [{category: crm, permissions: [read]}]}"
    (tmp_path / "agents.md").write_text(f"---\nname: a\nversion: 1.0.0\nrequires: {required}\n---\n")
    session = Session(str(tmp_path / "agents.md"), "mcp.index.json", environment={})
    waiting = PendingAction(id="a1", type="APPROVAL", subject="tickets.close", message="May it?", asked_at=NOW)

    async def answered() -> None:
        async with open_tools(session, caller=LOCAL, is_governed=False) as tools:
            await PendingActions(session.store).ask(waiting)
            with pytest.raises(AnswerRefused):
                await tools.inbox.answer("a1", "yes", tools.context)

    with session:
        run(answered())
        kinds = [record.kind for record in session.store.read_now(lambda snapshot: list(snapshot.records()))]

    assert kinds == ["action.refused"]


def test_whoever_asked_takes_it_back() -> None:
    stage = staged()

    assert result(stage, "reject", ADA, id=asked(stage))["answeredBy"] == "ada"


def test_below_restricted_whoever_sits_at_the_machine_approves() -> None:
    stage = staged("CONFIDENTIAL")

    assert result(stage, "approve", LOCAL, id=asked(stage, by=LOCAL))["answeredBy"] == "local:lin"


def test_a_secret_is_never_typed_in_and_settles_itself() -> None:
    stage = staged()
    action_id = asked(stage, "notes.read")

    answers: list[tuple[str, dict[str, Any]]] = [("answer", {"text": "hunter2"}), ("approve", {}), ("reject", {})]
    for tool_id, more in answers:
        assert refusal(stage, tool_id, id=action_id, **more)[1].startswith("ANSWERED_BY_READINESS: ")
    assert "hunter2" not in str((stage.actions(), stage.records()))
    stage.secrets.values["KEY"] = "there"

    assert result(stage, "show", id=action_id)["state"] == "answered"
    assert "action.settled" in stage.kinds()


@pytest.mark.parametrize("tool_id", ["show", "approve", "reject"])
def test_what_does_not_wait_is_unknown(tool_id: str) -> None:
    assert refusal(staged(), tool_id, id="absent") == (
        FailureCode.TOOL_ERROR,
        "UNKNOWN_ACTION: Nothing waits under the id absent",
        "`agent inbox list`",
    )


@pytest.mark.parametrize("tool_id", ["list", "show", "approve", "reject", "answer"])
def test_where_there_is_an_issuer_nobody_else_even_looks(tool_id: str) -> None:
    stage = staged(only_verified=True)
    action_id = asked(stage)
    arguments = {"list": {}, "answer": {"id": action_id, "text": "yes"}}.get(tool_id, {"id": action_id})

    assert refusal(stage, tool_id, LOCAL, **arguments)[0] is FailureCode.UNAUTHORIZED


@pytest.mark.parametrize(
    ("tool_id", "arguments"),
    [
        ("list", {"all": "yes"}),
        ("list", {"id": "a"}),
        ("show", {}),
        ("show", {"id": ""}),
        ("show", {"id": 5}),
        ("show", {"id": "a" * 65}),
        ("approve", {"id": "a", "reason": ""}),
        ("approve", {"id": "a", "reason": "x" * 10_001}),
        ("approve", {"id": "a", "answeredBy": "grace"}),
        ("reject", {"reason": "no"}),
        ("answer", {"id": "a"}),
        ("answer", {"id": "a", "text": ""}),
        ("answer", {"id": "a", "text": "x" * 10_001}),
    ],
)
def test_other_arguments_are_refused(tool_id: str, arguments: dict[str, Any]) -> None:
    assert refusal(staged(), tool_id, **arguments)[0] is FailureCode.INPUT_VALIDATION_FAILED


@pytest.mark.parametrize("text", ["x" * 10_000, " ", "é\n\x1b[31m"])
def test_words_are_kept_as_they_are(text: str) -> None:
    stage = staged()

    assert result(stage, "reject", id=asked(stage), reason=text)["reason"] == text


@pytest.mark.parametrize("tool_id", ["list", "show", "approve", "reject", "answer"])
def test_without_an_issuer_whoever_comes_from_anywhere_sees_nothing_of_the_inbox(tool_id: str) -> None:
    stage = staged()
    action_id = asked(stage)
    arguments = {"list": {}, "answer": {"id": action_id, "text": "yes"}}.get(tool_id, {"id": action_id})

    assert refusal(stage, tool_id, ANONYMOUS, **arguments)[0] is FailureCode.CLEARANCE_TOO_LOW


def test_with_an_issuer_an_approver_needs_no_clearance() -> None:
    stage = staged(only_verified=True)
    approver = structs.replace(GRACE, clearance="PUBLIC")
    action_id = asked(stage)

    assert [each["id"] for each in result(stage, "list", approver)["actions"]] == [action_id]
    assert result(stage, "approve", approver, id=action_id)["answeredBy"] == "grace"
    assert code_of(stage.call("tickets.close", ADA)) == "DONE"
