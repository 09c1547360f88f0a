"""`agent index import`: catalogues and client configurations into an index."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.cli.index.importing import FORMAT_NAMES
from agent_resolver.exchange import FORMATS
from tests.cli.conftest import Snapshot, contents
from tests.conftest import Run

CONFIG: dict[str, Any] = {
    "mcpServers": {
        "files": {"command": "npx", "args": ["-y", "@acme/files@1.0.0", "${FOLDER}"]},
        "@acme/issues": {"command": "uvx", "args": ["acme-issues==2.0"], "env": {"ISSUES_TOKEN": "hunter2"}},
        "mail": {
            "type": "http",
            "url": "https://mail.example/mcp",
            "headers": {"Authorization": "Bearer ${MAIL_TOKEN}", "X-Team": "hunter2"},
        },
        "leaky": {"command": "npx", "args": ["-y", "leaky", "--api-key", "hunter2"]},
    }
}
REGISTRY: dict[str, Any] = {
    "servers": [
        {
            "server": {
                "name": "io.example/weather",
                "description": "Forecasts",
                "version": "1.0.0",
                "packages": [{"registryType": "npm", "identifier": "weather", "version": "1.0.0"}],
            },
            "_meta": {"io.modelcontextprotocol.registry/official": {"status": "deprecated"}},
        }
    ],
    "metadata": {"count": 1},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a client configuration and a saved page of a registry, as the current one."""
    work = tmp_path / "work"
    work.mkdir()
    (work / ".mcp.json").write_text(json.dumps(CONFIG, indent=2))
    (work / "page.json").write_text(json.dumps(REGISTRY))
    monkeypatch.chdir(work)
    return work


def index(folder: Path, name: str = "mcp.index.json") -> dict[str, Any]:
    return {entry["id"]: entry for entry in json.loads((folder / name).read_bytes())}


def test_import_of_a_client_configuration(folder: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("index", "import", ".mcp.json"))


def test_import_as_json(folder: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("index", "import", ".mcp.json", "page.json", "--json"))


def test_the_index_has_every_server_that_could_be_imported(folder: Path, run: Run) -> None:
    assert run("index", "import", ".mcp.json", "page.json").code == 0

    found = index(folder)
    assert list(found) == ["acme-issues", "files", "io.example-weather", "mail"]
    assert found["acme-issues"]["name"] == "@acme/issues"
    assert found["io.example-weather"]["status"] == "deprecated"
    assert run("validate", "-i", "mcp.index.json", "--json").stdout.count("unknown-key") == 0


def test_no_value_of_a_client_configuration_is_written_or_shown(folder: Path, run: Run) -> None:
    for options in ((), ("--json",), ("--all",), ("--strict",), ("--dry-run",)):
        ran = run("index", "import", ".mcp.json", *options)
        assert "hunter2" not in ran.stdout + ran.stderr
    assert b"hunter2" not in (folder / "mcp.index.json").read_bytes()


def test_importing_again_leaves_the_file_untouched(folder: Path, run: Run) -> None:
    run("index", "import", ".")
    before = contents(folder), (folder / "mcp.index.json").stat().st_mtime_ns

    ran = run("index", "import", ".")

    assert (contents(folder), (folder / "mcp.index.json").stat().st_mtime_ns) == before
    assert "says all of this already" in ran.stdout


def test_the_order_of_sources_only_decides_conflicts(folder: Path, run: Run) -> None:
    run("index", "import", ".mcp.json", "page.json", "-o", "one.json")
    run("index", "import", "page.json", ".mcp.json", "-o", "two.json")
    run("index", "import", "page.json", "-o", "three.json")
    run("index", "import", ".mcp.json", "-o", "three.json")

    assert (folder / "one.json").read_bytes() == (folder / "two.json").read_bytes()
    assert (folder / "one.json").read_bytes() == (folder / "three.json").read_bytes()


def test_a_hand_written_entry_wins_and_the_report_names_both(folder: Path, run: Run) -> None:
    mine = {"id": "files", "version": "1.0.0", "endpoint": "https://files.example", "categories": ["files"]}
    (folder / "mcp.index.json").write_text(json.dumps({"servers": [mine]}))

    ran = run("index", "import", ".mcp.json")

    entries = json.loads((folder / "mcp.index.json").read_bytes())["servers"]
    (kept,) = (entry for entry in entries if entry["id"] == "files")
    assert kept["endpoint"] == "https://files.example"
    assert "launch" not in kept
    assert "conflict: files@1.0.0: `reach` is `https://files.example` (the index), and `npx -y" in ran.stdout


