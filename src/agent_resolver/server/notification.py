"""Tells clients of both eras that agents or tools changed."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import anyio
import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
    SubscriptionBus,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError

from agent_resolver.catalog.errors import MalformedUri
from agent_resolver.catalog.uri import parse_uri
from agent_resolver.server.protocol_revision import is_modern

Context = ServerRequestContext[Any, Any]

_MOST_SUBSCRIPTIONS = 1000
"""How many agents one connection or stream may subscribe to."""
_PATIENCE_SECONDS = 1.0
"""How long a client may take to read what it is told."""


class Listening(ListenHandler):
    """Serves the streams of clients of 2026-07-28, and knows how they spell the addresses that they ask for."""

    def __init__(self, bus: SubscriptionBus) -> None:
        super().__init__(bus)
        self._spellings: dict[object, list[tuple[str, str]]] = {}
        """Of each stream the addresses that it spells otherwise than listings do, the way of listings first."""

    async def __call__(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve one stream."""
        asked = params.notifications.resource_subscriptions or ()
        if len(asked) > _MOST_SUBSCRIPTIONS:
            raise _too_many()
        stream = object()
        self._spellings[stream] = list(_spelled_otherwise(asked))
        try:
            return await super().__call__(ctx, params)
        finally:
            del self._spellings[stream]

    def spellings(self, uris: Collection[str]) -> list[str]:
        """These addresses, in every spelling that a stream asks for."""
        others = (pair for pairs in self._spellings.values() for pair in pairs)
        return sorted({*uris, *(spelling for uri, spelling in others if uri in uris)})


class Notices:
    """Who wants to know, and the one way to tell them all.

    A client of 2026-07-28 listens on a stream of its own, which the SDK serves. A client with a handshake subscribes
    over its connection, which is remembered here until it closes.
    """

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._connections: dict[int, tuple[Connection, set[str]]] = {}
        self.listen = Listening(self._bus)
        self.is_strict = False
        """Whether clients see only the agents that resolve."""

    async def initialized(self, ctx: Context, _params: types.NotificationParams) -> None:
        """Remember a client that has shaken hands: it is told when the list changes, whether it subscribes or not."""
        self.remember(ctx)

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
            name = _agent_of(params.uri)
            if name not in wanted and len(wanted) >= _MOST_SUBSCRIPTIONS:
                raise _too_many()
            wanted.add(name)
        return types.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        """Tell it no longer."""
        wanted = self.remember(ctx)
        if wanted is not None:
            wanted.discard(_agent_of(params.uri))
        return types.EmptyResult()

    async def tell(self, uris: Iterable[str]) -> None:
        """Tell every client that these agents came, went or changed."""
        changed = set(uris)
        for uri in self.listen.spellings(changed):
            await self._bus.publish(ResourceUpdated(uri=uri))
        await self._bus.publish(ResourcesListChanged())
        async with anyio.create_task_group() as group:
            for connection, wanted in list(self._connections.values()):
                group.start_soon(_notify_client, connection, sorted(changed & wanted))

    async def tell_of_tools(self) -> None:
        """Tell every client that tools came, went or changed."""
        await self._bus.publish(ToolsListChanged())
        async with anyio.create_task_group() as group:
            for connection, _ in list(self._connections.values()):
                group.start_soon(_tell_of_tools, connection)


async def _tell_of_tools(connection: Connection) -> None:
    with anyio.move_on_after(_PATIENCE_SECONDS):
        await connection.send_tool_list_changed()


async def _notify_client(connection: Connection, uris: Sequence[str]) -> None:
    # A client that has stopped to read must not keep the others from hearing.
    with anyio.move_on_after(_PATIENCE_SECONDS):
        for uri in uris:
            await connection.send_resource_updated(uri)
        await connection.send_resource_list_changed()


def _spelled_otherwise(uris: Iterable[str]) -> Iterator[tuple[str, str]]:
    for uri in uris:
        with suppress(MalformedUri):
            if (name := parse_uri(uri).name) != uri:
                yield name, uri


def _too_many() -> MCPError:
    return MCPError(types.INVALID_PARAMS, f"At most {_MOST_SUBSCRIPTIONS} subscriptions are kept")


def _agent_of(uri: str) -> str:
    try:
        return parse_uri(uri).name
    except MalformedUri as error:
        raise MCPError(types.INVALID_PARAMS, str(error), {"uri": uri}) from None
