"""One test for each line of each stage's inputs, outputs, stop conditions and verification."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.core.guardrail import GuardrailLimits
from agent_resolver.reasoner.errors import TaskRefused
from agent_resolver.reasoner.stage.assembly import assembly
from agent_resolver.reasoner.stage.builder import builder
from agent_resolver.reasoner.stage.context_bind import context_bind
from agent_resolver.reasoner.stage.execution import execution
from agent_resolver.reasoner.stage.hitl_resolution import GivenAnswer, hitl_resolution
from agent_resolver.reasoner.stage.intent_classification import intent_classification
from agent_resolver.reasoner.stage.ops_audit import ops_audit
from agent_resolver.reasoner.stage.request_intake import first_state, request_intake
from agent_resolver.reasoner.stage.tool_surface import DRAFT_IT, LEAVE_OUT, missing_key, tool_surface
from agent_resolver.reasoner.task_context import Needed, TaskContext
from agent_resolver.reasoner.update import Update
from agent_resolver.registry import CallContext
from agent_resolver.schema import Caller
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.golden_context import Incident
from agent_resolver.schema.golden_path import Answer, Artifact, TaskAction, TaskState, checked
from agent_resolver.schema.planning import CapabilityDraft, Drafted, Evaluation, PlanQuestion
from tests.reasoner.plan import assigning, classified, closing, drafted, opening, plan
from tests.reasoner.task_home import LOCAL, FakeTool, Home, ScriptedPlanner, person, state_at

RunStage = Callable[[TaskState, TaskContext], Coroutine[Any, Any, Update]]
TOOLS = ("tickets.assign", "tickets.close", "tickets.open")


def home_in(folder: Path, planner: ScriptedPlanner | None = None, *more: FakeTool, **settings: Any) -> Home:
    tools = settings.pop("tools", (opening(), closing(), assigning()))
    return Home(folder, planner or ScriptedPlanner([classified()], [drafted()]), *tools, *more, **settings)


def run(home: Home, stage: RunStage, state: TaskState, caller: Any = None) -> Update:
    update = asyncio.run(stage(state, home.context(state, caller)))
    checked(update.state)
    assert update.state.reasoning_history[-1:] == tuple(record.id for record in update.records[-1:])
    return update


def kept(home: Home, state: TaskState, value: object) -> str:
    return asyncio.run(home.artifacts.keep(state.task_id, value))


def drafted_state(home: Home, blueprint: Blueprint | None = None, **more: Any) -> TaskState:
    """A state whose draft is ready for Ops."""
    state = state_at("ops_audit", tools=TOOLS)
    blueprint = blueprint or plan()
    artifact = Artifact(type="BLUEPRINT", status="DRAFT", content=kept(home, state, blueprint))
    arguments = kept(home, state, {"title": "Login fails"})
    known = {"draft": blueprint.id, "artifacts": {blueprint.id: artifact}, "arguments": arguments}
    return structs.replace(state, **{**known, **more})


# Stage 0 --------------------------------------------------------------------------------------------------------------


def test_intake_sets_the_intent_the_trace_and_the_active_task(tmp_path: Path) -> None:
    state = first_state(
        "  Open a ticket \n", task_id="t1", trace_id="a" * 32, environment="dev", caller=LOCAL, incident=Incident()
    )

    update = run(home_in(tmp_path), request_intake, state)

    assert update.state.intent == "Open a ticket"
    assert update.state.trace_id == "a" * 32
    assert update.state.active_task_id == "t1/context_bind"


def test_intake_never_stops(tmp_path: Path) -> None:
    assert not run(home_in(tmp_path), request_intake, state_at("request_intake", "")).state.pending_actions


def test_the_first_state_follows_its_schema() -> None:
    with pytest.raises(TaskRefused, match="4,000 characters"):
        first_state("x" * 4_001, task_id="t", trace_id="a" * 32, environment="dev", caller=LOCAL, incident=Incident())


def test_the_record_of_the_intake_has_no_word_of_the_request(tmp_path: Path) -> None:
    update = run(home_in(tmp_path), request_intake, state_at("request_intake", "Fire Bob"))

    assert "Bob" not in str(update.records)


# Stage 1 --------------------------------------------------------------------------------------------------------------


def test_each_missing_claim_becomes_a_clarification(tmp_path: Path) -> None:
    caller = person("ada", absent_claims=("division", "cost_center"), division="", cost_center="")

    update = run(home_in(tmp_path), context_bind, state_at("context_bind", caller=caller), caller)

    assert [action.type for action in update.state.unresolved] == ["CLARIFICATION", "CLARIFICATION"]
    assert "division" in update.state.unresolved[0].message
    assert update.state.stage == "context_bind"


def test_a_token_with_every_claim_binds(tmp_path: Path) -> None:
    caller = person("ada")

    update = run(home_in(tmp_path), context_bind, state_at("context_bind", caller=caller), caller)

    assert update.state.stage == "tool_surface"
    assert not update.state.pending_actions


def test_knowledge_beyond_the_budget_is_cut(tmp_path: Path) -> None:
    documents = {f"doc{number}.md": "ticket " * 2_000 for number in range(9)}
    home = home_in(tmp_path, documents=documents)

    update = run(home, context_bind, state_at("context_bind", "Open a ticket"))

    assert len(update.state.knowledge) <= 5
    assert update.records[0].codes == ("KNOWLEDGE_CUT",)
    assert "ticket ticket" not in str(update.state), "the state refers to snippets, and does not hold them"


def test_the_health_of_impacted_services_is_summed_up(tmp_path: Path) -> None:
    home = home_in(tmp_path, health={"mail": "down"})
    state = state_at("context_bind", incident=Incident(incident_id="INC-1", impacted_services=("mail",)))

    assert "mail" in run(home, context_bind, state).records[0].summary


def test_a_missing_grant_of_a_required_server_is_an_oauth_action(tmp_path: Path) -> None:
    needed = Needed(kind="OAUTH", subject="acme", name="ACME_SECRET", message="acme needs a grant")

    update = run(home_in(tmp_path, required=(needed,)), context_bind, state_at("context_bind"))

    assert [action.type for action in update.state.unresolved] == ["OAUTH"]


# Stage 2 --------------------------------------------------------------------------------------------------------------


def test_the_surface_has_the_authorised_tools_alone(tmp_path: Path) -> None:
    home = home_in(tmp_path, is_authorised=lambda tool: tool != "tickets.close")

    update = run(home, tool_surface, state_at("tool_surface"))

    assert update.state.tools == ("tickets.assign", "tickets.open")
    assert update.state.stage == "intent_classification"


def test_the_surface_has_no_tool_that_the_caller_may_not_use(tmp_path: Path) -> None:
    home = home_in(tmp_path, None, FakeTool("vault.open", "Open it.", required_scopes=("vault:admin",)))
    caller = person("ada")

    assert "vault.open" not in run(home, tool_surface, state_at("tool_surface", caller=caller), caller).state.tools


def test_the_same_tools_give_the_same_surface(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = run(home_in(tmp_path / "a"), tool_surface, state_at("tool_surface"))
    other = run(
        home_in(tmp_path / "b", tools=(assigning(), opening(), closing())), tool_surface, state_at("tool_surface")
    )

    assert one == other


def test_a_missing_tool_is_a_clarification(tmp_path: Path) -> None:
    state = state_at("tool_surface", missing=("brew coffee",), kind="CAPABILITY")

    update = run(home_in(tmp_path), tool_surface, state)

    (action,) = update.state.unresolved
    assert action.type == "CLARIFICATION"
    assert action.message.startswith("Missing dependency: ")
    assert "brew coffee" not in str(update.records), "the words of a request are no part of the trail"


@pytest.mark.parametrize(
    ("chosen", "answer", "stage", "kind"),
    [
        ((), DRAFT_IT, "builder", "CAPABILITY"),
        (("tickets.open",), "Draft it ", "builder", "BOTH"),
        (("tickets.open",), LEAVE_OUT, "builder", "BLUEPRINT"),
        (("tickets.open",), "leave-out", "builder", "BLUEPRINT"),
        (("tickets.open",), "draft-it", "builder", "BOTH"),
        (("tickets.open",), "installed", "intent_classification", None),
        ((), LEAVE_OUT, "intent_classification", None),
    ],
)
def test_only_the_answer_draft_it_lets_the_builder_draft(
    tmp_path: Path, chosen: tuple[str, ...], answer: str, stage: str, kind: str | None
) -> None:
    answers = (Answer(key=missing_key("brew coffee"), words=answer),)
    state = state_at("tool_surface", missing=("brew coffee",), kind="BOTH", chosen=chosen, answers=answers)

    update = run(home_in(tmp_path), tool_surface, state)

    assert (update.state.stage, update.state.kind) == (stage, kind)


# Stage 3 --------------------------------------------------------------------------------------------------------------


def test_the_classification_is_recorded_and_names_the_next_stage(tmp_path: Path) -> None:
    update = run(home_in(tmp_path), intent_classification, state_at("intent_classification", tools=TOOLS))

    assert update.records[0].choice == "BLUEPRINT"
    assert update.state.active_task_id == "t1/builder"
    assert update.state.cycles == 1


def test_an_ambiguous_intent_is_a_clarification(tmp_path: Path) -> None:
    question = PlanQuestion(key="choice.1", text="Which one?", choices=("tickets.open", "tickets.close"))
    planner = ScriptedPlanner([classified(kind=None, tools=(), questions=(question,))])

    update = run(home_in(tmp_path, planner), intent_classification, state_at("intent_classification", tools=TOOLS))

    (action,) = update.state.unresolved
    assert (action.type, action.key) == ("CLARIFICATION", "choice.1")
    assert update.state.stage == "intent_classification"


def test_what_is_missing_leads_back_to_the_surface(tmp_path: Path) -> None:
    planner = ScriptedPlanner([classified(kind="BOTH", missing=("brew coffee",))])

    update = run(home_in(tmp_path, planner), intent_classification, state_at("intent_classification", tools=TOOLS))

    assert update.state.stage == "tool_surface"
    assert update.state.missing == ("brew coffee",)


def test_a_classifier_that_names_another_tool_is_refused(tmp_path: Path) -> None:
    planner = ScriptedPlanner([classified(tools=("shell.run",))])

    update = run(home_in(tmp_path, planner), intent_classification, state_at("intent_classification", tools=TOOLS))

    assert update.state.stage == "failed"
    assert update.records[0].codes == ("UNAUTHORISED_TOOL",)


@pytest.mark.parametrize("stage", [intent_classification, builder])
def test_a_guardrail_stops_before_the_planner_is_asked(tmp_path: Path, stage: RunStage) -> None:
    planner = ScriptedPlanner([classified()], [drafted()])
    home = home_in(tmp_path, planner, limits=GuardrailLimits(max_iterations=3))

    update = run(home, stage, state_at("builder", tools=TOOLS, cycles=3))

    assert update.state.halted == "MAX_ITERATIONS_EXCEEDED"
    assert not planner.asked


def test_tokens_are_counted_as_they_are_reported(tmp_path: Path) -> None:
    planner = ScriptedPlanner([classified(tokens=70)])
    home = home_in(tmp_path, planner, limits=GuardrailLimits(token_limit=70))

    first = run(home, intent_classification, state_at("intent_classification", tools=TOOLS))
    second = run(home, builder, first.state)

    assert first.state.tokens == 70
    assert second.state.halted == "TOKEN_LIMIT_EXCEEDED"


# Stage 4 --------------------------------------------------------------------------------------------------------------


def test_the_builder_makes_a_draft_artifact(tmp_path: Path) -> None:
    home = home_in(tmp_path)

    update = run(home, builder, state_at("builder", tools=TOOLS))

    artifact = update.state.artifacts["plans.open_assign"]
    assert (artifact.type, artifact.status) == ("BLUEPRINT", "DRAFT")
    assert asyncio.run(home.artifacts.load("t1", artifact.content, Blueprint)) == plan()
    assert update.state.stage == "ops_audit"


def test_the_builder_is_given_intent_tools_context_and_knowledge(tmp_path: Path) -> None:
    planner = ScriptedPlanner([classified()], [drafted()])
    home = home_in(tmp_path, planner, documents={"a.md": "How to open a ticket."})
    bound = run(home, context_bind, state_at("context_bind", "Open a ticket")).state

    run(home, builder, structs.replace(bound.at("builder"), tools=TOOLS))

    (_, request) = planner.asked[0]
    assert request.intent == "Open a ticket"
    assert [tool.id for tool in request.tools] == list(TOOLS)
    assert request.context.app_id == "test"
    assert [snippet.source for snippet in request.snippets] == ["a.md"]


def test_a_missing_input_is_a_clarification(tmp_path: Path) -> None:
    question = PlanQuestion(key="input.title", text="What is it about?")
    planner = ScriptedPlanner([], [Drafted(questions=(question,))])

    update = run(home_in(tmp_path, planner), builder, state_at("builder", tools=TOOLS))

    assert [action.key for action in update.state.unresolved] == ["input.title"]


def test_a_request_that_the_builder_asks_for_again_goes_back_to_the_classifier(tmp_path: Path) -> None:
    question = PlanQuestion(key="request", text="What should be done?")
    planner = ScriptedPlanner([], [Drafted(questions=(question,))])

    update = run(home_in(tmp_path, planner), builder, state_at("builder", tools=TOOLS, chosen=TOOLS))

    assert [action.key for action in update.state.unresolved] == ["request"]
    assert update.state.active_task_id == "t1/intent_classification"


def test_nobody_is_asked_to_type_a_secret(tmp_path: Path) -> None:
    tool = FakeTool("vault.open", "Open it.", inputs={"password": {"type": "string", "description": "It."}})
    planner = ScriptedPlanner([], [Drafted(questions=(PlanQuestion(key="input.open_password", text="Which?"),))])

    update = run(home_in(tmp_path, planner, tool), builder, state_at("builder", tools=(*TOOLS, "vault.open")))

    assert update.records[0].codes == ("SECRET_ARGUMENT",)
    assert not update.state.pending_actions


def test_a_model_may_not_take_a_secret_from_the_words_of_a_request(tmp_path: Path) -> None:
    tool = FakeTool("vault.open", "Open it.", inputs={"password": {"type": "string", "description": "It."}})
    planner = ScriptedPlanner([], [Drafted(readings=(Answer(key="input.password", words="hunter2"),))])

    update = run(home_in(tmp_path, planner, tool), builder, state_at("builder", tools=(*TOOLS, "vault.open")))

    assert update.records[0].codes == ("SECRET_ARGUMENT",)
    assert "hunter2" not in update.records[0].summary


def test_what_a_model_read_in_the_request_is_kept_with_the_answers(tmp_path: Path) -> None:
    reading = Answer(key="input.title", words="the VPN")
    question = PlanQuestion(key="input.team", text="Which team?")
    codes = ("PLANNER_MODEL", "builder@1.0.0")
    planner = ScriptedPlanner([], [Drafted(questions=(question,), readings=(reading,), tokens=7, codes=codes)])

    update = run(home_in(tmp_path, planner), builder, state_at("builder", tools=TOOLS))

    assert (update.state.answers, update.state.tokens) == ((reading,), 7)
    assert update.records[0].codes == ("CLARIFICATION", *codes)


def test_a_planner_is_told_how_many_tokens_are_left(tmp_path: Path) -> None:
    planner = ScriptedPlanner([], [Drafted(questions=(PlanQuestion(key="input.title", text="What?"),))])
    limited = home_in(tmp_path, planner, limits=GuardrailLimits(token_limit=100))

    run(limited, builder, state_at("builder", tools=TOOLS, tokens=40))

    assert [request.tokens_left for _, request in planner.asked] == [60]


@pytest.mark.parametrize("kind", ["SECRET", "OAUTH"])
def test_a_missing_credential_of_the_plan_stops_it(tmp_path: Path, kind: Any) -> None:
    needed = Needed(kind=kind, subject="tickets.open", name="TICKETS_KEY", message="it needs TICKETS_KEY")
    planner = ScriptedPlanner([], [drafted()])
    home = home_in(tmp_path, planner, credentials={"tickets.open": (needed,)})

    waiting = run(home, builder, state_at("builder", tools=TOOLS)).state
    home.secrets.values["TICKETS_KEY"] = "hunter2"
    resolved = structs.replace(
        waiting, pending_actions=tuple(structs.replace(each, resolved=True) for each in waiting.pending_actions)
    )
    after = run(home, builder, resolved).state

    assert [action.type for action in waiting.unresolved] == [kind]
    assert after.stage == "ops_audit"
    assert len(planner.asked) == 1, "the draft is not made again"


def test_a_draft_that_names_another_tool_is_refused(tmp_path: Path) -> None:
    update = run(home_in(tmp_path), builder, state_at("builder", tools=("tickets.open", "tickets.close")))

    assert update.records[0].codes == ("UNAUTHORISED_TOOL",)
    assert update.state.stage == "failed"


def test_a_draft_that_breaks_the_format_is_refused(tmp_path: Path) -> None:
    broken = structs.replace(plan(), dag=structs.replace(plan().dag, steps=()))
    update = run(home_in(tmp_path, ScriptedPlanner([], [drafted(broken)])), builder, state_at("builder", tools=TOOLS))

    assert update.records[0].codes == ("INVALID_DRAFT",)


def test_the_cost_centre_of_the_caller_reaches_the_builder(tmp_path: Path) -> None:
    planner = ScriptedPlanner([], [drafted()])
    caller = person("ada")

    run(home_in(tmp_path, planner), builder, state_at("builder", tools=TOOLS, caller=caller), caller)

    assert planner.asked[0][1].context.cost_center == "CC-17"


# Stage 5 --------------------------------------------------------------------------------------------------------------


def test_a_sound_draft_is_certified(tmp_path: Path) -> None:
    home = home_in(tmp_path)

    update = run(home, ops_audit, drafted_state(home))

    assert update.state.artifacts["plans.open_assign"].status == "CERTIFIED"
    assert update.state.stage == "assembly"


def test_the_audit_is_kept_as_an_eval_artifact(tmp_path: Path) -> None:
    home = home_in(tmp_path)

    artifact = run(home, ops_audit, drafted_state(home)).state.artifacts["plans.open_assign.eval"]
    evaluation = asyncio.run(home.artifacts.load("t1", artifact.content, Evaluation))

    assert artifact.type == "EVAL"
    assert evaluation.outcome == "AUDITED"
    assert "OPS-EGR-001" in evaluation.rules
    assert [test.passed for test in evaluation.tests] == [True]


def test_a_draft_whose_acceptance_test_fails_is_not_certified(tmp_path: Path) -> None:
    def fail(document: dict[str, Any]) -> None:
        document["acceptance_tests"][0]["output"] = {"ticket_id": 2}

    home = home_in(tmp_path)

    update = run(home, ops_audit, drafted_state(home, plan(change=fail)))

    assert update.state.artifacts["plans.open_assign"].status == "REJECTED"
    assert "OPS-TST-001" in update.records[0].codes


def test_egress_that_is_not_listed_is_a_breakpoint(tmp_path: Path) -> None:
    """The seed's second metric: Ops stops where a plan would reach a host that nobody listed."""
    tools = (opening(), closing(), assigning(hosts=("pager.example.com",), outbound=True))
    home = home_in(tmp_path, tools=tools)

    update = run(home, ops_audit, drafted_state(home))

    assert update.state.artifacts["plans.open_assign"].status == "REJECTED"
    assert [action.type for action in update.state.unresolved] == ["CLARIFICATION"]
    assert "OPS-EGR-001" in update.records[0].codes
    assert "pager.example.com" in update.state.unresolved[0].message


