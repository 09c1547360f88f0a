"""The result of a call, in MCP's words."""

from typing import Final

import mcp_types as types
import msgspec

from agent_resolver.schema.outcome import Done, Outcome

TRACE_KEY: Final = "agent-resolver/trace_id"


def make_result(
    outcome: Outcome, parent: str | None, state: str
) -> types.CallToolResult:
    """The result of a call, with the place of the call in its trace."""
    meta = {TRACE_KEY: outcome.trace_id}
    if traceparent := outcome.traceparent or parent:
        meta["traceparent"] = traceparent
    if state:
        meta["tracestate"] = state
    if isinstance(outcome, Done):
        result = outcome.result
        text = (
            result if isinstance(result, str) else msgspec.json.encode(result).decode()
        )
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)],
            structured_content=result if isinstance(result, dict) else None,
            _meta=meta,
        )
    return types.CallToolResult(
        content=[
            types.TextContent(type="text", text=msgspec.json.encode(outcome).decode())
        ],
        structured_content=msgspec.to_builtins(outcome),
        is_error=True,
        _meta=meta,
    )
