"""The planner that the settings of a project ask for: its prompts, its model, and what that model may see."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.catalog import Catalog, CatalogIndex
from agent_resolver.catalog.query import Query
from agent_resolver.core.constraint import RunLimits
from agent_resolver.core.skill import SkillReading, read_skill, read_skill_changelog, skill_faults
from agent_resolver.project import InvalidSkills, Session, UntrustedFolder, close_planner, planner_of
from agent_resolver.project.planner import RuntimeAgent
from agent_resolver.project.skill import SHIPPED_SKILLS, load_skills
from agent_resolver.reasoner import AgentQuestion, AgentReply, ModelPlanner, OfflinePlanner, Planner
from agent_resolver.runtime import (
    AgentRuntimeBuilder,
    ChatAnswer,
    DataFacts,
    ModelNotFound,
    ModelSpec,
    ScriptedExecutor,
    Usage,
)
from agent_resolver.schema.classification import Classification
from agent_resolver.schema.planning import Classified, PlanRequest
from agent_resolver.storage.errors import UnreadableFile
from tests.reasoner.planner.manifest import ask

SHIPPED = Path(SHIPPED_SKILLS)
SETTINGS = """\
[providers.script]
adapter = "scripted"
script = "script.json"

[models.small]
provider = "script"
data = {{ residency = ["eu-only"], maxSensitivity = "{most}" }}

[models.unknown]
provider = "script"

[reasoner]
model = "{model}"
"""
LOOK = "How far are we with ticket 7"
READING = {"text": json.dumps({"parts": [{"part": 1, "tools": ["tickets.get"]}]})}
USAGE = {"usage": {"input_tokens": 30, "output_tokens": 5}}


class Desk:
    """A project of one folder, and its planners."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: list[Session] = []
        self.write()

    def write(self, model: str = "small", most: str = "internal", more: str = "") -> None:
        (self.folder / "agent.toml").write_text(SETTINGS.format(model=model, most=most) + more)

    def script(self, *answers: dict[str, Any]) -> None:
        (self.folder / "script.json").write_text(json.dumps([{**USAGE, **answer} for answer in answers]))

    def session(self, *, trusts: bool = True) -> Session:
        session = Session("./agents.md", "./mcp.index.json", environment={}, trusts=trusts)
        self._opened.append(session)
        return session

    def classify(self, request: PlanRequest, planner: Planner | None = None) -> Classified:
        async def story() -> Classified:
            asked = planner or planner_of(self.session())
            try:
                return await asked.classify(request)
            finally:
                await close_planner(asked)

        return asyncio.run(story())

    def close(self) -> None:
        for session in self._opened:
            session.close()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "desk"
    folder.mkdir()
    monkeypatch.chdir(folder)
    made = Desk(folder)
    yield made
    made.close()


# Prompts as code ------------------------------------------------------------------------------------------------------


def test_the_shipped_skills_are_as_their_changelog_says() -> None:
    """The gate: a prompt that changed under an old version fails here."""
    versions = read_skill_changelog((SHIPPED / "CHANGELOG.md").read_text(encoding="utf-8"))
    readings: dict[str, SkillReading] = {
        name: read_skill((SHIPPED / f"{name}.md").read_bytes()) for name in ("builder", "ops")
    }

    for reading in readings.values():
        assert reading.issues == ()
        assert reading.skill is not None
        assert skill_faults(reading.skill, versions) == ()
    assert {version.name for version in versions} == set(readings)


def test_the_shipped_skills_are_agents_of_a_catalog_as_they_are() -> None:
    catalog = Catalog([SHIPPED_SKILLS], CatalogIndex(None))
    catalog.refresh()

    found = catalog.search(Query(), None)

    assert [agent.name for agent in found] == ["builder", "ops"]
    catalog.close()


def test_a_changed_prompt_with_an_old_version_is_refused(desk: Desk) -> None:
    copied = shutil.copytree(SHIPPED, desk.folder / "skills")
    desk.write(more='skills = "skills"\n')
    desk.script(READING)
    assert isinstance(planner_of(desk.session()), ModelPlanner)

    changed = (copied / "ops.md").read_text(encoding="utf-8").replace("careful", "careless")
    (copied / "ops.md").write_text(changed, encoding="utf-8")

    with pytest.raises(InvalidSkills) as refused:
        planner_of(desk.session())
    ((path, (fault,)),) = refused.value.faults.items()
    assert Path(path) == (copied / "ops.md").resolve()
    assert fault.message == "The prompt of ops changed, and its version is still 1.0.0"


