"""`agent plan`: what it prints, why an agent has none, and how it ends."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import agent_process, contents, edit
from tests.conftest import Ran, Run
from tests.project.conftest import server

Snapshot = Callable[[object], None]

CONFIG = """\
[models.default]
provider = "local"
upstream_model = "small-1"
context_window = 8000
aliases = ["sonnet", "haiku"]
data = { residency = ["eu-only"], maxSensitivity = "confidential" }

[models.large]
provider = "local"
upstream_model = "large-1"
context_window = 100000
max_output_tokens = 4000

[pools.both]
models = ["default", "large"]

[providers.local]
adapter = "scripted"

[remotes.partner]
url = "https://partner.example/a2a"
"""
NOT_KNOWN = "Agent requires 'us-only' but the model's residency is not known"
NOWHERE = "invalid remote endpoint config for delegate `partner` backend `a2a`"
KEEPER = """\
---
name: keeper
version: 1.0.0
description: Keeps contacts
model: sonnet
tools: crm.find, crm.merge, crm.delete, Read, Bash(git *)
requires:
  mcp:
    - category: crm
      permissions: [contacts.read, contacts.write]
    - category: mail
      permissions: [send]
constraints:
  data: { sensitivity: internal, residency: eu-only }
  actions: { forbid: ["*delete*"] }
runtime:
  max_rounds: 4
  allowed_tool_patterns: ["agent_run_*", "calender.*"]
  delegates: [helper]
  context_policy:
    max_context_tokens: 200000
    max_output_tokens: 1000
    min_recent_messages: 5
    enable_prompt_cache: true
  sections:
    retry: { max_retries: 2 }
    notes: {}
---
You keep contacts.
"""
FILES = {
    "agents/keeper.md": KEEPER,
    "agents/helper.md": "---\nname: helper\ndescription: Helps\nmodel: inherit\n---\nYou help.\n",
    "agents/pooled.md": "---\nname: pooled\nmodel: both\n---\n",
    "agents/lost.md": "---\nname: lost\nmodel: unheard-of\n---\n",
    "agent.toml": CONFIG,
}


SERVERS = [
    server(
        "crm",
        scopes=["contacts.read", "contacts.write", "contacts.admin"],
        toolScopes={
            "find": ["contacts.read"],
            "save": ["contacts.write"],
            "delete": ["contacts.write"],
            "merge": ["contacts.admin"],
        },
    ),
    server("mail", scopes=["send"]),
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    """Agents, settings and an index, with a lock for the one that needs it, as the current folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder = tmp_path / "project"
    (folder / "agents").mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "mcp.index.json").write_text(json.dumps(SERVERS))
    monkeypatch.chdir(folder)
    assert run("resolve", "--agents", "agents/keeper.md").code == 0
    return folder


def error(ran: Ran) -> dict[str, Any]:
    """What a program is told of a failure."""
    assert (ran.code, ran.stderr) == (1, "")
    document = json.loads(ran.stdout)
    assert document["success"] is False
    found: dict[str, Any] = document["error"]
    return found


def tools_of(run: Run, agent: str = "x") -> list[str]:
    """The tools of an agent's plan."""
    ran = run("plan", agent, "--json")
    assert ran.code == 0, ran.stdout
    return [tool["id"] for tool in json.loads(ran.stdout)["tools"]]


def free_keeper(project: Path, keys: str, name: str = "agents/keeper.md") -> None:
    """The agent with a lock, with other lists of tools."""
    text = KEEPER.replace("tools: crm.find, crm.merge, crm.delete, Read, Bash(git *)\n", keys)
    text = text.replace('  allowed_tool_patterns: ["agent_run_*", "calender.*"]\n', "").replace(
        "  delegates: [helper]\n", ""
    )
    (project / name).write_text(text)


# What it prints -------------------------------------------------------------------------------------------------------


def test_plan(project: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("plan", "keeper"))


def test_plan_as_json(project: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("plan", "keeper", "--json"))