def test_a_dry_run_writes_nothing(folder: Path, run: Run) -> None:
    before = contents(folder)

    ran = run("index", "import", ".mcp.json", "--dry-run")

    assert ran.code == 0
    assert "would be written" in ran.stdout
    assert contents(folder) == before


def test_strict_writes_nothing_if_an_entry_is_refused(folder: Path, run: Run) -> None:
    ran = run("index", "import", ".mcp.json", "--strict")

    assert ran.code == 1
    assert not (folder / "mcp.index.json").exists()
    assert run("index", "import", "page.json", "--strict").code == 0


def test_nothing_that_could_be_imported_is_a_no(folder: Path, run: Run) -> None:
    (folder / "empty.json").write_text('{"mcpServers": {}}')

    for name in ("empty.json", "mcp.index.json", "."):
        (folder / ".mcp.json").unlink(missing_ok=True)
        (folder / "page.json").unlink(missing_ok=True)
        (folder / "mcp.index.json").write_text("[]")
        ran = run("index", "import", name)
        assert (ran.code, (folder / "mcp.index.json").read_text()) == (1, "[]")
        assert "No server could be imported" in ran.stderr


def test_an_unknown_format_is_an_error_that_lists_the_formats(folder: Path, run: Run) -> None:
    (folder / "package.json").write_text('{"name": "x"}')

    ran = run("index", "import", "package.json")

    assert ran.code == 1
    for name in ("client-config", "codex", "docker-catalogue", "mcpm", "official-registry", "toolhive", "vscode"):
        assert name in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("absent.json",), "does not exist"),
        (("https://registry.example/v0/servers",), "download it first"),
        ((".mcp.json", "--format", "pdf"), "invalid choice"),
        ((), "required"),
    ],
)
def test_a_wrong_question_is_exit_2(folder: Path, run: Run, arguments: tuple[str, ...], message: str) -> None:
    ran = run("index", "import", *arguments)

    assert ran.code == 2
    assert message in ran.stderr


def test_every_format_can_be_asked_for() -> None:
    """The command names them itself, so that its help does not load them."""
    assert sorted(each.name for each in FORMATS) == list(FORMAT_NAMES)


def test_a_file_that_is_not_an_index_is_not_overwritten(folder: Path, run: Run) -> None:
    (folder / "notes.json").write_text('{"notes": []}')

    ran = run("index", "import", ".mcp.json", "-o", "notes.json")

    assert (ran.code, (folder / "notes.json").read_text()) == (1, '{"notes": []}')


def test_keys_of_a_newer_release_are_not_lost(folder: Path, run: Run) -> None:
    text = '[{"id": "a", "version": "1", "endpoint": "https://a.example", "categories": [], "future": 1}]'
    (folder / "mcp.index.json").write_text(text)

    ran = run("index", "import", ".mcp.json")

    assert (ran.code, (folder / "mcp.index.json").read_text()) == (1, text)
    assert "`0.future`" in ran.stderr


@pytest.mark.parametrize(
    "content",
    [
        '{"mcpServers": {"../../etc/passwd": {"command": "x"}}}',
        '{"mcpServers": {"a\\u001b]0;owned\\u0007": {"command": "x"}}}',
        '{"mcpServers": {"a": {"command": "x", "args": ["\\u001b[2J"]}}}',
        '{"mcpServers": ' + "[" * 500 + "]" * 500 + "}",
        '{"mcpServers": {"a": 5}}',
        '{"mcpServers": {"a": {"command": "x", "env": {"TOKEN=hunter2": "x"}}}}',
        "[" + "{}," * 1_000_000 + "{}]",
    ],
)
def test_a_hostile_source_is_a_no_without_a_trace_of_it(folder: Path, run: Run, content: str) -> None:
    (folder / "hostile.json").write_text(content)

    ran = run("index", "import", "hostile.json")

    assert ran.code == 1
    assert "Traceback" not in ran.stderr
    assert "\x1b" not in ran.stdout + ran.stderr
    assert "hunter2" not in ran.stdout + ran.stderr
    assert not (folder / "mcp.index.json").exists()


def official(**package: object) -> object:
    return {"name": "io.example/evil", "description": "x", "version": "1.0.0", "packages": [package]}


IMAGE_ARGUMENTS = [{"type": "positional", "value": "evil/image:1.0"}]
VOLUME = "--volume=/:/host:rw"


