"""The agent spec: what the runtime builds an agent from."""

from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from msgspec import UNSET, Meta, Struct, UnsetType, field

from agent_resolver.runtime.budget import RunBudget
from agent_resolver.runtime.model import DataFacts
from agent_resolver.schema.agent_file import Limits
from agent_resolver.schema.frozen import freeze_fields
from agent_resolver.schema.vocabulary import Prose, Text

LOCAL: Final = "local"
DEFAULT_MODEL: Final = "default"
"""The model of agents that name none."""
_DISPLAY: Final = 100

Names = tuple[Text, ...]
Patterns = tuple[str, ...]
"""What is wrong with a pattern is for the pattern language to say."""
Effort = Literal["none", "low", "medium", "high", "max"]


class Budget(Struct, frozen=True, kw_only=True):
    """How many tokens a model may think."""

    budget: Annotated[int, Meta(ge=1)]


class BackendSpec(Struct, frozen=True, kw_only=True):
    """What runs the agent."""

    kind: Text = LOCAL
    version: Annotated[int, Meta(ge=1)] = 1
    config: dict[str, Any] = field(default_factory=dict)
    """Another place for what the spec says itself; where both are given, they must agree."""

    def __post_init__(self) -> None:
        freeze_fields(self, "config")


class EndpointAuth(Struct, frozen=True, kw_only=True):
    """How to authenticate to a remote agent; the token only ever as a reference."""

    type: Text = "bearer"
    token_env: Text | UnsetType = UNSET


class RemoteEndpoint(Struct, frozen=True, kw_only=True):
    """The address of an agent that another party runs."""

    base_url: str
    backend: Text = "a2a"
    auth: EndpointAuth | UnsetType = UNSET
    target: Text | UnsetType = UNSET
    timeout_ms: Annotated[int, Meta(ge=1)] = 300_000
    options: dict[str, Any] = field(default_factory=dict)
    data: DataFacts = DataFacts()

    def __post_init__(self) -> None:
        freeze_fields(self, "options")

    def fault(self) -> str | None:
        """What is wrong with it, or None when nothing is."""
        if not self.base_url.strip():
            return "base_url must not be empty"
        if not _is_web_address(self.base_url):
            return "base_url must be an http(s) URL with a host"
        # Paths are appended to this address, which a query or a fragment would swallow;
        # credentials belong into `auth`.
        if any(sign in self.base_url for sign in "?#@"):
            return "base_url must not have credentials, a query or a fragment"
        if self.auth and self.auth.type != "bearer":
            return f"auth type must be bearer, not {self.auth.type}"
        return (
            "bearer auth needs token_env"
            if self.auth and not self.auth.token_env
            else None
        )


def _is_web_address(url: str) -> bool:
    # The standard library silently drops line ends and takes any port until it is asked
    # for.
    if not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and parts.port != 0
        )
    except ValueError:
        return False


StopKind = Literal[
    "max_rounds",
    "timeout",
    "token_budget",
    "consecutive_errors",
    "stop_on_tool",
    "content_match",
    "loop_detection",
]
_BOUNDS: Final[dict[str, tuple[int, int]]] = {
    "max_rounds": (0, 1_000_000),
    "timeout": (1, 24 * 60 * 60),
    "token_budget": (1, 100_000_000),
    "consecutive_errors": (1, 1_000_000),
    "loop_detection": (2, 64),
}
"""From where to where the number of each kind may go: rounds, seconds, tokens, errors, and equal answers in a row."""
_LONGEST_PATTERN: Final = 1024


