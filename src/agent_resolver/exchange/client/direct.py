"""Entries for the locked servers themselves, and what a client cannot hold an agent to."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal
from urllib.parse import urlsplit

from msgspec import UNSET, Struct, structs

from agent_resolver.core.admission import Grant, grants_of
from agent_resolver.core.loopback import is_loopback
from agent_resolver.exchange.client.entry import (
    Client,
    ClientEntry,
    Wire,
    client_name,
    filled_in,
)
from agent_resolver.schema.agent_file import Limits
from agent_resolver.schema.lockfile import LockedServer, Lockfile

What = Literal[
    "server",
    "transport",
    "tools",
    "forbid",
    "scopes",
    "credentials",
    "command",
    "environment",
    "definitions",
    "residency",
    "sensitivity",
    "records",
]
"""The part of a lock or of the settings that a client does not take."""


class Access(Struct, frozen=True, kw_only=True):
    """The settings of a project that decide about locked servers."""

    admitted: tuple[str, ...] = ()
    """Ids of tools that the project admits by name."""
    token_variables: Mapping[str, str] = {}
    """The variable with the bearer token of each server that has one."""
    oauth: frozenset[str] = frozenset()
    """Ids of servers that get a token from an issuer, for the locked scopes alone."""


class LockedUse(Struct, frozen=True, kw_only=True):
    """A locked server, and the tools of it that the lock opens."""

    entry: LockedServer
    scopes: tuple[str, ...]
    """The scopes of all requirements that it was chosen for."""
    tools: tuple[str, ...]
    """The names of its tools that are open."""
    refused: tuple[str, ...]
    """The names of its tools that are not, as far as they are known."""
    is_listed: bool
    """True if the lock has all its tools, so that no other is there."""
    token_variable: str = ""
    has_oauth: bool = False

    @property
    def opens_all(self) -> bool:
        """True if a client that offers every tool offers none that is not open."""
        return self.is_listed and not self.refused


class Loss(Struct, frozen=True, rename={"is_permission": "permission"}):
    """Something that a client cannot express."""

    server: str
    what: What
    message: str
    is_permission: bool = False
    """True if the agent could do more through the client than the lock lets it do."""

    def __str__(self) -> str:
        if self.server:
            return f"{self.server}: {self.message}"
        return self.message


class Direct(Struct, frozen=True):
    """The entries of a lock that a client gets, and what is lost."""

    entries: tuple[ClientEntry, ...]
    losses: tuple[Loss, ...]


def uses_of(
    lockfile: Lockfile, limits: Limits, access: Access
) -> tuple[LockedUse, ...]:
    """Every locked server, by id and version, with the tools that are open."""
    grants = grants_of(lockfile.servers, limits.forbid, access.admitted)
    entries = {
        f"{entry.server_id}@{entry.version}": entry for entry in lockfile.servers
    }
    return tuple(
        _use_of(entries[name], grants[name], access) for name in sorted(entries)
    )


def _use_of(entry: LockedServer, grant: Grant, access: Access) -> LockedUse:
    prefix = f"{entry.server_id}."
    by_name = {
        tool.removeprefix(prefix) for tool in access.admitted if tool.startswith(prefix)
    }
    listed = None if entry.tools is UNSET else set(entry.tools)
    known = sorted({*grant.tool_scopes, *by_name} if listed is None else listed)
    # Judged by the definitions that are pinned: the client is given the server as it
    # was locked.
    is_open = {tool: grant.refuse_as_pinned(tool) is None for tool in known}
    return LockedUse(
        entry=entry,
        scopes=tuple(sorted(grant.scopes)),
        tools=tuple(tool for tool in known if is_open[tool]),
        refused=tuple(tool for tool in known if not is_open[tool]),
        is_listed=listed is not None,
        token_variable=access.token_variables.get(entry.server_id, ""),
        has_oauth=entry.server_id in access.oauth,
    )


def direct_entries(uses: Sequence[LockedUse], client: Client, limits: Limits) -> Direct:
    """The entries of a client for locked servers, and every loss, in the order of the servers."""
    names = _names_for(uses)
    entries: list[ClientEntry] = []
    losses: list[Loss] = []
    for use, name in zip(uses, names, strict=True):
        left_out = _why_left_out(use, client)
        if left_out:
            losses.append(left_out)
            continue
        entry = _entry_for(use, name, client)
        entries.append(entry)
        losses.extend(_losses_of(use, entry, client))
    losses.extend(_losses_of_all(client, limits))
    return Direct(tuple(entries), tuple(losses))


def wire_of_entry(entry: LockedServer) -> Wire | None:
    """How a client would talk to a locked server; None if no client can."""
    if entry.launch:
        if entry.launch.transport == "stdio":
            return "stdio"
        return None
    try:
        parts = urlsplit(entry.endpoint)
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return None
    return "sse" if entry.transport == "sse" else "http"


def _names_for(uses: Sequence[LockedUse]) -> list[str]:
    """A name for each: its id, with the version where another has the same."""
    plain = [client_name(use.entry.server_id) for use in uses]
    names = []
    for use, short in zip(uses, plain, strict=True):
        long = client_name(f"{use.entry.server_id}-{use.entry.version}")
        is_shared = plain.count(short) > 1
        names.append(long if is_shared else short)
    # Two ids may still differ in characters alone that no client takes.
    distinct = []
    for place, name in enumerate(names, 1):
        is_shared = names.count(name) > 1
        distinct.append(f"{name}-{place}" if is_shared else name)
    return distinct


def _entry_for(use: LockedUse, name: str, client: Client) -> ClientEntry:
    launch = use.entry.launch
    tools = use.tools if client.filters_tools else None
    if launch:
        command = (launch.command, *launch.args)
        return ClientEntry(
            name=name, command=command, variables=tuple(sorted(launch.env)), tools=tools
        )
    entry = ClientEntry(
        name=name,
        url=use.entry.endpoint,
        wire=wire_of_entry(use.entry) or "http",
        tools=tools,
    )
    return structs.replace(entry, token_variable=use.token_variable)


def _why_left_out(use: LockedUse, client: Client) -> Loss | None:
    server = str(use.entry.server_id)
    wire = wire_of_entry(use.entry)
    if wire is None and use.entry.launch:
        return Loss(
            server,
            "server",
            "left out: no client starts a server and then calls it over HTTP",
        )
    if wire is None:
        return Loss(
            server, "server", f"left out: '{use.entry.endpoint}' is not an HTTP address"
        )
    if wire not in client.wires:
        spoken = {"sse": "SSE", "http": "Streamable HTTP", "stdio": "stdio"}[wire]
        return Loss(
            server, "transport", f"left out: {client.title} does not speak {spoken}"
        )
    if not use.tools:
        return Loss(server, "server", "left out: the lock opens none of its tools")
    return None


def _losses_of(use: LockedUse, entry: ClientEntry, client: Client) -> Iterator[Loss]:
    server = str(use.entry.server_id)
    if not client.filters_tools and not use.opens_all:
        yield Loss(server, "tools", _render_tools_loss(use, client), is_permission=True)
    for word in filled_in(client, entry):
        message = f"{client.title} fills in part of `{word}`, so it would start or call something else"
        yield Loss(server, "command", message, is_permission=True)
    if entry.url:
        yield from _losses_of_access(use, entry, client)
    if entry.variables and not client.reads_variables:
        names = ", ".join(entry.variables)
        yield Loss(
            server,
            "environment",
            f"{client.title} reads no variables: fill in {names} there yourself",
        )
    if use.entry.tools:
        yield Loss(
            server,
            "definitions",
            f"{client.title} does not notice a tool whose definition changes",
        )


def _render_tools_loss(use: LockedUse, client: Client) -> str:
    offers = f"{client.title} offers every tool of a server"
    if not use.is_listed:
        return f"{offers}, and the lock does not have the list of all tools"
    return f"{offers}, and the lock does not open {', '.join(use.refused)}"


def _losses_of_access(
    use: LockedUse, entry: ClientEntry, client: Client
) -> Iterator[Loss]:
    server = str(use.entry.server_id)
    scopes = ", ".join(use.scopes)
    parts = urlsplit(entry.url)
    is_private = parts.scheme == "https" or is_loopback(parts.hostname or "")
    if entry.token_variable and not is_private:
        message = f"its token would travel in the clear to '{entry.url}'"
        yield Loss(server, "credentials", message, is_permission=True)
    if use.has_oauth:
        message = f"{client.title} does not get a token for the locked scopes alone ({scopes})"
        yield Loss(server, "scopes", message, is_permission=True)
    else:
        yield Loss(
            server,
            "scopes",
            f"the token that {client.title} sends must have no scopes but {scopes}",
        )


def _losses_of_all(client: Client, limits: Limits) -> Iterator[Loss]:
    if limits.forbid and not client.filters_tools:
        patterns = ", ".join(limits.forbid)
        yield Loss(
            "",
            "forbid",
            f"{client.title} does not hold the agent to `forbid` ({patterns}) if tools are added",
        )
    if limits.residency not in {None, "any"}:
        message = f"residency `{limits.residency}` was checked for the lock, and {client.title} does not hold to it"
        yield Loss("", "residency", message)
    if limits.sensitivity:
        message = f"sensitivity `{limits.sensitivity}` was checked for the lock, and {client.title} does not hold to it"
        yield Loss("", "sensitivity", message)
    yield Loss(
        "",
        "records",
        f"{client.title} records no calls here, and asks for no approval of the inbox",
    )
