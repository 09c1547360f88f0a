"""Stage 4, Builder: the draft.

- Inputs: the intent, the authorised tools, the context, the bounded knowledge, the remedies that Ops asks for.
- Outputs: a BLUEPRINT or CAPABILITY artifact with the status DRAFT.
- Stop conditions: missing inputs are CLARIFICATION actions, missing secrets SECRET actions, missing grants OAUTH
  actions; a guardrail.
- Verification: the draft follows the architect's format, and names authorised tools alone.
"""

from msgspec import structs

from agent_resolver.core.blueprint.tool_rule import calls_of
from agent_resolver.core.masking import MASK
from agent_resolver.core.ops.remedy import remedy_requests
from agent_resolver.reasoner.planning_step import (
    ask_all,
    plan_request,
    stopped_by_guardrail,
)
from agent_resolver.reasoner.task_context import Needed, TaskContext, with_actions
from agent_resolver.reasoner.task_tool import PREFIX
from agent_resolver.reasoner.update import Update, decided, failed
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.blueprint_file import encode_blueprint, read_blueprint
from agent_resolver.schema.golden_path import Artifact, TaskState
from agent_resolver.schema.issue import only_errors
from agent_resolver.schema.planning import (
    INPUT_KEY,
    REQUEST_KEY,
    CapabilityDraft,
    Drafted,
    Evaluation,
    RemedyRequest,
)


async def builder(state: TaskState, context: TaskContext) -> Update:
    """Draft the plan, or change a draft that Ops rejected; then ask for what the plan needs and lacks."""
    if _has_draft(state):
        # The draft only waited for credentials: it is not made again.
        return await _check_needs(state, state, context)
    if stopped := stopped_by_guardrail(state, context, "builder"):
        return stopped
    draft, remedies = await _rejected_draft(state, context)
    found = await context.ports.planner.build(
        await plan_request(state, context, draft, remedies)
    )
    counted = structs.replace(
        state,
        cycles=state.cycles + 1,
        tokens=state.tokens + found.tokens,
        # A draft that is changed later must find the same arguments.
        answers=(*state.answers, *found.readings),
    )
    # Checked before any question is asked: the answer would be kept in the inbox and in
    # the state of the task.
    if secret := _secret_asked_for(found, state, context):
        message = f"A tool takes the secret `{secret}` as an argument, and a secret is never typed into the inbox"
        return failed(counted, "builder", "SECRET_ARGUMENT", message)
    if found.questions:
        return await _ask(state, counted, context, found)
    if found.blueprint is None and not found.capabilities:
        return failed(
            counted,
            "builder",
            "NO_PLAN",
            "The Builder made neither a draft nor a question",
        )
    unapplied = [each.id for each in remedies if each.id not in found.applied]
    return await _keep_drafts(
        state, _without_answers(counted, unapplied), context, found
    )


def _has_draft(state: TaskState) -> bool:
    """True if a plan is drafted that Ops has not rejected."""
    kept = state.artifacts.get(state.draft)
    if kept is None or state.remedies:
        return False
    return kept.status == "DRAFT" and kept.type == "BLUEPRINT"


async def _ask(
    before: TaskState,
    state: TaskState,
    context: TaskContext,
    found: Drafted,
) -> Update:
    """Ask the questions of the planner."""
    is_reworded = any(question.key == REQUEST_KEY for question in found.questions)
    # A request in other words may take other tools, which only the classifier finds.
    asking = state.at("intent_classification") if is_reworded else state
    return await ask_all(
        before, asking, context, "builder", found.questions, codes=found.codes
    )


def _secret_asked_for(found: Drafted, state: TaskState, context: TaskContext) -> str:
    """The secret field of a tool that is asked for, or that a model found a value of; empty if there is none."""
    asked = _named_inputs(found)
    for tool in context.tools(state).values():
        hidden = context.ports.registry.secret_arguments_of(tool.id)
        for field in tool.input_schema.get("properties", {}):
            is_hidden = hidden.is_whole or hidden.mask({field: ""})[field] == MASK
            # Two tools with a field of one name have inputs such as `open_password` in
            # a plan.
            if is_hidden and any(
                name == field or name.endswith(f"_{field}") for name in asked
            ):
                return str(field)
    return ""


def _named_inputs(found: Drafted) -> list[str]:
    """The inputs of a plan that the planner asks for, or that a model found a value of."""
    keys = [question.key for question in found.questions]
    keys += [reading.key for reading in found.readings]
    return [key.removeprefix(INPUT_KEY) for key in keys if key.startswith(INPUT_KEY)]


async def _rejected_draft(
    state: TaskState, context: TaskContext
) -> tuple[Blueprint | None, tuple[RemedyRequest, ...]]:
    """The draft that Ops rejected, and the remedies that it asks for."""
    if not state.remedies:
        return None, ()
    artifacts = context.ports.artifacts
    draft = await artifacts.load(
        state.task_id, state.artifacts[state.draft].content, Blueprint
    )
    evaluation = await artifacts.load(
        state.task_id, state.artifacts[f"{state.draft}.eval"].content, Evaluation
    )
    wanted = [
        violation
        for violation in evaluation.violations
        if violation.id in state.remedies
    ]
    return draft, remedy_requests(wanted, remedy_answers(state))


