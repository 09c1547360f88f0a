"""Claude Code and Codex, with a model on loopback: both take our names, and their calls come through.

Each is configured with what `agent serve --print-config` prints for it.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.core import to_wire_name
from tests.integration.conftest import BUILD, ROOT, processes
from tests.integration.loopback_model import LoopbackModel, loopback_model
from tests.integration.test_capability import agent, records
from tests.process import eventually
from tests.server.conftest import over_http, write_agent

FITS = re.compile(r"[A-Za-z0-9_-]{1,64}")
MODULES = BUILD / "node_modules"
LONG = "odd.a_name_that_is_longer_than_any_client_takes_though_every_character_of_it_fits"
ODD = """\
from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver.capability import capability


class Note(Struct, frozen=True):
    "A note."
    text: Annotated[str, Meta(description="The words.", examples=["x"])]


@capability("odd.two__underscores", examples=[{"text": "x"}], read_only=True)
def odd(note: Note) -> Note:
    "Give it back."
    return note


@capability("LONG", examples=[{"text": "x"}], read_only=True)
def long(note: Note) -> Note:
    "Give it back."
    return note
""".replace("LONG", LONG)

IDS = ["tickets.search", "odd.two__underscores", LONG]
CALLS = [
    ("tickets__search", {"text": "login"}),
    (to_wire_name("odd.two__underscores"), {"text": "two"}),
    (to_wire_name(LONG), {"text": "long"}),
]
RESULTS = ["Login fails on Mondays", '{"text":"two"}', '{"text":"long"}']
SERVED = {
    *("get_agent", "list_agents", "resolve_agent", "search_agents"),
    *("tickets__create", "tickets__export", "tickets__purge", "tickets__search"),
    *(name for name, _ in CALLS),
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The tickets, two tools with odd ids, and an agent whose name another one has too."""
    ignored = shutil.ignore_patterns(".*", "__pycache__")
    project = shutil.copytree(ROOT / "examples" / "tickets", tmp_path / "project", ignore=ignored)
    (project / "odd.py").write_text(ODD)
    (project / "agent.toml").write_text('[tools]\nmodules = ["tickets", "odd"]\n[catalog]\nroots = ["agents"]\n')
    write_agent(project / "agents", "reviewer")
    write_agent(project / "agents" / "team", "reviewer", body="You review for the team.")
    yield project
    assert eventually(lambda: not processes(tmp_path)), "a process outlived its test"


def program(pattern: str) -> str:
    found = next(MODULES.glob(pattern), None)
    assert found, "run `make integration`, which installs it"
    return str(found)


def ran(line: list[str], folder: Path, model: LoopbackModel, **variables: str) -> str:
    """What a client prints, with a home of its own; what it asks of other hosts goes to the model, which refuses."""
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    environment = {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "HOME": str(home),
        "HTTP_PROXY": model.url,
        "HTTPS_PROXY": model.url,
        "NO_PROXY": "127.0.0.1",
        **variables,
    }
    done = subprocess.run(
        line,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def claude_code(prompt: str, settings: str, folder: Path, model: LoopbackModel) -> str:
    """Run Claude Code once."""
    (folder.parent / "mcp.json").write_text(settings)
    line = [program("@anthropic-ai/claude-code-*/claude"), "-p", prompt]
    line += ["--mcp-config", str(folder.parent / "mcp.json"), "--strict-mcp-config"]
    line += ["--allowedTools", "mcp__agent-resolver"]
    variables = {
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        # The tools are in the first request then, and not behind a search.
        "ENABLE_TOOL_SEARCH": "false",
        "MCP_CONNECTION_NONBLOCKING": "false",
    }
    return ran(line, folder, model, **variables)


def codex(prompt: str, settings: str, folder: Path, model: LoopbackModel) -> str:
    """Run Codex once."""
    home = folder.parent / "home" / ".codex"
    home.mkdir(parents=True)
    provider = f'[model_providers.loopback]\nname = "loopback"\nbase_url = "{model.url}/v1"\nwire_api = "responses"\n'
    (home / "config.toml").write_text(f"check_for_update_on_startup = false\n{settings}\n{provider}")
    line = [program("@openai/codex-*/vendor/*/bin/codex"), "exec", "--skip-git-repo-check"]
    line += ["-c", "model_provider=loopback", "-c", "model=gpt-5", "-c", "approval_policy=never"]
    # Otherwise it does not wait for a server before the first question to the model.
    line += ["-c", "mcp_servers.agent-resolver.required=true", prompt]
    return ran(line, folder, model)


def offered_to_claude(body: dict[str, Any]) -> set[str]:
    """The names of our tools, as the model sees them, without what the client puts before each."""
    names = [tool["name"] for tool in body["tools"]]
    return {name.removeprefix("mcp__agent-resolver__") for name in names if name.startswith("mcp__agent-resolver__")}


def offered_to_codex(body: dict[str, Any]) -> set[str]:
    [space] = [tool for tool in body["tools"] if "agent_resolver" in tool.get("name", "")]
    return {tool["name"] for tool in space["tools"]}


@contextmanager
def settings_of(client: str, folder: Path, transport: str) -> Iterator[str]:
    """What is printed for a client, while the server that it names is there."""
    with ExitStack() as stack:
        where = ["--trust"]
        if transport == "http":
            address = stack.enter_context(over_http(folder, "--trust"))
            where = ["--http", f"127.0.0.1:{address.port}"]
        yield agent(folder, "serve", "--print-config", client, *where).stdout


Run = Callable[[str, str, Path, LoopbackModel], str]
Offered = Callable[[dict[str, Any]], set[str]]


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize(
    ("client", "run", "offered"),
    [("claude-code", claude_code, offered_to_claude), ("codex", codex, offered_to_codex)],
    ids=["claude-code", "codex"],
)
def test_a_coding_agent_is_offered_every_tool_and_its_calls_come_through(
    folder: Path, client: str, run: Run, offered: Offered, transport: str
) -> None:
    with settings_of(client, folder, transport) as settings, loopback_model(*CALLS) as model:
        said = run("Call the tools", settings, folder, model)

    assert "Done" in said
    assert [offered(body) for body in model.requests] == [SERVED] * 4
    assert all(FITS.fullmatch(name) for name in SERVED)
    last = json.dumps(model.requests[-1]).replace('\\\\\\"', '"').replace('\\"', '"')
    assert [result for result in RESULTS if result in last] == RESULTS
    assert [body["tool"] for kind, body in records(folder) if kind == "call.done"] == IDS


def test_claude_code_takes_prompts_for_commands(folder: Path) -> None:
    with settings_of("claude-code", folder, "stdio") as settings, loopback_model() as model:
        said = claude_code("/mcp__agent-resolver__team____reviewer the parser", settings, folder, model)

    assert "Done" in said
    [body] = model.requests
    assert "You review for the team." in json.dumps(body["messages"])
