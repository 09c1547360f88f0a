"""`agent plan`: models that need no entry, names as other tools write them, and every agent at once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ran, Run

Snapshot = Callable[[object], None]

CONFIG = """\
[models.default]
provider = "local"
upstream_model = "small-1"
[models.large]
provider = "local"
upstream_model = "large-1"
[pools.both]
models = ["default", "large"]
[providers.local]
adapter = "scripted"
[remotes.partner]
url = "https://partner.example/a2a"
"""


def write_agents(project: Path, **agents: str) -> None:
    for name, front_matter in agents.items():
        (project / "agents" / f"{name}.md").write_text(f"---\nname: {name}\n{front_matter}---\n")


def error(ran: Ran) -> dict[str, Any]:
    """What a program is told of a failure."""
    assert (ran.code, ran.stderr) == (1, "")
    found: dict[str, Any] = json.loads(ran.stdout)["error"]
    return found


def model_of(run: Run, agent: str, *flags: str) -> dict[str, Any]:
    """The model of an agent's plan."""
    ran = run("plan", agent, "--json", *(part for flag in flags for part in ("--config", flag)))
    assert ran.code == 0, ran.stdout
    found: dict[str, Any] = json.loads(ran.stdout)["model"]
    return found


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Agents without any settings, as the current folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "bare"
    (folder / "agents").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def project(bare: Path) -> Path:
    """Agents with settings."""
    (bare / "agent.toml").write_text(CONFIG)
    write_agents(bare, helper="model: inherit\n", pooled="model: both\n", lost="model: unheard-of\n")
    return bare


def test_a_known_model_needs_no_settings(bare: Path, run: Run) -> None:
    write_agents(bare, x="model: gpt-4o\n")
    found = model_of(run, "x")

    assert (found["id"], found["provider"], found["upstreamModel"]) == ("gpt-4o", "openai", "gpt-4o")
    assert (found["contextWindow"], found["inputPrice"], found["outputPrice"]) == (128000, 2.5, 10.0)


def test_an_agent_with_data_constraints_refuses_a_known_model(bare: Path, run: Run) -> None:
    write_agents(bare, x="model: gpt-4o\nconstraints: { data: { residency: eu-only, sensitivity: internal } }\n")
    found = error(run("plan", "x", "--json"))

    assert found["code"] == "CONSTRAINT_BROKEN"
    assert "RESIDENCY_UNKNOWN" in found["message"]
    assert "SENSITIVITY_UNKNOWN" in found["message"]


def test_settings_come_before_what_is_known_of_a_model(bare: Path, run: Run) -> None:
    write_agents(bare, x="model: gpt-4o\nconstraints: { data: { residency: eu-only } }\n")
    ours = 'models.gpt-4o={provider="openai", prices={input=1, output=2}, data={residency=["eu-only"]}}'
    found = model_of(run, "x", ours)

    assert (found["upstreamModel"], found["contextWindow"]) == ("gpt-4o", 128000)
    assert (found["inputPrice"], found["outputPrice"]) == (1.0, 2.0)


def test_another_provider_of_a_known_model_has_its_own_prices(bare: Path, run: Run) -> None:
    write_agents(bare, x="model: gpt-4o\n")
    found = model_of(run, "x", 'models.gpt-4o={provider="proxy"}', 'providers.proxy={adapter="openai"}')

    assert (found["contextWindow"], found["inputPrice"]) == (128000, None)


def test_a_catch_all_serves_every_name_that_the_settings_do_not_have(bare: Path, run: Run) -> None:
    write_agents(bare, x="model: gpt-4o\n", y="model: unheard-of\n", z="model: inherit\n", star='model: "*"\n')
    flags = ('models."*"={provider="proxy", data={residency=["eu-only"]}}', 'providers.proxy={adapter="openai"}')
    found = [model_of(run, name, *flags) for name in "xy"]

    assert [(each["id"], each["provider"], each["upstreamModel"]) for each in found] == [
        ("gpt-4o", "proxy", "gpt-4o"),
        ("unheard-of", "proxy", "unheard-of"),
    ]
    assert found[0]["data"]["residency"] == ["eu-only"]
    for name in ("z", "star"):
        ran = run("plan", name, "--json", *(part for flag in flags for part in ("--config", flag)))
        assert error(ran)["code"] == "MODEL_NOT_FOUND"


