"""Tasks of people that a real issuer, `nanoidp`, vouches for: what a token opens, and what only another person can."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run
from tests.integration.task_project import OPEN_TICKET, UNLOCK, USERS, TaskProject, task_project
from tests.integration.test_identity import SECRET, Issuer, running
from tests.process import eventually

MODULE = "notices_of_task_test"
NOTICES = '''\
"""Notices: public, so that a worker without a clearance may pin them up."""

from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver import capability


class Notice(Struct):
    """A notice."""

    text: Annotated[str, Meta(description="Its text", examples=["Closed on Friday"], min_length=1, max_length=99)]


@capability("notices.pin", classification="PUBLIC", scopes=["use"], idempotent=True, examples=[{"text": "Closed"}])
def pin(notice: Notice) -> Notice:
    """Pin up a notice with a text."""
    return notice


@capability("notices.print", classification="PUBLIC", scopes=["admin"], idempotent=True, examples=[{"text": "Closed"}])
def print_notice(notice: Notice) -> Notice:
    """Print a poster with a text."""
    return notice
'''
EXPIRED_SECONDS = 60 + 60 + 2
"""The shortest life of a token, and the difference that clocks may have."""


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with running(tmp_path_factory.mktemp("issuer"), users=USERS) as found:
        yield found


@pytest.fixture
def desk(tmp_path: Path, issuer: Issuer, run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[TaskProject]:
    made = task_project(tmp_path / "desk", issuer, run, monkeypatch, MODULE)
    (made.folder / f"{MODULE}.py").write_text(NOTICES)
    yield made
    for module in ("helpdesk", MODULE):
        sys.modules.pop(module, None)


def only_action(task: Any) -> Any:
    [action] = [each for each in task["pending_actions"] if not each["resolved"]]
    return action


# Claims ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("claim", ["division", "clearance_level", "cost_center"])
def test_a_missing_claim_waits_for_a_fresh_token_of_the_same_person(desk: TaskProject, claim: str) -> None:
    lacking = desk.token("ada", without=claim)
    task = desk.start(lacking, OPEN_TICKET)
    action = only_action(task)
    typed = [desk.code(token, "inbox", "answer", action["id"], "retail") for token in (lacking, desk.token("ben"))]
    other = desk.code(desk.token("eve"), "task", "resume", task["task_id"])
    again = desk.resume(lacking, task)
    resolved = desk.resume(desk.token("ada"), task)

    assert (task["stage"], task["status"], action["type"]) == ("context_bind", "waiting", "CLARIFICATION")
    assert f"no claim `{claim}`" in action["message"]
    assert typed == ["ANSWERED_BY_READINESS"] * 2
    assert other == "UNKNOWN_TASK"
    assert (again["stage"], only_action(again)["id"]) == ("context_bind", action["id"])
    assert (resolved["status"], resolved["output"]["title"]) == ("done", "Login fails"), resolved
    settled = [record for record in desk.records(task) if record["kind"] == "action.settled"]
    assert [(record["caller"], record["claim"]) for record in settled] == [("ada", claim)]


def test_the_cost_center_of_the_token_reaches_the_blueprint_with_nobody_typing_it(desk: TaskProject) -> None:
    task = desk.start(desk.token("ada", cost_center="CC-4711"), OPEN_TICKET)

    assert task["status"] == "done"
    assert desk.blueprint()["blueprint_metadata"]["cost_center"] == "CC-4711"


# A second person ------------------------------------------------------------------------------------------------------


def test_prd_takes_a_verified_token_and_the_approval_of_a_second_person(desk: TaskProject) -> None:
    nobody = desk.agent("", "task", "start", OPEN_TICKET, "--environment", "prd")
    ada, ben = desk.token("ada"), desk.token("ben")
    task = desk.start(ada, OPEN_TICKET, "--environment", "prd")
    action = only_action(task)
    refused = [desk.code(each, "inbox", "approve", action["id"]) for each in (ada, desk.token("eve"))]
    early = desk.resume(ada, task)
    unbuilt = not (desk.folder / "blueprints").exists()
    approved = desk.code(ben, "inbox", "approve", action["id"])
    # Another process, as on another day.
    done = in_process_of_its_own(desk, ada, "task", "resume", task["task_id"])
    again = desk.code(ben, "inbox", "approve", action["id"])

    assert nobody.code == 1
    assert "no token was given" in nobody.stderr
    assert (task["stage"], task["status"], action["type"]) == ("ops_audit", "waiting", "APPROVAL")
    assert "the plan acts in prd" in action["message"]
    assert refused == ["OWN_CALL", "MISSING_ROLE"]
    assert (early["status"], only_action(early)["id"], unbuilt) == ("waiting", action["id"], True)
    assert approved == ""
    assert (done["status"], done["output"]["title"]) == ("done", "Login fails"), done
    assert again == "ALREADY_ANSWERED"
    [shown] = [each for each in desk.json(ben, "inbox", "list", "--all") if each["id"] == action["id"]]
    assert (shown["answeredBy"], shown["state"]) == ("ben", "used")
    started = [record for record in desk.records(task) if record.get("approval") == action["id"]]
    assert [record["kind"] for record in started] == ["call.started"]


def test_an_approval_of_one_task_does_not_serve_another(desk: TaskProject) -> None:
    ada = desk.token("ada")
    first = desk.start(ada, OPEN_TICKET, "--environment", "prd")
    assert desk.code(desk.token("ben"), "inbox", "approve", only_action(first)["id"]) == ""
    second = desk.start(ada, OPEN_TICKET, "--environment", "prd")

    assert only_action(second)["id"] != only_action(first)["id"]
    assert desk.resume(ada, first)["status"] == "done"
    assert desk.resume(ada, second)["status"] == "waiting"


def test_a_restricted_step_waits_in_dev_as_well(desk: TaskProject) -> None:
    ada = desk.token("ada")
    task = desk.start(ada, UNLOCK)
    action = only_action(task)
    own = desk.code(ada, "inbox", "approve", action["id"])
    approved = desk.code(desk.token("ben"), "inbox", "approve", action["id"])
    running = desk.resume(ada, task)
    # The plan was approved as a whole; the call of the restricted tool takes an approval as well.
    step = only_action(running)
    assert desk.code(desk.token("ben"), "inbox", "approve", step["id"]) == ""
    done = desk.resume(ada, task)

    assert (task["stage"], action["type"]) == ("ops_audit", "APPROVAL")
    assert (own, approved) == ("OWN_CALL", "")
    assert (done["status"], done["output"]) == ("done", {"user": "grace"}), done


def test_a_rejected_plan_is_not_executed(desk: TaskProject) -> None:
    ada = desk.token("ada")
    task = desk.start(ada, UNLOCK)
    assert desk.code(desk.token("ben"), "inbox", "reject", only_action(task)["id"]) == ""
    ended = desk.resume(ada, task)

    assert (ended["status"], ended["code"]) == ("failed", "APPROVAL_REJECTED")
    assert not (desk.folder / "blueprints").exists()


def in_process_of_its_own(desk: TaskProject, token: str, *command: str) -> Any:
    line = [sys.executable, "-m", "agent_resolver", *command, "--json"]
    environment = {"AGENT_TOKEN": token, "XDG_CONFIG_HOME": str(desk.folder.parent / "config"), "WORKER_SECRET": SECRET}
    ran = subprocess.run(
        line, cwd=desk.folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(ran.stdout)


# Whoever lets it go on ------------------------------------------------------------------------------------------------


def test_a_worker_goes_on_for_the_initiator_and_both_are_recorded(desk: TaskProject) -> None:
    ada, ben = desk.token("ada"), desk.token("ben")
    task = desk.start(ada, "Pin up a notice with the text 'Closed'", "--environment", "prd")
    assert desk.code(ben, "inbox", "approve", only_action(task)["id"]) == ""
    done = desk.json("", "task", "resume", task["task_id"], "--config", 'identity.scopes=["use"]')

    assert (done["status"], done["output"]) == ("done", {"text": "Closed"}), done
    assert done["initiator_id"] == "ada"
    calls = [record for record in desk.records(task) if record["kind"] == "call.done"]
    assert {(record["caller"], record.get("via")) for record in calls} == {("ada", "ours")}
    [resumed] = [record for record in desk.records(task) if record["kind"] == "run.resumed"]
    assert resumed["caller"] == "ours"
    assert SECRET not in json.dumps(desk.records(task))


def test_a_worker_has_no_right_that_the_initiator_lacks_and_lends_none(desk: TaskProject) -> None:
    ada, ben = desk.token("ada", scope="use admin"), desk.token("ben")
    task = desk.start(ada, "Print a poster with the text 'Closed'", "--environment", "prd")
    assert desk.code(ben, "inbox", "approve", only_action(task)["id"]) == ""
    narrow = desk.json("", "task", "resume", task["task_id"], "--config", 'identity.scopes=["use"]')
    unseen = desk.start(desk.token("ada"), "Print a poster with the text 'Closed'")

    # The approval was for a plan that the initiator may execute, and the worker may not.
    assert (narrow["stage"], narrow["status"]) == ("ops_audit", "waiting")
    assert "`notices.print`: the initiator does not hold admin" in only_action(narrow)["message"]
    # Without the scope the planner does not even see the tool.
    assert unseen["stage"] != "done"
    assert "notices.print" not in json.dumps(unseen)


def test_a_task_is_started_by_a_person_and_not_by_the_worker(desk: TaskProject) -> None:
    refused = desk.agent("", "task", "start", OPEN_TICKET)

    assert refused.code == 1
    assert "A task is started by a person" in refused.stderr


def test_a_token_that_expired_lets_nothing_go_on(desk: TaskProject) -> None:
    short = desk.token("ada", minutes=1, without="division")
    end = time.time() + EXPIRED_SECONDS
    task = desk.start(short, OPEN_TICKET)
    assert eventually(lambda: time.time() > end, EXPIRED_SECONDS + 10)

    for command in ("resume", "show", "cancel"):
        refused = desk.json(short, "task", command, task["task_id"])["error"]
        assert (refused["code"], refused["message"]) == ("INVALID_TOKEN", "The token has expired")
    assert desk.resume(desk.token("ada"), task)["status"] == "done"
