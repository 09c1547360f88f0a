"""Shows the product on its examples, in a copy under `build/demo`: within two screens, or in full with `--details`.

1. `examples/governed-agent`: a file becomes a lock, a call that it does not open is refused, an agent runs under it.
2. `examples/tickets`: a durable run whose worker is killed in the middle is finished by another one.
3. `examples/helpdesk`: a request in plain words becomes a plan that waits for a second person, and is then executed.
4. The audit trail of all that verifies.
5. With `--details` also `examples/hello-agent`: why each server was chosen or rejected, and the files as JSON.

Every command is run and must end as it should, in both forms; the short one prints fewer of them, and of what they
print only the lines that tell the story.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PATIENCE_SECONDS = 60
REQUEST = '{"title": "Print fails", "team": "devices", "thoroughness": 5}'
"""A request whose second step takes some seconds, so that there is a middle to be killed in."""
PLAIN_REQUEST = 'Open a ticket titled "VPN down" and assign it to team "network"'
REJECTED_REQUEST = 'Open a ticket titled "VPN down", assign it to team "network" and page team "network"'
"""A request for which Ops has a question first: the pager is on a machine that the settings do not list."""
REQUESTER = ("python", "../tickets/issuer.py", "requester")
APPROVER = ("python", "../tickets/issuer.py", "approver")
"""What runs a command with the token of one person; the issuer listens only while the command runs."""
WELCOME = '{"name": "welcome"}'
SCRIPTED_MODEL = {
    "agent.toml": """\
[models.default]
provider = "script"
data = { residency = ["any"], maxSensitivity = "internal" }

[providers.script]
adapter = "scripted"
script = "script.yaml"
""",
    "script.yaml": """\
