"""`agent tools`: what it prints, and how it ends."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.storage import descendants_of
from tests.cli.conftest import AGENT, COMMANDS, OPEN, kinds, server
from tests.conftest import Ran, Run
from tests.process import eventually, is_running, started


def two_categories(agent: str = AGENT) -> str:
    return agent.replace("constraints:", "    - category: more\n      permissions: [use]\nconstraints:")


def agent(*command: str, **options: Any) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "agent_resolver", *command]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=60, **options)


def test_list_prints_the_open_tools_and_then_the_refused_ones(governed: Path, run: Run) -> None:
    ran = run("tools", "list")

    listing = json.loads(run("tools", "list", "--json").stdout)
    opened, refused = ran.stdout.split(f"{len(listing['refused'])} refused tools\n")
    assert ran.code == 0
    assert opened.splitlines() == [
        "5 open tools",
        "  raw.echo [use]: The arguments.",
        "  raw.environment [use]: Every environment variable.",
        "  raw.fail [use]: An error of the tool.",
        "  raw.hang [use]: Never answer.",
        "  raw.promise-broken [use]: Structured content that its own schema refuses.",
    ]
    assert "  raw.die: FORBIDDEN_ACTION\n" in refused
    assert "  raw.process: SCOPE_NOT_LOCKED\n" in refused
    assert ran.stderr == "hint: `agent tools show ID` says why a tool is refused\n"


def test_a_listing_by_tag_has_no_refused_tools_which_have_no_tags(governed: Path, run: Run) -> None:
    ran = run("tools", "list", "--tag", "unknown")

    assert (ran.code, ran.stdout, ran.stderr) == (0, "0 open tools with the tag `unknown`\n", "")


def test_list_as_json_has_the_refused_tools_with_their_codes(governed: Path, run: Run) -> None:
    ran = run("tools", "list", "--json")
    listing = json.loads(ran.stdout)

    assert ran.code == 0
    assert [tool["id"] for tool in listing["tools"]] == [f"raw.{tool}" for tool in OPEN]
    assert listing["tools"][0]["inputSchema"]["required"] == ["text"]
    assert listing["unavailable"] == []
    codes = {entry["id"]: entry["code"] for entry in listing["refused"]}
    assert codes["raw.die"] == "FORBIDDEN_ACTION"
    assert codes["raw.process"] == "SCOPE_NOT_LOCKED"
    assert codes["raw.garbage"] == "TOOL_NOT_MAPPED"
    assert all(entry["message"] and entry["remedy"] for entry in listing["refused"])


def test_two_tools_of_one_name_are_both_refused(write: Callable[..., Path], run: Run) -> None:
    write(server("raw", "name=echo"))

    listing = json.loads(run("tools", "list", "--json", "--trust").stdout)
    shown = run("tools", "show", "raw.echo", "--trust")
    called = run("tools", "call", "raw.echo", '{"text": "hello"}', "--json", "--trust")

    refused = {entry["id"]: (entry["source"], entry["code"]) for entry in listing["refused"]}
    assert "raw.echo" not in [tool["id"] for tool in listing["tools"]]
    assert refused["raw.echo"] == ("server raw@1.0.0", "TOOL_NAME_REPEATED")
    assert "raw.echo is refused: TOOL_NAME_REPEATED" in shown.stderr
    assert (called.code, json.loads(called.stdout)["code"]) == (1, "TOOL_NAME_REPEATED")


def test_a_server_shuts_no_tool_of_another(write: Callable[..., Path], run: Run) -> None:
    write(server("srv", "name=two.echo"), server("srv.two", category="more"), agent=two_categories())

    called = run("tools", "call", "srv.two.echo", '{"text": "hello"}', "--trust")
    shown = run("tools", "show", "srv.two.echo", "--trust")

    assert (called.code, json.loads(called.stdout)) == (0, {"text": "hello"})
    assert (shown.code, "Source: server srv.two@1.0.0" in shown.stdout) == (0, True)


def test_a_server_that_cannot_be_started_is_named_and_the_others_are_listed(
    write: Callable[..., Path], run: Run
) -> None:
    write(server(), server("broken", "exit", category="more"), agent=two_categories())

    ran, as_json = run("tools", "list", "--trust"), run("tools", "list", "--trust", "--json")

    assert ran.code == as_json.code == 1
    assert "raw.echo [use]: The arguments.\n" in ran.stdout
    assert "✗ broken@1.0.0: broken closed the connection\n" in ran.stderr
    assert json.loads(as_json.stdout)["unavailable"] == [
        {"server": "broken@1.0.0", "message": "broken closed the connection"}
    ]


def test_show_prints_what_a_tool_takes(governed: Path, run: Run) -> None:
    ran = run("tools", "show", "raw.echo")

    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.startswith(
        "raw.echo\n  Source: server raw@1.0.0\n  Locked scopes: use\n  Classification: INTERNAL\n"
        "  The arguments.\n  Arguments:\n    {\n"
    )
    assert '        "text"\n' in ran.stdout


def test_show_as_json_is_the_descriptor(governed: Path, run: Run) -> None:
    ran = run("tools", "show", "raw.echo", "--json")
    descriptor = json.loads(ran.stdout)

    assert ran.code == 0
    assert (descriptor["id"], descriptor["source"], descriptor["scopes"]) == ("raw.echo", "server raw@1.0.0", ["use"])


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("raw.die", "raw.die is refused: FORBIDDEN_ACTION: Agent forbids 'd*' which matches 'die'"),
        ("raw.ecko", "Unknown tool: raw.ecko"),
        ("other.echo", "Unknown tool: other.echo"),
    ],
)
def test_show_says_why_a_tool_is_not_there(governed: Path, run: Run, tool: str, words: str) -> None:
    ran, as_json = run("tools", "show", tool), run("tools", "show", tool, "--json")

    assert ran.code == as_json.code == 1
    assert ran.stdout == ""
    assert ran.stderr.startswith(f"error: {words}\nhint: ")
    assert json.loads(as_json.stdout)["error"]["message"] == words


def test_call_prints_the_structured_result(governed: Path, run: Run) -> None:
    ran = run("tools", "call", "raw.echo", '{"text": "hello"}')

    assert ran == Ran(ran.command, 0, '{\n  "text": "hello"\n}\n', "")
    assert kinds(governed)[-2:] == ["call.started", "call.done"]
    assert run("audit", "verify").code == 0


def test_call_as_json_is_the_whole_outcome(governed: Path, run: Run) -> None:
    ran = run("tools", "call", "raw.echo", '{"text": "hello"}', "--json")
    outcome = json.loads(ran.stdout)

    assert ran.code == 0
    assert re.fullmatch("[0-9a-f]{32}", outcome.pop("traceId"))
    assert outcome == {"status": "done", "result": {"text": "hello"}}


def test_arguments_may_come_from_stdin(governed: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO('{"text": "grüße"}'.encode())))

    assert json.loads(run("tools", "call", "raw.echo", "-").stdout) == {"text": "grüße"}


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        (("raw.die", "{}"), "FORBIDDEN_ACTION", "Agent forbids 'd*' which matches 'die'"),
        (("raw.process", "{}"), "SCOPE_NOT_LOCKED", "It needs scopes that are not locked: other"),
        (("raw.garbage", "{}"), "TOOL_NOT_MAPPED", "The lock does not say which scope opens 'garbage'"),
        (("raw.ecko", "{}"), "UNKNOWN_TOOL", "Unknown tool: raw.ecko"),
        (("other.echo", "{}"), "UNKNOWN_TOOL", "Unknown tool: other.echo"),
        (("raw.echo", '{"text": 5}'), "INPUT_VALIDATION_FAILED", '  - text: the value is not of type "string"'),
        (("raw.fail", "{}"), "TOOL_ERROR", "there is no such note"),
        (("raw.promise-broken", "{}"), "OUTPUT_VALIDATION_FAILED", '  - count: the value is not of type "integer"'),
    ],
)
def test_a_call_that_comes_to_nothing_says_why_and_exits_with_1(
    governed: Path, run: Run, call: tuple[str, str], code: str, words: str
) -> None:
    ran, as_json = run("tools", "call", *call), run("tools", "call", *call, "--json")

    assert ran.code == as_json.code == 1
    assert ran.stdout == as_json.stderr == ""
    assert ran.stderr.startswith(f"✗ {code}: ")
    assert words in ran.stderr
    assert re.search(r"  trace: [0-9a-f]{32}\n$", ran.stderr)
    outcome = json.loads(as_json.stdout)
    assert (outcome["status"], outcome["code"]) == ("failed", code)
    assert kinds(governed)[-1] == "call.failed"
    assert run("audit", "verify").code == 0


@pytest.mark.parametrize(
    ("tool", "hint"),
    [("raw.ecko", "did you mean `raw.echo`?"), ("nothing", "list the tools with `agent tools list`")],
)
def test_a_tool_that_is_misspelt_is_hinted_at(governed: Path, run: Run, tool: str, hint: str) -> None:
    shown, called = run("tools", "show", tool), run("tools", "call", tool, "{}")

    assert f"hint: {hint}\n" in shown.stderr
    assert f"hint: {hint}\n" in called.stderr
    assert json.loads(run("tools", "call", tool, "{}", "--json").stdout)["remedy"] == hint


def test_words_of_a_server_never_steer_the_terminal(governed: Path, run: Run) -> None:
    ran = run("tools", "call", "raw.fail-in-colour", "{}", "--config", 'tools.admit=["raw.fail-in-colour"]')

    assert ran.stderr.startswith("✗ TOOL_ERROR: \\x1b[31mred\\x1b[0m\n")


def test_a_call_to_a_server_that_is_not_there_is_its_failure(write: Callable[..., Path], run: Run) -> None:
    project = write(server("raw", "exit"))

    ran = run("tools", "call", "--trust", "raw.echo", '{"text": "hello"}')

    assert ran.code == 1
    assert ran.stderr.startswith("✗ SERVER_UNAVAILABLE: raw closed the connection\n")
    assert kinds(project) == ["lock.verified", "server.unavailable", "call.failed"]


@pytest.mark.slow
def test_a_server_that_takes_too_long_is_given_up(governed: Path, run: Run) -> None:
    ran = run("tools", "call", "raw.hang", "{}", "--timeout", "2.5")

    assert ran.code == 1
    assert ran.stderr.startswith("✗ TIMEOUT: ")
    assert "look before you call it again" in ran.stderr


def test_a_missing_secret_waits_under_one_id_until_it_is_there(
    write: Callable[..., Path], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = write(server(env=["RAW_TOKEN"]))
    call = ("tools", "call", "--trust", "raw.environment", "{}")

    first, second, shown = run(*call, "--json"), run(*call, "--json"), run(*call)

    assert first.code == second.code == shown.code == 1
    waiting = json.loads(first.stdout)
    assert (waiting["status"], waiting["type"]) == ("pending", "SECRET")
    assert waiting["message"] == "Set the environment variable RAW_TOKEN for raw"
    assert json.loads(second.stdout)["id"] == waiting["id"]
    assert shown.stderr.startswith(
        f"✗ SECRET_REQUIRED: {waiting['message']}\n  Waiting for SECRET {waiting['id']} (trace "
    )
    assert started(project) == []
    monkeypatch.setenv("RAW_TOKEN", "canary-4d1f")
    monkeypatch.setenv("RAW_OTHER", "canary-2b7e")
    environment = json.loads(run(*call).stdout)
    assert environment["RAW_TOKEN"] == "canary-4d1f"
    assert "RAW_OTHER" not in environment
    assert b"canary" not in (project / ".agent" / "state.db").read_bytes()
    assert b"canary" not in (project / "agents.lock").read_bytes()


def test_with_digests_alone_nothing_of_a_call_is_in_the_state(governed: Path, run: Run) -> None:
    option = ("--config", "audit.content=digest")
    run("tools", "call", "raw.echo", '{"text": "canary-55aa"}', *option)
    run("tools", "call", "raw.echo", '{"text": ["canary-55aa"]}', *option)

    for path in (governed / ".agent").rglob("*"):
        assert path.is_dir() or b"canary-55aa" not in path.read_bytes()


def test_the_trail_shows_arguments_and_results_without_steering_the_terminal(governed: Path, run: Run) -> None:
    hostile = "\x1b[2J\x9b31m\u202egnp.exe\x7f"
    run("tools", "call", "raw.echo", json.dumps({"text": hostile, "password": "canary-55aa"}))

    shown, as_json = run("audit", "show", "--last", "2"), run("audit", "show", "--last", "2", "--json")

    lines = shown.stdout.splitlines()
    assert [" call.started " in lines[0], " call.done " in lines[2]] == [True, True]
    assert lines[1] == r'  {"text":"\u001b[2J\x9b31m\u202egnp.exe\x7f","password":"[redacted]"}'
    for printed in (shown.stdout, as_json.stdout):
        assert all(character.isprintable() or character == "\n" for character in printed)
    started, done = json.loads(as_json.stdout)
    assert json.loads(started["content"]) == {"text": hostile, "password": "[redacted]"}
    assert "gnp.exe" in done["content"]
    kept = b"".join(path.read_bytes() for path in (governed / ".agent").glob("state.db*"))
    assert b"canary-55aa" not in kept
    assert b"gnp.exe" not in kept


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "{",
        "[]",
        "null",
        '"text"',
        "{'text': 1}",
        '{"text": "\udcff"}',
        '{"a": NaN}',
        '{"a":' * 5000 + "1" + "}" * 5000,
    ],
    ids=range(9),
)
def test_arguments_that_are_no_json_object_are_a_usage_error(governed: Path, run: Run, arguments: str) -> None:
    ran = run("tools", "call", "raw.echo", arguments)

    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: The arguments are not a JSON object: ")
    assert ran.stderr.endswith("""hint: write them as '{"name": "value"}'\n""")
    assert started(governed) == []


@pytest.mark.parametrize("content", [b"\xff\xfe", b'{"text": "\xff"}', b""])
def test_a_stdin_that_is_no_json_is_a_usage_error(
    governed: Path, run: Run, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    assert run("tools", "call", "raw.echo", "-").code == 2
    assert started(governed) == []


def test_arguments_that_are_too_long_are_a_usage_error(
    governed: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = json.dumps({"text": "x" * 4 * 1024 * 1024})
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.encode())))

    for arguments in (content, "-"):
        ran = run("tools", "call", "raw.echo", arguments)
        assert (ran.code, ran.stderr) == (2, "error: The arguments are longer than 4,194,304 bytes\n")
    assert started(governed) == []


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "-inf"])
def test_a_timeout_is_more_than_nothing(governed: Path, run: Run, seconds: str) -> None:
    ran = run("tools", "list", f"--timeout={seconds}")

    assert (ran.code, ran.stderr) == (2, "error: `--timeout` must be more than 0 seconds\n")
    assert started(governed) == []


def test_a_timeout_may_be_as_long_as_it_likes(governed: Path, run: Run) -> None:
    assert run("tools", "call", "raw.echo", '{"text": "a"}', "--timeout", "inf").code == 0


@pytest.mark.parametrize(
    "command", [("tools",), ("tools", "call"), ("tools", "call", "raw.echo"), ("tools", "list", "--timeout", "soon")]
)
def test_a_command_line_that_lacks_something_is_a_usage_error(governed: Path, run: Run, command: list[str]) -> None:
    ran = run(*command)

    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith("usage: agent tools")


@pytest.mark.slow
def test_what_servers_log_is_shown_to_who_asks(governed: Path) -> None:
    settings = ("--config", 'tools.admit=["raw.loud"]')

    quiet = agent("tools", "call", "raw.loud", "{}", *settings)
    verbose = agent("tools", "call", "raw.loud", "{}", "-v", *settings)

    assert (quiet.returncode, quiet.stderr) == (0, "")
    assert verbose.returncode == 0
    assert verbose.stderr.count("a server that likes to talk") == 50_000
    assert quiet.stdout == verbose.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_command_its_server_and_the_record_of_the_call(
    governed: Path, run: Run, sign: signal.Signals, code: int
) -> None:
    line = [sys.executable, "-m", "agent_resolver", "tools", "call", "raw.hang", "{}"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command:
        assert eventually((governed / "hanging").exists, 30.0)
        os.kill(command.pid, sign)
        stdout, stderr = command.communicate(timeout=30)

    assert (command.returncode, stdout) == (code, "")
    assert stderr == ("Interrupted\n" if sign is signal.SIGINT else "")
    assert not any(map(is_running, started(governed)))
    assert kinds(governed)[-2:] == ["call.started", "call.failed"]
    assert run("audit", "verify").code == 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot tell a child that its parent was killed")
@pytest.mark.parametrize("starts", [("stubborn",), ("stubborn", "grandchild", "detached")], ids=" ".join)
def test_nothing_is_left_of_a_server_when_the_command_is_killed(
    write: Callable[..., Path], starts: tuple[str, ...]
) -> None:
    project = write(server("raw", *starts))
    line = [sys.executable, "-m", "agent_resolver", "tools", "call", "raw.hang", "{}", "--trust"]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as command:
        assert eventually((project / "hanging").exists, 30.0)
        pids = started(project)
        processes = descendants_of(command.pid)
        os.kill(command.pid, signal.SIGKILL)

    assert len(pids) == len(starts)
    assert set(pids) < set(processes)  # The supervisor is among them.
    assert eventually(lambda: not any(map(is_running, processes)))


@pytest.mark.slow
def test_a_signal_ends_the_command_also_while_a_server_takes_long_to_start(write: Callable[..., Path]) -> None:
    project = write(server("raw", "hang"))
    line = [sys.executable, "-m", "agent_resolver", "tools", "list", "--trust"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command:
        assert eventually(lambda: bool(started(project)), 30.0)
        begin = time.monotonic()
        os.kill(command.pid, signal.SIGINT)
        assert command.communicate(timeout=30) == ("", "Interrupted\n")

    assert command.returncode == 130
    assert time.monotonic() - begin < 12
    assert not any(map(is_running, started(project)))


WITHOUT_EXTRA = """
import sys
from importlib.machinery import PathFinder

