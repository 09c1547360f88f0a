"""`agent blueprint run` and what looks after runs: status, history, signal, cancel, list; and `agent worker`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.blueprint_project import ASK, ORDER, BlueprintProject, blueprint_project
from tests.conftest import Ran, Run

RUN = ("blueprint", "run")
LAMP = ("--input", '{"item": "lamp"}')
IDLE = ("worker", "--until-idle")
TWO = """\
blueprint_metadata: { id: shop.two, version: 1.0.0, description: Order two items. }
dag:
  steps:
    - { id: one, is_parallel: true, capability: shop.order, input_mapping: { item: lamp } }
    - { id: two, is_parallel: true, capability: shop.order, input_mapping: { item: chair } }
  output_mapping: [ "${steps.one.sent}", "${steps.two.sent}" ]
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> BlueprintProject:
    made = blueprint_project(tmp_path, monkeypatch)
    assert run("trust-folder").code == 0
    return made


def only_run(run: Run) -> dict[str, Any]:
    """The one run that there is, as a program sees it."""
    [listed] = json.loads(run("blueprint", "list", "--json").stdout)
    found: dict[str, Any] = json.loads(run("blueprint", "status", listed["id"], "--json").stdout)
    return found


def states(found: dict[str, Any]) -> dict[str, str]:
    return {step["path"]: step["state"] for step in found["steps"]}


def answer_question(run: Run, words: str) -> Ran:
    [action] = json.loads(run("inbox", "list", "--json").stdout)
    return run("inbox", "answer", action["id"], words)


# Running --------------------------------------------------------------------------------------------------------------


def test_a_run_prints_its_steps_and_then_its_output(shop: BlueprintProject, run: Run) -> None:
    ran = run(*RUN, "shop.order", *LAMP)

    assert (ran.code, json.loads(ran.stdout)) == (0, {"sent": "lamp-1"})
    assert ran.stderr.splitlines() == ["  ✓ reserve shop.reserve done", "  ✓ send shop.send done"]
    assert shop.notes == ["reserve lamp", "send lamp-1"]


def test_the_input_may_come_from_a_file(shop: BlueprintProject, run: Run) -> None:
    (shop.folder / "input.json").write_text('{"item": "chair"}')
    ran = run(*RUN, "shop.order", "--input", "@input.json", "--json")

    document = json.loads(ran.stdout)
    assert document["outcome"]["result"] == {"sent": "chair-1"}
    assert document["run"] == only_run(run)["id"]


@pytest.mark.parametrize(
    ("given", "words"),
    [("[1]", "must be a JSON object"), ("{", "is not JSON"), ("@missing.json", "missing.json")],
)
def test_an_input_that_cannot_be_read_is_a_matter_of_usage(
    shop: BlueprintProject, run: Run, given: str, words: str
) -> None:
    ran = run(*RUN, "shop.order", "--input", given)

    assert ran.code == 2
    assert words in ran.stderr
    assert shop.notes == []


def test_an_input_against_the_schema_starts_nothing(shop: BlueprintProject, run: Run) -> None:
    ran = run(*RUN, "shop.order", "--input", '{"itme": "lamp"}')

    assert ran.code == 1
    assert "INPUT_VALIDATION_FAILED" in ran.stderr
    assert run("blueprint", "list").stderr == "No runs\n"
    assert shop.notes == []


def test_an_unknown_blueprint_is_refused_with_the_one_that_was_meant(shop: BlueprintProject, run: Run) -> None:
    ran = run(*RUN, "shop.ordr", *LAMP)

    assert (ran.code, shop.notes) == (1, [])
    assert "There is no blueprint shop.ordr" in ran.stderr
    assert "shop.order" in ran.stderr


def test_under_one_key_it_is_one_run(shop: BlueprintProject, run: Run) -> None:
    first = run(*RUN, "shop.order", *LAMP, "--key", "order-1")
    second = run(*RUN, "shop.order", *LAMP, "--key", "order-1")

    assert first.stdout == second.stdout
    assert (first.code, second.code) == (0, 0)
    assert shop.notes == ["reserve lamp", "send lamp-1"]
    only_run(run)


def test_a_failed_step_lets_the_others_be_taken_back(shop: BlueprintProject, run: Run) -> None:
    ran = run(*RUN, "shop.order", "--input", '{"item": "broken"}')

    assert (ran.code, ran.stdout) == (1, "")
    assert "✗ TOOL_ERROR: step send failed with TOOL_ERROR: It is broken; taken back: reserve" in ran.stderr
    assert shop.notes == ["reserve broken", "release broken-1"]
    assert states(only_run(run)) == {"reserve": "done", "send": "failed", "compensate/reserve": "done"}


