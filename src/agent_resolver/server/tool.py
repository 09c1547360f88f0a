"""`tools/*`: the registry's tools over MCP, each call through the one pipeline."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from typing import Any, Final

import anyio
import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from msgspec import UNSET, structs

from agent_resolver.catalog.cursor import encode_cursor
from agent_resolver.core.wire_name import from_wire_name, to_wire_name
from agent_resolver.registry.call import MAX_ID
from agent_resolver.registry.registry import ToolRegistry
from agent_resolver.registry.tool import CallContext, Progress
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.outcome import Failed, FailureCode, Outcome
from agent_resolver.server.call_result import TRACE_KEY, make_result
from agent_resolver.server.page import last_seen
from agent_resolver.server.resource import TTL_MS, limit_of
from agent_resolver.server.task import Tasks, run_or_outcome, starts_run
from agent_resolver.server.waiting_call import WaitingCalls
from agent_resolver.storage.port import Store
from agent_resolver.telemetry.trace_context import (
    format_parent,
    parse_parent,
    parse_state,
    parse_trace_id,
)

Context = ServerRequestContext[Any, Any]
_log = logging.getLogger(__name__)

CALLER_KEY: Final = "agent_resolver.caller"
"""Where an authenticated request carries its caller."""
CALL_KEY: Final = "agent-resolver/key"
TAG_KEY: Final = "agent-resolver/tag"
MANIFEST_KEY: Final = "agent-resolver/manifest"
TASK_KEY: Final = "agent-resolver/task"
ID_KEY: Final = "agent-resolver/id"
_PAGE: Final = 100
_PATIENCE_SECONDS: Final = 1.0
"""How long a client may take to read how far a call is."""
_NAMES: Final = (b'"$id"', b'"$anchor"', b'"$dynamicRef"', b'"$recursiveRef"')
"""What a schema can refer to itself by, wherever it stands."""
_FAILURE: Final = {
    "type": "object",
    "description": "Why there is no result; `isError` is true then",
    "properties": {
        "status": {
            "enum": ["failed", "pending"],
            "description": "`pending` where it waits for a person",
        },
        "code": {"type": "string", "description": "The reason, for machines"},
        "message": {"type": "string", "description": "The reason in words"},
        "remedy": {"type": "string", "description": "What to do next"},
        "traceId": {
            "type": "string",
            "description": "The trace that the call belongs to",
        },
    },
    "required": ["status", "code", "message", "remedy", "traceId"],
}


class RegistryTools:
    """Answers what clients ask of a registry."""

    def __init__(
        self,
        registry: ToolRegistry,
        context: CallContext,
        caller_of: Callable[[Context], Caller | None] = lambda _: None,
        manifest: dict[str, str] | None = None,
        store: Store | None = None,
    ) -> None:
        """Tools for the caller that `caller_of` finds in a request, else for the caller of `context`.

        `store` is the state that all servers of the project share; left out, nothing is shared.
        """
        self._registry = registry
        self._context = context
        self._caller_in = caller_of
        self._manifest = manifest
        self._waiting = WaitingCalls(store)
        self.tasks: Tasks | None = None
        """Given where calls start runs that clients may ask for later."""

    def caller_of(self, ctx: Context) -> Caller:
        """The caller who sent a request."""
        return self._caller_in(ctx) or self._context.caller

    async def list(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """A page of the tools that the caller may use, in the order of their ids.

        `_meta["agent-resolver/tag"]` picks those with a tag.
        """
        limit = limit_of(ctx, _PAGE)
        tag = _text_in_meta(ctx, TAG_KEY)
        tools = self._registry.list(tag, caller=self.caller_of(ctx))
        listing = digest([tool.id for tool in tools])
        start = _place_after(tools, last_seen(params, listing))
        page = tools[start : start + limit]
        has_more = start + limit < len(tools)
        next_cursor = encode_cursor(listing, page[-1].id) if has_more else None
        meta: dict[str, Any] = {
            "agent-resolver/total": len(tools),
            "agent-resolver/count": len(page),
        }
        if self._manifest:
            meta[MANIFEST_KEY] = self._manifest
        return types.ListToolsResult(
            tools=[
                _make_mcp_tool(tool, is_task=bool(self.tasks) and starts_run(tool))
                for tool in page
            ],
            next_cursor=next_cursor,
            # Clients keep listings without what they asked by: part of one must not
            # stand for the whole.
            ttl_ms=TTL_MS if tag is None else 0,
            _meta=meta,
        )

    async def call(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | dict[str, Any]:
        """Call a tool by its served name or its id; a refusal is a result that says so, for the model to read.

        A call that starts a run is answered with a task, if the client can take one.
        """
        caller = self.caller_of(ctx)
        tool_id = from_wire_name(params.name, self._known_ids())
        if tool_id is None:
            raise _unknown_tool(params.name, _trace_of(ctx, None)[1])
        arguments = params.arguments or {}
        call = (caller.id, tool_id, arguments)
        waiting = await self._waiting.trace_of(*call)
        parent, trace_id = _trace_of(ctx, waiting)
        given_up = asyncio.Event()
        context = structs.replace(
            self._context,
            trace_id=trace_id,
            parent=parent,
            key=_text_in_meta(ctx, CALL_KEY),
            caller=caller,
            connection=_connection_of(ctx, self._context.run),
            progress=_progress_to_client(ctx),
            given_up=given_up,
        )
        try:
            outcome = await self._call_or_start(ctx, tool_id, arguments, context)
        except asyncio.CancelledError:
            # The client cancelled its request, or is gone: a tool that can end early
            # does so.
            given_up.set()
            raise
        if isinstance(outcome, dict):
            return outcome
        if _text_in_meta(ctx, TRACE_KEY) is None:
            await self._waiting.note(*call, outcome, waiting)
        if isinstance(outcome, Failed) and outcome.code is FailureCode.UNKNOWN_TOOL:
            raise _unknown_tool(params.name, outcome.trace_id)
        outcome = _with_served_name(outcome, tool_id, params.name)
        return make_result(outcome, parent, _trace_state_of(ctx) if parent else "")

    async def _call_or_start(
        self,
        ctx: Context,
        tool_id: str,
        arguments: dict[str, Any],
        context: CallContext,
    ) -> Outcome | dict[str, Any]:
        """The outcome of a call; or the task for a run that it started, if the client can take one."""
        tasks = self.tasks
        handle = tasks.handle_for(ctx, self._registry.get(tool_id)) if tasks else None
        if tasks is None or handle is None:
            return await self._registry.call(tool_id, arguments, context)
        context = tasks.left_alone(context, handle)
        calling = self._registry.start_call(tool_id, arguments, context)
        run = await run_or_outcome(calling, handle)
        return await tasks.created(run) if run else await calling

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """The schema of a tool's arguments, for the SDK."""
        tool_id = from_wire_name(name, self._known_ids())
        found = self._registry.get(tool_id) if tool_id is not None else None
        return found.input_schema if found else None

    def _known_ids(self) -> Iterator[str]:
        """The ids that a name with a digest may stand for: a call of a refused tool says why it is refused."""
        for tool in self._registry.list():
            yield tool.id
        for refused in self._registry.refused():
            yield refused.id


