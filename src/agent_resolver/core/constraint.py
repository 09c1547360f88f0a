"""What an agent file asks for, in the one order and form that every decision uses."""

from collections import deque
from collections.abc import Iterable

from msgspec import structs

from agent_resolver.schema.agent_file import AgentFile, Limits, Requirement, limits_in


def limits_of(agent: AgentFile) -> Limits:
    """The constraints that every server chosen for `agent` must follow."""
    return limits_in(agent.constraints) if agent.constraints else Limits()


def requirements_of(agent: AgentFile) -> tuple[Requirement, ...]:
    """The requirements sorted by category and scopes, their scopes sorted: by code point, as every order here."""
    return tuple(sorted(map(_in_form, agent.requires.mcp), key=lambda need: (need.category, need.permissions)))


def positions_of(requirements: Iterable[Requirement], agent: AgentFile) -> list[int]:
    """The position of each requirement, in the form of `requirements_of`, in its agent file; equal ones have their own.

    `requirements` may be some of those that the agent file has, in any order.
    """
    places: dict[Requirement, deque[int]] = {}
    for position, need in enumerate(agent.requires.mcp):
        places.setdefault(_in_form(need), deque()).append(position)
    return [places[requirement].popleft() for requirement in requirements]


def _in_form(need: Requirement) -> Requirement:
    return structs.replace(need, permissions=tuple(sorted(need.permissions)))
