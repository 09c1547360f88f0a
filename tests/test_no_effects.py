"""The pure rooms at work in a fresh interpreter that refuses files, sockets, threads and processes.

`test_purity.py` reads the source for what it must not import. Here Python itself reports what happens: an audit hook
hears of every file that is opened, every address, every process and every thread, whatever module asks for it.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_purity import PACKAGE

PROJECT = Path(__file__).parent / "projects" / "quick-start"

INPUTS = f"""\
import sys
AGENT = {(PROJECT / "agents.md").read_bytes()!r}
INDEX = {(PROJECT / "mcp.index.json").read_bytes()!r}
"""
# Python reports threads to the hook only from version 3.12 on.
REFUSE_THREADS = """\
import _thread
def refuse_thread(*_):
    raise SystemExit("refused: thread")
_thread.start_new_thread = refuse_thread
"""
IMPORT_ALL = f"""\
import os
from importlib import import_module
for room in ("schema", "core"):
    for name in sorted(os.listdir({str(PACKAGE)!r} + "/" + room)):
        if name.endswith(".py"):
            import_module(f"agent_resolver.{{room}}.{{name.removesuffix('.py')}}")
"""
REFUSE_ALL = f"""\
{REFUSE_THREADS}
HARMLESS = {{"builtins.id", "object.__getattr__", "object.__setattr__", "sys._getframe"}}
def refuse(event, arguments):
    if event not in HARMLESS:
        raise SystemExit(f"refused: {{event}} {{arguments!r:.200}}")
sys.addaudithook(refuse)
"""
REFUSE_ALL_BUT_MODULES = f"""\
{REFUSE_THREADS}
IMPORTING = {{"compile", "exec", "import", "marshal.loads", "os.listdir"}}
HARMLESS = {{"builtins.id", "object.__getattr__", "object.__setattr__", "sys._getframe"}}
MODULES = (".py", ".pyc", ".pyi", ".so")
def refuse(event, arguments):
    is_module = event == "open" and str(arguments[0]).endswith(MODULES) and arguments[1] in ("r", None)
    if not is_module and event not in IMPORTING | HARMLESS:
        raise SystemExit(f"refused: {{event}} {{arguments!r:.200}}")
sys.addaudithook(refuse)
sys.dont_write_bytecode = True
"""
RESOLVE = """\
from agent_resolver import (
    InvalidAgentFile, InvalidIndex, explanation_json, parse_agent_file, parse_index, parse_lockfile, resolve,
    servers_of, to_json
)
from agent_resolver.core import examine

def work():
    servers = servers_of(parse_index(INDEX))
    agent = parse_agent_file(AGENT)
    resolution = resolve(agent, servers)
    lock = to_json(resolution.lockfile)
    assert b"".join(explanation_json(resolution)) == to_json(resolution.explanation)
    assert parse_lockfile(lock) == resolution.lockfile
    assert examine(lock, agent, servers).differences == ()
    failed = resolve(parse_agent_file(AGENT.replace(b"us-only", b"eu-only")), servers)
    assert not failed.success and b"".join(explanation_json(failed))
    for parse, wrong in ((parse_agent_file, b"---\\nname: x\\nversion: 1.0\\n---\\n"), (parse_index, b"[{}]")):
        try:
            parse(wrong)
        except (InvalidAgentFile, InvalidIndex) as found:
            assert found.issues
"""
HEAVY = {
    *("anyio", "asyncio", "concurrent", "cryptography", "http", "jinja2", "jsonschema_rs", "mcp", "multiprocessing"),
    *("pydantic", "shtab", "socket", "sqlite3", "ssl", "subprocess", "threading", "urllib.request"),
}
ATTEMPTS = {
    "a file": "open('/dev/null')",
    "a socket": "import socket; socket.socket()",
    "a process": "import subprocess; subprocess.run(['true'])",
    "a thread": "import _thread; _thread.start_new_thread(print, ())",
}


def run(*parts: str) -> subprocess.CompletedProcess[str]:
    script = "\n".join([*parts, "sys.stdout.write('done')"])
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


def test_resolving_touches_no_file_socket_thread_or_process() -> None:
    ran = run(INPUTS, IMPORT_ALL, RESOLVE, REFUSE_ALL, "work()")

    assert (ran.stdout, ran.stderr) == ("done", "")


def test_importing_what_resolves_opens_nothing_but_modules() -> None:
    ran = run(INPUTS, REFUSE_ALL_BUT_MODULES, RESOLVE, "work()")

    assert (ran.stdout, ran.stderr) == ("done", "")


def test_what_resolves_imports_neither_an_extra_nor_a_network() -> None:
    ran = run(INPUTS, RESOLVE, f"work(); assert not {HEAVY!r} & sys.modules.keys(), {HEAVY!r} & sys.modules.keys()")

    assert (ran.stdout, ran.stderr) == ("done", "")


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS.keys())
@pytest.mark.parametrize("hook", [REFUSE_ALL, REFUSE_ALL_BUT_MODULES], ids=["everything", "all but modules"])
def test_the_hook_stops_what_the_pure_rooms_must_not_do(attempt: str, hook: str) -> None:
    module, _, statement = attempt.rpartition("; ")

    ran = run("import sys", module, hook, statement)

    assert ran.stdout == ""
    assert ran.stderr.startswith("refused: ")
