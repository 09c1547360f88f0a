"""The settings of a project: every table typed, every fault located, the later layer wins."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import UNSET, structs

from agent_resolver.project import (
    Catalog,
    Config,
    Engine,
    Health,
    Identity,
    InvalidConfig,
    Knowledge,
    Layers,
    Loaded,
    Model,
    ModelData,
    OAuth,
    Policy,
    Prices,
    ProjectFacts,
    Provider,
    Reasoner,
    Remote,
    ServerAccess,
    State,
    Tools,
    load_config,
)
from tests.schema.sample import shown
from tests.strategies import law

ENGINES = "Invalid enum value. Expected 'dbos' | 'memory' | 'temporal'"
EVERYTHING = """\
[catalog]
roots = ["agents", "more"]

[models.default]
provider = "local"
upstream_model = "smol"
context_window = 8192
prices = { input = 1, output = 2.5 }
data.residency = ["eu-only"]
data.maxSensitivity = "pii.low"
aliases = ["sonnet"]

[providers.local]
adapter = "openai"
base_url = "http://localhost:8080/v1"
api_key_env = "LOCAL_KEY"

[servers."acme.com"]
token_env = "ACME_TOKEN"

[servers.other.oauth]
client_id = "agent"
client_secret_env = "OTHER_SECRET"
issuer = "https://id.example"

[tools]
modules = ["hello_tools"]
blueprints = ["blueprints"]
admit = ["acme.read"]

[remotes.partner]
url = "https://partner.example"

[engine]
kind = "memory"
address = "localhost:7233"

[state]
url = "sqlite:///state.db"
key_env = "STATE_KEY"

[identity]
issuer = "https://id.example"
audience = "agents"

[knowledge]
roots = ["docs"]

[health]
prometheus = "http://localhost:9090"

[policy]
file = "agent.policy.yaml"

[project]
name = "helpdesk"

