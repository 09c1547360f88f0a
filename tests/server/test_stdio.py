"""`agent serve` as a client starts it: what is on the wire, how it ends, what it serves, and clients' settings."""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.exchange import CLIENTS, ClientEntry, write_entries
from agent_resolver.project import open_catalog
from tests.cli.conftest import AGENT, server
from tests.index_files import compile_bytes
from tests.process import assert_none_is_left, eventually, is_running, started
from tests.server.conftest import META, Start, environment, write_agent
from tests.server.test_resource_tool import TWINS

pytestmark = pytest.mark.slow
"""Each test starts a server in a process of its own."""

LIST = {"jsonrpc": "2.0", "method": "resources/list"}


def agent(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "agent_resolver", *command]
    known = {**environment(folder), **variables}
    return subprocess.run(line, cwd=folder, env=known, capture_output=True, text=True, check=False, timeout=60)


def test_nothing_but_messages_is_on_stdout(start: Start, agents: Path, tmp_path: Path) -> None:
    """Whatever there is to say of the folders, the files and the requests goes to stderr."""
    eager = tmp_path / ".claude" / "agents"
    write_agent(eager, "ready")
    (eager / "broken.md").write_text("---\nname: broken\ndescription: one: two: three\n---\nBody\n")
    (eager / "odd.md").write_bytes(b"---\nname: [\n\xff\n---\n")
    process = start("--root", "agents", "--root", str(eager))
    process.send(b"not json", b"[]", b'"text"', b"", b"{}", b"\xff\xfe", b'{"jsonrpc":"2.0","id":1}')

    assert process.ask("resources/list")["result"]["resources"]
    assert process.ask("tools/call", name="nothing", arguments={})["error"]["code"] == -32602
    code, rest, errors = process.end()
    assert code == 0
    assert [line for line in rest.splitlines() if json.loads(line)["jsonrpc"] != "2.0"] == []
    assert "Claude Code" in errors
    assert "Traceback" not in errors


def test_a_message_without_an_id_is_never_answered(start: Start, agents: Path) -> None:
    process = start("--root", "agents")
    process.initialize()
    process.send(
        LIST,
        {"jsonrpc": "2.0", "method": "resources/read", "params": {"uri": "agent://nobody"}},
        {"jsonrpc": "2.0", "method": "nothing/like-it"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}},
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        {**LIST, "id": 7},
    )

    assert process.receive()["id"] == 7
    assert process.end()[1] == b""


def test_the_first_answer_does_not_wait_until_every_agent_was_read(start: Start, agents: Path, tmp_path: Path) -> None:
    roots, servers = [str(agents)], str(tmp_path / "mcp.index.json")
    catalog = open_catalog(roots, environment(tmp_path), index_path=servers)
    with closing(catalog), catalog._index.transaction():
        # While another process writes, no file can be indexed.
        process = start("--root", "agents")
        assert process.initialize()["serverInfo"]["name"] == "agent-resolver"
        process.send({**LIST, "id": 6, "method": "tools/list"}, {**LIST, "id": 7})
        assert process.answer(6)["result"]["tools"]
    assert process.answer(7)["result"]["_meta"]["agent-resolver/total"] == 45
    assert process.end()[0] == 0


def test_params_may_be_null(start: Start, agents: Path) -> None:
    process = start("--root", "agents")
    process.initialize()
    process.send({"jsonrpc": "2.0", "id": 5, "method": "tools/list", "params": None})

    assert process.receive()["result"]["tools"]


def test_a_stream_is_promised_only_what_can_be_sent(start: Start, agents: Path) -> None:
    process = start("--root", "agents")
    asked = {
        "toolsListChanged": True,
        "resourceSubscriptions": ["agent://ready", "file:///etc/passwd", "agent://"],
        "taskIds": ["a"],
    }
    listen = {"notifications": asked, "_meta": META}
    process.send({"jsonrpc": "2.0", "id": 2, "method": "subscriptions/listen", "params": listen})

    assert process.receive()["params"]["notifications"] == {
        "toolsListChanged": True,
        "resourceSubscriptions": ["agent://ready"],
    }


def test_a_limit_that_is_none_is_refused_on_the_wire(start: Start, agents: Path) -> None:
    """Null too, which the SDK's client does not send."""
    process = start("--root", "agents")

    limits: list[object] = [None, 0, 101, True, "5", 1.5, [], {}]
    for limit in limits:
        error = process.ask("resources/list", meta={"agent-resolver/limit": limit})["error"]
        assert (error["code"], error["data"]) == (-32602, {"key": "agent-resolver/limit"})


