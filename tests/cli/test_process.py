"""The command as a process: what it may open, and how it ends."""

import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
"""Each test starts processes of its own."""

# Every way to a network is an event that an audit hook sees before it happens.
WITHOUT_SOCKETS = """
import sys

def refuse(event, arguments):
    if event.partition(".")[0] in {"socket", "urllib", "http", "ssl", "subprocess"} or event in {"os.exec", "os.fork"}:
        sys.stderr.write(f"REFUSED {event}\\n")
        raise RuntimeError(event)

sys.addaudithook(refuse)
from agent_resolver.cli import main
sys.exit(main())
"""

COMMANDS = [
    ["--version"],
    ["--help"],
    ["validate", "--strict", "--verbose"],
    ["validate", "--json"],
    ["validate", "--format", "sarif"],
    ["validate", "--format", "github"],
    ["discover"],
    ["discover", "--json"],
    ["resolve", "--explain"],
    ["resolve", "--check"],
    ["resolve", "--locked"],
    ["resolve", "--dry-run"],
    ["resolve", "--resolved-at", "now", "--json"],
    ["resolve", "--workspace", "--explain"],
    ["verify"],
    ["verify", "--workspace"],
    ["why", "reporting"],
    ["why", "acme-analytics", "--json"],
    ["tree"],
    ["diff", "agents.lock", "agents.lock"],
    ["diff", ".", ".", "--format", "markdown"],
    ["workspace", "users", "acme-reporting"],
    ["catalog", "list"],
    ["catalog", "list", "--json"],
    ["catalog", "search", "analytics"],
    ["catalog", "show", "my-analytics-agent"],
    ["catalog", "check"],
    ["catalog", "stats"],
    ["catalog", "lint", "agents.md"],
    ["serve", "--print-config", "claude-code"],
    ["schema", "agents"],
    ["schema", "index"],
    ["schema", "lock"],
    ["schema", "resolution"],
    ["completion", "bash"],
]


def agent(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "agent_resolver", *arguments]
    return subprocess.run(command, capture_output=True, check=False, env={**os.environ, **environment})


def test_the_hook_would_see_a_socket() -> None:
    script = (
        WITHOUT_SOCKETS.partition("from agent_resolver")[0] + "import socket; socket.socket().connect(('127.0.0.1', 9))"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)

    assert b"REFUSED socket" in done.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_runs_without_a_network(project: Path, command: list[str]) -> None:
    subprocess.run([sys.executable, "-m", "agent_resolver", "resolve"], check=True, capture_output=True)

    done = subprocess.run([sys.executable, "-c", WITHOUT_SOCKETS, *command], capture_output=True, check=False)

    assert done.stderr == b""
    assert done.returncode == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh", "powershell"])
def test_a_completion_script_knows_every_command(shell: str) -> None:
    script = agent("completion", shell).stdout.decode()

    for word in (
        *("validate", "discover", "resolve", "explain-output", "verify", "why", "tree", "diff", "workspace", "report"),
        *("catalog", "lint", "serve", "print-config"),
    ):
        assert word in script


def test_bash_takes_the_completion_script(tmp_path: Path) -> None:
    (tmp_path / "agent.bash").write_bytes(agent("completion", "bash").stdout)
    ask = "source agent.bash; COMP_WORDS=(agent res); COMP_CWORD=1; _shtab_agent agent res agent; echo ${COMPREPLY[@]}"

    done = subprocess.run(["bash", "-c", ask], capture_output=True, check=False, cwd=tmp_path)

    assert done.stdout == b"resolve\n"


def test_a_reader_that_goes_away_is_no_traceback(project: Path) -> None:
    script = f"{sys.executable} -m agent_resolver schema index | true"

    done = subprocess.run(["bash", "-c", script], capture_output=True, check=False)

    assert done.stderr == b""


@pytest.mark.parametrize("size", [1, 2_000])
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("discover", 0),
        ("discover --json", 0),
        ("resolve --dry-run", 0),
        ("schema index", 0),
        ("completion bash", 0),
        ("--help", 0),
        ("verify", 2),
        ("why reporting", 0),
        ("why payroll", 1),
        ("resolve --locked", 1),
    ],
)
def test_a_reader_that_has_seen_enough_does_not_change_the_answer(
    project: Path, command: str, code: int, size: int
) -> None:
    index = json.loads((project / "mcp.index.json").read_bytes())
    servers = [*index, *({**index[1], "version": f"9.{number}.0"} for number in range(size))]
    (project / "mcp.index.json").write_text(json.dumps(servers))
    script = f"set -o pipefail; {sys.executable} -m agent_resolver {command} 2>&1 | head -1 > /dev/null"

    done = subprocess.run(["bash", "-c", script], capture_output=True, check=False)

    assert (done.returncode, done.stderr) == (code, b"")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_output_that_is_closed_already_is_no_traceback(project: Path, command: list[str]) -> None:
    subprocess.run([sys.executable, "-m", "agent_resolver", "resolve"], check=True, capture_output=True)
    reading, writing = os.pipe()
    os.close(reading)

    done = subprocess.run(
        [sys.executable, "-m", "agent_resolver", *command], stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)

    assert done.stderr == b""


