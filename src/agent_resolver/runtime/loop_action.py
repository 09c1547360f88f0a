"""Actions by which hooks change the next question to the model; each counts for that question alone."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from agent_resolver.runtime.hook import Command, PhaseContext
from agent_resolver.runtime.inference import InferenceOverride
from agent_resolver.runtime.message import Message, TextBlock
from agent_resolver.runtime.state_key import MergeRule

ADD_CONTEXT_MESSAGE: Final = "add_context_message"
_MAX_CONTEXT: Final = 1_000_000


class ContextMessage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The payload of `add_context_message`."""

    content: Annotated[str, Meta(min_length=1, max_length=_MAX_CONTEXT)]
    role: Literal["system", "user"] = "system"
    place: Literal["before", "after"] = "before"
    """Before the conversation, right after the system prompt; or after it."""

    def to_message(self) -> Message:
        """The message that the model is shown."""
        return Message(self.role, (TextBlock(self.content),))


class ToolName(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The payload of `exclude_tool`: a tool by its id."""

    tool: str


class ToolNames(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The payload of `include_only_tools`: tools by their ids."""

    tools: tuple[str, ...]


class LoopAction(Struct, frozen=True):
    """An action, the state key in which it waits for the next question, and the shape of its payload."""

    name: str
    key: str
    payload: type[Struct]
    merge: MergeRule
    default: Any

    def __call__(self, context: PhaseContext, payload: Any) -> Command:  # noqa: ANN401, ARG002 - of any plugin; the shape of handlers
        """Keep the payload for the next question.

        Raises:
            msgspec.ValidationError: It does not have the shape.
        """
        # Checked when the hook asks for it: the failure then names this action, and the
        # question is asked without it.
        checked = msgspec.convert(payload, self.payload)
        document = msgspec.to_builtins(checked)
        # A `merge` key takes the fields as they are, an `append` key a list with the
        # one entry.
        update = document if self.merge == "merge" else [document]
        return Command(updates={self.key: update})


CONTEXT_KEY: Final = "loop.context_messages"
OVERRIDE_KEY: Final = "loop.inference_override"
EXCLUDED_KEY: Final = "loop.excluded_tools"
ONLY_KEY: Final = "loop.only_tools"

LOOP_ACTIONS: Final = (
    LoopAction(ADD_CONTEXT_MESSAGE, CONTEXT_KEY, ContextMessage, "append", []),
    LoopAction("set_inference_override", OVERRIDE_KEY, InferenceOverride, "merge", {}),
    LoopAction("exclude_tool", EXCLUDED_KEY, ToolName, "append", []),
    LoopAction("include_only_tools", ONLY_KEY, ToolNames, "append", []),
)


class NextQuestion(Struct, frozen=True, kw_only=True):
    """What hooks asked for the next question."""

    before: tuple[Message, ...]
    after: tuple[Message, ...]
    override: InferenceOverride
    excluded: frozenset[str]
    only: frozenset[str] | None
    """The tools that alone may be offered; None for all of them."""


def next_question(state: Mapping[str, Any]) -> NextQuestion | None:
    """The wishes of hooks, from the values of the state keys; None where they asked for nothing."""
    if not any(state.get(action.key) for action in LOOP_ACTIONS):
        return None
    added = msgspec.convert(state[CONTEXT_KEY], tuple[ContextMessage, ...])
    asked = {
        key: value for key, value in state[OVERRIDE_KEY].items() if value is not None
    }
    excluded = [each["tool"] for each in state[EXCLUDED_KEY]]
    # Each action narrows: a tool that one of them leaves out is out.
    chosen = [frozenset(each["tools"]) for each in state[ONLY_KEY]]
    return NextQuestion(
        before=tuple(each.to_message() for each in added if each.place == "before"),
        after=tuple(each.to_message() for each in added if each.place == "after"),
        override=msgspec.convert(asked, InferenceOverride),
        excluded=frozenset(excluded),
        only=frozenset.intersection(*chosen) if chosen else None,
    )
