"""The official registry: `server.json`, a list of them, or a saved page of its API.

Keys are spelled in several ways: `registryType` since autumn 2025, `registry_type` and `registry_name` before.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import structs

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
from agent_resolver.exchange.launch_record import (
    command_version,
    container_launch,
    npm_launch,
    nuget_launch,
    pypi_launch,
)
from agent_resolver.exchange.part import Part, import_each
from agent_resolver.exchange.secret_argument import masked_arguments
from agent_resolver.schema.index import IndexEntry, Launch
from agent_resolver.schema.issue import IssueCode
from agent_resolver.schema.vocabulary import Status, Transport

NAME: Final = "official-registry"
_OFFICIAL: Final = "io.modelcontextprotocol.registry/official"
_PUBLISHER: Final = "io.modelcontextprotocol.registry/publisher-provided"
_OLD_META: Final = (
    "io.modelcontextprotocol.registry",
    "x-io.modelcontextprotocol.registry",
)
_VARIABLE: Final = re.compile(r"\{([A-Za-z_][\w.-]*)\}")
_PLACE: Final = re.compile("<[^<>]+>")
_LAUNCHERS: Final = {"npm": npm_launch, "pypi": pypi_launch, "nuget": nuget_launch}
_PROGRAMS: Final = {"npm": "npx", "pypi": "uvx", "nuget": "dnx", "oci": "docker run"}
_NAMES: Final = {
    "npm": re.compile(r"(?:@[\w.~-]+/)?[\w~-][\w.~-]*(?:@[\w.+-]+)?", re.ASCII),
    "pypi": re.compile(r"\w[\w.-]*(?:\[[\w.,-]+\])?(?:==[\w.+!-]+)?", re.ASCII),
    "nuget": re.compile(r"\w[\w.-]*(?:@[\w.+-]+)?", re.ASCII),
}
_USUAL_DOMAINS: Final = {
    kind: f".{owner}.org"
    for kind, owner in {"npm": "npmjs", "pypi": "pypi", "nuget": "nuget"}.items()
}
_HOST: Final = re.compile(r"(?:https?://)?([^/:]+)", re.IGNORECASE)
_USUAL: Final = frozenset({"-y", "--yes"})
"""Options that the entry has anyway."""
_TRANSPORTS: Final[dict[str, Transport]] = {
    "stdio": "stdio",
    "streamable-http": "streamable-http",
    "sse": "sse",
}


def matches(content: object) -> bool:
    """True if the content is one server of the official registry, or several."""
    return any(_is_server(value) for value, _ in _server_values(content))


def read(source: Source) -> Imported:
    """The servers of a `server.json`, a list of them, or a page of the API."""
    found = (("", Part(value, at)) for value, at in _server_values(source.content))
    return import_each(found, _read_server)


def _server_values(content: Any) -> Iterator[tuple[Any, tuple[str | int, ...]]]:  # noqa: ANN401 - parsed JSON
    """Each server with the path to it."""
    match content:
        case {"data": {"servers": list(servers)}}:
            yield from (
                (server, ("data", "servers", position))
                for position, server in enumerate(servers)
            )
        case {"servers": list(servers)}:
            yield from (
                (server, ("servers", position))
                for position, server in enumerate(servers)
            )
        case list(servers):
            yield from (
                (server, (position,)) for position, server in enumerate(servers)
            )
        case dict():
            yield content, ()


def _is_server(value: object) -> bool:
    match value:
        case {"server": {"name": str()}}:
            return True
        case {"name": str(), "packages": list()} | {"name": str(), "remotes": list()}:
            return True
        case {"name": str(), "$schema": str(schema)}:
            return schema.endswith("server.schema.json")
        case {"name": str(), "description": str(), "version_detail": dict()}:
            return True
    return False


def _read_server(_name: str, part: Part, notes: list[Note]) -> IndexEntry:
    server = part.member("server") or part
    name = server.member("name").required_text()
    version = (
        server.member("version") or server.member("version_detail").member("version")
    ).text()
    reach = _first_reach(server, name, notes)
    publisher = server.member("_meta").member(_PUBLISHER)
    extras = list(_extras_of(publisher))
    tools = dict.fromkeys(
        tool for extra in extras for tool in extra.member("tools").texts()
    )
    note_tools(name, tuple(tools), notes)
    words = [word for holder in (publisher, *extras) for word in _stated_words(holder)]
    facts = Facts(
        name=name,
        source=NAME,
        version=version or _packaged_version(reach),
        description=(server.member("description") or server.member("title")).prose(),
        words=words,
        status=_status_of(part, server, name, notes),
        reach=reach,
    )
    return make_entry(part, facts, notes)


def _extras_of(publisher: Part) -> Iterator[Part]:
    """The objects that a catalogue adds to a server, one for each package or address."""
    for _, by_key in publisher.members():
        if isinstance(by_key.value, dict):
            extras = (extra for _, extra in by_key.members())
            yield from (extra for extra in extras if isinstance(extra.value, dict))


def _stated_words(holder: Part) -> Iterator[str]:
    for key in ("tags", "categories", "keywords"):
        if isinstance(holder.value, dict) and isinstance(holder.value.get(key), list):
            yield from holder.member(key).texts()


def _status_of(
    part: Part,
    server: Part,
    name: str,
    notes: list[Note],
) -> Status | None:
    """The status that the registry states, which is newer than what the publisher wrote."""
    for holder in (part, server):
        meta = holder.member("_meta")
        for found in (
            meta.member(_OFFICIAL),
            *(meta.member(key) for key in _OLD_META),
            *map(holder.member, _OLD_META),
        ):
            if found.member("status"):
                return status_from(found.member("status"), name, notes)
    return status_from(server.member("status"), name, notes)


def _first_reach(server: Part, name: str, notes: list[Note]) -> Remote | Launch:
    """The first package that can be started, else the first remote; the others are named in a note."""
    packages = server.member("packages").elements()
    remotes = server.member("remotes").elements()
    kinds = [_kind_of(package) for package in packages]
    startable = [
        package
        for package, kind in zip(packages, kinds, strict=True)
        if kind in {*_LAUNCHERS, "oci"}
    ]
    # One that speaks on its standard streams is preferred: it is started and ended with
    # the agent.
    startable.sort(key=lambda package: _package_transport(package) != "stdio")
    chosen = [*startable, *remotes][:1]
    if not chosen:
        listed = ", ".join(sorted(set(kinds))) or "none"
        message = f"No package that can be started, and no remote; its packages are of the type: {listed}"
        hint = "packages of the types npm, pypi, oci and nuget can be started"
        raise server.refuse_entry(IssueCode.REQUIRED, message, hint)
    ways = [*kinds, *("remote" for _ in remotes)]
    if len(ways) > 1:
        taken = _kind_of(chosen[0]) if startable else "remote"
        message = f"offers {', '.join(ways)}; the entry has {taken}"
        notes.append(Note(NoteKind.OTHER_WAY, name, message, tuple(ways)))
    if startable:
        return _launch_of(chosen[0], name, notes)
    return _remote_of(chosen[0], name, notes)


def _kind_of(package: Part) -> str:
    kind = package.member("registryType", "registry_type", "registry_name").text() or ""
    return {"docker": "oci"}.get(kind, kind)


def _package_transport(package: Part) -> Transport:
    word = package.member("transport").member("type").text() or "stdio"
    if word not in _TRANSPORTS:
        message = f"Invalid enum value. Expected 'stdio' | 'streamable-http' | 'sse', received '{word}'"
        raise package.refuse_entry(IssueCode.INVALID_ENUM, message)
    return _TRANSPORTS[word]


def _remote_of(remote: Part, name: str, notes: list[Note]) -> Remote:
    headers = remote.member("headers")
    if isinstance(headers.value, list):
        named = [
            (header.member("name").text() or "", header.member("value"))
            for header in headers.elements()
        ]
        note_headers(
            name, [(header, value) for header, value in named if header], notes
        )
    address = remote.member("url").required_text()
    transport = endpoint_transport(remote.member("type", "transport_type"))
    return Remote(_fill_in(address, remote.member("variables")), transport)


def _launch_of(package: Part, name: str, notes: list[Note]) -> Launch:
    kind = _kind_of(package)
    named = package.member("identifier", "name")
    identifier = named.required_text()
    check_package(named, identifier)
    version = package.member("version").text()
    if kind != "oci":
        _check_place(package, named, identifier)
    after = _arguments(package.member("packageArguments", "package_arguments"))
    before = _arguments(package.member("runtimeArguments", "runtime_arguments"))
    required, optional = _environment_of(package)
    note_environment(name, required, optional, notes)
    transport = _package_transport(package)
    options = [option for option in before if kind == "oci" or option not in _USUAL]
    if options:
        # An option may give access to this machine, or take the package from another
        # place.
        shown = tuple(masked_arguments(options))
        asked = f"{_PROGRAMS[kind]} {' '.join(shown)}"
        message = f"asks for `{asked}`, which the entry leaves out; add what you mean to grant"
        notes.append(Note(NoteKind.GRANT, name, message, shown))
    if kind != "oci":
        launch = _LAUNCHERS[kind](identifier, version, after)
        return structs.replace(launch, env=required, transport=transport)
    host = (
        (package.member("registryBaseUrl", "registry_base_url").text() or "")
        .removeprefix("https://")
        .rstrip("/")
    )
    image = _image_name(identifier, version, host)
    check_package(package.member("registryBaseUrl", "registry_base_url"), image)
    return container_launch(image, required, after, transport=transport)


def _check_place(package: Part, named: Part, identifier: str) -> None:
    """Refuse a package from another place than the usual registry, which is where the command takes it from.

    A package of the same name there may be another one, and `npx` fetches what looks like a path or an address from it.
    """
    kind = _kind_of(package)
    if not _NAMES[kind].fullmatch(identifier):
        message = (
            f"Not the name of a package of the type {kind}, with or without a version"
        )
        raise named.refuse_entry(IssueCode.NAME_REFUSED, message, "give the name alone")
    version = package.member("version")
    if not re.fullmatch(r"[^\s:/\\@#?]*", version.text() or ""):
        raise version.refuse_entry(
            IssueCode.NAME_REFUSED, "Not the version of a package", "name one version"
        )
    registry = package.member("registryBaseUrl", "registry_base_url")
    host = _HOST.match(registry.text() or "")
    if host and not f".{host[1]}".endswith(_USUAL_DOMAINS[kind]):
        message = "The package is in another registry, and the command would take one of its name from the usual one"
        hint = "write the entry by hand, with the registry in the settings of the program that starts it"
        raise registry.refuse_entry(IssueCode.NAME_REFUSED, message, hint)


def _image_name(identifier: str, version: str | None, host: str) -> str:
    has_host = "." in identifier.partition("/")[0]
    image = identifier if has_host or not host else f"{host}/{identifier}"
    has_tag = ":" in identifier.rpartition("/")[2] or "@" in identifier
    if has_tag or not version:
        return image
    return f"{image}:{version}"


def _packaged_version(reach: Remote | Launch) -> str | None:
    """The version of the image or package that is started, for a server that states none."""
    if isinstance(reach, Launch):
        return command_version(reach.command, reach.args)
    return None


def _environment_of(package: Part) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The variables that must be set, and the others."""
    required: dict[str, None] = {}
    optional: dict[str, None] = {}
    for variable in package.member(
        "environmentVariables", "environment_variables"
    ).elements():
        name = variable_from(variable.member("name"))
        is_required = variable.member("isRequired", "is_required").flag()
        if name:
            (required if is_required else optional)[name] = None
    return tuple(required), tuple(optional)


