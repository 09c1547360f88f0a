"""A request to run a workflow, and its result."""

import secrets as randomness

from msgspec import Struct, field

from agent_resolver.project.workflow import StepResult
from agent_resolver.runtime.budget import RunBudget
from agent_resolver.runtime.inference import Usage
from agent_resolver.runtime.run import Termination
from agent_resolver.runtime.run_check import new_run_id
from agent_resolver.schema.outcome import Pending
from agent_resolver.schema.workflow import WorkflowStep


class WorkflowRequest(Struct, frozen=True, kw_only=True):
    """A request to run a workflow."""

    prompt: str = ""
    """The words of the user; every step is given them."""
    budget: RunBudget = RunBudget()
    """The most that all steps may use together; it narrows the budget of each agent."""
    streams: bool = False
    """True to send the text of answers as it comes."""
    run_id: str = field(default_factory=new_run_id)
    trace_id: str = field(default_factory=lambda: randomness.token_hex(16))
    """The trace of all its runs."""
    with_changes: bool = False
    """True to go on with a step also where the plan of its agent changed since the step began."""


class WorkflowResult(Struct, kw_only=True):
    """The end of a workflow, and what it used."""

    run: str
    step: WorkflowStep
    """The step that it came to."""
    termination: Termination
    """The reason for which the run of that step ended."""
    done: list[StepResult] = field(default_factory=list)
    """The steps that came to their end, in order."""
    pending: Pending | None = None
    """The action that the step waits for."""
    rounds: int = 0
    usage: Usage = Usage()
    cost: float | None = 0.0
    """In US dollars; None once an answer came whose price is not known."""
    uncertain: int = 0
    """The questions to a model that may have cost something though no answer came."""

    @property
    def text(self) -> str:
        """The last text of the last step, if the workflow came to its end."""
        if self.done and self.termination.is_planned:
            return self.done[-1].text
        return ""
