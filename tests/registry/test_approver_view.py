"""What an approver sees of a call, how long it is kept, and how many questions one caller may open."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.core import MASK, MAX_OPEN_QUESTIONS
from agent_resolver.registry import CallContext, Inbox, MemorySecrets
from agent_resolver.schema import Caller, Failed, FailureCode, Pending, PendingAction, Rules, local_caller
from agent_resolver.storage import SqliteStore
from tests.registry.sample import MemoryTool
from tests.registry.stage import HandClock, Stage, answering, code_of, in_state_file, run, seal_beside

CLOSE = "tickets.close"
ADA = Caller(id="ada", is_verified=True, clearance="RESTRICTED", roles=frozenset({"approver"}))
GRACE = structs.replace(ADA, id="grace")
BLIND = structs.replace(GRACE, clearance="PUBLIC")
EVE = Caller(id="eve", is_verified=True, clearance="RESTRICTED", roles=frozenset({"bystander"}))
RESTRICTED = Rules(classification="RESTRICTED", secret_fields=("iban",))
SCHEMA = {"type": "object", "properties": {"pin": {"type": "string", "writeOnly": True}}}
ARGUMENTS = {"pin": "canary-1234", "iban": "canary-DE1", "password": "canary-pw", "to": "Ada"}


def closing_tool(**fields: Any) -> MemoryTool:
    return MemoryTool(CLOSE, rules=fields.pop("rules", RESTRICTED), **{"input_schema": SCHEMA, **fields})


def asked(stage: Stage, by: Caller = ADA, arguments: dict[str, Any] | None = None, **more: Any) -> PendingAction:
    outcome = stage.call(CLOSE, by, ARGUMENTS if arguments is None else arguments, **more)
    assert isinstance(outcome, Pending), outcome
    return next(action for action in stage.actions() if action.id == outcome.id)


def test_an_approver_sees_the_arguments_with_their_secrets_masked(stage: Stage) -> None:
    stage.add(closing_tool())

    action = asked(stage, agent="keeper@1.0.0", lock="sha256-abc")

    assert stage.inbox.arguments_of(action, GRACE) == (
        f'{{"pin":"{MASK}","iban":"{MASK}","password":"{MASK}","to":"Ada"}} (3 fields are hidden)'
    )
    document = stage.inbox.document(action, GRACE)
    assert (document["requester"], document["agent"], document["lock"]) == ("ada", "keeper@1.0.0", "sha256-abc")
    assert document["effects"] == "may destroy data, may reach other machines (as its server declares, unchecked)"
    assert not {"content", "connection"} & document.keys()


def test_an_approver_without_the_clearance_does_not_see_the_arguments(stage: Stage) -> None:
    stage.add(closing_tool())

    document = stage.inbox.document(asked(stage), BLIND)

    assert document["argumentsShown"] == "(grace is not cleared for RESTRICTED data)"
    assert stage.decide(str(document["id"]), "approved", BLIND) == "approved"


def test_long_arguments_are_cut(stage: Stage) -> None:
    stage.add(closing_tool())

    shown = stage.inbox.arguments_of(asked(stage, arguments={"to": "x" * 1_000_000}), GRACE)

    assert shown is not None
    assert shown.endswith("xx… (only 16,384 of 1,000,009 bytes are shown)")


def test_an_approver_learns_that_an_argument_is_hidden_behind_long_ones(stage: Stage) -> None:
    """The caller chooses the order of the arguments, and a name that is masked."""
    stage.add(closing_tool())
    arguments = {"note": "x" * 20_000, "to": "Ada", "options": {"token": "everything"}}

    shown = stage.inbox.arguments_of(asked(stage, arguments=arguments), GRACE)

    assert shown is not None
    assert shown.endswith("… (only 16,384 of 20,055 bytes are shown, 1 field is hidden)")


def test_arguments_that_are_nested_too_deeply_to_be_shown_are_said_to_be_hidden(stage: Stage) -> None:
    deep: dict[str, Any] = {"to": "Ada"}
    for _ in range(700):
        deep = {"a": deep}
    stage.add(closing_tool())

    assert stage.inbox.arguments_of(asked(stage, arguments=deep), GRACE) == f"{MASK} (all arguments are hidden)"


@pytest.mark.parametrize("verdict", ["approved", "rejected"])
def test_the_arguments_are_removed_with_the_answer(stage: Stage, verdict: Any) -> None:
    stage.add(closing_tool())
    action = asked(stage)

    stage.decide(action.id, verdict, GRACE)

    kept = stage.show(action.id)
    assert kept.content is None
    assert stage.inbox.arguments_of(kept, GRACE) is None
    assert "argumentsShown" not in stage.inbox.document(kept, GRACE)


@pytest.mark.parametrize("look", ["listing", "start"])
def test_the_arguments_of_an_expired_question_are_removed(stage: Stage, look: str) -> None:
    stage.add(closing_tool())
    action = asked(stage)
    stage.clock.forward(61)

    if look == "listing":
        stage.listed()
    else:
        run(stage.registry.recover(CallContext(run="r", trace_id="0" * 32, caller=ADA)))

    assert [each.content for each in stage.actions() if each.id == action.id] == [None]


def test_no_argument_is_in_the_state_file_in_plain_text(tmp_path: Path) -> None:
    with in_state_file(tmp_path / "state.db") as stage:
        stage.add(closing_tool())
        asked(stage, arguments={"to": "canary-recipient"})
        content = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

    assert b"canary-" not in content


def test_sealed_arguments_of_another_action_are_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with in_state_file(path) as stage:
        stage.add(closing_tool())
        first, second = asked(stage, arguments={"to": "Ada"}), asked(stage, arguments={"to": "Eve"})
    with closing(sqlite3.connect(path)) as state:
        state.execute("UPDATE pending SET content = ? WHERE id = ?", (first.content, second.id))
        state.commit()
    store = SqliteStore(str(path))
    try:
        inbox = Inbox(store, MemorySecrets(), HandClock(), seal=seal_beside(path))
        shown = inbox.arguments_of(run(inbox.show(second.id, answering(GRACE))), GRACE)
    finally:
        store.close()

    assert shown == "(they cannot be read: the key of the state is another one)"


# The code that an approval covers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [{"code": "sha256-other"}, {"description": "Another."}, {"input_schema": {}}, {"hints": {"readOnlyHint": True}}],
)
def test_an_approval_does_not_count_for_other_code_or_another_definition(stage: Stage, changes: Any) -> None:
    stage.add(closing_tool())
    action = asked(stage)
    stage.decide(action.id, "approved", GRACE)
    changed = closing_tool()
    changed.descriptor = structs.replace(changed.descriptor, **changes)
    stage.registry.replace(changed.descriptor.source, [changed], {})

    again = stage.call(CLOSE, ADA, ARGUMENTS)

    assert isinstance(again, Pending)
    assert again.id != action.id
    assert changed.calls == 0


# Who may see and answer -----------------------------------------------------------------------------------------------


def listed_for(stage: Stage, by: Caller) -> list[str]:
    return [action.id for action in run(stage.inbox.list(answering(by)))]


def test_the_inbox_lists_only_what_concerns_the_caller(stage: Stage) -> None:
    stage.add(closing_tool())
    mine, theirs = asked(stage, EVE), asked(stage, ADA)

    assert listed_for(stage, EVE) == [mine.id]
    assert set(listed_for(stage, GRACE)) == {mine.id, theirs.id}
    assert set(listed_for(stage, local_caller("lin"))) == {mine.id, theirs.id}
    assert listed_for(stage, Caller(id="anonymous")) == []


def test_the_question_of_another_caller_looks_as_if_it_were_not_there(stage: Stage) -> None:
    stage.add(closing_tool())
    action = asked(stage, ADA)

    with pytest.raises(Exception, match="Nothing waits under the id"):
        run(stage.inbox.show(action.id, answering(EVE)))


@pytest.mark.parametrize("by", [ADA, local_caller("lin")])
def test_the_connection_that_made_a_call_cannot_approve_it(stage: Stage, by: Caller) -> None:
    stage.add(closing_tool(rules=Rules(needs_approval=True)))
    action = asked(stage, by, connection="stdio 1")

    with pytest.raises(Exception, match="asked for this call, and cannot approve it"):
        run(stage.inbox.decide(action.id, "approved", structs.replace(answering(GRACE), connection="stdio 1")))
    with pytest.raises(Exception, match="asked for this call, and cannot approve it"):
        run(stage.inbox.decide(action.id, "approved", structs.replace(answering(by), connection="stdio 2")))
    assert stage.decide(action.id, "approved", GRACE) == "approved"


# How many questions one caller may open -------------------------------------------------------------------------------


def test_one_caller_opens_a_bounded_number_of_questions(stage: Stage) -> None:
    stage.add(closing_tool())
    opened = [asked(stage, trace=f"{number:032x}") for number in range(1, MAX_OPEN_QUESTIONS + 1)]

    refused = stage.call(CLOSE, ADA, ARGUMENTS)

    assert isinstance(refused, Failed)
    assert refused.code is FailureCode.TOO_MANY_QUESTIONS
    assert len(stage.actions()) == MAX_OPEN_QUESTIONS
    assert code_of(stage.call(CLOSE, ADA, ARGUMENTS, opened[0].trace_id)) == "APPROVAL_REQUIRED", "the same question"
    assert code_of(stage.call(CLOSE, EVE, ARGUMENTS)) == "APPROVAL_REQUIRED", "another caller"
    stage.decide(opened[0].id, "rejected", ADA)
    assert code_of(stage.call(CLOSE, ADA, ARGUMENTS)) == "APPROVAL_REQUIRED", "one was answered"


def test_expired_questions_do_not_count(stage: Stage) -> None:
    stage.add(closing_tool())
    for number in range(1, MAX_OPEN_QUESTIONS + 1):
        asked(stage, trace=f"{number:032x}")
    stage.clock.forward(61)

    assert code_of(stage.call(CLOSE, ADA, ARGUMENTS)) == "APPROVAL_REQUIRED"