def test_listed_egress_passes(tmp_path: Path) -> None:
    tools = (opening(), closing(), assigning(hosts=("pager.example.com",), outbound=True))
    home = home_in(tmp_path, tools=tools, egress=("*.example.com",))

    assert run(home, ops_audit, drafted_state(home)).state.stage == "assembly"


def test_what_the_builder_can_mend_returns_to_it_without_a_person(tmp_path: Path) -> None:
    def forget(document: dict[str, Any]) -> None:
        del document["acceptance_tests"]

    home = home_in(tmp_path)

    update = run(home, ops_audit, drafted_state(home, plan(change=forget)))

    assert update.state.stage == "builder"
    assert not update.state.unresolved
    assert [action.resolved for action in update.state.pending_actions] == [True], "one action for each remedy"
    assert update.state.remedies


def test_a_remedy_that_the_builder_could_not_apply_is_for_a_person(tmp_path: Path) -> None:
    def forget(document: dict[str, Any]) -> None:
        del document["acceptance_tests"]

    home = home_in(tmp_path, ScriptedPlanner([], [drafted(plan(change=forget))]))
    rejected = run(home, ops_audit, drafted_state(home, plan(change=forget))).state

    again = run(home, ops_audit, run(home, builder, rejected).state).state

    assert again.unresolved
    assert again.stage == "ops_audit"