def test_a_new_version_with_its_section_is_taken(desk: Desk) -> None:
    copied = shutil.copytree(SHIPPED, desk.folder / "skills")
    raised = (copied / "ops.md").read_text(encoding="utf-8").replace("1.0.0", "1.1.0").encode()
    (copied / "ops.md").write_bytes(raised)
    skill = read_skill(raised).skill
    assert skill is not None
    log = copied / "CHANGELOG.md"
    log.write_text(f"## ops 1.1.0\n\nDigest: {skill.digest}\n\n- Better.\n\n{log.read_text(encoding='utf-8')}")

    assert load_skills(str(copied))["ops"].skill.label == "ops@1.1.0"


def test_a_skill_has_the_name_of_its_file_and_is_there(desk: Desk) -> None:
    copied = shutil.copytree(SHIPPED, desk.folder / "skills")
    (copied / "ops.md").write_bytes((copied / "builder.md").read_bytes())

    with pytest.raises(InvalidSkills) as refused:
        load_skills(str(copied))
    assert [issue.hint for issues in refused.value.faults.values() for issue in issues] == ["write `name: ops`"]
    (copied / "ops.md").unlink()
    with pytest.raises(UnreadableFile):
        load_skills(str(copied))


def test_a_changelog_that_is_not_text_has_no_sections(desk: Desk) -> None:
    copied = shutil.copytree(SHIPPED, desk.folder / "skills")
    (copied / "CHANGELOG.md").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(InvalidSkills) as refused:
        load_skills(str(copied))
    assert len(refused.value.faults) == 2


def test_skills_of_a_project_are_below_it_and_need_trust(desk: Desk) -> None:
    desk.write(more='skills = "../skills"\n')
    with pytest.raises(InvalidSkills):
        planner_of(desk.session())
    shutil.copytree(SHIPPED, desk.folder / "skills")
    desk.write(more='skills = "skills"\n')
    with pytest.raises(UntrustedFolder):
        planner_of(desk.session(trusts=False))


# The model ------------------------------------------------------------------------------------------------------------


def test_without_a_model_the_planner_is_the_offline_one(desk: Desk) -> None:
    (desk.folder / "agent.toml").write_text("")

    assert isinstance(planner_of(desk.session()), OfflinePlanner)


def test_a_model_of_the_settings_is_asked_and_its_tokens_count(desk: Desk) -> None:
    desk.script(READING)

    found = desk.classify(ask(LOOK))

    assert (found.tools, found.tokens) == (("tickets.get",), 35)
    assert found.codes == ("PLANNER_MODEL", "builder@1.0.0")


def test_an_argument_takes_the_place_of_the_settings(desk: Desk) -> None:
    (desk.folder / "agent.toml").write_text(SETTINGS.format(model="small", most="internal").partition("[reasoner]")[0])
    desk.script(READING)

    planner = planner_of(desk.session(), model="small", skills=SHIPPED_SKILLS)

    assert desk.classify(ask(LOOK), planner).tools == ("tickets.get",)


def test_a_name_that_means_no_model_is_refused_before_a_task_starts(desk: Desk) -> None:
    desk.write(model="smal")

    with pytest.raises(ModelNotFound, match="smal"):
        planner_of(desk.session())


@pytest.mark.parametrize(
    ("model", "most", "level"),
    [("unknown", "internal", "INTERNAL"), ("small", "public", "INTERNAL"), ("small", "confidential", "CONFIDENTIAL")],
)
def test_a_model_that_may_not_see_the_data_is_not_asked(
    desk: Desk, model: str, most: str, level: Classification
) -> None:
    desk.write(model=model, most=most)
    desk.script(READING)
    request = ask(LOOK)
    context = structs.replace(request.context, data_classification=level)

    found = desk.classify(structs.replace(request, context=context))

    assert (found.kind, found.tokens) == ("CAPABILITY", 0)
    assert found.codes == ("PLANNER_FALLBACK", "MODEL_NOT_ADMITTED")