def _place_after(tools: Sequence[Descriptor], last: str | None) -> int:
    """The number of tools that a client has seen, up to and with the last one; all of them if that one is gone."""
    if last is None:
        return 0
    places = (place for place, tool in enumerate(tools, 1) if tool.id == last)
    return next(places, len(tools))


def _unknown_tool(name: str, trace_id: str) -> MCPError:
    return MCPError(
        types.INVALID_PARAMS, f"Unknown tool: {name[:MAX_ID]}", {TRACE_KEY: trace_id}
    )


def caller_of_request(ctx: Context) -> Caller | None:
    """The caller who sent a request over HTTP; None where no issuer vouches for callers."""
    scope = getattr(ctx.request, "scope", None) or {}
    caller = scope.get(CALLER_KEY)
    return caller if isinstance(caller, Caller) else None


def _connection_of(ctx: Context, run: str) -> str:
    """A name for the connection of a request: over stdio there is one, over HTTP a session has one for its life.

    A request over HTTP without a session is a connection of its own.
    """
    if ctx.request is None:
        return f"stdio {run}"
    headers = getattr(ctx.request, "headers", None) or {}
    return f"http {headers.get('mcp-session-id') or secrets.token_hex(16)}"


def _text_in_meta(ctx: Context, key: str) -> str | None:
    value = (ctx.meta or {}).get(key)
    if value is not None and not isinstance(value, str):
        raise MCPError(types.INVALID_PARAMS, f"`{key}` must be text", {"key": key})
    return value


