"""A project with runs of every kind, whose tools note what they did in a file that all its copies share."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.cli.scripted_model import CONFIG, asking, saying, write_script
from tests.process import eventually

HELPDESK = Path(__file__).parents[1] / "examples" / "helpdesk"
LEASE_SECONDS = 6.0
SHORT_LEASE = f"""\
from agent_resolver.storage import lease
lease.LEASE_SECONDS = {LEASE_SECONDS}
from agent_resolver.cli import entry
entry()
"""
"""The command with leases that run out soon, so that a test need not wait for a minute."""
AGENT = "---\nname: keeper\ndescription: Keeps notes\ntools: [effects.ask]\n---\nYou keep notes.\n"
TOOLS = '''\
"""Tools that note what they did, in the file that the variable EFFECTS names."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver import capability

EFFECTS = Path(os.environ["EFFECTS"])


class Note(Struct):
    """A note."""

    name: Annotated[str, Meta(description="Its name", examples=["one"])]


def note(words: str) -> None:
    with EFFECTS.open("a") as file:
        file.write(words + "\\n")


async def act(note_of: Note) -> Note:
    """Note that it begins, wait until there is a file, and note that it is done."""
    note(f"begin {note_of.name} in {os.getpid()}")
    while not EFFECTS.with_name("go").exists():
        await asyncio.sleep(0.02)
    note(f"done {note_of.name}")
    return note_of


@capability("effects.ask", approval=True, idempotent=True, timeout_seconds=600, examples=[{"name": "one"}])
async def ask(given: Note) -> Note:
    """Write a note once a person agrees."""
    return await act(given)


@capability("effects.write", idempotent=True, timeout_seconds=600, examples=[{"name": "one"}])
async def write(given: Note) -> Note:
    """Write a note."""
    return await act(given)