def test_the_limits_of_the_agent_file_hold_for_the_model_too(desk: Desk) -> None:
    desk.script(READING)
    (desk.folder / "agents.md").write_text("---\nname: desk\nconstraints: { data: { residency: us-only } }\n---\nHi\n")

    assert desk.classify(ask(LOOK)).codes == ("PLANNER_FALLBACK", "MODEL_NOT_ADMITTED")


@pytest.mark.parametrize(
    "answer",
    [
        {"failure": {"kind": "overloaded"}},
        {"failure": {"kind": "content_filtered"}},
        {"text": "", "calls": [{"name": "tickets__get", "arguments": {}}]},
    ],
)
def test_a_model_that_fails_or_calls_something_is_a_fallback(desk: Desk, answer: dict[str, Any]) -> None:
    desk.script(answer)

    found = desk.classify(ask(LOOK))

    assert found.kind == "CAPABILITY"
    assert found.codes[0] == "PLANNER_FALLBACK"


def test_a_script_that_is_missing_is_a_fallback(desk: Desk) -> None:
    assert desk.classify(ask(LOOK)).codes == ("PLANNER_FALLBACK", "MODEL_FAILED")


def test_an_answer_is_repaired_in_the_same_conversation(desk: Desk) -> None:
    desk.script({"text": "I would read the ticket."}, READING)

    found = desk.classify(ask(LOOK))

    assert (found.tools, found.tokens) == (("tickets.get",), 70)


def test_a_model_that_refuses_our_settings_is_asked_without_them(desk: Desk) -> None:
    desk.script({"failure": {"kind": "invalid_request", "message": "no temperature"}}, READING)

    assert desk.classify(ask(LOOK)).tools == ("tickets.get",)


def test_a_model_is_asked_once_without_tools_and_held_to_the_contract() -> None:
    executor = ScriptedExecutor([ChatAnswer(text="{}", usage=Usage(8, 2))])
    spec = structs.replace(load_skills(SHIPPED_SKILLS)["ops"].spec, allowed_tools=())
    runtime = AgentRuntimeBuilder().with_executor(executor).with_agent_spec(spec).build()
    skill = load_skills(SHIPPED_SKILLS)["ops"].skill
    question = AgentQuestion(
        skill=skill,
        turns=("First", "Wrong", "Again"),
        schema={"type": "object"},
        classification="PUBLIC",
        trace_id="0" * 32,
        max_tokens=5,
    )

    unknown = asyncio.run(RuntimeAgent(runtime, RunLimits()).ask(question))
    assert unknown == AgentReply(obstacle="MODEL_NOT_ADMITTED"), "nothing is known of where its data goes"
    runtime = (
        AgentRuntimeBuilder()
        .with_provider("p", executor)
        .with_model(
            ModelSpec(id="default", provider_id="p", upstream_model="m", data=DataFacts(max_sensitivity="public"))
        )
        .with_agent_spec(spec)
        .build()
    )
    reply = asyncio.run(RuntimeAgent(runtime, RunLimits()).ask(question))

    (request,) = executor.requests
    assert reply == AgentReply(text="{}", tokens=10)
    assert (request.tools, request.temperature, request.max_output_tokens) == ((), 0, 5)
    assert request.response_schema == {"type": "object"}
    assert [message.role for message in request.messages] == ["system", "user", "assistant", "user"]
    assert request.messages[0].text == skill.body


def test_an_agent_that_is_not_there_does_not_answer(desk: Desk) -> None:
    async def story() -> AgentReply:
        planner = planner_of(desk.session())
        assert isinstance(planner, ModelPlanner)
        skill = load_skills(SHIPPED_SKILLS)["ops"].skill
        question = AgentQuestion(
            skill=structs.replace(skill, name="nobody"),
            turns=("?",),
            schema={},
            classification="PUBLIC",
            trace_id="0" * 32,
            max_tokens=5,
        )
        return await planner._agent.ask(question)

    assert asyncio.run(story()) == AgentReply(obstacle="MODEL_FAILED")
