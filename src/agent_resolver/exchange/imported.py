"""What comes of reading a source: entries for an index, notes about them, and faults."""

from enum import StrEnum

from msgspec import Struct

from agent_resolver.schema.index import IndexEntry
from agent_resolver.schema.issue import Issue


class NoteKind(StrEnum):
    """The kind of a note, stable for machines."""

    ENVIRONMENT = "environment"
    """Variables that must be set before the server starts."""
    OPTIONAL_ENVIRONMENT = "optional-environment"
    """Variables that the server reads if they are set; they are not part of the entry."""
    TOKEN = "token"  # noqa: S105 - the name of a kind
    """The variable that holds the bearer token of a remote server; it belongs in `agent.toml`."""
    HEADER = "header"
    """Headers that are not carried over."""
    MISSING_VALUE = "missing-value"
    """Arguments or parts of an address that a person has to fill in."""
    GRANT = "grant"
    """Access to this machine that the source asks for and that the entry does not give."""
    OTHER_WAY = "other-way"
    """Other ways to reach the server that the source has; an entry has one."""
    TOOLS = "tools"
    """The names of tools that the source lists."""
    STATUS = "status"
    """A stage of life that the index has no word for."""
    NOT_CARRIED = "not-carried"
    """Settings of the source that an entry cannot express."""
    MAPPED_ID = "mapped-id"
    """The id of a server whose name cannot be one."""
    ID_CLASH = "id-clash"
    """The id of a server whose name maps to the same id as another name."""
    OTHER_SERVER = "other-server"
    """A version that starts another package, or calls another host, than other versions of its id."""


class Note(Struct, frozen=True):
    """Something to know about an imported server that its entry does not say."""

    kind: NoteKind
    server: str
    """The name of the server in its source."""
    message: str
    names: tuple[str, ...] = ()
    """The variables, headers, arguments or tools that the note is about."""


class Imported(Struct, frozen=True):
    """The servers of one source."""

    entries: tuple[IndexEntry, ...] = ()
    notes: tuple[Note, ...] = ()
    faults: tuple[Issue, ...] = ()
    """Everything wrong with the entries that could not be imported."""


class Source(Struct, frozen=True):
    """The parsed content of a file, and what its surroundings say."""

    content: object
    name: str = ""
    """The name for a server that states none: that of its folder."""
    tools: object = None
    """The content of a `tools.json` beside the file."""
