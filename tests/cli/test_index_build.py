"""`agent index build`, and what commands say of a compiled index that is old."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Run

OTHER = {
    "id": "zeta",
    "version": "1.0.0",
    "endpoint": "https://zeta.example",
    "categories": ["reporting"],
    "scopes": ["read:reports"],
    "data": {"residency": ["any"], "maxSensitivity": "pii.high"},
    "trust": {"signed": True, "publisher": "Zeta"},
}


def test_a_build_says_what_it_wrote(project: Path, run: Run) -> None:
    ran = run("index", "build", "--json")
    document = json.loads(ran.stdout)

    assert ran.code == 0
    assert document["path"] == "./mcp.index.db"
    assert document["sources"][0]["path"] == "mcp.index.json"
    assert (project / "mcp.index.db").stat().st_size == document["bytes"]


def test_building_again_changes_no_byte(project: Path, run: Run) -> None:
    run("index", "build")
    before = (project / "mcp.index.db").read_bytes()
    run("index", "build")

    assert (project / "mcp.index.db").read_bytes() == before


def test_several_indexes_are_compiled_together(project: Path, run: Run) -> None:
    (project / "more").mkdir()
    (project / "more" / "other.json").write_text(json.dumps([OTHER]))
    built = run("index", "build", "mcp.index.json", "more/other.json", "-o", "all.db")
    shown = run("index", "show", "zeta", "--index", "all.db")

    assert built.code == 0, built
    assert "more/other.json:1:" in shown.stdout


def test_a_server_of_two_indexes_is_refused(project: Path, run: Run) -> None:
    (project / "copy.json").write_bytes((project / "mcp.index.json").read_bytes())
    ran = run("index", "build", "mcp.index.json", "copy.json", "-o", "all.db")

    assert ran.code == 1
    assert "is in `mcp.index.json` and in `copy.json`" in ran.stderr
    assert not (project / "all.db").exists()


@pytest.mark.parametrize(
    ("content", "says"), [(b"[{}]", "validation failed"), (b"", "validation failed"), (b"SQLite format 3\0", "already")]
)
def test_a_source_that_is_not_a_json_index_is_refused(project: Path, run: Run, content: bytes, says: str) -> None:
    (project / "bad.json").write_bytes(content)
    ran = run("index", "build", "bad.json", "-o", "out.db")

    assert ran.code == 1
    assert says in ran.stderr
    assert not (project / "out.db").exists()


def test_no_other_file_is_overwritten(project: Path, run: Run) -> None:
    (project / "notes.db").write_text("mine")

    assert run("index", "build", "-o", "notes.db").code == 1
    assert run("index", "build", "-o", "mcp.index.json").code == 2
    assert (project / "notes.db").read_text() == "mine"


# No second truth ------------------------------------------------------------------------------------------------------


def change_source(project: Path) -> None:
    index = json.loads((project / "mcp.index.json").read_text())
    (project / "mcp.index.json").write_text(json.dumps([*index, OTHER]))


def change_overlay(project: Path) -> None:
    (project / "mcp.overlay.yaml").write_text("servers: {}\n")


@pytest.mark.parametrize("change", [change_source, change_overlay])
@pytest.mark.parametrize("mode", ["--check", "--locked"])
def test_a_changed_source_is_reported_and_fails_a_check(project: Path, run: Run, change: object, mode: str) -> None:
    run("index", "build")
    run("resolve", "--index", "mcp.index.db")
    assert run("resolve", "--index", "mcp.index.db", mode).code == 0
    assert callable(change)
    change(project)

    plain, checked = run("resolve", "--index", "mcp.index.db"), run("resolve", "--index", "mcp.index.db", mode)

    assert (plain.code, checked.code) == (0, 1)
    for ran in (plain, checked):
        assert "is not what `mcp.index.db` was built from" in ran.stderr
        assert "agent index build" in ran.stderr


def test_a_changed_source_is_in_the_json_and_refused_by_strict(project: Path, run: Run) -> None:
    run("index", "build")
    change_source(project)
    checked = json.loads(run("resolve", "--index", "mcp.index.db", "--check", "--json").stdout)

    assert checked["success"] is False
    assert [issue["code"] for issue in checked["warnings"]] == ["source-changed"]
    assert run("resolve", "--index", "mcp.index.db", "--strict").code == 1


def test_a_workspace_with_a_changed_source_fails_a_check(project: Path, run: Run) -> None:
    run("index", "build")
    run("resolve", "--workspace", "--index", "mcp.index.db")
    assert run("resolve", "--workspace", "--check", "--index", "mcp.index.db").code == 0
    change_source(project)

    assert run("resolve", "--workspace", "--index", "mcp.index.db").code == 0
    assert run("resolve", "--workspace", "--check", "--index", "mcp.index.db").code == 1


def test_a_link_to_a_compiled_index_has_the_sources_of_the_file(project: Path, run: Run) -> None:
    """They lie beside the file, and what lies beside the link says nothing about it."""
    shared = project / "shared"
    shared.mkdir()
    (project / "mcp.index.json").rename(shared / "mcp.index.json")
    run("index", "build", "shared/mcp.index.json")
    (project / "mcp.index.json").write_text("[]")
    (project / "mcp.index.db").symlink_to("shared/mcp.index.db")
    assert run("discover", "--index", "mcp.index.db").stderr == ""
    assert "shared/mcp.index.json:" in run("index", "show", "acme-reporting", "--index", "mcp.index.db").stdout
    change_source(shared)

    assert run("resolve", "--index", "mcp.index.db", "--check").code == 1
    assert "was built from" in run("discover", "--index", "mcp.index.db").stderr


@pytest.mark.parametrize("linked", ["output", "source"])
def test_a_build_through_a_linked_folder_finds_its_sources_again(project: Path, run: Run, linked: str) -> None:
    deep = project / "some" / "where"
    deep.mkdir(parents=True)
    (project / "link").symlink_to(deep)
    source, output = "mcp.index.json", "link/mcp.index.db"
    if linked == "source":
        (project / source).rename(deep / source)
        source, output = f"link/{source}", "mcp.index.db"
    run("index", "build", source, "-o", output)
    assert run("discover", "--index", output).stderr == ""
    change_source(project if linked == "output" else deep)

    assert "was built from" in run("discover", "--index", output).stderr


def test_a_build_keeps_a_link_and_the_permissions_of_the_file(project: Path, run: Run) -> None:
    run("index", "build", "-o", "real.db")
    (project / "real.db").chmod(0o600)
    (project / "link.db").symlink_to("real.db")
    change_source(project)
    before = (project / "real.db").read_bytes()
    assert run("index", "build", "-o", "link.db").code == 0

    assert (project / "link.db").is_symlink()
    assert (project / "real.db").read_bytes() != before
    assert (project / "real.db").stat().st_mode & 0o777 == 0o600


BUILDING = """\
import os, signal, sys
from agent_resolver.cli import main
if sys.argv[1] == "killed":
    os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
