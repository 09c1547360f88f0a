"""Plans are installed whole or not at all, inside of the project, and as the same bytes every time."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec import structs

from agent_resolver.capability import certify
from agent_resolver.project import Session, open_tools
from agent_resolver.project.assembly import InstallTool, ScaffoldTool
from agent_resolver.project.manifest import manifest_path, read_manifest
from agent_resolver.reasoner.artifact import Artifacts
from agent_resolver.registry import CallContext, ToolFailure, manifest_of
from agent_resolver.schema import FailureCode, local_caller, to_json
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.blueprint_file import blueprint_bytes
from agent_resolver.schema.manifest import manifest_digest
from agent_resolver.schema.planning import CapabilityDraft
from tests.conftest import Run

if TYPE_CHECKING:
    from agent_resolver.project.blueprint import CheckedBlueprint

MODULE = '''\
from typing import Annotated
from msgspec import Meta, Struct
from agent_resolver.capability import capability

Text = Annotated[str, Meta(description="A text.", examples=["a"])]


class Note(Struct, frozen=True, kw_only=True):
    """A note."""
    text: Text


@capability("notes.keep", idempotent=True, examples=[{"text": "a"}])
def keep(request: Note) -> Note:
    """Keep a note."""
    return request
'''
SETTINGS = '[tools]\nmodules = ["notes_module"]\nblueprints = ["blueprints"]\n'
PLAN: dict[str, Any] = {
    "blueprint_metadata": {"id": "plans.keep", "version": "1.0.0", "description": "Keep a note."},
    "dag": {
        "input_schema": {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "A text.", "examples": ["a"]}},
            "required": ["text"],
            "additionalProperties": False,
        },
        "steps": [{"id": "keep", "capability": "notes.keep", "input_mapping": {"text": "${input.text}"}}],
        "output_mapping": "${steps.keep.text}",
    },
    "acceptance_tests": [{"name": "a note", "input": {"text": "a"}, "results": {"keep": {"text": "a"}}, "output": "a"}],
    "security_logic": {"data_classification": "INTERNAL"},
}


class Desk:
    """A project with one capability, and the tools that change it."""

    def __init__(self, folder: Path) -> None:
        (folder / "notes_module.py").write_text(MODULE)
        (folder / "agent.toml").write_text(SETTINGS)
        self.folder = folder
        self.session = Session("agents.md", "mcp.index.json", environment={"HOME": str(folder)}, trusts=True)
        self.artifacts = Artifacts(self.session.store, self.session.seal)
        self.offered: list[CheckedBlueprint] = []

    def install(self, plan: Blueprint, task: str = "t1", name: str | None = None) -> Any:
        tool = InstallTool(self.session, self.artifacts, self.offered.append)

        async def call() -> Any:
            content = await self.artifacts.keep("t1", plan)
            arguments = {"task": task, "artifact": content, "id": name or plan.id}
            return await tool.invoke(arguments, structs.replace(CallContext.for_caller(local_caller("ada")), run="t1"))

        return asyncio.run(call())

    def scaffold(self, draft: CapabilityDraft) -> Any:
        tool = ScaffoldTool(self.session, self.artifacts)

        async def call() -> Any:
            content = await self.artifacts.keep("t1", draft)
            arguments = {"task": "t1", "artifact": content, "id": draft.id}
            return await tool.invoke(arguments, structs.replace(CallContext.for_caller(local_caller("ada")), run="t1"))

        return asyncio.run(call())

    @property
    def file(self) -> Path:
        return self.folder / "blueprints" / "plans.keep.json"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.chdir(tmp_path)
    yield Desk(tmp_path)
    sys.modules.pop("notes_module", None)


def plan(**metadata: Any) -> Blueprint:
    document = {**PLAN, "blueprint_metadata": {**PLAN["blueprint_metadata"], **metadata}}
    return msgspec.convert(document, Blueprint)


def test_a_plan_is_installed_and_offered(desk: Desk) -> None:
    assert desk.install(plan()) == {"tool": "plans.keep"}

    assert desk.file.read_bytes() == blueprint_bytes(plan())
    assert [each.descriptor.id for each in desk.offered] == ["plans.keep"]


def test_the_same_plan_is_the_same_bytes(desk: Desk) -> None:
    desk.install(plan())
    first, stamp = desk.file.read_bytes(), desk.file.stat().st_mtime_ns

    desk.install(plan())

    assert desk.file.read_bytes() == first
    assert desk.file.stat().st_mtime_ns == stamp, "a file with the same content is not written again"


def test_a_plan_gets_its_entry_in_the_committed_manifest(desk: Desk, run: Run) -> None:
    assert run("tools", "manifest", "--trust", "--out", "tools.manifest.json").code == 0

    desk.install(plan())

    manifest = read_manifest(manifest_path(desk.session))
    assert [tool.id for tool in manifest.tools] == ["notes.keep", "plans.keep"]
    assert run("tools", "certify", "--trust").code == 0


def test_a_drift_that_was_there_before_is_not_hidden(desk: Desk, run: Run) -> None:
    run("tools", "manifest", "--trust", "--out", "tools.manifest.json")
    path = desk.folder / "tools.manifest.json"
    manifest = read_manifest(str(path))
    other = structs.replace(manifest.tools[0], description="It used to say something else.")
    path.write_bytes(to_json(structs.replace(manifest, tools=(other,), digest=manifest_digest((other,)))))
    before = path.read_bytes()

    with pytest.raises(ToolFailure, match="drift"):
        desk.install(plan())

    assert path.read_bytes() == before
    assert not desk.file.exists()


def test_an_installation_that_does_not_certify_is_undone(desk: Desk) -> None:
    undescribed = json.loads(json.dumps(PLAN))
    del undescribed["dag"]["input_schema"]["properties"]["text"]["description"]

    with pytest.raises(ToolFailure, match="fields-described"):
        desk.install(msgspec.convert(undescribed, Blueprint))

    assert not desk.file.exists()
    assert not desk.offered


def test_another_blueprint_under_the_name_is_kept(desk: Desk) -> None:
    desk.install(plan())

    with pytest.raises(ToolFailure, match="another blueprint"):
        desk.install(plan(description="Another one."))

    assert desk.file.read_bytes() == blueprint_bytes(plan())


def test_a_folder_that_nothing_is_loaded_from_is_not_configured(desk: Desk) -> None:
    (desk.folder / "agent.toml").write_text(SETTINGS.replace('blueprints = ["blueprints"]\n', ""))
    desk.session = Session("agents.md", "mcp.index.json", environment={"HOME": str(desk.folder)}, trusts=True)

    with pytest.raises(ToolFailure) as caught:
        desk.install(plan())

    assert caught.value.code is FailureCode.NOT_CONFIGURED


@pytest.mark.parametrize("named", ["..", ".", "../other", "/"])
def test_a_folder_outside_of_the_project_is_refused(desk: Desk, named: str) -> None:
    (desk.folder / "agent.toml").write_text(f'{SETTINGS}\n[reasoner]\nblueprints = "{named}"\n')
    desk.session = Session("agents.md", "mcp.index.json", environment={"HOME": str(desk.folder)}, trusts=True)

    with pytest.raises(ToolFailure, match="not a folder below the project"):
        desk.install(plan())


def test_a_link_out_of_the_project_is_refused(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (desk.folder / "blueprints").symlink_to(outside)

    with pytest.raises(ToolFailure, match="not a folder below the project"):
        desk.install(plan())

    assert not list(outside.iterdir())


def test_a_task_installs_its_own_artifacts_alone(desk: Desk) -> None:
    with pytest.raises(ToolFailure, match="its own plans"):
        desk.install(plan(), task="t2")
    with pytest.raises(ToolFailure, match=r"not `plans\.other`"):
        desk.install(plan(), name="plans.other")


def test_what_is_installed_is_loaded_and_can_be_called(desk: Desk) -> None:
    desk.install(plan())

    async def call() -> Any:
        caller = local_caller("ada")
        async with open_tools(desk.session, caller=caller) as tools:
            return await tools.registry.call("plans.keep", {"text": "hello"}, CallContext.for_caller(caller))

    outcome = asyncio.run(call())

    assert getattr(outcome, "result", outcome) == "hello"


# Scaffolds ------------------------------------------------------------------------------------------------------------


def draft(**more: Any) -> CapabilityDraft:
    known: dict[str, Any] = {
        "id": "coffee.brew",
        "description": "Brew a coffee.",
        "input_schema": {"type": "object", "properties": {"cups": {"type": "integer"}}},
        "output_schema": {"type": "object"},
    }
    return CapabilityDraft(**{**known, **more})


def load_scaffold(desk: Desk, file: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(desk.folder / Path(file).parent))
    module = __import__(Path(file).stem)
    sys.modules.pop(Path(file).stem)
    return module


def test_a_scaffold_is_a_capability_that_refuses_to_run(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    found = desk.scaffold(draft())
    module = load_scaffold(desk, found["file"], monkeypatch)

    assert found == {"file": "drafts/coffee_brew.py"}
    assert module.brew.descriptor.id == "coffee.brew"
    assert certify([module.brew], None).success, certify([module.brew], None)
    assert manifest_of([module.brew.descriptor]).tools[0].id == "coffee.brew"


def test_a_scaffold_never_replaces_what_a_person_wrote(desk: Desk) -> None:
    desk.scaffold(draft())
    file = desk.folder / "drafts" / "coffee_brew.py"
    file.write_text("mine")

    desk.scaffold(draft())

    assert file.read_text() == "mine"


HOSTILE = (
    '"""\nimport os; os.system("touch pwned")\n"""',
    "'''); __import__('os').system('touch pwned') #",
    "\\",
    "{__import__('os')}",
    "line\r\nimport os",
)


@pytest.mark.parametrize("words", HOSTILE)
def test_no_word_of_a_request_becomes_code(desk: Desk, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {words: {"type": "string", "description": words}, "class": {"type": "string", "description": words}}
    hostile = draft(
        id="evil.do_it",
        description=words,
        input_schema={"type": "object", "properties": fields},
        output_schema={"type": "object", "properties": fields},
    )

    module = load_scaffold(desk, desk.scaffold(hostile)["file"], monkeypatch)

    assert module.do_it.descriptor.id == "evil.do_it"
    assert not (desk.folder / "pwned").exists()
