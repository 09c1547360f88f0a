"""The agents of a project as the runtime sees them: files, locks, models, remotes and tools, all of them real."""

import re
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec import structs

from agent_resolver.catalog import Catalog, CatalogIndex
from agent_resolver.core import DifferenceKind
from agent_resolver.project import CatalogAgents, ProjectLocks, Session, UntrustedFolder
from agent_resolver.runtime import (
    AgentNotFound,
    BuildError,
    ConstraintBroken,
    HeldLock,
    InvalidSpec,
    LockMissing,
    LockStale,
    ResolveError,
    Switch,
    dangling,
    resolve,
)
from agent_resolver.storage import UnreadableFile
from tests.conftest import Run
from tests.project.conftest import BOUND, CONFIG, Open, planned
from tests.runtime.document import document_of

DATA = Path(__file__).parents[3] / "shared" / "data" / "agents"

NOT_KNOWN = (
    "Agent sensitivity 'internal' but the remote agent's max is not known",
    "Agent requires 'eu-only' but the remote agent's residency is not known",
)


def write(path: Path, front_matter: str, body: str = "Help.\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\n{front_matter}---\n{body}")


# Locks ----------------------------------------------------------------------------------------------------------------


def test_a_lock_that_holds_opens_tools_within_its_scopes(locked: Path, look: Open) -> None:
    found = planned(look())

    assert [(tool.id, tool.source, tool.origin) for tool in found.tools.values()] == [
        ("crm.find", "server", "crm@1.0.0"),
        ("crm.save", "server", "crm@1.0.0"),
    ]
    assert [(tool.id, tool.code, tool.reason) for tool in found.absent] == [
        ("crm.delete", "FORBIDDEN_ACTION", "Agent forbids '*delete*' which matches 'delete'"),
        ("crm.merge", "SCOPE_NOT_LOCKED", "It needs scopes that are not locked: contacts.admin"),
    ]
    assert found.unconnected == ("mail@1.0.0",)
    assert found.warnings == ()


def test_tools_that_no_map_tells_apart_are_admitted_by_name(locked: Path, look: Open) -> None:
    found = planned(look(flags=('tools.admit=["mail.send", "mail.delete_all", "crm.merge"]',)))

    assert list(found.tools) == ["crm.find", "crm.save", "mail.send"]
    assert [tool.id for tool in found.absent] == ["crm.delete", "crm.merge", "mail.delete_all"]


def test_the_catalog_of_the_agent_narrows_what_the_lock_opens(locked: Path, look: Open) -> None:
    text = BOUND.replace("constraints:\n", "tools: crm.find, crm.merge, Read\nconstraints:\n")
    (locked / "agents" / "bound.md").write_text(text)
    found = planned(look())

    assert list(found.tools) == ["crm.find"]
    assert [(tool.id, tool.code) for tool in found.absent] == [
        ("crm.delete", "FORBIDDEN_ACTION"),
        ("crm.merge", "SCOPE_NOT_LOCKED"),
        ("crm.save", "NOT_ALLOWED"),
    ]
    assert [str(warning.subject) for warning in found.warnings] == ["Read"]


def test_without_a_lock_there_is_no_plan(folder: Path, look: Open) -> None:
    with pytest.raises(LockMissing) as caught:
        planned(look())

    assert str(caught.value) == "agent bound requires servers and has no lock: agents/bound.lock is missing"
    assert caught.value.hint == "run `agent resolve --agents agents/bound.md`"


def test_without_requires_there_are_no_tools_of_servers(locked: Path, look: Open) -> None:
    write(locked / "agents" / "bound.md", "name: bound\n")

    found = planned(look())

    assert (list(found.tools), found.absent, found.unconnected) == ([], (), ())


@pytest.mark.slow
def test_any_edited_byte_of_a_lock_is_noticed(locked: Path, look: Open) -> None:
    """Every position, with another byte there, with one byte more, and without it."""
    path = locked / "agents" / "bound.lock"
    whole = path.read_bytes()
    snapshot = look()
    catalog = Catalog([str(locked / "agents")], CatalogIndex(None))
    catalog.refresh()
    agents, project = CatalogAgents(catalog, (), {}), Session("./agents.md", "./mcp.index.json", environment={})
    unnoticed = []
    for position in range(len(whole)):
        before, byte, after = whole[:position], whole[position], whole[position + 1 :]
        for between in (bytes([byte ^ 1]), bytes([32, byte]), b""):
            path.write_bytes(before + between + after)
            # The same project, but with nothing known of its lock.
            again = structs.replace(snapshot, locks=ProjectLocks(project, agents))
            with suppress(LockStale):
                unnoticed.append((position, list(planned(again).tools)))
    # No hash covers the time that a lock gives: another time is another time, and opens nothing.
    time = re.search(rb'"resolvedAt": "(.*)"', whole)
    assert time is not None
    assert {position for position, _ in unnoticed} <= set(range(*time.span(1)))
    assert all(tools == ["crm.find", "crm.save"] for _, tools in unnoticed)
    path.write_bytes(whole)
    assert list(planned(look()).tools) == ["crm.find", "crm.save"]
    catalog.close()