@pytest.mark.parametrize(
    "content",
    [
        official(registryType="oci", identifier=VOLUME, packageArguments=IMAGE_ARGUMENTS),
        official(registryType="oci", identifier="x", registryBaseUrl=VOLUME, packageArguments=IMAGE_ARGUMENTS),
        official(registryType="oci", identifier="a b"),
        official(registryType="npm", identifier="--node-options=--require=/tmp/x", version="1.0.0"),
        official(registryType="pypi", identifier="--index-url=https://evil.example"),
        official(registryType="nuget", identifier="--source"),
        {"name": "evil", "type": "server", "image": VOLUME, "about": {}, "run": {"command": ["evil/image:1.0"]}},
        {"registry": {"evil": {"image": VOLUME, "command": ["--privileged", "evil/image:1.0"]}}},
        {"servers": {"evil": {"image": VOLUME, "transport": "stdio", "tier": "x", "args": ["evil/image:1.0"]}}},
    ],
)
def test_a_package_that_is_an_option_is_refused(folder: Path, run: Run, content: object) -> None:
    (folder / "evil.json").write_text(json.dumps(content))

    ran = run("index", "import", "evil.json")

    assert ran.code == 1
    assert "Not the name of a package or image" in ran.stderr
    assert not (folder / "mcp.index.json").exists()


@pytest.mark.parametrize(
    ("kind", "program", "left"),
    [("npm", "npx", "npx -y w@1.0.0"), ("pypi", "uvx", "uvx w==1.0.0"), ("nuget", "dnx", "dnx w@1.0.0 --yes")],
)
def test_options_of_the_program_that_starts_a_package_are_not_granted(
    folder: Path, run: Run, kind: str, program: str, left: str
) -> None:
    options = [{"type": "named", "name": "--registry", "value": "https://evil.example"}, "--yes"]
    content = official(registryType=kind, identifier="w", version="1.0.0", runtimeArguments=options)
    (folder / "evil.json").write_text(json.dumps(content))

    ran = run("index", "import", "evil.json")

    assert ran.code == 0
    assert f"asks for `{program} --registry https://evil.example`, which the entry leaves out" in ran.stdout
    (entry,) = json.loads((folder / "mcp.index.json").read_text())
    assert " ".join([entry["launch"]["command"], *entry["launch"]["args"]]) == left


@pytest.mark.parametrize(
    "server",
    [
        {"command": "x", "args": ["host=db user=u password=hunter2secret"]},
        {"command": "x", "args": ["Server=db;User Id=u;Password=hunter2secret;"]},
        {"command": "x", "args": ['{"apiKey":"hunter2secret"}']},
        {"command": "x", "args": ["--api-key", "-hunter2secret"]},
        {"command": "x", "args": ["https://[h/mcp?token=hunter2secret"]},
        {"url": "https://hunter2secret@api.example/mcp"},
        {"url": "https://api.example/mcp?key=hunter2secret"},
        {"url": "https://api.example/mcp#access_token=hunter2secret"},
    ],
)
def test_a_secret_in_any_place_is_neither_written_nor_shown(folder: Path, run: Run, server: object) -> None:
    (folder / "leaky.json").write_text(json.dumps({"mcpServers": {"leaky": server, "good": {"command": "y"}}}))

    ran = run("index", "import", "leaky.json")

    assert "looks like a secret" in ran.stdout + ran.stderr
    assert "hunter2secret" not in ran.stdout + ran.stderr + (folder / "mcp.index.json").read_text()


@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_is_refused(folder: Path, run: Run, name: str) -> None:
    (folder / "odd.json").write_text(json.dumps({"mcpServers": {name: {"command": "x"}, "good": {"command": "y"}}}))

    ran = run("index", "import", "odd.json")

    assert "The name is empty" in ran.stderr + ran.stdout
    assert [entry["id"] for entry in json.loads((folder / "mcp.index.json").read_text())] == ["good"]


def test_ids_that_clash_are_reported(folder: Path, run: Run) -> None:
    servers = {"a/b": {"command": "x"}, "@a/b": {"command": "y"}, "a-b": {"command": "z"}}
    (folder / "clash.json").write_text(json.dumps({"mcpServers": servers}))

    ran = run("index", "import", "clash.json")

    found = index(folder)
    assert found["a-b"]["launch"]["command"] == "z"
    assert len(found) == 3
    assert ran.stdout.count("id-clash:") == 2


def test_imported_servers_resolve_once_the_overlay_states_their_facts(folder: Path, run: Run) -> None:
    run("index", "import", ".mcp.json")
    (folder / "agents.md").write_text(
        "---\nname: a\nversion: 1.0.0\nrequires:\n  mcp:\n    - {category: files, permissions: [read]}\n"
        "constraints: {data: {residency: eu-only, sensitivity: internal}}\n---\n"
    )
    assert "SCOPES_UNKNOWN" in run("resolve", "--json").stdout
    line = json.loads(run("index", "coverage", "--json").stdout)["unresolved"][0]["remedies"][0]["overlay"]
    (folder / "mcp.overlay.yaml").write_text(line)

    assert run("resolve").code == 0
    assert run("verify").code == 0


