"""The pages of a listing: a client asks for the next one by the cursor of the one that it has."""

import mcp_types as types
from mcp.shared.exceptions import MCPError

from agent_resolver.catalog.cursor import decode_cursor
from agent_resolver.catalog.errors import BadCursor


def last_seen(params: types.PaginatedRequestParams | None, listing: str) -> str | None:
    """The last item of the page that the client has; None if it asks for the first page.

    Raises:
        MCPError: This listing did not give the cursor, or has changed since.
    """
    if params is None or not params.cursor:
        return None
    try:
        return decode_cursor(params.cursor, listing)
    except BadCursor as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from None