sys.exit(main(["index", "build"]))
"""


def test_a_build_that_is_killed_leaves_the_index_that_was_there(project: Path, run: Run) -> None:
    run("index", "build")
    before = (project / "mcp.index.db").read_bytes()
    change_source(project)
    killed = subprocess.run([sys.executable, "-c", BUILDING, "killed"], cwd=project, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (project / "mcp.index.db").read_bytes() == before
    assert len(list(project.glob(".mcp.index.db.*"))) == 1

    run("index", "build")
    assert run("discover", "--index", "mcp.index.db").stderr == ""
    assert not list(project.glob(".mcp.index.db.*"))


def test_several_builds_at_once_leave_one_whole_index(project: Path, run: Run) -> None:
    builds = [subprocess.Popen([sys.executable, "-c", BUILDING, "whole"], cwd=project) for _ in range(3)]
    assert [each.wait() for each in builds] == [0, 0, 0]

    assert run("validate", "--index", "mcp.index.db").code == 0
    assert sorted(each.name for each in project.iterdir()) == ["agents.md", "mcp.index.db", "mcp.index.json"]


def test_a_compiled_index_alone_is_enough(project: Path, run: Run) -> None:
    run("index", "build")
    (project / "mcp.index.json").unlink()
    ran = run("resolve", "--index", "mcp.index.db", "--check", "--json")

    assert json.loads(ran.stdout)["warnings"] == []


@pytest.mark.parametrize("has_overlay", [True, False], ids=["changed", "new"])
def test_an_overlay_that_is_shipped_without_the_json_is_compared_too(
    project: Path, run: Run, *, has_overlay: bool
) -> None:
    if has_overlay:
        change_overlay(project)
    run("index", "build")
    (project / "mcp.index.json").unlink()
    assert run("discover", "--index", "mcp.index.db").stderr == ""
    (project / "mcp.overlay.yaml").write_text('servers: {"*": {trust: {signed: true}}}\n')

    assert (
        "`mcp.overlay.yaml` is not what `mcp.index.db` was built from"
        in run("discover", "--index", "mcp.index.db").stderr
    )


def test_each_of_several_indexes_keeps_its_own_overlay(project: Path, run: Run) -> None:
    for name, level in (("one", "public"), ("two", "pii.high")):
        (project / name).mkdir()
        server = {key: value for key, value in OTHER.items() if key not in {"data", "trust"}}
        (project / name / "servers.json").write_text(json.dumps([{**server, "id": name}]))
        (project / name / "mcp.overlay.yaml").write_text(f'servers: {{"*": {{data: {{maxSensitivity: {level}}}}}}}\n')
    (project / "mcp.overlay.yaml").unlink(missing_ok=True)
    assert run("index", "build", "one/servers.json", "two/servers.json", "-o", "all.db").code == 0

    assert run("validate", "--index", "all.db").code == 0
    for name, level in (("one", "public"), ("two", "pii.high")):
        shown = run("index", "show", name, "--index", "all.db").stdout
        assert level in shown
        assert f"{name}/mcp.overlay.yaml:" in shown
        assert f"{name}/servers.json:1:" in shown


def test_a_damaged_index_is_an_error_with_the_way_out(project: Path, run: Run) -> None:
    run("index", "build")
    content = (project / "mcp.index.db").read_bytes()
    (project / "mcp.index.db").write_bytes(content[: len(content) // 2])
    ran = run("resolve", "--index", "mcp.index.db")

    assert ran.code == 1
    assert "damaged" in ran.stderr
    assert "agent index build" in ran.stderr
    assert not (project / "agents.lock").exists()


def test_what_changes_an_index_asks_for_its_source(project: Path, run: Run) -> None:
    run("index", "build")
    ran = run("index", "probe", "--all", "--trust", "--index", "mcp.index.db")

    assert ran.code == 1
    assert "name that with `--index`" in ran.stderr


CLIENT = {"mcpServers": {"zeta": {"url": "https://zeta.example/mcp"}}}


@pytest.mark.parametrize(
    ("command", "way_out"),
    [
        (("index", "import", ".mcp.json"), "name that with `--output`"),
        (("adopt", ".mcp.json"), "give the JSON index this name"),
        (("init", "--yes"), "give the JSON index this name"),
        (("index", "build", "-o", "other.db"), "name the JSON indexes that it was built from"),
    ],
)
def test_what_works_on_the_json_says_so_of_a_compiled_file_of_its_name(
    project: Path, run: Run, command: tuple[str, ...], way_out: str
) -> None:
    """The form is told by the content, and never by the name."""
    run("index", "build")
    (project / "mcp.index.db").rename(project / "mcp.index.json")
    (project / ".mcp.json").write_text(json.dumps(CLIENT))
    (project / "agents.md").unlink()
    before = (project / "mcp.index.json").read_bytes()

    ran = run(*command)

    assert ran.code == 1, ran
    assert "compiled" in ran.stderr, ran
    assert way_out in ran.stderr, ran
    assert (project / "mcp.index.json").read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"SQLite format 3\0" + bytes(40_000)])
def test_a_file_that_holds_nothing_is_an_error(project: Path, run: Run, content: bytes) -> None:
    (project / "mcp.index.db").write_bytes(content)
    ran = run("resolve", "--index", "mcp.index.db")

    assert ran.code == 1
    assert "mcp.index.db" in ran.stderr
    assert not (project / "agents.lock").exists()


def test_an_index_on_a_read_only_medium_is_read(project: Path, run: Run) -> None:
    """No file is made beside it, and none is needed."""
    medium = project / "medium"
    medium.mkdir()
    run("index", "build", "-o", "medium/mcp.index.db")
    (medium / "mcp.index.db").chmod(0o400)
    medium.chmod(0o500)
    ran = run("resolve", "--index", "medium/mcp.index.db")
    found = [each.name for each in medium.iterdir()]
    medium.chmod(0o700)

    assert ran.code == 0, ran
    assert found == ["mcp.index.db"]


def test_validate_reads_all_of_a_compiled_index(project: Path, run: Run) -> None:
    run("index", "build")
    assert run("validate", "--index", "mcp.index.db").code == 0
    content = bytearray((project / "mcp.index.db").read_bytes())
    content[content.index(b"acme-reporting")] ^= 1
    (project / "mcp.index.db").write_bytes(content)

    ran = run("validate", "--index", "mcp.index.db")

    assert ran.code == 1
    assert "damaged" in ran.stderr


def test_a_session_verifies_its_lock_against_a_compiled_index(project: Path, run: Run) -> None:
    run("index", "build")
    run("resolve", "--index", "mcp.index.db")

    assert run("export", "--format", "cyclonedx", "--index", "mcp.index.db").code == 0
    assert run("resolve", "--workspace", "--index", "mcp.index.db").code == 0
    assert run("catalog", "list", "--index", "mcp.index.db").code == 0