def _trace_of(ctx: Context, waiting: str | None) -> tuple[str | None, str]:
    """The parent that a client names in W3C's trace context, and the trace that the call belongs to.

    A client may also name the trace alone, as to make a call again that was approved meanwhile; one that does not is
    taken to go on with the trace under which the call is `waiting`.
    """
    given = (ctx.meta or {}).get("traceparent")
    # W3C: a value of another form is to be ignored.
    parent = parse_parent(given) if isinstance(given, str) else None
    named = _text_in_meta(ctx, TRACE_KEY)
    if named is not None and not parse_trace_id(named):
        message = (
            f"`{TRACE_KEY}` has 32 hexadecimal digits in lower case, not all of them 0"
        )
        raise MCPError(types.INVALID_PARAMS, message, {"key": TRACE_KEY})
    named = named or waiting
    if parent and (not named or parse_trace_id(named) == parent.trace_id):
        own = format_parent(parent.trace_id, parent.span_id, parent.flags)
        return own, f"{parent.trace_id:032x}"
    return None, named or secrets.token_hex(16)


def _trace_state_of(ctx: Context) -> str:
    """The state that other systems keep with the trace, in W3C's trace context."""
    given = (ctx.meta or {}).get("tracestate")
    if isinstance(given, str):
        return parse_state(given)
    return ""


def _progress_to_client(ctx: Context) -> Progress:
    """Tells the client how far its call is, if it asked for that; one that is gone or does not listen stops nothing."""
    is_heard = True

    async def tell(
        done: float, total: float | None = None, message: str | None = None
    ) -> None:
        nonlocal is_heard
        if not is_heard:
            return  # To wait for it each time would take longer than the tool may.
        try:
            # JSON has no word for what is not finite.
            if not isfinite(done):
                return
            known = total if total is not None and isfinite(total) else None
            with anyio.move_on_after(_PATIENCE_SECONDS) as patience:
                await ctx.session.report_progress(done, known, message)
            is_heard = not patience.cancelled_caught
        except Exception:  # noqa: BLE001 - the work goes on, whatever is wrong with whoever waits for it
            is_heard = False
            _log.debug("A client could not be told how far its call is", exc_info=True)

    return tell


def _make_mcp_tool(descriptor: Descriptor, *, is_task: bool) -> types.Tool:
    hints = {} if descriptor.hints is UNSET else descriptor.hints
    meta: dict[str, Any] = {
        ID_KEY: descriptor.id,
        "agent-resolver/source": descriptor.source,
        "agent-resolver/classification": descriptor.rules.classification,
    }
    if descriptor.labels.tags:
        meta["agent-resolver/tags"] = list(descriptor.labels.tags)
    if is_task:
        meta[TASK_KEY] = True
    name = to_wire_name(descriptor.id)
    # People see in the client what the trail and the inbox call the tool.
    title = descriptor.id if name != descriptor.id else None
    return types.Tool(
        name=name,
        title=title,
        description=descriptor.description,
        input_schema=descriptor.input_schema,
        output_schema=_output_schema(descriptor.output_schema),
        annotations=types.ToolAnnotations.model_validate(hints) if hints else None,
        _meta=meta,
    )


def _output_schema(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """The schema of what a call gives, be it a result or why there is none.

    The standard does not say that failures are exempt, and clients of the TypeScript SDK v1 hold them against it too:
    they would throw away what the model has to read.
    """
    if schema is None or any(name in msgspec.json.encode(schema) for name in _NAMES):
        return None
    rest = {
        key: _move_references(value)
        for key, value in schema.items()
        if key != "$schema"
    }
    dialect = {"$schema": schema["$schema"]} if "$schema" in schema else {}
    return {**dialect, "type": "object", "anyOf": [rest, _FAILURE]}


def _move_references(node: Any) -> Any:  # noqa: ANN401 - a JSON value
    """A part of a schema that stands in `anyOf` now: what it refers to has moved with it."""
    if isinstance(node, list):
        return list(map(_move_references, node))
    if not isinstance(node, dict):
        return node
    moved = {key: _move_references(value) for key, value in node.items()}
    reference = moved.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        moved["$ref"] = f"#/anyOf/0{reference[1:]}"
    return moved


def _is_about_arguments(outcome: Failed) -> bool:
    """True if the arguments break the schema: a key that is refused has the same code, and no details."""
    return outcome.code is FailureCode.INPUT_VALIDATION_FAILED and bool(outcome.details)


def _with_served_name(outcome: Outcome, tool_id: str, name: str) -> Outcome:
    """The outcome; a failure over arguments is worded for a model, which knows no command, and only the served name."""
    if not isinstance(outcome, Failed) or not _is_about_arguments(outcome):
        return outcome
    return structs.replace(
        outcome,
        message=outcome.message.replace(tool_id, name),
        remedy="`inputSchema` in tools/list says what it takes",
    )
