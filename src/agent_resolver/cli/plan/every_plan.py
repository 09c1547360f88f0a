"""The output of `agent plan --all`: a line for every agent, and how many have no plan."""

from collections.abc import Iterator

from msgspec import Struct

from agent_resolver.cli.errors import code_of
from agent_resolver.cli.output import out, out_json
from agent_resolver.runtime.agent_runtime import AgentRuntime
from agent_resolver.runtime.plan import ResolvedBackendAgent, ResolvedRunPlan
from agent_resolver.schema.errors import ResolverError


class PlanOutcome(Struct, frozen=True, kw_only=True, rename="camel"):
    """The outcome for one agent."""

    agent: str
    success: bool
    code: str | None = None
    """The code of the error, where it has no plan."""
    message: str | None = None
    model: str | None = None
    tools: int | None = None
    warnings: int = 0


def print_every_plan(runtime: AgentRuntime, *, is_json: bool) -> int:
    """Print what comes of every agent, and return 1 if one has no plan."""
    # All outcomes are gathered first: the counts of the JSON document come before its
    # list.
    found = list(_outcomes(runtime))
    refused = sum(not outcome.success for outcome in found)
    planned = len(found) - refused
    if is_json:
        out_json(
            {
                "success": not refused,
                "planned": planned,
                "refused": refused,
                "agents": found,
            }
        )
    else:
        for outcome in found:
            out(_render_outcome(outcome))
        counted = "1 agent" if len(found) == 1 else f"{len(found)} agents"
        out(f"{counted}: {planned} planned, {refused} refused")
    return 1 if refused else 0


def _outcomes(runtime: AgentRuntime) -> Iterator[PlanOutcome]:
    for agent_id in runtime.snapshot.agents.ids():
        try:
            # A dry run checks everything and builds no backend of a remote agent, since
            # none of them is going to run.
            yield _outcome_of(agent_id, runtime.resolve(agent_id, is_dry_run=True))
        except ResolverError as error:
            # Of many faults in one file the first says enough on one line.
            message = str(error).partition("\n")[0]
            yield PlanOutcome(
                agent=agent_id, success=False, code=code_of(error), message=message
            )


def _outcome_of(agent_id: str, plan: ResolvedRunPlan) -> PlanOutcome:
    found = plan.execution
    warnings = len(found.warnings)
    # A remote agent has a model and tools of its own, which are not known here.
    if isinstance(found, ResolvedBackendAgent):
        return PlanOutcome(agent=agent_id, success=True, warnings=warnings)
    return PlanOutcome(
        agent=agent_id,
        success=True,
        model=found.model.id,
        tools=len(found.tools),
        warnings=warnings,
    )


def _render_outcome(outcome: PlanOutcome) -> str:
    if not outcome.success:
        return f"✗ {outcome.agent}: {outcome.code}: {outcome.message}"
    facts = []
    if outcome.model is None:
        facts.append("runs elsewhere")
    else:
        facts += [
            outcome.model,
            "1 tool" if outcome.tools == 1 else f"{outcome.tools} tools",
        ]
    if outcome.warnings:
        facts.append(
            "1 warning" if outcome.warnings == 1 else f"{outcome.warnings} warnings"
        )
    return f"✓ {outcome.agent}: {', '.join(facts)}"
