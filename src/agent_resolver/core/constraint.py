"""What an agent file asks for, in the one order and form that every decision uses."""

from msgspec import UNSET, Struct, structs

from agent_resolver.schema.agent_file import AgentFile, Constraints, Requirement
from agent_resolver.schema.explanation import AppliedConstraints
from agent_resolver.schema.vocabulary import Residency, Sensitivity


class Limits(Struct, frozen=True, kw_only=True):
    """The constraints of an agent file; None where it has none."""

    residency: Residency | None = None
    sensitivity: Sensitivity | None = None
    require_signed: bool | None = None
    forbid: tuple[str, ...] = ()

    @property
    def applied(self) -> AppliedConstraints:
        """The part that an explanation states."""
        return AppliedConstraints(
            residency=self.residency, sensitivity=self.sensitivity, require_signed=self.require_signed
        )


def limits_of(agent: AgentFile) -> Limits:
    """The constraints that every server chosen for `agent` must follow."""
    return limits_in(agent.constraints) if agent.constraints else Limits()


def limits_in(constraints: Constraints) -> Limits:
    """The same of `constraints` alone, for agent files that require no servers."""
    data, actions, trust = constraints.data, constraints.actions, constraints.trust
    return Limits(
        residency=(data.residency or None) if data else None,
        sensitivity=(data.sensitivity or None) if data else None,
        require_signed=None if not trust or trust.require_signed is UNSET else trust.require_signed,
        forbid=(actions.forbid or ()) if actions else (),
    )


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
