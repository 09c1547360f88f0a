"""Where `agent resolve` writes, and what it never touches."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import contents, edit
from tests.conftest import Run

EPOCH = "1970-01-01T00:00:00.000Z"


def resolved_at(path: Path) -> str:
    return str(json.loads(path.read_bytes())["resolvedAt"])


def fail_residency(project: Path) -> None:
    agents = project / "agents.md"
    agents.write_text(agents.read_text().replace("us-only", "eu-only"))


def test_an_agent_file_anywhere_locks_beside_itself(project: Path, run: Run) -> None:
    (project / "team").mkdir()
    (project / "agents.md").rename(project / "team" / "billing.md")

    ran = run("resolve", "-a", "team/billing.md", "--explain")

    assert ran.code == 0
    assert "✓ Wrote team/billing.lock\n✓ Wrote team/billing.resolution.json\n" in ran.stdout
    assert sorted(path.name for path in (project / "team").iterdir()) == [
        "billing.lock",
        "billing.md",
        "billing.resolution.json",
    ]


def test_an_agent_file_without_an_extension_still_gets_its_own_lock(project: Path, run: Run) -> None:
    (project / "agents.md").rename(project / "AGENT")

    assert run("resolve", "-a", "AGENT").code == 0
    assert (project / "AGENT.lock").exists()


def test_explain_output_implies_explain_and_makes_folders(project: Path, run: Run) -> None:
    assert run("resolve", "-o", "locks/a.lock", "--explain-output", "audit/deep/why.json").code == 0
    assert (project / "locks" / "a.lock").exists()
    assert json.loads((project / "audit" / "deep" / "why.json").read_bytes())["success"] is True


def test_without_explain_no_explanation_is_written(project: Path, run: Run) -> None:
    run("resolve")

    assert not (project / "agents.resolution.json").exists()


def test_a_failed_resolution_explains_itself_and_leaves_the_lock_alone(project: Path, run: Run) -> None:
    run("resolve")
    before = (project / "agents.lock").read_bytes()
    fail_residency(project)

    assert run("resolve", "--explain").code == 1
    assert (project / "agents.lock").read_bytes() == before
    explanation = json.loads((project / "agents.resolution.json").read_bytes())
    assert explanation["success"] is False
    assert [need["selected"] is None for need in explanation["requirements"]] == [False, True]


@pytest.mark.parametrize("mode", ["--check", "--locked", "--dry-run"])
@pytest.mark.parametrize("fails", [False, True])
def test_modes_that_only_look_write_nothing(project: Path, run: Run, mode: str, *, fails: bool) -> None:
    if fails:
        fail_residency(project)
    before = sorted(project.iterdir())

    ran = run("resolve", mode, "--explain")

    assert ran.code == (0 if mode == "--dry-run" and not fails else 1)
    assert sorted(project.iterdir()) == before


def test_check_judges_every_byte_and_locked_only_what_is_pinned(project: Path, run: Run) -> None:
    run("resolve", "--resolved-at", "2025-01-15T10:30:00Z")

    assert run("resolve", "--locked").code == 0
    assert run("resolve", "--check").code == 1
    assert run("resolve", "--check", "--resolved-at", "2025-01-15T10:30:00Z").code == 0


def test_check_also_looks_at_the_explanation(project: Path, run: Run) -> None:
    run("resolve")

    ran = run("resolve", "--check", "--explain")

    assert ran.code == 1
    assert "✗ ./agents.resolution.json would change" in ran.stderr


def test_a_lock_that_is_not_json_is_stale(project: Path, run: Run) -> None:
    (project / "agents.lock").write_text("<<<<<<< ours")

    assert run("resolve", "--locked").code == 1


def test_a_lock_with_other_line_ends_still_holds(project: Path, run: Run) -> None:
    run("resolve")
    lock = project / "agents.lock"
    lock.write_bytes(lock.read_bytes().replace(b"\n", b"\r\n"))

    assert run("resolve", "--locked").code == 0


def test_an_unreadable_lock_is_a_usage_error(project: Path, run: Run) -> None:
    (project / "agents.lock").mkdir()

    for mode in (["--locked"], ["--check"], []):
        ran = run("resolve", *mode)
        assert ran.code == 2
        assert "is a directory" in ran.stderr


@pytest.mark.parametrize("target", ["agents.md", "mcp.index.json"])
def test_an_input_is_never_overwritten(project: Path, run: Run, target: str) -> None:
    before = (project / target).read_bytes()

    assert run("resolve", "-o", target).code == 1
    assert run("resolve", "--explain-output", target).code == 1
    assert (project / target).read_bytes() == before
    assert not (project / "agents.lock").exists()


def test_an_empty_file_may_be_filled(project: Path, run: Run) -> None:
    (project / "agents.lock").touch()

    assert run("resolve").code == 0


def test_modes_exclude_each_other(project: Path, run: Run) -> None:
    ran = run("resolve", "--check", "--locked")

    assert ran.code == 2
    assert "not allowed with argument" in ran.stderr


def test_the_time_is_the_epoch_unless_asked(project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = project / "agents.lock"
    run("resolve")
    assert resolved_at(lock) == EPOCH

    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1736937000")
    run("resolve")
    assert resolved_at(lock) == "2025-01-15T10:30:00.000Z"

    run("resolve", "--resolved-at", "2025-01-15T10:30:00.1239+02:00")
    assert resolved_at(lock) == "2025-01-15T08:30:00.123Z"

    run("resolve", "--resolved-at", "now")
    assert resolved_at(lock) > "2026"


@pytest.mark.parametrize("epoch", ["soon", "1e9", "9" * 30])
def test_a_source_date_epoch_that_is_no_number_is_a_usage_error(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch, epoch: str
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)

    ran = run("resolve")

    assert ran.code == 2
    assert "SOURCE_DATE_EPOCH" in ran.stderr


def test_many_rejections_are_cut_with_a_word_on_where_the_rest_is(project: Path, run: Run) -> None:
    index = json.loads((project / "mcp.index.json").read_bytes())
    many = [{**index[1], "version": f"{number}.0.0"} for number in range(60)]
    (project / "mcp.index.json").write_text(json.dumps([index[0], *many]))
    fail_residency(project)

    ran = run("resolve")

    assert ran.stderr.count("Agent requires 'eu-only'") == 3
    assert "  … and 57 more with `RESIDENCY_MISMATCH`: `--all` shows each\n" in ran.stderr
    assert run("resolve", "--all").stderr.count("Agent requires 'eu-only'") == 60
    assert len(json.loads(run("resolve", "--json").stdout)["failed"][0]["rejected"]) == 60


def test_an_unwritable_folder_is_an_error_and_nothing_is_lost(project: Path, run: Run) -> None:
    (project / "file").touch()

    ran = run("resolve", "--explain-output", "file/why.json")

    assert ran.code == 2
    assert "cannot be written" in ran.stderr
    assert not (project / "agents.lock").exists()


def test_control_characters_never_reach_the_terminal(project: Path) -> None:
    """Text of a refused file is shown without what would steer a terminal."""
    agents = project / "agents.md"
    agents.write_text(agents.read_text().replace("us-only", '"\\e[31mred"'))
    command = [sys.executable, "-m", "agent_resolver", "resolve"]

    done = subprocess.run(command, capture_output=True, check=False, cwd=project, env={**os.environ})

    assert done.returncode == 1
    assert b"\x1b" not in done.stderr
    assert b"\\x1b[31mred" in done.stderr


def test_one_path_for_both_files_is_a_usage_error(project: Path, run: Run) -> None:
    assert run("resolve", "-o", "x.json", "--explain-output", "./x.json").code == 2
    assert not (project / "x.json").exists()


@pytest.mark.parametrize("mode", [[], ["--check"], ["--locked"], ["--dry-run"]])
def test_a_lock_of_a_newer_version_is_left_alone(project: Path, run: Run, mode: list[str]) -> None:
    run("resolve")
    lock = project / "agents.lock"
    newer = lock.read_bytes().replace(b"\n}\n", b',\n  "lockVersion": 3\n}\n')
    lock.write_bytes(newer)

    ran = run("resolve", *mode)

    assert ran.code == 1
    assert "was written by a newer version of `agent`" in ran.stderr
    assert lock.read_bytes() == newer


def test_a_misspelt_constraint_never_passes_in_silence(project: Path, run: Run) -> None:
    agents = project / "agents.md"
    agents.write_text(agents.read_text().replace("residency:", "residence:"))

    assert "warning: constraints.data.residence: Unknown key" in run("resolve").stderr
    assert json.loads(run("resolve", "--json").stdout)["warnings"][0]["path"] == "constraints.data.residence"


def test_trust_at_the_top_refuses_unsigned_servers(project: Path, run: Run) -> None:
    index = project / "mcp.index.json"
    index.write_text(index.read_text().replace('"signed": true', '"signed": false'))
    agents = project / "agents.md"
    text = agents.read_text()
    assert run("resolve", "-o", "loose.lock").code == 0
    agents.write_text(text.replace("\nrequires:", "\ntrust: {requireSigned: true}\nrequires:"))
    ran = run("resolve")

    assert ran.code == 1
    assert "Server is not signed and the agent requires signed servers" in ran.stderr
    assert "set `constraints.trust.requireSigned` to `false`, which is `true` now (agents.md:4:9)" in ran.stderr
    assert not (project / "agents.lock").exists()


def test_trust_at_the_top_and_the_constraint_must_agree(project: Path, run: Run) -> None:
    agents = project / "agents.md"
    text = agents.read_text().replace("\nrequires:", "\ntrust: {requireSigned: true}\nrequires:")
    agents.write_text(text.replace("constraints:\n", "constraints:\n  trust: {requireSigned: false}\n"))

    for command in ("validate", "resolve"):
        ran = run(command)
        assert ran.code == 1
        assert "trust.requireSigned: It is true here, and false in `constraints`" in ran.stderr


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("residency: eu-only", "constraints.data.residency"),
        ("forbid: ['*']", "constraints.actions.forbid"),
        ("requireSigned: true", "constraints.trust.requireSigned"),
    ],
)
def test_a_constraint_in_the_wrong_place_locks_nothing(project: Path, run: Run, key: str, place: str) -> None:
    agents = project / "agents.md"
    text = agents.read_text()
    name = key.partition(":")[0]
    for old, new, at in (
        ("\nrequires:", f"\n{key}\nrequires:", name),
        ("constraints:", f"constraints:\n  {key}", f"constraints.{name}"),
    ):
        agents.write_text(text.replace(old, new))
        ran = run("resolve")
        assert (ran.code, (project / "agents.lock").exists()) == (1, False)
        assert f"{at}: Has no effect here" in ran.stderr
        assert f"write it as `{place}`" in ran.stderr


def test_words_about_the_result_come_after_it_in_one_log(project: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "agent_resolver", "resolve", "--locked"]

    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)

    assert done.stdout.decode().index("Resolving agent") < done.stdout.decode().index("is missing")


@pytest.mark.parametrize(
    "command",
    [
        ["resolve", "-o", "-"],
        ["resolve", "--output=-"],
        ["resolve", "--explain-output", "-"],
        ["report", "-o", "-"],
        ["tools", "manifest", "--out", "-"],
        ["tools", "certify", "--out", "-"],
        ["state", "backup", "-"],
    ],
    ids=" ".join,
)
def test_a_dash_is_not_taken_for_a_file(project: Path, command: list[str]) -> None:
    before = contents(project)

    done = subprocess.run(
        [sys.executable, "-m", "agent_resolver", *command], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert "`-` is not a file" in done.stderr
    assert contents(project) == before


def test_a_file_whose_name_is_a_dash_can_be_named(project: Path, run: Run) -> None:
    assert run("resolve", "-o", "./-").code == 0
    assert (project / "-").is_file()


def test_a_server_that_promises_no_region_is_accepted_with_a_note(project: Path, run: Run) -> None:
    edit(project / "mcp.index.json", '["us-only"]', '["any"]')
    note = (
        "`reporting` asks for `us-only`, and `acme-reporting@3.0.0` says `any`: it is accepted, and promises no region"
    )

    ran = run("resolve")
    workspace = run("resolve", "--workspace")

    assert (ran.code, ran.stderr) == (0, f"hint: {note}\n")
    assert (workspace.code, workspace.stderr) == (0, f"hint: {note}\n")
    assert json.loads(run("resolve", "--json").stdout)["notes"] == [note]
    assert json.loads(run("resolve", "--workspace", "--json").stdout)["agents"][0]["notes"] == [note]


@pytest.mark.parametrize("asked", ["any", None])
def test_an_agent_that_asks_for_no_region_gets_no_note(project: Path, run: Run, asked: str | None) -> None:
    edit(project / "mcp.index.json", '["us-only"]', '["any"]')
    edit(project / "agents.md", "    residency: us-only\n", f"    residency: {asked}\n" if asked else "")

    assert run("resolve").stderr == ""


def test_notes_on_many_servers_are_few_lines(project: Path, run: Run) -> None:
    needs = "".join(f"    - {{category: c{number:02}, permissions: [read]}}\n" for number in range(20))
    index = json.loads((project / "mcp.index.json").read_bytes())
    data = {"residency": ["any"], "maxSensitivity": "pii.high"}
    categories = [f"c{number:02}" for number in range(20)]
    (project / "mcp.index.json").write_text(
        json.dumps([{**index[0], "categories": categories, "scopes": ["read"], "data": data}])
    )
    (project / "agents.md").write_text(
        f"---\nname: a\nversion: 1.0.0\nrequires:\n  mcp:\n{needs}constraints: {{data: {{residency: eu-only}}}}\n---\n"
    )

    lines = run("resolve").stderr.splitlines()

    assert [line.split("`")[1] for line in lines[:3]] == ["c00", "c01", "c02"]
    assert lines[3:] == ["… and 17 more like these: `--json` has each"]