def test_a_plan_shows_the_tools_that_are_hidden_and_has_a_digest(project: Path, run: Run) -> None:
    before = json.loads(run("plan", "keeper", "--json").stdout)
    rules = '[{ tool: "crm.find", behavior: deny }, { tool: "crm.*(x *)", behavior: deny }]'
    edit(
        project / "agents" / "keeper.md", "    notes: {}\n", f"    notes: {{}}\n    permission: {{ rules: {rules} }}\n"
    )
    shown, document = run("plan", "keeper").stdout, json.loads(run("plan", "keeper", "--json").stdout)

    assert "    crm.find (server crm@1.0.0), hidden: its permission rules deny every call\n" in shown
    assert shown.count("hidden") == 1
    assert "  Permissions: ask what no rule is about\n    deny crm.find\n    deny crm.*(x *)\n" in shown
    assert before["permissions"] is None
    assert document["permissions"] == {
        "defaultBehavior": "ask",
        "rules": [{"tool": tool, "behavior": "deny", "scope": "project"} for tool in ("crm.find", "crm.*(x *)")],
    }
    assert (before["hidden"], document["hidden"]) == ([], ["crm.find"])
    assert document["digest"].startswith("sha256-")
    assert document["digest"] != before["digest"]
    assert "permission" in document["plugins"]
    assert "permission" not in before["plugins"]


def test_plan_of_a_file_that_was_written_for_another_tool(project: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("plan", "helper"))


def test_plan_with_a_pool(project: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("plan", "pooled"))


def test_plan_with_a_pool_as_json(project: Path, run: Run) -> None:
    document = json.loads(run("plan", "pooled", "--json").stdout)

    assert sorted(document["pool"]) == ["default", "large"]
    assert document["model"]["id"] == "both"
    assert document["model"]["contextWindow"] == 8000


def test_plan_of_a_remote_agent(project: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("plan", "partner"))


def test_plan_of_a_remote_agent_as_json(project: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("plan", "partner", "--json"))


def test_an_agent_is_found_by_its_address_and_a_setting_may_be_given(project: Path, run: Run) -> None:
    by_name = run("plan", "helper", "--config", "models.default.upstream_model=other")
    by_address = run("plan", "agent://helper", "--config", "models.default.upstream_model=other")

    assert by_name.stdout == by_address.stdout
    assert "  Model: default (local: other)\n" in by_name.stdout


def test_agents_may_be_in_another_folder(project: Path, run: Run) -> None:
    (project / "more").mkdir()
    (project / "more" / "extra.md").write_text("---\nname: extra\n---\n")

    assert run("plan", "extra", "--root", "more").code == 0
    assert run("plan", "helper", "--root", "more").code == 1


def test_a_plan_writes_nothing_into_the_project_and_is_the_same_each_time(project: Path, run: Run) -> None:
    before = contents(project)
    first = run("plan", "keeper", "--json")

    assert run("plan", "keeper", "--json").stdout == first.stdout
    assert contents(project) == before


# Why an agent has none ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lost", "keepr", "nobody"])
def test_plan_refused(project: Path, run: Run, snapshot: Snapshot, name: str) -> None:
    snapshot(run("plan", name))


def test_plan_without_a_lock(project: Path, run: Run, snapshot: Snapshot) -> None:
    (project / "agents" / "keeper.lock").unlink()

    snapshot(run("plan", "keeper"))


def test_plan_with_an_edited_lock(project: Path, run: Run, snapshot: Snapshot) -> None:
    edit(project / "agents" / "keeper.lock", "https://crm.example", "https://crn.example")

    snapshot(run("plan", "keeper"))


def test_plan_with_an_edited_lock_as_json(project: Path, run: Run) -> None:
    edit(project / "agents" / "keeper.lock", "https://crm.example", "https://crn.example")
    found = error(run("plan", "keeper", "--json"))

    assert (found["code"], found["message"]) == (
        "LOCK_STALE",
        "agent keeper has a lock that does not hold: agents/keeper.lock",
    )
    assert {detail["kind"] for detail in found["details"]} == {"hash-edited", "endpoint-moved"}


def test_plan_of_an_invalid_file(project: Path, run: Run, snapshot: Snapshot) -> None:
    edit(project / "agents" / "keeper.md", "  max_rounds: 4\n", "  max_rouns: 4\n  excluded_tool_patterns: ['']\n")
    edit(project / "agents" / "keeper.md", "sensitivity: internal", "sensitivty: internal")

    snapshot(run("plan", "keeper"))