def test_the_answer_leave_out_sends_the_draft_back(tmp_path: Path) -> None:
    tools = (opening(), closing(), assigning(hosts=("pager.example.com",), outbound=True))
    home = home_in(tmp_path, tools=tools)
    waiting = run(home, ops_audit, drafted_state(home)).state
    (action,) = waiting.unresolved
    answered = structs.replace(
        waiting,
        pending_actions=(structs.replace(action, resolved=True),),
        answers=(Answer(key=action.key, words="leave-out"),),
    )

    update = run(home, ops_audit, answered)

    assert update.state.stage == "builder"
    assert update.state.remedies == (action.key.removeprefix("remedy."),)


def restricted_home(folder: Path) -> Home:
    return home_in(folder, tools=(opening(), closing(), assigning(classification="RESTRICTED")))


def restricted_state(home: Home, caller: Caller) -> TaskState:
    restricted = plan(classification="RESTRICTED", cost_center="CC-17")
    return structs.replace(drafted_state(home, restricted), initiator=caller)


def test_a_restricted_plan_waits_for_an_approval(tmp_path: Path) -> None:
    home = restricted_home(tmp_path)
    caller = person("ada")
    state = restricted_state(home, caller)

    update = run(home, ops_audit, state, caller)

    assert [action.type for action in update.state.unresolved] == ["APPROVAL"]
    assert update.state.artifacts["plans.open_assign"].status == "AUDITED"
    assert update.records[0].codes == ("RESTRICTED_TOOL_REQUIRES_APPROVAL",)