@pytest.mark.parametrize("output", [(), ("-o", "mcp.index.json"), ("-o", "below/new.json")])
def test_no_link_leads_the_index_out_of_the_project(
    folder: Path, tmp_path: Path, run: Run, output: tuple[str, ...]
) -> None:
    (tmp_path / "outside").mkdir()
    (folder / "mcp.index.json").symlink_to(tmp_path / "outside" / "new.json")
    (folder / "below").symlink_to(tmp_path / "outside")

    refused = run("index", "import", ".mcp.json", *output)

    assert (refused.code, "a link leads out of the project" in refused.stderr) == (1, True), str(refused)
    assert contents(tmp_path / "outside") == {}
    named = str(tmp_path / "outside" / "named.json")
    assert run("index", "import", ".mcp.json", "-o", named).code == 0


def write_config(folder: Path, package: str) -> None:
    servers = {"files": {"command": "npx", "args": ["-y", package]}}
    (folder / "one.json").write_text(json.dumps({"mcpServers": servers}))


def test_the_overlay_never_vouches_for_a_package_that_an_import_brings(folder: Path, run: Run) -> None:
    """The overlay says that `files` is signed; the configuration then starts another package under that name."""
    write_config(folder, "@acme/files")
    assert run("index", "import", "one.json").code == 0
    (folder / "mcp.overlay.yaml").write_text("servers: {files: {trust: {signed: true}}}\n")
    write_config(folder, "@evil/files")

    ran = run("index", "import", "one.json")

    assert "conflict: files@unversioned: `reach` is `npx -y @acme/files` (the index)" in ran.stdout
    assert index(folder)["files"]["launch"]["args"] == ["-y", "@acme/files"]


def test_another_server_under_an_id_of_the_overlay_is_a_warning(folder: Path, run: Run) -> None:
    write_config(folder, "@acme/files@1.0.0")
    assert run("index", "import", "one.json").code == 0
    (folder / "mcp.overlay.yaml").write_text("servers: {fi*: {trust: {signed: true}}}\n")
    write_config(folder, "@evil/files@0.0.1")

    ran = run("index", "import", "one.json")
    again = run("index", "import", "one.json", "--json")

    assert (
        "warning: files: `files@0.0.1` is `npm:@evil/files`, and `files@1.0.0` is `npm:@acme/files`: "
        "facts that the overlay states of `files` hold for both"
    ) in ran.stderr
    assert json.loads(again.stdout)["warnings"] == []


def test_an_overlay_with_faults_stops_an_import(folder: Path, run: Run) -> None:
    (folder / "mcp.overlay.yaml").write_text("serverz: {}\n")

    ran = run("index", "import", ".mcp.json")

    assert ran.code == 1
    assert "mcp.overlay.yaml:1:1" in ran.stderr
    assert not (folder / "mcp.index.json").exists()


@pytest.mark.slow
def test_an_import_waits_for_another_command_that_changes_the_index(folder: Path) -> None:
    """Two imports at the same moment would each write an index without the servers of the other."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        command = [sys.executable, "-m", "agent_resolver", "index", "import", ".mcp.json"]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(3)
        meanwhile = {"id": "meanwhile", "endpoint": "https://meanwhile.example", "categories": []}
        (folder / "mcp.index.json").write_text(json.dumps([meanwhile]))
    finally:
        os.close(descriptor)

    assert process.wait(30) == 0
    assert {"meanwhile", "mail"} <= index(folder).keys()
    assert sorted(path.name for path in folder.iterdir()) == [".mcp.json", "mcp.index.json", "page.json"]


def test_large_and_single_numbers_are_written_as_people_write_them(folder: Path, run: Run) -> None:
    servers = {f"s{number}": {"command": "npx", "args": ["-y", f"p{number}"]} for number in range(1_200)}
    (folder / "many.json").write_text(json.dumps({"mcpServers": servers}))
    write_config(folder, "@acme/files")
    assert run("index", "import", "one.json", "many.json").stdout.startswith(
        "1,201 servers read: 1,201 of client-config\n"
    )
    write_config(folder, "@acme/other")

    ran = run("index", "import", "one.json")

    assert "✓ mcp.index.json written: 1,201 servers, 0 new, 1 changed fact, 0 conflicts\n" in ran.stdout
    assert "1,201 of 1,201 servers, the first 50 shown" in run("index", "list").stdout