@pytest.mark.parametrize(
    ("file", "change", "kind"),
    [
        ("agents/bound.md", ("version: 1.0.0", "version: 1.0.1"), DifferenceKind.AGENT_CHANGED),
        ("agents/bound.md", ("category: mail", "category: post"), DifferenceKind.REQUIREMENT_CHANGED),
        ("agents/bound.md", ("sensitivity: internal", "sensitivity: pii.high"), DifferenceKind.NOT_ELIGIBLE),
        ("mcp.index.json", ("crm.example", "other.example"), DifferenceKind.ENDPOINT_MOVED),
        ("mcp.index.json", ('"version": "1.0.0"', '"version": "1.0.1"'), DifferenceKind.SERVER_VANISHED),
        ("agents/bound.lock", ('"crm"', '"CRM"'), DifferenceKind.HASH_EDITED),
    ],
)
def test_a_lock_is_held_against_the_agent_file_and_the_index(
    locked: Path, look: Open, file: str, change: tuple[str, str], kind: DifferenceKind
) -> None:
    content = (locked / file).read_text()
    assert change[0] in content
    (locked / file).write_text(content.replace(*change, 1))

    with pytest.raises(LockStale) as caught:
        planned(look())

    assert str(caught.value) == "agent bound has a lock that does not hold: agents/bound.lock"
    assert kind in {difference.kind for difference in caught.value.details}
    assert caught.value.hint


def test_another_prompt_needs_no_other_lock(locked: Path, look: Open) -> None:
    path = locked / "agents" / "bound.md"
    path.write_text(path.read_text() + "Always.\n")

    assert planned(look()).spec.system_prompt == "You keep contacts.\nAlways."


def test_an_agent_file_that_cannot_be_locked_is_told_with_its_faults(locked: Path, look: Open) -> None:
    path = locked / "agents" / "bound.md"
    path.write_text(BOUND.replace("      permissions: [send]\n", "").replace("version: 1.0.0\n", ""))
    with pytest.raises(InvalidSpec) as caught:
        planned(look())
    assert [str(issue) for issue in caught.value.issues] == [
        "version: Required",
        "requires.mcp.1.permissions: Required",
    ]
    assert caught.value.source == "agents/bound.md"

    path.write_text(BOUND.replace("    - category: mail", "    - optional: true\n      category: mail"))
    with pytest.raises(InvalidSpec, match=r"requires.mcp.1.optional: Unknown key"):
        planned(look())


def test_a_lock_cannot_be_verified_without_an_index(locked: Path, look: Open) -> None:
    (locked / "mcp.index.json").unlink()

    with pytest.raises(UnreadableFile):
        planned(look())


def test_a_lock_that_cannot_be_read_is_no_missing_one(locked: Path, look: Open) -> None:
    (locked / "agents" / "bound.lock").unlink()
    (locked / "agents" / "bound.lock").mkdir()

    with pytest.raises(UnreadableFile):
        planned(look())


def test_locks_are_listed_for_the_agents_that_need_one(locked: Path, look: Open) -> None:
    write(locked / "agents" / "free.md", "name: free\n")
    locks = look().locks

    assert (list(locks), len(locks), "free" in locks) == (["bound"], 1, False)
    assert isinstance(locks["bound"], HeldLock)
    assert locks["bound"] is locks["bound"]
    with pytest.raises(KeyError):
        locks["nobody"]


# Agents ---------------------------------------------------------------------------------------------------------------


def test_an_agent_file_at_the_root_is_an_agent_as_well(folder: Path, look: Open) -> None:
    write(folder / "agents.md", "name: root\nmodel: sonnet\n", "You are the root.\n")
    snapshot = look("agents", "agents.md")

    assert snapshot.agents.ids() == ["bound", "root"]
    assert planned(snapshot, "root").spec.system_prompt == "You are the root."


