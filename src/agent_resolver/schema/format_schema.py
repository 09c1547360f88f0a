"""JSON Schemas, generated from the values that the readers decode to."""

from typing import Any, Final

import msgspec

from agent_resolver.schema.agent_file import AgentFile
from agent_resolver.schema.explanation import Explanation
from agent_resolver.schema.index import Index
from agent_resolver.schema.lockfile import Lockfile
from agent_resolver.schema.vocabulary import DECLARED_ORDER

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

FORMATS: Final[dict[str, tuple[Any, str]]] = {
    "agents": (AgentFile, "Front matter of an agent file (agents.md)"),
    "index": (Index, "Server index (mcp.index.json)"),
    "lock": (Lockfile, "Lockfile (agents.lock)"),
    "resolution": (Explanation, "Explanation (agents.resolution.json)"),
}


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of one file format."""
    expected, title = FORMATS[name]
    schema = msgspec.json.schema(expected)
    if name == "index":
        # A rule between keys, which the types cannot say: a server is reached by one of the two.
        schema["$defs"]["IndexEntry"]["anyOf"] = [{"required": ["endpoint"]}, {"required": ["launch"]}]
    _declare_order(schema)
    return {"$schema": _DIALECT, "$id": f"urn:agent-resolver:schema:{name}", "title": title, **schema}


def _declare_order(node: Any) -> None:  # noqa: ANN401 - any part of a schema
    """Put the words of each enumeration into the order that people read them in."""
    if isinstance(node, dict):
        if "enum" in node:
            node["enum"] = list(DECLARED_ORDER.get(frozenset(node["enum"])) or node["enum"])
        for child in node.values():
            _declare_order(child)
    elif isinstance(node, list):
        for child in node:
            _declare_order(child)