def test_a_blueprint_is_called_like_any_tool(shop: BlueprintProject, run: Run) -> None:
    listed = run("tools", "list").stdout
    called = run("tools", "call", "shop.order", '{"item": "lamp"}')

    assert "  shop.order: Reserve an item and send it." in listed.splitlines()
    assert json.loads(called.stdout) == {"sent": "lamp-1"}
    assert only_run(run)["agent"] == "shop.order@1.0.0"
    assert shop.notes[-1] == "send lamp-1"


def test_a_blueprint_may_be_a_step_of_another(shop: BlueprintProject, run: Run) -> None:
    shop.write("two.yaml", TWO)
    ran = run(*RUN, "shop.two")

    assert (ran.code, json.loads(ran.stdout)) == (0, ["lamp-1", "chair-1"])
    rows = json.loads(run("blueprint", "list", "--json").stdout)
    parents = {row["agent"]: row["parent"] for row in rows}
    [top] = [row["id"] for row in rows if row["agent"] == "shop.two@1.0.0"]
    assert parents == {"shop.two@1.0.0": "", "shop.order@1.0.0": top}
    assert sorted(shop.notes) == ["reserve chair", "reserve lamp", "send chair-1", "send lamp-1"]


def test_what_the_agent_forbids_shuts_the_blueprints_that_call_it(shop: BlueprintProject, run: Run) -> None:
    agent = "---\nname: clerk\ndescription: Sells\nconstraints: { actions: { forbid: [shop.send] } }\n---\n"
    (shop.folder / "agents.md").write_text(agent)
    shop.write("two.yaml", TWO)
    ran, outer = run(*RUN, "shop.order", *LAMP), run(*RUN, "shop.two")
    listed = run("tools", "list")
    checked = run("blueprint", "check")

    for each in (ran, outer):
        assert each.code == 1
        assert "FORBIDDEN_ACTION" in each.stderr
        assert "shop.send" in each.stderr
    assert "  shop.order: FORBIDDEN_ACTION" in listed.stdout.splitlines()
    assert run(*RUN, "shop.parcel", "--detach").code == 0
    assert checked.code == 1
    assert shop.notes == []


# Waiting --------------------------------------------------------------------------------------------------------------


def test_a_run_that_asks_a_person_goes_on_with_a_worker(shop: BlueprintProject, run: Run) -> None:
    asked = run(*RUN, "shop.ask", *LAMP)
    waiting = only_run(run)
    answered = answer_question(run, "yes")
    worked = run(*IDLE)

    assert asked.code == 1
    assert "Send lamp?" in asked.stderr
    assert "agent inbox answer" in asked.stderr
    assert (waiting["status"], states(waiting)["agree"]) == ("waiting", "waiting")
    assert "goes on where `agent worker` runs" in answered.stdout
    assert (worked.code, worked.stdout) == (0, "")
    done = only_run(run)
    assert (done["status"], done["output"]) == ("done", {"answer": "yes", "sent": "lamp-1"})
    assert shop.notes == ["reserve lamp", "send lamp-1"]


def test_a_condition_leaves_a_step_out_after_a_no(shop: BlueprintProject, run: Run) -> None:
    run(*RUN, "shop.ask", *LAMP)
    answer_question(run, "no")
    run(*IDLE)

    done = only_run(run)
    assert (done["output"], states(done)["send"]) == ({"answer": "no", "sent": None}, "skipped")
    assert shop.notes == ["reserve lamp"]


def test_a_detached_run_is_left_to_a_worker(shop: BlueprintProject, run: Run) -> None:
    begun = run(*RUN, "shop.order", *LAMP, "--detach")
    before = list(shop.notes)
    waits = run("blueprint", "list").stdout
    worked = run(*IDLE, "--json")

    assert (begun.code, before) == (0, [])
    assert "has begun" in begun.stderr
    assert "waits for a worker" in waits
    events = [json.loads(line)["event"] for line in worked.stdout.splitlines()]
    assert events == ["worker.started", "run.begun", "run.ended", "worker.stopped"]
    assert shop.notes == ["reserve lamp", "send lamp-1"]


