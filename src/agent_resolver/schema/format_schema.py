"""JSON Schemas, generated from the values that the readers decode to."""

from typing import Any, Final

import msgspec

from agent_resolver.schema.agent_file import AgentFile
from agent_resolver.schema.blueprint import MAX_UNBATCHED_ITEMS, Blueprint
from agent_resolver.schema.eval_set import EvalSet
from agent_resolver.schema.explanation import Explanation
from agent_resolver.schema.governing_key import BELOW_PLACES, RESOLVER_PLACES, SECTIONS
from agent_resolver.schema.index import Index, IndexFile
from agent_resolver.schema.lockfile import Lockfile
from agent_resolver.schema.overlay import Overlay
from agent_resolver.schema.vocabulary import DECLARED_ORDER

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

FORMATS: Final[dict[str, tuple[Any, str]]] = {
    "agents": (AgentFile, "Front matter of an agent file (agents.md)"),
    "blueprint": (Blueprint, "Blueprint (a durable workflow over tools)"),
    "eval": (EvalSet, "Eval set (requests, and what a planner should make of them)"),
    "index": (Index | IndexFile, "Server index (mcp.index.json)"),
    "lock": (Lockfile, "Lockfile (agents.lock)"),
    "overlay": (Overlay, "Overlay of a server index (mcp.overlay.yaml)"),
    "resolution": (Explanation, "Explanation (agents.resolution.json)"),
}


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of one file format."""
    expected, title = FORMATS[name]
    schema = msgspec.json.schema(expected)
    if name == "index":
        # A rule between keys, which the types cannot say: a server is reached by one of
        # the two.
        schema["$defs"]["IndexEntry"]["anyOf"] = [
            {"required": ["endpoint"]},
            {"required": ["launch"]},
        ]
    if name == "blueprint":
        _state_blueprint_rules(schema["$defs"])
    if name in {"blueprint", "eval", "overlay"}:
        _refuse_unknown_keys(schema["$defs"])
    if name == "agents":
        _refuse_misplaced_keys(schema["$defs"])
    _declare_order(schema)
    return {
        "$schema": _DIALECT,
        "$id": f"urn:agent-resolver:schema:{name}",
        "title": title,
        **schema,
    }


def _refuse_unknown_keys(definitions: dict[str, Any]) -> None:
    for definition in definitions.values():
        definition["additionalProperties"] = False


def _state_blueprint_rules(definitions: dict[str, Any]) -> None:
    """State the rules between keys of a blueprint, which the types cannot say."""
    definitions["Step"]["oneOf"] = [
        {"required": ["capability"]},
        {"required": ["wait"]},
    ]
    definitions["Wait"]["oneOf"] = [
        {
            "properties": {"kind": {"const": "person"}, "question": {"minLength": 1}},
            "required": ["question"],
        },
        {
            "properties": {"kind": {"const": "signal"}, "signal": {"minLength": 1}},
            "required": ["signal"],
        },
        {
            "properties": {"kind": {"const": "time"}, "until": {"const": ""}},
            "required": ["seconds"],
        },
        {
            "properties": {
                "kind": {"const": "time"},
                "until": {"minLength": 1},
                "seconds": False,
            },
            "required": ["until"],
        },
    ]
    few = {"properties": {"max_items": {"maximum": MAX_UNBATCHED_ITEMS}}}
    definitions["ForEach"]["anyOf"] = [few, {"required": ["batch_size"]}]


def _refuse_misplaced_keys(definitions: dict[str, Any]) -> None:
    """Refuse each key that governs an agent where it has no effect, and two rules about signed servers that differ."""
    for name, definition in definitions.items():
        is_top = name == "AgentFile"
        for key, place in (
            RESOLVER_PLACES if is_top else {**RESOLVER_PLACES, **BELOW_PLACES}
        ).items():
            refused = {"type": "object"} if is_top and key in SECTIONS else {}
            definition["properties"].setdefault(
                key, {"not": refused, "description": f"Write it as {place}"}
            )
    definitions["AgentFile"]["not"] = {
        "anyOf": [_signed_rules(outer=True), _signed_rules(outer=False)]
    }


def _signed_rules(*, outer: bool) -> dict[str, Any]:
    """Front matter whose two rules about signed servers differ, the one at the top being `outer`."""
    inner = _holding("trust", _holding("requireSigned", {"const": not outer}))
    both = [
        _holding("constraints", inner),
        _holding("trust", _holding("requireSigned", {"const": outer})),
    ]
    return {"allOf": both}


def _holding(key: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {key: value}, "required": [key]}


def _declare_order(node: Any) -> None:  # noqa: ANN401 - any part of a schema
    """Put the words of each enumeration into the order that people read them in."""
    if isinstance(node, dict):
        if "enum" in node:
            node["enum"] = list(
                DECLARED_ORDER.get(frozenset(node["enum"])) or node["enum"]
            )
        for child in node.values():
            _declare_order(child)
    elif isinstance(node, list):
        for child in node:
            _declare_order(child)
