"""The state of a task: what it may hold, and what is refused at each boundary between stages."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from agent_resolver.schema import (
    MAX_ANSWER,
    MAX_INTENT,
    MAX_MESSAGE,
    MAX_SUMMARY,
    Answer,
    Artifact,
    Caller,
    GoldenPathState,
    InvalidState,
    TaskAction,
    TaskState,
    checked,
    decision,
    decode_state,
    encode_state,
)

DIGEST = "sha256-" + "0" * 64
ADA = Caller(id="ada", roles=frozenset({"b", "a", "c"}), scopes=frozenset({"write", "read"}))
STATE = TaskState(
    intent="Close old tickets",
    trace_id="0" * 32,
    active_task_id="task-1/builder",
    artifacts={"draft-1": Artifact(type="BLUEPRINT", status="DRAFT", content=DIGEST, summary="A draft")},
    reasoning_history=("d1",),
    pending_actions=(
        TaskAction(id="p1", type="CLARIFICATION", message="Which?", key="input.title"),
        TaskAction(id="p2", type="APPROVAL", message="Go on?", resolved=True),
    ),
    task_id="task-1",
    environment="dev",
    initiator=ADA,
    answers=(Answer(key="input.title", words="Old"), Answer(key="input.title", words="New")),
)


def with_keys(**changes: Any) -> dict[str, Any]:
    return {**encode_state(STATE), **changes}


def artifact(**changes: Any) -> dict[str, Any]:
    return {"artifacts": {"draft-1": {"type": "BLUEPRINT", "status": "DRAFT", "content": DIGEST, **changes}}}


def action(**changes: Any) -> dict[str, Any]:
    return {"pending_actions": [{"id": "p1", "type": "SECRET", "message": "m", **changes}]}


def test_a_state_comes_back_from_its_json() -> None:
    document = json.loads(json.dumps(encode_state(STATE)))

    assert decode_state(document) == STATE


def test_a_state_with_nothing_but_what_it_needs_is_valid() -> None:
    state = TaskState(task_id="t", environment="prd", initiator=ADA, active_task_id="t/request_intake")

    assert checked(state) is state
    assert decode_state(encode_state(state)) == state


def test_the_fields_of_the_specification_may_all_be_empty() -> None:
    state = GoldenPathState()

    assert checked(state) is state
    assert GoldenPathState.__struct_fields__ == (
        "intent",
        "trace_id",
        "active_task_id",
        "artifacts",
        "reasoning_history",
        "pending_actions",
    )


def test_the_same_state_has_the_same_bytes() -> None:
    document = encode_state(STATE)

    assert document["initiator"]["roles"] == ["a", "b", "c"]
    assert document["initiator"]["scopes"] == ["read", "write"]


@pytest.mark.parametrize("status", ["DRAFT", "AUDITED", "CERTIFIED", "REJECTED"])
@pytest.mark.parametrize("kind", ["BLUEPRINT", "CAPABILITY", "EVAL", "TEST"])
def test_an_artifact_has_a_type_and_a_status(kind: str, status: str) -> None:
    found = decode_state(with_keys(**artifact(type=kind, status=status))).artifacts["draft-1"]

    assert (found.type, found.status) == (kind, status)


@pytest.mark.parametrize(
    "changes",
    [
        artifact(status="APPROVED"),
        artifact(status="rejected"),
        artifact(type="CODE"),
        artifact(content="def f(): ..."),
        artifact(content="sha256-" + "0" * 63),
        artifact(content=DIGEST + "\n"),
        artifact(summary="x" * (MAX_SUMMARY + 1)),
        {"artifacts": {"": {"type": "TEST", "status": "DRAFT", "content": DIGEST}}},
        {"artifacts": {str(number): artifact()["artifacts"]["draft-1"] for number in range(101)}},
        {"intent": "x" * (MAX_INTENT + 1)},
        {"trace_id": "0" * 31},
        {"trace_id": "G" * 32},
        {"trace_id": "0" * 32 + "\n"},
        {"environment": "test"},
        {"task_id": ""},
        {"cycles": -1},
        {"tokens": -1},
        {"reasoning_history": [""]},
        {"reasoning_history": ["x" * 201]},
        action(type="TOKEN"),
        action(message="x" * (MAX_MESSAGE + 1)),
        action(id=""),
        {"answers": [{"key": "k", "words": "x" * (MAX_ANSWER + 1)}]},
        {"knowledge": [DIGEST] * 6},
        {"knowledge": ["a whole document"]},
        {"kind": "AGENT"},
        {"reason": "x" * (MAX_SUMMARY + 1)},
        {"initiator": None},
    ],
)
def test_what_breaks_the_schema_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidState):
        decode_state(with_keys(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"intent": "x" * MAX_INTENT},
        {"trace_id": ""},
        {"reasoning_history": ["x" * 200] * 1_000},
        {"knowledge": [DIGEST] * 5},
        action(message="x" * MAX_MESSAGE),
        artifact(summary="x" * MAX_SUMMARY),
    ],
)
def test_what_just_fits_is_taken(changes: dict[str, Any]) -> None:
    assert encode_state(decode_state(with_keys(**changes))).keys() == encode_state(STATE).keys()


def test_a_state_that_was_changed_in_memory_is_checked_too() -> None:
    with pytest.raises(InvalidState):
        checked(structs.replace(STATE, intent="x" * (MAX_INTENT + 1)))
    with pytest.raises(InvalidState):
        encode_state(structs.replace(STATE, cycles=-1))


@pytest.mark.parametrize("active", ["", "builder", "task-1/", "task-1/sleep", "task-2/builder", "task-1/x/builder"])
def test_a_stage_of_another_task_or_none_at_all_is_refused(active: str) -> None:
    state = structs.replace(STATE, active_task_id=active)

    with pytest.raises(InvalidState, match=f"^`{active}` is not a stage of task task-1$"):
        checked(state)
    with pytest.raises(InvalidState):
        decode_state(with_keys(active_task_id=active))


def test_the_active_task_names_the_stage_that_runs_next() -> None:
    moved = STATE.at("ops_audit")

    assert (STATE.stage, moved.stage, moved.active_task_id) == ("builder", "ops_audit", "task-1/ops_audit")
    assert structs.replace(moved, active_task_id=STATE.active_task_id) == STATE


def test_only_actions_that_are_not_resolved_are_waited_for() -> None:
    assert [each.id for each in STATE.unresolved] == ["p1"]


def test_the_newest_answer_counts() -> None:
    assert STATE.answer_to("input.title") == "New"
    assert STATE.answer_to("input.other") is None


# Decisions ------------------------------------------------------------------------------------------------------------


def test_the_same_decision_has_the_same_id() -> None:
    first, second = (
        decision(STATE, "ops_audit", "REJECTED", codes=("OPS-EGR-001",), digests={"draft": DIGEST}) for _ in range(2)
    )

    assert first == second
    assert len(first.id) == 12
    assert (first.stage, first.choice, first.codes, first.digests) == (
        "ops_audit",
        "REJECTED",
        ("OPS-EGR-001",),
        {"draft": DIGEST},
    )


def test_the_words_of_a_decision_are_not_part_of_its_id() -> None:
    assert decision(STATE, "builder", "DRAFT", summary="a").id == decision(STATE, "builder", "DRAFT", summary="b").id


@pytest.mark.parametrize(
    "other",
    [
        decision(STATE, "builder", "QUESTION"),
        decision(STATE, "assembly", "DRAFT"),
        decision(STATE, "builder", "DRAFT", codes=("c",)),
        decision(STATE, "builder", "DRAFT", digests={"draft": DIGEST}),
        decision(STATE, "builder", "DRAFT", number=1),
        decision(structs.replace(STATE, reasoning_history=("d1", "d2")), "builder", "DRAFT"),
        decision(structs.replace(STATE, task_id="task-2"), "builder", "DRAFT"),
    ],
)
def test_another_decision_has_another_id(other: Any) -> None:
    assert decision(STATE, "builder", "DRAFT").id != other.id


@given(choice=st.text(min_size=1, max_size=300), summary=st.text(max_size=2_000))
def test_a_decision_is_bounded(choice: str, summary: str) -> None:
    record = decision(STATE, "builder", choice, codes=("c",) * 60, summary=summary)

    assert len(record.choice) <= 100
    assert len(record.codes) == 50
    assert len(record.summary) <= MAX_SUMMARY