@pytest.mark.slow
def test_a_thousand_requests_at_once_are_all_answered(start: Start, agents: Path) -> None:
    process = start("--root", "agents")
    process.initialize()
    process.send(*({**LIST, "id": number} for number in range(1000)))

    assert {process.receive()["id"] for _ in range(1000)} == set(range(1000))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["closed", "interrupted", "terminated"])
@pytest.mark.parametrize("when", ["idle", "subscribed"])
def test_it_ends_quickly_and_without_a_word(start: Start, agents: Path, how: str, when: str) -> None:
    process = start("--root", "agents")
    process.ask("resources/list")
    if when == "subscribed":
        listen = {"notifications": {"resourcesListChanged": True}}
        assert process.ask("resources/read", 1, uri="agent://ready")["result"]
        process.send({"jsonrpc": "2.0", "id": 2, "method": "subscriptions/listen", "params": {**listen, "_meta": META}})
        assert process.receive()["method"] == "notifications/subscriptions/acknowledged"
    begin = time.monotonic()
    if how != "closed":
        process.process.send_signal(signal.SIGINT if how == "interrupted" else signal.SIGTERM)
        process.process.wait(timeout=10)

    code, _, errors = process.end()
    assert (code, errors) == (0, "")
    assert time.monotonic() - begin < 3


def test_a_client_that_no_longer_reads_ends_it_too(start: Start, agents: Path) -> None:
    process = start("--root", "agents")
    process.initialize()
    process.stdout.close()
    process.send({**LIST, "id": 1})

    assert eventually(lambda: process.process.poll() is not None)
    assert "Traceback" not in process.stderr.read().decode()


def test_without_tools_of_a_project_there_are_the_twins_alone_and_no_state_is_kept(start: Start, agents: Path) -> None:
    (agents.parent / "agent.toml").write_text('[catalog]\nroots = ["agents"]\n')
    process = start()

    listed = process.ask("tools/list")["result"]
    assert [tool["name"] for tool in listed["tools"]] == TWINS
    assert "agent-resolver/manifest" not in listed["_meta"]
    assert process.ask("tools/call", name="list_agents", arguments={})["result"]["structuredContent"]["total"] == 45
    assert process.end() == (0, b"", "")
    assert not (agents.parent / ".agent").exists()


