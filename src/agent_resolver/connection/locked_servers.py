"""The tools of the servers in a lock: only those servers, and of their tools only what the lock opens."""

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from time import monotonic
from typing import Any

import mcp_types
import msgspec
from msgspec import Struct

from agent_resolver.connection.mcp_connection import McpConnection
from agent_resolver.connection.transport import Credentials, Surroundings, transport_of
from agent_resolver.core.admission import AdmissionCode, Grant, Refused
from agent_resolver.registry.compiled_schema import compile_schema
from agent_resolver.registry.errors import NeedsAction, ToolFailure
from agent_resolver.registry.port import Trail
from agent_resolver.registry.registry import ToolRegistry
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.lockfile import LockedServer
from agent_resolver.schema.outcome import FailureCode, Outcome
from agent_resolver.telemetry.current_span import current_traceparent

_MAX_SCHEMA_BYTES = 256 * 1024
_MAX_DESCRIPTION = 4_000
_SECONDS_BETWEEN = 10.0
"""How long a server that is not there is left alone."""


class ServerUse(Struct, frozen=True, kw_only=True):
    """One locked server, what it may be used for, and how to reach it."""

    entry: LockedServer
    grant: Grant
    credentials: Credentials
    rate_limit_per_minute: float | None = None

    @property
    def name(self) -> str:
        """Its id and version."""
        return f"{self.entry.server_id}@{self.entry.version}"

    @property
    def source(self) -> str:
        """What descriptors of its tools say about where they come from."""
        return f"server {self.name}"

    def tool_id(self, tool: mcp_types.Tool) -> str:
        """What a tool of it is called among the tools of all servers."""
        return f"{self.entry.server_id}.{tool.name}"


class LockedTool:
    """A tool of a locked server."""

    def __init__(self, descriptor: Descriptor, name: str, connection: McpConnection) -> None:
        self.descriptor = descriptor
        self._name = name
        self._connection = connection

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401 - a JSON value
        """Call the tool on its server; the result is its structured content, else its content."""
        traceparent = current_traceparent() or context.parent
        result = await self._connection.call(self._name, arguments, self.descriptor.timeout_seconds, traceparent)
        if result.is_error:
            raise ToolFailure(FailureCode.TOOL_ERROR, _text(result) or "The tool reported an error without words")
        if result.structured_content is not None or self.descriptor.output_schema is not None:
            return result.structured_content
        return [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]