[reasoner]
tools = ["tickets.*"]
egress = ["*.example.com"]
max_iterations = 5
token_limit = 10_000
blueprints = "plans"
drafts = "sketches"
environment = "stg"
"""


def load(text: str = "", *flags: str, **environment: str) -> Loaded:
    return load_config(
        Layers(file="agent.toml" if text else None, content=text.encode(), environment=environment, flags=flags)
    )


def refused(text: str = "", *flags: str, **environment: str) -> tuple[str, list[str]]:
    """The layer that is refused, and every fault of it."""
    with pytest.raises(InvalidConfig) as caught:
        load(text, *flags, **environment)
    return caught.value.source, shown(caught.value.issues)


def faults(text: str) -> list[str]:
    source, found = refused(text)
    assert source == "agent.toml"
    return found


def origins(loaded: Loaded) -> dict[str, str]:
    return {setting.key: setting.origin for setting in loaded.settings if setting.origin != "default"}


# Tables ---------------------------------------------------------------------------------------------------------------


def test_every_table_has_its_type() -> None:
    assert load(EVERYTHING).config == Config(
        catalog=Catalog(roots=("agents", "more")),
        models={
            "default": Model(
                provider="local",
                upstream_model="smol",
                context_window=8192,
                prices=Prices(input=1.0, output=2.5),
                data=ModelData(residency=("eu-only",), max_sensitivity="pii.low"),
                aliases=("sonnet",),
            )
        },
        providers={
            "local": Provider(adapter="openai", base_url="http://localhost:8080/v1", api_key_env="LOCAL_KEY"),
        },
        servers={
            "acme.com": ServerAccess(token_env="ACME_TOKEN"),
            "other": ServerAccess(
                oauth=OAuth(client_id="agent", client_secret_env="OTHER_SECRET", issuer="https://id.example")
            ),
        },
        tools=Tools(modules=("hello_tools",), blueprints=("blueprints",), admit=("acme.read",)),
        remotes={"partner": Remote(url="https://partner.example")},
        engine=Engine(kind="memory", address="localhost:7233"),
        state=State(url="sqlite:///state.db", key_env="STATE_KEY"),
        identity=Identity(issuer="https://id.example", audience="agents"),
        knowledge=Knowledge(roots=("docs",)),
        health=Health(prometheus="http://localhost:9090"),
        policy=Policy(file="agent.policy.yaml"),
        project=ProjectFacts(name="helpdesk"),
        reasoner=Reasoner(
            tools=("tickets.*",),
            egress=("*.example.com",),
            max_iterations=5,
            token_limit=10_000,
            blueprints="plans",
            drafts="sketches",
            environment="stg",
        ),
    )


def test_nothing_needs_to_be_set() -> None:
    loaded = load()

    assert loaded.config == Config()
    assert loaded.config.state.url == "sqlite:///.agent/state.db"
    assert {setting.origin for setting in loaded.settings} == {"default"}
    assert load("# nothing").config == Config()


def test_every_value_says_where_it_came_from() -> None:
    assert origins(load(EVERYTHING)) == {
        "catalog.roots": "agent.toml:2:1",
        "models.default.provider": "agent.toml:5:1",
        "models.default.upstream_model": "agent.toml:6:1",
        "models.default.context_window": "agent.toml:7:1",
        "models.default.prices.input": "agent.toml:8:1",
        "models.default.prices.output": "agent.toml:8:1",
        "models.default.data.residency": "agent.toml:9:1",
        "models.default.data.maxSensitivity": "agent.toml:10:1",
        "models.default.aliases": "agent.toml:11:1",
        "providers.local.adapter": "agent.toml:14:1",
        "providers.local.base_url": "agent.toml:15:1",
        "providers.local.api_key_env": "agent.toml:16:1",
        "servers.acme.com.token_env": "agent.toml:19:1",
        "servers.other.oauth.client_id": "agent.toml:22:1",
        "servers.other.oauth.client_secret_env": "agent.toml:23:1",
        "servers.other.oauth.issuer": "agent.toml:24:1",
        "tools.modules": "agent.toml:27:1",
        "tools.blueprints": "agent.toml:28:1",
        "tools.admit": "agent.toml:29:1",
        "remotes.partner.url": "agent.toml:32:1",
        "engine.kind": "agent.toml:35:1",
        "engine.address": "agent.toml:36:1",
        "state.url": "agent.toml:39:1",
        "state.key_env": "agent.toml:40:1",
        "identity.issuer": "agent.toml:43:1",
        "identity.audience": "agent.toml:44:1",
        "knowledge.roots": "agent.toml:47:1",
        "health.prometheus": "agent.toml:50:1",
        "policy.file": "agent.toml:53:1",
        "project.name": "agent.toml:56:1",
        "reasoner.tools": "agent.toml:59:1",
        "reasoner.egress": "agent.toml:60:1",
        "reasoner.max_iterations": "agent.toml:61:1",
        "reasoner.token_limit": "agent.toml:62:1",
        "reasoner.blueprints": "agent.toml:63:1",
        "reasoner.drafts": "agent.toml:64:1",
        "reasoner.environment": "agent.toml:65:1",
    }


def test_settings_come_by_key_with_those_that_are_unset() -> None:
    listed = load('[models.a]\nprovider = "p"\nupstream_model = "m"\n').settings
    keys = [setting.key for setting in listed]

    assert keys == sorted(keys)
    assert {setting.key: setting.value for setting in listed if setting.value is None} == dict.fromkeys(
        [
            "engine.address",
            "engine.api_key_env",
            "engine.ca_file",
            "health.prometheus",
            "identity.audience",
            "identity.client_id",
            "identity.client_secret_env",
            "identity.issuer",
            "policy.file",
            "project.name",
            "reasoner.evals",
            "reasoner.model",
            "reasoner.skills",
            "reasoner.token_limit",
            "state.key_env",
            "state.old_key_env",
            "state.password_env",
        ]
    )
    assert [setting for setting in listed if setting.key == "models.a.aliases"] == [
        structs.replace(listed[0], key="models.a.aliases", value=(), origin="default")
    ]


# Refused --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[sate]", "1:2 sate: Unknown key (did you mean `state`?)"),
        ("\n[state]\n  urll = 'x'", "3:3 state.urll: Unknown key (did you mean `url`?)"),
        ("[remotes.a]\nurl='x'\nurls=[]", "3:1 remotes.a.urls: Unknown key"),
        ("[servers.acme]\ntoken = 'secret'", "2:1 servers.acme.token: Unknown key (did you mean `token_env`?)"),
        ("[tools]\nadmit = [{}]", "2:1 tools.admit.0: Expected string, received object"),
        ("banana = 1", "1:1 banana: Unknown key"),
        ("state = 'x'", "1:1 state: Expected object, received string"),
        ("[[tools]]", "1:3 tools: Expected object, received array"),
        ("[state]\nurl = 5", '2:1 state.url: Expected string, received number (quote it: "5")'),
        ("[state]\nurl = true", '2:1 state.url: Expected string, received boolean (quote it: "true")'),
        ("[state]\nurl = ''", "2:1 state.url: String must contain at least 1 character(s)"),
        ("[state]\nurl = 'a\tb'", "2:1 state.url: Must not contain control characters, found U+0009"),
        (
            '[state]\nurl = "a\\u200eb"',
            "2:1 state.url: Contains the invisible character U+200E (LEFT-TO-RIGHT MARK) (remove it)",
        ),
        ("[state]\nurl = 2026-01-31", "2:1 (file): No key takes a date or time (write it in quotes)"),
        ("[catalog]\nroots = 'agents'", "2:1 catalog.roots: Expected array, received string"),
        ("[catalog]\nroots = ['a', 2]", '2:1 catalog.roots.1: Expected string, received number (quote it: "2")'),
        (
            "[engine]\nkind = 'dbo'",
            f"2:1 engine.kind: {ENGINES}, received 'dbo' (did you mean `dbos`?)",
        ),
        ("[remotes.a]", "1:2 remotes.a.url: Required"),
        ("[remotes]\na = 'https://x'", "2:1 remotes.a: Expected object, received string"),
        ("[models.a]\nupstream_model = 'm'", "1:2 models.a.provider: Required"),
        ('[remotes."a\\u0007"]\nurl = "x"', "1:2 remotes.a\x07: Must not contain control characters, found U+0007"),
        ("[remotes.'']\nurl = 'x'", "1:2 remotes.: String must contain at least 1 character(s)"),
        ("[state\n", "1:7 (file): Invalid TOML: Expected ']' at the end of a table declaration"),
    ],
)
def test_a_fault_is_refused_at_its_line_and_column(text: str, expected: str) -> None:
    assert faults(text) == [expected]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1.5", "Expected integer, received float"),
        ("8e3", "Expected integer, received float"),
        ("nan", "Expected integer, received float"),
        ("true", "Expected number, received boolean"),
        ("'8192'", "Expected number, received string"),
        ("[8192]", "Expected number, received array"),
        ("{ tokens = 8192 }", "Expected number, received object"),
    ],
)
def test_a_context_window_is_a_whole_number(value: str, expected: str) -> None:
    text = f"[models.a]\nprovider = 'p'\nupstream_model = 'm'\ncontext_window = {value}"

    assert faults(text) == [f"4:1 models.a.context_window: {expected}"]


@pytest.mark.parametrize("value", ["8192", "8_192", "0x2000", "-1", "123456789012345678901234567890"])
def test_a_whole_number_may_be_spelled_as_toml_has_it(value: str) -> None:
    loaded = load(f"[models.a]\nprovider = 'p'\nupstream_model = 'm'\ncontext_window = {value}")

    assert loaded.config.models["a"].context_window == int(value, 0)


def test_a_price_is_a_finite_number() -> None:
    text = "[models.a]\nprovider = 'p'\nupstream_model = 'm'\nprices = {{ input = {}, output = 1 }}"

    assert faults(text.format("inf")) == ["4:1 models.a.prices.input: Number out of range"]
    assert faults(text.format("'1'")) == ["4:1 models.a.prices.input: Expected number, received string"]
    assert faults(text.replace(", output = 1", "").format(1)) == ["4:1 models.a.prices.output: Required"]


def test_all_faults_of_the_file_arrive_together_in_its_order() -> None:
    text = "[state]\nurl = 5\nkey = 'K'\n[engine]\nkind = 'x'\n[remotes.a]\n[toolz]\nadmit = 1\n"

    assert faults(text) == [
        '2:1 state.url: Expected string, received number (quote it: "5")',
        "3:1 state.key: Unknown key (did you mean `key_env`?)",
        "5:1 engine.kind: Invalid enum value. Expected 'dbos' | 'memory' | 'temporal', received 'x'",
        "6:2 remotes.a.url: Required",
        "7:2 toolz: Unknown key (did you mean `tools`?)",
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"[state]\nurl = '\xff'", "2:8 (file): Byte 0xff is not valid UTF-8 (save the file as UTF-8)"),
        (b"[state]\0", "1:8 (file): The file holds a NUL character (remove it, or save the file as plain text)"),
        ("[state]".encode("utf-16"), "1:1 (file): The file is UTF-16, not UTF-8 (save the file as UTF-8)"),
        (b"a = " + b"[" * 5000, "1:1 (file): Values nest deeper than 64 levels"),
        (b"a = " + b"1" * 5000, "1:5 (file): A number has more than 250 digits"),
    ],
)
def test_a_file_that_is_no_text_or_no_end_of_it_is_refused(content: bytes, expected: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        load_config(Layers(file="agent.toml", content=content))

    assert shown(caught.value.issues) == [expected]
    assert str(caught.value) == "agent.toml is refused"


def test_a_byte_order_mark_and_the_line_ends_of_windows_are_read_past() -> None:
    loaded = load("\ufeff[state]\r\nurl = 'x'\r\n")

    assert loaded.config.state.url == "x"
    assert origins(loaded) == {"state.url": "agent.toml:2:1"}


# Layers ---------------------------------------------------------------------------------------------------------------


def test_the_environment_overrides_the_file_and_a_flag_overrides_both() -> None:
    text = "[state]\nurl = 'from-file'\n[engine]\nkind = 'memory'\naddress = 'a'\n"
    loaded = load(
        text,
        "state.url=from-flag",
        "state.url=from-last-flag",
        AGENT_STATE_URL="from-variable",
        AGENT_ENGINE_ADDRESS="b",
    )

    assert loaded.config.state.url == "from-last-flag"
    assert loaded.config.engine == Engine(kind="memory", address="b")
    assert origins(loaded) == {
        "state.url": "--config state.url",
        "engine.kind": "agent.toml:4:1",
        "engine.address": "AGENT_ENGINE_ADDRESS",
    }


def test_every_key_of_a_fixed_table_has_a_variable() -> None:
    special = {
        "audit.content": "digest",
        "catalog.page_size": "7",
        "engine.kind": "memory",
        "index.cache": "false",
        "reasoner.environment": "prd",
        "reasoner.max_iterations": "7",
        "reasoner.token_limit": "7",
    }
    given_values = {setting.key: special.get(setting.key, "x") for setting in load().settings}
    variables = {f"AGENT_{key.replace('.', '_').upper()}": value for key, value in given_values.items()}

    loaded = load(**variables)

    assert {setting.key: setting.origin for setting in loaded.settings} == dict(
        zip(given_values, variables, strict=True)
    )
    assert loaded.config.knowledge.roots == ("x",)


@pytest.mark.parametrize("size", ["0", "101", "-1", "1.5", "many"])
def test_a_page_size_that_is_not_served_is_refused(size: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        load(AGENT_CATALOG_PAGE_SIZE=size)

    assert refused.value.source == "AGENT_CATALOG_PAGE_SIZE"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("AGENT_REASONER_MAX_ITERATIONS", "0"),
        ("AGENT_REASONER_MAX_ITERATIONS", "1001"),
        ("AGENT_REASONER_MAX_ITERATIONS", "many"),
        ("AGENT_REASONER_TOKEN_LIMIT", "0"),
        ("AGENT_REASONER_TOKEN_LIMIT", "-1"),
        ("AGENT_REASONER_ENVIRONMENT", "production"),
        ("AGENT_REASONER_ENVIRONMENT", "PRD"),
    ],
)
def test_a_limit_or_an_environment_that_tasks_do_not_know_is_refused(variable: str, value: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        load(**{variable: value})

    assert refused.value.source == variable


def test_a_task_has_25_iterations_every_tool_and_no_host_by_default() -> None:
    reasoner = load().config.reasoner

    assert (reasoner.tools, reasoner.egress, reasoner.environment) == (("*",), (), "dev")
    assert (reasoner.max_iterations, reasoner.token_limit) == (25, UNSET)
    assert load(AGENT_REASONER_MAX_ITERATIONS="1000").config.reasoner.max_iterations == 1_000
    assert load(AGENT_REASONER_TOKEN_LIMIT="50000").config.reasoner.token_limit == 50_000


def test_a_list_in_a_variable_is_separated_by_commas() -> None:
    assert load(AGENT_TOOLS_ADMIT="a.x").config.tools.admit == ("a.x",)
    assert load(AGENT_TOOLS_ADMIT="a.x,b.y, c.z ").config.tools.admit == ("a.x", "b.y", "c.z")
    assert load("[tools]\nadmit = ['old']", AGENT_TOOLS_ADMIT="new").config.tools.admit == ("new",)
    assert load(AGENT_STATE_URL="a,b").config.state.url == "a,b"


def test_a_variable_that_is_empty_is_not_set() -> None:
    assert load(AGENT_STATE_URL="", AGENT_TOOLS_ADMIT="") == load()


def test_a_variable_that_means_nothing_here_is_left_to_others() -> None:
    assert load(AGENT_TOKEN="t", AGENT_STATE="x", agent_state_url="y", AGENT_MODELS_A_PROVIDER="z") == load()


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        (
            "AGENT_ENGINE_KIND",
            "cron",
            f"engine.kind: {ENGINES}, received 'cron'",
        ),
        ("AGENT_TOOLS_ADMIT", "a,,b", "tools.admit.1: String must contain at least 1 character(s)"),
        ("AGENT_STATE_URL", "a\x1bb", "state.url: Must not contain control characters, found U+001B"),
        ("AGENT_STATE_URL", "\udcff", "(file): Byte 0xff is not valid UTF-8 (save the file as UTF-8)"),
    ],
)
def test_a_fault_in_a_variable_names_the_variable(variable: str, value: str, expected: str) -> None:
    assert refused(EVERYTHING, **{variable: value}) == (variable, [f"1:1 {expected}"])


@pytest.mark.parametrize(
    ("flag", "changed"),
    [
        ("state.url=sqlite:///other.db", {"state": State(url="sqlite:///other.db")}),
        ("state.url='quoted'", {"state": State(url="quoted")}),
        ("state.url=a=b#c", {"state": State(url="a=b#c")}),
        ("state.url = spaced ", {"state": State(url=" spaced ")}),
        ("state.url=x\nengine.kind='memory'", None),
        ("state={url='x'}", {"state": State(url="x")}),
        ("tools.admit=['a', 'b']", {"tools": Tools(admit=("a", "b"))}),
        ("tools.admit=[]", {}),
        ('servers."acme.com".token_env=T', {"servers": {"acme.com": ServerAccess(token_env="T")}}),
        ("remotes.é.url=x", None),
        ("remotes.'é'.url=x", {"remotes": {"é": Remote(url="x")}}),
    ],
)
def test_a_flag_takes_a_toml_value_or_plain_text(flag: str, changed: dict[str, Any] | None) -> None:
    if changed is None:
        assert refused("", flag)[0] == f"--config {flag.partition('=')[0]}"
    else:
        assert load("", flag).config == structs.replace(Config(), **changed)


def test_a_value_cannot_bring_other_settings_along() -> None:
    _, found = refused("", "state.url='x'\ntools.admit=['everything']")

    assert found == ["1:1 state.url: Must not contain control characters, found U+000A"]


@pytest.mark.parametrize(
    ("flag", "source", "expected"),
    [
        ("state.url", "--config state.url", "(file): Expected KEY=VALUE"),
        ("", "--config ", "(file): Expected KEY=VALUE"),
        ("state.urll=x", "--config state.urll", "state.urll: Unknown key (did you mean `url`?)"),
        ("state.url=5", "--config state.url", 'state.url: Expected string, received number (quote it: "5")'),
        ("state.url=", "--config state.url", "state.url: String must contain at least 1 character(s)"),
        ("state=x", "--config state", "state: Expected object, received string"),
        ("remotes.a={}", "--config", "remotes.a.url: Required"),
        ("\udcff=x", "--config", "(file): Byte 0xff is not valid UTF-8 (save the file as UTF-8)"),
        (f"state.url={'[' * 5000}", "--config state.url", "(file): Values nest deeper than 64 levels"),
    ],
)
def test_a_fault_in_a_flag_names_the_flag(flag: str, source: str, expected: str) -> None:
    assert refused(EVERYTHING, flag) == (source, [f"1:1 {expected}"])


def test_a_flag_that_is_no_key_is_refused() -> None:
    source, found = refused("", "a b=x")

    assert source == "--config a b"
    assert len(found) == 1
    assert "Invalid TOML" in found[0]


def test_a_flag_may_change_one_key_of_a_table_that_the_file_has() -> None:
    loaded = load(EVERYTHING, "models.default.upstream_model=big", "models.default.data.maxSensitivity=public")

    assert loaded.config.models["default"].upstream_model == "big"
    assert loaded.config.models["default"].provider == "local"
    assert loaded.config.models["default"].data == ModelData(residency=("eu-only",), max_sensitivity="public")
    assert origins(loaded)["models.default.upstream_model"] == "--config models.default.upstream_model"


def test_a_table_that_only_flags_make_must_be_whole_in_the_end() -> None:
    model = Model(provider="p", upstream_model="m")

    assert load("", "models.a={provider='p', upstream_model='m'}").config.models == {"a": model}
    assert load("", "models.a.provider=p", "models.a.upstream_model=m").config.models == {"a": model}
    assert refused("", "models.a.upstream_model=m") == ("--config", ["1:1 models.a.provider: Required"])


# A law ----------------------------------------------------------------------------------------------------------------

names = st.sampled_from(["a", "b.c", "é", "x y"])
texts = st.sampled_from(["x", "é", "a,b", "http://x", "#", "'"])
maybe = st.none() | texts


@law(80)
@given(st.dictionaries(names, st.tuples(texts, texts, st.none() | st.integers(-1, 10**6)), max_size=2), maybe, maybe)
def test_what_is_written_is_what_is_read(
    models: dict[str, tuple[str, str, int | None]], url: str | None, address: str | None
) -> None:
    written = ""
    for name, (provider, upstream, window) in models.items():
        written += f"[models.{quoted(name)}]\nprovider = {quoted(provider)}\nupstream_model = {quoted(upstream)}\n"
        written += "" if window is None else f"context_window = {window}\n"
    written += f"[state]\nurl = {quoted(url)}\n" if url else ""

    config = load(written, *([f"engine.address={quoted(address)}"] if address else [])).config

    assert config == Config(
        models={
            name: Model(provider=provider, upstream_model=upstream, context_window=UNSET if window is None else window)
            for name, (provider, upstream, window) in models.items()
        },
        state=State(url=url) if url else State(),
        engine=Engine(address=address) if address else Engine(),
    )


def quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
