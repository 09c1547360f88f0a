"""Skills: prompts that are kept, versioned and reviewed like code."""

from typing import Final

from msgspec import UNSET, Struct, UnsetType

from agent_resolver.schema.agent_file import Constraints
from agent_resolver.schema.vocabulary import AgentName, AgentVersion, Text

SKILL_TAGS: Final = (
    "system_role",
    "engineering_principles",
    "instructions",
    "reference_example",
    "hitl_protocol",
)
"""The parts that the body of a skill has, each once and in this order (PES-001)."""
MAX_SKILL_BYTES: Final = 256 * 1024
"""How long the file of a skill, and the changelog of skills, may be."""


class SkillHeader(Struct, frozen=True, kw_only=True):
    """The front matter of a skill: an agent file that needs no servers, names no model and has no tools."""

    name: AgentName
    description: Text
    version: AgentVersion
    constraints: Constraints | UnsetType = UNSET
    """The limits of the data that it may be shown."""


class Skill(Struct, frozen=True, kw_only=True):
    """A prompt at a version."""

    name: str
    version: str
    description: str
    body: str
    digest: str
    """The digest of its whole file, with line ends as they are on every machine."""

    @property
    def label(self) -> str:
        """Its name and version, as a decision record has them."""
        return f"{self.name}@{self.version}"


class SkillVersion(Struct, frozen=True, kw_only=True):
    """The section of a changelog about one version of a skill."""

    name: str
    version: str
    digest: str
    """The digest that it records; empty if it records none."""
    has_words: bool
    """True if it says what changed."""
    line: int