def test_a_signal_may_come_before_the_run_gets_there(shop: BlueprintProject, run: Run) -> None:
    run(*RUN, "shop.parcel", "--detach")
    run_id = only_run(run)["id"]
    wrong = run("blueprint", "signal", run_id, "arrived", "--data", "[]")
    unknown = run("blueprint", "signal", run_id, "arived")
    sent = run("blueprint", "signal", run_id[:8], "arrived", "--data", '{"parcel": "A-17"}')
    again = run("blueprint", "signal", run_id, "arrived", "--data", '{"parcel": "A-18"}')
    run(*IDLE)

    assert (wrong.code, unknown.code, sent.code, again.code) == (1, 1, 0, 1)
    assert "arrived" in unknown.stderr
    assert only_run(run)["output"] == {"parcel": "A-17"}
    assert shop.notes == []


def test_a_run_that_waits_for_a_signal_says_which_command_sends_it(shop: BlueprintProject, run: Run) -> None:
    ran = run(*RUN, "shop.parcel")
    run_id = only_run(run)["id"]

    assert ran.code == 1
    assert f"`agent blueprint signal {run_id} arrived`" in ran.stderr
    assert f"`agent blueprint signal {run_id} arrived`" in run("blueprint", "status", run_id).stderr
    assert shop.notes == []


def test_a_cancelled_run_takes_back_what_it_did(shop: BlueprintProject, run: Run) -> None:
    run(*RUN, "shop.ask", *LAMP)
    run_id = only_run(run)["id"]
    cancelled = run("blueprint", "cancel", run_id)
    run(*IDLE)
    again = run("blueprint", "cancel", run_id)

    assert cancelled.code == 0
    assert only_run(run)["status"] == "cancelled"
    assert shop.notes == ["reserve lamp", "release lamp-1"]
    assert again.code == 1
    assert "has ended" in again.stderr


def test_the_status_of_a_cancelled_run_no_longer_asks_for_the_answer(shop: BlueprintProject, run: Run) -> None:
    run(*RUN, "shop.ask", *LAMP)
    run_id = only_run(run)["id"]
    waiting = run("blueprint", "status", run_id)
    run("blueprint", "cancel", run_id)
    cancelling = run("blueprint", "status", run_id)

    assert "is to end" in run("blueprint", "list").stdout
    assert "Ended:" not in waiting.stdout
    assert "agent inbox answer" in waiting.stderr
    assert "Cancelled: asked for, not done yet" in cancelling.stdout
    assert cancelling.stderr == "hint: `agent worker`\n"
    assert shop.notes == ["reserve lamp"]


def test_a_step_that_was_left_out_is_shown_where_it_would_have_run(shop: BlueprintProject, run: Run) -> None:
    shop.write(
        "order.yaml",
        ORDER.replace(
            "- id: reserve",
            "- id: never\n      condition: 'false'\n      wait: { kind: time, seconds: 1 }\n    - id: reserve",
        ),
    )
    run(*RUN, "shop.order", *LAMP)

    assert list(states(only_run(run)).items()) == [("never", "skipped"), ("reserve", "done"), ("send", "done")]


# Looking --------------------------------------------------------------------------------------------------------------


def test_a_history_has_every_call_wait_and_answer_with_its_time(shop: BlueprintProject, run: Run) -> None:
    run(*RUN, "shop.ask", *LAMP)
    answer_question(run, "yes")
    run(*IDLE)
    run_id = only_run(run)["id"]
    events = json.loads(run("blueprint", "history", run_id, "--json").stdout)["events"]
    text = run("blueprint", "history", run_id).stdout

    kinds = [(event["kind"], event["path"]) for event in events]
    assert kinds == [
        ("run.started", ""),
        ("segment.started", ""),
        ("call", "reserve"),
        ("run.waiting", ""),
        ("answer", "agree"),
        ("wait.ended", "agree"),
        ("segment.started", ""),
        ("call", "send"),
        ("run.ended", ""),
    ]
    assert [event["at"] for event in events] == sorted(event["at"] for event in events)
    assert all(event["by"].startswith("local:") for event in events if event["kind"] in {"call", "answer"})
    assert len(text.splitlines()) == len(events)
    assert "lamp" not in text
    assert shop.notes == ["reserve lamp", "send lamp-1"]