@pytest.mark.parametrize("command", [["--version"], ["--help"]], ids=" ".join)
@pytest.mark.parametrize("is_buffered", [True, False])
def test_what_cannot_be_written_of_the_help_is_no_traceback(command: list[str], is_buffered: bool) -> None:  # noqa: FBT001
    environment = {**os.environ, "PYTHONUNBUFFERED": "" if is_buffered else "1"}
    reading, writing = os.pipe()
    os.close(reading)

    done = subprocess.run(
        [sys.executable, "-m", "agent_resolver", *command],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
        env=environment,
    )
    os.close(writing)

    assert done.stderr == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no such device")  # noqa: PTH110
@pytest.mark.parametrize("command", [line for line in COMMANDS if line[0] not in {"--version", "--help"}], ids=" ".join)
def test_an_output_that_cannot_be_written_is_said_in_words(project: Path, command: list[str]) -> None:
    line = [sys.executable, "-m", "agent_resolver"]
    subprocess.run([*line, "resolve"], check=True, capture_output=True)

    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = subprocess.run([*line, *command], stdout=full, stderr=subprocess.PIPE, check=False)

    if "github" in command:  # There is nothing to print.
        assert (done.returncode, done.stderr) == (0, b"")
    else:
        assert done.returncode == 1
        assert done.stderr == b"error: The output cannot be written: No space left on device\n"


READERS = {"validate", "discover", "resolve", "verify", "why", "tree", "diff", "workspace", "schema"}
SLOW_TO_IMPORT = """
import sys
from agent_resolver.cli import main
code = main()
slow = {"asyncio", "concurrent.futures", "email", "http", "jinja2", "sqlite3", "ssl", "socket", "unittest"}
slow.add("urllib.request")
found = sorted(slow & set(sys.modules))
sys.exit(f"imported {found}" if found else code)
"""


@pytest.mark.parametrize("command", [command for command in COMMANDS if command[0] in READERS], ids=" ".join)
def test_no_command_that_only_reads_files_imports_what_is_slow(project: Path, command: list[str]) -> None:
    subprocess.run([sys.executable, "-m", "agent_resolver", "resolve"], check=True, capture_output=True)

    done = subprocess.run([sys.executable, "-c", SLOW_TO_IMPORT, *command], capture_output=True, check=False)

    assert done.stderr == b""


def test_an_interrupt_is_no_traceback(project: Path) -> None:
    script = """
import os, signal, sys
import agent_resolver.storage.file as file
file.os.replace = lambda *_: os.kill(os.getpid(), signal.SIGINT)
from agent_resolver.cli import main
sys.exit(main(["resolve"]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)

    assert done.returncode == 128 + signal.SIGINT
    assert done.stderr == b"Interrupted\n"
    assert not (project / "agents.lock").exists()
    assert sorted(path.name for path in project.iterdir()) == ["agents.md", "mcp.index.json"]


def _all_of(terminal: int) -> bytes:
    """What was written to a terminal; one read may get a part of it."""
    shown = b""
    with suppress(OSError):  # So it ends on Linux.
        while chunk := os.read(terminal, 10_000):
            shown += chunk
    os.close(terminal)
    return shown


@pytest.mark.parametrize("setting", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colour_is_for_terminals_alone(project: Path, setting: dict[str, str]) -> None:
    command = [sys.executable, "-m", "agent_resolver", "validate"]
    ours, theirs = pty.openpty()
    subprocess.run(command, stdout=theirs, stderr=theirs, check=True, env={**os.environ, "TERM": "xterm", **setting})
    os.close(theirs)
    shown = _all_of(ours)

    assert (b"\x1b[32m\xe2\x9c\x93\x1b[0m" in shown) == (not setting)
    assert b"\x1b" not in agent("validate").stdout


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-16"])
def test_the_output_is_utf8_whatever_the_machine_prefers(project: Path, encoding: str) -> None:
    assert agent("validate", PYTHONIOENCODING=encoding).stdout == agent("validate").stdout
