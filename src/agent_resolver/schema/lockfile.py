"""The lockfile, `agents.lock`: which servers the agent may use, pinned."""

import re
from typing import Final, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType, field, structs

from agent_resolver.schema.errors import InvalidLockfile
from agent_resolver.schema.index import Launch
from agent_resolver.schema.issue import only_errors
from agent_resolver.schema.json_reader import read_json
from agent_resolver.schema.vocabulary import (
    Endpoint,
    EndpointTransport,
    Identifier,
    OptionalText,
    Text,
    ToolScopes,
)


class LockedServer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The server chosen for one requirement."""

    category: Text
    """The category of the requirement."""
    server_id: Identifier
    """The id of the server in the index."""
    version: Identifier
    """The version of the server in the index."""
    endpoint: Endpoint
    """The address of the server in the index, or `launch:sha256-` and a digest of its `launch`."""
    scopes: tuple[Identifier, ...]
    """The permissions of the requirement, sorted; not all that the server offers."""
    hash: Text
    """[The hash](file-formats.md#the-hash) of id, version, endpoint and scopes."""

    # Present only where the server uses a key that the first format does not have.
    launch: Launch | UnsetType = UNSET
    """From the index: the command, with its defaults filled in."""
    tool_scopes: ToolScopes | UnsetType = UNSET
    """From the index: the scopes that open each tool, sorted."""
    transport: EndpointTransport | UnsetType = UNSET
    """From the index: the protocol that `endpoint` speaks, unless it is Streamable HTTP."""
    tools: dict[Text, Text] | UnsetType = UNSET
    """From the index: the digest of the definition of each tool."""
    integrity: Text | UnsetType = UNSET
    """`sha256-` and [a digest](file-formats.md#lockversion-and-integrity) of the entry without this key; present if
    one of the four keys above is."""


LOCK_VERSION: Final = 2
"""The newest format that is written."""


class _Versioned(Struct):
    version: int = field(name="lockVersion", default=1)


class Lockfile(Struct, frozen=True, kw_only=True, rename="camel"):
    """What one resolution pinned."""

    agent_name: OptionalText
    """The name in the agent file."""
    agent_version: OptionalText
    """The version in the agent file."""
    resolved_at: Text
    """[A time](resolution.md#resolvedat) that is not that of the run, unless you ask for it."""
    servers: tuple[LockedServer, ...]
    """An entry for each requirement, sorted by category, then by permissions."""
    lock_version: Literal[2] | UnsetType = UNSET
    """2 if an entry has `integrity`. A lock without this key has only the keys of the first format."""

    def pins_the_same(self, other: "Lockfile") -> bool:
        """True if both pin the same servers for the same agent, whenever they were resolved."""
        return structs.replace(self, resolved_at=other.resolved_at) == other


_HEAD = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"agentName"\s*:')


def parse_lockfile(raw: bytes) -> Lockfile:
    """The content of a lockfile; whether its hashes hold is another question.

    Raises:
        InvalidLockfile: With every error in the file.
    """
    reading = read_json(raw, Lockfile)
    if reading.value is None:
        raise InvalidLockfile(only_errors(reading.issues))
    return reading.value


def is_ours(head: bytes) -> bool:
    """True if a file that starts like this is a lockfile or an explanation: other tools use the same names."""
    return _HEAD.match(head) is not None


def is_newer(raw: bytes) -> bool:
    """True if a newer version of this program wrote the lock."""
    try:
        return msgspec.json.decode(raw, type=_Versioned).version > LOCK_VERSION
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def to_json(value: object) -> bytes:
    """The bytes of an output file: two-space JSON, raw UTF-8, one newline at the end."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
