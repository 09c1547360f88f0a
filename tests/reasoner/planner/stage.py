"""What the stages around a planner do, for tests."""

import asyncio

from msgspec import Struct, structs

from agent_resolver.core import check_blueprint
from agent_resolver.reasoner import OfflinePlanner, Planner
from agent_resolver.schema import Blueprint, Descriptor, Issue, IssueCode
from agent_resolver.schema.issue import only_errors
from agent_resolver.schema.planning import Classified, Drafted, PlanRequest


class Planned(Struct, frozen=True):
    """What a planner made of a request."""

    classified: Classified
    drafted: Drafted

    @property
    def asks(self) -> tuple[str, ...]:
        """The keys of the questions that are open."""
        return tuple(question.key for question in (self.classified.questions or self.drafted.questions))

    @property
    def blueprint(self) -> Blueprint:
        assert self.drafted.blueprint is not None, self.asks
        return self.drafted.blueprint

    @property
    def called(self) -> list[str]:
        """The tools of the steps."""
        return [step.capability or "" for step in self.blueprint.dag.steps]


def plan(request: PlanRequest, planner: Planner | None = None) -> Planned:
    """Ask the classifier, and then the Builder unless there are questions; without a planner, ask the offline one."""
    return asyncio.run(_plan(request, planner or OfflinePlanner()))


async def _plan(request: PlanRequest, planner: Planner) -> Planned:
    classified = await planner.classify(request)
    if classified.questions:
        return Planned(classified, Drafted())
    asked = structs.replace(request, chosen=classified.tools, missing=classified.missing)
    return Planned(classified, await planner.build(asked))


def build(request: PlanRequest) -> Drafted:
    """Ask the Builder alone."""
    return asyncio.run(OfflinePlanner().build(request))


def faults(blueprint: Blueprint, tools: tuple[Descriptor, ...]) -> list[Issue]:
    """What the check finds, but for steps that nothing takes back."""
    found = only_errors(check_blueprint(blueprint, {tool.id: tool for tool in tools}))
    return [issue for issue in found if issue.code is not IssueCode.MISSING_COMPENSATION]
