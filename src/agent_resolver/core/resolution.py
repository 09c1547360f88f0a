"""Finds the server for each requirement: `resolve` chooses, `explain` enumerates."""

from collections.abc import Callable, Iterable
from functools import cache, cached_property
from typing import Final

from msgspec import UNSET, Struct

from agent_resolver.core.choice import Choice, choose, rejections, selection
from agent_resolver.core.constraint import limits_of, requirements_of
from agent_resolver.core.lock import lock_entry
from agent_resolver.core.rule import promises_asked_region
from agent_resolver.core.server import ServerPool, Servers, pool_of
from agent_resolver.schema.agent_file import AgentFile, Limits, Requirement
from agent_resolver.schema.explanation import (
    Explanation,
    FailedRequirement,
    Rejection,
    RequirementExplanation,
)
from agent_resolver.schema.index import Server
from agent_resolver.schema.lockfile import Lockfile

EPOCH: Final = "1970-01-01T00:00:00.000Z"
"""What `resolvedAt` says unless a time is asked for: a lock depends on its inputs alone."""


class Resolution(Struct, frozen=True, kw_only=True, dict=True):
    """The outcome of resolving one agent file, whether every requirement found a server or not."""

    agent: AgentFile
    limits: Limits
    pool: Servers
    """The servers that were to choose from."""
    choices: tuple[Choice, ...]
    resolved_at: str

    @property
    def servers(self) -> tuple[Server, ...]:
        """The servers that were to choose from; those in memory as they were given, and all of a file by id."""
        return (
            self.pool.servers if isinstance(self.pool, ServerPool) else tuple(self.pool)
        )

    # What failed is kept, once it was asked for: reports ask often, and it takes a look
    # at every requirement.
    @cached_property
    def failed(self) -> tuple[Requirement, ...]:
        """The requirements that no server can serve."""
        return tuple(
            choice.requirement for choice in self.choices if choice.server is None
        )

    @property
    def success(self) -> bool:
        """True if every requirement found a server."""
        return not self.failed

    @cached_property
    def failures(self) -> tuple[FailedRequirement, ...]:
        """The obstacles between each failed requirement and a server."""
        if self.success:
            return ()
        from agent_resolver.core.suggestion import explain_failures

        return explain_failures(self.agent, self.pool, self.failed)

    @property
    def without_region(self) -> tuple[Choice, ...]:
        """The choices whose server passes because it says `any`, and does not promise the region that is asked for."""
        return tuple(
            choice
            for choice in self.choices
            if choice.server and not promises_asked_region(choice.server, self.limits)
        )

    @property
    def lockfile(self) -> Lockfile | None:
        """The lock that pins the choices, or None when a requirement failed."""
        if not self.success:
            # A lock pins everything or nothing: as in the specification, one failed
            # requirement leaves none.
            return None
        entries = tuple(
            lock_entry(choice.requirement, choice.server)
            for choice in self.choices
            if choice.server
        )
        return Lockfile(
            agent_name=self.agent.name,
            agent_version=self.agent.version,
            resolved_at=self.resolved_at,
            servers=entries,
            lock_version=2 if any(entry.integrity for entry in entries) else UNSET,
        )

    @property
    def explanation(self) -> Explanation:
        """Every choice and every rejection."""
        return self.explanation_of(
            self.explain(choice, rejections(choice, self.limits, self.pool))
            for choice in self.choices
        )

    def explanation_of(
        self,
        requirements: Iterable[RequirementExplanation],
    ) -> Explanation:
        """The explanation that holds these requirements."""
        return Explanation(
            agent_name=self.agent.name,
            agent_version=self.agent.version,
            resolved_at=self.resolved_at,
            success=self.success,
            requirements=tuple(requirements),
            failed=self.failures or UNSET,
        )

    def explain(
        self,
        choice: Choice,
        rejected: Iterable[Rejection],
    ) -> RequirementExplanation:
        """The outcome of one requirement, with these rejections."""
        return RequirementExplanation(
            category=choice.requirement.category,
            required_permissions=choice.requirement.permissions,
            selected=selection(choice),
            rejected=tuple(rejected),
            constraints_applied=self.limits.applied,
        )


def resolve(
    agent: AgentFile,
    servers: Iterable[Server],
    *,
    resolved_at: str = EPOCH,
) -> Resolution:
    """Choose a server for every requirement of `agent`.

    The order of `servers`, each at one version once, and of anything in the agent file never changes the outcome.
    That no server fits is an outcome too: see `Resolution.failed`.
    """
    wanted = frozenset(requirement.category for requirement in agent.requires.mcp)
    # The categories are known, so servers of others need not be grouped.
    pool = pool_of(servers, wanted)
    return _make_resolution(
        agent,
        pool,
        lambda need, limits: choose(need, limits, pool),
        resolved_at,
    )


def resolver(
    servers: Iterable[Server],
    *,
    resolved_at: str = EPOCH,
) -> Callable[[AgentFile], Resolution]:
    """A function that does what `resolve` does, for many agent files.

    The servers are sorted out only once, and so is a requirement that several agent files have under the same limits.
    """
    pool = pool_of(servers)

    @cache
    def chosen(requirement: Requirement, limits: Limits) -> Choice:
        return choose(requirement, limits, pool)

    return lambda agent: _make_resolution(agent, pool, chosen, resolved_at)


def explain(
    agent: AgentFile,
    servers: Iterable[Server],
    *,
    resolved_at: str = EPOCH,
) -> Explanation:
    """Every choice that `resolve` makes, and for every other server the reason against it."""
    return resolve(agent, servers, resolved_at=resolved_at).explanation


def _make_resolution(
    agent: AgentFile,
    pool: Servers,
    chosen: Callable[[Requirement, Limits], Choice],
    resolved_at: str,
) -> Resolution:
    limits = limits_of(agent)
    choices = tuple(chosen(need, limits) for need in requirements_of(agent))
    return Resolution(
        agent=agent,
        limits=limits,
        pool=pool,
        choices=choices,
        resolved_at=resolved_at,
    )