def test_a_plan_in_prd_waits_for_an_approval(tmp_path: Path) -> None:
    home = home_in(tmp_path)
    caller = person("ada")
    state = structs.replace(drafted_state(home, plan(cost_center="CC-17")), initiator=caller, environment="prd")

    update = run(home, ops_audit, state, caller)

    assert [action.type for action in update.state.unresolved] == ["APPROVAL"]


def test_the_approval_of_the_plan_certifies_it_and_lets_the_very_call_pass(tmp_path: Path) -> None:
    home = restricted_home(tmp_path)
    caller = person("ada")
    state = restricted_state(home, caller)
    waiting = run(home, ops_audit, state, caller).state
    asyncio.run(home.approve(waiting.unresolved[0].id, person("eve", roles=frozenset({"approver"}))))
    resolved = structs.replace(
        waiting, pending_actions=tuple(structs.replace(each, resolved=True) for each in waiting.pending_actions)
    )

    certified = run(home, ops_audit, resolved, caller).state
    installed = run(home, assembly, certified, caller).state
    executed = run(home, execution, installed, caller).state

    assert certified.artifacts["plans.open_assign"].status == "CERTIFIED"
    assert executed.stage == "done", "one approval is enough: it was that of the very call"
    assert home.executed is not None
    assert home.executed.calls == [{"title": "Login fails"}]