def test_a_catch_all_may_name_one_model_for_all(bare: Path, run: Run) -> None:
    write_agents(bare, x="model: inherit\n", y="model: sonnet\n")
    flags = ('models."*"={provider="proxy", upstream_model="small"}', 'providers.proxy={adapter="openai"}')

    assert [model_of(run, name, *flags)["upstreamModel"] for name in "xy"] == ["small", "small"]


@pytest.mark.parametrize(
    ("line", "model", "warnings"),
    [
        ("GPT-5 (copilot)", "gpt-5", ["model `GPT-5 (copilot)` is read as `gpt-5`"]),
        ("Claude Sonnet 4.5 (copilot)", "claude-sonnet-4-5", ["is read as `claude-sonnet-4-5`"]),
        ("anthropic/claude-sonnet-4-5", "claude-sonnet-4-5", ["is read as `claude-sonnet-4-5`"]),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5-20250929", []),
        ("sonnet", "claude-sonnet-5", ["model `sonnet` is read as `claude-sonnet-5`"]),
        ("[gpt-4o, unheard-of]", "gpt-4o", ["`gpt-4o` is used, and not `unheard-of`"]),
        ("['unheard-of', 'GPT-5 (copilot)']", "gpt-5", ["is read as `gpt-5`", "is used, and not `unheard-of`"]),
        ("unheard-of, gpt-4o", "gpt-4o", ["`gpt-4o` is used, and not `unheard-of`"]),
    ],
)
def test_a_model_line_of_another_tool_is_read_or_named(
    bare: Path, run: Run, line: str, model: str, warnings: list[str]
) -> None:
    write_agents(bare, x=f"model: {line}\n")
    document = json.loads(run("plan", "x", "--json").stdout)

    assert document["model"]["id"] == model
    assert len(document["warnings"]) == len(warnings)
    for warning, words in zip(document["warnings"], warnings, strict=True):
        assert warning["code"] in {"MODEL_NAME_MAPPED", "MODEL_IGNORED"}
        assert words in warning["message"]


@pytest.mark.parametrize("line", ["inherit", "Inherit", "auto", "", "[]", "[inherit]", "~"])
def test_a_model_line_that_names_none_is_the_default(project: Path, run: Run, line: str) -> None:
    write_agents(project, x=f"model: {line}\n")

    assert model_of(run, "x")["id"] == "default"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("unheard-of", "MODEL_NOT_FOUND"),
        ("[unheard-of, neither]", "MODEL_NOT_FOUND"),
        ("openrouter/gpt-4o", "MODEL_NOT_FOUND"),
        ("{name: gpt-4o}", "INVALID_SPEC"),
    ],
)
def test_a_model_line_that_means_no_model_is_refused(bare: Path, run: Run, line: str, code: str) -> None:
    write_agents(bare, x=f"model: {line}\n")

    assert error(run("plan", "x", "--json"))["code"] == code


# Every agent ----------------------------------------------------------------------------------------------------------


def test_plan_of_every_agent(project: Path, run: Run, snapshot: Snapshot) -> None:
    write_agents(project, broken="runtime: 5\n", listed="model: [gpt-4o, large]\ntools: Read\n")
    snapshot(run("plan", "--all"))


def test_plan_of_every_agent_as_json(project: Path, run: Run) -> None:
    ran = run("plan", "--all", "--json")
    document = json.loads(ran.stdout)

    assert ran.code == 1
    assert (document["success"], document["planned"], document["refused"]) == (False, 3, 1)
    (lost,) = (each for each in document["agents"] if not each["success"])
    assert (lost["agent"], lost["code"], lost["message"]) == (
        "lost",
        "MODEL_NOT_FOUND",
        "model not found: unheard-of",
    )


def test_plan_of_every_agent_exits_0_if_all_have_one(bare: Path, run: Run) -> None:
    write_agents(bare, x="model: gpt-4o\n")
    ran = run("plan", "--all")

    assert (ran.code, ran.stdout) == (0, "✓ x: gpt-4o, 0 tools\n1 agent: 1 planned, 0 refused\n")


@pytest.mark.parametrize("arguments", [(), ("helper", "--all")])
def test_plan_takes_one_agent_or_all(project: Path, run: Run, arguments: tuple[str, ...]) -> None:
    ran = run("plan", *arguments)

    assert ran.code == 2
    assert ran.stderr.startswith("error: Name one agent, or give `--all`\n")
