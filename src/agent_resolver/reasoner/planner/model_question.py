"""The questions to a model: they show little of a request and its tools, are bounded, and mark it as data."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from agent_resolver.core.shorten import shorten
from agent_resolver.reasoner.planner.classifier import Routed, ToolManifest, words_of
from agent_resolver.reasoner.planner.input_field import fields_of
from agent_resolver.reasoner.planner.stated_reading import OpenInput
from agent_resolver.reasoner.planner.tool_profile import ToolProfile
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.planning import PlanRequest

MAX_TOOLS_SHOWN: Final = 60
"""How many tools a question may show. Words that no rule knows often share none with the tool that they mean, so that
fewer would leave out the right one."""
MAX_QUESTION: Final = 16_000
"""How many characters a question may have. Tools that fit least are left out first."""
_MAX_DESCRIPTION: Final = 200
_MAX_INPUTS: Final = 12
_MAX_NAME: Final = 100
_MAX_PASSAGE: Final = 500
_MAX_STEPS: Final = 50


def ranked_tools(
    parts: Sequence[Routed], manifest: ToolManifest
) -> tuple[Descriptor, ...]:
    """The tools that share most words with some parts of a request, the best first, then by id."""
    words: dict[str, float] = {}
    for clause in (clause for part in parts for clause in part.clauses):
        words |= dict.fromkeys((clause.verb, *clause.objects, *clause.others), 1.0)

    def preference(profile: ToolProfile) -> tuple[float, str]:
        return (-manifest.relevance.of_nouns(words, profile), profile.id)

    return tuple(
        profile.tool
        for profile in sorted(manifest.profiles, key=preference)[:MAX_TOOLS_SHOWN]
    )


def choice_question(
    request: PlanRequest,
    parts: Sequence[Routed],
    tools: Sequence[Descriptor],
) -> tuple[str, tuple[str, ...]]:
    """The question which tools do some parts, and the ids of the tools that it shows."""
    document: dict[str, Any] = {
        "task": "choose-tools",
        "request": words_of(request),
        "parts": [{"part": part.number, "text": part.text} for part in parts],
        "passages": [
            shorten(snippet.text, _MAX_PASSAGE) for snippet in request.snippets
        ],
    }
    # The parts that cannot be left out come first, and tools have what they leave.
    room = MAX_QUESTION - len(as_data({**document, "tools": []}))
    shown: list[dict[str, Any]] = []
    for tool in map(_tool_document, tools):
        # A little more than it takes, with the comma.
        room -= len(as_data(tool))
        if room < 0:
            break
        shown.append(tool)
    return as_data({**document, "tools": shown}), tuple(tool["id"] for tool in shown)


def argument_question(request: PlanRequest, inputs: Sequence[OpenInput]) -> str:
    """The question which words of a request are the inputs of its plan."""
    return as_data(
        {
            "task": "find-arguments",
            "request": words_of(request),
            "inputs": [
                {
                    "name": each.name,
                    "tool": each.tool.id,
                    "type": _types(each.field.types),
                    "description": shorten(each.field.description, _MAX_DESCRIPTION),
                }
                for each in inputs
            ],
        }
    )


def audit_question(request: PlanRequest, draft: Blueprint) -> str:
    """The question what is worth knowing about a draft. Its arguments are not shown."""
    tools = {tool.id: tool for tool in request.tools}
    steps = []
    for step in draft.dag.steps[:_MAX_STEPS]:
        tool = tools.get(step.capability or "")
        described = shorten(tool.description, _MAX_DESCRIPTION) if tool else ""
        level = tool.rules.classification if tool else ""
        steps.append(
            {
                "id": step.id,
                "tool": step.capability,
                "description": described,
                "classification": level,
            }
        )
    return as_data({"task": "audit", "request": words_of(request), "steps": steps})


def as_data(document: dict[str, Any]) -> str:
    """A document between marks that nothing inside of it can close."""
    # Without `<` no text of a request or a tool can write the closing mark, and JSON
    # reads the escape as the same letter.
    text = msgspec.json.encode(document).decode().replace("<", "\\u003c")
    return f"<data>\n{text}\n</data>"


def repair_question(fault: str) -> str:
    """The one request to answer again, with what was wrong."""
    return f"Your answer cannot be used: {fault}. Answer again, with the JSON object alone."


def _tool_document(tool: Descriptor) -> dict[str, Any]:
    fields = fields_of(tool.input_schema)[:_MAX_INPUTS]
    inputs = {field.name[:_MAX_NAME]: _types(field.types) for field in fields}
    return {
        "id": tool.id,
        "description": shorten(tool.description, _MAX_DESCRIPTION),
        "inputs": inputs,
    }


def _types(types: frozenset[str]) -> str:
    return " or ".join(sorted(types)) or "any"
