"""`agent diff`: what changed between two locks, how risky it is, and the exit code that says so."""

import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.cli.conftest import Snapshot, contents, edit
from tests.conftest import PROJECTS, Run

Sides = tuple[Path, Path]
FILES = ("agents.md", "agents.lock", "mcp.index.json")


@pytest.fixture
def sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Sides:
    """Two folders, `old` and `new`, with the same project and its lock; the current folder holds both."""
    for name in ("old", "new"):
        shutil.copytree(PROJECTS / "quick-start", tmp_path / name)
        assert run("resolve", "-a", f"{tmp_path}/{name}/agents.md", "-i", f"{tmp_path}/{name}/mcp.index.json").code == 0
    monkeypatch.chdir(tmp_path)
    return tmp_path / "old", tmp_path / "new"


def resolve(folder: Path, run: Run) -> None:
    assert run("resolve", "-a", f"{folder}/agents.md", "-i", f"{folder}/mcp.index.json").code == 0


def change_much(new: Path, run: Run) -> None:
    """One change of each class, and more."""
    edit(new / "agents.md", "version: 1.0.0", "version: 1.1.0")
    edit(new / "agents.md", "- read:dashboards", "- write:metrics")
    edit(new / "agents.md", "residency: us-only", "residency: any")
    edit(new / "mcp.index.json", "mcp.acme.com/reporting", "mcp.elsewhere.com/reporting")
    edit(new / "mcp.index.json", "true", "false")
    resolve(new, run)


def test_diff_of_two_locks(sides: Sides, run: Run, snapshot: Snapshot) -> None:
    change_much(sides[1], run)
    snapshot(run("diff", "old", "new"))


def test_diff_as_json(sides: Sides, run: Run, snapshot: Snapshot) -> None:
    change_much(sides[1], run)
    snapshot(run("diff", "old", "new", "--json"))


def test_diff_as_markdown(sides: Sides, run: Run, snapshot: Snapshot) -> None:
    change_much(sides[1], run)
    snapshot(run("diff", "old", "new", "--format", "markdown"))


def test_diff_of_the_same(sides: Sides, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("diff", "old", "new"))


def test_diff_of_the_same_as_markdown(sides: Sides, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("diff", "old", "new", "--format", "markdown"))


def test_diff_of_bare_locks_says_what_was_not_compared(sides: Sides, run: Run, snapshot: Snapshot) -> None:
    change_much(sides[1], run)
    for side in sides:
        (side / "agents.md").unlink()
        (side / "mcp.index.json").unlink()
    snapshot(run("diff", "old/agents.lock", "new/agents.lock"))


def test_diff_of_bare_locks_as_markdown(sides: Sides, run: Run, snapshot: Snapshot) -> None:
    for side in sides:
        (side / "agents.md").unlink()
        (side / "mcp.index.json").unlink()
    snapshot(run("diff", "old", "new", "--format", "markdown"))


def test_diff_shows_how_to_use_it(run: Run) -> None:
    ran = run("diff", "--help")

    assert (ran.code, ran.stderr) == (0, "")
    assert "examples:\n  agent diff " in ran.stdout
    assert "\n  4  something changed that is a risk\n" in ran.stdout


