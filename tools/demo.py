"""Shows the product on its examples, in a copy under `build/demo`: each command, what it prints, how it ends.

1. `examples/governed-agent`: the lock governs calls to a real MCP server, and an agent that runs; the audit trail
   proves it.
2. `examples/tickets`: a durable run whose worker is killed in the middle is finished by another one.
3. `examples/helpdesk`: a request in plain words becomes a plan, which is rejected, revised, approved by a second
   person, executed and audited.
4. `examples/hello-agent`: an agent file and an index become a lock and an explanation, as JSON on request.
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
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PATIENCE_SECONDS = 60
REQUEST = '{"title": "Print fails", "team": "devices", "thoroughness": 5}'
"""A request whose second step takes some seconds, so that there is a middle to be killed in."""
PLAIN_REQUEST = 'Open a ticket titled "VPN down", assign it to team "network" and page team "network"'
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

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def show(self, example: str, *command: str, expected: int = 0) -> None:
        """Run a command as a person would type it, and insist on how it ends."""
        print(f"$ {shlex.join(command)}", flush=True)
        code = self._run(example, *command).returncode
        self._insist(code, expected)
        if expected:
            print(f"(exit {expected}, as it should be)", flush=True)

    def prepare(self, example: str, *command: str) -> None:
        """Run a command that is not worth a line of its own."""
        done = self._run(example, *command, is_quiet=True)
        if done.returncode:
            sys.stderr.buffer.write(done.stdout)
        self._insist(done.returncode, 0)

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


def say(*lines: str) -> None:
    """A heading, and what there is to say about it."""
    heading, *more = lines
    print(f"\n## {heading}\n", flush=True)
    for line in more:
        print(line, flush=True)


def show_governed_calls(demo: Demo) -> None:
    """What the lock opens and refuses; the refusal first."""
    example = "governed-agent"
    demo.prepare(example, "agent", "resolve")
    demo.prepare(example, "agent", "trust-folder")

    say("The lock governs the run: a call that it does not open never reaches the server")
    demo.show(example, "agent", "tools", "call", "notes.delete_note", WELCOME, expected=1)
    demo.show(example, "agent", "tools", "call", "notes.read_note", WELCOME)
    demo.show(example, "agent", "tools", "list")

    say("One edited byte of a locked entry stops everything")
    lock = demo.path(example) / "agents.lock"
    whole = lock.read_text(encoding="utf-8")
    lock.write_text(whole.replace("write:notes", "write:Notes", 1), encoding="utf-8")
    demo.show(example, "agent", "tools", "call", "notes.read_note", WELCOME, expected=1)
    lock.write_text(whole, encoding="utf-8")

    say("A run obeys it too: this model is scripted to delete the note, as if a text had misled it")
    for name, content in SCRIPTED_MODEL.items():
        (demo.path(example) / name).write_text(content, encoding="utf-8")
    demo.show(example, "agent", "run", "What does the note welcome say?")

    say("Every decision left a record, and the record is whole")
    demo.show(example, "agent", "audit", "show", "--last", "6")
    demo.show(example, "agent", "audit", "verify")


def show_durable_run(demo: Demo) -> None:
    """How a run survives the end of the process that drives it."""
    example = "tickets"
    demo.prepare(example, "agent", "trust-folder")

    say("A run survives its worker: killed in the middle, another one finishes it, and no ticket is opened twice")
    demo.show(example, "agent", "blueprint", "run", "tickets.handle", "--input", REQUEST, "--detach")
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
    demo.show(example, "agent", "worker", "--until-idle")
    demo.show(example, "agent", "blueprint", "status", run)
    demo.show(example, "agent", "tools", "call", "tickets.search", '{"text": "Print fails"}')


def wait_for_step(demo: Demo, run: str, path: str) -> None:
    """Wait until a step of a run is under way."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        steps = demo.read("tickets", "agent", "blueprint", "status", run, "--json")["steps"]
        if {"path": path, "state": "running"}.items() <= next(step for step in steps if step["path"] == path).items():
            return
        time.sleep(0.1)
    sys.exit(f"the step {path} did not begin within {PATIENCE_SECONDS} seconds")


def show_task(demo: Demo) -> None:
    """How a request becomes a plan that is executed, and who decided what on the way."""
    example = "helpdesk"
    demo.prepare(example, "agent", "trust-folder")

    say("A request in plain words becomes a draft, and Ops rejects it: the pager is on a machine that nobody listed")
    start = ("agent", "task", "start", PLAIN_REQUEST, "--environment", "prd")
    demo.show(example, *REQUESTER, *start, expected=1)
    [listed] = demo.read(example, *REQUESTER, "agent", "task", "list", "--json")
    task, trace = listed["task_id"], listed["trace_id"]

    say("The answer leaves that step out; the revised draft passes, and in production it waits for a second person")
    demo.show(example, *REQUESTER, "agent", "inbox", "answer", listed["waits_for"]["id"], "leave-out")
    demo.show(example, *REQUESTER, "agent", "task", "resume", task, expected=1)
    [approval] = demo.read(example, *APPROVER, "agent", "inbox", "list", "--json")
    demo.show(example, *REQUESTER, "agent", "inbox", "approve", approval["id"], expected=1)
    demo.show(example, *APPROVER, "agent", "inbox", "approve", approval["id"])

    say("The plan is installed and executed, once")
    demo.show(example, *REQUESTER, "agent", "task", "resume", task)

    say("One trace has every decision: the stage, what was chosen and why, and never the words of the request")
    records = demo.read(example, "agent", "audit", "show", "--trace", trace, "--json")
    for record in records:
        if line := decision_line(record["kind"], record["body"]):
            print(line, flush=True)
    demo.show(example, "agent", "audit", "verify")


def decision_line(kind: str, body: dict[str, Any]) -> str:
    """What a record of the trail says about a decision or a call; empty for all other records."""
    if kind == "task.decided":
        return f"  {body['caller']}: {body['stage']} {' '.join([body['choice'], *body['codes']])}"
    if kind in {"action.answered", "action.approved", "action.refused", "call.done"}:
        return f"  {body['caller']}: {kind} {body['tool']}"
    return ""


def show_resolution(demo: Demo, *, has_json: bool) -> None:
    """How a lock comes to be, and why it is what it is."""
    example = "hello-agent"
    say("What an agent needs becomes a lock, and every choice is explained")
    demo.show(example, "agent", "resolve", "--explain")
    demo.show(example, "agent", "why", "reporting")
    if has_json:
        demo.show(example, "cat", "agents.lock")
        demo.show(example, "cat", "agents.resolution.json")
    else:
        print("\n`make demo JSON=1` also prints the lock and the explanation", flush=True)


def main() -> None:
    """Run the examples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="also print the lock and the explanation")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "demo", help="where to copy the examples")
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    # Whoever tried an example in its place left its state there.
    shutil.copytree(ROOT / "examples", options.folder, ignore=shutil.ignore_patterns(".agent", "__pycache__"))
    demo = Demo(options.folder)
    show_governed_calls(demo)
    show_durable_run(demo)
    show_task(demo)
    show_resolution(demo, has_json=options.json)


if __name__ == "__main__":
    main()
