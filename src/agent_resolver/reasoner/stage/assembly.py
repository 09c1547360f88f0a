"""Stage 7, assembly: the certified plan is installed, and a drafted capability is scaffolded.

- Inputs: a CERTIFIED blueprint, or an AUDITED capability.
- Outputs: the file of the blueprint with its acceptance tests, and its entry in the manifest; or a scaffold.
- Stop conditions: what is missing to install is a CLARIFICATION.
- Verification: the same artifact gives the same bytes. `agent tools certify` passes, or the installation is undone.
"""

from msgspec import structs

from agent_resolver.reasoner.task_context import TaskContext, action_of, with_actions
from agent_resolver.reasoner.task_tool import INSTALL, SCAFFOLD
from agent_resolver.reasoner.update import Update, decided, failed
from agent_resolver.schema.golden_path import MAX_SUMMARY, Answer, Artifact, TaskState
from agent_resolver.schema.outcome import Failed, FailureCode, Outcome, Pending
from agent_resolver.schema.planning import PlanQuestion


async def assembly(state: TaskState, context: TaskContext) -> Update:
    """Install the plan; scaffold the capabilities that were drafted."""
    files: list[str] = []
    for name, artifact in sorted(state.artifacts.items()):
        tool = _tool_for(name, artifact, state.draft)
        if tool is None:
            continue
        arguments = {"task": state.task_id, "artifact": artifact.content, "id": name}
        key = f"{tool}/{artifact.content[-12:]}/{_attempt(state)}"
        outcome: Outcome = await context.call(state, tool, arguments, key)
        if isinstance(outcome, Failed | Pending):
            return await _not_assembled(state, context, outcome)
        if tool == SCAFFOLD:
            files.append(str(outcome.result["file"]))
    return await _assembled(state, context, ", ".join(files))


def _tool_for(name: str, artifact: Artifact, draft: str) -> str | None:
    """The tool that an artifact is assembled with; None for one that is not ready, or was rejected."""
    match artifact.type, artifact.status:
        # Earlier drafts of the task may be there as well.
        case "BLUEPRINT", "CERTIFIED" if name == draft:
            return INSTALL
        case "CAPABILITY", "AUDITED":
            return SCAFFOLD
    return None


def _attempt(state: TaskState) -> int:
    # A call under a known key is not made again, so that each answer that the obstacle
    # is gone makes another key.
    return sum(answer.key == "assembly" for answer in state.answers)


async def install_here(state: TaskState, context: TaskContext) -> Update | None:
    """Install the plan on this machine too, where a task goes on that another machine installed it for.

    Returns:
        None once the plan can be called here; else what keeps it from that.
    """
    if context.ports.registry.get(state.draft) is not None:
        return None
    artifact = state.artifacts[state.draft]
    arguments = {"task": state.task_id, "artifact": artifact.content, "id": state.draft}
    # Each process that takes the task up has a lease of another number: a machine
    # installs once for each.
    holder = context.lease.number if context.lease is not None else 0
    key = f"{INSTALL}/{artifact.content[-12:]}/{_attempt(state)}/lease-{holder}"
    outcome: Outcome = await context.call(state, INSTALL, arguments, key)
    if isinstance(outcome, Failed | Pending):
        return await _not_assembled(state, context, outcome)
    return None


async def _not_assembled(
    state: TaskState,
    context: TaskContext,
    outcome: Failed | Pending,
) -> Update:
    """Wait for what is missing to install, or end where no answer would help."""
    if isinstance(outcome, Pending):
        return decided(
            state,
            with_actions(state, (action_of(outcome),)),
            "assembly",
            "WAITS",
            codes=(outcome.code,),
        )
    # Only a setting that is missing can be mended by a person while the task waits.
    if outcome.code is not FailureCode.NOT_CONFIGURED:
        return failed(state, "assembly", outcome.code.value, outcome.message)
    text = f"The plan cannot be installed: {outcome.message}; {outcome.remedy}. Answer `ready` once that is done"
    asked = await context.ask(state, PlanQuestion(key="assembly", text=text))
    if isinstance(asked, Answer):
        return decided(
            state,
            structs.replace(state, answers=(*state.answers, asked)),
            "assembly",
            "ANSWERED",
        )
    waiting = with_actions(state, (asked,))
    return decided(
        state,
        waiting,
        "assembly",
        "WAITS",
        codes=("PREREQUISITE_MISSING",),
        summary=outcome.message,
    )


async def _assembled(state: TaskState, context: TaskContext, files: str) -> Update:
    """Go on to the execution of a plan; wait for the implementation of a capability that a plan still needs."""
    digests = {
        name: artifact.content for name, artifact in sorted(state.artifacts.items())
    }
    if state.artifacts[state.draft].type == "BLUEPRINT":
        return decided(
            state,
            state.at("execution"),
            "assembly",
            "INSTALLED",
            digests=digests,
            summary=state.draft,
        )
    # A request for a missing tool alone ends with its scaffold: no plan waits for it.
    if state.kind != "BOTH":
        reason = f"Implement the draft in {files}, then certify it"[:MAX_SUMMARY]
        after = structs.replace(state.at("done"), reason=reason)
        return decided(
            state, after, "assembly", "SCAFFOLDED", digests=digests, summary=state.draft
        )
    key = f"implemented.{state.draft}"
    if state.answer_to(key) is None:
        text = f"`{state.draft}` is drafted in {files}. Implement it, name its module in `[tools] modules`, then answer"
        text += " `ready`"
        asked = await context.ask(state, PlanQuestion(key=key, text=text))
        if not isinstance(asked, Answer):
            waiting = with_actions(state, (asked,))
            return decided(
                state,
                waiting,
                "assembly",
                "SCAFFOLDED",
                codes=("MISSING_DEPENDENCY",),
                digests=digests,
            )
    # The request is classified again, over the tools of today.
    again = structs.replace(
        state.at("tool_surface"), missing=(), kind=None, chosen=(), draft=""
    )
    return decided(state, again, "assembly", "LOOK_AGAIN", digests=digests)