def test_of_two_agents_with_one_name_each_has_its_own_id_and_lock(folder: Path, look: Open, run: Run) -> None:
    (folder / "agents" / "bound.md").unlink()
    for place in ("one", "two"):
        (folder / "agents" / place).mkdir()
        (folder / "agents" / place / "bound.md").write_text(BOUND)
    assert run("resolve", "--agents", "agents/two/bound.md").code == 0
    snapshot = look()

    assert snapshot.agents.ids() == ["bound", "two/bound"]
    assert planned(snapshot, "two/bound").spec.id == "two/bound"
    for name in ("two/bound", "agent://two/bound", "agent://two/bound?version=1.0.0"):
        assert list(planned(snapshot, name).tools) == ["crm.find", "crm.save"]
    for name in ("bound", "agent://bound", "agent://one/bound", "one/bound"):
        with pytest.raises(LockMissing, match=r"agent bound requires servers and has no lock: agents/one/bound\.lock"):
            planned(snapshot, name)


@pytest.mark.parametrize(
    "name", ["nobody", "", "/", "..", "agent://", "agent://a//b", "http://x", "\udcff", "x" * 5000]
)
def test_who_is_not_there_is_not_found(folder: Path, look: Open, name: str) -> None:
    with pytest.raises(AgentNotFound):
        resolve(look(), name)


def test_an_agent_with_an_odd_name_is_found_by_it(folder: Path, look: Open) -> None:
    write(folder / "agents" / "odd.md", 'name: "Über 100% & co"\n')
    snapshot = look()

    assert "Über 100% & co" in snapshot.agents.ids()
    assert planned(snapshot, "Über 100% & co").spec.id == "Über 100% & co"


def test_delegates_are_found_by_name_or_address_here_and_elsewhere(folder: Path, look: Open) -> None:
    write(folder / "agents" / "team" / "helper.md", "name: helper\ndescription: Helps.\n")
    write(folder / "agents" / "lead.md", "name: lead\nruntime: {delegates: ['agent://helper', partner]}\n")
    partner = 'remotes.partner={url="https://partner.example", token_env="T", data={residency=["us-only"]}}'
    snapshot = look(flags=(partner,))

    assert snapshot.agents.ids() == ["bound", "helper", "lead", "partner"]
    assert list(planned(snapshot, "lead").tools) == ["agent_run_helper", "agent_run_partner"]
    assert document_of(resolve(snapshot, "partner"))["endpoint"] == {
        "base_url": "https://partner.example",
        "backend": "a2a",
        "auth": {"type": "bearer", "token_env": "T"},
        "timeout_ms": 300_000,
        "data": {"residency": ["us-only"]},
    }


def test_a_file_comes_before_a_remote_of_the_same_name(folder: Path, look: Open) -> None:
    write(folder / "agents" / "helper.md", "name: helper\n")
    snapshot = look(flags=('remotes.helper.url="https://partner.example"',))

    assert snapshot.agents.ids() == ["bound", "helper"]
    assert planned(snapshot, "helper").model.id == "default"


# Constraints ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        (
            'models.default.data={residency=["us-only"], maxSensitivity="pii.high"}',
            "model default: RESIDENCY_MISMATCH: Agent requires 'eu-only' but model supports: us-only",
        ),
        (
            'models.default.data={residency=["any"], maxSensitivity="public"}',
            "model default: SENSITIVITY_EXCEEDED: Agent sensitivity 'internal' exceeds model max 'public'",
        ),
        (
            'remotes.partner.data={residency=["us-only", "eu-only"]}',
            f"remote agent partner: SENSITIVITY_UNKNOWN: {NOT_KNOWN[0]}",
        ),
        (
            'remotes.partner.data={maxSensitivity="pii.high"}',
            f"remote agent partner: RESIDENCY_UNKNOWN: {NOT_KNOWN[1]}",
        ),
    ],
)
def test_what_the_agent_file_constrains_holds_for_models_and_remotes(
    folder: Path, look: Open, flag: str, message: str
) -> None:
    write(
        folder / "agents" / "held.md",
        "name: held\nconstraints: {data: {residency: eu-only, sensitivity: internal}}\n"
        "runtime: {delegates: [partner]}\n",
    )
    with pytest.raises(ConstraintBroken) as caught:
        resolve(look(flags=('remotes.partner.url="https://partner.example"', flag)), "held")

    assert str(caught.value) == f"agent held cannot use {message}"


# Settings -------------------------------------------------------------------------------------------------------------


def test_pools_prices_and_modalities_come_from_the_settings(folder: Path, look: Open) -> None:
    write(folder / "agents" / "pooled.md", "name: pooled\nmodel: both\n")
    (folder / "agent.toml").write_text(
        CONFIG
        + """\
[models.large]
provider = "local"
upstream_model = "large"
context_window = 100000
max_output_tokens = 4000
knowledge_cutoff = "2025-01"
prices = { input = 1.0, output = 2.0 }
modalities = { input = ["text", "image"], output = ["text"] }
[pools.both]
models = ["sonnet", "large"]
"""
    )
    snapshot = look()
    found = planned(snapshot, "pooled")

    assert sorted(seat.model.id for seat in found.seats) == ["default", "large"]
    assert found.model.context_window == 8000
    assert snapshot.models["large"].cost(1_000_000, 500_000) == 2.0
    assert snapshot.models["large"].modalities.input == ("text", "image")


