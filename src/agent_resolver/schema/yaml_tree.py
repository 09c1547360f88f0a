"""YAML text to a positioned tree, with the core schema of YAML 1.2."""

from agent_resolver.schema.limit import MAX_YAML_NODES
from agent_resolver.schema.tree import Node
from agent_resolver.schema.yaml_plain import parse_plain_yaml


def parse_yaml(text: str, line: int = 1, *, most: int = MAX_YAML_NODES) -> Node:
    """The tree of a YAML text whose first line is line `line` of its file; nothing at all is an empty mapping.

    It may hold `most` values, aliases expanded.

    Raises:
        Unreadable: The text is not one YAML document, or passes a limit.
    """
    if (tree := parse_plain_yaml(text, line, most)) is not None:
        return tree
    # The library takes a sixth of the start of a command to import, and most front
    # matter does not need it.
    from agent_resolver.schema.yaml_library import parse_any_yaml

    return parse_any_yaml(text, line, most)