class Without:
    def find_spec(self, name, path=None, target=None):
        absent = name.partition(".")[0] in {"anyio", "httpx2", "jsonschema_rs", "mcp", "mcp_types", "pydantic"}
        return None if absent else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without()
from agent_resolver.cli import main
sys.exit(main())
"""

WITH_EXTRA = """
import sys
from agent_resolver.cli import main
try:
    code = main()
except SystemExit as stop:
    code = stop.code
extra = {"anyio", "httpx2", "jsonschema_rs", "mcp", "mcp_types", "pydantic"} & set(sys.modules)
sys.exit(f"imported {sorted(extra)}" if extra else code)
"""


def script(text: str, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", text, *command], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_without_the_extra_tools_say_which_one_is_missing(governed: Path, command: list[str]) -> None:
    ran, as_json = script(WITHOUT_EXTRA, *command), script(WITHOUT_EXTRA, *command, "--json")

    assert ran.returncode == as_json.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr.startswith("error: This command needs `")
    assert ran.stderr.endswith("hint: pip install 'agent-resolver[tools]'\n")
    assert json.loads(as_json.stdout)["error"]["hint"] == "pip install 'agent-resolver[tools]'"


@pytest.mark.parametrize(
    "command",
    [
        ("--help",),
        ("tools", "--help"),
        ("tools", "call", "--help"),
        ("resolve",),
        ("validate",),
        ("discover",),
        ("resolve", "--workspace"),
        ("verify",),
        ("verify", "--workspace"),
        ("why", "tests"),
        ("tree",),
        ("diff", ".", "."),
        ("workspace", "users", "raw"),
        ("audit", "verify", "--help"),
        ("config", "show"),
        ("trust-folder", "--list"),
    ],
    ids=" ".join,
)
def test_everything_else_works_without_the_extra_and_nothing_else_imports_it(
    governed: Path, command: list[str]
) -> None:
    ran = script(WITHOUT_EXTRA, *command)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert script(WITH_EXTRA, *command).returncode == 0


@pytest.mark.parametrize("command", [("--help",), ("resolve",), ("tools", "call", "--help")], ids=" ".join)
def test_who_only_looks_or_resolves_does_not_wait_for_asyncio(governed: Path, command: list[str]) -> None:
    assert script(WITH_EXTRA.replace("anyio", "asyncio"), *command).returncode == 0


def test_a_user_without_a_name_is_known_by_number(governed: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr("getpass.getuser", nobody)

    assert run("tools", "call", "raw.echo", '{"text": "a"}').code == 0
    assert f'"caller":"local:{os.getuid()}"' in run("audit", "show").stdout
