"""The tools of the servers in a lock: only those servers, and of their tools only what the lock opens."""

import asyncio
import logging
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from time import monotonic
from typing import Any

import mcp_types
import msgspec
from msgspec import Struct

from agent_resolver.connection.definition import definition_of, digest_of, with_change
from agent_resolver.connection.given_secret import (
    given_secrets,
    redacted_failure,
    without_secrets,
)
from agent_resolver.connection.mcp_connection import McpConnection
from agent_resolver.connection.probe import printable
from agent_resolver.connection.transport import Credentials, Surroundings, transport_of
from agent_resolver.core.admission import AdmissionCode, Grant, Refused
from agent_resolver.core.tool_id import is_usable_name
from agent_resolver.registry.compiled_schema import compile_schema
from agent_resolver.registry.errors import NeedsAction, ToolFailure, ToolIdConflict
from agent_resolver.registry.registry import ToolRegistry
from agent_resolver.registry.secret import Secret
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.audit import AuditKind, Record
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.lockfile import LockedServer
from agent_resolver.schema.outcome import FailureCode
from agent_resolver.storage.port import Store
from agent_resolver.storage.trail import append_record
from agent_resolver.telemetry.current_span import current_traceparent

_log = logging.getLogger(__name__)
_MAX_SCHEMA_BYTES = 256 * 1024
MAX_DESCRIPTION = 4_000
_MAX_NAMED = 100
"""How many tools of a list its record names."""
_MAX_CHANGED = 20
"""How many changed tools the record shows with their digests."""
SECONDS_BETWEEN = 10.0
"""How long calls leave a server alone that was looked for in vain."""
_FIRST_WAIT_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 60.0
"""How long a server that is kept connected is left alone between two attempts."""


class ServerUse(Struct, frozen=True, kw_only=True):
    """One locked server, what it may be used for, and how to reach it."""

    entry: LockedServer
    grant: Grant
    credentials: Credentials
    rate_limit_per_minute: float | None = None
    definitions: Mapping[str, Mapping[str, Any]] = {}
    """The texts that are kept of pinned definitions, by tool; they are only ever shown."""

    @property
    def name(self) -> str:
        """Its id and version."""
        return f"{self.entry.server_id}@{self.entry.version}"

    @property
    def source(self) -> str:
        """The source in the descriptors of its tools."""
        return f"server {self.name}"

    def tool_id(self, tool: str) -> str:
        """The id of one of its tools among the tools of all servers."""
        return f"{self.entry.server_id}.{tool}"


class LockedTool:
    """A tool of a locked server."""

    def __init__(
        self,
        descriptor: Descriptor,
        name: str,
        server: "ServerSource",
    ) -> None:
        self.descriptor = descriptor
        self._name = name
        self._server = server

    @property
    def source_secrets(self) -> tuple[Secret, ...]:
        """The secrets that its server was given."""
        return self._server.secrets

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401 - a JSON value
        """Call the tool on its server; the result is its structured content, else its content."""
        # Where no telemetry opens a span for this call, the server gets the place of
        # the caller.
        traceparent = current_traceparent() or context.parent
        # The connection of this moment: the server may have been lost and regained
        # since the call began.
        connection = self._server.connection
        result = await connection.call(
            self._name, arguments, self.descriptor.timeout_seconds, traceparent
        )
        if result.is_error:
            raise ToolFailure(
                FailureCode.TOOL_ERROR,
                _text_of(result) or "The tool reported an error without words",
            )
        # MCP: a tool with an output schema answers with structured content. Without
        # either, the blocks are the result.
        if (
            result.structured_content is not None
            or self.descriptor.output_schema is not None
        ):
            return result.structured_content
        return [
            block.model_dump(mode="json", by_alias=True, exclude_none=True)
            for block in result.content
        ]


