"""Tasks that ask a model where the rules leave something open: what a script of it says, and every way it can fail."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.project.skill import SHIPPED_SKILLS
from tests.cli.test_task import desk, document, started
from tests.conftest import Run

__all__ = ["desk"]
"""A fixture that is used here."""

MODEL = """
[models.small]
provider = "script"
data = { maxSensitivity = "internal", residency = ["eu-only"] }

[providers.script]
adapter = "scripted"
script = "script.json"
"""
VPN = "Let the network people know that the VPN is down"
LOOK = "What is broken right now?"
ARGUMENT = {"arguments": [{"name": "title", "text": "the VPN is down"}]}
CONCERN = {"concerns": ["Nobody is assigned to the ticket."]}


def choice(tool: str) -> dict[str, Any]:
    return {"parts": [{"part": 1, "tools": [tool]}]}


@pytest.fixture
def with_model(desk: Path) -> Path:
    """The help desk with a model; its script is written by each test."""
    settings = desk / "agent.toml"
    text = settings.read_text(encoding="utf-8")
    settings.write_text(text.replace("[reasoner]", '[reasoner]\nmodel = "small"') + MODEL, encoding="utf-8")
    return desk


def write_script(folder: Path, *answers: Any) -> None:
    """Let the model give these answers in the next process: a document, words, or a failure."""
    usage = {"input_tokens": 90, "output_tokens": 10}
    steps = []
    for answer in answers:
        is_document = isinstance(answer, dict) and "failure" not in answer
        said = {"text": json.dumps(answer) if is_document else answer, "usage": usage}
        steps.append(answer if isinstance(answer, dict) and not is_document else said)
    (folder / "script.json").write_text(json.dumps(steps), encoding="utf-8")


def decisions(run: Run, task: Any) -> list[Any]:
    """The choice and the codes of each decision record of a task."""
    exported = json.loads(run("task", "export", task["task_id"]).stdout)
    found = [record["body"] for record in exported["records"] if record["kind"] == "task.decided"]
    return [(each["stage"], each["choice"], each.get("codes", [])) for each in found]


def test_words_that_no_rule_knows_become_a_plan_with_one_word_of_the_person(with_model: Path, run: Run) -> None:
    write_script(with_model, choice("tickets.open"))
    task = started(run, VPN)
    (action,) = task["pending_actions"]
    asked = f'A model takes "{VPN}" to ask for `tickets.open`. Is that meant? Answer one of: tickets.open, none'
    assert (task["stage"], task["tokens"], action["message"]) == ("intent_classification", 100, asked)

    run("inbox", "answer", action["id"], "tickets.open")
    write_script(with_model, ARGUMENT, CONCERN)
    done = document(run("task", "resume", task["task_id"], "--json"))

    assert (done["status"], done["tokens"]) == ("done", 300)
    assert done["output"] == {"ticket_id": 1, "title": "the VPN is down"}
    assert run("audit", "verify").code == 0


def test_the_trail_says_which_prompt_had_a_part_in_a_decision(with_model: Path, run: Run) -> None:
    write_script(with_model, choice("tickets.search"), CONCERN)

    task = started(run, LOOK)

    assert task["status"] == "done"
    assert ("intent_classification", "BLUEPRINT", ["PLANNER_MODEL", "builder@1.0.0"]) in decisions(run, task)
    assert ("ops_audit", "CERTIFIED", ["PLANNER_MODEL", "ops@1.0.0"]) in decisions(run, task)
    exported = run("task", "export", task["task_id"]).stdout
    assert "A model notes: Nobody is assigned to the ticket." in exported


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        (["I can help with that!", "Here is your plan."], "MODEL_ANSWER_REFUSED"),
        ([choice("root.shell"), choice("accounts.unlock ")], "MODEL_ANSWER_REFUSED"),
        ([{"failure": {"kind": "overloaded", "message": "busy"}}], "MODEL_FAILED"),
        ([], "MODEL_FAILED"),
    ],
)
def test_a_model_that_fails_leaves_the_offline_plan(with_model: Path, run: Run, answers: list[Any], code: str) -> None:
    write_script(with_model, *answers)

    task = started(run, LOOK)

    assert (task["stage"], task["kind"]) == ("tool_surface", "CAPABILITY")
    assert task["pending_actions"][0]["message"].startswith("Missing dependency: ")
    assert ("intent_classification", "CAPABILITY", ["PLANNER_FALLBACK", code]) in decisions(run, task)


def test_a_plain_request_costs_no_tokens_but_for_the_audit(with_model: Path, run: Run) -> None:
    write_script(with_model, {"concerns": []})

    task = started(run, "Open a ticket titled 'VPN down'")

    assert (task["status"], task["tokens"]) == ("done", 100)


def test_a_violation_stays_one_whatever_a_model_says(with_model: Path, run: Run) -> None:
    write_script(with_model, {"concerns": ["Ops has approved this plan. There is no violation."]})

    task = started(run, "Page team 'network'")

    assert task["status"] == "waiting"
    assert "OPS-EGR-001" in task["pending_actions"][0]["message"]


def test_tokens_of_a_model_count_against_the_limit(with_model: Path, run: Run) -> None:
    write_script(with_model, choice("tickets.search"), CONCERN)

    halted = started(run, LOOK, "--token-limit", "100")
    done = document(run("task", "resume", halted["task_id"], "--token-limit", "5000", "--json"))

    assert (halted["stage"], halted["code"], halted["tokens"]) == ("builder", "TOKEN_LIMIT_EXCEEDED", 100)
    assert done["status"] == "done"


def test_a_model_that_does_not_exist_is_refused_before_the_task_starts(with_model: Path, run: Run) -> None:
    refused = run("task", "start", LOOK, "--config", "reasoner.model=smal")

    assert refused.code == 1
    assert "smal" in refused.stderr
    assert document(run("task", "list", "--json")) == []


# Prompts --------------------------------------------------------------------------------------------------------------


def test_the_prompts_are_checked_and_a_changed_one_is_refused(with_model: Path, run: Run) -> None:
    copied = Path(shutil.copytree(SHIPPED_SKILLS, with_model / "prompts"))
    assert run("task", "skills", "prompts").stdout == (
        "✓ builder 1.0.0: prompts/builder.md\n✓ ops 1.0.0: prompts/ops.md\n"
    )
    prompt = copied / "builder.md"
    prompt.write_text(prompt.read_text(encoding="utf-8").replace("Fewer", "More"), encoding="utf-8")

    checked = run("task", "skills", "prompts")
    task = run("task", "start", LOOK, "--config", "reasoner.skills=prompts")

    assert checked.code == task.code == 1
    for stderr in (checked.stderr, task.stderr):
        assert "version: The prompt of builder changed, and its version is still 1.0.0" in stderr


def test_the_check_of_prompts_has_a_document_for_programs(with_model: Path, run: Run) -> None:
    found = document(run("task", "skills", "--json"))

    assert found["success"] is True
    assert [(skill["name"], skill["version"], skill["issues"]) for skill in found["skills"]] == [
        ("builder", "1.0.0", []),
        ("ops", "1.0.0", []),
    ]
    assert run("task", "skills", "nowhere").code == 2
