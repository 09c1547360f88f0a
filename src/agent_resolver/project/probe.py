"""Probes servers of the index: asks each for its tools, and pins what they say of themselves."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET, Struct

from agent_resolver.connection.probe import ToolListing, list_tools
from agent_resolver.connection.transport import Surroundings
from agent_resolver.core.drafted_scope import with_pins
from agent_resolver.core.tool_definition import (
    DefinitionChange,
    definition_changes,
    definition_digest,
)
from agent_resolver.project.config import ServerAccess
from agent_resolver.project.definition import confirmed_tools
from agent_resolver.project.session import Session
from agent_resolver.project.tools import credentials_of, log_of_servers
from agent_resolver.registry.errors import NeedsAction, ToolFailure
from agent_resolver.schema.index import Server
from agent_resolver.schema.index_edit import entry_documents, with_entries
from agent_resolver.schema.lockfile import LockedServer
from agent_resolver.storage.ownership import require_own

_AT_ONCE: Final = 4
"""How many servers are asked at the same time."""


class Probed(Struct, frozen=True, kw_only=True):
    """One server that was asked for its tools."""

    server: Server
    position: int
    """Its place in the index."""
    listing: ToolListing | None = None
    """None if the server could not be asked."""
    problem: str = ""
    hint: str = ""

    @property
    def changes(self) -> list[DefinitionChange]:
        """The differences of the tools from those that the index pins; empty where it pins none."""
        if self.listing is None or self.server.tools is None:
            return []
        found = {
            tool: definition_digest(definition)
            for tool, definition in self.listing.definitions.items()
        }
        return list(definition_changes(self.server.tools, found))


class Pinned(Struct, frozen=True):
    """An index with the digests of what was found, and the texts behind them."""

    index: bytes
    definitions: dict[str, dict[str, dict[str, Any]]]
    drafted: dict[str, tuple[str, ...]]
    """The tools whose scopes are drafted and not confirmed, by the id and version of the server."""


def require_probing(session: Session) -> None:
    """Stop before servers of an index are started or called, unless a person trusts every folder that names them.

    Raises:
        ForeignFile: The index, or one of the folders, belongs to another user.
        UntrustedFolder: No person trusts one of the folders.
    """
    require_own(session.index_path, session.users)
    session.require_trust(
        "its index starts commands and names addresses to call",
        files=session.files_of_index,
    )


async def probe_servers(
    session: Session,
    positions: Sequence[int],
    *,
    seconds: float,
    verbose: bool,
    on_done: Callable[[int], None],
) -> list[Probed]:
    """Ask servers of the index for their tools, a few at a time; a failure of one is not a failure of another.

    Args:
        session: The project; `require_probing` comes first.
        positions: The places of the servers in the index.
        seconds: How long each may take.
        verbose: True to show what launched servers log.
        on_done: Called with the number of servers that were asked so far.
    """
    free = asyncio.Semaphore(_AT_ONCE)
    done: list[Probed] = []
    with log_of_servers(verbose=verbose) as errors:
        around = Surroundings(
            folder=session.folder,
            environment=session.environment,
            errors=errors,
            connect_seconds=seconds,
            call_seconds=seconds,
        )

        async def probe(position: int) -> None:
            async with free:
                done.append(await _probe_server(session, position, around))
            on_done(len(done))

        await asyncio.gather(*map(probe, positions))
    # Servers answer in any order, and the report follows the index.
    return sorted(done, key=lambda probed: probed.position)


async def _probe_server(
    session: Session, position: int, around: Surroundings
) -> Probed:
    server = session.listed_servers[position]
    access = session.config.servers.get(server.id, ServerAccess())
    try:
        listing = await list_tools(_reachable(server), credentials_of(access), around)
    except (ToolFailure, NeedsAction) as problem:
        hint = problem.hint
        if isinstance(problem, ToolFailure) and (server.launch or not hint):
            # The commands that probe can show the log of a server that they start,
            # which is the remedy.
            hint = problem.remedy
        return Probed(server=server, position=position, problem=str(problem), hint=hint)
    return Probed(server=server, position=position, listing=listing)


def _reachable(server: Server) -> LockedServer:
    """The facts of a server that a connection needs; no lock has them yet."""
    return LockedServer(
        category="",
        server_id=server.id,
        version=server.version,
        endpoint=server.address,
        scopes=(),
        hash="",
        launch=server.launch or UNSET,
        # A lock that names no transport means Streamable HTTP.
        transport=server.transport if server.transport != "streamable-http" else UNSET,
    )


def pin_tools(session: Session, probed: Sequence[Probed], *, replaces: bool) -> Pinned:
    """The index with what was found. Pins that differ stay as they are, unless they are to be replaced."""
    raw = session.index_content
    documents = entry_documents(raw)
    edited: dict[int, dict[str, Any]] = {}
    definitions: dict[str, dict[str, dict[str, Any]]] = {}
    drafted: dict[str, tuple[str, ...]] = {}
    for each in probed:
        # A server that gave no answer keeps its entry, and so does one whose pins
        # differ.
        if each.listing is None or (each.changes and not replaces):
            continue
        confirmed = confirmed_tools(session.overlay_content, each.server.id)
        entry = with_pins(
            documents[each.position],
            _found(documents[each.position], each.listing),
            confirmed,
        )
        edited[each.position] = entry
        # The texts are kept with the digests, so that a person can see what a later
        # change is about.
        definitions[str(each.server)] = each.listing.definitions
        # A tool that the overlay states is confirmed by a person, and is not a draft
        # any more.
        drafted[str(each.server)] = tuple(
            tool for tool in entry.get("drafted", ()) if tool not in confirmed
        )
    return Pinned(with_entries(raw, edited), definitions, drafted)


def _found(
    entry: Mapping[str, Any], listing: ToolListing
) -> dict[str, Mapping[str, Any] | None]:
    """Maps each tool that is listed, or that the entry knows, to its definition: None if it is not listed."""
    known = (*entry.get("tools", ()), *entry.get("drafted", ()))
    return {**dict.fromkeys(known), **listing.definitions}
