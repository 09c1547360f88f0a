"""One entry in the settings of a client, whichever client it is."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from msgspec import Struct

Wire = Literal["stdio", "http", "sse"]
"""How a client talks to a server: over the streams of a program, over Streamable HTTP, or over the older SSE."""

NAME: Final = "agent-resolver"
"""The name of the entry that serves an agent under its lock, unless the operator names another."""
KEPT_KEYS: Final = frozenset(
    {
        "description",
        "enabled",
        "disabled",
        "required",
        "timeout",
        "startup_timeout_sec",
        "tool_timeout_sec",
    }
    | {"excludeTools", "disabled_tools"}
)
"""Keys that a user may add to an entry of ours: they change nothing of what is started, and open no tool."""
_REFUSED: Final = re.compile(r"[^A-Za-z0-9_-]+")


class ClientEntry(Struct, frozen=True, kw_only=True):
    """A server that a client starts or calls. Names of environment variables stand for their values."""

    name: str
    command: tuple[str, ...] = ()
    """The program and its arguments; empty for a server that is called."""
    url: str = ""
    wire: Wire = "stdio"
    variables: tuple[str, ...] = ()
    """Names of the environment variables that the server reads."""
    token_variable: str = ""
    """The name of the variable whose value is the bearer token."""
    tools: tuple[str, ...] | None = None
    """The only tools that the client may offer; None is every tool."""


class Client(Struct, frozen=True, kw_only=True):
    """What a client can express, and how."""

    name: str
    title: str
    path: str
    """Its settings in a project, from the project's folder; empty if it has none there."""
    root: str
    """The key or table under which each entry has its name."""
    is_toml: bool = False
    wires: frozenset[Wire]
    tool_filter: str = ""
    """The key of an entry that names the only tools to offer; empty if the client has no such key."""
    off_switch: str = ""
    """The key that keeps the client from starting an entry if it is false; empty if the client has no such key."""
    reads_comments: bool = True
    """False if the client reads nothing of settings that have comments or trailing commas."""
    reads_variables: bool
    """True if an entry can say that a variable has the value that it has for the client itself."""
    expands: str = ""
    """A pattern of text that the client fills in wherever it stands; empty if it takes every text as it is."""
    render: Callable[[ClientEntry], dict[str, Any]]
    """The entry as the client reads it."""

    @property
    def filters_tools(self) -> bool:
        """True if an entry can name the only tools that are offered."""
        return bool(self.tool_filter)

    def is_off(self, values: Mapping[str, Any]) -> bool:
        """True if an entry is switched off in the way that the client heeds."""
        return bool(self.off_switch) and values.get(self.off_switch) is False


def filled_in(client: Client, entry: ClientEntry) -> list[str]:
    """The words of an entry that the client would replace by something else, so that it starts or calls another one."""
    if not client.expands:
        return []
    return [
        word for word in (*entry.command, entry.url) if re.search(client.expands, word)
    ]


def client_name(text: str) -> str:
    """A name that every client takes for an entry: letters and digits of ASCII, dashes and underscores."""
    return _REFUSED.sub("-", text).strip("-") or "server"


def json_settings(
    entry: ClientEntry, reference: str, address: Mapping[str, str]
) -> dict[str, Any]:
    """An entry as the clients with JSON settings write it.

    Args:
        entry: The server.
        reference: How the client refers to the variable `{}`.
        address: What the client writes of a server that is called: its address, and the protocol if that has a key.
    """
    if entry.command:
        return started(entry, reference)
    return {**address, **_headers(entry, reference)}


def started(entry: ClientEntry, reference: str) -> dict[str, Any]:
    """A program with its arguments and variables."""
    settings: dict[str, Any] = {
        "command": entry.command[0],
        "args": list(entry.command[1:]),
    }
    if entry.variables:
        settings["env"] = {name: reference.format(name) for name in entry.variables}
    return settings


def _headers(entry: ClientEntry, reference: str) -> Mapping[str, Any]:
    """The header with the bearer token; nothing without a token."""
    if not entry.token_variable:
        return {}
    return {
        "headers": {"Authorization": f"Bearer {reference.format(entry.token_variable)}"}
    }
