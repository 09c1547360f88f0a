"""The requirements and limits of an agent file, in the one order and form that every decision uses."""

from collections import deque
from collections.abc import Iterable
from typing import Self

from msgspec import Struct, structs

from agent_resolver.schema.agent_file import AgentFile, Limits, Requirement, limits_in
from agent_resolver.schema.vocabulary import SENSITIVITY_RANK, Residency, Sensitivity


class RunLimits(Struct, frozen=True, kw_only=True, gc=False):
    """The limits that one run of an agent keeps: its own, and those of every caller before it, all at once.

    They travel with the data: the agents it delegates to keep them as well. `requireSigned` is not among them: it
    is about the servers that an agent chooses for itself.
    """

    residencies: tuple[Residency, ...] = ()
    """Where the data must stay, without `any`; callers may ask for several regions, and each must be kept."""
    sensitivity: Sensitivity | None = None
    """The most sensitive data that any of them handles."""
    forbid: tuple[str, ...] = ()

    def narrowed_by(self, limits: Limits) -> Self:
        """These limits and those of one more agent. Nothing that was refused before is allowed after."""
        # `any` limits nothing, just as an absent residency does.
        asked = () if limits.residency in {None, "any"} else (limits.residency,)
        return self.joined(
            RunLimits(
                residencies=asked,
                sensitivity=limits.sensitivity,
                forbid=limits.forbid,
            )
        )

    def joined(self, other: "RunLimits") -> Self:
        """These limits and those of another run, all at once."""
        # The level that is the highest of both is the strictest, since a server must
        # reach it.
        levels = [level for level in (self.sensitivity, other.sensitivity) if level]
        return structs.replace(
            self,
            residencies=tuple(sorted({*self.residencies, *other.residencies})),
            sensitivity=max(
                levels,
                key=lambda level: SENSITIVITY_RANK[level],
                default=None,
            ),
            forbid=tuple(sorted({*self.forbid, *other.forbid})),
        )

    @property
    def govern_data(self) -> bool:
        """True if not everything may see the data."""
        return bool(self.residencies) or self.sensitivity is not None


def limits_of(agent: AgentFile) -> Limits:
    """The constraints that every server chosen for `agent` must follow."""
    return limits_in(agent.constraints, agent.trust)


def requirements_of(agent: AgentFile) -> tuple[Requirement, ...]:
    """The requirements sorted by category and scopes, their scopes sorted: by code point, as every order here."""
    return tuple(
        sorted(
            map(_in_form, agent.requires.mcp),
            key=lambda need: (need.category, need.permissions),
        )
    )


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
