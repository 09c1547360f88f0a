"""Agent files move out of folders that a client loads whole into a served catalog."""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import contents
from tests.conftest import Run

REVIEWER = "---\nname: reviewer\ndescription: Reviews\n---\nHands over to @writer, and to the writer agent.\n"
WRITER = "---\nname: writer\ndescription: Writes\n---\nWrites.\n"
CLAUDE = "Ask @reviewer or @agent-writer. In code: `@reviewer`.\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two agents of a client and a text that mentions them."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    project = tmp_path / "project"
    (project / ".claude" / "agents" / "team").mkdir(parents=True)
    (project / ".claude" / "agents" / "reviewer.md").write_text(REVIEWER)
    (project / ".claude" / "agents" / "team" / "writer.md").write_text(WRITER)
    (project / ".claude" / "agents" / "README.md").write_text("No agent.\n")
    (project / "CLAUDE.md").write_text(CLAUDE)
    monkeypatch.chdir(project)
    return project


def test_agents_move_into_the_served_catalog_with_their_mentions(folder: Path, run: Run) -> None:
    moved = run("adopt", "--agents")

    assert moved.code == 0, str(moved)
    served = "@agent-resolver:agent://"
    assert (folder / "agents" / "reviewer.md").read_text() == REVIEWER.replace("@writer", f"{served}writer")
    assert (folder / "agents" / "team" / "writer.md").read_text() == WRITER
    expected = f"Ask {served}reviewer or {served}writer. In code: `@reviewer`.\n"
    assert (folder / "CLAUDE.md").read_text() == expected
    assert not (folder / ".claude" / "agents" / "reviewer.md").exists()
    assert (folder / ".claude" / "agents" / "README.md").exists()
    assert "README.md stays" in moved.stdout
    assert "left as it is: @reviewer (CLAUDE.md:1:" in moved.stdout
    assert "left as it is: the writer agent (agents/reviewer.md:5:" in moved.stdout
    names = [agent["name"] for agent in json.loads(run("catalog", "list", "--json").stdout)]
    assert names == ["reviewer", "writer"]
    assert run("catalog", "lint", "CLAUDE.md", "agents/reviewer.md").code == 0


def test_a_dry_run_shows_a_diff_and_moves_nothing(folder: Path, run: Run) -> None:
    before = contents(folder)

    shown = run("adopt", "--agents", "--dry-run")

    assert shown.code == 0
    assert "-Ask @reviewer or @agent-writer." in shown.stdout
    assert "+++ agents/reviewer.md" in shown.stdout
    assert "--- .claude/agents/reviewer.md" in shown.stdout
    assert contents(folder) == before


def test_the_commands_that_undo_it_restore_every_byte(folder: Path, run: Run) -> None:
    before = contents(folder)

    moved = json.loads(run("adopt", "--agents", "--json").stdout)
    for command in moved["undo"]:
        subprocess.run(shlex.split(command), check=True)

    assert contents(folder) == before


def test_moving_again_changes_nothing(folder: Path, run: Run) -> None:
    assert run("adopt", "--agents").code == 0
    before = contents(folder)

    again = run("adopt", "--agents")

    assert (again.code, "Nothing to move" in again.stdout) == (0, True)
    assert contents(folder) == before


@pytest.mark.parametrize("path", ["agents/reviewer.md", "CLAUDE.md.before-agent-resolver"])
def test_a_file_in_the_way_stops_all_of_it(folder: Path, run: Run, path: str) -> None:
    (folder / path).parent.mkdir(exist_ok=True)
    (folder / path).write_text("mine")
    before = contents(folder)

    refused = run("adopt", "--agents")

    assert (refused.code, f"✗ {path} is there already" in refused.stderr) == (1, True)
    assert contents(folder) == before


def test_two_agents_that_would_share_a_file_are_refused(folder: Path, run: Run) -> None:
    (folder / ".github" / "agents").mkdir(parents=True)
    (folder / ".github" / "agents" / "reviewer.md").write_text(REVIEWER)
    before = contents(folder)

    assert run("adopt", "--agents").code == 1
    assert contents(folder) == before
    assert run("adopt", "--agents", ".github/agents").code == 0


def test_the_catalog_of_the_settings_learns_of_the_folder(folder: Path, run: Run) -> None:
    (folder / "agent.toml").write_text('# Mine.\n[catalog]\nroots = ["shared"] # Stays.\n')
    (folder / "shared").mkdir()

    assert run("adopt", "--agents").code == 0

    assert (folder / "agent.toml").read_text() == '# Mine.\n[catalog]\nroots = ["shared", "agents"] # Stays.\n'
    names = [agent["name"] for agent in json.loads(run("catalog", "list", "--json").stdout)]
    assert names == ["reviewer", "writer"]


@pytest.mark.parametrize("settings", ['[catalog]\nroots = ["shared"]\n', None])
def test_undoing_it_restores_the_settings_too(folder: Path, run: Run, settings: str | None) -> None:
    (folder / "shared").mkdir()
    more = []
    if settings is None:
        more = ["--config", 'catalog.roots=["shared"]']
    else:
        (folder / "agent.toml").write_text(settings)
    before = contents(folder)

    moved = json.loads(run("adopt", "--agents", "--json", *more).stdout)
    assert "agents" in (folder / "agent.toml").read_text()
    for command in moved["undo"]:
        subprocess.run(shlex.split(command), check=True)

    assert contents(folder) == before


