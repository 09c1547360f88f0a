"""`agent config`, `agent audit` and `agent trust-folder`: what they print, and how they say no."""

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_resolver.schema import AuditKind, Record
from tests.cli.state_file import record_all
from tests.conftest import Ran, Run

Snapshot = Callable[[object], None]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AGENT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def without(folder: Path, ran: Ran) -> str:
    """What was printed, with the folder of the test called `~`."""
    return str(ran).replace(str(folder), "~")


# agent config ---------------------------------------------------------------------------------------------------------

SETTINGS = """\
[state]
url = "postgresql://ada:secret@db/state"

[servers."acme.com"]
token_env = "ACME_TOKEN"

[models.default]
provider = "local"
upstream_model = "smol"
prices = { input = 1, output = 2.5 }

[tools]
admit = ["acme.read", "acme.é"]
"""


@pytest.fixture
def configured(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The quick-start project with settings in a file and in the environment."""
    (project / "agent.toml").write_text(SETTINGS, encoding="utf-8")
    monkeypatch.setenv("AGENT_ENGINE_KIND", "memory")
    monkeypatch.setenv("AGENT_KNOWLEDGE_ROOTS", "docs,guides")
    return project


def test_config_show_of_a_project_without_settings(project: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("config", "show"))


def test_config_show_says_where_each_value_came_from(configured: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("config", "show", "--config", "models.default.context_window=8192", "--config", "engine.kind=dbos"))


def test_config_show_as_json(configured: Path, run: Run, snapshot: Snapshot) -> None:
    ran = run("config", "show", "--json", "--config", "policy.file=p.yaml")

    assert json.loads(ran.stdout)
    snapshot(ran)


def test_config_show_names_every_fault_of_the_file(project: Path, run: Run, snapshot: Snapshot) -> None:
    (project / "agent.toml").write_text("[state]\nurll = 'x'\nurl = 5\n\n[engine]\nkind = 'cron'\n[remotes.a]\n")
    snapshot(run("config", "show"))


def test_config_show_names_every_fault_as_json(project: Path, run: Run, snapshot: Snapshot) -> None:
    (project / "agent.toml").write_text("[state]\nurll = 'x'\n[remotes.a]\n")
    snapshot(run("config", "show", "--json"))


def test_config_show_of_a_file_that_is_not_toml(project: Path, run: Run, snapshot: Snapshot) -> None:
    (project / "agent.toml").write_text("[state]\nurl = \n")
    snapshot(run("config", "show"))


def test_config_show_of_a_flag_that_is_refused(project: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("config", "show", "--config", "state.urll=sqlite:///x.db"))


def test_config_show_of_a_variable_that_is_refused(
    project: Path, run: Run, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_ENGINE_KIND", "memroy")
    snapshot(run("config", "show"))


def test_config_show_finds_the_settings_above_the_agent_file(configured: Path, run: Run) -> None:
    (configured / "below").mkdir()

    assert run("config", "show", "-a", "below/agents.md").stdout == run("config", "show").stdout


def test_config_show_prints_nothing_that_steers_a_terminal(project: Path, run: Run) -> None:
    odd = project / "a\x1b[31m\u202e"
    odd.mkdir()
    (odd / "agent.toml").write_text("[state]\nurl = 'x'\n")

    ran = run("config", "show", "-a", str(odd / "agents.md"))

    assert ran.code == 0
    assert "\x1b" not in ran.stdout + ran.stderr
    assert 'state.url = "x"  # a\\x1b[31m\\u202e/agent.toml:2:1\n' in ran.stdout


def test_config_show_opens_no_state(configured: Path, run: Run) -> None:
    run("config", "show")

    assert not (configured / ".agent").exists()


# agent audit ----------------------------------------------------------------------------------------------------------


def recorded(project: Path, key: bytes | None = None) -> Path:
    """The state file of a project with a few records of two runs."""
    return record_all(
        project,
        (
            "2026-01-31T10:00:00.000Z",
            Record("4f1c0a9e", AuditKind.LOCK_VERIFIED, {"agent": "my-analytics-agent", "hashes": ["0"]}),
        ),
        (
            "2026-01-31T10:00:01.000Z",
            Record("4f1c0a9e", AuditKind.CALL_DONE, {"tool": "acme.é", "result": "sha256-0"}),
        ),
        ("2026-01-31T11:00:00.000Z", Record("77aa00bb11", AuditKind.LOCK_REFUSED, {"lock": "./agents.lock"})),
        ("2026-01-31T12:00:00.000Z", Record("4f1c0a9e", AuditKind.CALL_FAILED, {"tool": "acme.write"})),
        key=key,
    )


def edit(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_the_records_of_older_versions_are_shown_and_verify(project: Path, run: Run) -> None:
    at = "2026-01-01T00:00:00.000Z"
    bodies: list[tuple[AuditKind, dict[str, object]]] = [
        (AuditKind.TOOL_ADMITTED, {"tool": "notes.read", "code": "ADMITTED"}),
        (AuditKind.TOOL_REFUSED, {"tool": "notes.delete", "code": "FORBIDDEN_ACTION"}),
        (AuditKind.SERVER_TOOLS, {"server": "notes@1.0.0", "admitted": 1, "refused": 1}),
    ]
    record_all(project, *((at, Record("4f1c", kind, body)) for kind, body in bodies))

    shown = run("audit", "show", "--json")

    assert [record["kind"] for record in json.loads(shown.stdout)] == ["tool.admitted", "tool.refused", "server.tools"]
    assert run("audit", "verify").code == 0


def test_audit_show_prints_every_record(project: Path, run: Run, snapshot: Snapshot) -> None:
    recorded(project)
    snapshot(run("audit", "show"))


def test_audit_show_as_json(project: Path, run: Run, snapshot: Snapshot) -> None:
    recorded(project)
    snapshot(run("audit", "show", "--run", "4f1c0a9e", "--last", "1", "--json"))


def test_audit_show_takes_a_run_and_a_number(project: Path, run: Run) -> None:
    recorded(project)

    def positions(*options: str) -> list[str]:
        return [line.split(" ")[0] for line in run("audit", "show", *options).stdout.splitlines()]

    assert positions("--run", "4f1c0a9e") == ["1", "2", "4"]
    assert positions("--last", "2") == ["3", "4"]
    assert positions("--run", "4f1c0a9e", "--last", "2") == ["2", "4"]
    assert positions("--last", "0") == []
    assert positions("--last", "999999999999999999") == ["1", "2", "3", "4"]


@pytest.mark.parametrize("begun", ["4f1c0a9e", "4f1c", "4"])
def test_audit_show_takes_the_beginning_of_a_run(project: Path, run: Run, begun: str) -> None:
    recorded(project)

    shown, as_json = run("audit", "show", "--run", begun), run("audit", "show", "--run", begun, "--json")

    assert [line.split(" ")[0] for line in shown.stdout.splitlines()] == ["1", "2", "4"]
    assert {record["run"] for record in json.loads(as_json.stdout)} == {"4f1c0a9e"}


def test_audit_show_takes_the_run_as_it_prints_it(project: Path, run: Run) -> None:
    recorded(project)
    printed = run("audit", "show", "--last", "2").stdout.split(" ")[2].partition(".")[0]

    assert printed == "77aa00bb"
    assert run("audit", "show", "--run", printed).stdout.startswith("3 ")


@pytest.mark.parametrize("last", [[], ["--last", "1"]])
def test_audit_show_of_a_run_that_is_none_is_refused(project: Path, run: Run, last: list[str]) -> None:
    recorded(project)

    ran, as_json = run("audit", "show", "--run", "absent", *last), run("audit", "show", "--run", "absent", "--json")

    assert (ran.code, ran.stdout) == (1, "")
    assert ran.stderr == (
        "error: No run has an id that begins with absent\nhint: `agent audit show` prints every run\n"
    )
    assert (as_json.code, json.loads(as_json.stdout)["success"]) == (1, False)


def test_audit_show_names_a_few_of_the_runs_that_begin_alike(project: Path, run: Run) -> None:
    names = ("ab", "abc1", "abc2", "abc3", "abc4")
    at = "2026-01-31T10:00:00.000Z"
    record_all(project, *((at, Record(name, AuditKind.CALL_DONE, {})) for name in names))

    ran = run("audit", "show", "--run", "abc")

    assert (ran.code, ran.stdout) == (1, "")
    assert ran.stderr == (
        "error: Several runs begin with abc: abc1, abc2, abc3 and 1 more\nhint: give more of the id\n"
    )
    # A whole id is never a beginning.
    assert run("audit", "show", "--run", "ab").stdout.startswith("1 ")


def traced(project: Path) -> None:
    """Two runs that took part in one trace, and a record of another."""
    at = "2026-01-31T10:00:00.000Z"
    parts = (("aa", TRACE), ("bb", "0" * 32), ("bb", TRACE), ("cc", None))
    bodies = [(name, {"trace": trace} if trace else {}) for name, trace in parts]
    record_all(project, *((at, Record(name, AuditKind.CALL_DONE, body)) for name, body in bodies))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--trace", TRACE], [1, 3]),
        (["--trace", f" {TRACE.upper()}\n"], [1, 3]),
        (["--trace", TRACE, "--last", "1"], [3]),
        (["--trace", TRACE, "--last", "0"], []),
        (["--trace", TRACE, "--run", "b"], [3]),
        (["--trace", "0" * 32], [2]),
    ],
)
def test_audit_show_has_the_records_of_one_trace(
    project: Path, run: Run, options: list[str], expected: list[int]
) -> None:
    traced(project)

    shown, as_json = run("audit", "show", *options), run("audit", "show", *options, "--json")

    assert [int(line.split(" ")[0]) for line in shown.stdout.splitlines()] == expected
    assert [record["position"] for record in json.loads(as_json.stdout)] == expected


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--trace", "f" * 32], 1, f"error: No record has the trace {'f' * 32}\nhint: "),
        (["--trace", TRACE, "--run", "cc"], 1, f"error: No record of run cc has the trace {TRACE}\nhint: "),
        (["--trace", TRACE[:12]], 2, "error: `--trace` takes 32 hexadecimal digits\nhint: "),
        (["--trace", ""], 2, "error: `--trace` takes 32 hexadecimal digits\nhint: "),
        (["--trace", TRACE[:-1] + "g"], 2, "error: `--trace` takes 32 hexadecimal digits\nhint: "),
    ],
)
def test_audit_show_of_a_trace_that_is_none_is_refused(
    project: Path, run: Run, options: list[str], code: int, words: str
) -> None:
    traced(project)

    ran, as_json = run("audit", "show", *options), run("audit", "show", *options, "--json")

    assert (ran.code, ran.stdout) == (code, "")
    assert ran.stderr.startswith(words)
    assert (as_json.code, json.loads(as_json.stdout)["success"]) == (code, False)


@pytest.mark.parametrize("command", ["show", "verify"])
def test_a_trail_that_is_not_there_is_no_empty_trail(project: Path, run: Run, command: str) -> None:
    ran = run("audit", command)

    assert ran.code == 2
    assert ".agent/state.db` does not exist" in ran.stderr
    assert not (project / ".agent").exists()


def test_audit_show_prints_nothing_that_steers_a_terminal(project: Path, run: Run) -> None:
    edit(
        recorded(project),
        "UPDATE audit SET kind = char(27) || '[2J', run = char(27, 10) WHERE position = 4",
        "UPDATE audit SET at = char(7), body = char(27) WHERE position = 4",
    )

    shown, verified = run("audit", "show", "--last", "1"), run("audit", "verify")

    assert shown.stdout == '4 \\x07 \\x1b\\n.3 \\x1b[2J {"edited":"\\u001b"}\n'
    assert "\x1b" not in verified.stderr
    assert verified.code == 1


def test_audit_verify_of_a_whole_trail(project: Path, run: Run, snapshot: Snapshot) -> None:
    recorded(project)
    snapshot(run("audit", "verify"))


def test_audit_verify_as_json(project: Path, run: Run, snapshot: Snapshot) -> None:
    recorded(project)
    snapshot(run("audit", "verify", "--json"))


def test_audit_verify_of_an_edited_trail(project: Path, run: Run, snapshot: Snapshot) -> None:
    edit(
        recorded(project),
        "UPDATE audit SET kind = 'call.done' WHERE position = 4",
        "DELETE FROM audit WHERE position = 2",
    )
    snapshot(run("audit", "verify"))


def test_audit_verify_of_an_edited_trail_as_json(project: Path, run: Run, snapshot: Snapshot) -> None:
    edit(recorded(project), "DELETE FROM audit WHERE position = 4")
    snapshot(run("audit", "verify", "--json"))


def test_audit_verify_against_a_root_that_was_noted_down(project: Path, run: Run) -> None:
    recorded(project)
    root = json.loads(run("audit", "verify", "--json").stdout)["root"]

    assert run("audit", "verify", "--root", root).code == 0
    recorded(project)
    assert run("audit", "verify", "--root", root).code == 0
    (project / ".agent" / "state.db").unlink()
    record_all(project, ("2026-02-01T00:00:00.000Z", Record("4f1c0a9e", AuditKind.CALL_DONE, {"tool": "acme.read"})))
    assert run("audit", "verify").code == 0, "a new state knows nothing of the one before"
    refused = run("audit", "verify", "--root", root)
    assert refused.code == 1
    assert f"  - the trail never had the root {root}:" in refused.stderr


def test_audit_verify_against_a_root_that_never_was(project: Path, run: Run) -> None:
    recorded(project)

    ran = run("audit", "verify", "--root", "0" * 64)

    assert ran.code == 1
    assert "the trail never had the root" in ran.stderr


def test_audit_verify_forgives_how_a_root_was_copied(project: Path, run: Run) -> None:
    recorded(project)
    root = json.loads(run("audit", "verify", "--json").stdout)["root"]

    assert run("audit", "verify", "--root", f" {root.upper()}\n").code == 0


@pytest.mark.parametrize("root", ["", " ", "0" * 12, "0" * 63, "0" * 65, "g" * 64, "\u0660" * 64, os.fsdecode(b"\xff")])
def test_audit_verify_against_what_is_no_root_is_not_asked(project: Path, run: Run, root: str) -> None:
    recorded(project)

    ran, as_json = run("audit", "verify", "--root", root), run("audit", "verify", "--root", root, "--json")

    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == (
        "error: `--root` takes 64 hexadecimal digits\nhint: give the whole root, as `agent audit verify` printed it\n"
    )
    assert (as_json.code, json.loads(as_json.stdout)["success"]) == (2, False)


def test_audit_verify_with_the_key_that_the_settings_name(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(project, b"the key")
    (project / "agent.toml").write_text("[state]\nkey_env = 'STATE_KEY'\n")

    monkeypatch.setenv("STATE_KEY", "the key")
    assert "its settings seal the state with a secret of this machine" in run("audit", "verify").stderr
    assert run("audit", "verify", "--trust").code == 0
    run("trust-folder")
    assert run("audit", "verify").code == 0
    monkeypatch.setenv("STATE_KEY", "another key")
    assert "which is not known here" in run("audit", "verify").stderr
    (project / "agent.toml").unlink()
    assert "or they were sealed with a key" in run("audit", "verify").stderr


ATTACKS = {
    "all removed, and an empty seal": ("DELETE FROM audit", "UPDATE audit_seal SET count = 0, root = ''"),
    "all removed, and the seal of no records": (
        "DELETE FROM audit",
        "UPDATE audit_seal SET count = 0, root = '', number = 0, seal = ''",
        "UPDATE audit_mark SET mark = ''",
    ),
    "the tail cut, and an earlier count and root": (
        "DELETE FROM audit WHERE position > 4",
        "UPDATE audit_seal SET count = 4, root = (SELECT root FROM noted)",
    ),
    "the tail cut, and the whole seal of then": (
        "DELETE FROM audit WHERE position > 4",
        "DELETE FROM audit_seal",
        "INSERT INTO audit_seal SELECT * FROM noted",
    ),
    "the middle replaced": ("UPDATE audit SET kind = 'call.done', hash = previous WHERE position = 3",),
    "two heads swapped": (
        "UPDATE audit SET hash = 'x' || (SELECT hash FROM audit WHERE position = 7) WHERE position = 8",
        "UPDATE audit SET hash = (SELECT substr(hash, 2) FROM audit WHERE position = 8) WHERE position = 7",
    ),
    "one run removed": ("DELETE FROM audit WHERE run = '77aa00bb11'",),
    "one run removed, and the rest moved up": (
        "DELETE FROM audit WHERE run = '77aa00bb11'",
        "UPDATE audit SET position = position - 1 WHERE position > 3",
        "UPDATE audit SET position = position - 1 WHERE position > 6",
        "UPDATE audit_seal SET count = 6",
    ),
    "taken back to the version before": (
        "DELETE FROM audit WHERE position > 4",
        "DROP TABLE audit_mark",
        "UPDATE audit_seal SET count = 4, root = (SELECT root FROM noted)",
        "ALTER TABLE audit_seal DROP COLUMN number",
        "ALTER TABLE audit_seal DROP COLUMN seal",
        "PRAGMA user_version = 3",
    ),
}


@pytest.mark.parametrize("statements", ATTACKS.values(), ids=ATTACKS)
def test_with_a_key_no_edit_of_the_trail_verifies(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch, statements: tuple[str, ...]
) -> None:
    monkeypatch.setenv("STATE_KEY", "the key")
    (project / "agent.toml").write_text("[state]\nkey_env = 'STATE_KEY'\n")
    edit(recorded(project, b"the key"), "CREATE TABLE noted AS SELECT * FROM audit_seal")
    path = recorded(project, b"the key")
    assert run("audit", "verify", "--trust").code == 0

    edit(path, *statements)

    assert run("audit", "verify", "--trust").code in {1, 2}


def test_audit_verify_without_the_key_that_the_settings_name(project: Path, run: Run, snapshot: Snapshot) -> None:
    recorded(project, b"the key")
    snapshot(run("audit", "verify", "--config", "state.key_env=STATE_KEY"))


def test_audit_with_a_database_that_is_not_built_in(project: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("audit", "show", "--config", "state.url='mysql://ada:pw/1@db/state'"))


# agent trust-folder ---------------------------------------------------------------------------------------------------


def test_trust_folder_of_a_project(project: Path, tmp_path: Path, run: Run, snapshot: Snapshot) -> None:
    (project / "agent.toml").touch()
    (project / "below").mkdir()

    snapshot(
        "\n".join(
            without(tmp_path, run("trust-folder", *options))
            for options in (
                ["below"],
                [],
                ["--list"],
                ["--json"],
                ["--remove", "below"],
                ["--remove"],
                ["--list"],
                ["--list", "--json"],
            )
        )
    )


def test_trust_folder_takes_a_folder_off_the_list_that_is_gone(project: Path, run: Run) -> None:
    (project / "agent.toml").touch()
    below = project.parent / "gone"
    below.mkdir()
    run("trust-folder", str(below))
    below.rmdir()

    assert json.loads(run("trust-folder", "--list", "--json").stdout) == [str(below)]
    removed = run("trust-folder", "--remove", str(below))
    assert (removed.code, removed.stdout) == (0, f"✓ Trusted no longer: {below}\n")
    assert run("trust-folder", "--remove", str(below)).code == 2


def test_trust_folder_takes_off_the_very_folder_that_is_listed(project: Path, run: Run) -> None:
    """Even when an `agent.toml` above it would make another folder the root by now."""
    below = project / "below"
    below.mkdir()
    run("trust-folder", str(below))
    (project / "agent.toml").touch()
    run("trust-folder", str(project))

    run("trust-folder", "--remove", str(below))

    assert json.loads(run("trust-folder", "--list", "--json").stdout) == [str(project)]


@pytest.mark.parametrize("name", ["a\nb", 'it\'s "quoted"', "é😀", "\x1b[31m"])
def test_trust_folder_prints_any_name_on_one_line(project: Path, run: Run, name: str) -> None:
    folder = project / name
    folder.mkdir()

    trusted = run("trust-folder", str(folder))
    listed = run("trust-folder", "--list")

    assert (trusted.code, trusted.stdout.count("\n"), listed.stdout.count("\n")) == (0, 1, 1)
    assert "\x1b" not in trusted.stdout + listed.stdout
    assert json.loads(run("trust-folder", "--list", "--json").stdout) == [str(folder)]


def test_trust_folder_refuses_a_name_that_is_no_text(project: Path, run: Run) -> None:
    folder = os.fsdecode(os.fsencode(project) + b"/\xff")
    os.mkdir(folder)  # noqa: PTH102 - a path that is no text

    refused, as_json = run("trust-folder", folder), run("trust-folder", folder, "--json")

    assert (refused.code, as_json.code) == (2, 2)
    assert "cannot hold the name of a folder that is not UTF-8" in refused.stderr
    assert not json.loads(as_json.stdout)["success"]


# No -------------------------------------------------------------------------------------------------------------------

NO_TEXT = os.fsdecode(b"\xff")


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (["config"], 2, "usage: agent config"),
        (["config", "shwo"], 2, "invalid choice: 'shwo'"),
        (["config", "show", "extra"], 2, "unrecognized arguments: extra"),
        (["config", "show", "--config"], 2, "expected one argument"),
        (["config", "show", "--config", "state.url"], 1, "Expected KEY=VALUE"),
        (["config", "show", "--config", "a.b=1"], 1, "a: Unknown key"),
        (["config", "show", "--config", "=1"], 1, "Invalid TOML"),
        (["config", "show", "--config", f"{NO_TEXT}=1"], 1, "Byte 0xff is not valid UTF-8"),
        (["config", "show", "--config", f"state.url={'[' * 5000}"], 1, "Values nest deeper than 64 levels"),
        (["audit"], 2, "usage: agent audit"),
        (["audit", "show", "--last", "x"], 2, "argument --last: expected a number of records, found 'x'"),
        (["audit", "show", "--last", "-1"], 2, "argument --last: expected"),
        (["audit", "show", "--last", "1.5"], 2, "argument --last: expected"),
        (["audit", "show", "--last", "٣"], 2, "argument --last: expected"),
        (["audit", "show", "--last", "99999999999999999999"], 2, "argument --last: expected"),
        (["audit", "show", "--run", NO_TEXT], 2, "argument --run: no run has an id like that"),
        (["audit", "show", "--run", ""], 2, "argument --run: no run has an id like that"),
        (["audit", "show", "--config", "state.url=agents.md"], 1, "The state cannot be kept with agents.md"),
        (["audit", "show", "--config", "state.url=sqlite:///agents.md"], 2, "file is not a database"),
        (
            ["audit", "show", "--config", "state.url=sqlite:///agents.md/state.db"],
            2,
            "agents.md/state.db` does not exist",
        ),
        (["audit", "verify", "--config", "state.url=sqlite:///agents.md"], 2, "file is not a database"),
        (["audit", "verify", "--config", "sate.url=x"], 1, "hint: did you mean `state`?"),
        (["trust-folder", "absent"], 2, "`absent` is no folder"),
        (["trust-folder", "agents.md"], 2, "`agents.md` is no folder"),
        (["trust-folder", "--remove", "absent"], 2, "`absent` is no folder"),
        (["trust-folder", "--list", "--remove"], 2, "not allowed with argument"),
        (["trust-folder", "a", "b"], 2, "unrecognized arguments: b"),
    ],
    ids=lambda value: (
        " ".join(value)[:60].encode(errors="backslashreplace").decode() if isinstance(value, list) else ""
    ),
)
def test_what_cannot_be_is_refused_in_words(project: Path, run: Run, command: list[str], code: int, words: str) -> None:
    before = (project / "agents.md").read_bytes()

    ran = run(*command)

    assert ran.code == code
    assert words in ran.stderr
    assert ran.stdout == ""
    assert (project / "agents.md").read_bytes() == before
    if code == 1 or "usage:" not in ran.stderr:
        as_json = run(*command, "--json")
        assert as_json.code == code
        assert as_json.stderr == ""
        assert json.loads(as_json.stdout)["success"] is False


def make_folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    "case",
    [
        (make_folder, 2, "`~/project/agent.toml` is a directory, not a regular file"),
        (os.mkfifo, 2, "`~/project/agent.toml` is a named pipe, not a regular file"),
        (lambda path: path.write_bytes(b"\xff"), 1, "Byte 0xff is not valid UTF-8 (agent.toml:1:1)"),
        (lambda path: path.write_bytes(b"#" * 2**20 + b"#"), 1, "is larger than 1,048,576 bytes"),
        (lambda path: path.write_bytes(b"a = " + b"[" * 9999), 1, "Values nest deeper than 64 levels (agent.toml:1:1)"),
        (lambda path: path.write_bytes(b"a = " + b"9" * 9999), 1, "A number has more than 250 digits (agent.toml:1:5)"),
    ],
)
@pytest.mark.parametrize("command", [["config", "show"], ["audit", "show"], ["audit", "verify"]], ids=" ".join)
def test_settings_that_cannot_be_read_stop_every_command(
    project: Path, tmp_path: Path, run: Run, command: list[str], case: tuple[Callable[[Path], object], int, str]
) -> None:
    make, code, words = case
    make(project / "agent.toml")

    ran, as_json = run(*command), run(*command, "--json")

    assert (ran.code, as_json.code, ran.stdout, as_json.stderr) == (code, code, "", "")
    assert words in without(tmp_path, ran)
    assert json.loads(as_json.stdout)["success"] is False
    assert not (project / ".agent").exists()


@pytest.mark.parametrize("options", [[], ["--remove"], ["--list"], ["--json"], ["--list", "--json"]])
def test_a_damaged_list_of_folders_stops_trust_folder(
    project: Path, tmp_path: Path, run: Run, options: list[str]
) -> None:
    path = tmp_path / "config" / "agent-resolver" / "trusted-folders.json"
    path.parent.mkdir(parents=True)
    path.write_text("[1]")

    ran = run("trust-folder", *options)

    assert ran.code == 2
    assert "is damaged: Expected `str`, got `int`" in ran.stdout + ran.stderr
    assert path.read_text() == "[1]"


@pytest.mark.parametrize(
    "statements",
    [
        ["DROP TABLE audit"],
        ["DROP TABLE audit_seal"],
        ["UPDATE audit SET kind = CAST(x'ff' AS TEXT)"],
        ["UPDATE audit SET body = x'ff', sequence = 'x' WHERE position = 1", "DELETE FROM audit_seal"],
        ["PRAGMA user_version = 99"],
        ["PRAGMA application_id = 1"],
    ],
)
def test_a_state_file_that_somebody_edited_is_no_traceback(project: Path, run: Run, statements: list[str]) -> None:
    edit(recorded(project), *statements)

    for command in (["audit", "show"], ["audit", "verify"]):
        ran = run(*command)
        assert ran.code in ({1, 2} if command[1] == "verify" else {0, 2})
        assert ran.code == 0 or ran.stderr.startswith(("error: `", "✗ The audit trail does not verify"))
        assert json.loads(run(*command, "--json").stdout) is not None
