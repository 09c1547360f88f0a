"""From a request and the tools that were found for it to a draft, or to the questions that are still open."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from agent_resolver.core.shorten import shorten
from agent_resolver.reasoner.planner.capability_draft import draft_capabilities
from agent_resolver.reasoner.planner.classifier import (
    Routed,
    Routing,
    ToolManifest,
    route,
    words_of,
)
from agent_resolver.reasoner.planner.clause import Clause, StatedDetail, split_request
from agent_resolver.reasoner.planner.clause_match import Fit, judge
from agent_resolver.reasoner.planner.draft import (
    THEN,
    PlanWords,
    draft_blueprint,
    faults_of,
    without_extras,
)
from agent_resolver.reasoner.planner.plan_input import PlanInputs, collect_inputs
from agent_resolver.reasoner.planner.step_plan import (
    PlannedStep,
    StepPlan,
    ToolTask,
    plan_steps,
)
from agent_resolver.reasoner.planner.tool_profile import ToolProfile
from agent_resolver.reasoner.planner.value_use import (
    UnusedValue,
    is_repeated,
    unused_in,
    unused_question,
    without_possible,
)
from agent_resolver.reasoner.planner.word import split_words, stem
from agent_resolver.schema.planning import (
    INPUT_KEY,
    REQUEST_KEY,
    Drafted,
    PlanQuestion,
    PlanRequest,
)

_MAX_CHOSEN: Final = 50
_MAX_DESCRIPTION: Final = 400
_SLUG_WORDS: Final = 4
_PHRASE_WORDS: Final = 6
# What is missing is kept in a shortened form.
_SAME_START: Final = 200


class PlanLayout(Struct, frozen=True, kw_only=True):
    """The steps of a plan and its inputs, before a blueprint is made of them."""

    routing: Routing
    tasks: tuple[ToolTask, ...]
    steps: tuple[PlannedStep, ...]
    inputs: PlanInputs
    unused: tuple[UnusedValue, ...] = ()
    """The values of the request that neither a step takes nor an open input could be."""


def lay_out(request: PlanRequest, manifest: ToolManifest) -> PlanLayout | None:
    """The steps for a request; None while it is open which tools it takes."""
    routing = route(request, manifest)
    if _has_open_routing(request, routing):
        return None
    tasks = _tasks(request, routing, manifest)
    plan = plan_steps(tasks, manifest.profiles)
    inputs = collect_inputs(plan.steps, request.answers)
    unused = _unused(_Accounted(request, routing, tasks, plan), inputs, manifest)
    return PlanLayout(
        routing=routing,
        tasks=tuple(tasks),
        steps=plan.steps,
        inputs=inputs,
        unused=tuple(unused),
    )


def _has_open_routing(request: PlanRequest, routing: Routing) -> bool:
    return bool(routing.questions) and not request.chosen and not request.missing


def build_plan(request: PlanRequest, manifest: ToolManifest) -> Drafted:
    """Draft the plan of a request, and the tools that it lacks."""
    layout = lay_out(request, manifest)
    if layout is None:
        return Drafted(questions=route(request, manifest).questions)
    capabilities = draft_capabilities(request.missing, manifest)
    tasks = layout.tasks
    steps = layout.steps
    inputs = layout.inputs
    # No tool of the request is there yet, so that the drafts of the missing ones are
    # the whole answer.
    if not tasks:
        return Drafted(capabilities=capabilities)
    # A plan that drops a stated value would look complete to the person who approves
    # it.
    if layout.unused:
        return Drafted(
            questions=(
                PlanQuestion(key=REQUEST_KEY, text=unused_question(layout.unused)),
            )
        )
    if inputs.questions:
        return Drafted(questions=inputs.questions)
    words = plan_words(request, tasks, steps, manifest)
    blueprint = draft_blueprint(steps, inputs, words, manifest.tools)
    # A compensation is an extra that the planner found itself: one with a fault must
    # not cost the person the whole plan.
    if faults_of(blueprint, manifest.tools):
        blueprint = without_extras(blueprint)
    if faults := faults_of(blueprint, manifest.tools):
        text = f"No plan could be made that would run: {shorten(str(faults[0]), 300)}. What should be done instead?"
        return Drafted(questions=(PlanQuestion(key=REQUEST_KEY, text=text),))
    return Drafted(
        blueprint=blueprint, arguments=inputs.arguments, capabilities=capabilities
    )


# Tasks --------------------------------------------------------------------------------


def _tasks(
    request: PlanRequest,
    routing: Routing,
    manifest: ToolManifest,
) -> list[ToolTask]:
    """The tools with the clauses that ask for them; a tool that is not in the list is left out."""
    profiles = {profile.id: profile for profile in manifest.profiles}
    found = [(each.tool.id, each) for each in routing.routed if each.tool]
    known = [name for name in request.chosen if name in profiles]
    chosen = known[:_MAX_CHOSEN] or [name for name, _ in found]
    tasks = []
    for name in chosen:
        profile = profiles[name]
        routed = _take_first(found, name)
        clauses = (
            routed.clauses
            if routed is not None
            else _clauses_for(profile, request, routing, manifest)
        )
        tasks.append(_task(profile, clauses, routing, len(chosen)))
    return tasks


def _take_first(unused: list[tuple[str, Routed]], name: str) -> Routed | None:
    """The first unused part of the request for a tool, which is used then; None if no part asks for the tool."""
    found = next((pair for pair in unused if pair[0] == name), None)
    if found is None:
        return None
    # Each part of the request asks for one call: the same tool, chosen twice, takes the
    # next of its parts.
    unused.remove(found)
    return found[1]


def _clauses_for(
    profile: ToolProfile,
    request: PlanRequest,
    routing: Routing,
    manifest: ToolManifest,
) -> tuple[Clause, ...]:
    """The clauses that ask for a tool which another classifier chose; the whole request if none does."""
    judged = [(judge(clause, profile), clause) for clause in routing.split.clauses]
    best = max((fit for fit, _ in judged), default=Fit.NO)
    if best is not Fit.NO:
        return (next(clause for fit, clause in judged if fit is best),)
    # A model may choose a tool that no rule would: then all parts of the request may
    # state its values.
    return (
        routing.split.clauses
        or split_request(words_of(request), manifest.is_verb).clauses
    )


def _task(
    profile: ToolProfile,
    clauses: tuple[Clause, ...],
    routing: Routing,
    count: int,
) -> ToolTask:
    """A task with what is stated after its clauses, and elsewhere; a lone task has it all."""
    places = {
        place for place, clause in enumerate(routing.split.clauses) if clause in clauses
    }
    own: tuple[StatedDetail, ...] = tuple(
        detail
        for detail in routing.split.details
        if detail.after in places or count == 1
    )
    common = tuple(detail for detail in routing.split.details if detail not in own)
    return ToolTask(profile=profile, clauses=clauses, details=own, common=common)


# Values -------------------------------------------------------------------------------


class _Accounted(Struct, frozen=True):
    """A request with all that was made of it, to find what was not used."""

    request: PlanRequest
    routing: Routing
    tasks: list[ToolTask]
    plan: StepPlan


def _unused(
    made: _Accounted,
    inputs: PlanInputs,
    manifest: ToolManifest,
) -> list[UnusedValue]:
    """The values that no step takes, and that are not said in an answer or could be an input that is still open."""
    found = [
        *_unused_by_tasks(made, manifest),
        *_unused_details(made),
        *_unused_parts(made),
    ]
    answers = [
        answer.words.casefold()
        for answer in made.request.answers
        if answer.key.startswith(INPUT_KEY)
    ]
    # An answer can have the very value that the rules could not place.
    kept = [
        value
        for value in found
        if not any(value.text.casefold() in words for words in answers)
    ]
    return without_possible(kept, inputs.asked)


def _unused_by_tasks(made: _Accounted, manifest: ToolManifest) -> Iterator[UnusedValue]:
    """The values in the clauses of the tools that no tool takes."""
    tasks = zip(made.tasks, made.plan.words, strict=True)
    readers = {
        clause.source: (task.profile, words)
        for task, words in tasks
        for clause in task.clauses
    }
    for source, (profile, words) in readers.items():
        for value in unused_in(source, made.plan.used.get(source, ())):
            noun = stem(value.word)
            # "Ticket 6 and invoice 6": a noun that only another tool has names another
            # thing.
            is_other = manifest.relevance.knows(noun) and noun not in profile.weights
            if not is_repeated(value, words, is_other_thing=is_other):
                yield value


def _unused_details(made: _Accounted) -> Iterator[UnusedValue]:
    """The values in parts that only state values; those after something that is missing belong to that."""
    clauses = made.routing.split.clauses
    words = [word for each in made.plan.words for word in each]
    for detail in made.routing.split.details:
        is_of_missing = detail.after >= 0 and _is_missing(
            clauses[detail.after].text, made.request
        )
        if not is_of_missing:
            values = unused_in(detail.source, made.plan.used.get(detail.source, ()))
            yield from (
                value
                for value in values
                if not is_repeated(value, words, is_other_thing=False)
            )


def _unused_parts(made: _Accounted) -> Iterator[UnusedValue]:
    """The values of parts that neither have a tool nor are missing, as another classifier left them."""
    taken = {clause.source for task in made.tasks for clause in task.clauses}
    for part in made.routing.parts:
        for clause in part.clauses:
            if clause.source not in taken and not _is_missing(part.text, made.request):
                yield from unused_in(clause.source, ())


def _is_missing(text: str, request: PlanRequest) -> bool:
    """True if a part of the request is one of those that no tool does."""
    start = shorten(text, 2 * _SAME_START)[:_SAME_START]
    return any(
        start.startswith(words[:_SAME_START].removesuffix("…"))
        for words in request.missing
    )


# Words --------------------------------------------------------------------------------


def plan_words(
    request: PlanRequest,
    tasks: Sequence[ToolTask],
    steps: Sequence[PlannedStep],
    manifest: ToolManifest,
) -> PlanWords:
    """The id and description of a plan: the words of the request that its tools have too, and no others."""
    phrases = {task.profile.id: _phrase(task) for task in tasks}
    profiles = {profile.id: profile for profile in manifest.profiles}
    parts = []
    for step in steps:
        words = phrases.get(step.tool.id) or _phrase(
            ToolTask(profile=profiles[step.tool.id])
        )
        parts.append(f"{' '.join(words)} (`{step.tool.id}`)")
    text = THEN.join(parts)
    slug = "_".join(phrases[tasks[0].profile.id][:_SLUG_WORDS])
    return PlanWords(
        slug=slug or "plan",
        description=shorten(f"{text[:1].upper()}{text[1:]}.", _MAX_DESCRIPTION),
        cost_center=request.context.cost_center,
    )


def _phrase(task: ToolTask) -> list[str]:
    """A few words of the clauses of a task that its tool has too; those of its id if there are none."""
    known = {*task.profile.named, *task.profile.verbs}
    said = [word for clause in task.clauses for word in split_words(clause.source.mask)]
    # Ids of plans have ASCII letters alone.
    shared = [word for word in said if stem(word) in known and word.isascii()]
    verbs = [
        word
        for word in said
        if any(stem(word) == clause.verb for clause in task.clauses)
    ]
    # The verb is one of a known list, and so never a name.
    words = dict.fromkeys([*verbs[:1], *shared])
    return [*words][:_PHRASE_WORDS] or [
        word for word in split_words(task.profile.id) if word.isascii()
    ]