def test_without_agents_and_without_tools_there_is_nothing_to_serve(tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text("[tools]\nmodules = []\n")
    ran = agent(tmp_path, "serve", "--trust")

    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: There are no agent files: ")
    assert not (tmp_path / ".agent").exists()


# The tools of the project's own code ----------------------------------------------------------------------------------

NOTES = """\
from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver.capability import capability


class Note(Struct, frozen=True):
    "A note."
    text: Annotated[str, Meta(description="What it says.", examples=["x"])]


@capability("notes.echo", examples=[{"text": "x"}], tags=["plain"])
def echo(request: Note) -> Note:
    "Say it again."
    return request
"""


def test_a_project_may_have_tools_and_no_agents(start: Start, tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text('[tools]\nmodules = ["notes"]\n')
    (tmp_path / "notes.py").write_text(NOTES)
    process = start("--trust")

    listed = process.ask("tools/list", meta={"agent-resolver/tag": "plain"})["result"]
    assert [tool["name"] for tool in listed["tools"]] == ["notes__echo"]
    assert set(listed["_meta"]["agent-resolver/manifest"]) == {"version", "digest"}
    echoed = process.ask("tools/call", name="notes.echo", arguments={"text": "hello"})["result"]
    assert echoed["structuredContent"] == {"text": "hello"}
    none = process.ask("tools/call", name="list_agents", arguments={})["result"]
    assert none["structuredContent"] == {"agents": [], "total": 0}
    assert process.ask("resources/list")["result"]["resources"] == []
    assert process.end() == (0, b"", "")
    assert (tmp_path / ".agent" / "state.db").exists()


# The inbox ------------------------------------------------------------------------------------------------------------

ASKING = NOTES.replace('tags=["plain"]', "approval=True")


@pytest.fixture
def asking(tmp_path: Path) -> Path:
    """A project with a tool whose calls take an approval."""
    (tmp_path / "agent.toml").write_text('[tools]\nmodules = ["notes"]\n')
    (tmp_path / "notes.py").write_text(ASKING)
    return tmp_path


@pytest.mark.usefixtures("asking")
def test_the_inbox_is_served_only_where_it_is_asked_for(start: Start) -> None:
    process = start("--trust")

    assert not [tool for tool in process.ask("tools/list")["result"]["tools"] if tool["name"].startswith("inbox")]
    assert process.ask("tools/call", name="inbox_list", arguments={})["error"]["code"] == -32602


@pytest.mark.slow
def test_a_client_cannot_approve_its_own_call_over_any_connection(start: Start, asking: Path) -> None:
    """A model that is talked into it can call every tool that its client offers."""
    first, second = start("--trust", "--inbox"), start("--trust", "--inbox")
    waiting = first.ask("tools/call", name="notes.echo", arguments={"text": "x"})["result"]["structuredContent"]

    for process in (first, second):
        refused = process.ask("tools/call", name="inbox_approve", arguments={"id": waiting["id"]})["result"]
        assert refused["structuredContent"]["message"].startswith("OWN_CALL")
    again = first.ask("tools/call", name="notes.echo", arguments={"text": "x"})["result"]["structuredContent"]
    assert again["code"] == "APPROVAL_REQUIRED"

    assert agent(asking, "inbox", "approve", waiting["id"]).returncode == 0
    done = first.ask("tools/call", name="notes.echo", arguments={"text": "x"})["result"]["structuredContent"]
    assert done == {"text": "x"}


# The tools that a lock opens -----------------------------------------------------------------------------------------


@pytest.fixture
def governed(tmp_path: Path, agents: Path) -> Iterator[Path]:
    """A project with a lock that opens tools of `tests/connection/servers/raw.py`."""
    (tmp_path / "agents.md").write_text(AGENT)
    (tmp_path / "mcp.index.json").write_text(json.dumps([server()]))
    resolved = agent(tmp_path, "resolve")
    assert resolved.returncode == 0, resolved.stderr
    yield tmp_path
    assert_none_is_left(tmp_path)


def test_the_tools_of_a_lock_stand_beside_the_twins(governed: Path, start: Start) -> None:
    process = start("--root", "agents", "--tools-of", "agents.md", "--trust")

    tools = [tool["name"] for tool in process.ask("tools/list")["result"]["tools"]]
    assert tools == sorted(tools)
    assert {"raw__echo", "list_agents", "resolve_agent"} <= set(tools)
    assert "raw__process" not in tools
    echoed = process.ask("tools/call", name="raw__echo", arguments={"text": "hello"})["result"]
    assert echoed["structuredContent"] == {"text": "hello"}
    refused = process.ask("tools/call", name="raw.echo", arguments={})["result"]
    assert refused["isError"]
    assert process.ask("tools/call", name="list_agents", arguments={})["result"]["structuredContent"]["total"] == 45
    assert process.end()[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, None])
def test_the_servers_of_a_lock_end_with_it(governed: Path, start: Start, how: signal.Signals | None) -> None:
    process = start("--root", "agents", "--tools-of", "agents.md", "--trust")
    process.ask("tools/list")
    pids = started(governed)
    assert any(map(is_running, pids))
    if how is not None:
        process.process.send_signal(how)
        process.process.wait(timeout=10)

    code, _, errors = process.end()
    assert (code, errors) == (0, "")
    assert not any(map(is_running, pids))


@pytest.mark.slow
def test_a_lock_that_is_missing_edited_or_not_trusted_is_refused_in_words(governed: Path) -> None:
    serve = ("serve", "--root", "agents", "--tools-of", "agents.md")
    untrusted = agent(governed, *serve)
    lock = governed / "agents.lock"
    content = lock.read_text()
    lock.write_text(content.replace('"use"', '"use", "other"'))
    edited = agent(governed, *serve, "--trust")
    lock.unlink()
    missing = agent(governed, *serve, "--trust")

    for ran in (untrusted, edited, missing):
        assert ran.returncode == 1
        assert ran.stdout == ""
        assert ran.stderr.startswith("error: ")
        assert "\nhint: " in ran.stderr
        assert "Traceback" not in ran.stderr
    assert started(governed) == []


# What is wrong with the command line ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--root", "nothing"], 2, "nothing` cannot be served"),
        (["--root", "agents", "--page-size", "0"], 2, "from 1 to 100"),
        (["--root", "agents", "--page-size", "101"], 2, "from 1 to 100"),
        (["--root", "agents", "--http", "nothing"], 2, "HOST:PORT"),
        (["--root", "agents", "--http", "127.0.0.1:65536"], 2, "HOST:PORT"),
        (["--root", "agents", "--http", "0.0.0.0:0"], 2, "can be reached from other machines"),
        (["--root", "agents", "--http", "[::]:0"], 2, "can be reached from other machines"),
        (["--root", "agents", "--http", "203.0.113.1:0", "--allow-host", "x"], 1, "Cannot listen on"),
        (["--root", "agents", "--index", "agents"], 2, "a directory"),
    ],
)
def test_what_cannot_be_served_is_said_in_words(
    agents: Path, tmp_path: Path, options: list[str], code: int, words: str
) -> None:
    ran = agent(tmp_path, "serve", *options)

    assert ran.returncode == code, ran.stderr
    assert words in ran.stderr
    assert ran.stdout == ""
    assert "Traceback" not in ran.stderr


