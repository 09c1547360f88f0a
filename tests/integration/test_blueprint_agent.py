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
blueprint_metadata: { id: desk.publish, version: 1.0.0, description: Write a file. }
dag:
  steps:
    - id: write
      capability: files.write_file
      input_mapping: { path: new.txt, content: hello }
      compensation: { capability: files.read_text_file, input_mapping: { path: new.txt } }
"""


@pytest.fixture
def desk(project: Project, node: str, servers: Path) -> Project:
    """A project whose agent may read the files in `data`, and is offered one blueprint alone."""
    data, blueprints = project.folder / "data", project.folder / "blueprints"
    data.mkdir()
    blueprints.mkdir()
    (data / "welcome.txt").write_text("Hello")
    (blueprints / "review.yaml").write_text(REVIEW)
    script = servers / "server-filesystem" / "dist" / "index.js"
    launch = {"command": node, "args": [str(script), str(data)]}
    settings = f'{CONFIG}\n[tools]\nblueprints = ["blueprints"]\n'
    project.write(entry("files", TOOLS, launch=launch), scopes=["read:files"], config=settings)
    path = project.folder / "agents.md"
    path.write_text(path.read_text().replace("version: 1.0.0\n", "version: 1.0.0\ntools: [desk.review]\n"))
    write_script(project.folder, asking("desk__review", path=str(data / "welcome.txt")), saying("It is judged."))
    return project


def test_x(desk: Project) -> None:
    print(desk.agent("resolve"))
    print(desk.agent("blueprint", "check", "--trust"))
    print(desk.agent("tools", "list", "--trust"))
    ran = desk.agent("run", "tester", "Review it", "--trust", "--json")
    print(ran.returncode, ran.stdout, ran.stderr)
    print(desk.agent("inbox", "list", "--json").stdout)
    [action] = json.loads(desk.agent("inbox", "list", "--json").stdout)
    print(desk.agent("inbox", "answer", action["id"], "good", "--trust"))
    rows = json.loads(desk.agent("runs", "list", "--json").stdout)
    print(rows)
    [agent] = [row["id"] for row in rows if row["kind"] != "blueprint"]
    ran = desk.agent("runs", "resume", agent, "--trust", "--json")
    print(ran.returncode, ran.stdout, ran.stderr)
    print(desk.agent("runs", "list"))
    (desk.folder / "blueprints" / "publish.yaml").write_text(PUBLISH)
    print(desk.agent("blueprint", "check", "--trust"))
    print(desk.agent("blueprint", "run", "desk.publish", "--trust"))
    print(desk.agent("blueprint", "run", "desk.review", "--trust", "--input", json.dumps({"path": "x"})))
    print(desk.agent("tools", "list", "--trust"))
    assert 0
