"""The two eras of MCP: with a handshake, and since 2026-07-28 without."""

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS


def is_modern(ctx: ServerRequestContext[Any, Any]) -> bool:
    """True if a request belongs to a revision without a handshake."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
