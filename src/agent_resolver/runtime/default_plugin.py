"""The plugins that every agent has, and those that come with its context policy."""

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from agent_resolver.runtime.plugin import Phase, Registrar
from agent_resolver.runtime.spec import ContextPolicy, StopCondition

LOOP_ACTION_HANDLERS: Final = "loop_action_handlers"
MAX_ROUNDS: Final = "max_rounds"
STOP_CONDITIONS: Final = "stop_conditions"
KNOWLEDGE_CUTOFF: Final = "knowledge_cutoff_context"
COMPACTION: Final = "context_compaction"
CONTEXT_TRANSFORM: Final = "context_transform"
COMPACTION_SECTION: Final = "compaction"
DEFAULT_PLUGINS: Final = frozenset(
    {LOOP_ACTION_HANDLERS, MAX_ROUNDS, STOP_CONDITIONS, KNOWLEDGE_CUTOFF, COMPACTION, CONTEXT_TRANSFORM}
)
"""The ids that no other plugin may have."""

ACTIONS: Final = ("add_context_message", "set_inference_override", "exclude_tool", "include_only_tools")
"""What hooks may ask the loop to do."""
_Positive = Annotated[int, Meta(ge=1)]


class CompactionConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The section `compaction`: how what no longer fits is summed up."""

    summarizer_system_prompt: str
    summarizer_user_prompt: str
    min_savings_ratio: Annotated[float, Meta(ge=0, le=1)]
    mode: Literal["background", "off"] = "background"
    summary_max_tokens: _Positive | None = None
    summary_model: str | None = None
    raw_retention: Literal["preserve_durable", "drop"] = "preserve_durable"


DEFAULT_COMPACTION: Final = CompactionConfig(
    summarizer_system_prompt=(
        "You sum up the earlier part of a conversation for the one who goes on with it. Keep decisions, open "
        "questions, names, numbers and what tools returned; leave out everything else. Invent nothing."
    ),
    summarizer_user_prompt="Sum up this part of the conversation:\n\n{messages}",
    min_savings_ratio=0.3,
)
"""What counts where the section is absent."""


class ArtifactCompaction(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of a large result stays in view."""

    threshold_tokens: _Positive = 2_048
    preview_max_chars: _Positive = 1_600
    preview_max_lines: _Positive = 24


class ContextTransformConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The section `context_transform`."""

    artifact_compaction: ArtifactCompaction = ArtifactCompaction()


class CutoffConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The section `knowledge_cutoff_context`."""

    enabled: bool = True


Behavior = Literal["allow", "ask", "deny"]
RuleScope = Literal["once", "session", "thread", "project", "user"]


class PermissionRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens when a tool is about to be called."""

    tool: str
    behavior: Behavior
    scope: RuleScope = "project"


class PermissionConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The section `permission`."""

    default_behavior: Behavior = "ask"
    rules: tuple[PermissionRule, ...] = ()


BUILT_IN_SECTIONS: Final[dict[str, tuple[str, type[Struct]]]] = {
    COMPACTION_SECTION: (COMPACTION, CompactionConfig),
    "context_transform": (CONTEXT_TRANSFORM, ContextTransformConfig),
    "knowledge_cutoff_context": (KNOWLEDGE_CUTOFF, CutoffConfig),
    "permission": ("permission", PermissionConfig),
}
"""Which plugin of ours reads a section, and what it must look like; `retry` is read before there are plugins."""


class DefaultPlugin(Struct, frozen=True):
    """A plugin of ours: what it does in a run is bound to its handlers when the run starts."""

    id: str
    actions: tuple[str, ...] = ()
    phases: tuple[tuple[Phase, Any], ...] = ()
    """Each phase that it takes part in, with what it was set to."""
    transforms: tuple[Any, ...] = ()

    def register(self, registrar: Registrar) -> None:
        """Declare the handlers."""
        for action in self.actions:
            registrar.scheduled_action(action, Setting(action, None))
        for phase, setting in self.phases:
            registrar.phase_hook(phase, Setting(self.id, setting))
        for setting in self.transforms:
            registrar.request_transform(Setting(self.id, setting))


class Setting(Struct, frozen=True):
    """A handler of ours as data: the loop that runs the agent knows what it stands for."""

    name: str
    value: Any

    def __call__(self, loop: Any) -> Any:  # noqa: ANN401 - the loop is the run's business
        """Let the loop do it."""
        return loop.handle(self.name, self.value)


def loop_action_handlers() -> DefaultPlugin:
    """Without it the loop cannot do what hooks ask for."""
    return DefaultPlugin(LOOP_ACTION_HANDLERS, actions=ACTIONS)


def max_rounds(limit: int) -> DefaultPlugin:
    """Ends a run after so many rounds."""
    return DefaultPlugin(MAX_ROUNDS, phases=(("after_inference", limit),))


def stop_conditions(limit: int, conditions: tuple[StopCondition, ...]) -> DefaultPlugin:
    """Ends a run at the first condition that holds, the spec's own limit of rounds before all others."""
    return DefaultPlugin(
        STOP_CONDITIONS, phases=(("after_inference", (StopCondition(type="max_rounds", value=limit), *conditions)),)
    )


def knowledge_cutoff(cutoff: str) -> DefaultPlugin:
    """Tells the model what it cannot know."""
    return DefaultPlugin(KNOWLEDGE_CUTOFF, phases=(("before_inference", cutoff),))


def compaction(config: CompactionConfig, policy: ContextPolicy) -> DefaultPlugin:
    """Sums up what no longer fits."""
    return DefaultPlugin(COMPACTION, phases=(("step_start", (config, policy)),))


def context_transform(config: ContextTransformConfig, policy: ContextPolicy) -> DefaultPlugin:
    """Fits every request into the policy."""
    return DefaultPlugin(CONTEXT_TRANSFORM, transforms=((config, policy),))
