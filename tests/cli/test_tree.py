"""`agent tree`: what a lock lets the agent reach."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Snapshot, contents, edit
from tests.conftest import Run


def change_server(project: Path, position: int, **keys: Any) -> None:
    """Give a server of the index other values; None takes a key away."""
    index = json.loads((project / "mcp.index.json").read_bytes())
    index[position].update(keys)
    index[position] = {key: value for key, value in index[position].items() if value is not None}
    (project / "mcp.index.json").write_text(json.dumps(index))


def test_tree_of_a_lock(project: Path, run: Run, snapshot: Snapshot) -> None:
    run("resolve")
    snapshot(run("tree"))


def test_tree_as_json(project: Path, run: Run, snapshot: Snapshot) -> None:
    run("resolve")
    snapshot(run("tree", "--json"))


def test_tree_shows_commands_tools_and_what_is_not_signed(project: Path, run: Run, snapshot: Snapshot) -> None:
    tools = {"chart": ["read:metrics"], "board": ["read:metrics", "read:dashboards"], "erase": ["write:metrics"]}
    launch = {"command": "acme-analytics", "args": ["--stdio", "two words"], "env": ["ACME_TOKEN"]}
    trust = {"signed": False, "publisher": "Acme Corp"}
    change_server(project, 0, endpoint=None, launch=launch, toolScopes=tools, trust=trust)
    run("resolve")
    snapshot(run("tree"))


def test_tree_of_a_lock_that_does_not_hold(project: Path, run: Run, snapshot: Snapshot) -> None:
    run("resolve")
    change_server(project, 1, version="4.0.0")
    edit(project / "agents.md", "version: 1.0.0", "version: 1.0.1")
    snapshot(run("tree"))


def test_tree_shows_how_to_use_it(run: Run) -> None:
    ran = run("tree", "--help")

    assert (ran.code, ran.stderr) == (0, "")
    assert "examples:\n  agent tree\n" in ran.stdout


def test_two_requirements_of_one_category_stand_under_it(project: Path, run: Run) -> None:
    edit(project / "agents.md", "category: reporting", "category: analytics")
    edit(project / "agents.md", "- read:reports\n        - write:reports", "- write:metrics")
    run("resolve")

    assert run("tree").stdout.splitlines()[1:] == [
        "└── analytics",
        "    ├── acme-analytics@2.0.0 [signed (claimed)] https://mcp.acme.com/analytics",
        "    │   ├── read:dashboards",
        "    │   └── read:metrics",
        "    └── acme-analytics@2.0.0 [signed (claimed)] https://mcp.acme.com/analytics",
        "        └── write:metrics",
    ]


def test_a_forbidden_tool_is_not_shown_as_reachable(project: Path, run: Run) -> None:
    tools = {"chart": ["read:metrics"], "export_all": ["read:metrics"], "board": ["read:metrics", "read:dashboards"]}
    change_server(project, 0, toolScopes=tools)
    edit(project / "agents.md", "  data:\n", "  actions:\n    forbid: ['export_*']\n  data:\n")
    run("resolve")

    lines = run("tree").stdout.splitlines()
    [server] = json.loads(run("tree", "--json").stdout)["categories"][0]["servers"]

    assert lines[2:6] == [
        "│   └── acme-analytics@2.0.0 [signed (claimed)] https://mcp.acme.com/analytics",
        "│       ├── read:dashboards: board",
        "│       ├── read:metrics: board, chart",
        "│       └── [forbidden] export_all",
    ]
    assert [scope["tools"] for scope in server["scopes"]] == [["board"], ["board", "chart"]]
    assert server["forbidden"] == ["export_all"]


def test_a_tool_that_takes_the_scopes_of_two_requirements_is_shown_under_both(project: Path, run: Run) -> None:
    change_server(project, 0, toolScopes={"merge": ["read:metrics", "write:metrics"]})
    edit(project / "agents.md", "category: reporting", "category: analytics")
    edit(project / "agents.md", "- read:reports\n        - write:reports", "- write:metrics")
    run("resolve")

    ran = run("tree")

    assert "─ read:metrics: merge\n" in ran.stdout
    assert "─ write:metrics: merge\n" in ran.stdout


def test_a_server_at_another_address_is_marked(project: Path, run: Run) -> None:
    run("resolve")
    change_server(project, 1, endpoint="https://mcp.elsewhere.com/reporting")

    ran = run("tree")

    assert ran.code == 1
    assert "└── acme-reporting@3.0.0 [not what the index has] https://mcp.acme.com/reporting\n" in ran.stdout


def test_json_says_that_a_lock_does_not_hold(project: Path, run: Run) -> None:
    run("resolve")
    change_server(project, 1, version="4.0.0")

    ran = run("tree", "--json")
    document = json.loads(ran.stdout)

    assert (ran.code, document["success"]) == (1, False)
    assert document["categories"][1]["servers"][0]["signed"] is None


LOCKS: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "nothing": (
        Path.unlink,
        2,
        "error: `./agents.lock` does not exist\nhint: run `agent resolve`, or check the path\n",
    ),
    "a foreign file": (
        lambda path: path.write_text("{}"),
        1,
        (
            "error: `./agents.lock` cannot be drawn: It was not written by `agent resolve`\n"
            "hint: name another file, or move it away and run `agent resolve`\n"
        ),
    ),
    "a newer lock": (
        lambda path: edit(path, '"agentName"', '"agentName": "a", "lockVersion": 3, "x"'),
        1,
        (
            "error: `./agents.lock` cannot be drawn: It was written by a newer version of `agent`\n"
            "hint: upgrade `agent`, or move the file away\n"
        ),
    ),
    "a malformed lock": (
        lambda path: edit(path, '"servers": [', '"servers": 5, "x": ['),
        1,
        (
            "error: `./agents.lock` cannot be drawn: servers: Expected array, received number\n"
            "hint: review what changed, then run `agent resolve`\n"
        ),
    ),
}


@pytest.mark.parametrize("name", LOCKS)
def test_what_is_no_lock_is_not_drawn(project: Path, run: Run, name: str) -> None:
    run("resolve")
    make, code, words = LOCKS[name]
    make(project / "agents.lock")

    ran, as_json = run("tree"), run("tree", "--json")

    assert (ran.code, ran.stdout, ran.stderr) == (code, "", words)
    assert (as_json.code, as_json.stderr) == (code, "")
    assert json.loads(as_json.stdout)["success"] is False


def test_a_directory_is_no_lock(project: Path, run: Run) -> None:
    ran = run("tree", "--lock", ".")

    assert (ran.code, ran.stderr) == (2, "error: `.` is a directory, not a regular file\n")


def test_the_drawing_depends_on_neither_order_nor_folder(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("resolve")
    paths = ["-a", str(project / "agents.md"), "-i", str(project / "mcp.index.json")]
    before = run("tree", *paths)
    index = json.loads((project / "mcp.index.json").read_bytes())
    random.Random(1).shuffle(index)
    (project / "mcp.index.json").write_text(json.dumps(index))
    monkeypatch.chdir("/")

    assert run("tree", *paths) == before
    assert before.code == 0


def test_a_tree_writes_nothing(project: Path, run: Run) -> None:
    run("resolve")
    before = contents(project)

    run("tree")

    assert contents(project) == before


def test_a_name_cannot_draw_a_branch_of_its_own(project: Path, run: Run) -> None:
    run("resolve")
    edit(project / "agents.lock", '"category": "reporting"', '"category": "x\\u2028└── admin\\u202e"')

    ran = run("tree")

    assert ran.code == 1
    assert "└── x\\u2028└── admin\\u202e\n" in ran.stdout
