"""The file of kept tool definitions, `mcp.tools.json`: the texts behind the digests that an index pins."""

from typing import Any, Final

import msgspec

from agent_resolver.schema.errors import InvalidDefinitions
from agent_resolver.schema.issue import Issue, IssueCode

DEFINITIONS_NAME: Final = "mcp.tools.json"
"""The name of the file, which is in the folder of the index."""

Definitions = dict[str, dict[str, dict[str, Any]]]
"""By the id and version of a server, then by tool."""

_decoder = msgspec.json.Decoder(Definitions)


def parse_definitions(raw: bytes) -> Definitions:
    """The kept definitions. None of them is to be believed unless its digest is the pinned one.

    Raises:
        InvalidDefinitions: The file is not one of this kind.
    """
    try:
        return _decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidDefinitions(
            [Issue(at=(), code=IssueCode.SYNTAX, message=str(error))]
        ) from None
