"""`tools/*`: the registry's tools over MCP, each call through the one pipeline."""

import secrets
from typing import Any, Final

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from msgspec import UNSET, structs

from agent_resolver.catalog.cursor import decode_cursor, encode_cursor
from agent_resolver.catalog.errors import BadCursor
from agent_resolver.registry import CallContext, Descriptor, Done, Failed, FailureCode, Outcome, ToolRegistry
from agent_resolver.schema import digest
from agent_resolver.server.resource import limit_of

Context = ServerRequestContext[Any, Any]
_PAGE: Final = 100


class RegistryTools:
    """Answers what clients ask of a registry."""

    def __init__(self, registry: ToolRegistry, context: CallContext) -> None:
        self._registry = registry
        self._context = context

    async def list(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """A page of tools, by id."""
        limit = limit_of(ctx, _PAGE)
        tools = self._registry.list()
        listing = digest([tool.id for tool in tools])
        start = 0
        if params and params.cursor:
            try:
                last = decode_cursor(params.cursor, listing)
            except BadCursor as error:
                raise MCPError(types.INVALID_PARAMS, str(error)) from None
            start = next((place for place, tool in enumerate(tools, 1) if tool.id == last), len(tools))
        page = tools[start : start + limit]
        has_more = start + limit < len(tools)
        return types.ListToolsResult(
            tools=list(map(_tool, page)),
            next_cursor=encode_cursor(listing, page[-1].id) if has_more else None,
            _meta={"agent-resolver/total": len(tools), "agent-resolver/count": len(page)},
        )

    async def call(self, _ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Call a tool; what the pipeline refuses is a result that says so, for the model to read."""
        context = structs.replace(self._context, trace_id=secrets.token_hex(16))
        outcome = await self._registry.call(params.name, params.arguments or {}, context)
        if isinstance(outcome, Failed) and outcome.code is FailureCode.UNKNOWN_TOOL:
            raise MCPError(types.INVALID_PARAMS, outcome.message)
        return _result(outcome)

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """The schema of a tool's arguments, for the SDK."""
        return next((tool.input_schema for tool in self._registry.list() if tool.id == name), None)


def _tool(descriptor: Descriptor) -> types.Tool:
    hints = {} if descriptor.hints is UNSET else descriptor.hints
    return types.Tool(
        name=descriptor.id,
        description=descriptor.description,
        input_schema=descriptor.input_schema,
        output_schema=descriptor.output_schema,
        annotations=types.ToolAnnotations.model_validate(hints) if hints else None,
        _meta={"agent-resolver/source": descriptor.source},
    )


def _result(outcome: Outcome) -> types.CallToolResult:
    meta = {"agent-resolver/trace_id": outcome.trace_id}
    if isinstance(outcome, Done):
        result = outcome.result
        text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)],
            structured_content=result if isinstance(result, dict) else None,
            _meta=meta,
        )
    if isinstance(outcome, Failed) and outcome.code is FailureCode.INPUT_VALIDATION_FAILED:
        outcome = structs.replace(outcome, remedy="`inputSchema` in tools/list says what it takes")
    document = msgspec.json.encode(outcome).decode()
    return types.CallToolResult(content=[types.TextContent(type="text", text=document)], is_error=True, _meta=meta)