def test_plan_of_an_invalid_file_as_json(project: Path, run: Run) -> None:
    edit(project / "agents" / "helper.md", "model: inherit\n", "runtime: { plugin_id: [x] }\n")
    found = error(run("plan", "helper", "--json"))

    assert found["code"] == "INVALID_SPEC"
    assert found["files"] == [
        {
            "path": "agents/helper.md",
            "kind": "agents/helper.md",
            "issues": [
                {
                    "path": "runtime.plugin_id",
                    "code": "unknown-key",
                    "severity": "error",
                    "message": "Unknown key",
                    "hint": "did you mean `plugin_ids`?",
                    "line": 4,
                    "column": 12,
                }
            ],
        }
    ]


# Delegates ------------------------------------------------------------------------------------------------------------

SUMMARY = "summarizer_system_prompt: s, summarizer_user_prompt: u, min_savings_ratio: 0.5"


def write_agents(project: Path, **agents: str) -> None:
    for name, front_matter in agents.items():
        (project / "agents" / f"{name}.md").write_text(f"---\nname: {name}\n{front_matter}---\n")


@pytest.mark.parametrize("summary_model", ["large", "somewhere/else"])
def test_the_summary_model_of_a_delegate_does_not_escape_residency(project: Path, run: Run, summary_model: str) -> None:
    compaction = f"{{ {SUMMARY}, summary_model: {summary_model} }}"
    write_agents(
        project,
        boss="constraints: { data: { residency: eu-only } }\nruntime: { delegates: [middle] }\n",
        middle="runtime: { delegates: [boss, low] }\n",
        low=f"runtime: {{ sections: {{ compaction: {compaction} }} }}\n",
    )
    found = error(run("plan", "boss", "--json"))

    assert found["code"] == "CONSTRAINT_BROKEN"
    assert f"agent boss cannot use summary model {summary_model} of delegate low: RESIDENCY_UNKNOWN" in found["message"]
    assert run("plan", "low").code == 0


@pytest.mark.parametrize(
    ("pattern", "closed"),
    [("crm.save", "crm.save"), ("save", "crm.save"), ("contacts.write", "crm.save"), ("crm.f*", "crm.find")],
)
def test_what_a_caller_forbids_its_delegate_does_not_have(project: Path, run: Run, pattern: str, closed: str) -> None:
    free_keeper(project, "")
    write_agents(
        project,
        boss=f"constraints: {{ actions: {{ forbid: ['{pattern}'] }} }}\nruntime: {{ delegates: [keeper, partner] }}\n",
        free="runtime: { delegates: [keeper] }\n",
    )
    bound, free = (json.loads(run("plan", name, "--json").stdout) for name in ("boss", "free"))
    keeper = bound["delegates"][0]

    assert free["delegates"][0]["tools"] == ["crm.find", "crm.save"]
    assert keeper["tools"] == [tool for tool in ("crm.find", "crm.save") if tool != closed]
    assert (closed, "FORBIDDEN_ACTION") in {(absent["id"], absent["code"]) for absent in keeper["absent"]}
    assert f"      not {closed}: Agent forbids '{pattern}'" in run("plan", "boss").stdout
    assert [warning["code"] for warning in bound["warnings"]] == ["REMOTE_NOT_BOUND"]


def test_a_delegate_without_a_plan_is_shown_with_the_reason(project: Path, run: Run, snapshot: Snapshot) -> None:
    write_agents(project, boss="runtime: { delegates: [lost, partner, helper] }\n")

    snapshot(run("plan", "boss"))
    assert json.loads(run("plan", "boss", "--json").stdout)["delegates"] == [
        {"agent": "helper", "kind": "local", "tools": [], "absent": []},
        {"agent": "lost", "error": "model not found: unheard-of"},
        {"agent": "partner", "kind": "remote"},
    ]