def test_a_run_keeps_the_version_that_it_began_with(shop: BlueprintProject, run: Run) -> None:
    run(*RUN, "shop.ask", *LAMP)
    changed = ASK.replace("version: 1.0.0", "version: 2.0.0").replace('answer: "${steps.agree}", ', "")
    shop.write("ask.yaml", changed)
    run(*RUN, "shop.ask", "--input", '{"item": "chair"}', "--detach")
    versions = json.loads(run("blueprint", "list", "--versions", "--json").stdout)
    lines = run("blueprint", "list", "--versions").stdout.splitlines()
    answer_question(run, "yes")
    run(*IDLE)

    assert [(each["blueprint"], each["runs"]) for each in versions] == [("shop.ask@1.0.0", 1), ("shop.ask@2.0.0", 1)]
    assert [line.split(" ")[0] for line in lines] == ["shop.ask@1.0.0", "shop.ask@2.0.0"]
    rows = json.loads(run("blueprint", "list", "--json", "--blueprint", "shop.ask@1.0.0").stdout)
    [old] = [json.loads(run("blueprint", "status", row["id"], "--json").stdout) for row in rows]
    assert old["output"] == {"answer": "yes", "sent": "lamp-1"}
    assert "send lamp-1" in shop.notes


def test_a_list_is_chosen_by_status_and_blueprint_and_cut(shop: BlueprintProject, run: Run) -> None:
    for number in range(3):
        run(*RUN, "shop.parcel", "--detach", "--key", str(number))
    run(*RUN, "shop.order", *LAMP)
    listing = ("blueprint", "list")

    assert len(run(*listing).stdout.splitlines()) == 4
    assert len(run(*listing, "--status", "done").stdout.splitlines()) == 1
    assert len(run(*listing, "--blueprint", "shop.parcel").stdout.splitlines()) == 3
    cut = run(*listing, "--limit", "2")
    assert len(cut.stdout.splitlines()) == 2
    assert "`--all` lists them" in cut.stderr
    assert len(run(*listing, "--all").stdout.splitlines()) == 4
    assert shop.notes == ["reserve lamp", "send lamp-1"]


def test_looking_where_nothing_ran_makes_no_state(shop: BlueprintProject, run: Run) -> None:
    ran = run("blueprint", "list")

    assert (ran.code, ran.stdout, ran.stderr) == (0, "", "No runs\n")
    assert not (shop.folder / ".agent").exists()


def test_commands_of_runs_and_of_blueprints_point_at_each_other(shop: BlueprintProject, run: Run) -> None:
    run(*RUN, "shop.order", *LAMP)
    run_id = only_run(run)["id"]
    shown, listed = run("runs", "show", run_id), run("runs", "list")
    resumed = run("runs", "resume", run_id)

    assert (shown.code, resumed.code) == (1, 1)
    assert f"`agent blueprint status {run_id}`" in shown.stderr
    assert f"`agent blueprint status {run_id}`" in resumed.stderr
    assert listed.stdout.startswith(f"{run_id} done shop.order@1.0.0 ")
    assert "round" not in listed.stdout
    assert run("blueprint", "status", "nothing").code == 1
    assert shop.notes == ["reserve lamp", "send lamp-1"]


def test_an_engine_that_there_is_not_is_refused_with_the_settings(shop: BlueprintProject, run: Run) -> None:
    ran = run(*RUN, "shop.order", *LAMP, "--config", "engine.kind=restate")
    settings = shop.folder / "agent.toml"
    text = settings.read_text()
    settings.write_text(text.replace('kind = "memory"', 'kind = "restate"'))
    line = text[: text.index('kind = "memory"')].count("\n") + 1
    checked = run("blueprint", "check")

    expected = "engine.kind: Invalid enum value. Expected 'dbos' | 'memory' | 'temporal', received 'restate'"
    assert (ran.code, checked.code, shop.notes) == (1, 1, [])
    assert expected in ran.stderr
    assert f"{expected} (agent.toml:{line}:1)" in checked.stderr


def test_a_worker_goes_on_with_runs_whose_blueprint_is_gone(shop: BlueprintProject, run: Run) -> None:
    run(*RUN, "shop.order", *LAMP, "--detach")
    shop.write("order.yaml", ORDER.replace("shop.order", "shop.other"))
    run(*IDLE, "--config", "tools.blueprints=[]")

    assert only_run(run)["status"] == "done"
    assert shop.notes == ["reserve lamp", "send lamp-1"]


def test_a_refused_call_says_why_also_if_its_run_goes_on(shop: BlueprintProject, run: Run) -> None:
    run(*RUN, "shop.ask", *LAMP, "--key", "k")
    ran = run(*RUN, "shop.ask", "--input", '{"item": "chair"}', "--key", "k")

    assert ran.code == 1
    assert "✗ KEY_REUSED: The key was used for another call of shop.ask" in ran.stderr
    assert "`agent worker` goes on with run" in ran.stderr
    assert shop.notes == ["reserve lamp"]
