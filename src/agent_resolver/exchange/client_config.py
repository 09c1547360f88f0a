"""The configurations of MCP clients: `mcpServers` of Claude, Cursor, Gemini and others, and `servers` of VS Code.

No value of a variable or header is carried over.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from agent_resolver.exchange.entry import (
    Facts,
    Remote,
    check_variable,
    endpoint_transport,
    make_entry,
    note_environment,
    note_headers,
    note_token,
)
from agent_resolver.exchange.imported import Imported, Note, NoteKind, Source
from agent_resolver.exchange.launch_record import command_version
from agent_resolver.exchange.part import EntryRefused, Part, import_each
from agent_resolver.schema.index import IndexEntry, Launch
from agent_resolver.schema.issue import IssueCode

NAME: Final = "client-config"
VSCODE_NAME: Final = "vscode"
_REFERENCE: Final = re.compile(r"\$\{(?:env:|input:)?([A-Za-z_][\w.-]*)(?::-[^}]*)?\}")
_LAUNCH_TYPES: Final = frozenset({"stdio", "local"})
_NOT_CARRIED: Final = (
    "cwd",
    "envFile",
    "disabled",
    "enabled",
    "enabled_tools",
    "disabled_tools",
    "disabledTools",
    "includeTools",
    "excludeTools",
    "allowedTools",
    "autoApprove",
    "alwaysAllow",
    "headersHelper",
    "oauth",
    "auth",
)
"""Keys that change what a server may do or how it starts, and that an entry of an index does not have."""
_USUAL: Final = {"disabled": False, "enabled": True}
"""Values of these keys that go without saying."""
_OWN_COMMAND: Final = re.compile(
    r"(?:(?:[A-Za-z]:)?/(?:.*/)?)?agent(?:-resolver)?(?:\.exe)?"
)
"""This program by its name alone, or by an absolute path: one beside the configuration may be anything."""
_PYTHON: Final = re.compile(r"(?:.*/)?(?:python|pypy)[0-9.]*(?:\.exe)?")


def matches(content: object) -> bool:
    """True if the content has servers under `mcpServers`."""
    match content:
        case {"mcpServers": dict()}:
            return True
    return False


def matches_vscode(content: object) -> bool:
    """True if the content is an `mcp.json` of VS Code, or its settings with a section `mcp`."""
    match content:
        case {"mcp": {"servers": dict(servers)}}:
            return _are_configs(servers)
        case {"servers": dict(servers), **others}:
            return _are_configs(servers) or "inputs" in others
    return False


def _are_configs(servers: dict[str, object]) -> bool:
    return any(
        isinstance(server, dict) and ("command" in server or "url" in server)
        for server in servers.values()
    )


def read(source: Source) -> Imported:
    """The servers of a file with `mcpServers`."""
    servers = Part(source.content).member("mcpServers")
    return import_each(
        servers.members(),
        lambda name, part, notes: read_config(NAME, name, part, notes),
    )


def read_vscode(source: Source) -> Imported:
    """The servers of VS Code."""
    whole = Part(source.content)
    servers = whole.member("mcp").member("servers") or whole.member("servers")
    return import_each(
        servers.members(),
        lambda name, part, notes: read_config(VSCODE_NAME, name, part, notes),
    )


def read_config(
    kind: str,
    name: str,
    part: Part,
    notes: list[Note],
) -> IndexEntry:
    """The entry for a server of a client. The name that the client has for it is the word for what it is for."""
    reach = (
        _launch_of(name, part, notes)
        if part.member("command")
        else _remote_of(name, part, notes)
    )
    stated = ((key, part.member(key).value) for key in _NOT_CARRIED)
    lost = tuple(
        key
        for key, value in stated
        if value is not None and value is not _USUAL.get(key)
    )
    if lost:
        listed = ", ".join(f"`{key}`" for key in lost)
        notes.append(
            Note(NoteKind.NOT_CARRIED, name, f"{listed} is not carried over", lost)
        )
    facts = Facts(
        name=name,
        source=kind,
        version=command_version(reach.command, reach.args)
        if isinstance(reach, Launch)
        else None,
        description=part.member("description").prose(),
        words=(name,),
        reach=reach,
    )
    return make_entry(part, facts, notes)


def _launch_of(name: str, part: Part, notes: list[Note]) -> Launch:
    word = part.member("type").text()
    if word is not None and word not in _LAUNCH_TYPES:
        part.member("type").refuse(
            IssueCode.CONTRADICTION, f"Has a `command`, and is of the type `{word}`"
        )
    command = part.member("command").required_text()
    arguments = part.member("args").words()
    if _is_own(command, arguments):
        message = "starts `agent serve`, which governs the others, and is not imported"
        notes.append(Note(NoteKind.NOT_CARRIED, name, message))
        raise EntryRefused
    variables = tuple(dict.fromkeys(_variables_of(part)))
    note_environment(name, variables, (), notes)
    return Launch(
        command=_fill_in(command), args=tuple(map(_fill_in, arguments)), env=variables
    )


def _variables_of(part: Part) -> Iterator[str]:
    for key, value in part.member("env").members():
        check_variable(value, key)
        yield key
    for variable in part.member(
        "env_vars"
    ).elements():  # Codex forwards these under their own names.
        named = (
            variable.member("name") if isinstance(variable.value, dict) else variable
        )
        key = named.required_text()
        check_variable(named, key)
        yield key


def _is_own(command: str, arguments: Sequence[str]) -> bool:
    """True if it looks like `agent serve`. Whether that governs anything is for `agent verify --clients` to judge."""
    program = command.replace("\\", "/")
    if _OWN_COMMAND.fullmatch(program):
        return list(arguments[:1]) == ["serve"]
    if not _PYTHON.fullmatch(program):
        return False
    words = list(arguments)
    if words[:1] == ["-P"]:
        words.pop(0)
    return words[:3] == ["-m", "agent_resolver", "serve"]


def _remote_of(name: str, part: Part, notes: list[Note]) -> Remote:
    address = part.member("url", "httpUrl", "serverUrl")
    if not address:
        raise part.refuse_entry(
            IssueCode.REQUIRED, "Has neither a `command` nor a `url`"
        )
    endpoint = _fill_in(address.required_text())
    note_headers(name, part.member("headers", "http_headers").members(), notes)
    for header, variable in part.member("env_http_headers").members():
        # Codex names the variable; written as a reference it reads like the headers of
        # other clients.
        note_headers(name, [(header, Part(f"${{{variable.text()}}}"))], notes)
    token = part.member("bearer_token_env_var")
    if token:
        check_variable(token, token.required_text())
        note_token(name, token.required_text(), notes)
    kind = part.member("type")
    if not kind and endpoint.rstrip("/").endswith("/sse"):
        return Remote(endpoint, "sse")
    return Remote(endpoint, endpoint_transport(kind))


def _fill_in(text: str) -> str:
    """The text with `<NAME>` for each reference: nothing replaces them when a server starts."""
    return _REFERENCE.sub(lambda found: f"<{found[1]}>", text)