# Lists of tools -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("", ["crm.find", "crm.save"]),
        ('tools: ["*"]\n', ["crm.find", "crm.save"]),
        ("tools:\n", []),
        ("tools: []\n", []),
        ("allowed-tools: Bash(git:*) crm.find\n", ["crm.find"]),
        ("tools: crm.find, crm.save\nallowedTools: [crm.save]\n", ["crm.save"]),
        ("tools: Agent(x, crm.save, y), crm.find\n", ["crm.find"]),
        ("disallowedTools: crm.save\n", ["crm.find"]),
        ("disallowedTools: mcp__crm__save\n", ["crm.find"]),
        ("excluded_tools: [crm.save(id)]\n", ["crm.find"]),
        ("excludeTools: ['crm.*']\n", []),
        ("tools: ['*']\nexclude_tools: [crm.find]\nexcludedTools: [crm.save]\n", []),
    ],
)
def test_a_list_of_tools_holds_under_each_spelling(project: Path, run: Run, keys: str, expected: list[str]) -> None:
    free_keeper(project, keys)

    assert tools_of(run, "keeper") == expected


@pytest.mark.parametrize(
    ("keys", "key", "hint"),
    [
        ("tols: []\n", "tols", "did you mean `tools`?"),
        ("Tools: []\n", "Tools", "did you mean `tools`?"),
        ("t\u043e\u043els: []\n", "t\u043e\u043els", "did you mean `tools`?"),
        ("tools: [crm.find]\nTOOLS: []\n", "TOOLS", "did you mean `tools`?"),
        ("blocked-tools: [crm.save]\n", "blocked-tools", "did you mean `disallowedTools`?"),
        ("delegates: [helper]\n", "delegates", "write it as `runtime.delegates`"),
        ("residency: us-only\n", "residency", "write it as `constraints.data.residency`"),
    ],
)
@pytest.mark.parametrize("folder", ["agents", "agents/team/inner"])
def test_a_list_or_limit_that_would_be_overlooked_leaves_no_plan(  # noqa: PLR0913, PLR0917 - a table
    project: Path, run: Run, folder: str, keys: str, key: str, hint: str
) -> None:
    (project / folder).mkdir(parents=True, exist_ok=True)
    (project / folder / "x.md").write_text(f"---\nname: x\n{keys}---\n")
    found = error(run("plan", "x", "--json"))
    issues = [(issue["path"], issue["hint"]) for issue in found["files"][0]["issues"]]
    checked = run("catalog", "check")

    assert (found["code"], issues) == ("INVALID_SPEC", [(key, hint)])
    assert (checked.code, f"{hint} ({folder}/x.md:" in checked.stdout) == (0, True)


@pytest.mark.parametrize(
    ("front_matter", "flags", "code", "message", "hint"),
    [
        (
            "model: large\nconstraints: { data: { residency: us-only } }",
            (),
            "CONSTRAINT_BROKEN",
            f"agent x cannot use model large: RESIDENCY_UNKNOWN: {NOT_KNOWN}",
            "use another, or say in its `data` where it keeps data and how sensitive that may be",
        ),
        (
            "runtime: { plugin_ids: [notes] }",
            (),
            "PLUGIN_NOT_FOUND",
            "plugin not found: notes",
            "install the package that offers it, or take it out of `plugin_ids`",
        ),
        (
            "runtime: { sections: { retry: { max_retries: two } } }",
            (),
            "INVALID_PLUGIN_CONFIG",
            'invalid config for plugin retry: section "retry" — max_retries: Expected number, received string',
            None,
        ),
        (
            "model: sonnet",
            ('models.default.provider="nowhere"',),
            "PROVIDER_NOT_FOUND",
            "provider not found: nowhere",
            "describe it in `[providers.<name>]` of agent.toml",
        ),
        (
            "runtime: { delegates: [partner] }",
            ('remotes.partner.url="partner.example"',),
            "INVALID_REMOTE_ENDPOINT_CONFIG",
            f"{NOWHERE} — base_url must be an http(s) URL with a host",
            "correct `[remotes.<name>]` of agent.toml, or `endpoint` in the agent file",
        ),
        (
            "runtime: { backend: { kind: acp, config: { base_url: 'https://x.example' } } }",
            (),
            "UNSUPPORTED_REMOTE_BACKEND",
            "unsupported remote backend `acp` for delegate `x`",
            None,
        ),
        (
            "model: sonnet",
            ("models.default.context_window=-1",),
            "CONFIG_VALIDATION",
            "invalid model 'default': context_window: Must be 1 or more",
            None,
        ),
    ],
)
def test_every_refusal_has_a_code_a_sentence_and_where_that_can_be_said_what_to_do(  # noqa: PLR0913, PLR0917 - a table
    project: Path, run: Run, front_matter: str, flags: tuple[str, ...], code: str, message: str, hint: str | None
) -> None:
    (project / "agents" / "x.md").write_text(f"---\nname: x\n{front_matter}\n---\n")
    options = [part for flag in flags for part in ("--config", flag)]
    ran = run("plan", "x", "--json", *options)

    found = error(ran)
    assert (found["code"], found["message"], found["hint"]) == (code, message, hint)
    text = run("plan", "x", *options)
    assert (text.code, text.stdout) == (1, "")
    assert text.stderr == f"error: {message}\n" + (f"hint: {hint}\n" if hint else "")