'''
BLUEPRINT = """\
blueprint_metadata: { id: effects.plan, version: 1.0.0, description: Write two notes. }
dag:
  input_schema:
    type: object
    properties: { name: { type: string, description: The name of the notes, examples: [one] } }
    required: [name]
    additionalProperties: false
  steps:
    - { id: first, capability: effects.write, input_mapping: { name: "${input.name}-1" } }
    - { id: second, capability: effects.write, input_mapping: { name: "${input.name}-2" } }
acceptance_tests:
  - { name: both, input: { name: one }, results: { first: { name: one-1 }, second: { name: one-2 } } }
"""


class WorkerProject:
    """A project in one folder; `copy` makes another folder that works on the same state."""

    def __init__(self, folder: Path, shared: Path, **variables: str) -> None:
        """Write the project.

        Args:
            folder: Where it is, which must not exist.
            shared: A folder that all copies share, for what the tools note.
            variables: More of the environment of its commands.
        """
        self.folder = folder
        self.effects = shared / "effects.txt"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AGENT_")}
        self.environment = {
            **kept,
            "EFFECTS": str(self.effects),
            "XDG_CONFIG_HOME": str(shared / "config"),
            "XDG_CACHE_HOME": str(shared / "cache"),
            "PYTHONPATH": str(Path(__file__).parents[1] / "src"),
            **variables,
        }
        self._shared = shared
        self._variables = variables
        shutil.copytree(HELPDESK, folder, ignore=shutil.ignore_patterns(".agent", "__pycache__", "*.db"))
        # Not `agents.md`, whose list of tools would hold for tasks as well.
        (folder / "agents").mkdir()
        (folder / "agents" / "keeper.md").write_text(AGENT)
        (folder / "effects.py").write_text(TOOLS)
        (folder / "blueprints").mkdir(exist_ok=True)
        (folder / "blueprints" / "plan.yaml").write_text(BLUEPRINT)
        helpdesk = folder / "helpdesk.py"
        opening = '@capability("tickets.open", examples'
        helpdesk.write_text(
            helpdesk.read_text().replace(opening, '@capability("tickets.open", approval=True, examples')
        )
        settings = (folder / "agent.toml").read_text().replace('["helpdesk"]', '["helpdesk", "effects"]')
        (folder / "agent.toml").write_text(f"{settings}\n{CONFIG}")
        write_script(folder, asking("effects__ask", name="agent"))

    def copy(self, folder: Path) -> "WorkerProject":
        """The same project on another machine, as far as files go; its model only says that it is done."""
        made = WorkerProject(folder, self._shared, **self._variables)
        made.let_model_end()
        return made

    def let_model_end(self) -> None:
        """Let the model of every run say from now on that it is done."""
        write_script(self.folder, *(saying("Done.") for _ in range(100)))

    def name_call(self, name: str) -> None:
        """Let the model ask for a call with this name."""
        write_script(self.folder, asking("effects__ask", name=name))

    def start(self, *command: str, is_short: bool = False) -> "subprocess.Popen[str]":
        """Start a command; `is_short` for leases that run out soon."""
        program = ["-c", SHORT_LEASE] if is_short else ["-m", "agent_resolver"]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [sys.executable, *program, *command],
            cwd=self.folder,
            stdout=pipe,
            stderr=pipe,
            encoding="utf-8",
            env=self.environment,
            start_new_session=True,
        )

    def agent(self, *command: str) -> str:
        """Run a command to its end; what it printed."""
        process = self.start(*command)
        printed, self.complaint = process.communicate(timeout=120)
        self.code = process.returncode
        return printed

    def json(self, *command: str) -> Any:
        """What a command printed as JSON."""
        printed = self.agent(*command, "--json")
        assert printed, self.complaint
        return json.loads(printed)

    @property
    def notes(self) -> list[str]:
        """What the tools noted."""
        return self.effects.read_text().splitlines() if self.effects.exists() else []

    def begun(self, pid: int) -> list[str]:
        """The names of the notes that a process began."""
        return [line.split()[1] for line in self.notes if line.startswith("begin") and line.endswith(f" {pid}")]

    @property
    def done(self) -> list[str]:
        """The names of the notes that were written, sorted."""
        return sorted(line.split()[1] for line in self.notes if line.startswith("done"))

    def let_go(self) -> None:
        """Let every call of the tools come to its end."""
        self.effects.with_name("go").touch()

    # Runs -------------------------------------------------------------------------------------------------------------

    def begin_agents(self, *names: str) -> None:
        """Start runs of the agent, each of which waits for an approval."""
        for name in names:
            self.name_call(name)
            self.agent("run", "keeper", "Go", "--trust", "--json")
        self.let_model_end()

    def begin_blueprints(self, *names: str) -> None:
        """Start runs of the blueprint and leave them to workers."""
        for name in names:
            given = json.dumps({"name": name})
            self.agent("blueprint", "run", "effects.plan", "--input", given, "--detach", "--trust", "--key", name)

    def begin_task(self, title: str) -> str:
        """Start a task, which waits for an approval."""
        return str(self.json("task", "start", f"Open a ticket titled '{title}'", "--trust")["task_id"])

    def approve_all(self) -> int:
        """Approve whatever waits; the number of answers."""
        actions = [each for each in self.json("inbox", "list", "--trust") if each["state"] == "open"]
        for each in actions:
            self.agent("inbox", "approve", each["id"], "--trust")
        return len(actions)

    def statuses(self) -> dict[str, list[str]]:
        """The statuses of all runs, by kind."""
        found: dict[str, list[str]] = {}
        for row in self.json("runs", "list", "--trust"):
            found.setdefault(row["kind"], []).append(row["status"])
        return {kind: sorted(each) for kind, each in sorted(found.items())}

    def workers(self) -> dict[int, str]:
        """The state of each worker, by its process id."""
        return {each["pid"]: each["state"] for each in self.json("worker", "list", "--trust")}


def end_process(process: "subprocess.Popen[str]") -> str:
    """Ask a process to end; what it said on stderr."""
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    return said


def wait_until(project: WorkerProject, expected: dict[str, list[str]], seconds: float = 120) -> None:
    """Wait until the runs have these statuses."""
    assert eventually(lambda: project.statuses() == expected, seconds), (project.statuses(), project.notes)
