"""`agent eval run` with models and prompts: compared as a difference of scores, and gated by versions."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.project.skill import SHIPPED_SKILLS
from tests.conftest import Ran, Run

EXAMPLE = Path(__file__).parents[2] / "examples" / "evals"
SETTINGS = """
[providers.script]
adapter = "scripted"
script = "script.json"

[providers.other]
adapter = "scripted"
script = "other.json"

[models.small]
provider = "script"
data = { maxSensitivity = "internal" }

[models.large]
provider = "other"
data = { maxSensitivity = "internal" }

[models.unknown]
provider = "script"

[providers.far]
adapter = "openai"
base_url = "http://127.0.0.1:9/v1"

[models.far]
provider = "far"
data = { maxSensitivity = "internal" }
"""
LOOK = "How far are we with ticket 7"
CASE = {
    "id": "look",
    "request": LOOK,
    "sort": "unusual-words",
    "expect": {"kind": "BLUEPRINT", "tools": ["tickets.get"]},
}
READING = {"text": json.dumps({"parts": [{"part": 1, "tools": ["tickets.get"]}]}), "usage": {"input_tokens": 30}}
NONSENSE = {"text": "I cannot say", "usage": {"input_tokens": 9}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two scripted models and a set of one request that the offline planner does not understand."""
    project = tmp_path / "project"
    project.mkdir()
    shutil.copy(EXAMPLE / "tools.manifest.json", project)
    (project / "agent.toml").write_text((EXAMPLE / "agent.toml").read_text() + SETTINGS)
    document = {"version": "1", "tools": "tools.manifest.json", "cases": [CASE]}
    (project / "requests.yaml").write_text(json.dumps(document))
    write_script(project / "script.json", READING)
    write_script(project / "other.json", NONSENSE, NONSENSE)
    monkeypatch.chdir(project)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return project


def write_script(path: Path, *answers: dict[str, Any]) -> None:
    path.write_text(json.dumps(answers))


def copied_skills(folder: Path, name: str = "next") -> Path:
    """A copy of the prompts that come with the package."""
    return Path(shutil.copytree(SHIPPED_SKILLS, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.py")))


def planners(ran: Ran) -> list[str]:
    return [report["planner"] for report in json.loads(ran.stdout)["reports"]]


def test_a_model_is_compared_with_the_planner_that_needs_none(folder: Path, run: Run) -> None:
    ran = run("eval", "run", "--trust", "--model", "small", "--gate", "0")

    assert ran.code == 0, ran.stderr
    assert "1 request over 1 tool, planned by small, 30 tokens" in ran.stdout
    assert "offline → small\n  routing  0.000 → 1.000 (+1.000)" in ran.stdout


def test_two_models_are_compared_with_each_other(folder: Path, run: Run) -> None:
    ran = run("eval", "run", "--trust", "--model", "small", "--model", "large", "--gate", "0", "--json")

    assert ran.code == 0, ran.stderr
    assert planners(ran) == ["small", "large"]
    [difference] = json.loads(ran.stdout)["differences"]
    assert [change["id"] for change in difference["changes"]] == ["look"]


def test_changed_prompts_are_compared_with_those_of_the_project(folder: Path, run: Run) -> None:
    copied_skills(folder)
    write_script(folder / "script.json", READING, READING)

    ran = run("eval", "run", "--trust", "--model", "small", "--skills", "next", "--json")

    assert ran.code == 0, ran.stderr
    assert planners(ran) == ["small", "small with the prompts of next"]
    [difference] = json.loads(ran.stdout)["differences"]
    assert difference["changes"] == []


def test_a_changed_prompt_with_an_old_version_fails_the_gate(folder: Path, run: Run) -> None:
    changed = copied_skills(folder) / "builder.md"
    changed.write_text(changed.read_text().replace("</instructions>", "Be brief.\n</instructions>"))

    ran = run("eval", "run", "--trust", "--model", "small", "--skills", "next")

    assert ran.code == 1
    assert "builder.md" in ran.stderr
    assert "version" in ran.stderr


def test_the_prompts_of_a_project_are_gated_without_a_model_too(folder: Path, run: Run) -> None:
    changed = copied_skills(folder, "prompts") / "ops.md"
    changed.write_text(changed.read_text().replace("</instructions>", "Be brief.\n</instructions>"))
    settings = (folder / "agent.toml").read_text().replace("[reasoner]", '[reasoner]\nskills = "prompts"')
    (folder / "agent.toml").write_text(settings)

    ran = run("eval", "run", "--trust", "--gate", "0")

    assert ran.code == 1
    assert "ops.md" in ran.stderr


def test_prompts_without_a_model_are_a_fault_of_usage(folder: Path, run: Run) -> None:
    copied_skills(folder)

    ran = run("eval", "run", "--trust", "--skills", "next")

    assert ran.code == 2
    assert "No model is named that the prompts would be given to" in ran.stderr
    assert "`--model NAME`" in ran.stderr


def test_a_model_that_the_settings_do_not_have_is_named(folder: Path, run: Run) -> None:
    ran = run("eval", "run", "--trust", "--model", "huge")

    assert ran.code == 1
    assert "huge" in ran.stderr


def test_a_model_that_may_not_see_requests_is_not_asked_and_the_report_says_so(folder: Path, run: Run) -> None:
    ran = run("eval", "run", "--trust", "--model", "unknown", "--gate", "0")

    assert ran.code == 0, ran.stderr
    assert "planned by unknown\n  MODEL_NOT_ADMITTED: 1 request planned without the model\n" in ran.stdout


def test_answers_that_cannot_be_used_are_counted(folder: Path, run: Run) -> None:
    ran = run("eval", "run", "--trust", "--model", "large", "--gate", "0", "--json")

    assert [report["fallbacks"] for report in json.loads(ran.stdout)["reports"]] == [{}, {"MODEL_ANSWER_REFUSED": 1}]


def test_models_on_other_machines_are_asked_only_in_a_trusted_folder(folder: Path, run: Run) -> None:
    ran = run("eval", "run", "--model", "far")

    assert ran.code == 1
    assert "agent trust-folder" in ran.stderr
