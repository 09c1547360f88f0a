"""`agent://name` and `agent://folder/name`: names in a table, never paths on a disk."""

import re
from functools import lru_cache
from typing import Final, Literal
from urllib.parse import quote, unquote_to_bytes

from msgspec import Struct

from agent_resolver.catalog.errors import MalformedUri

SCHEME: Final = "agent://"
MAX_LENGTH: Final = 4096
"""Room for the longest name, each of its characters percent-encoded, and for a question."""
_SEGMENT = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+")
Format = Literal["json", "markdown"]


class AgentUri(Struct, frozen=True):
    """The agent that a client asks for, and in which form."""

    name: str
    """The address without its question: `agent://name`, in the one spelling that listings use."""
    format: Format = "json"
    version: str | None = None


def agent_uri(*segments: str) -> str:
    """The address of an agent; whatever is not plain in a URI is percent-encoded."""
    return SCHEME + "/".join(quote(segment, safe="") for segment in segments)


@lru_cache(256)
def parse_uri(text: str) -> AgentUri:
    """Parse an address that a client asks for.

    Raises:
        MalformedUri: It is not the address of an agent.
    """
    if len(text) > MAX_LENGTH:
        raise MalformedUri(f"it is longer than {MAX_LENGTH} characters")
    # RFC 3986, section 3.1: schemes are compared without regard to case.
    if not text.lower().startswith(SCHEME):
        raise MalformedUri(f"it does not start with `{SCHEME}`")
    path, _, question = text[len(SCHEME) :].partition("?")
    options = _parse_options(question)
    wanted = options.get("format", "json")
    if wanted not in {"json", "markdown"}:
        raise MalformedUri("`format` must be `json` or `markdown`")
    is_markdown = wanted == "markdown"
    return AgentUri(
        agent_uri(*map(_decode_segment, path.split("/"))),
        "markdown" if is_markdown else "json",
        options.get("version"),
    )


def _parse_options(question: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for pair in question.split("&") if question else ():
        key, is_given, value = pair.partition("=")
        if key not in {"format", "version"} or not is_given or key in options:
            raise MalformedUri(
                "only `format` and `version` may be asked for, each once"
            )
        options[key] = _decode_segment(value)
    return options


def _decode_segment(text: str) -> str:
    if not _SEGMENT.fullmatch(text):
        raise MalformedUri(
            "a part of it is empty, or holds a character that must be percent-encoded"
        )
    try:
        decoded = unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise MalformedUri("a part of it is not UTF-8") from None
    # The decoded text is checked: `%2e%2e` and `%2f` would pass a check of the encoded
    # one.
    is_path = decoded in {".", ".."} or "/" in decoded or "\\" in decoded
    if is_path or not decoded.isprintable():
        raise MalformedUri("a part of it is no name")
    return decoded