- calls: [{ name: notes__delete_note, arguments: { name: welcome } }]
- calls: [{ name: notes__read_note, arguments: { name: welcome } }]
- text: I could not delete the note. It says that the lock governs the run.
""",
}
"""A model that says what a file says, so that the demonstration is the same everywhere."""


class Demo:
    """Runs commands in a copy of the examples."""

    def __init__(self, folder: Path, *, has_details: bool) -> None:
        self._folder = folder
        self.has_details = has_details
        self._has_begun = False

    def title(self, text: str, *, is_detail: bool = False) -> None:
        """Print the title of the next part of the story."""
        if self.has_details or not is_detail:
            print(f"\n# {text}" if self._has_begun else f"# {text}", flush=True)
            self._has_begun = True

    def show(self, example: str, *command: str, expected: int = 0, lines: Sequence[str] | None = None) -> None:
        """Run a command as a person would type it, and insist on how it ends.

        Args:
            example: the folder to run it in.
            command: its words.
            expected: its exit code.
            lines: parts of the lines that the short form prints; without them it does not show the command.
        """
        if self.has_details:
            print(_typed(command), flush=True)
            self._insist(self._run(example, *command).returncode, expected)
            if expected:
                print(f"(exit {expected}, as it should be)", flush=True)
            return
        done = self._run(example, *command, is_quiet=True)
        printed = done.stdout.decode()
        if done.returncode != expected:
            sys.stderr.write(printed)
        self._insist(done.returncode, expected)
        if lines is None:
            return
        print(_typed(command))
        for line in printed.splitlines():
            if any(part in line for part in lines):
                print(line)
        sys.stdout.flush()

    def prepare(self, example: str, *command: str) -> None:
        """Run a command that is not worth a line of its own."""
        done = self._run(example, *command, is_quiet=True)
        if done.returncode:
            sys.stderr.buffer.write(done.stdout)
        self._insist(done.returncode, 0)

    def show_decisions(self, records: list[Any]) -> None:
        """Print what the records of a trail say about decisions, in the long form."""
        for record in records if self.has_details else ():
            if line := decision_line(record["kind"], record["body"]):
                print(line, flush=True)

    def path(self, example: str) -> Path:
        """The folder of an example."""
        return self._folder / example

    def read(self, example: str, *command: str) -> Any:  # noqa: ANN401 - JSON
        """What a command prints as JSON."""
        done = self._run(example, *command, is_quiet=True)
        return json.loads(done.stdout)

    def start(self, example: str, *command: str) -> "subprocess.Popen[bytes]":
        """Start a command in the background, as a person would in another terminal; what it prints is not shown."""
        print(f"$ {shlex.join(command)} &", flush=True)
        return subprocess.Popen(
            command,
            cwd=self.path(example),
            env=self._environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _environment(self) -> dict[str, str]:
        scripts = sysconfig.get_path("scripts")
        return {
            **os.environ,
            "PATH": os.pathsep.join([scripts, os.environ.get("PATH", "")]),
            "XDG_CONFIG_HOME": str(self._folder / "config"),
        }

    def _run(self, example: str, *command: str, is_quiet: bool = False) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            command,
            cwd=self.path(example),
            env=self._environment(),
            stdout=subprocess.PIPE if is_quiet else None,
            # Both in one stream: in a pipe, two would lose their order.
            stderr=subprocess.STDOUT,
            check=False,
        )

    @staticmethod
    def _insist(code: int, expected: int) -> None:
        if code != expected:
            sys.exit(f"expected exit code {expected}, got {code}")


def _typed(command: Sequence[str]) -> str:
    """A command as a person types it, at a prompt that names the person if there are several."""
    if tuple(command[:2]) == REQUESTER[:2]:
        return f"{command[2]}$ {shlex.join(command[3:])}"
    return f"$ {shlex.join(command)}"


def show_governed_agent(demo: Demo) -> None:
    """How a file becomes a lock, and what the lock opens and refuses."""
    example = "governed-agent"
    demo.title("A file becomes a lock: which server the agent may use, pinned")
    demo.show(example, "agent", "resolve", lines=["Wrote ./agents.lock", "notes@"])
    demo.prepare(example, "agent", "trust-folder")

    demo.title("A call that the lock does not open never reaches the server")
    delete = ("agent", "tools", "call", "notes.delete_note", WELCOME)
    demo.show(example, *delete, expected=1, lines=["FORBIDDEN_ACTION"])
    demo.show(example, "agent", "tools", "call", "notes.read_note", WELCOME)
    demo.show(example, "agent", "tools", "list")

    demo.title("One edited byte of a locked entry stops everything", is_detail=True)
    lock = demo.path(example) / "agents.lock"
    whole = lock.read_text(encoding="utf-8")
    lock.write_text(whole.replace("write:notes", "write:Notes", 1), encoding="utf-8")
    demo.show(example, "agent", "tools", "call", "notes.read_note", WELCOME, expected=1)
    lock.write_text(whole, encoding="utf-8")

    demo.title("An agent runs under the lock; its model is scripted to try the same")
    for name, content in SCRIPTED_MODEL.items():
        (demo.path(example) / name).write_text(content, encoding="utf-8")
    demo.show(example, "agent", "run", "What does the note welcome say?", lines=["·", "I could not"])
    demo.show(example, "agent", "audit", "show", "--last", "6")
    demo.show(example, "agent", "audit", "verify")


def show_durable_run(demo: Demo) -> None:
    """How a run survives the end of the process that drives it."""
    example = "tickets"
    demo.prepare(example, "agent", "trust-folder")

    demo.title("A blueprint survives a kill: another worker goes on, and no step is done twice")
    start = ("agent", "blueprint", "run", "tickets.handle", "--input", REQUEST, "--detach")
    demo.show(example, *start, lines=[])
    [begun] = demo.read(example, "agent", "blueprint", "list", "--json")
    run = begun["id"]
    worker = demo.start(example, "agent", "worker")
    try:
        wait_for_step(demo, run, "research")
    finally:
        # It gets no chance to tidy up.
        worker.kill()
        worker.wait()
    print("$ kill -9 %1", flush=True)
    demo.show(example, "agent", "blueprint", "status", run)
    demo.show(example, "agent", "worker", "--until-idle", lines=["goes on", ": done"])
    demo.show(example, "agent", "blueprint", "status", run)
    demo.show(example, "agent", "tools", "call", "tickets.search", '{"text": "Print fails"}')


def wait_for_step(demo: Demo, run: str, path: str) -> None:
    """Wait until a step of a run is under way."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        steps = demo.read("tickets", "agent", "blueprint", "status", run, "--json")["steps"]
        if any(step["path"] == path and step["state"] == "running" for step in steps):
            return
        time.sleep(0.1)
    sys.exit(f"the step {path} did not begin within {PATIENCE_SECONDS} seconds")


