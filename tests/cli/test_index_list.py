"""`agent index list`, `search` and `show`: what an index has, and where each fact comes from."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Snapshot
from tests.conftest import Run

INDEX: list[dict[str, Any]] = [
    {
        "id": "acme-files",
        "version": "1.0.0",
        "endpoint": "https://files.example",
        "categories": ["files"],
        "scopes": ["read"],
        "data": {"residency": ["eu-only"], "maxSensitivity": "internal"},
        "trust": {"signed": True, "publisher": "Acme"},
    },
    {
        "id": "acme-issues",
        "name": "@acme/issues",
        "description": "Tracks issues of a team",
        "categories": ["issues", "project-management"],
        "launch": {"command": "npx", "args": ["-y", "@acme/issues", "--token", "hunter2"], "env": ["TOKEN"]},
        "status": "deprecated",
        "source": "official-registry",
        "toolScopes": {"open": ["read:issues"]},
        "drafted": ["open"],
        "tools": {"open": "sha256-0"},
    },
    {"id": "bare", "version": "2.0", "endpoint": "https://bare.example", "categories": [], "source": "mcpm"},
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an index and an overlay, as the current one."""
    (tmp_path / "mcp.index.json").write_text(json.dumps(INDEX, indent=2))
    (tmp_path / "mcp.overlay.yaml").write_text("servers:\n  acme-*:\n    data: {maxSensitivity: public}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_index_list(folder: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("index", "list"))


def test_index_show(folder: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("index", "show", "acme-issues"))


def test_index_show_as_json(folder: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("index", "show", "acme-files@1.0.0", "--json"))


def test_index_search(folder: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("index", "search", "issues", "team"))


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ((), ["acme-files", "acme-issues", "bare"]),
        (("--category", "files"), ["acme-files"]),
        (("--status", "deprecated"), ["acme-issues"]),
        (("--source", "mcpm"), ["bare"]),
        (("--source", "hand-written"), ["acme-files"]),
        (("--missing", "residency"), ["acme-issues", "bare"]),
        (("--missing", "sensitivity"), ["bare"]),
        (("--missing", "version"), ["acme-issues"]),
        (("--missing", "categories"), ["bare"]),
        (("--missing", "tool-scopes"), ["acme-files", "bare"]),
        (("--missing", "tools"), ["acme-files", "bare"]),
        (("--status", "active", "--missing", "scopes"), ["bare"]),
    ],
)
def test_filters_leave_the_servers_that_fit(folder: Path, run: Run, filters: tuple[str, ...], found: list[str]) -> None:
    answer = json.loads(run("index", "list", *filters, "--json").stdout)

    assert [server["id"] for server in answer["servers"]] == found
    assert (answer["total"], answer["of"]) == (len(found), 3)


def test_a_long_list_is_cut_unless_all_is_asked_for(folder: Path, run: Run) -> None:
    servers = [{**INDEX[2], "id": f"s{number:03}", "categories": ["many"]} for number in range(60)]
    (folder / "mcp.index.json").write_text(json.dumps(servers))

    short, whole = run("index", "list"), run("index", "list", "--all")

    assert len(short.stdout.splitlines()) == 51
    assert "60 of 60 servers, the first 50 shown" in short.stdout
    assert "many 60" in short.stderr
    assert len(whole.stdout.splitlines()) == 61
    assert "agent index list" in run("discover").stderr


def test_a_name_of_the_source_shows_the_server(folder: Path, run: Run) -> None:
    assert run("index", "show", "@acme/issues").stdout.startswith("acme-issues@unversioned\n")


def test_a_filter_that_fits_nothing_says_which_word_was_meant(folder: Path, run: Run) -> None:
    assert "`issues`" in run("index", "list", "--category", "isues").stderr
    assert "there are: hand-written, mcpm, official-registry" in run("index", "list", "--source", "official").stderr
    assert run("index", "list", "--category", "files", "--source", "mcpm").stderr == ""


def test_a_secret_of_a_hand_written_command_is_not_shown(folder: Path, run: Run) -> None:
    for options in ((), ("--json",)):
        assert "hunter2" not in run("index", "show", "acme-issues", *options).stdout


def test_a_secret_of_a_hand_written_address_is_not_shown(folder: Path, run: Run) -> None:
    entry = {"id": "mail", "endpoint": "https://mail.example/mcp?api_key=hunter2", "categories": ["mail"]}
    (folder / "mcp.index.json").write_text(json.dumps([entry]))

    for options in ((), ("--json",)):
        assert "hunter2" not in run("index", "show", "mail", *options).stdout


def test_an_unknown_server_gets_the_nearest_name(folder: Path, run: Run) -> None:
    ran = run("index", "show", "acme-fils")

    assert ran.code == 1
    assert "`acme-files`" in ran.stderr


def test_words_that_occur_nowhere_are_a_no(folder: Path, run: Run) -> None:
    assert run("index", "search", "zeppelin").code == 1
    assert json.loads(run("index", "search", "zeppelin", "--json").stdout)["success"] is False


@pytest.mark.parametrize("command", [("list",), ("show", "x"), ("search", "x"), ("coverage",)])
def test_a_broken_index_or_overlay_is_refused(folder: Path, run: Run, command: tuple[str, ...]) -> None:
    (folder / "mcp.overlay.yaml").write_text("serverz: {}\n")
    assert run("index", *command).code == 1
    (folder / "mcp.index.json").write_text("{")
    assert run("index", *command).code == 1
    (folder / "mcp.index.json").unlink()
    assert run("index", *command).code == 2
