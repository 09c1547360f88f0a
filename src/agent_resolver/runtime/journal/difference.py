"""Differences between a recorded run and what its agent would do now, in words that fit on a screen."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from agent_resolver.core.count import counted
from agent_resolver.core.shorten import shorten
from agent_resolver.runtime.inference import ChatRequest
from agent_resolver.runtime.journal.entry import Question
from agent_resolver.runtime.journal.question_digest import question_of
from agent_resolver.runtime.journal.recording import PlanDocument
from agent_resolver.runtime.message import Message
from agent_resolver.runtime.permission import Permissions, hidden_tools
from agent_resolver.runtime.run import Termination

Part = Literal["model", "system prompt", "tools", "settings", "messages", "call", "end"]
MAX_LINES: Final = 40
"""The number of lines that are shown of a comparison."""
MAX_WIDTH: Final = 200
_UNKNOWN: Final = "not known any longer"
_SETTINGS: Final = (
    ("spec", "reasoning_effort"),
    ("context_policy", "max_output_tokens"),
    ("context_policy", "enable_prompt_cache"),
)
"""The parts of a plan that decide about the settings of a question."""
_NOT_COMPARED: Final = frozenset({"form", "server_tools", "spec", "tools"})


class Difference(Struct, frozen=True, kw_only=True):
    """The first thing that an agent would do otherwise now."""

    round: int
    part: Part
    before: str
    after: str
    lines: tuple[str, ...] = ()
    """The comparison of both, where one line each is not enough."""


class Compared(Struct, frozen=True, kw_only=True):
    """A question as it was recorded, and as it would be asked now."""

    round: int
    recorded: Question
    request: ChatRequest
    plan_before: PlanDocument
    plan_after: PlanDocument
    messages_before: Sequence[Message]
    """The conversation then, without what is added to it for one question."""
    messages_after: Sequence[Message]


def question_difference(compared: Compared) -> Difference | None:
    """The first part of a question that differs; None where all of it is the same."""
    before = compared.recorded
    after = question_of(compared.request)
    if before == after:
        return None
    # What decides about the rest comes first: another model may have other settings.
    if before.model != after.model:
        return Difference(
            round=compared.round, part="model", before=before.model, after=after.model
        )
    if before.system != after.system:
        return _prompt_difference(compared)
    if before.tools != after.tools:
        return _tools_difference(compared)
    if before.settings != after.settings:
        return _settings_difference(compared)
    return _messages_difference(compared)


def describe_end(end: Termination) -> str:
    """The end of a run, on one line."""
    return shorten(end.description, MAX_WIDTH)


def shown(text: str) -> str:
    """A text as a difference shows it."""
    return shorten(text, MAX_WIDTH) or "nothing"


def plan_notes(before: PlanDocument, after: PlanDocument) -> tuple[str, ...]:
    """The parts of a plan that differ, by name."""
    if not before:
        return ("what its plan was made of is not kept any longer",)
    spec_before = before["spec"]
    spec_after = after["spec"]
    fields = sorted({*spec_before, *spec_after})
    notes = [name for name in fields if spec_before.get(name) != spec_after.get(name)]
    # The spec and the tools are compared part by part, above and below.
    parts = sorted({*before, *after} - _NOT_COMPARED)
    notes += [name for name in parts if before.get(name) != after.get(name)]
    notes += [line.removeprefix("~ ") for line in _tool_lines(before, after)]
    return tuple(notes[:MAX_LINES])


# The parts of a question --------------------------------------------------------------


def _prompt_difference(compared: Compared) -> Difference:
    now = "\n".join(
        message.text
        for message in compared.request.messages
        if message.role == "system"
    )
    before = _prompt_of(compared.plan_before)
    if before is None:
        return Difference(
            round=compared.round,
            part="system prompt",
            before=_UNKNOWN,
            after=shown(now),
        )
    after = _prompt_of(compared.plan_after) or ""
    if before == after:
        # The journal has digests of questions: what plugins added then cannot be shown.
        words = (
            "the prompt of the agent is the same, and what plugins add to it differs"
        )
        return Difference(
            round=compared.round, part="system prompt", before=words, after=shown(now)
        )
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), "recorded", "now", lineterm="", n=1
    )
    return Difference(
        round=compared.round,
        part="system prompt",
        before=shown(before),
        after=shown(after),
        lines=_bounded_lines(lines),
    )


def _prompt_of(plan: PlanDocument) -> str | None:
    return plan["spec"].get("system_prompt", "") if plan else None


def _tools_difference(compared: Compared) -> Difference:
    lines = list(_tool_lines(compared.plan_before, compared.plan_after))
    if not lines:
        lines = [
            "the tools of the agent are the same, and which of them plugins offer differs"
        ]
    known = _offered_tools(compared.plan_before)
    return Difference(
        round=compared.round,
        part="tools",
        before=counted(len(known), "tool") if compared.plan_before else _UNKNOWN,
        after=counted(len(compared.request.tools), "tool"),
        lines=_bounded_lines(lines),
    )


def _tool_lines(before: PlanDocument, after: PlanDocument) -> Iterator[str]:
    """A line for each tool that a model is no longer shown, is newly shown, or whose definition changed."""
    if not before:
        return
    known = _offered_tools(before)
    now = _offered_tools(after)
    for tool_id in sorted({*known, *now}):
        if tool_id not in now:
            yield f"- {tool_id}"
        elif tool_id not in known:
            yield f"+ {tool_id}"
        elif known[tool_id] != now[tool_id]:
            yield f"~ {tool_id}: its definition changed"


def _offered_tools(plan: PlanDocument) -> Mapping[str, object]:
    """The tools that a model is shown, by id, each with the digest of its definition."""
    # A tool in a plan is its id, source, origin, scopes and the digest of its
    # definition.
    tools = {
        tool_id: definition for tool_id, _, _, _, definition in plan.get("tools", ())
    }
    permissions = plan.get("permissions")
    if not permissions:
        return tools
    # A model is not shown a tool that its rules deny outright.
    hidden = hidden_tools(msgspec.convert(permissions, Permissions), tools)
    return {
        tool_id: definition
        for tool_id, definition in tools.items()
        if tool_id not in hidden
    }


def _settings_difference(compared: Compared) -> Difference:
    before = compared.plan_before
    after = compared.plan_after
    for part, name in _SETTINGS:
        # Without the recorded plan, its settings are unknown and not different.
        one = _setting(before, part, name)
        other = _setting(after, part, name)
        if before and one != other:
            return Difference(
                round=compared.round,
                part="settings",
                before=f"{name}: {one}",
                after=f"{name}: {other}",
            )
    request = compared.request
    now = (
        f"temperature {request.temperature}, max_output_tokens {request.max_output_tokens}, "
        f"reasoning_effort {request.reasoning_effort}, cache_prompt {request.cache_prompt}"
    )
    words = "the settings of the agent are the same, and what plugins ask for differs"
    return Difference(
        round=compared.round, part="settings", before=words, after=shown(now)
    )


def _setting(plan: PlanDocument, part: str, name: str) -> Any:  # noqa: ANN401 - a JSON value
    return (plan.get(part) or {}).get(name)


def _messages_difference(compared: Compared) -> Difference:
    before = compared.messages_before
    after = compared.messages_after
    for place in range(max(len(before), len(after))):
        # Slices, because they are empty where one of the conversations is already over.
        one = before[place : place + 1]
        other = after[place : place + 1]
        if one != other:
            return Difference(
                round=compared.round,
                part="messages",
                before=f"message {place + 1}: {_line_of(one)}",
                after=f"message {place + 1}: {_line_of(other)}",
            )
    # System messages are left out, as they are in the recorded count.
    count = sum(message.role != "system" for message in compared.request.messages)
    words = "the conversation is the same, and what is added to it or left out differs"
    return Difference(
        round=compared.round,
        part="messages",
        before=f"{words}: {counted(compared.recorded.count, 'message')}",
        after=counted(count, "message"),
    )


def _line_of(messages: Sequence[Message]) -> str:
    if not messages:
        return "none"
    (message,) = messages
    if message.role == "tool":
        # A result may have secret fields, and what is shown here is masked by nothing.
        return f"the result of call {message.call_id}, {counted(len(message.text), 'character')}"
    calls = "".join(f" [{call.name}]" for call in message.calls)
    return shown(f"{message.role}: {message.text}{calls}")


def _bounded_lines(lines: Iterator[str] | Sequence[str]) -> tuple[str, ...]:
    kept = [line[:MAX_WIDTH] for line in lines]
    if len(kept) <= MAX_LINES:
        return tuple(kept)
    return (*kept[:MAX_LINES], f"… {counted(len(kept) - MAX_LINES, 'further line')}")
