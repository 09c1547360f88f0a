"""Docker's catalogue: `server.yaml` with `tools.json` beside it, or the whole catalogue in one file."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from agent_resolver.exchange.entry import (
    Facts,
    Remote,
    check_package,
    check_variable,
    endpoint_transport,
    make_entry,
    note_environment,
    note_headers,
    note_tools,
    variable_from,
)
from agent_resolver.exchange.imported import Imported, Note, NoteKind, Source
from agent_resolver.exchange.launch_record import container_launch, image_version
from agent_resolver.exchange.part import Part, import_each
from agent_resolver.schema.index import IndexEntry, Launch
from agent_resolver.schema.issue import IssueCode

NAME: Final = "docker-catalogue"
_TYPES: Final = ("server", "remote", "poci")
_TEMPLATE: Final = re.compile(r"\{\{\s*([^}|]+?)\s*(?:\|[^}]*)?\}\}")


def matches(content: object) -> bool:
    """True if the content is a server of the catalogue, or all of it."""
    match content:
        case {"registry": dict()}:
            return True
        case {"name": str(), "type": str(kind), "meta": dict()} | {
            "name": str(),
            "type": str(kind),
            "about": dict(),
        }:
            return kind in _TYPES
    return False


def read(source: Source) -> Imported:
    """The servers of the file."""
    match source.content:
        case {"registry": dict(servers)}:
            found = [
                (name, Part(server, ("registry", name)))
                for name, server in servers.items()
            ]
            return import_each(
                found, lambda name, part, notes: _read_server(name, part, notes, None)
            )
    return import_each(
        [(source.name, Part(source.content))],
        lambda name, part, notes: _read_server(name, part, notes, source.tools),
    )


def _read_server(
    key: str,
    part: Part,
    notes: list[Note],
    tools: object,
) -> IndexEntry:
    name = part.member("name").text() or key
    if not name:
        raise part.member("name").refuse_entry(IssueCode.REQUIRED, "Required")
    about = part.member("about")
    meta = part.member("meta", "metadata")
    category = meta.member("category").text()
    note_tools(name, tuple(_tool_names(part, tools)), notes)
    reach = _reach_of(name, part, notes)
    facts = Facts(
        name=name,
        source=NAME,
        version=_version_of(part),
        description=(
            about.member("description") or part.member("description") or _title(part)
        ).prose(),
        words=(*([category] if category else []), *meta.member("tags").texts()),
        reach=reach,
    )
    return make_entry(part, facts, notes)


def _title(part: Part) -> Part:
    return part.member("about").member("title") or part.member("title")


def _version_of(part: Part) -> str | None:
    image = part.member("image").text()
    return image_version(image) if image else None


def _tool_names(part: Part, beside: object) -> Iterator[str]:
    """The names of the tools, from the server itself or from the file beside it."""
    # Faults in the other file have no place in this one, so what is wrong there is
    # passed over.
    for listed in (
        part.member("tools"),
        Part(beside if isinstance(beside, list) else None),
    ):
        for tool in listed.elements():
            name = tool.member("name").text() if isinstance(tool.value, dict) else None
            if name:
                yield name


def _reach_of(name: str, part: Part, notes: list[Note]) -> Remote | Launch:
    if part.member("remote"):
        return _remote_of(name, part, notes)
    if part.member("type").text() == "poci":
        # Each tool is a container of its own; only Docker's gateway makes a server of
        # them.
        return Launch(
            command="docker", args=("mcp", "gateway", "run", "--servers", name)
        )
    return _container_of(name, part, notes)


def _remote_of(name: str, part: Part, notes: list[Note]) -> Remote:
    remote = part.member("remote")
    note_headers(name, remote.member("headers").members(), notes)
    transport = endpoint_transport(remote.member("transport_type"))
    return Remote(_fill_in(remote.member("url").required_text()), transport)


def _container_of(name: str, part: Part, notes: list[Note]) -> Launch:
    image = part.member("image").required_text()
    check_package(part.member("image"), image)
    run = part.member("run")
    config = part.member("config")
    command = (run.member("command") or part.member("command")).words()
    volumes = (run.member("volumes") or part.member("volumes")).texts()
    if volumes:
        listed = ", ".join(map(_fill_in, volumes))
        message = f"asks for the volumes {listed}, which the entry leaves out; add what you mean to grant"
        notes.append(Note(NoteKind.GRANT, name, message, volumes))
    variables = _variables_of(part, config, run)
    required = tuple(variables.required)
    optional = tuple(variables.optional)
    note_environment(name, required, optional, notes)
    constants = [f"{key}={value}" for key, value in variables.constants.items()]
    arguments = [_fill_in(word) for word in command]
    return container_launch(image, required, arguments, constants=constants)


def _variables_of(part: Part, config: Part, run: Part) -> "_Variables":
    """The variables that a server reads, wherever the catalogue lists them."""
    variables = _Variables()
    secrets = config.member("secrets").elements()
    secrets += part.member("secrets").elements()
    for secret in secrets:
        is_optional = secret.member("required").value is False
        name = variable_from(secret.member("env"))
        variables.add(name, is_required=not is_optional)
    needed = _needed_parameters(config)
    settings = config.member("env").elements()
    settings += part.member("env").elements()
    for setting in settings:
        variables.add_setting(setting, needed)
    for key, value in run.member("env").members():
        check_variable(value, key)
        variables.add_value(key, value.text() or "", is_required=False)
    return variables


class _Variables:
    """The variables of a container, each once: those that must be set, the others, and those with a fixed value."""

    def __init__(self) -> None:
        self.required: dict[str, None] = {}
        self.optional: dict[str, None] = {}
        self.constants: dict[str, str] = {}

    def add(self, name: str, *, is_required: bool) -> None:
        if name and name not in self.required:
            (self.required if is_required else self.optional)[name] = None
        if name in self.required:
            self.optional.pop(name, None)

    def add_value(
        self,
        name: str,
        value: str,
        *,
        is_required: bool,
    ) -> None:
        if not name:
            return
        if not value or "{{" in value or "$" in value:
            self.add(name, is_required=is_required)
        elif name not in self.required:
            self.constants[name] = value

    def add_setting(self, setting: Part, needed: frozenset[str]) -> None:
        """A variable of the configuration, which takes its value from a parameter."""
        name = variable_from(setting.member("name", "env"))
        value = setting.member("value").text() or ""
        parameters = {found.rpartition(".")[2] for found in _TEMPLATE.findall(value)}
        is_required = setting.member("required").flag() or not needed.isdisjoint(
            parameters
        )
        self.add_value(name, value, is_required=is_required)


def _needed_parameters(config: Part) -> frozenset[str]:
    parameters = config.member("parameters")
    if not isinstance(parameters.value, Mapping):
        return frozenset()
    return frozenset(parameters.member("required").texts())


def _fill_in(text: str) -> str:
    """The text with `<name>` for each template in it."""
    return _TEMPLATE.sub(lambda found: f"<{found[1]}>", text)
