"""The ids of capabilities, and the domains that they name."""

import re
from collections.abc import Iterator
from typing import Final

from agent_resolver.capability.unsafe import Unsafe, UnsafeCode
from agent_resolver.core.tool_id import MAX_TOOL_NAME

_ID: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_-]*)+")
_GOLDEN: Final = "golden"
_DEMO: Final = "golden.echo"


def domain_of(capability_id: str) -> str:
    """The domain that an id names: `golden.x.y` is of x, `golden.echo` of demo, all else of its first part."""
    if capability_id == _DEMO:
        return "demo"
    first, _, rest = capability_id.partition(".")
    second, dot, _ = rest.partition(".")
    return second if first == _GOLDEN and dot else first


def unsafe_name(capability_id: str, domain: str | None) -> Iterator[Unsafe]:
    """The faults of an id, and of a domain that was declared beside it."""
    # MCP allows 1 to 128 letters, digits, underscores, hyphens and dots; we ask for a
    # domain and a name.
    if len(capability_id) > MAX_TOOL_NAME or not _ID.fullmatch(capability_id):
        shown = capability_id[:MAX_TOOL_NAME]
        message = f"`{shown}` is not an id: use lower case words with dots between, as `tickets.search`"
        yield Unsafe(at=("id",), code=UnsafeCode.BAD_ID, message=message)
    elif domain is not None and domain != domain_of(capability_id):
        message = f"the id says `{domain_of(capability_id)}`, not `{domain}`: leave the domain out, or change the id"
        yield Unsafe(at=("domain",), code=UnsafeCode.DOMAIN_MISMATCH, message=message)