class StopCondition(Struct, frozen=True, kw_only=True):
    """When a run ends by itself."""

    type: StopKind
    value: int | UnsetType = UNSET
    tool: Text | UnsetType = UNSET
    pattern: Text | UnsetType = UNSET

    def fault(self) -> str | None:
        """What is wrong with it, or None when nothing is."""
        # Each kind takes exactly one of the three fields.
        needed = {"stop_on_tool": "tool", "content_match": "pattern"}.get(
            self.type, "value"
        )
        if getattr(self, needed) is UNSET:
            return f"{self.type} needs `{needed}`"
        others = [
            name
            for name in ("value", "tool", "pattern")
            if name != needed and getattr(self, name) is not UNSET
        ]
        if others:
            return f"{self.type} takes no `{others[0]}`"
        if self.pattern and len(self.pattern) > _LONGEST_PATTERN:
            return f"pattern must have at most {_LONGEST_PATTERN} characters"
        if isinstance(self.value, int):
            least, most = _BOUNDS[self.type]
            return (
                None
                if least <= self.value <= most
                else f"value of {self.type} must be from {least} to {most}"
            )
        return None


class ContextPolicy(Struct, frozen=True, kw_only=True):
    """How much of a conversation a model is shown."""

    max_context_tokens: Annotated[int, Meta(ge=1)] = 200_000
    max_output_tokens: Annotated[int, Meta(ge=1)] = 16_384
    min_recent_messages: Annotated[int, Meta(ge=0)] = 10
    enable_prompt_cache: bool = True
    autocompact_threshold: Annotated[int, Meta(ge=1)] | None = None
    compaction_mode: Literal["keep_recent_raw_suffix", "compact_to_safe_frontier"] = (
        "keep_recent_raw_suffix"
    )
    compaction_raw_suffix_messages: Annotated[int, Meta(ge=0)] = 2


class AgentSpec(Struct, frozen=True, kw_only=True):
    """What one agent is made of, by name."""

    id: Text
    description: Prose | None = None
    backend: BackendSpec = BackendSpec()
    model_id: str = ""
    """A model, an alias of one, or a pool."""
    model_alternatives: Names = ()
    """Other names, tried in turn where `model_id` means no model here."""
    system_prompt: Prose = ""
    max_rounds: Annotated[int, Meta(ge=0)] = 16
    max_continuation_retries: Annotated[int, Meta(ge=0)] = 2
    stop_conditions: tuple[StopCondition, ...] = ()
    budget: RunBudget = RunBudget()
    """The most that one run of it may use."""
    context_policy: ContextPolicy | None = None
    reasoning_effort: Effort | Budget | None = None
    plugin_ids: Names = ()
    active_hook_filter: Names = ()
    """The plugins whose hooks, tools and transforms count; none named is all of them, and defaults always count."""
    allowed_tools: Names | UnsetType | None = UNSET
    allowed_tool_patterns: Patterns | UnsetType | None = UNSET
    """Where neither is written, every tool is allowed; written as null or empty, none is."""
    excluded_tools: Names | None = None
    excluded_tool_patterns: Patterns | None = None
    endpoint: RemoteEndpoint | None = None
    delegates: Names = ()
    sections: dict[str, Any] = field(default_factory=dict)
    registry: str | None = None
    """Where it came from, for those of files and of other registries."""
    limits: Limits = Limits()
    """What its agent file constrains."""
    requires_lock: bool = False
    """Whether its agent file has `requires`, so that nothing of it runs without a lock that holds."""

    def __post_init__(self) -> None:
        freeze_fields(self, "sections")

    @property
    def display(self) -> str:
        """What people are shown of it."""
        if self.description:
            return self.description
        lines = (line.strip() for line in self.system_prompt.splitlines())
        return next((line[:_DISPLAY] for line in lines if line), self.id)

    @property
    def is_remote(self) -> bool:
        """True if it runs somewhere else than here."""
        return self.endpoint is not None or self.backend.kind != LOCAL

    @property
    def allowed_patterns(self) -> Patterns:
        """The patterns of allowed tools, where nothing at all was written every tool."""
        if self.allowed_tools is UNSET and self.allowed_tool_patterns is UNSET:
            return ("*",)
        return self.allowed_tool_patterns or ()

    def patterns(self) -> Iterable[tuple[str, int, str]]:
        """Every pattern with its field and its place there, the allowed ones first."""
        for name in ("allowed_tool_patterns", "excluded_tool_patterns"):
            for place, pattern in enumerate(getattr(self, name) or ()):
                yield name, place, pattern
