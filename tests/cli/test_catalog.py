"""`agent catalog`: what it prints, what it repairs, and how it ends."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import agent_process, contents
from tests.conftest import Ran, Run

Snapshot = Callable[[object], None]

FILES = {
    "architect.md": "---\nname: architect\ndescription: Designs systems and APIs\nmodel: sonnet\n---\n# Plan\n",
    "team/reviewer.md": "---\nname: reviewer\ndescription: Reviews Python code\nmodel: haiku\nversion: 1.10\n---\nGo\n",
    "other/reviewer.md": "---\nname: reviewer\ndescription: Reviews contracts\ntags: [law]\n---\nRead slowly.\n",
    "bound.md": (
        "---\nname: bound\nversion: 1.0.0\ndescription: Needs a server\nrequires:\n  mcp:\n    - category: crm\n"
        "      permissions: [read]\nconstraints:\n  data: { sensitivity: internal, residency: eu-only }\n---\n"
    ),
    "roles.yaml": "lead: {primary: architect, fallbacks: [reviewer, nobody]}\n",
    "README.md": "# No agent\n",
}
BROKEN = (
    "\ufeff---\r\nname: broken\r\n# why\r\ndescription: Use when: always\r\n\r\n  model: opus\r\ntools:\r\n  - a\r\n"
    " - @b\r\n---\r\nBody: stays: as it is\r\n---\r\nname: broken\r\ndescription: Use when: always\r\n"
)
SERVER = {
    "id": "crm",
    "version": "1.0.0",
    "launch": {"command": "crm", "args": [], "env": []},
    "categories": ["crm"],
    "scopes": ["read"],
    "data": {"residency": ["eu-only"], "maxSensitivity": "confidential"},
    "trust": {"signed": True, "publisher": "tests"},
}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with nothing in it, as the current one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


@pytest.fixture
def agents(empty: Path) -> Path:
    """Agent files below `agents`."""
    write(empty / "agents", FILES)
    return empty / "agents"


def document(ran: Ran) -> Any:
    assert ran.stderr == ""
    return json.loads(ran.stdout)


# What each prints -----------------------------------------------------------------------------------------------------


def test_catalog_list(agents: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("catalog", "list"))


def test_catalog_list_as_json(agents: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("catalog", "list", "--json"))


def test_catalog_search(agents: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("catalog", "search", "reviews python"))


def test_catalog_search_for_nothing(agents: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("catalog", "search", "zzz"))


def test_catalog_show(agents: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("catalog", "show", "reviewer"))


def test_catalog_show_as_json(agents: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("catalog", "show", "agent://team/reviewer?version=1.10", "--json"))


def test_catalog_show_of_a_name_with_a_slip(agents: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("catalog", "show", "reviwer"))


def test_catalog_check(agents: Path, run: Run, snapshot: Snapshot) -> None:
    write(agents, {"broken.md": BROKEN, "nameless.md": "---\nmodel: x\n---\n", "bad.md": "---\nname: a/b\n---\n"})
    ran = run("catalog", "check")

    snapshot(str(ran).replace(f"{agents}/", "/agents/"))


def test_catalog_check_as_json(agents: Path, run: Run, snapshot: Snapshot) -> None:
    write(agents, {"broken.md": BROKEN})
    ran = run("catalog", "check", "--json")

    snapshot(str(ran).replace(f"{agents}/", "/agents/"))


def test_catalog_stats(agents: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("catalog", "stats"))


def test_catalog_stats_as_json(agents: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("catalog", "stats", "--json"))


def test_catalog_lint(agents: Path, run: Run, snapshot: Snapshot) -> None:
    write(agents.parent, {"plan.md": "1. @o:agent://architect\n2. **@o:agent://reviewr** or @o:agent://../x\n"})

    snapshot(run("catalog", "lint", "plan.md"))


def test_catalog_lint_as_json(agents: Path, run: Run, snapshot: Snapshot) -> None:
    write(agents.parent, {"plan.md": "1. @o:agent://architect\n2. **@o:agent://reviewr** or @o:agent://../x\n"})

    snapshot(run("catalog", "lint", "plan.md", "--json"))


# Listings -------------------------------------------------------------------------------------------------------------


def test_every_agent_of_a_listing_has_what_a_program_needs(agents: Path, run: Run) -> None:
    listed = document(run("catalog", "list", "--json"))

    assert [agent["uri"] for agent in listed] == [
        "agent://architect",
        "agent://bound",
        "agent://reviewer",
        "agent://team/reviewer",
    ]
    for agent in listed:
        assert {"name", "uri", "description", "digest"} <= set(agent)
        assert document(run("catalog", "show", agent["uri"], "--json"))["digest"] == agent["digest"]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (["--capability", "Python"], ["agent://team/reviewer"]),
        (["--role", "lead"], ["agent://architect"]),
        (["--model", "haiku"], ["agent://team/reviewer"]),
        (["--model", "haiku", "--role", "lead"], []),
    ],
)
def test_filters_narrow_a_listing_and_a_search(agents: Path, run: Run, filters: list[str], expected: list[str]) -> None:
    assert [found["uri"] for found in document(run("catalog", "list", "--json", *filters))] == expected
    found = run("catalog", "search", "reviews designs", "--json", *filters)
    assert ([each["uri"] for each in json.loads(found.stdout)], found.code) == (expected, 0 if expected else 1)


def test_roots_are_searched_in_their_order(agents: Path, run: Run) -> None:
    ran = run("catalog", "list", "--json", "--root", "agents/team", "--root", "agents/other")

    assert [(found["uri"], found["description"]) for found in document(ran)] == [
        ("agent://other/reviewer", "Reviews contracts"),
        ("agent://reviewer", "Reviews Python code"),
    ]


def test_the_status_of_requires_shows_with_its_reason(agents: Path, run: Run) -> None:
    def status() -> tuple[str, str | None]:
        [found] = [each for each in document(run("catalog", "list", "--json")) if each["name"] == "bound"]
        return found["status"], found["reason"]

    assert status() == ("unresolved", "there is no index")
    (agents.parent / "mcp.index.json").write_text(json.dumps([SERVER]))
    assert status() == ("resolved", None)
    assert "agent://bound [resolved]" in run("catalog", "list").stdout
    (agents.parent / "mcp.index.json").write_text("[]")
    assert status() == ("unresolved", "no candidates for categories: crm")
    (agents.parent / "mcp.index.json").unlink()
    assert status() == ("unresolved", "there is no index")


def test_a_folder_that_a_client_loads_by_itself_is_warned_about(empty: Path, run: Run) -> None:
    write(empty / ".claude" / "agents", FILES)
    ran = run("catalog", "list", "--root", ".claude/agents")

    assert ran.code == 0
    assert ran.stderr.startswith("warning: Claude Code loads `.claude/agents` whole by itself")
    assert run("catalog", "list", "--root", ".claude").stderr == ran.stderr


def test_derived_capabilities_are_marked_in_listings(empty: Path, run: Run) -> None:
    stated = "---\nname: stated\ndescription: Reviews Python\ncapabilities: [python]\n---\n"
    write(empty / "agents", {"stated.md": stated, "derived.md": "---\ndescription: Reviews Python\n---\n"})

    for command in (["list"], ["search", "reviews"]):
        found = document(run("catalog", *command, "--json"))
        assert {each["name"]: (each["capabilities"], each["capabilitiesDerived"]) for each in found} == {
            "derived": (["python"], True),
            "stated": (["python"], False),
        }


def test_a_fallback_that_is_not_there_is_reported_whoever_names_it(agents: Path, run: Run) -> None:
    write(agents, {"standing.md": "---\nname: standing\nfallbacks: [architect, ghost]\n---\n"})
    found = document(run("catalog", "check", "--json"))["findings"]

    assert [(each["file"], each["path"]) for each in found if each["code"] == "unknown-agent"] == [
        ("agents/roles.yaml", "roles.lead"),
        ("agents/standing.md", "fallbacks"),
    ]


def test_show_follows_the_format_of_the_address_unless_an_option_says_otherwise(agents: Path, run: Run) -> None:
    markdown = run("catalog", "show", "architect").stdout
    as_json = run("catalog", "show", "architect", "--json").stdout

    assert markdown == FILES["architect.md"]
    assert run("catalog", "show", "agent://architect?format=json").stdout == as_json
    assert run("catalog", "show", "agent://architect?format=markdown").stdout == markdown
    assert run("catalog", "show", "agent://architect?format=json", "--format", "markdown").stdout == markdown
    assert run("catalog", "show", "agent://architect?format=markdown", "--json").stdout == as_json


def test_lint_asks_for_the_version_that_a_mention_names(agents: Path, run: Run) -> None:
    write(agents.parent, {"plan.md": "@o:agent://team/reviewer?version=1.10 @o:agent://team/reviewer?version=1.1\n"})
    ran = run("catalog", "lint", "plan.md", "--json")

    assert ran.code == 1
    assert [each["uri"] for each in document(ran)["dangling"]] == ["agent://team/reviewer?version=1.1"]


# Repairs --------------------------------------------------------------------------------------------------------------


def test_a_repair_changes_the_lines_that_are_broken_and_no_other_byte(empty: Path, run: Run) -> None:
    write(empty / "agents", {"broken.md": BROKEN, "fine.md": FILES["architect.md"]})
    before = json.loads(run("catalog", "show", "broken", "--json").stdout)

    ran = run("catalog", "check", "--fix", "--strict")

    assert (ran.code, ran.stderr) == (0, "✓ Repaired agents/broken.md\n")
    assert contents(empty / "agents") == {
        "broken.md": BROKEN.replace("Use when: always", '"Use when: always"', 1)
        .replace("  model: opus", "model: opus")
        .replace(" - @b", '  - "@b"')
        .encode(),
        "fine.md": FILES["architect.md"].encode(),
    }
    after = json.loads(run("catalog", "show", "broken", "--json").stdout)
    assert {key for key in after if after[key] != before[key]} == {"digest"}
    assert run("catalog", "check", "--fix").stderr == ""


def test_a_repair_keeps_every_key_a_key(empty: Path, run: Run) -> None:
    write(
        empty / "agents",
        {
            "a.md": '---\nname: a\nhouse rules: x: y\n"description": Reviews code: all of it\n---\n',
            "b.md": '---\n name: b\ndescription: "c" and "d"\nmodel:opus\n---\n',
        },
    )
    before = document(run("catalog", "list", "--json"))

    assert run("catalog", "check", "--fix", "--strict").code == 0
    assert contents(empty / "agents") == {
        "a.md": b'---\nname: a\nhouse rules: "x: y"\n"description": "Reviews code: all of it"\n---\n',
        "b.md": b'---\nname: b\ndescription: "\\"c\\" and \\"d\\""\nmodel: opus\n---\n',
    }
    after = document(run("catalog", "list", "--json"))
    assert [(each["name"], each["description"], each["model"]) for each in before] == [
        ("a", "Reviews code: all of it", None),
        ("b", '"c" and "d"', "opus"),
    ]
    about_the_bytes = {"digest", "size", "tokens"}
    for old, new in zip(before, after, strict=True):
        assert {key for key in old if old[key] != new[key]} <= about_the_bytes


def test_a_repair_keeps_the_dialogue_of_a_description(empty: Path, run: Run) -> None:
    dialogue = 'user: "Book"\nassistant: "Booked"\nuser: "Again"\n'
    text = f"---\nname: a\ndescription: Plans trips. Examples:\n{dialogue}model: opus\n---\nBody\n"
    write(empty / "agents", {"a.md": text})

    assert run("catalog", "check", "--fix", "--strict").code == 0
    shown = document(run("catalog", "show", "a", "--json"))
    assert shown["description"] == f"Plans trips. Examples: {' '.join(dialogue.split())}"
    assert list(shown["frontMatter"]) == ["name", "description", "model"]


def test_a_repair_that_would_repeat_a_key_is_not_written(empty: Path, run: Run) -> None:
    text = "---\nname: a\nat: @x\nmodel: opus\nmodel: haiku\n---\n"
    write(empty / "agents", {"a.md": text})

    ran = run("catalog", "check", "--fix")

    assert (ran.code, ran.stderr) == (1, "")
    assert contents(empty / "agents") == {"a.md": text.encode()}


def test_a_file_without_a_name_is_repaired_too(empty: Path, run: Run) -> None:
    write(empty / "agents", {"nameless.md": "---\ndescription: a: b\n---\n"})
    run("catalog", "check", "--fix")

    assert contents(empty / "agents") == {"nameless.md": b'---\ndescription: "a: b"\n---\n'}


def test_without_fix_nothing_is_written(empty: Path, run: Run) -> None:
    write(empty / "agents", {"broken.md": BROKEN})
    ran = run("catalog", "check")

    assert ran.code == 0
    assert "front" not in ran.stderr
    assert contents(empty / "agents") == {"broken.md": BROKEN.encode()}
    assert run("catalog", "check", "--strict").code == 1


def test_what_cannot_be_repaired_is_left_alone_and_is_the_answer_no(empty: Path, run: Run) -> None:
    hopeless = {"a.md": "---\n{\n---\n", "b.md": "---\n- a\n---\n", "c.md": "\n---\nname: c\n---\n"}
    write(empty / "agents", hopeless)
    ran = run("catalog", "check", "--fix")

    assert ran.code == 1
    assert ran.stdout.count("✗") == 3
    assert ran.stdout.endswith("0 agents served, 3 files refused, 0 warnings\n")
    assert contents(empty / "agents") == {name: text.encode() for name, text in hopeless.items()}


def test_markdown_that_is_left_out_is_counted_and_named(empty: Path, run: Run) -> None:
    fine = "---\nname: a\n---\n"
    files = {
        "a.md": fine,
        "README.md": "# Text\n",
        "b.mdx": fine,
        "c.MD": fine,
        "d.md": '+++\nname = "d"\n+++\n',
        "e.md": f"<!-- why -->\n{fine}",
        "notes.txt": "text",
    }
    write(empty / "agents", files)
    write(empty / "elsewhere", {"f.md": fine})
    (empty / "agents" / "f.md").symlink_to("../elsewhere/f.md")
    (empty / "agents" / "more").symlink_to("../elsewhere")
    (empty / "agents" / "again.md").symlink_to("a.md")

    checked = run("catalog", "check", "--strict")
    listed = run("catalog", "list")

    assert checked.code == 0
    assert checked.stdout.splitlines() == [
        "hint: (file): Left out: its name does not end in `.md`; rename it (agents/b.mdx:1:1)",
        "hint: (file): Left out: its name does not end in `.md`; rename it (agents/c.MD:1:1)",
        "hint: (file): Left out: a symbolic link; name its target with `--root` (agents/f.md:1:1)",
        "hint: (file): Left out: a symbolic link; name its target with `--root` (agents/more:1:1)",
        "hint: (file): Left out: no front matter (agents/README.md:1:1)",
        "hint: (file): Left out: its front matter is TOML; write it as YAML, between two lines `---` (agents/d.md:1:1)",
        (
            "hint: (file): Left out: a comment is before the front matter; move the comment below the second `---`"
            " (agents/e.md:1:1)"
        ),
        "1 agent served, 0 files refused, 0 warnings, 7 left out",
    ]
    assert listed.stdout == "agent://a\n1 agent\n"
    assert listed.stderr == (
        "hint: 7 Markdown files left out: agents/README.md (no front matter), agents/b.mdx (its name does not end in"
        " `.md`), agents/c.MD (its name does not end in `.md`), agents/d.md (its front matter is TOML), agents/e.md (a"
        " comment is before the front matter), 2 more, which `agent catalog check` names\n"
    )


def test_a_name_with_a_slash_gives_way_to_the_name_of_the_file(empty: Path, run: Run) -> None:
    write(empty / "agents", {"good.md": "---\nname: a/b\n---\n"})

    ran = run("catalog", "check")

    assert ran.code == 0
    assert "`a/b` would be a path, so the agent goes by the name of its file, `good`" in ran.stdout
    assert run("catalog", "show", "good").code == 0


def test_a_repaired_file_keeps_its_permissions(empty: Path, run: Run) -> None:
    write(empty / "agents", {"broken.md": BROKEN})
    (empty / "agents" / "broken.md").chmod(0o640)
    run("catalog", "check", "--fix")

    assert (empty / "agents" / "broken.md").stat().st_mode & 0o777 == 0o640


# How it ends ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["list"], 0),
        (["list", "--role", "nobody"], 0),
        (["list", "--root", "nowhere"], 2),
        (["list", "--root", "agents/README.md"], 0),
        (["list", "--root", "agents/roles.yaml/x"], 2),
        (["search", "zzz"], 1),
        (["search", "reviews", "--limit", "0"], 2),
        (["search", "reviews", "--limit", "101"], 2),
        (["search", "reviews", "--limit", "x"], 2),
        (["search", ""], 0),
        (["search", '" OR NEAR( *'], 1),
        (["show", "nobody"], 1),
        (["show", "agent://"], 1),
        (["show", "../../etc/passwd"], 1),
        (["show", "agent://%2e%2e/x"], 1),
        (["show", "file:///etc/passwd"], 1),
        (["show", "agent://reviewer?version=1"], 1),
        (["show", "\udcff"], 1),
        (["search", "\udcff"], 1),
        (["list", "--capability", "\udcff"], 0),
        (["list", "--root", "\udcff"], 2),
        (["show", "x" * 10_000], 1),
        (["show", ""], 1),
        (["check"], 0),
        (["check", "--strict"], 1),
        (["stats"], 0),
        (["lint", "nowhere.md"], 2),
        (["lint", "agents"], 2),
        (["lint", "agents/README.md"], 0),
        (["list", "--index", "agents/README.md"], 1),
        ([], 2),
    ],
)
@pytest.mark.parametrize("is_json", [False, True])
def test_every_end_has_its_code_and_none_a_traceback(
    agents: Path, run: Run, command: list[str], code: int, *, is_json: bool
) -> None:
    ran = run("catalog", *command, *(["--json"] if is_json and command else []))

    assert ran.code == code
    assert "Traceback" not in ran.stdout + ran.stderr
    if is_json and ran.stdout:
        json.loads(ran.stdout)


def test_without_any_agents_it_says_where_it_looked(empty: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("catalog", "list"))


def test_an_empty_folder_is_a_catalog_of_none(empty: Path, run: Run) -> None:
    (empty / "agents").mkdir()

    assert document(run("catalog", "list", "--json")) == []
    assert document(run("catalog", "stats", "--json"))["largest"] is None
    assert run("catalog", "check").stdout == "0 agents served, 0 files refused, 0 warnings\n"


def test_nothing_that_a_file_says_steers_the_terminal(empty: Path, run: Run) -> None:
    evil = "\x1b[31m\x07\u202e"
    write(
        empty / "agents",
        {
            f"{evil}.md": "---\nmodel: x\n---\n",
            f"{evil}/a.md": '---\nname: x\ndescription: "\\e[31m\\u202E\\nforged line"\nmodel: "\\e[2J"\n---\n',
            f"{evil}/b.md": "---\nname: x\n---\n",
            "c.md": '---\nname: "a\\e[31m"\n---\n',
            "d.md": f"---\nname: d\ndescription: a: {evil[-1]}\n---\n",
            "roles.yaml": '"\\e[31m": {primary: "\\e[2J"}\n',
        },
    )
    write(empty, {"plan.md": f"@o:agent://{evil}x\n"})
    for command in (["list"], ["check"], ["check", "--fix"], ["stats"], ["search", "x"], ["lint", "plan.md"]):
        ran = run("catalog", *command)
        for line in (ran.stdout + ran.stderr).split("\n"):
            assert line.isprintable(), line
            assert not line.startswith("forged")


def test_an_index_of_agents_that_cannot_be_kept_is_no_reason_to_stop(
    agents: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(agents / "README.md"))

    assert len(document(run("catalog", "list", "--json"))) == 4


def test_the_index_of_a_project_that_was_copied_is_another_one(agents: Path, run: Run, tmp_path: Path) -> None:
    shutil.copytree(agents, tmp_path / "copy")
    run("catalog", "list")
    (tmp_path / "copy" / "architect.md").unlink()

    assert len(document(run("catalog", "list", "--json", "--root", str(tmp_path / "copy")))) == 3
    assert len(document(run("catalog", "list", "--json"))) == 4


def test_as_a_process_it_takes_names_of_any_bytes(agents: Path) -> None:
    try:
        (agents / "\udcff.md").touch()
    except OSError:
        pytest.skip("this disk takes no such names")
    for command in (["check"], ["check", "--json"], ["show", "\udcff"]):
        ran = agent_process("catalog", *command)
        assert (ran.returncode, "Traceback" in ran.stderr) == (1, False)
