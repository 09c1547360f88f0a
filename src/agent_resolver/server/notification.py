"""Tells clients of both eras that agents or tools changed."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Protocol

import anyio
import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    SubscriptionBus,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError

from agent_resolver.catalog.errors import MalformedUri
from agent_resolver.catalog.uri import parse_uri
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.classification import CLASSIFICATION_RANK, Classification
from agent_resolver.server.protocol_revision import is_modern

Context = ServerRequestContext[Any, Any]

_MOST_SUBSCRIPTIONS = 1000
"""How many agents one connection or stream may subscribe to."""
_PATIENCE_SECONDS = 1.0
"""How long a client may take to read a notification."""


class Listening(ListenHandler):
    """Serves the streams of clients of 2026-07-28, and knows how they spell the addresses that they ask for."""

    def __init__(self, bus: SubscriptionBus) -> None:
        super().__init__(bus)
        self._spellings: dict[object, list[tuple[str, str]]] = {}
        """Maps each stream to the URIs that it spells differently from listings, as listings spell them first."""

    async def __call__(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve one stream."""
        asked = params.notifications.resource_subscriptions or ()
        if len(asked) > _MOST_SUBSCRIPTIONS:
            raise _too_many()
        stream = object()
        self._spellings[stream] = list(_spelled_otherwise(asked))
        # What is acknowledged is what the client may rely on, so the rest is taken out
        # before.
        honored = params.model_copy(
            update={"notifications": _sendable(params.notifications)}
        )
        try:
            return await super().__call__(ctx, honored)
        finally:
            del self._spellings[stream]

    def spellings(self, uris: Collection[str]) -> list[str]:
        """These addresses, in every spelling that a stream asks for."""
        others = (pair for pairs in self._spellings.values() for pair in pairs)
        return sorted({*uris, *(spelling for uri, spelling in others if uri in uris)})


class SessionSubscriptions(Protocol):
    """The agents that sessions over HTTP subscribe to, which all servers of a project share."""

    async def wanted(self, sessions: list[str]) -> dict[str, set[str]]:
        """The agents that each of these sessions subscribes to."""
        ...

    async def change(
        self,
        session: str,
        name: str,
        *,
        is_wanted: bool,
    ) -> bool:
        """Subscribe to an agent, or no longer; False if the session has too many subscriptions."""
        ...


