"""The status line of long work: on a terminal alone, and gone when the work ends."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import on_terminal, script, server
from tests.cli.tool_project import HEAD, ToolProject, tool_project

# Each starts a program on a terminal of its own.
pytestmark = pytest.mark.slow

MAIN = "import sys; from agent_resolver.cli import main; sys.exit(main())"
PROGRESS = "import agent_resolver.cli.progress as progress; progress._SECONDS_BETWEEN = 0.01"
EAGER = f"{PROGRESS}; progress._SECONDS_BEFORE = 0; {MAIN}"
PATIENT = f"{PROGRESS}; progress._SECONDS_BEFORE = 600; {MAIN}"
CALL = ("tools", "call", "tickets.report", '{"title": "Broken"}', "--trust")
REPORT = '''\
import sys


@capability("tickets.report", examples=[{"title": "Broken"}])
async def report(request: Request, context: CallContext) -> Result:
    """Report a ticket."""
    print("printed by the tool")
    print("and to stderr", file=sys.stderr)
    await context.progress(1, 3, "one \\x1b[2J of three")
    # The line is drawn by another thread, every hundredth of a second here.
    await asyncio.sleep(0.5)
    return Result(7)
'''


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToolProject:
    made = tool_project(tmp_path, monkeypatch)
    imports = "import asyncio\nfrom agent_resolver.registry import CallContext\n"
    made.offer(HEAD.replace("from typing", f"{imports}from typing", 1) + REPORT)
    return made


def screen(shown: str) -> list[str]:
    """The lines that a terminal holds in the end."""
    lines, column = [""], 0
    for piece in re.findall(r"\x1b\[K|\r|\n|[^\r\n\x1b]+|\x1b", shown):
        match piece:
            case "\n":
                lines.append("")
                column = 0
            case "\r":
                column = 0
            case "\x1b[K":
                lines[-1] = lines[-1][:column]
            case _:
                lines[-1] = lines[-1][:column] + piece + lines[-1][column + len(piece) :]
                column += len(piece)
    return lines


def drawn(shown: str) -> list[str]:
    """Every line that was drawn and wiped again."""
    return [line for line in re.findall(r"\r\x1b\[K([^\r\n]*)", shown) if line]


def test_connecting_is_shown_until_the_servers_answer(write: Callable[..., Path]) -> None:
    write(server())

    shown = on_terminal(EAGER, "tools", "list", "--trust")

    assert drawn(shown)[0] == "Connecting the servers of the lock…"
    assert screen(shown)[0] == "5 open tools"
    assert not any("Connecting" in line for line in screen(shown))


def test_doctor_shows_that_it_connects(write: Callable[..., Path]) -> None:
    write(server())

    shown = on_terminal(EAGER, "doctor", "--trust")

    assert "Connecting the servers of the lock…" in drawn(shown)
    assert not any("Connecting" in line for line in screen(shown))


def test_indexing_is_shown_until_the_agents_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents").mkdir()
    for number in range(300):
        text = f"---\nname: agent-{number:03}\ndescription: Reviews code.\n---\n"
        (tmp_path / "agents" / f"agent-{number:03}.md").write_text(text)

    shown = on_terminal(EAGER, "catalog", "list")

    assert drawn(shown)[0] == "Indexing the agent files…"
    assert screen(shown)[0] == "agent://agent-000"
    assert screen(shown)[-2:] == ["300 agents", ""]


def test_a_call_shows_how_far_it_is_apart_from_what_it_prints(tools: ToolProject) -> None:
    shown = on_terminal(EAGER, *CALL)

    assert "Calling tickets.report: 1 of 3: one \\x1b[2J of three…" in drawn(shown)
    assert "\x1b[2J" not in shown
    assert screen(shown) == ["printed by the tool", "and to stderr", "{", '  "id": 7', "}", ""]


def test_a_status_line_never_wraps(tools: ToolProject) -> None:
    narrow = "import os; os.get_terminal_size = lambda descriptor: os.terminal_size((20, 24))"

    lines = drawn(on_terminal(f"{narrow}; {EAGER}", *CALL))

    assert "Calling…" in lines
    assert max(map(len, lines)) < 20


@pytest.mark.parametrize("options", [["--json"], ["--verbose"]])
def test_a_command_for_data_or_for_logs_shows_no_status(tools: ToolProject, options: list[str]) -> None:
    assert drawn(on_terminal(EAGER, *CALL, *options)) == []


def test_what_ends_soon_shows_no_status(tools: ToolProject) -> None:
    assert "\x1b[K" not in on_terminal(PATIENT, *CALL)


def test_a_pipe_and_a_dumb_terminal_get_no_status(tools: ToolProject) -> None:
    piped = script(EAGER, *CALL)

    assert json.loads(piped.stdout) == {"id": 7}
    assert piped.stderr == "printed by the tool\nand to stderr\n"
    assert "\x1b" not in on_terminal(EAGER, *CALL, TERM="dumb")


def test_the_line_is_wiped_where_a_call_is_refused(tools: ToolProject) -> None:
    shown = on_terminal(EAGER, "tools", "call", "tickets.reprot", "{}", "--trust", NO_COLOR="1")

    assert screen(shown)[0] == "✗ UNKNOWN_TOOL: Unknown tool: tickets.reprot"