def show_task(demo: Demo) -> None:
    """How a request becomes a plan that is executed, and who decided what on the way."""
    example = "helpdesk"
    demo.prepare(example, "agent", "trust-folder")

    demo.title("A request in plain words becomes a plan, which waits for a second person")
    if demo.has_details:
        show_rejection(demo)
        demo.title("In production, a plan waits for a second person")
    start = ("agent", "task", "start", PLAIN_REQUEST, "--environment", "prd")
    demo.show(example, *REQUESTER, *start, expected=1, lines=["APPROVAL "])
    [approval] = demo.read(example, *APPROVER, "agent", "inbox", "list", "--json")
    [listed] = demo.read(example, *REQUESTER, "agent", "task", "list", "--status", "waiting", "--json")
    task, trace = listed["task_id"], listed["trace_id"]
    approve = ("agent", "inbox", "approve", approval["id"])
    demo.show(example, *REQUESTER, *approve, expected=1, lines=["OWN_CALL"])
    demo.show(example, *APPROVER, *approve, lines=["approved by"])

    demo.title("The plan is installed and executed, once", is_detail=True)
    resume = ("agent", "task", "resume", task)
    demo.show(example, *REQUESTER, *resume, lines=["done:", "Output"])

    demo.title("One trace has every decision: the stage, what was chosen and why", is_detail=True)
    demo.show_decisions(demo.read(example, "agent", "audit", "show", "--trace", trace, "--json"))

    demo.title("Every decision is in the audit trail, and the trail verifies")
    demo.show(example, "agent", "audit", "verify", lines=["verify"])


def show_rejection(demo: Demo) -> None:
    """How a draft is rejected, and revised after an answer."""
    example = "helpdesk"
    start = ("agent", "task", "start", REJECTED_REQUEST, "--environment", "dev")
    demo.show(example, *REQUESTER, *start, expected=1)
    [listed] = demo.read(example, *REQUESTER, "agent", "task", "list", "--json")
    demo.show(example, *REQUESTER, "agent", "inbox", "answer", listed["waits_for"]["id"], "leave-out")
    demo.show(example, *REQUESTER, "agent", "task", "resume", listed["task_id"])


def decision_line(kind: str, body: dict[str, Any]) -> str:
    """What a record of the trail says about a decision or a call; empty for all other records."""
    if kind == "task.decided":
        return f"  {body['caller']}: {body['stage']} {' '.join([body['choice'], *body['codes']])}"
    if kind in {"action.answered", "action.approved", "action.refused", "call.done"}:
        return f"  {body['caller']}: {kind} {body['tool']}"
    return ""


def show_resolution(demo: Demo) -> None:
    """How a choice among several servers is explained."""
    example = "hello-agent"
    demo.title("What an agent needs becomes a lock, and every choice is explained", is_detail=True)
    demo.show(example, "agent", "resolve", "--explain")
    demo.show(example, "agent", "why", "reporting")
    demo.show(example, "cat", "agents.lock")
    demo.show(example, "cat", "agents.resolution.json")


def main() -> None:
    """Run the examples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--details", action="store_true", help="print every command, and all that it prints")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "demo", help="where to copy the examples")
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    # A copy starts without the state of an example that was tried in its place.
    shutil.copytree(ROOT / "examples", options.folder, ignore=shutil.ignore_patterns(".agent", "__pycache__"))
    demo = Demo(options.folder, has_details=options.details)
    show_governed_agent(demo)
    show_durable_run(demo)
    show_task(demo)
    if options.details:
        show_resolution(demo)
    else:
        print("`make demo DETAILS=1` prints every command and its whole output", flush=True)


if __name__ == "__main__":
    main()
