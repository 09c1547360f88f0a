"""The ports of the stages: a planner, a runner of acceptance tests, documents, and the health of systems."""

from collections.abc import Mapping
from typing import Final, Protocol

from msgspec import Struct

from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.planning import (
    AuditAdvice,
    Classified,
    Drafted,
    Isolation,
    PlanRequest,
    Snippet,
    TestResult,
)


class Planner(Protocol):
    """Turns a request into a plan. It proposes: stages and rules decide what becomes of a proposal.

    A planner has no effect, and the same request has the same answer. What it cannot know it asks for: an argument
    that the request does not state, and which of several readings is meant, are questions and never guesses.
    """

    async def classify(self, request: PlanRequest) -> Classified:
        """Find what a request takes: tools that are there, in order, and what no tool does."""
        ...

    async def build(self, request: PlanRequest) -> Drafted:
        """Draft the plan, or change a draft that was rejected as its remedies ask."""
        ...

    async def audit(self, request: PlanRequest) -> AuditAdvice:
        """Say what is worth knowing about `request.draft` besides the rules of Ops; it cannot excuse a violation."""
        ...


class AcceptanceRun(Struct, frozen=True, kw_only=True):
    """The results of all acceptance tests of a draft, in their order."""

    tests: tuple[TestResult, ...]
    isolation: Isolation


class AcceptanceRunner(Protocol):
    """Tries a draft with the recorded results of its acceptance tests; nothing is called."""

    async def run(
        self, blueprint: Blueprint, tools: Mapping[str, Descriptor]
    ) -> AcceptanceRun:
        """Run every acceptance test. A draft that cannot be tried fails its tests, and raises nothing."""
        ...


class Retriever(Protocol):
    """Finds passages of documents."""

    async def find(self, text: str, limit: int) -> tuple[Snippet, ...]:
        """The passages that fit a text best, the best first; at most `limit` of them."""
        ...


HEALTH_STATES: Final = ("down", "degraded", "unknown", "healthy")
"""What a system can be, the worst first."""


class HealthReport(Struct, frozen=True, kw_only=True):
    """The health of a system, in a word and a sentence."""

    system: str
    state: str
    """One of `HEALTH_STATES`."""
    summary: str = ""


class Health(Protocol):
    """Knows how the systems are that a plan would use."""

    async def report(self, systems: tuple[str, ...]) -> tuple[HealthReport, ...]:
        """Reports the health of each system, in the order asked; a system that is not known is `unknown`."""
        ...
