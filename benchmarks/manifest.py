"""Time what is done with a manifest of 1,000 tools: `manifest.py ROUNDS`, with the extra `tools` installed.

Every round makes the manifest and its bytes anew, reads them back, and compares them with one where every tool changed.
"""

import json
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

from agent_resolver.core import manifest_difference
from agent_resolver.registry import manifest_of
from agent_resolver.schema import Descriptor, Labels, Rules, parse_manifest, to_json

if TYPE_CHECKING:
    from collections.abc import Callable

TOOLS = 1_000


def schema(length: int) -> dict[str, Any]:
    """What a tool of middling size takes."""
    text = {"type": "string", "description": "In a few words", "examples": ["It is broken"], "maxLength": length}
    owner = {
        "type": "object",
        "properties": {"name": text, "mail": {**text, "format": "email"}},
        "required": ["name"],
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "title": text,
            "owner": {"anyOf": [{"$ref": "#/$defs/Owner"}, {"type": "null"}], "default": None},
            "priority": {"enum": ["high", "low"], "description": "How urgent it is", "examples": ["low"]},
            "tags": {"type": "array", "items": text, "description": "What it is about", "examples": [["printer"]]},
        },
        "required": ["title"],
        "additionalProperties": False,
        "$defs": {"Owner": owner},
    }


def descriptors(length: int) -> list[Descriptor]:
    """Tools as the code of a large project has them, in no order."""
    return [
        Descriptor(
            id=f"domain{number % 20}.tool{number * 7 % TOOLS}",
            description="Open a ticket.",
            input_schema=schema(length),
            output_schema=schema(length),
            source="module tickets",
            rules=Rules(required_scopes=("write:tickets",), is_idempotent=True),
            labels=Labels(
                kind="CAPABILITY",
                domain=f"domain{number % 20}",
                tags=(f"domain{number % 20}", "connector"),
                examples=({"title": "It is broken"},),
            ),
        )
        for number in range(TOOLS)
    ]


def measure(rounds: int) -> dict[str, float]:
    """The median seconds of each."""
    tools, others = descriptors(80), manifest_of(descriptors(40))
    manifest = manifest_of(tools)
    content = to_json(manifest)
    work: dict[str, Callable[[], object]] = {
        "manifest": lambda: to_json(manifest_of(tools)),
        "read": lambda: parse_manifest(content),
        "unchanged": lambda: manifest_difference(manifest, manifest),
        "changed": lambda: manifest_difference(manifest, others),
    }
    taken: dict[str, list[float]] = {name: [] for name in work}
    for number in range(rounds + 1):
        for name, run in work.items():
            start = time.perf_counter()
            run()
            if number:  # The first round warms up.
                taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(samples) for name, samples in taken.items()}


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