def test_a_root_of_the_catalog_that_is_empty_now_is_dropped(folder: Path, run: Run) -> None:
    (folder / ".claude" / "agents" / "README.md").unlink()
    (folder / "agent.toml").write_text('[catalog]\nroots = ["agents", ".claude/agents"] # Mine.\n')
    (folder / "agents").mkdir()

    assert run("adopt", "--agents").code == 0

    assert (folder / "agent.toml").read_text() == '[catalog]\nroots = ["agents"] # Mine.\n'
    # Git keeps no empty folder, so a clone of the project does not have it.
    shutil.rmtree(folder / ".claude")
    assert run("catalog", "list").code == 0


def test_a_root_of_the_catalog_with_other_files_stays(folder: Path, run: Run) -> None:
    (folder / "agent.toml").write_text('[catalog]\nroots = [".claude/agents"]\n')

    assert run("adopt", "--agents").code == 0

    assert (folder / "agent.toml").read_text() == '[catalog]\nroots = [".claude/agents", "agents"]\n'


def test_a_dry_run_shows_only_the_lines_that_change(folder: Path, run: Run) -> None:
    secret = "---\nname: reviewer\nmcpServers: {x: {command: y, env: {KEY: s3cret}}}\n---\nAsk @writer.\n"
    (folder / ".claude" / "agents" / "reviewer.md").write_text(secret)
    (folder / "agent.toml").write_text('[state]\nurl = "postgres://u:s3cret@h/d"\n[catalog]\nroots = ["x"]\n')
    (folder / "CLAUDE.md").write_text("The password is s3cret.\nAsk @reviewer.\n")

    for options in ([], ["--json"]):
        shown = run("adopt", "--agents", "--dry-run", *options)
        assert shown.code == 0, str(shown)
        assert "-Ask @writer." in shown.stdout
        assert "s3cret" not in shown.stdout + shown.stderr


def test_links_are_neither_moved_nor_followed(folder: Path, tmp_path: Path, run: Run) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text(WRITER)
    (folder / ".claude" / "agents" / "linked.md").symlink_to(outside / "secret.md")
    (folder / ".github").mkdir()
    (folder / ".github" / "agents").symlink_to(outside)
    (folder / "AGENTS.md").symlink_to(outside / "secret.md")

    assert run("adopt", "--agents").code == 0

    assert (outside / "secret.md").read_text() == WRITER
    assert sorted(path.name for path in (folder / "agents").rglob("*.md")) == ["reviewer.md", "writer.md"]


@pytest.mark.parametrize("named", [".", "agents", "agents/below"])
def test_the_served_folder_is_not_moved_into_itself(folder: Path, run: Run, named: str) -> None:
    (folder / "agents" / "below").mkdir(parents=True)

    assert run("adopt", "--agents", named).code == 1


def test_options_for_servers_have_no_place_beside_agents(folder: Path, run: Run) -> None:
    assert run("adopt", "--client", "vscode", "--agents").code == 2
    assert run("adopt", "--agents", "no-such-folder").code == 2
    assert (folder / ".claude" / "agents" / "reviewer.md").exists()


@pytest.mark.parametrize("linked", ["agents", ".claude/agents"])
def test_a_folder_that_is_a_link_leads_no_agent_out_of_the_project(
    folder: Path, tmp_path: Path, run: Run, linked: str
) -> None:
    outside = tmp_path / "outside"
    if linked == "agents":
        outside.mkdir()
    else:
        (folder / ".claude").rename(outside)
    (folder / linked.partition("/")[0]).symlink_to(outside)
    before = contents(tmp_path)

    refused = run("adopt", "--agents", linked if linked != "agents" else ".claude/agents")

    assert (refused.code, "a link leads out of the project" in refused.stderr) == (1, True), str(refused)
    assert contents(tmp_path) == before


def test_a_text_behind_a_linked_folder_is_left_alone(folder: Path, tmp_path: Path, run: Run) -> None:
    home = tmp_path / "home"
    (folder / ".claude" / "agents").rename(folder / "mine")
    (folder / ".claude").rmdir()
    home.mkdir()
    (home / "CLAUDE.md").write_text(CLAUDE)
    (folder / ".claude").symlink_to(home)

    assert run("adopt", "--agents", "mine").code == 0

    assert contents(home) == {"CLAUDE.md": CLAUDE.encode()}


@pytest.mark.parametrize("place", ["link", "above"])
def test_settings_outside_of_the_folder_are_not_edited(folder: Path, tmp_path: Path, run: Run, place: str) -> None:
    settings = tmp_path / ("agent.toml" if place == "above" else "victim.toml")
    settings.write_text('[catalog]\nroots = ["shared"]\n')
    if place == "link":
        (folder / "agent.toml").symlink_to(settings)
    before = contents(tmp_path)

    refused = run("adopt", "--agents")

    said = "a link leads out of the project" if place == "link" else "`../agent.toml` is not in this folder"
    assert (refused.code, said in refused.stderr) == (1, True), str(refused)
    assert contents(tmp_path) == before


def test_every_rewritten_file_is_named(folder: Path, run: Run) -> None:
    (folder / "agent.toml").write_text('[catalog]\nroots = ["shared"]\n')

    moved = run("adopt", "--agents")

    assert "✓ Changed agent.toml\n" in moved.stdout
    assert "✓ Changed CLAUDE.md\n" in moved.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("path", [".claude/agents/reviewer.md", ".claude/agents/team", "CLAUDE.md", "agents"])
def test_files_of_another_user_are_not_taken_over(folder: Path, run: Run, path: str) -> None:
    (folder / "agents").mkdir()
    os.chown(folder / path, 12345, 12345)
    before = contents(folder)

    refused = run("adopt", "--agents")

    assert (refused.code, "belongs to the user" in refused.stderr) == (1, True), str(refused)
    assert contents(folder) == before
