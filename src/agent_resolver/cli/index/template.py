"""Lines for an overlay that leave to a person what only a person knows."""

from typing import Any, Final, get_args

from agent_resolver.core.index_coverage import unknown_facts
from agent_resolver.core.rule import overlay_line
from agent_resolver.schema.index import Server
from agent_resolver.schema.vocabulary import Residency, Sensitivity

_VALUES: Final[dict[str, object]] = {
    "categories": ["<category>"],
    "scopes": ["<scope>"],
    "residency": [f"<{' | '.join(get_args(Residency))}>"],
    "maxSensitivity": f"<{' | '.join(get_args(Sensitivity))}>",
    "signed": "<true | false>",
}


def template_line(server: Server) -> str:
    """The line that states what is not known of a server, with `<…>` for each value to write."""
    # The paths of facts have sections, as `data.residency`: each section becomes a
    # mapping, and its last key a placeholder.
    facts: dict[str, Any] = {}
    for fact in unknown_facts(server):
        *sections, name = fact.path
        holder = facts
        for section in sections:
            holder = holder.setdefault(section, {})
        holder[name] = _VALUES[name]
    return overlay_line(server.id, facts)
