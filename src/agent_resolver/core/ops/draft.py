"""A draft under audit: what several rules look at, worked out once."""

from msgspec import Struct

from agent_resolver.core.blueprint.check import check_blueprint
from agent_resolver.core.ops.subject import OpsSubject
from agent_resolver.schema.blueprint import Step
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.issue import only_errors


class PlannedCall(Struct, frozen=True, kw_only=True):
    """A call that a run of the draft can make."""

    step: str
    tool: str
    is_compensation: bool = False

    @property
    def about(self) -> str:
        """The step, or `<step>.compensation` for the call that takes it back."""
        if self.is_compensation:
            return f"{self.step}.compensation"
        return self.step

    def __str__(self) -> str:
        role = "The compensation of step" if self.is_compensation else "Step"
        return f"{role} `{self.step}`"


class AuditedDraft:
    """The subject of an audit, with its calls and faults."""

    def __init__(self, subject: OpsSubject) -> None:
        self.subject = subject
        self.calls = tuple(
            call for step in subject.blueprint.dag.steps for call in _calls_of(step)
        )
        """The call of each step, and the one that takes it back."""
        self.errors = tuple(
            only_errors(check_blueprint(subject.blueprint, subject.tools))
        )
        """The faults that the check of blueprints finds, in the order of their paths; warnings reject no draft."""

    @property
    def known_calls(self) -> list[tuple[PlannedCall, Descriptor]]:
        """The calls whose tool is known. The others break the rule about tools, and no other."""
        tools = self.subject.tools
        return [(call, tools[call.tool]) for call in self.calls if call.tool in tools]


def _calls_of(step: Step) -> list[PlannedCall]:
    found = []
    if step.capability:
        found.append(PlannedCall(step=step.id, tool=step.capability))
    if step.compensation:
        found.append(
            PlannedCall(
                step=step.id,
                tool=step.compensation.capability,
                is_compensation=True,
            )
        )
    return found