def test_a_rejected_plan_ends_the_task(tmp_path: Path) -> None:
    home = restricted_home(tmp_path)
    caller = person("ada")
    state = restricted_state(home, caller)
    waiting = run(home, ops_audit, state, caller).state
    approver = CallContext.for_caller(person("eve", roles=frozenset({"approver"})))
    asyncio.run(home.inbox.decide(waiting.unresolved[0].id, "rejected", approver, "not today"))

    ended = run(home, ops_audit, structs.replace(waiting, pending_actions=()), caller).state

    assert ended.stage == "failed"
    assert ended.reason.startswith("APPROVAL_REJECTED")


# Stage 6 --------------------------------------------------------------------------------------------------------------


def resolve(home: Home, state: TaskState, *given: GivenAnswer) -> Update:
    return asyncio.run(hitl_resolution(state, home.context(state), given))


WAITING = (
    TaskAction(id="a1", type="CLARIFICATION", message="What?", key="input.title"),
    TaskAction(id="a2", type="APPROVAL", message="May it?"),
)


def test_an_answer_resolves_its_action_and_is_kept(tmp_path: Path) -> None:
    state = state_at("builder", pending_actions=WAITING[:1])

    update = resolve(home_in(tmp_path), state, GivenAnswer("a1", "Login fails"))

    assert not update.state.unresolved
    assert update.state.answer_to("input.title") == "Login fails"
    assert update.state.stage == "builder", "the stage that asked runs again"


