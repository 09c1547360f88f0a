"""Tells clients of both eras that agents changed."""

from collections.abc import Iterable, Sequence
from typing import Any

import anyio
import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError

from agent_resolver.catalog.errors import MalformedUri
from agent_resolver.catalog.uri import parse_uri
from agent_resolver.server.era import is_modern

Context = ServerRequestContext[Any, Any]

_MOST_SUBSCRIPTIONS = 1000
"""How many agents one connection may subscribe to."""
_PATIENCE_SECONDS = 1.0
"""How long a client may take to read what it is told."""


class Notices:
    """Who wants to know, and the one way to tell them all.

    A client of 2026-07-28 listens on a stream of its own, which the SDK serves. A client with a handshake subscribes
    over its connection, which is remembered here until it closes.
    """

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._connections: dict[int, tuple[Connection, set[str]]] = {}
        self.listen = ListenHandler(self._bus)

    def remember(self, ctx: Context) -> set[str] | None:
        """Remember the connection of a request with a handshake; the addresses that it subscribes to."""
        if is_modern(ctx):
            return None
        connection = ctx.session._connection  # noqa: SLF001 - the SDK has no other way to reach it later
        known = self._connections.get(id(connection))
        if known is None:
            known = self._connections[id(connection)] = (connection, set())
            connection.exit_stack.callback(self._connections.pop, id(connection), None)
        return known[1]

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """Tell this client when an agent changes."""
        wanted = self.remember(ctx)
        if wanted is not None:
            name = _name(params.uri)
            if name not in wanted and len(wanted) >= _MOST_SUBSCRIPTIONS:
                raise MCPError(types.INVALID_PARAMS, f"At most {_MOST_SUBSCRIPTIONS} subscriptions are kept")
            wanted.add(name)
        return types.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        """Tell it no longer."""
        wanted = self.remember(ctx)
        if wanted is not None:
            wanted.discard(_name(params.uri))
        return types.EmptyResult()

    async def tell(self, uris: Iterable[str]) -> None:
        """Tell every client that these agents came, went or changed."""
        changed = sorted(uris)
        for uri in changed:
            await self._bus.publish(ResourceUpdated(uri=uri))
        await self._bus.publish(ResourcesListChanged())
        async with anyio.create_task_group() as group:
            for connection, wanted in list(self._connections.values()):
                group.start_soon(_tell, connection, [uri for uri in changed if uri in wanted])


async def _tell(connection: Connection, uris: Sequence[str]) -> None:
    # A client that has stopped to read must not keep the others from hearing.
    with anyio.move_on_after(_PATIENCE_SECONDS):
        for uri in uris:
            await connection.send_resource_updated(uri)
        await connection.send_resource_list_changed()


def _name(uri: str) -> str:
    try:
        return parse_uri(uri).name
    except MalformedUri as error:
        raise MCPError(types.INVALID_PARAMS, str(error), {"uri": uri}) from None
