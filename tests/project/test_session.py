"""A project: everything around one agent file, opened when it is needed, and only what holds."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from agent_resolver.core import DifferenceKind, remedy
from agent_resolver.project import (
    InvalidConfig,
    LockRefused,
    Session,
    TrustedFolders,
    UntrustedFolder,
    UnusableState,
    verifier_of,
)
from agent_resolver.schema import MAX_LOCKFILE_BYTES, InvalidAgentFile, InvalidIndex
from agent_resolver.storage import FileError, ForeignFile, OversizeFile, UnreadableFile
from tests.conftest import Run


@pytest.fixture
def locked(project: Path, run: Run) -> Path:
    """The quick-start project with its lock, as the current folder."""
    assert run("resolve").code == 0
    return project


def opened(
    *flags: str, agents: str = "./agents.md", trusts: bool = False, environment: Mapping[str, str] | None = None
) -> Session:
    return Session(agents, "./mcp.index.json", environment=environment or {}, flags=flags, trusts=trusts)


def refusal(project: Session) -> LockRefused:
    with pytest.raises(LockRefused) as caught:
        _ = project.lockfile
    return caught.value


# Where things are -----------------------------------------------------------------------------------------------------


def test_without_settings_the_root_is_the_folder_of_the_agent_file(project: Path) -> None:
    found = opened()

    assert found.config_path is None
    assert (found.root, found.folder) == (str(project), str(project))
    assert found.lock_path == "./agents.lock"
    assert {setting.origin for setting in found.loaded.settings} == {"default"}


def test_with_settings_above_the_root_is_their_folder(project: Path) -> None:
    (project.parent / "agent.toml").write_text("[state]\nurl = 'sqlite:///state.db'\n")
    found = opened()

    assert (found.root, found.folder) == (str(project.parent), str(project))
    assert found.config.state.url == "sqlite:///state.db"
    assert [each.origin for each in found.loaded.settings if each.key == "state.url"] == ["../agent.toml:2:1"]
    _ = found.store
    found.close()
    assert (project.parent / "state.db").exists()


@pytest.mark.parametrize(
    ("agents", "lock"),
    [("agents.md", "agents.lock"), ("a/x.md", "a/x.lock"), ("x", "x.lock"), ("x.md.md", "x.md.lock")],
)
def test_each_agent_file_has_its_lock_beside_it(project: Path, agents: str, lock: str) -> None:
    assert opened(agents=agents).lock_path == lock


def test_a_linked_agent_file_belongs_to_the_project_it_leads_to(project: Path, tmp_path: Path) -> None:
    (project / "agent.toml").touch()
    (tmp_path / "link.md").symlink_to(project / "agents.md")

    assert opened(agents=str(tmp_path / "link.md")).root == str(project)


def test_nothing_is_read_or_made_before_it_is_asked_for(tmp_path: Path) -> None:
    project = Session(str(tmp_path / "agents.md"), str(tmp_path / "absent.json"), environment={})
    project.close()

    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UnreadableFile, match="does not exist"):
        _ = project.agent
    with pytest.raises(UnreadableFile, match="does not exist"):
        _ = project.servers


def test_files_that_are_refused_say_so(project: Path) -> None:
    (project / "agents.md").write_text("nothing")
    (project / "mcp.index.json").write_text("{}")
    (project / "agent.toml").write_text("state = 1")

    with pytest.raises(InvalidAgentFile):
        _ = opened().agent
    with pytest.raises(InvalidIndex):
        _ = opened().servers
    with pytest.raises(InvalidConfig):
        _ = opened().config


# The lock -------------------------------------------------------------------------------------------------------------


def test_a_lock_that_holds_is_given(locked: Path) -> None:
    found = opened()

    assert [entry.server_id for entry in found.lockfile.servers] == ["acme-analytics", "acme-reporting"]
    assert found.lockfile is found.lockfile


def test_a_lock_with_the_line_ends_of_windows_holds(locked: Path) -> None:
    lock = locked / "agents.lock"
    lock.write_bytes(lock.read_bytes().replace(b"\n", b"\r\n"))

    assert opened().lockfile.servers


def test_a_missing_lock_is_refused(project: Path) -> None:
    refused = refusal(opened())

    assert str(refused) == "`./agents.lock` is missing"
    assert refused.hint == "run `agent resolve`"
    assert refused.details == ()


FOREIGN = {
    "of another tool": b'{"version": 1, "resources": {}}',
    "no JSON": b"# a lock\n",
    "no text": b"\xff\xfe\x00",
    "a list": b"[]",
    "null": b"null",
    "without end": b"[" * 100_000,
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_lock_is_refused(project: Path, content: bytes) -> None:
    (project / "agents.lock").write_bytes(content)

    refused = refusal(opened())

    assert str(refused) == "`./agents.lock` does not hold"
    assert list(map(str, refused.details)) == ["lock: It was not written by `agent resolve`"]
    assert refused.hint == remedy(DifferenceKind.FOREIGN_FILE)


def test_an_empty_lock_is_refused(project: Path) -> None:
    (project / "agents.lock").touch()

    refused = refusal(opened())

    assert list(map(str, refused.details)) == ["lock: The file is empty"]
    assert refused.hint == remedy(DifferenceKind.MALFORMED)


def test_a_lock_that_breaks_off_is_refused(locked: Path) -> None:
    lock = locked / "agents.lock"
    lock.write_text(lock.read_text()[:-10])

    refused = refusal(opened())

    assert str(refused) == "`./agents.lock` does not hold"
    assert [each.kind for each in refused.details] == [DifferenceKind.MALFORMED]
    assert str(refused.details[0]).startswith("lock: (file): Expected ")
    assert refused.hint == remedy(DifferenceKind.MALFORMED)


def test_a_lock_with_the_marks_of_a_conflict_is_refused(locked: Path) -> None:
    lock = locked / "agents.lock"
    ours = lock.read_text()
    theirs = ours.replace("2.0.0", "2.1.0")
    lock.write_text(f"<<<<<<< HEAD\n{ours}=======\n{theirs}>>>>>>> theirs\n")

    refused = refusal(opened())

    assert list(map(str, refused.details)) == ["lock: Line 1 opens a merge conflict between `HEAD` and `theirs`"]
    assert refused.hint == (
        "settle the agent file and the index, then run `agent resolve`: the lock is made of those two alone"
    )


def test_a_lock_of_a_newer_format_is_refused(locked: Path) -> None:
    lock = locked / "agents.lock"
    lock.write_text(json.dumps({**json.loads(lock.read_text()), "lockVersion": 3}))

    refused = refusal(opened())

    assert list(map(str, refused.details)) == ["lock: It was written by a newer version of `agent`"]
    assert refused.hint == "upgrade `agent`, or move the file away"


Edit = Callable[[str], str]


@pytest.mark.parametrize(
    ("edit", "kinds"),
    [
        (lambda text: text.replace("mcp.acme.com/analytics", "evil.example"), ["hash-edited", "endpoint-moved"]),
        (lambda text: text.replace("my-analytics-agent", "other"), ["agent-changed"]),
        (lambda text: text.replace('"hash": "', '"hash": "0'), ["hash-edited", "hash-edited"]),
        (lambda text: text.replace("  ", "\t"), ["format-edited"]),
        (lambda text: text.rstrip("\n"), ["format-edited"]),
        (lambda text: "\ufeff" + text, ["format-edited"]),
        (lambda text: text.replace('"category"', '"note": "", "category"', 1), ["format-edited"]),
    ],
)
def test_an_edited_lock_is_refused_with_every_difference(locked: Path, edit: Edit, kinds: list[str]) -> None:
    lock = locked / "agents.lock"
    lock.write_text(edit(lock.read_text()), encoding="utf-8")

    refused = refusal(opened())

    assert str(refused) == "`./agents.lock` does not hold"
    assert [each.kind.value for each in refused.details] == kinds
    assert refused.hint == remedy(DifferenceKind(kinds[0]))


def test_a_lock_is_held_against_the_agent_file_and_the_index(locked: Path) -> None:
    agents, index = locked / "agents.md", locked / "mcp.index.json"
    agents.write_text(agents.read_text().replace("        - write:reports\n", ""))
    index.write_text(index.read_text().replace("https://mcp.acme.com/analytics", "https://new.example"))

    assert [each.kind for each in refusal(opened()).details] == [
        DifferenceKind.SCOPES_WIDENED,
        DifferenceKind.ENDPOINT_MOVED,
    ]


def test_a_lock_that_is_no_file_or_without_end_is_an_error_of_its_own(project: Path) -> None:
    (project / "agents.lock").mkdir()
    with pytest.raises(FileError, match="is a directory"):
        _ = opened().lockfile

    (project / "agents.lock").rmdir()
    with (project / "agents.lock").open("wb") as file:
        file.truncate(MAX_LOCKFILE_BYTES + 1)
    with pytest.raises(OversizeFile):
        _ = opened().lockfile


# State ----------------------------------------------------------------------------------------------------------------


def test_the_state_is_below_the_root_unless_the_settings_say_otherwise(project: Path, tmp_path: Path) -> None:
    for found, path in (
        (opened(), project / ".agent" / "state.db"),
        (opened("state.url=sqlite:///other/s.db"), project / "other" / "s.db"),
        (opened(trusts=True, environment={"AGENT_STATE_URL": f"sqlite:///{tmp_path}/whole.db"}), tmp_path / "whole.db"),
    ):
        assert found.store is found.store
        found.close()
        assert path.exists()


def test_state_outside_of_the_project_needs_trust(project: Path, tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path / "config")}

    with pytest.raises(UntrustedFolder, match="keep the state outside of it"):
        _ = opened("state.url=sqlite:///../elsewhere/s.db", environment=home).store
    assert not (project.parent / "elsewhere").exists()


@pytest.mark.parametrize("key", ["forbids", "forbidden"])
def test_a_misspelt_constraint_is_refused_where_it_would_open_something(project: Path, key: str) -> None:
    agents = project / "agents.md"
    agents.write_text(agents.read_text().replace("constraints:", f"constraints:\n  actions: {{{key}: ['write*']}}"))

    with pytest.raises(InvalidAgentFile, match=f"constraints.actions.{key}: Unknown key"):
        _ = opened().agent


def test_a_misspelt_constraints_section_is_refused_too(project: Path) -> None:
    agents = project / "agents.md"
    agents.write_text(agents.read_text().replace("constraints:", "constraint:"))

    with pytest.raises(InvalidAgentFile, match="constraint: Unknown key"):
        _ = opened().agent


def test_keys_of_other_tools_are_no_obstacle(project: Path) -> None:
    agents = project / "agents.md"
    agents.write_text(agents.read_text().replace("constraints:", "x-colour: red\nconstraints:"))

    assert opened().agent.name == "my-analytics-agent"


@pytest.mark.parametrize(
    "url",
    ["mysql://ada:secret@db/state", "sqlite://state.db", "state.db", "mysql://x"],
)
def test_an_address_that_cannot_be_used_is_refused_without_its_password(project: Path, url: str) -> None:
    with pytest.raises(UnusableState, match=r"^The state cannot be kept with ") as caught:
        _ = opened(f"state.url={url}").store

    assert caught.value.hint == "use a `sqlite:///` or `postgresql://` address in `state.url`"
    assert url.replace("secret", "***") in str(caught.value)


@pytest.mark.parametrize("url", ["sqlite:///", "sqlite:///agents.md", "sqlite:///agents.md/state.db"])
def test_an_address_that_leads_to_no_state_file_is_refused(project: Path, url: str) -> None:
    before = (project / "agents.md").read_bytes()

    with pytest.raises(UnreadableFile, match="cannot be used as the state file"):
        _ = opened(f"state.url={url}").store
    assert (project / "agents.md").read_bytes() == before


def test_a_key_comes_from_the_variable_that_the_settings_name(project: Path) -> None:
    assert opened().key is None
    assert opened("state.key_env=STATE_KEY", environment={"STATE_KEY": "é"}).key == "é".encode()
    assert opened("state.key_env=STATE_KEY", environment={"STATE_KEY": os.fsdecode(b"\xff")}).key == b"\xff"


@pytest.mark.parametrize("environment", [{}, {"STATE_KEY": ""}])
def test_a_key_that_is_not_set_is_refused(project: Path, environment: dict[str, str]) -> None:
    with pytest.raises(UnusableState, match="with the environment variable STATE_KEY") as caught:
        _ = opened("state.key_env=STATE_KEY", environment=environment).key

    assert caught.value.hint == "set it: `state.key_env` in agent.toml names it"


def test_what_was_opened_is_closed(project: Path) -> None:
    found = opened()
    store = found.store
    found.close()

    assert store is found.store
    with pytest.raises(RuntimeError, match="the state was closed"):
        store.read_now(lambda snapshot: snapshot.seal())


# Trust ----------------------------------------------------------------------------------------------------------------


def test_code_of_a_project_runs_only_where_its_root_is_trusted(project: Path, tmp_path: Path) -> None:
    (project / "agent.toml").touch()
    (project / "agents").mkdir()
    home = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    trusted = TrustedFolders(home)
    found = opened(agents="agents/x.md", environment=home)

    for folder in (project.parent, project / "agents"):
        trusted.add(str(folder))
        with pytest.raises(UntrustedFolder) as caught:
            found.require_trust("its lock starts commands")
        assert str(caught.value) == f"`{project}` is not trusted, and its lock starts commands"
        assert "agent trust-folder" in caught.value.hint
    trusted.add(str(project))
    found.require_trust("its lock starts commands")


def test_trust_in_a_project_is_no_trust_in_what_lies_below_it(project: Path, tmp_path: Path) -> None:
    (project / "agent.toml").write_text("[catalog]\nroots = ['team']\n")
    (project / "vendor" / "other").mkdir(parents=True)
    (project / "vendor" / "other" / "x.md").touch()
    (project / "team").mkdir()
    (project / "team" / "x.md").touch()
    home = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    TrustedFolders(home).add(str(project))

    opened(agents="team/x.md", environment=home).require_trust("its lock starts commands")
    vendored = opened(agents="vendor/other/x.md", environment=home)
    with pytest.raises(UntrustedFolder, match="vendor/other` is not trusted"):
        vendored.require_trust("its lock starts commands")
    TrustedFolders(home).add(str(project / "vendor" / "other"))
    vendored.require_trust("its lock starts commands")


def test_trust_in_what_lies_below_a_project_is_no_trust_in_its_settings(project: Path, tmp_path: Path) -> None:
    (project / "agent.toml").touch()
    (project / "vendor").mkdir()
    (project / "vendor" / "x.md").touch()
    home = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    TrustedFolders(home).add(str(project / "vendor"))

    with pytest.raises(UntrustedFolder) as caught:
        opened(agents="vendor/x.md", environment=home).require_trust("its settings load Python modules")
    assert caught.value.folders == (str(project),)


def test_settings_cover_no_folder_outside_of_their_own(project: Path, tmp_path: Path) -> None:
    (project / "agent.toml").write_text("[catalog]\nroots = ['/', '..', 'link']\n")
    (project / "link").symlink_to(tmp_path)

    assert opened().folders_to_trust([str(tmp_path / "mcp.index.json")]) == [str(tmp_path), str(project)]


def test_below_a_project_without_an_agent_file_only_its_root_counts(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "agent.toml").touch()
    (project / "below").mkdir()
    monkeypatch.chdir(project / "below")

    assert opened().folders_to_trust() == [str(project)]
    named = Session("agents.md", "mcp.index.json", environment={}, is_agent_named=True)
    assert named.folders_to_trust() == [str(project), str(project / "below")]


def test_what_the_settings_seal_or_believe_needs_trust_unless_the_operator_says_so(
    project: Path, tmp_path: Path
) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "STATE_KEY": "key"}
    believed = ("identity.issuer=https://id.example", "identity.audience=a")

    given = opened("state.key_env=STATE_KEY", *believed, environment=home)
    assert verifier_of(given)
    _ = given.store
    given.close()
    (project / "agent.toml").write_text(
        "[state]\nkey_env = 'STATE_KEY'\n[identity]\nissuer = 'https://id.example'\naudience = 'a'\n"
    )
    with pytest.raises(UntrustedFolder, match="its settings say who vouches for callers"):
        verifier_of(opened(environment=home))
    with pytest.raises(UntrustedFolder, match="its settings seal the state with a secret of this machine"):
        _ = opened(environment=home).store


def test_trust_may_be_given_for_once(project: Path, tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    opened(trusts=True, environment=home).require_trust("its lock starts commands")

    assert TrustedFolders(home).all() == []


# Its name -------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("project")
def test_a_project_is_named_by_its_settings_its_agent_or_its_folder(tmp_path: Path) -> None:
    (tmp_path / "desk").mkdir()
    without_agent = str(tmp_path / "desk" / "agents.md")

    assert opened("project.name=helpdesk").app_id == "helpdesk"
    assert opened(environment={"AGENT_PROJECT_NAME": "helpdesk"}).app_id == "helpdesk"
    assert opened().app_id == opened().agent.name
    assert opened(agents=without_agent).app_id == "desk"


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("is_compiled", [False, True])
def test_an_overlay_of_another_user_is_refused_beside_every_form_of_index(
    locked: Path, run: Run, *, is_compiled: bool
) -> None:
    """A large JSON index is read from a cache, which has the form of a compiled one."""
    overlay = locked / "mcp.overlay.yaml"
    overlay.write_text("{}")
    if is_compiled:
        assert run("index", "build", "-o", "compiled.db").code == 0
        (locked / "compiled.db").replace(locked / "mcp.index.json")
    os.chown(overlay, 12345, 12345)

    with pytest.raises(ForeignFile, match=r"mcp.overlay.yaml` belongs to the user"):
        _ = opened().lockfile


def test_a_compiled_index_that_changes_is_read_again_and_warns_once(project: Path, run: Run) -> None:
    """A server may run for days, and the index be built meanwhile."""
    assert run("index", "build").code == 0
    given: list[tuple[str, int]] = []
    session = Session(
        "agents.md", "mcp.index.db", environment={}, on_index=lambda path, issues: given.append((path, len(issues)))
    )
    assert len(session.servers_now()) == 2
    entries = json.loads((project / "mcp.index.json").read_text())
    (project / "mcp.index.json").write_text(json.dumps(entries[:1]))
    (project / "mcp.index.db").touch()
    for member in (session, session.for_agent("agents.md"), session.for_agent("agents.md")):
        assert len(member.servers_now()) == 2
    assert given == [("mcp.index.db", 1)]
    assert run("index", "build").code == 0

    assert len(session.servers_now()) == 1
    assert given == [("mcp.index.db", 1), ("mcp.index.db", 0)]