def test_what_is_not_answered_keeps_the_task_waiting(tmp_path: Path) -> None:
    update = resolve(home_in(tmp_path), state_at("builder", pending_actions=WAITING), GivenAnswer("a1", "x"))

    assert [action.id for action in update.state.unresolved] == ["a2"]
    assert update.records[0].choice == "WAITS"


def test_the_record_of_an_answer_has_no_words(tmp_path: Path) -> None:
    update = resolve(home_in(tmp_path), state_at("builder", pending_actions=WAITING), GivenAnswer("a1", "s3cret"))

    assert "s3cret" not in str(update.records)


def test_an_answer_to_another_action_changes_nothing(tmp_path: Path) -> None:
    update = resolve(home_in(tmp_path), state_at("builder", pending_actions=WAITING), GivenAnswer("zz", "x"))

    assert len(update.state.unresolved) == 2
    assert not update.state.answers


def test_a_higher_limit_lets_a_halted_task_go_on(tmp_path: Path) -> None:
    halted = state_at("builder", halted="MAX_ITERATIONS_EXCEEDED", cycles=3)
    (tmp_path / "low").mkdir()
    (tmp_path / "high").mkdir()

    still = resolve(home_in(tmp_path / "low", limits=GuardrailLimits(max_iterations=3)), halted)
    free = resolve(home_in(tmp_path / "high", limits=GuardrailLimits(max_iterations=4)), halted)

    assert still.state.halted == "MAX_ITERATIONS_EXCEEDED"
    assert not free.state.halted


