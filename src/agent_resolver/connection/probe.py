"""Asks a server once which tools it has, and ends the connection: nothing is called, nothing is offered."""

from collections.abc import Sequence
from typing import Any

import mcp_types
from msgspec import Struct

from agent_resolver.connection.definition import definition_of, digest_of
from agent_resolver.connection.given_secret import (
    given_secrets,
    redacted_failure,
    without_secrets,
)
from agent_resolver.connection.mcp_connection import McpConnection
from agent_resolver.connection.transport import Credentials, Surroundings, transport_of
from agent_resolver.core.tool_definition import definition_parts, exceeded_limit
from agent_resolver.core.tool_id import MAX_TOOL_NAME, is_usable_name
from agent_resolver.registry.errors import ToolFailure
from agent_resolver.registry.secret import Secret
from agent_resolver.schema.lockfile import LockedServer


class ToolListing(Struct, frozen=True):
    """The tools of a server at one moment."""

    definitions: dict[str, dict[str, Any]]
    """What each tool says of itself, by name."""
    left_out: dict[str, str]
    """The tools that cannot be pinned, by a name that can be printed, and why."""


async def list_tools(
    entry: LockedServer, credentials: Credentials, around: Surroundings
) -> ToolListing:
    """Start or call a server, and list its tools.

    Raises:
        NeedsAction: A secret is missing.
        ToolFailure: The server cannot be reached, or does not speak the protocol.
    """
    # It asks for no scopes: a server that lists tools only to callers with rights lists
    # none.
    transport = transport_of(entry, frozenset(), credentials, around)
    connection = McpConnection(
        entry.server_id, transport, connect_seconds=around.connect_seconds
    )
    secrets = given_secrets(entry, credentials, around.environment)
    try:
        await connection.start()
        return _listing_of(connection, secrets)
    except ToolFailure as failure:
        raise redacted_failure(failure, secrets) from None
    finally:
        await connection.close()


def _listing_of(connection: McpConnection, secrets: Sequence[Secret]) -> ToolListing:
    left_out = {
        printable(name): "it is listed more than once"
        for name in sorted(connection.repeated)
    }
    definitions: dict[str, dict[str, Any]] = {}
    for name, tool in sorted(connection.tools.items()):
        problem = _why_unfit(name, tool)
        definition = definition_of(tool)
        if not problem and without_secrets(definition, secrets) != definition:
            problem = "its definition holds a secret that the server was given, and would be kept with it"
        if problem:
            left_out[printable(name)] = problem
        else:
            definitions[name] = definition_parts(definition)
    return ToolListing(definitions, left_out)


def _why_unfit(name: str, tool: mcp_types.Tool) -> str:
    if not is_usable_name(name):
        return (
            f"a name of a tool has 1 to {MAX_TOOL_NAME} characters that can be printed"
        )
    if not digest_of(tool):
        return "its definition cannot be written as JSON"
    if limit := exceeded_limit(definition_of(tool)):
        return f"its definition is larger than {limit}, more than a person can review"
    return ""


def printable(name: str) -> str:
    """The name of a tool, or something like it where that is too long or holds what cannot be printed."""
    if is_usable_name(name):
        return name
    return f"{name[:MAX_TOOL_NAME].encode('unicode_escape').decode()}…"