# Settings for clients -------------------------------------------------------------------------------------------------


def entry_of(client: str, text: str) -> dict[str, Any]:
    if client == "codex":
        return tomllib.loads(text)["mcp_servers"]["agent-resolver"]  # type: ignore[no-any-return]
    return json.loads(text)["servers" if client == "vscode" else "mcpServers"]["agent-resolver"]  # type: ignore[no-any-return]


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_client_is_told_to_start_answers_wherever_it_is_started(
    start: Start, agents: Path, tmp_path: Path, client: str
) -> None:
    ran = agent(tmp_path, "serve", "--root", "agents", "--strict", "--page-size", "7", "--print-config", client)
    entry = entry_of(client, ran.stdout)
    assert Path(entry["command"]).is_absolute()
    assert (ran.returncode, ran.stderr) == (0, "")

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    script = Path(sys.executable).parent / entry["command"]
    process = start(line=["env", "-C", str(elsewhere), str(script), *entry["args"]])
    listed = process.ask("resources/list")["result"]
    assert len(listed["resources"]) == 7
    assert listed["_meta"]["agent-resolver/total"] == 44
    resolved = process.ask("tools/call", name="resolve_agent", arguments={"agent": "ready"})["result"]
    assert resolved["structuredContent"]["status"] == "resolved"


@pytest.mark.parametrize("client", CLIENTS)
def test_the_settings_name_the_project_and_its_variables_and_no_value(
    agents: Path, tmp_path: Path, client: str
) -> None:
    (tmp_path / "agent.toml").write_text('[state]\nkey_env = "AUDIT_KEY"\n[secrets.crm]\nenv = "CRM_TOKEN"\n')
    variables = {"AUDIT_KEY": "hidden-value", "CRM_TOKEN": "hidden-value", "AGENT_CATALOG_PAGE_SIZE": "7"}
    ran = agent(tmp_path, "serve", "--root", "agents", "--print-config", client, **variables)

    entry = entry_of(client, ran.stdout)
    assert entry["args"][entry["args"].index("--project") + 1] == str(tmp_path)
    assert sorted(entry["env_vars"] if client == "codex" else entry["env"]) == sorted(variables)
    assert "hidden-value" not in ran.stdout


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("address", ["127.0.0.1:8765", "[::1]:8765"])
def test_a_client_can_be_told_an_address(agents: Path, tmp_path: Path, client: str, address: str) -> None:
    ran = agent(tmp_path, "serve", "--root", "agents", "--http", address, "--print-config", client)

    entry = entry_of(client, ran.stdout)
    assert entry.get("url", entry.get("httpUrl", entry.get("args", [""])[-1])) == f"http://{address}/mcp"


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    "root", ['a "quoted" one', "back\\slash", "\U0001f916", "\x7f\x01", "\x9b2J\U000e0041", "two\nlines", "caf\u00e9"]
)
def test_any_folder_can_stand_in_the_settings(client: str, root: str) -> None:
    entry = ClientEntry(name="agent-resolver", command=("agent", "serve", "--root", root))

    text = write_entries(CLIENTS[client], "", [entry], "")

    assert entry_of(client, text)["args"] == ["serve", "--root", root]
    assert all(line.isprintable() for line in text.splitlines())