# Stage 7 and the execution --------------------------------------------------------------------------------------------


def certified_state(home: Home) -> TaskState:
    return run(home, ops_audit, drafted_state(home)).state


def test_assembly_installs_the_certified_plan(tmp_path: Path) -> None:
    home = home_in(tmp_path)
    certified = certified_state(home)

    update = run(home, assembly, certified)

    assert [call["id"] for call in home.install.calls] == ["plans.open_assign"]
    assert update.state.stage == "execution"


def test_assembly_installs_nothing_that_is_not_certified(tmp_path: Path) -> None:
    home = home_in(tmp_path)

    run(home, assembly, drafted_state(home))

    assert not home.install.calls


def test_assembly_scaffolds_a_capability_and_never_calls_it(tmp_path: Path) -> None:
    draft = CapabilityDraft(
        id="coffee.brew", description="Brew coffee.", input_schema={"type": "object"}, output_schema={"type": "object"}
    )
    home = home_in(tmp_path, ScriptedPlanner([], [Drafted(capabilities=(draft,))]))
    state = state_at("builder", tools=TOOLS, kind="CAPABILITY", missing=("brew coffee",))

    ended = run(home, assembly, run(home, ops_audit, run(home, builder, state).state).state).state

    assert [call["id"] for call in home.scaffold.calls] == ["coffee.brew"]
    assert ended.artifacts["coffee.brew"].status == "AUDITED"
    assert ended.stage == "done"
    assert home.registry.get("coffee.brew") is None


def test_execution_calls_the_plan_once_under_the_key_of_the_task(tmp_path: Path) -> None:
    home = home_in(tmp_path)
    installed = run(home, assembly, certified_state(home)).state

    first = run(home, execution, installed).state
    second = run(home, execution, installed).state

    assert first.stage == second.stage == "done"
    assert home.executed is not None
    assert len(home.executed.calls) == 1
