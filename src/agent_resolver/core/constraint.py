"""What an agent file asks for, in the one order and form that every decision uses."""

from msgspec import structs

from agent_resolver.schema.agent_file import AgentFile, Limits, Requirement, limits_in


def limits_of(agent: AgentFile) -> Limits:
    """The constraints that every server chosen for `agent` must follow."""
    return limits_in(agent.constraints, agent.trust)


def requirements_of(agent: AgentFile) -> tuple[Requirement, ...]:
    """The requirements sorted by category and scopes, their scopes sorted: by code point, as every order here."""
    ordered = [structs.replace(need, permissions=tuple(sorted(need.permissions))) for need in agent.requires.mcp]
    return tuple(sorted(ordered, key=lambda need: (need.category, need.permissions)))


def position_of(requirement: Requirement, agent: AgentFile, earlier: int = 0) -> int:
    """Where a requirement, in the form of `requirements_of`, stands in its agent file, after `earlier` equal ones."""
    return [
        position
        for position, need in enumerate(agent.requires.mcp)
        if (need.category, sorted(need.permissions)) == (requirement.category, sorted(requirement.permissions))
    ][earlier]