@pytest.mark.parametrize("share", [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.999])
def test_one_edited_byte_of_the_lock_and_there_is_no_plan(project: Path, run: Run, share: float) -> None:
    path = project / "agents" / "keeper.lock"
    raw = bytearray(path.read_bytes())
    time = re.search(rb'"resolvedAt": "(.*)"', raw)
    assert time is not None
    position = int(share * len(raw))
    assert position not in range(*time.span(1))
    raw[position] ^= 1
    path.write_bytes(raw)
    ran = run("plan", "keeper")

    assert (ran.code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: agent keeper has a lock that does not hold: agents/keeper.lock\n  - ")
    assert "\nhint: " in ran.stderr


def test_a_project_that_nobody_trusts_runs_nothing(project: Path, run: Run) -> None:
    edit(project / "agent.toml", "[models.default]", '[tools]\nmodules = ["plan_cli_tools"]\n\n[models.default]')
    (project / "plan_cli_tools.py").write_text("raise RuntimeError('it ran')\n")

    assert "is not trusted" in run("plan", "helper").stderr
    assert "it ran" in run("plan", "helper", "--trust").stderr


def test_the_doctor_lists_every_reference_that_leads_nowhere_at_once(project: Path, run: Run) -> None:
    edit(project / "agents" / "helper.md", "model: inherit\n", "runtime: { plugin_ids: [gone], delegates: [none] }\n")
    edit(project / "agent.toml", 'models = ["default", "large"]', 'models = ["default", "huge"]')
    (project / "agents" / "broken.md").write_text("---\nname: broken\nruntime: 5\n---\n")
    report = json.loads(run("doctor", "--json", "--agents", "agents/keeper.md").stdout)
    found = [check["finding"] for check in report["checks"] if check["name"] == "references"]

    assert found == [
        "agent broken: it is invalid: runtime: Expected object",
        "agent helper: there is no agent none",
        "agent helper: there is no plugin gone",
        "agent lost: there is no model unheard-of",
        "pool both: there is no model huge",
    ]


# How it ends ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ("plan",),
        ("plan", "a", "b"),
        ("plan", "helper", "--wrong"),
        ("plan", "helper", "--root", "nowhere"),
        ("plan", "helper", "--index", "nowhere.json"),
    ],
)
def test_a_command_line_that_cannot_be_is_told_with_exit_code_2(
    project: Path, run: Run, command: tuple[str, ...]
) -> None:
    ran = run(*command)

    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr


def test_a_folder_without_agents_is_told(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("plan", "helper")

    assert ran.code == 2
    assert ran.stderr.startswith("error: There are no agent files")


def test_help_has_examples(run: Run) -> None:
    ran = run("plan", "--help")

    assert ran.code == 0
    assert "agent plan reviewer" in ran.stdout


def test_a_name_that_would_steer_a_terminal_is_shown_and_not_obeyed(project: Path, run: Run) -> None:
    ran = run("plan", "\x1b[31m\nname")

    assert ran.code == 1
    assert "\x1b" not in ran.stderr
    assert ran.stderr.startswith("error: agent not found: \\x1b[31m\\nname\n")


def test_every_machine_prints_the_same_bytes(project: Path) -> None:
    seen = {
        agent_process("plan", "keeper", "--json", PYTHONHASHSEED=seed, LC_ALL=locale).stdout
        for seed, locale in (("0", "C"), ("1", "C.UTF-8"), ("4294967295", ""))
    }

    assert len(seen) == 1
    assert json.loads(seen.pop())["success"] is True
