"""An agent file as the catalog knows it."""

from typing import Any

from msgspec import Struct

from agent_resolver.schema.classification import Classification
from agent_resolver.schema.issue import Issue


class Entry(Struct, frozen=True, kw_only=True):
    """The front matter of one agent file, with the digest and the size of its bytes."""

    name: str
    description: str = ""
    model: str | None = None
    version: str | None = None
    capabilities: tuple[str, ...] = ()
    is_derived: bool = False
    """Whether the capabilities were read out of the description."""
    tools: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    use_when: str = ""
    role: str | None = None
    roles: tuple[str, ...] = ()
    """Every role that it plays, `role` first."""
    fallbacks: tuple[str, ...] = ()
    """The agents to take instead, the first choice first."""
    classification: Classification = "PUBLIC"
    """The classification of the data that the agent says it works on; PUBLIC where the file says nothing of data."""
    requires: bool = False
    """Whether the resolver has something to do for it."""
    front_matter: dict[str, Any]
    """Every key as it is in the file, known or not; a number that JSON would write otherwise is a text."""
    digest: str
    size: int
    tokens: int
    """About how many tokens the whole file takes: a fourth of its characters."""
    body_at: int
    """Where the body starts, in bytes."""
    issues: tuple[Issue, ...] = ()
    """What was noticed, and did not keep the file from being served."""


class Definition(Struct, frozen=True):
    """One agent, whole."""

    uri: str
    entry: Entry
    path: str
    """Where the file is below its root."""
    file: str
    """Where the file is on the disk."""
    raw: bytes

    @property
    def content(self) -> str:
        """The body of the file."""
        return self.raw[self.entry.body_at :].decode(errors="replace")

    def to_dict(self) -> dict[str, Any]:
        """The definition for a client: what every agent has, then what this one has, then all of it."""
        entry = self.entry
        said = {
            "version": entry.version,
            "tools": entry.tools,
            "tags": entry.tags,
            "useWhen": entry.use_when,
            "role": entry.role,
            "roles": entry.roles[1:] and entry.roles,
            "fallbacks": entry.fallbacks,
        }
        return {
            "name": entry.name,
            "uri": self.uri,
            "description": entry.description,
            "model": entry.model,
            "capabilities": entry.capabilities,
            "capabilitiesDerived": entry.is_derived,
            **{key: value for key, value in said.items() if value},
            "path": self.path,
            "digest": entry.digest,
            "frontMatter": entry.front_matter,
            "content": self.content,
        }