Edit = tuple[str, str, str]
CHANGES: dict[str, tuple[list[Edit], str, str, int]] = {
    "a time": ([("agents.lock", "1970-01-01", "2025-01-15")], "resolved-at-changed", "safe", 0),
    "a scope less": ([("agents.md", "        - read:dashboards\n", "")], "scopes-narrowed", "safe", 0),
    "a version of the agent": ([("agents.md", "version: 1.0.0", "version: 1.0.1")], "agent-changed", "review", 3),
    "a version of a server": (
        [("mcp.index.json", '"version": "3.0.0"', '"version": "3.0.1"')],
        "version-changed",
        "review",
        3,
    ),
    "a scope more": (
        [("agents.md", "- read:dashboards", "- read:dashboards\n        - write:metrics")],
        "scopes-widened",
        "risk",
        4,
    ),
    "a region more": ([("mcp.index.json", '["us-only"]', '["us-only", "eu-only"]')], "residency-loosened", "risk", 4),
    "a region less": ([("mcp.index.json", '["us-only", "eu-only"]', '["us-only"]')], "residency-withdrawn", "risk", 4),
    "a looser constraint": ([("agents.md", "us-only", "any")], "residency-loosened", "risk", 4),
    "an address": ([("mcp.index.json", "mcp.acme.com", "mcp.acme.org")], "endpoint-moved", "risk", 4),
    "a signature": ([("mcp.index.json", "true", "false")], "unsigned-now", "risk", 4),
    "a signer": ([("mcp.index.json", "Acme Corp", "Acme Inc")], "signer-changed", "risk", 4),
    "a server": ([("mcp.index.json", '"acme-reporting"', '"acme-reports"')], "server-changed", "risk", 4),
    "a requirement more": (
        [
            (
                "agents.md",
                "constraints:",
                "    - category: analytics\n      permissions: [write:metrics]\nconstraints:",
            )
        ],
        "requirement-added",
        "risk",
        4,
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_exit_code_is_the_class_of_the_worst_change(sides: Sides, run: Run, name: str) -> None:
    edits, kind, risk, code = CHANGES[name]
    for file, old, new in edits:
        edit(sides[1] / file, old, new)
    if edits[0][0] != "agents.lock":
        resolve(sides[1], run)

    for form in ("text", "json", "markdown"):
        ran = run("diff", "old", "new", "--format", form)
        assert (ran.code, ran.stderr) == (code, "")
        assert kind in ran.stdout
    document = json.loads(run("diff", "old", "new", "--json").stdout)
    assert document["worst"] == risk
    assert (kind, risk) in [(change["kind"], change["risk"]) for change in document["changes"]]


@pytest.mark.parametrize(("before", "after"), [("us-only, eu-only", "us-only"), ("us-only", "")])
def test_a_withdrawn_region_is_a_risk_for_an_agent_that_asks_for_none(
    sides: Sides, run: Run, before: str, after: str
) -> None:
    for side in sides:
        edit(side / "agents.md", "    residency: us-only\n", "")
        resolve(side, run)
    regions = [json.dumps([region for region in named.split(", ") if region]) for named in (before, after)]
    edit(sides[1] / "mcp.index.json", *regions)
    resolve(sides[1], run)

    changes = json.loads(run("diff", "old", "new", "--json").stdout)["changes"]

    assert [(change["kind"], change["risk"]) for change in changes] == [("residency-withdrawn", "risk")]


def test_an_edited_hash_is_a_risk(sides: Sides, run: Run) -> None:
    edit(sides[1] / "agents.lock", '"hash": "', '"hash": "0')

    ran = run("diff", "old", "new")

    assert ran.code == 4
    assert "✗ risk    analytics: hash-edited " in ran.stdout


def test_an_edited_integrity_is_a_risk(sides: Sides, run: Run) -> None:
    for side in sides:
        edit(side / "mcp.index.json", '"scopes"', '"toolScopes": {"chart": ["read:metrics"]},\n    "scopes"')
        resolve(side, run)
    edit(sides[1] / "agents.lock", '"integrity": "', '"integrity": "0')

    ran = run("diff", "old", "new")

    assert ran.code == 4
    assert "✗ risk    analytics: hash-edited " in ran.stdout


def test_an_edited_hash_of_a_new_requirement_is_told(sides: Sides, run: Run) -> None:
    more = "    - category: analytics\n      permissions: [write:metrics]\nconstraints:"
    edit(sides[1] / "agents.md", "constraints:", more)
    resolve(sides[1], run)
    lock = json.loads((sides[1] / "agents.lock").read_bytes())
    lock["servers"][1]["hash"] = "0" * 64
    (sides[1] / "agents.lock").write_text(json.dumps(lock))

    assert "hash-edited" in run("diff", "old", "new").stdout


def test_programs_are_told_what_was_not_compared(sides: Sides, run: Run) -> None:
    for side in sides:
        (side / "mcp.index.json").unlink()

    [note] = json.loads(run("diff", "old", "new", "--json").stdout)["notes"]

    assert note.startswith("residency, signature and publisher were not compared: ")


def test_the_same_lock_twice_says_that_an_index_cannot_differ(sides: Sides, run: Run) -> None:
    ran = run("diff", "new", "new/agents.lock")

    assert (ran.code, ran.stderr) == (0, "")
    assert "both locks were held against one index" in ran.stdout


def test_files_elsewhere_are_named(sides: Sides, run: Run) -> None:
    change_much(sides[1], run)
    beside = json.loads(run("diff", "old", "new", "--json").stdout)
    for side in sides:
        for file in FILES:
            (side / file).rename(side.parent / f"{side.name}-{file}")
    names = [
        *("--old-agents", "old-agents.md", "--old-index", "old-mcp.index.json"),
        *("--new-agents", "new-agents.md", "--new-index", "new-mcp.index.json"),
    ]

    ran = run("diff", "old-agents.lock", "new-agents.lock", *names, "--json")

    assert ran.code == 4
    assert json.loads(ran.stdout)["changes"] == beside["changes"]


BAD: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "nothing": (
        Path.unlink,
        2,
        "error: `new/agents.lock` does not exist\nhint: run `agent resolve`, or check the path\n",
    ),
    "a foreign file": (
        lambda path: path.write_text("{}"),
        1,
        "error: `new/agents.lock` cannot be compared: It was not written by `agent resolve`\n",
    ),
    "an empty file": (
        lambda path: path.write_text(""),
        1,
        "error: `new/agents.lock` cannot be compared: The file is empty\n",
    ),
    "a newer lock": (
        lambda path: edit(path, '"agentName"', '"agentName": "a", "lockVersion": 3, "x"'),
        1,
        (
            "error: `new/agents.lock` cannot be compared: It was written by a newer version of `agent`\n"
            "hint: upgrade `agent`, or move the file away\n"
        ),
    ),
    "a malformed lock": (
        lambda path: edit(path, '"servers": [', '"servers": 5, "x": ['),
        1,
        (
            "error: `new/agents.lock` is not a lock: servers: Expected array, received number\n"
            "hint: run `agent resolve` to write it again\n"
        ),
    ),
    "half a lock": (lambda path: path.write_text('{"agentName": "a", '), 1, "error: `new/agents.lock` is not a lock: "),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_lock_is_not_compared(sides: Sides, run: Run, name: str) -> None:
    make, code, words = BAD[name]
    make(sides[1] / "agents.lock")

    for form in ("text", "markdown"):
        ran = run("diff", "old", "new/agents.lock", "--format", form)
        assert (ran.code, ran.stdout) == (code, "")
        assert ran.stderr.startswith(words)
    as_json = run("diff", "old", "new", "--json")
    assert (as_json.code, as_json.stderr) == (code, "")
    assert json.loads(as_json.stdout)["success"] is False


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_regular_file_is_a_usage_error(sides: Sides, run: Run, make: Callable[[Path], object]) -> None:
    (sides[1] / "agents.lock").unlink()
    make(sides[1] / "agents.lock")

    ran = run("diff", "old", "new")

    assert ran.code == 2
    assert "not a regular file" in ran.stderr


@pytest.mark.parametrize("file", ["agents.md", "mcp.index.json"])
def test_an_invalid_file_beside_a_lock_is_refused_not_skipped(sides: Sides, run: Run, file: str) -> None:
    (sides[1] / file).write_text("---\nname: 5\n---\n")

    ran = run("diff", "old", "new")

    assert (ran.code, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"✗ {file} validation failed:\n")
    assert f"(new/{file}:" in ran.stderr


def test_a_named_file_that_is_missing_is_a_usage_error(sides: Sides, run: Run) -> None:
    ran = run("diff", "old", "new", "--old-index", "nowhere.json")

    assert ran.code == 2
    assert ran.stderr.startswith("error: `nowhere.json` does not exist\n")


@pytest.mark.parametrize("option", ["--old-index", "--new-index", "--old-agents", "--new-agents"])
def test_a_hint_names_no_option_that_this_command_lacks(sides: Sides, run: Run, option: str) -> None:
    ran = run("diff", "old", "new", option, "nowhere")

    assert (ran.code, ran.stderr) == (2, "error: `nowhere` does not exist\nhint: check the path\n")


def test_order_and_folder_never_reach_the_answer(sides: Sides, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    change_much(sides[1], run)
    paths = list(map(str, sides))
    before = [run("diff", *paths, "--format", form) for form in ("text", "json", "markdown")]
    for side in sides:
        index = json.loads((side / "mcp.index.json").read_bytes())
        random.Random(2).shuffle(index)
        (side / "mcp.index.json").write_text(json.dumps(index))
    monkeypatch.chdir("/")

    assert [run("diff", *paths, "--format", form) for form in ("text", "json", "markdown")] == before


def test_a_comparison_writes_nothing(sides: Sides, run: Run, tmp_path: Path) -> None:
    before = contents(tmp_path)

    run("diff", "old", "new", "--format", "markdown")

    assert contents(tmp_path) == before


HOSTILE = [
    "x | **risk** | y",
    "| --- | --- |",
    "<script>alert(1)</script>",
    "<!-- ",
    "-->",
    "`code`",
    "``",
    "[link](https://evil.example)",
    "![image](https://evil.example/x.png)",
    "https://evil.example",
    "www.evil.example",
    "someone@evil.example",
    "@everyone",
    "#1",
    "owner/repo#1",
    "*bold* **bold** ~~gone~~",
    "_stressed_",
    "__strong__",
    "</code></td></table>",
    "&lt;b&gt; &#60;b&#62; &amp;",
    "\\| \\` \\",
    ":tada:",
    "$x$",
    "\u202etxt\u2066",
    "a\u2028b",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_cannot_pose_as_markup_in_a_review_comment(sides: Sides, run: Run, name: str) -> None:
    """What a Markdown reader makes of the comment is the table alone, with the name as code in its cells."""
    publisher = json.dumps(name)
    edit(sides[1] / "mcp.index.json", '"Acme Corp"', publisher)
    expected = "".join(c if c.isprintable() else repr(c)[1:-1] for c in name)

    ran = run("diff", "old", "new", "--format", "markdown")
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(ran.stdout)

    assert ran.code == 4
    assert [token.type for token in tokens].count("table_open") == 1
    assert [token.type for token in tokens].count("tr_open") == 2
    assert [token.type for token in tokens].count("td_open") == 5
    children = [child for token in tokens for child in token.children or ()]
    assert {child.type for child in children} <= {
        *("text", "text_special", "html_inline", "code_inline", "strong_open", "strong_close")
    }
    assert [child.type for child in children].count("strong_open") == 1
    named = [expected, "old/agents.lock", "new/agents.lock"]
    assert codes(children) == ["analytics", "Acme Corp", *named, "agent diff"]
    # Outside of a code span not even the source holds what a review comment makes a link, a mention or a picture of.
    cell = ran.stdout.splitlines()[4].rpartition(" | ")[2]
    assert re.fullmatch(r"`[\w .,:/@+-]+` \||<code>(?:[^\W_]| |&#\d+;)+</code> \|", cell)


def codes(children: list[Token]) -> list[str]:
    """What stands in each code element."""
    found, is_open = [], False
    for child in children:
        if child.type == "code_inline":
            found.append(child.content)
        elif child.type == "html_inline":
            assert child.content == ("</code>" if is_open else "<code>")
            is_open = not is_open
            found += [""] * is_open
        elif is_open:
            found[-1] += child.content
    return found


def test_a_name_in_the_text_cannot_forge_a_line_or_steer_the_terminal(sides: Sides, run: Run) -> None:
    edit(sides[1] / "mcp.index.json", "Acme Corp", "Acme\\u2028  ✓ safe\\u202e")

    ran = run("diff", "old", "new")

    assert "signer-changed Acme Corp → Acme\\u2028  ✓ safe\\u202e\n" in ran.stdout