class ServerSource:
    """A server of a lock as a source of tools: down at the start, lost or regained, its tools come and go with it.

    It alone connects the server. One attempt is made at a time, in a task of its own: the tasks that need the server
    wait for the same attempt, and one that stops waiting does not stop it.
    """

    def __init__(
        self,
        use: ServerUse,
        registry: ToolRegistry,
        store: Store,
        around: Surroundings,
    ) -> None:
        self.use = use
        self.name = use.source
        self.prefix = f"{use.entry.server_id}."
        self.problem: ToolFailure | NeedsAction | None = None
        """Why the server is not there, as far as is known."""
        self._registry = registry
        self._store = store
        self._around = around
        self._connection: McpConnection | None = None
        self._attempt: asyncio.Task[None] | None = None
        """The last attempt to connect."""
        self._offering = asyncio.Lock()
        self._failed_at = -math.inf
        """When the server was last looked for in vain."""
        self._recorded = ""
        """The digest of the last decisions about tools that were recorded for the connection."""
        self._run = ""
        """The run that connected the server; what it changes by itself is recorded there."""
        self._is_closed = False

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The secrets that the server was given, in its environment or to authenticate with."""
        return given_secrets(
            self.use.entry, self.use.credentials, self._around.environment
        )

    @property
    def is_there(self) -> bool:
        """True while the server is connected and its tools are offered."""
        return (
            not self._is_connecting
            and self._connection is not None
            and self._connection.is_there
        )

    @property
    def connection(self) -> McpConnection:
        """The connection of this moment, which may have ended.

        Raises:
            ToolFailure: There is none.
        """
        if self._connection is None:
            raise self._closed()
        return self._connection

    async def connect(self, run: str) -> None:
        """Connect the server and offer its tools, unless it is there; `problem` says why it is not.

        Raises:
            ToolIdConflict: Another source has one of its tools.
            UnreadableFile: It cannot be recorded.
        """
        if self.is_there or self._is_closed:
            return
        if self._attempt is None or self._attempt.done():
            self._attempt = asyncio.create_task(
                self._connect(run), name=f"connect {self.use.name}"
            )
            self._attempt.add_done_callback(_note_seen)
        await asyncio.shield(self._attempt)

    async def restore(self, run: str) -> ToolFailure | NeedsAction | None:
        """Connect the server again, unless it was looked for in vain a moment ago; why it is not there."""
        if self._is_connecting or monotonic() - self._failed_at > SECONDS_BETWEEN:
            with suppress(ToolIdConflict):  # It is the problem then.
                await self.connect(run)
        if self.is_there:
            return None
        return self.problem or self._closed()

    async def close(self) -> None:
        """End the connection, and the server if we started it. It is not connected again."""
        self._is_closed = True
        await self._close_connection()  # An attempt to connect ends with it.
        if self._attempt is not None:
            await asyncio.wait([self._attempt])

    def changed_definitions(self) -> dict[str, dict[str, Any] | None]:
        """The tools of a connected server that are not what the lock pins; None for one that is gone."""
        pinned = self.use.grant.tools
        if pinned is None or not self.is_there:
            return {}
        connection = self.connection
        # A name that is not usable, or is listed twice, is refused whatever is pinned.
        usable = {
            name: tool
            for name, tool in connection.tools.items()
            if is_usable_name(name)
        }
        changed = {
            name: tool
            for name, tool in usable.items()
            if digest_of(tool) != pinned.get(name)
        }
        listed = {name: self._definition_of(tool) for name, tool in changed.items()}
        # A name that is listed more than once is refused for that reason, and is not
        # gone.
        gone = pinned.keys() - connection.tools.keys() - connection.repeated
        return {**listed, **dict.fromkeys(sorted(gone))}

    async def until_lost(self) -> None:
        """Wait until the server is not there, and withdraw its tools then."""
        if self._is_connecting and self._attempt is not None:
            await asyncio.wait([self._attempt])
        connection = self._connection
        if connection is not None:
            await connection.lost()
        # The task that has connected it again since then answers for its tools.
        if self._connection is connection and not self._is_connecting:
            self._registry.replace(self.name, (), {})

    @property
    def _is_connecting(self) -> bool:
        return self._attempt is not None and not self._attempt.done()

    async def _connect(self, run: str) -> None:
        await self._close_connection()
        if self._is_closed:
            return
        # A new connection records its decisions, also where they are the same as
        # before.
        self._run = run
        self._recorded = ""
        try:
            connection = self._connection = self._new_connection()
            await connection.start()
        except (ToolFailure, NeedsAction) as problem:
            reason = {"server": self.use.name, "reason": _code_of(problem)}
            await append_record(
                self._store, Record(run, AuditKind.SERVER_UNAVAILABLE, reason)
            )
            if isinstance(problem, ToolFailure):
                problem = redacted_failure(problem, self.secrets)
            self._note_problem(problem)
            return
        endpoint = {"server": self.use.name, "endpoint": self.use.entry.endpoint}
        try:
            await append_record(
                self._store, Record(run, AuditKind.SERVER_CONNECTED, endpoint)
            )
            await self._offer_tools(connection)
        except Exception as error:
            # A server whose tools cannot be offered is not there.
            await connection.close()
            message = (
                f"The tools of {self.use.entry.server_id} cannot be offered: {error}"
            )
            self._note_problem(
                ToolFailure(FailureCode.NOT_CONFIGURED, message, "run `agent doctor`")
            )
            raise
        self.problem = None

    def _new_connection(self) -> McpConnection:
        transport = transport_of(
            self.use.entry, self.use.grant.scopes, self.use.credentials, self._around
        )
        seconds = self._around.connect_seconds
        connection = McpConnection(
            self.use.entry.server_id, transport, connect_seconds=seconds
        )
        connection.on_change = partial(self._offer_tools, connection)
        return connection

    async def _close_connection(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    def _note_problem(self, problem: ToolFailure | NeedsAction) -> None:
        self.problem = problem
        self._failed_at = monotonic()
        self._registry.replace(self.name, (), {})

    def _closed(self) -> ToolFailure:
        message = f"{self.use.entry.server_id} is not connected"
        return ToolFailure(
            FailureCode.SERVER_UNAVAILABLE, message, "run `agent doctor`"
        )

    async def _offer_tools(self, connection: McpConnection) -> None:
        """Offer what the server has now, and nothing else of it: all at once, after every decision is recorded."""
        use = self.use
        async with self._offering:  # What was listed later is offered later.
            listed = connection.tools
            # A digest is made only where the lock pins definitions to compare it with.
            digests = {
                name: digest_of(tool)
                for name, tool in listed.items()
                if use.grant.tools is not None
            }
            judged = self._judge_all(connection, digests)
            # Also for a call that is on its way, and waits until the tools are listed
            # again.
            connection.closed = {
                name: _failure_of(refused)
                for name, refused in judged.items()
                if refused
            }
            await self._record_decisions(judged, digests)
            # The connection may have ended, or been replaced, while the decisions were
            # written.
            if connection is not self._connection or not connection.is_there:
                return
            seconds = self._around.call_seconds
            admitted = [
                tool for name, tool in sorted(listed.items()) if judged[name] is None
            ]
            tools = [
                LockedTool(_descriptor_of(use, tool, seconds), tool.name, self)
                for tool in admitted
            ]
            refusals = {
                use.tool_id(printable(name)): refused
                for name, refused in judged.items()
                if refused
            }
            self._registry.replace(self.name, tools, refusals)

    def _judge_all(
        self, connection: McpConnection, digests: Mapping[str, str]
    ) -> dict[str, Refused | None]:
        """The decision on each tool that the server lists, once or more often, and on each that it no longer has."""
        grant = self.use.grant
        judged = {
            name: self._judge(tool, digests.get(name, ""))
            for name, tool in connection.tools.items()
        }
        for name in connection.repeated:
            judged[name] = grant.refuse(name, is_repeated=True)
        for name, refused in grant.refuse_removed(judged).items():
            judged[name] = self._with_change(name, refused)
        return judged

    def _judge(self, tool: mcp_types.Tool, definition: str) -> Refused | None:
        refused = self.use.grant.refuse(tool.name, definition=definition)
        refused = refused or _refuse_unusable_schema(tool)
        return self._with_change(tool.name, refused, tool)

    def _with_change(
        self,
        name: str,
        refused: Refused | None,
        tool: mcp_types.Tool | None = None,
    ) -> Refused | None:
        pinned = (self.use.grant.tools or {}).get(name)
        after = None if tool is None else self._definition_of(tool)
        return with_change(refused, self.use.definitions.get(name), pinned, after)

    def _definition_of(self, tool: mcp_types.Tool) -> dict[str, Any]:
        """The definition to show and to keep. One that quotes a secret has another digest then, and stays shut."""
        return without_secrets(definition_of(tool), self.secrets)

    async def _record_decisions(
        self, judged: Mapping[str, Refused | None], digests: Mapping[str, str]
    ) -> None:
        """Record once for each list what is open and what is not, however often a server lists the same tools."""
        body = _decisions_body(self.use, judged, digests)
        if body["digest"] == self._recorded:
            return
        await append_record(
            self._store, Record(self._run, AuditKind.SERVER_TOOLS, body)
        )
        self._recorded = str(body["digest"])


class LockedServers:
    """The servers of a lock, each a source of the registry."""

    def __init__(
        self,
        uses: Iterable[ServerUse],
        registry: ToolRegistry,
        store: Store,
        around: Surroundings,
    ) -> None:
        self._servers = {
            use.name: ServerSource(use, registry, store, around) for use in uses
        }
        for server in self._servers.values():
            registry.attach(server)
        self._keeping: list[asyncio.Task[None]] = []

    def names(self) -> list[str]:
        """Every locked server, in order."""
        return sorted(self._servers)

    @property
    def problems(self) -> dict[str, ToolFailure | NeedsAction]:
        """The problem of each server that could not be connected."""
        return {
            name: server.problem
            for name, server in sorted(self._servers.items())
            if server.problem
        }

    def changed_definitions(self) -> dict[str, dict[str, dict[str, Any] | None]]:
        """The tools that are not what the lock pins, by server: their definition now, None for one that is gone."""
        found = {
            name: server.changed_definitions()
            for name, server in sorted(self._servers.items())
        }
        return {name: changed for name, changed in found.items() if changed}

    async def connect(self, run: str) -> None:
        """Connect all servers at the same time; one may fail and the others connect."""
        await asyncio.gather(
            *(server.connect(run) for server in self._servers.values())
        )

    def keep_connected(self, run: str) -> None:
        """From now on look again for every server that is down or lost, until all are closed.

        A client lists the tools that are there, and never calls one that it does not see: so it is not enough to look
        for a server when one of its tools is called.
        """
        tasks = (
            asyncio.create_task(_keep_connected(server, run))
            for server in self._servers.values()
        )
        self._keeping += tasks

    async def close(self) -> None:
        """End every connection, and every server that we started."""
        for task in self._keeping:
            task.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)
        await asyncio.gather(*(server.close() for server in self._servers.values()))


async def _keep_connected(server: ServerSource, run: str) -> None:
    seconds = _FIRST_WAIT_SECONDS
    while True:
        began = monotonic()
        await server.until_lost()
        if monotonic() - began > _LONGEST_WAIT_SECONDS:
            # A server that stayed this long does not end again and again, so the
            # waiting starts small.
            seconds = _FIRST_WAIT_SECONDS
        await asyncio.sleep(seconds)
        # A server that ends again and again is not started again and again: each
        # attempt waits longer.
        seconds = min(seconds * 2, _LONGEST_WAIT_SECONDS)
        # The next attempt comes by itself, whatever was wrong with this one.
        try:
            await server.connect(run)
        except Exception as error:  # noqa: BLE001 - such as a disk that is full
            _log.warning("%s: %s", server.name, error)


def _note_seen(attempt: "asyncio.Task[None]") -> None:
    """Take note of how an attempt ended that no task waits for any longer, for asyncio would complain."""
    if not attempt.cancelled():
        attempt.exception()


def _decisions_body(
    use: ServerUse, judged: Mapping[str, Refused | None], digests: Mapping[str, str]
) -> dict[str, object]:
    """The record about the tools of a server: all of them in numbers and a digest, and the first by name."""
    codes = {name: _decision_code(refused) for name, refused in judged.items()}
    decisions = sorted((code, printable(name)) for name, code in codes.items())
    named: dict[str, list[str]] = {}
    for code, name in decisions[:_MAX_NAMED]:
        named.setdefault(code, []).append(name)
    admitted = sum(code == "ADMITTED" for code in codes.values())
    pinned = use.grant.tools or {}
    changed = {
        printable(name): {"pinned": pinned.get(name), "found": digests.get(name)}
        for name, code in sorted(codes.items())
        if code == AdmissionCode.TOOL_CHANGED
    }
    body: dict[str, object] = {
        "server": use.name,
        "admitted": admitted,
        "refused": len(judged) - admitted,
        "tools": named,
        # The digest covers what was found instead, so that a further change of the same
        # tool is recorded too.
        "digest": digest([*decisions, changed] if changed else decisions),
    }
    if changed:
        body["changed"] = dict(islice(changed.items(), _MAX_CHANGED))
    return body


def _decision_code(refused: Refused | None) -> str:
    return refused.code.value if refused else "ADMITTED"


def _descriptor_of(use: ServerUse, tool: mcp_types.Tool, seconds: float) -> Descriptor:
    return Descriptor(
        id=use.tool_id(tool.name),
        description=(tool.description or tool.title or tool.name)[:MAX_DESCRIPTION],
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        source=use.source,
        scopes=tuple(sorted(use.grant.tool_scopes.get(tool.name, ()))),
        rate_limit_per_minute=use.rate_limit_per_minute,
        timeout_seconds=seconds,
    )


def _refuse_unusable_schema(tool: mcp_types.Tool) -> Refused | None:
    """The refusal of a tool whose schemas cannot be used; None if they can."""
    for what, schema in (
        ("arguments", tool.input_schema),
        ("result", tool.output_schema),
    ):
        if schema is not None and (why := _unusable_schema(schema)):
            message = f"The schema of its {what} cannot be used: {why}"
            return Refused(
                AdmissionCode.SCHEMA_UNUSABLE,
                message,
                "tell the operator of the server",
            )
    return None


def _unusable_schema(schema: dict[str, Any]) -> str | None:
    try:
        if len(msgspec.json.encode(schema)) > _MAX_SCHEMA_BYTES:
            return f"it is larger than {_MAX_SCHEMA_BYTES:,} bytes"
        compile_schema(schema, has_formats=False)
    except (ValueError, RecursionError) as error:
        return str(error).partition("\n")[0]
    return None


def _failure_of(refused: Refused) -> ToolFailure:
    return ToolFailure(FailureCode(refused.code.value), refused.message, refused.remedy)


def _text_of(result: mcp_types.CallToolResult) -> str:
    return "\n".join(
        block.text
        for block in result.content
        if isinstance(block, mcp_types.TextContent)
    )


def _code_of(problem: ToolFailure | NeedsAction) -> str:
    if isinstance(problem, ToolFailure):
        return problem.code.value
    return problem.kind