def test_members_of_a_pool_have_weights_and_roles_in_the_settings(folder: Path, look: Open) -> None:
    write(folder / "agents" / "pooled.md", "name: pooled\nmodel: three\n")
    models = (
        'models.heavy={provider="local", upstream_model="h"}',
        'models.spare={provider="local", upstream_model="s"}',
    )
    members = '[{model="spare", role="failover_only", weight=9000}, {model="heavy", weight=9000}]'
    pool = f'pools.three={{models=["default"], members={members}, switch={{on_quota=false}}}}'
    snapshot = look(flags=(*models, pool))

    assert [seat.model.id for seat in planned(snapshot, "pooled").seats] == ["heavy", "default", "spare"]
    assert [(each.model_id, each.weight, each.role) for each in snapshot.pools["three"].members] == [
        ("default", 1, "member"),
        ("spare", 9000, "failover_only"),
        ("heavy", 9000, "member"),
    ]
    assert snapshot.pools["three"].switch == Switch(on_quota=False)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("models.default.context_window=0", "invalid model 'default': context_window: Must be 1 or more"),
        ('models.default.knowledge_cutoff="soon"', "knowledge_cutoff must be YYYY-MM or YYYY-MM-DD"),
        ('models.x={provider="local", upstream_model="x", aliases=["sonnet"]}', "duplicate model alias 'sonnet'"),
        ("pools.none={models=[]}", "invalid model pool 'none': members must not be empty"),
        ('pools.x={models=["default"], members=[{model="default"}]}', "invalid model pool 'x': members has duplicates"),
        (
            'pools.x={members=[{model="default", role="failover_only"}]}',
            "at least one member must not be failover_only",
        ),
    ],
)
def test_settings_that_cannot_be_are_told(folder: Path, look: Open, flag: str, message: str) -> None:
    with pytest.raises(BuildError) as caught:
        look(flags=(flag,))

    assert message in str(caught.value)


def test_the_projects_own_functions_are_tools_once_somebody_trusts_it(folder: Path, look: Open) -> None:
    write(folder / "agents" / "held.md", "name: held\nconstraints: {actions: {forbid: ['*write']}}\n")
    (folder / "plan_tools.py").write_text(
        '''\
from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver.capability import capability


class Asked(Struct):
    """What is asked."""

    text: Annotated[str, Meta(description="A text", examples=["x"])]


@capability("notes.read", classification="INTERNAL", scopes=["notes:read"], idempotent=True, examples=[{"text": "x"}])
def read(asked: Asked) -> Asked:
    """Read a note."""
    return asked


@capability("notes.add", classification="INTERNAL", scopes=["notes:write"], idempotent=True, examples=[{"text": "x"}])
def add(asked: Asked) -> Asked:
    """Add a note."""
    return asked
'''
    )
    flag = 'tools.modules=["plan_tools"]'
    with pytest.raises(UntrustedFolder):
        look(flags=(flag,))

    found = planned(look(flags=(flag,), trusts=True), "held")

    assert list(found.tools) == ["notes.read"]
    assert [(tool.id, tool.code) for tool in found.absent] == [("notes.add", "FORBIDDEN_ACTION")]


# All of it at once ----------------------------------------------------------------------------------------------------


def test_every_dangling_reference_is_reported_also_of_unreadable_files(folder: Path, look: Open) -> None:
    write(
        folder / "agents" / "lost.md",
        "name: lost\nmodel: gone\nruntime: {plugin_ids: [gone], delegates: [broken, no]}\n",
    )
    write(folder / "agents" / "broken.md", "name: broken\nruntime: 5\n")

    assert list(map(str, dangling(look()))) == [
        "agent broken: it is invalid: runtime: Expected object",
        "agent lost: there is no agent no",
        "agent lost: there is no model gone",
        "agent lost: there is no plugin gone",
    ]


@pytest.mark.skipif(not DATA.is_dir(), reason="the published agent files are not at hand")
def test_every_published_agent_file_has_a_plan(folder: Path, look: Open) -> None:
    snapshot = look(str(DATA))
    ids = list(snapshot.agents.ids())
    faults: dict[str, ResolveError] = {}
    warned = 0
    for agent_id in ids:
        try:
            warned += bool(planned(snapshot, agent_id).warnings)
        except ResolveError as error:
            faults[agent_id] = error

    assert faults == {}
    assert len(ids) == 273
    assert warned == 14  # Those that name tools; none of them is here.