class Notices:
    """The clients that asked for notifications, and the one way to notify them all.

    A client of 2026-07-28 listens on a stream of its own, which the SDK serves. A client with a handshake subscribes
    over its connection, which is remembered here until it closes. A client hears only of agents that its caller is
    cleared for, so there is one bus for each clearance.
    """

    def __init__(self) -> None:
        self._buses = {
            level: InMemorySubscriptionBus() for level in CLASSIFICATION_RANK
        }
        self._listening = {level: Listening(bus) for level, bus in self._buses.items()}
        self._connections: dict[int, _Subscriber] = {}
        self.is_strict = False
        """Whether clients see only the agents that resolve."""
        self.clearance_of: Callable[[Context], Classification] = lambda _: "RESTRICTED"
        """Finds the clearance of a request's caller."""
        self.usual_clearance: Classification = "RESTRICTED"
        """The clearance of a request over HTTP where callers bring no token."""
        self.sessions: SessionSubscriptions | None = None
        """What sessions over HTTP subscribe to; the other connections are remembered here."""
        self._is_closed = False

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve one stream of a client of 2026-07-28; after `close` it ends once it is acknowledged."""
        listening = self._listening[self.clearance_of(ctx)]
        if self._is_closed:
            # By then the stream is known to the SDK, which registers it before it first
            # waits.
            asyncio.get_running_loop().call_soon(listening.close)
        return await listening(ctx, params)

    def close(self) -> None:
        """End all streams, also those that clients open from now on: another server has the next one."""
        self._is_closed = True
        for listening in self._listening.values():
            listening.close()

    async def initialized(
        self, ctx: Context, _params: types.NotificationParams
    ) -> None:
        """Remember a client that has shaken hands: it hears when the list changes, whether it subscribes or not."""
        self.remember(ctx)

    def remember_stream(
        self,
        connection: Connection,
        session: str,
        caller: Caller | None,
    ) -> None:
        """Remember the stream on which a session over HTTP hears of changes, until it closes."""
        stream = self._connections[id(connection)] = _Subscriber(connection, session)
        connection.exit_stack.callback(self._connections.pop, id(connection), None)
        clearance = self.usual_clearance if caller is None else caller.clearance
        stream.rank = CLASSIFICATION_RANK[clearance]

    def remember(self, ctx: Context) -> set[str] | None:
        """Remember the connection of a request with a handshake; the addresses that it subscribes to."""
        if is_modern(ctx) or (self.sessions is not None and ctx.request is not None):
            return None
        connection = ctx.session._connection  # noqa: SLF001 - the SDK has no other way to reach it later
        known = self._connections.get(id(connection))
        if known is None:
            known = self._connections[id(connection)] = _Subscriber(connection)
            connection.exit_stack.callback(self._connections.pop, id(connection), None)
        # A connection may be used by several callers in turn: it hears only what each
        # of them may see.
        known.rank = min(known.rank, CLASSIFICATION_RANK[self.clearance_of(ctx)])
        return known.wanted

    async def subscribe(
        self, ctx: Context, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        """Tell this client when an agent changes."""
        wanted = self.remember(ctx)
        if session := self._session_of(ctx):
            if self.sessions and not await self.sessions.change(
                session, _agent_of(params.uri), is_wanted=True
            ):
                raise _too_many()
        elif wanted is not None:
            name = _agent_of(params.uri)
            if name not in wanted and len(wanted) >= _MOST_SUBSCRIPTIONS:
                raise _too_many()
            wanted.add(name)
        return types.EmptyResult()

    async def unsubscribe(
        self, ctx: Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        """Tell it no longer."""
        wanted = self.remember(ctx)
        if session := self._session_of(ctx):
            if self.sessions:
                await self.sessions.change(
                    session, _agent_of(params.uri), is_wanted=False
                )
        elif wanted is not None:
            wanted.discard(_agent_of(params.uri))
        return types.EmptyResult()

    def _session_of(self, ctx: Context) -> str:
        """The session of a request over HTTP with a handshake; empty for any other request."""
        if is_modern(ctx) or self.sessions is None or ctx.request is None:
            return ""
        return str(ctx.request.headers.get("mcp-session-id", ""))

    async def tell(
        self, uris: Iterable[str], ranks: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        """Tell every client that sees them that these agents came, went or changed.

        Args:
            uris: The addresses of the agents.
            ranks: The rank of the clearance that it takes to see each of them; 0 where absent.
        """
        changed = {uri: ranks.get(uri, 0) for uri in uris}
        for level, bus in self._buses.items():
            if visible := _seen_at(changed, CLASSIFICATION_RANK[level]):
                for uri in self._listening[level].spellings(visible):
                    await bus.publish(ResourceUpdated(uri=uri))
                await bus.publish(ResourcesListChanged())
                await bus.publish(PromptsListChanged())
        streams = [each.session for each in self._connections.values() if each.session]
        asked = await self.sessions.wanted(streams) if self.sessions and streams else {}
        async with anyio.create_task_group() as group:
            for subscriber in list(self._connections.values()):
                wanted = asked.get(subscriber.session, subscriber.wanted)
                if visible := _seen_at(changed, subscriber.rank):
                    group.start_soon(
                        _notify_client, subscriber.connection, sorted(visible & wanted)
                    )

    async def tell_of_tools(self) -> None:
        """Tell every client that tools came, went or changed."""
        for bus in self._buses.values():
            await bus.publish(ToolsListChanged())
        async with anyio.create_task_group() as group:
            for subscriber in list(self._connections.values()):
                group.start_soon(_tell_of_tools, subscriber.connection)


class _Subscriber:
    """A connection of a client with a handshake."""

    def __init__(self, connection: Connection, session: str = "") -> None:
        self.connection = connection
        self.session = session
        """The session over HTTP whose stream it is; empty over stdio."""
        self.wanted: set[str] = set()
        """The agents that it subscribes to."""
        self.rank = max(CLASSIFICATION_RANK.values())
        """The rank of the lowest clearance among the callers that used it."""


def _seen_at(changed: Mapping[str, int], rank: int) -> set[str]:
    return {uri for uri, needed in changed.items() if needed <= rank}


async def _tell_of_tools(connection: Connection) -> None:
    with anyio.move_on_after(_PATIENCE_SECONDS):
        await connection.send_tool_list_changed()


async def _notify_client(connection: Connection, uris: Sequence[str]) -> None:
    # A client that has stopped to read must not keep the others from hearing.
    with anyio.move_on_after(_PATIENCE_SECONDS):
        for uri in uris:
            await connection.send_resource_updated(uri)
        await connection.send_resource_list_changed()
        await connection.send_prompt_list_changed()


def _spelled_otherwise(uris: Iterable[str]) -> Iterator[tuple[str, str]]:
    for uri in uris:
        with suppress(MalformedUri):
            if (name := parse_uri(uri).name) != uri:
                yield name, uri


def _sendable(asked: types.SubscriptionFilter) -> types.SubscriptionFilter:
    """The part of what a stream asks for that this server can send."""
    uris = [uri for uri in asked.resource_subscriptions or () if _is_agent_uri(uri)]
    return types.SubscriptionFilter(
        tools_list_changed=asked.tools_list_changed,
        prompts_list_changed=asked.prompts_list_changed,
        resources_list_changed=asked.resources_list_changed,
        resource_subscriptions=uris or None,
    )


def _is_agent_uri(uri: str) -> bool:
    try:
        parse_uri(uri)
    except MalformedUri:
        return False
    return True


def _too_many() -> MCPError:
    return MCPError(
        types.INVALID_PARAMS, f"At most {_MOST_SUBSCRIPTIONS} subscriptions are kept"
    )


def _agent_of(uri: str) -> str:
    try:
        return parse_uri(uri).name
    except MalformedUri as error:
        raise MCPError(types.INVALID_PARAMS, str(error), {"uri": uri}) from None