def remedy_answers(state: TaskState) -> dict[str, str]:
    """Maps the ids of violations to the answers of people about them; the newest answer counts."""
    prefix = "remedy."
    found = [answer for answer in state.answers if answer.key.startswith(prefix)]
    return {answer.key.removeprefix(prefix): answer.words for answer in found}


def _without_answers(state: TaskState, unapplied: list[str]) -> TaskState:
    """The state after a draft to which some remedies could not be applied: people are asked about them, and again."""
    keys = {f"remedy.{violation}"[:200] for violation in unapplied}
    answers = tuple(answer for answer in state.answers if answer.key not in keys)
    return structs.replace(
        state, answers=answers, tried=tuple(dict.fromkeys((*state.tried, *unapplied)))
    )


async def _keep_drafts(
    before: TaskState,
    state: TaskState,
    context: TaskContext,
    found: Drafted,
) -> Update:
    """Keep what was drafted as artifacts, once it follows the format and names authorised tools alone."""
    drafts: dict[str, Artifact] = {}
    for capability in found.capabilities:
        drafts[capability.id] = await _capability_artifact(state, context, capability)
    blueprint = found.blueprint
    if blueprint is not None:
        # A planner may come from a plugin, so that its draft is checked like a file
        # from outside.
        if fault := _fault_of(blueprint, state, context):
            return failed(state, "builder", *fault)
        content = await context.ports.artifacts.keep(
            state.task_id, blueprint, context.lease
        )
        arguments = await context.ports.artifacts.keep(
            state.task_id, found.arguments, context.lease
        )
        metadata = blueprint.blueprint_metadata
        drafts[blueprint.id] = Artifact(
            type="BLUEPRINT",
            status="DRAFT",
            content=content,
            summary=metadata.description[:500],
        )
        level = context.ports.surface.describe(
            blueprint, context.tools(state)
        ).rules.classification
        state = structs.replace(state, arguments=arguments, classification=level)
    name = blueprint.id if blueprint is not None else next(iter(drafts))
    kept = structs.replace(
        state, artifacts={**state.artifacts, **drafts}, draft=name, remedies=()
    )
    return await _check_needs(before, kept, context, found.codes)


async def _capability_artifact(
    state: TaskState,
    context: TaskContext,
    draft: CapabilityDraft,
) -> Artifact:
    content = await context.ports.artifacts.keep(state.task_id, draft, context.lease)
    return Artifact(
        type="CAPABILITY",
        status="DRAFT",
        content=content,
        summary=draft.description[:500],
    )


def _fault_of(
    blueprint: Blueprint,
    state: TaskState,
    context: TaskContext,
) -> tuple[str, str] | None:
    """The code and the reason of a refused draft: a broken format, an unauthorised tool, or an id that is taken."""
    # Read back from its own bytes, as the installed file will be.
    reading = read_blueprint(encode_blueprint(blueprint), is_json=True)
    if errors := only_errors(reading.issues):
        return (
            "INVALID_DRAFT",
            f"The draft breaks the format of blueprints: {errors[0].message}",
        )
    if unknown := sorted(
        {call.tool for call in calls_of(blueprint)} - set(state.tools)
    ):
        return "UNAUTHORISED_TOOL", f"The draft names {', '.join(unknown)}"
    if blueprint.id.startswith(PREFIX) or _is_taken(blueprint, state, context):
        return "INVALID_DRAFT", f"There is another tool `{blueprint.id}` already"
    return None


def _is_taken(blueprint: Blueprint, state: TaskState, context: TaskContext) -> bool:
    """True if a tool has the id of a draft, and is not the very same blueprint, installed by an earlier task."""
    known = context.ports.registry.get(blueprint.id)
    return (
        known is not None
        and known.code
        != context.ports.surface.describe(blueprint, context.tools(state)).code
    )


async def _check_needs(
    before: TaskState,
    state: TaskState,
    context: TaskContext,
    planning: tuple[str, ...] = (),
) -> Update:
    """Wait for the secrets and grants that the plan needs and lacks; then Ops looks at it."""
    artifact = state.artifacts[state.draft]
    digests = {state.draft: artifact.content}
    if artifact.type == "BLUEPRINT":
        blueprint = await context.ports.artifacts.load(
            state.task_id, artifact.content, Blueprint
        )
        if actions := await context.lacking(
            state, _credentials(blueprint, state, context)
        ):
            waiting = with_actions(state, actions)
            codes = (*(action.type for action in actions), *planning)
            summary = "; ".join(action.message for action in actions)
            return decided(
                before,
                waiting,
                "builder",
                "WAITS",
                codes=codes,
                digests=digests,
                summary=summary,
            )
    return decided(
        before,
        state.at("ops_audit"),
        "builder",
        "DRAFT",
        codes=planning,
        digests=digests,
        summary=artifact.summary,
    )


def _credentials(
    blueprint: Blueprint,
    state: TaskState,
    context: TaskContext,
) -> tuple[Needed, ...]:
    tools = context.tools(state)
    called = dict.fromkeys(call.tool for call in calls_of(blueprint))
    needed = [
        context.ports.surface.credentials_of(tools[tool])
        for tool in called
        if tool in tools
    ]
    return tuple(each for several in needed for each in several)