def _arguments(listed: Part) -> tuple[str, ...]:
    found: list[str] = []
    for argument in listed.elements():
        # As the first release of the format had it.
        if isinstance(argument.value, str):
            found.append(argument.required_text())
        else:
            found += _argument(argument)
    return tuple(found)


def _argument(argument: Part) -> Sequence[str]:
    is_required = argument.member("isRequired", "is_required").flag()
    is_secret = argument.member("isSecret", "is_secret").flag()
    stated = argument.member("value").text()
    hint = argument.member("valueHint", "value_hint").text()
    option = argument.member("name").text()
    place = f"<{hint or (option or 'value').lstrip('-')}>"
    if stated is not None:
        value = _fill_in(stated, argument.member("variables"))
    elif is_required:
        value = (None if is_secret else argument.member("default").text()) or place
    else:
        return ()
    if is_secret and not _PLACE.search(value):
        value = place
    return _with_option(argument, option, value)


def _with_option(argument: Part, option: str | None, value: str) -> Sequence[str]:
    """The words of an argument: its value, behind its option if it is a named one."""
    is_named = argument.member("type").text() == "named"
    if is_named and option:
        return (option, value)
    return (value,)


def _fill_in(text: str, variables: Part) -> str:
    """The text with `<name>` for each variable in braces, or with its value where the source has one to share."""

    def fill(found: re.Match[str]) -> str:
        variable = variables.member(found[1])
        is_known = (
            isinstance(variable.value, dict)
            and not variable.member("isSecret", "is_secret").flag()
        )
        known = variable.member("value", "default").text() if is_known else None
        return known or f"<{found[1]}>"

    return _VARIABLE.sub(fill, text)