@pytest.mark.skipif(not os.path.isdir("../shared/data/agents"), reason="the agents of others are not here")  # noqa: PTH112
def test_every_agent_of_others_is_served(start: Start) -> None:
    folder = Path("../shared/data/agents").resolve()
    process = start("--root", str(folder))

    listed = process.ask("resources/list", meta={"agent-resolver/limit": 100})["result"]
    seen = listed["resources"]
    while "nextCursor" in listed:
        cursor = listed["nextCursor"]
        listed = process.ask("resources/list", meta={"agent-resolver/limit": 100}, cursor=cursor)["result"]
        seen += listed["resources"]
    assert len({agent["uri"] for agent in seen}) == len(seen) == 273
    for agent_listed in seen:
        definition = process.ask("resources/read", uri=agent_listed["uri"])["result"]["contents"][0]
        assert json.loads(definition["text"])["name"] == agent_listed["name"]
        assert str(folder) not in definition["text"]


# Which agent file governs ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_what_the_project_s_agent_file_forbids_is_closed_without_tools_of_too(
    start: Start,
    tmp_path: Path,
    is_elsewhere: bool,  # noqa: FBT001
) -> None:
    (tmp_path / "agent.toml").write_text('[tools]\nmodules = ["notes"]\n')
    (tmp_path / "notes.py").write_text(NOTES)
    (tmp_path / "agents.md").write_text("---\nname: a\nconstraints: { actions: { forbid: [notes.echo] } }\n---\n")
    (tmp_path / "elsewhere").mkdir()
    ran = agent(tmp_path, "serve", "--trust", "--inbox", "--print-config", "claude-code")
    entry = entry_of("claude-code", ran.stdout)
    script = Path(sys.executable).parent / entry["command"]
    where = tmp_path / "elsewhere" if is_elsewhere else tmp_path
    process = start(line=["env", "-C", str(where), str(script), *entry["args"]])

    tools = [tool["name"] for tool in process.ask("tools/list")["result"]["tools"]]
    refused = process.ask("tools/call", name="notes.echo", arguments={"text": "x"})["result"]
    assert "inbox_list" in tools  # It has found the project.
    assert "notes__echo" not in tools
    assert refused["structuredContent"]["code"] == "FORBIDDEN_ACTION"


@pytest.mark.slow
def test_a_server_of_the_lock_that_is_not_there_is_named_and_looked_for_again(governed: Path, start: Start) -> None:
    index = json.loads((governed / "mcp.index.json").read_text())
    launch = index[0]["launch"]
    gate = "import os, sys; os.path.exists('open') or sys.exit(1); os.execv(sys.argv[1], sys.argv[1:])"
    launch["args"] = ["-c", gate, launch["command"], *launch["args"]]
    launch["command"] = sys.executable
    (governed / "mcp.index.json").write_text(json.dumps(index))
    assert agent(governed, "resolve").returncode == 0
    process = start("--root", "agents", "--tools-of", "agents.md", "--trust")

    def call() -> Any:
        return process.ask("tools/call", name="raw.echo", arguments={"text": "x"})["result"]["structuredContent"]

    assert call()["code"] == "SERVER_UNAVAILABLE"
    assert "list_agents" in [tool["name"] for tool in process.ask("tools/list")["result"]["tools"]]
    (governed / "open").touch()
    assert eventually(lambda: call() == {"text": "x"}, 30)
    assert "raw__echo" in [tool["name"] for tool in process.ask("tools/list")["result"]["tools"]]
    _, _, errors = process.end()
    assert errors.startswith("warning: raw@1.0.0 is not there: ")


@pytest.mark.slow
def test_a_compiled_index_gives_the_same_answers_as_its_json(start: Start, agents: Path, tmp_path: Path) -> None:
    compile_bytes((tmp_path / "mcp.index.json").read_bytes(), str(tmp_path / "mcp.index.db"))

    def answers(index: str) -> list[Any]:
        process = start("--root", "agents", "--index", index)
        listed = process.ask("resources/list")["result"]["resources"]
        read = [process.ask("resources/read", uri=f"agent://{name}") for name in ("ready", "lacking")]
        assert process.end()[0] == 0
        return [listed, read]

    of_json, of_compiled = answers("mcp.index.json"), answers("mcp.index.db")

    assert of_json == of_compiled
    # The agents that an index decides about are among them, so that the comparison says something.
    assert "weather" in json.dumps(of_json)
