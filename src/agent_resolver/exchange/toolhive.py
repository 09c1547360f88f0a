"""ToolHive's catalogue: `spec.yaml` of one server, or `registry.json` with all of them."""

from collections.abc import Iterator
from typing import Final

from agent_resolver.exchange.entry import (
    Facts,
    Remote,
    check_package,
    endpoint_transport,
    make_entry,
    note_environment,
    note_headers,
    note_tools,
    status_from,
    variable_from,
)
from agent_resolver.exchange.imported import Imported, Note, NoteKind, Source
from agent_resolver.exchange.launch_record import container_launch, image_version
from agent_resolver.exchange.part import Part, import_each
from agent_resolver.schema.index import IndexEntry, Launch
from agent_resolver.schema.issue import IssueCode
from agent_resolver.schema.vocabulary import Transport

NAME: Final = "toolhive"
_TRANSPORTS: Final[dict[str, Transport]] = {
    "stdio": "stdio",
    "streamable-http": "streamable-http",
    "sse": "sse",
}
_MAX_PORT: Final = 65535


def matches(content: object) -> bool:
    """True if the content is a server of the catalogue, or all of it."""
    match content:
        # Other catalogues have `servers` as well; only this one has remote ones beside
        # them.
        case {"servers": dict(servers), **others}:
            return "remote_servers" in others or any(map(_is_server, servers.values()))
        case {"remote_servers": dict()}:
            return True
    return _is_server(content)


def _is_server(value: object) -> bool:
    match value:
        case {"image": str(), "transport": str(), **others}:
            return not {"tier", "tools", "env_vars"}.isdisjoint(others)
        case {"url": str(), "transport": str(), "tier": str()}:
            return True
    return False


def read(source: Source) -> Imported:
    """The servers of the file."""
    return import_each(_named_parts(source), _read_server)


def _named_parts(source: Source) -> Iterator[tuple[str, Part]]:
    match source.content:
        case {"servers": dict()} | {"remote_servers": dict()}:
            whole = Part(source.content)
            for section in ("servers", "remote_servers"):
                yield from whole.member(section).members()
        case _:
            yield source.name, Part(source.content)


def _read_server(key: str, part: Part, notes: list[Note]) -> IndexEntry:
    name = part.member("name").text() or key
    if not name:
        raise part.member("name").refuse_entry(IssueCode.REQUIRED, "Required")
    note_tools(name, part.member("tools").texts(), notes)
    image = part.member("image").text()
    version = image_version(image) if image else None
    facts = Facts(
        name=name,
        source=NAME,
        version=version,
        description=part.member("description").prose(),
        words=part.member("tags").texts(),
        status=status_from(part.member("status"), name, notes),
        reach=_container_of(name, image, part, notes)
        if image
        else _remote_of(name, part, notes),
    )
    return make_entry(part, facts, notes)


def _remote_of(name: str, part: Part, notes: list[Note]) -> Remote:
    headers = [
        (header.member("name").text() or "", header)
        for header in part.member("headers").elements()
    ]
    note_headers(name, [(header, Part("")) for header, _ in headers if header], notes)
    address = part.member("url").required_text()
    return Remote(address, endpoint_transport(part.member("transport")))


def _container_of(
    name: str,
    image: str,
    part: Part,
    notes: list[Note],
) -> Launch:
    check_package(part.member("image"), image)
    required: dict[str, None] = {}
    optional: dict[str, None] = {}
    for variable in part.member("env_vars").elements():
        kept = required if variable.member("required").flag() else optional
        kept[variable_from(variable.member("name"))] = None
    note_environment(name, tuple(required), tuple(optional), notes)
    permissions = part.member("permissions")
    paths = (*permissions.member("read").texts(), *permissions.member("write").texts())
    if paths:
        message = f"asks for access to {', '.join(paths)}, which the entry leaves out; add what you mean to grant"
        notes.append(Note(NoteKind.GRANT, name, message, paths))
    return container_launch(
        image,
        tuple(required),
        part.member("args").words(),
        port=_port_of(part.member("target_port")),
        transport=_transport_of(part.member("transport")),
    )


def _transport_of(part: Part) -> Transport:
    word = part.text() or "stdio"
    if word not in _TRANSPORTS:
        message = f"Invalid enum value. Expected 'stdio' | 'streamable-http' | 'sse', received '{word}'"
        raise part.refuse_entry(IssueCode.INVALID_ENUM, message)
    return _TRANSPORTS[word]


def _port_of(part: Part) -> int | None:
    # The format writes 0 for a server that listens on no port.
    if not part or part.value == 0:
        return None
    # `True` is an `int` for `isinstance`, and would be taken for port 1.
    if type(part.value) is not int or not 0 < part.value <= _MAX_PORT:
        raise part.refuse_entry(
            IssueCode.OUT_OF_RANGE, f"Expected a port from 1 to {_MAX_PORT}"
        )
    return part.value
