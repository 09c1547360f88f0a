"""An agent that calls a blueprint over a real server from npm, held to the agent's lock."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.scripted_model import CONFIG, asking, saying, write_script
from tests.integration.conftest import Project, entry

TOOLS = {"read_text_file": ["read:files"], "write_file": ["write:files"]}
REVIEW = """\
blueprint_metadata: { id: desk.review, version: 1.0.0, description: Read a file and let a person judge it. }
dag:
  input_schema: { type: object, properties: { path: { type: string } }, required: [path], additionalProperties: false }
  steps:
    - { id: read, capability: files.read_text_file, input_mapping: { path: "${input.path}" } }
    - { id: judge, wait: { kind: person, question: "What about '${steps.read.content}'?" } }
  output_mapping: { verdict: "${steps.judge}" }
"""
PUBLISH = """\
blueprint_metadata: { id: desk.publish, version: 1.0.0, description: Write a file once a person agrees. }
dag:
  input_schema: { type: object, properties: { path: { type: string } }, required: [path], additionalProperties: false }
  steps:
    - { id: agree, wait: { kind: person, question: "Publish it?" } }
    - id: write
      capability: files.write_file
      input_mapping: { path: "${input.path}", content: hello }
"""


class Desk:
    """A project whose agent may use the files in `data`, and is offered one blueprint alone."""

    def __init__(self, project: Project, launch: dict[str, Any]) -> None:
        self.project = project
        self.data = project.folder / "data"
        self.data.mkdir()
        (self.data / "welcome.txt").write_text("Hello")
        settings = f'{CONFIG}\n[tools]\nblueprints = ["blueprints"]\n'
        project.write(entry("files", TOOLS, launch=launch), scopes=["read:files"], config=settings)
        self.write("review.yaml", REVIEW)
        # Pinned, the server's word counts that reading a file has no effect.
        self.agent("index", "probe", "files", "--trust")
        self.lock("read:files")

    def write(self, name: str, text: str) -> None:
        """Write a blueprint."""
        folder = self.project.folder / "blueprints"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(text)

    def agent(self, *command: str) -> str:
        """Run a command that has to be successful."""
        ran = self.project.agent(*command)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def lock(self, *scopes: str) -> None:
        """Lock the agent with these scopes."""
        head = "name: tester\nversion: 1.0.0\ntools: [desk.review]\n"
        asked = f"requires: {{ mcp: [{{ category: files, permissions: {json.dumps(scopes)} }}] }}\n"
        (self.project.folder / "agents.md").write_text(f"---\n{head}{asked}---\nYou review files.\n")
        self.agent("resolve")

    def answer(self, words: str) -> None:
        """Answer the one question that there is."""
        [action] = json.loads(self.agent("inbox", "list", "--json"))
        self.agent("inbox", "answer", action["id"], words, "--trust")

    def runs(self) -> dict[str, Any]:
        """The newest run of each kind."""
        return {row["kind"]: row for row in reversed(json.loads(self.agent("runs", "list", "--json")))}


@pytest.fixture
def desk(project: Project, node: str, servers: Path) -> Desk:
    script = servers / "server-filesystem" / "dist" / "index.js"
    return Desk(project, {"command": node, "args": [str(script), str(project.folder / "data")]})


def calls(said: str) -> list[tuple[str, str, str]]:
    """How each call of an agent ended."""
    events = map(json.loads, said.splitlines())
    return [(each["tool"], each["outcome"], each["code"]) for each in events if each["type"] == "tool.done"]


def test_an_agent_waits_for_the_person_that_its_blueprint_asks(desk: Desk) -> None:
    path = str(desk.data / "welcome.txt")
    # The agent's list of tools has the blueprint, and not the tool that a step of it calls.
    script = (asking("files__read_text_file", path=path), asking("desk__review", path=path), saying("It is judged."))
    write_script(desk.project.folder, *script)

    begun = desk.project.agent("run", "tester", "Review it", "--trust", "--json")
    waiting = desk.runs()
    desk.answer("good")
    resumed = desk.agent("runs", "resume", waiting["agent"]["id"], "--trust", "--json")

    assert begun.returncode == 1
    (reached, outcome, _), pending = calls(begun.stdout)
    assert (reached, outcome) == ("files.read_text_file", "failed")
    assert pending == ("desk.review", "pending", "CLARIFICATION_REQUIRED")
    assert [(run["status"], run["traceId"]) for run in waiting.values()] == [
        ("waiting", waiting["agent"]["traceId"]),
        ("waiting", waiting["agent"]["traceId"]),
    ]
    assert calls(resumed) == [("desk.review", "done", "")]
    assert json.loads(resumed.splitlines()[-1])["text"] == "It is judged."
    found = json.loads(desk.agent("blueprint", "status", waiting["blueprint"]["id"], "--json"))
    assert (found["status"], found["output"]) == ("done", {"verdict": "good"})


def test_a_blueprint_reaches_nothing_beyond_the_lock(desk: Desk) -> None:
    desk.write("publish.yaml", PUBLISH)
    given = ("desk.publish", "--input", json.dumps({"path": str(desk.data / "new.txt")}), "--trust")
    refused = [desk.project.agent("blueprint", *command) for command in (("check", "--trust"), ("run", *given))]

    for ran in refused:
        assert ran.returncode == 1
        assert "'files.write_file' is refused: It needs scopes that are not locked: write:files" in ran.stderr
    assert desk.runs() == {}


def test_a_lock_that_is_narrowed_while_a_run_waits_governs_its_next_step(desk: Desk) -> None:
    desk.write("publish.yaml", PUBLISH)
    given = ("desk.publish", "--input", json.dumps({"path": str(desk.data / "new.txt")}), "--trust")
    desk.lock("read:files", "write:files")
    desk.agent("blueprint", "run", *given, "--detach")
    desk.agent("worker", "--until-idle", "--trust")
    desk.lock("read:files")
    desk.answer("yes")
    # With the blueprint in the settings, a worker says what is wrong with it and does not begin.
    stopped = desk.project.agent("worker", "--until-idle", "--trust")
    desk.agent("worker", "--until-idle", "--trust", "--config", "tools.blueprints=[]")

    assert stopped.returncode == 1
    found = desk.runs()["blueprint"]
    assert (found["status"], found["code"]) == ("failed", "SCOPE_NOT_LOCKED")
    assert [path.name for path in desk.data.iterdir()] == ["welcome.txt"]
