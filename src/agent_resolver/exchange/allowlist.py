"""Lists of the only servers that clients of an organisation may use, made of its locks.

Claude Code reads `allowedMcpServers` from its managed settings, and VS Code from its managed settings as the policy
`ChatAllowedMcpServers`. Both take the same matchers: the exact command line, or a pattern of addresses.
"""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from agent_resolver.exchange.client.direct import Loss, wire_of_entry
from agent_resolver.exchange.client.entry import ClientEntry
from agent_resolver.schema.lockfile import LockedServer


class AllowList(Struct, frozen=True):
    """The settings, and the servers that they cannot name."""

    settings: dict[str, Any]
    losses: tuple[Loss, ...]


def allow_list(
    client: str, servers: Iterable[LockedServer], entries: Iterable[ClientEntry] = ()
) -> AllowList:
    """The managed settings of a client, sorted: every command and address once, whatever the order of the locks.

    Args:
        client: `claude-code` or `vscode`.
        servers: The entries of every lock.
        entries: Entries that serve agents under their locks.
    """
    commands = {entry.command for entry in entries}
    addresses: set[str] = set()
    losses: set[tuple[str, str]] = set()
    for server in servers:
        wire = wire_of_entry(server)
        if server.launch:
            commands.add((server.launch.command, *server.launch.args))
        elif wire is None:
            losses.add(
                (
                    server.server_id,
                    f"left out: '{server.endpoint}' is not an HTTP address",
                )
            )
        elif "*" in server.endpoint:
            losses.add(
                (
                    server.server_id,
                    f"left out: `*` in '{server.endpoint}' would allow other addresses",
                )
            )
        else:
            addresses.add(server.endpoint)
    allowed: list[dict[str, object]] = [
        {"serverCommand": list(command)} for command in sorted(commands)
    ]
    allowed += [{"serverUrl": address} for address in sorted(addresses)]
    settings: dict[str, Any] = {"allowedMcpServers": allowed}
    if client == "claude-code":
        # Without it, the settings of a user could allow more.
        settings = {"allowManagedMcpServersOnly": True, **settings}
    return AllowList(
        settings,
        tuple(Loss(server, "server", message) for server, message in sorted(losses)),
    )
