"""`agent why`: which server was chosen, what speaks against the others, and where each fact stands."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Snapshot, agent_process, contents, edit
from tests.conftest import Run

RIVALS: list[dict[str, Any]] = [
    {"id": "zeta", "version": "1.0.0"},
    {"id": "unsigned", "version": "1.0.0", "trust": {"signed": False, "publisher": "Nobody"}},
    {"id": "abroad", "version": "1.0.0", "data": {"residency": ["eu-only"], "maxSensitivity": "public"}},
    {"id": "reader", "version": "1.0.0", "scopes": ["read:reports"]},
]


@pytest.fixture
def contested(project: Path) -> Path:
    """The quick-start project, where several servers offer reports and one of them is chosen."""
    index = json.loads((project / "mcp.index.json").read_bytes())
    rivals = [{**index[1], "endpoint": f"https://{rival['id']}.example", **rival} for rival in RIVALS]
    (project / "mcp.index.json").write_text(json.dumps([*index, *rivals], indent=2))
    edit(project / "agents.md", "  data:\n", "  trust:\n    requireSigned: true\n  data:\n")
    return project


def test_why_of_a_category(contested: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("why", "reporting"))


def test_why_of_a_category_as_json(project: Path, run: Run, snapshot: Snapshot) -> None:
    edit(project / "agents.md", "residency: us-only", "residency: eu-only")
    snapshot(run("why", "reporting", "--json"))


def test_why_of_a_server(contested: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("why", "acme-reporting"))


def test_why_of_a_category_that_fails(contested: Path, run: Run, snapshot: Snapshot) -> None:
    edit(contested / "agents.md", "- write:reports", "- delete:reports")
    edit(contested / "agents.md", "  data:\n", "  actions:\n    forbid: ['delete:*']\n  data:\n")
    snapshot(run("why", "reporting"))


def test_why_of_a_category_that_nobody_offers(project: Path, run: Run, snapshot: Snapshot) -> None:
    edit(project / "agents.md", "category: reporting", "category: reports")
    snapshot(run("why", "reports"))


def test_a_category_that_fails_is_told_where_every_server_offers_it(project: Path, run: Run) -> None:
    index = json.loads((project / "mcp.index.json").read_bytes())
    (project / "mcp.index.json").write_text(json.dumps(index[1:]))
    edit(project / "agents.md", "residency: us-only", "residency: eu-only")

    assert "✗ No server serves `reporting`\n" in run("why", "reporting").stderr


def test_why_shows_how_to_use_it(run: Run) -> None:
    ran = run("why", "--help")

    assert (ran.code, ran.stderr) == (0, "")
    assert "examples:\n  agent why reporting " in ran.stdout


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("reportin", "did you mean `reporting`?"),
        ("crm", "`agent discover` lists both"),
        ("", "`agent discover` lists both"),
        ("\x1b[31mred", "`agent discover` lists both"),
    ],
)
def test_a_word_that_nobody_knows_is_refused(project: Path, run: Run, word: str, hint: str) -> None:
    ran, as_json = run("why", word), run("why", word, "--json")

    shown = word.replace("\x1b", "\\x1b")
    assert (ran.code, ran.stdout) == (1, "")
    assert ran.stderr == (
        f"error: `{shown}` is neither a category that the agent file requires nor a server of the index\nhint: {hint}\n"
    )
    assert (as_json.code, as_json.stderr) == (1, "")
    assert json.loads(as_json.stdout)["success"] is False


def test_a_version_that_there_is_not_is_answered_with_those_that_there_are(project: Path, run: Run) -> None:
    index = json.loads((project / "mcp.index.json").read_bytes())
    (project / "mcp.index.json").write_text(json.dumps([{**index[1], "version": "3.1.0"}, *index]))

    ran = run("why", "acme-reporting@9.9.9")

    assert (ran.code, ran.stdout) == (1, "")
    assert ran.stderr == (
        "error: The index does not have `acme-reporting@9.9.9`\n"
        "hint: it has `acme-reporting@3.0.0`, `acme-reporting@3.1.0`\n"
    )


def test_a_server_is_held_against_what_it_offers_alone(contested: Path, run: Run) -> None:
    needs = json.loads(run("why", "zeta", "--json").stdout)["requirements"]

    assert [need["category"] for need in needs] == ["reporting"]


def test_a_server_that_offers_nothing_of_it_is_held_against_everything(project: Path, run: Run) -> None:
    edit(project / "agents.md", "category: reporting", "category: analytics")
    edit(project / "agents.md", "- read:reports\n        - write:reports", "- write:metrics")

    needs = json.loads(run("why", "acme-reporting", "--json").stdout)["requirements"]

    assert [need["category"] for need in needs] == ["analytics", "analytics"]
    assert {need["servers"][0]["reasons"][0]["code"] for need in needs} == {"MISSING_CATEGORY"}


def test_a_category_that_is_offered_but_not_required_is_told_apart(project: Path, run: Run) -> None:
    edit(project / "agents.md", "    - category: reporting\n", "    - category: analytics\n")
    edit(project / "agents.md", "        - read:reports\n        - write:reports\n", "        - read:metrics\n")

    assert run("why", "reporting").stderr == (
        "error: The agent file does not require `reporting`, which 1 server of the index offers\n"
        "hint: it requires `analytics`\n"
    )


def test_every_place_is_where_the_value_stands(contested: Path, run: Run) -> None:
    document = json.loads(run("why", "reporting", "--json").stdout)
    [need] = document["requirements"]
    places = [("category", need["at"])]
    places += [(fact["name"], fact["at"]) for fact in need["constraints"]]
    places += [(fact["name"], fact["at"]) for server in need["servers"] for fact in server["facts"]]
    assert len(places) == 1 + 3 + 5 * 8

    for name, at in places:
        path, line, column = at.split(":")
        text = (contested / path).read_text().splitlines()[int(line) - 1][int(column) - 1 :]
        assert re.match(rf'"?{name}"?:', text), (name, at, text)


@pytest.mark.parametrize("write", [json.dumps, lambda index: "\ufeff" + json.dumps(index, indent=1)])
def test_places_are_right_however_the_index_is_written(contested: Path, run: Run, write: Any) -> None:
    index = json.loads((contested / "mcp.index.json").read_bytes())
    index[0]["note"] = 'twice the "id": "zeta" and ünïcödé 🎉'
    (contested / "mcp.index.json").write_text(write(index), encoding="utf-8")

    [need] = json.loads(run("why", "zeta", "--json").stdout)["requirements"]
    path, line, column = need["servers"][0]["facts"][0]["at"].split(":")
    text = (contested / path).read_text(encoding="utf-8-sig").splitlines()[int(line) - 1][int(column) - 1 :]

    assert text.startswith('"id": "zeta"')


def test_a_server_may_be_named_with_its_version(project: Path, run: Run) -> None:
    assert run("why", "acme-reporting@3.0.0").stdout == run("why", "acme-reporting").stdout


def test_the_answer_is_what_resolve_does(contested: Path, run: Run) -> None:
    run("resolve", "--explain")
    explanation = json.loads((contested / "agents.resolution.json").read_bytes())["requirements"][1]
    [need] = json.loads(run("why", "reporting", "--json").stdout)["requirements"]
    chosen, *others = need["servers"]

    assert (chosen["serverId"], chosen["selectionReason"]) == (
        explanation["selected"]["serverId"],
        explanation["selected"]["selectionReason"],
    )
    reasons = {server["serverId"]: server["reason"]["code"] for server in explanation["rejected"]}
    assert {server["serverId"]: server["reasons"][0]["code"] for server in others} == {
        name: code for name, code in reasons.items() if code != "MISSING_CATEGORY"
    }


def test_requirements_that_read_the_same_have_places_of_their_own(project: Path, run: Run) -> None:
    twin = "    - category: reporting\n      permissions: [write:reports, read:reports]\nconstraints:"
    edit(project / "agents.md", "constraints:", twin)

    needs = json.loads(run("why", "reporting", "--json").stdout)["requirements"]

    assert [need["at"] for need in needs] == ["agents.md:10:7", "agents.md:14:7"]


def test_many_servers_are_cut_with_a_word_on_where_the_rest_is(project: Path, run: Run) -> None:
    index = json.loads((project / "mcp.index.json").read_bytes())
    many = [{**index[1], "version": f"{number}.0.0"} for number in range(60)]
    (project / "mcp.index.json").write_text(json.dumps(many))

    ran = run("why", "reporting")

    assert ran.stdout.count(" is not chosen (") == 49
    assert "… and 10 more: `--json` has every one\n" in ran.stdout
    assert len(json.loads(run("why", "reporting", "--json").stdout)["requirements"][0]["servers"]) == 60


def test_a_question_needs_no_lock_and_writes_nothing(project: Path, run: Run) -> None:
    before = contents(project)

    assert run("why", "reporting").code == 0
    assert contents(project) == before


def test_names_and_facts_never_steer_the_terminal(project: Path) -> None:
    edit(project / "mcp.index.json", "Acme Corp", "Acme \\u202eproC")
    edit(project / "mcp.index.json", "acme-analytics", "acme\\u2066analytics")

    done = agent_process("why", "analytics")

    assert done.returncode == 0
    assert "acme\\u2066analytics@2.0.0 is chosen" in done.stdout
    assert "publisher: Acme \\u202eproC (" in done.stdout
    assert not set(done.stdout) & {"\u202e", "\u2066"}