class LockedServers:
    """Connects the servers of a lock and offers their admitted tools in a registry."""

    def __init__(self, uses: Iterable[ServerUse], registry: ToolRegistry, trail: Trail, around: Surroundings) -> None:
        self._uses = {use.name: use for use in uses}
        self._registry = registry
        self._trail = trail
        self._around = around
        self._connections: dict[str, McpConnection] = {}
        self._offering = asyncio.Lock()
        self._tried: dict[str, float] = {}
        """When each was last looked for."""
        self.problems: dict[str, ToolFailure | NeedsAction] = {}
        """Why a server is not there; the others are."""

    def names(self) -> list[str]:
        """Every locked server, in order."""
        return sorted(self._uses)

    def owner_of(self, tool_id: str) -> str | None:
        """The locked server that a tool id belongs to: ids may hold dots, so the longest that fits."""
        fits = [use for use in self._uses.values() if tool_id.startswith(f"{use.entry.server_id}.")]
        return max(fits, key=lambda use: len(use.entry.server_id)).name if fits else None

    async def connect(self, run: str, names: Iterable[str] | None = None) -> None:
        """Connect these servers, or all of them, at the same time; a failure of one is no failure of another."""
        wanted = self._uses if names is None else names
        await asyncio.gather(*(self._connect(self._uses[name], run) for name in wanted))

    async def call(self, tool_id: str, arguments: dict[str, Any], context: CallContext) -> Outcome:
        """Call a tool of the registry; where its server is not there, it is looked for again, every few seconds."""
        owner = self.owner_of(tool_id)
        if owner in self.problems and monotonic() - self._tried[owner] > _SECONDS_BETWEEN:
            await self._connect(self._uses[owner], context.run)
        if owner in self.problems:
            return await self._registry.unavailable(tool_id, self.problems[owner], context)
        return await self._registry.call(tool_id, arguments, context)

    async def close(self) -> None:
        """End every connection, and every server that we started."""
        await asyncio.gather(*(connection.close() for connection in self._connections.values()))
        self._connections.clear()

    async def _connect(self, use: ServerUse, run: str) -> None:
        self._tried[use.name] = monotonic()
        if (before := self._connections.pop(use.name, None)) is not None:
            await before.close()
        try:
            transport = transport_of(use.entry, use.grant.scopes, use.credentials, self._around)
            connection = McpConnection(use.entry.server_id, transport, connect_seconds=self._around.connect_seconds)
            self._connections[use.name] = connection
            await connection.start()
        except (ToolFailure, NeedsAction) as problem:
            self.problems[use.name] = problem
            await self._trail.append(run, "server.unavailable", {"server": use.name, "reason": _code(problem)})
            return
        self.problems.pop(use.name, None)
        await self._trail.append(run, "server.connected", {"server": use.name, "endpoint": use.entry.endpoint})
        connection.on_change = partial(self._offer_all, use, connection, run)
        await connection.on_change()

    async def _offer_all(self, use: ServerUse, connection: McpConnection, run: str) -> None:
        """Offer what the server has now, and nothing else of it: all at once, after every decision is recorded."""
        async with self._offering:
            judged = [(tool, use.grant.refuse(name) or _unusable(tool)) for name, tool in _in_order(connection.tools)]
            for tool, refused in judged:
                verdict = {"tool": use.tool_id(tool), "code": refused.code.value if refused else "ADMITTED"}
                await self._trail.append(run, "tool.refused" if refused else "tool.admitted", verdict)
            self._registry.withdraw(use.source)
            for tool, refused in judged:
                if refused is None:
                    descriptor = _descriptor(use, tool, self._around.call_seconds)
                    self._registry.add(LockedTool(descriptor, tool.name, connection))
                else:
                    self._registry.refuse(use.tool_id(tool), use.source, refused)


def _in_order(tools: Mapping[str, mcp_types.Tool]) -> list[tuple[str, mcp_types.Tool]]:
    return sorted(tools.items())


def _descriptor(use: ServerUse, tool: mcp_types.Tool, seconds: float) -> Descriptor:
    return Descriptor(
        id=use.tool_id(tool),
        description=(tool.description or tool.title or tool.name)[:_MAX_DESCRIPTION],
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        source=use.source,
        scopes=tuple(sorted(use.grant.tool_scopes.get(tool.name, ()))),
        rate_limit_per_minute=use.rate_limit_per_minute,
        timeout_seconds=seconds,
    )


def _unusable(tool: mcp_types.Tool) -> Refused | None:
    """Why the schemas of a tool cannot be used, or None when they can."""
    for what, schema in (("arguments", tool.input_schema), ("result", tool.output_schema)):
        if schema is not None and (why := _unusable_schema(schema)):
            message = f"The schema of its {what} cannot be used: {why}"
            return Refused(AdmissionCode.SCHEMA_UNUSABLE, message, "tell whoever runs the server")
    return None


def _unusable_schema(schema: dict[str, Any]) -> str | None:
    try:
        if len(msgspec.json.encode(schema)) > _MAX_SCHEMA_BYTES:
            return f"it is larger than {_MAX_SCHEMA_BYTES:,} bytes"
        compile_schema(schema, has_formats=False)
    except (ValueError, RecursionError) as error:
        return str(error).partition("\n")[0]
    return None


def _text(result: mcp_types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, mcp_types.TextContent))


def _code(problem: ToolFailure | NeedsAction) -> str:
    return problem.code.value if isinstance(problem, ToolFailure) else problem.kind
