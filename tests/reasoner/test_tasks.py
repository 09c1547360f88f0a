"""Tasks as a whole: they wait for people, go on in other processes, end, and are ended."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.core.guardrail import GuardrailLimits
from agent_resolver.reasoner.errors import RefusedEnvironment, TaskRefused, TaskTaken, UnknownTask
from agent_resolver.reasoner.planner.offline import OfflinePlanner
from agent_resolver.reasoner.task_view import TaskView
from agent_resolver.reasoner.tasks import Tasks
from agent_resolver.registry import AnswerRefused
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.evidence import TaskEvidence
from agent_resolver.schema.golden_path import decode_state, encode_state
from agent_resolver.schema.planning import Drafted, PlanQuestion, PlanRequest
from agent_resolver.schema.state import PENDING, RUNS
from agent_resolver.storage.lease import lease_name
from tests.reasoner.plan import assigning, classified, closing, drafted, opening, plan
from tests.reasoner.task_home import LOCAL, Home, ScriptedPlanner, person

QUESTION = PlanQuestion(key="input.title", text="What is it about?")
ADA = person("ada")
EVE = person("eve", roles=frozenset({"approver"}))


class AskingPlanner(ScriptedPlanner):
    """Asks for the title until it is answered."""

    def __init__(self, blueprint: Any = None) -> None:
        super().__init__([classified()])
        self.blueprint = blueprint or plan()

    async def build(self, request: PlanRequest) -> Drafted:
        self.asked.append(("build", request))
        title = next((answer.words for answer in request.answers if answer.key == "input.title"), None)
        if title is None:
            return Drafted(questions=(QUESTION,))
        return drafted(self.blueprint, arguments={"title": title})


def home_in(folder: Path, planner: Any = None, **settings: Any) -> Home:
    tools = settings.pop("tools", (opening(), closing(), assigning()))
    return Home(folder, planner or ScriptedPlanner([classified()], [drafted()]), *tools, **settings)


def decisions(home: Home, view: TaskView) -> list[tuple[str, str]]:
    records = asyncio.run(home.store.read(lambda snapshot: list(snapshot.records(view.state.task_id))))
    return [(each.body["stage"], each.body["choice"]) for each in records if each.kind == "task.decided"]


def test_a_request_becomes_an_executed_plan(tmp_path: Path) -> None:
    home = home_in(tmp_path)

    view = asyncio.run(home.start("Open a ticket"))

    assert (view.status, view.state.stage) == ("done", "done")
    assert decisions(home, view) == [
        ("request_intake", "ACCEPTED"),
        ("context_bind", "BOUND"),
        ("tool_surface", "LOADED"),
        ("intent_classification", "BLUEPRINT"),
        ("builder", "DRAFT"),
        ("ops_audit", "CERTIFIED"),
        ("assembly", "INSTALLED"),
        ("execution", "DONE"),
    ]


def test_the_trail_has_each_decision_that_the_state_refers_to(tmp_path: Path) -> None:
    home = home_in(tmp_path)

    view = asyncio.run(home.start("Open a ticket"))

    records = asyncio.run(home.store.read(lambda snapshot: list(snapshot.records(view.state.task_id))))
    ids = [each.body["decision"] for each in records if each.kind == "task.decided"]
    assert tuple(ids) == view.state.reasoning_history
    assert len(set(ids)) == len(ids)


def test_one_trace_goes_from_the_request_to_the_last_call(tmp_path: Path) -> None:
    home = home_in(tmp_path)

    view = asyncio.run(home.start("Open a ticket", trace_id="ab" * 16))

    records = asyncio.run(home.store.read(lambda snapshot: list(snapshot.records())))
    assert view.state.trace_id == "ab" * 16
    assert {each.body.get("trace") for each in records} == {"ab" * 16}


def test_a_task_waits_for_an_answer_and_goes_on_with_it(tmp_path: Path) -> None:
    home = home_in(tmp_path, AskingPlanner())

    async def story() -> tuple[TaskView, TaskView]:
        waiting = await home.start("Open a ticket")
        await home.answer(waiting.actions[0].id, "Login fails")
        return waiting, await home.tasks.resume(waiting.state.task_id, LOCAL)

    waiting, done = asyncio.run(story())

    assert (waiting.status, waiting.row.code, waiting.row.stage) == ("waiting", "CLARIFICATION", "builder")
    assert waiting.row.waits_for == waiting.actions[0].id
    assert done.status == "done"
    assert home.executed is not None
    assert home.executed.calls == [{"title": "Login fails"}]


def test_a_task_goes_on_in_another_process(tmp_path: Path) -> None:
    home = home_in(tmp_path, AskingPlanner())

    async def first() -> TaskView:
        waiting = await home.start("Open a ticket")
        await home.answer(waiting.actions[0].id, "Login fails")
        return waiting

    waiting = asyncio.run(first())
    home.store.close()
    other = home_in(tmp_path, AskingPlanner())

    assert asyncio.run(other.tasks.resume(waiting.state.task_id, LOCAL)).status == "done"


def test_a_task_that_nobody_answered_stays_as_it_is(tmp_path: Path) -> None:
    home = home_in(tmp_path, AskingPlanner())

    async def story() -> tuple[TaskView, int, TaskView, int]:
        waiting = await home.start("Open a ticket")
        before = await home.store.read(lambda snapshot: len(list(snapshot.records())))
        again = await home.tasks.resume(waiting.state.task_id, LOCAL)
        return waiting, before, again, await home.store.read(lambda snapshot: len(list(snapshot.records())))

    waiting, before, again, after = asyncio.run(story())

    assert again.document() == waiting.document()
    assert before == after


def test_an_answer_that_does_not_fit_is_asked_for_again(tmp_path: Path) -> None:
    """A question that is asked a second time must not find the answer to the first."""
    question = PlanQuestion(key="choice.1", text="Which?", choices=("a", "b"))
    planner = ScriptedPlanner([classified(kind=None, tools=(), questions=(question,))])
    home = home_in(tmp_path, planner)

    async def story() -> tuple[TaskView, TaskView]:
        first = await home.start("Do it")
        await home.answer(first.actions[0].id, "c")
        return first, await home.tasks.resume(first.state.task_id, LOCAL)

    first, second = asyncio.run(story())

    assert second.actions[0].id != first.actions[0].id
    assert [action.resolved for action in second.state.pending_actions] == [True, False]


def test_the_offline_planner_takes_a_request_to_its_end(tmp_path: Path) -> None:
    home = home_in(tmp_path, OfflinePlanner())

    async def story() -> tuple[TaskView, TaskView]:
        waiting = await home.start("Open a ticket, then assign the ticket")
        for action in waiting.actions:
            await home.answer(action.id, "Login fails")
        return waiting, await home.tasks.resume(waiting.state.task_id, LOCAL)

    waiting, done = asyncio.run(story())

    assert [action.key for action in waiting.state.unresolved] == ["input.title"]
    assert done.status == "done", done.document()


# Guardrails -----------------------------------------------------------------------------------------------------------


def test_a_task_that_never_ends_is_halted_and_goes_on_with_a_higher_limit(tmp_path: Path) -> None:
    """A Builder that always breaks the same rule goes round until the guardrail, before LangGraph's own limit."""

    class Stubborn(ScriptedPlanner):
        async def build(self, request: PlanRequest) -> Drafted:
            self.asked.append(("build", request))
            number = len(self.asked)

            def change(document: dict[str, Any]) -> None:
                document["blueprint_metadata"]["version"] = f"1.0.{number}"
                del document["acceptance_tests"]

            return drafted(plan(change=change), applied=tuple(each.id for each in request.remedies))

    home = home_in(tmp_path, Stubborn([classified()]), limits=GuardrailLimits(max_iterations=25))

    async def story() -> tuple[TaskView, TaskView]:
        halted = await home.start("Open a ticket")
        more = home.tasks_with(structs.replace(home.ports, limits=GuardrailLimits(max_iterations=27)))
        return halted, await more.resume(halted.state.task_id, LOCAL)

    halted, again = asyncio.run(story())

    assert (halted.status, halted.row.code) == ("waiting", "MAX_ITERATIONS_EXCEEDED")
    assert halted.state.cycles == 25
    assert again.state.cycles == 27


def test_a_halted_task_stays_halted_under_the_same_limit(tmp_path: Path) -> None:
    home = home_in(tmp_path, limits=GuardrailLimits(max_iterations=1))

    async def story() -> TaskView:
        halted = await home.start("Open a ticket")
        return await home.tasks.resume(halted.state.task_id, LOCAL)

    again = asyncio.run(story())

    assert (again.status, again.row.code) == ("waiting", "MAX_ITERATIONS_EXCEEDED")


# Who may --------------------------------------------------------------------------------------------------------------


def test_prd_is_refused_without_an_issuer(tmp_path: Path) -> None:
    home = home_in(tmp_path)

    with pytest.raises(RefusedEnvironment):
        asyncio.run(home.start("Open a ticket", environment="prd"))

    assert not asyncio.run(home.store.read(lambda snapshot: snapshot.find(RUNS)))


def test_in_prd_the_plan_waits_for_a_second_person(tmp_path: Path) -> None:
    home = home_in(tmp_path, ScriptedPlanner([classified()], [drafted(plan(cost_center="CC-17"))]))

    async def story() -> tuple[TaskView, list[str], TaskView]:
        waiting = await home.start("Open a ticket", ADA, environment="prd")
        refused = []
        for caller in (ADA, person("mallory")):
            try:
                await home.approve(waiting.actions[0].id, caller)
            except AnswerRefused as error:
                refused.append(error.refusal.code.value)
        await home.approve(waiting.actions[0].id, EVE)
        return waiting, refused, await home.tasks.resume(waiting.state.task_id, ADA)

    waiting, refused, done = asyncio.run(story())

    assert [action.type for action in waiting.actions] == ["APPROVAL"]
    assert waiting.state.artifacts["plans.open_assign"].status == "AUDITED"
    assert refused == ["OWN_CALL", "MISSING_ROLE"]
    assert done.status == "done"


def test_another_person_can_neither_see_nor_resume_nor_cancel(tmp_path: Path) -> None:
    home = home_in(tmp_path, AskingPlanner(plan(cost_center="CC-17")))
    mallory = person("mallory")

    async def story() -> list[type[UnknownTask]]:
        waiting = await home.start("Open a ticket", ADA)
        task = waiting.state.task_id
        refused = []
        for attempt in (home.tasks.view, home.tasks.resume, home.tasks.cancel, home.tasks.export):
            try:
                await attempt(task, mallory)
            except UnknownTask as error:
                refused.append(type(error))
        return refused

    assert asyncio.run(story()) == [UnknownTask] * 4


def test_an_auditor_reads_every_task_and_changes_none(tmp_path: Path) -> None:
    home = home_in(tmp_path, AskingPlanner(plan(cost_center="CC-17")))
    auditor = person("olga", roles=frozenset({"auditor"}))

    async def story() -> TaskView:
        waiting = await home.start("Open a ticket", ADA)
        with pytest.raises(UnknownTask):
            await home.tasks.cancel(waiting.state.task_id, auditor)
        return await home.tasks.view(waiting.state.task_id, auditor)

    assert asyncio.run(story()).state.intent == "Open a ticket"


def test_a_worker_goes_on_with_the_rights_of_both(tmp_path: Path) -> None:
    home = home_in(tmp_path, AskingPlanner(plan(cost_center="CC-17")))
    worker = person("agent-worker", cost_center="")

    async def story() -> TaskView:
        waiting = await home.start("Open a ticket", ADA)
        await home.answer(waiting.actions[0].id, "Login fails", ADA)
        return await home.tasks.resume(waiting.state.task_id, worker, is_worker=True)

    done = asyncio.run(story())

    assert done.status == "done", done.document()
    records = asyncio.run(home.store.read(lambda snapshot: list(snapshot.records(done.state.task_id))))
    started = [each.body for each in records if each.kind == "call.started"]
    assert {(each["caller"], each["via"]) for each in started} == {("ada", "agent-worker")}


def test_only_a_fresh_token_brings_a_missing_claim(tmp_path: Path) -> None:
    home = home_in(tmp_path, ScriptedPlanner([classified()], [drafted(plan(cost_center="CC-17"))]))
    without = person("ada", division="", absent_claims=("division",))

    async def story() -> tuple[TaskView, TaskView, TaskView]:
        waiting = await home.start("Open a ticket", without)
        with pytest.raises(AnswerRefused):
            await home.answer(waiting.actions[0].id, "it", ADA)
        same = await home.tasks.resume(waiting.state.task_id, without)
        return waiting, same, await home.tasks.resume(waiting.state.task_id, ADA)

    waiting, same, done = asyncio.run(story())

    assert [action.type for action in waiting.actions] == ["CLARIFICATION"]
    assert same.status == "waiting"
    assert done.status == "done", done.document()
    assert done.state.initiator.division == "it"


# Ending ---------------------------------------------------------------------------------------------------------------


def test_a_waiting_task_can_be_cancelled_once(tmp_path: Path) -> None:
    home = home_in(tmp_path, AskingPlanner())

    async def story() -> tuple[TaskView, str]:
        waiting = await home.start("Open a ticket")
        task = waiting.state.task_id
        cancelled = await home.tasks.cancel(task, LOCAL)
        with pytest.raises(TaskRefused, match="has ended"):
            await home.tasks.resume(task, LOCAL)
        action = await home.store.read(lambda snapshot: snapshot.get(PENDING, waiting.actions[0].id))
        assert action is not None
        return cancelled, action.state("9999")

    cancelled, question = asyncio.run(story())

    assert cancelled.status == "cancelled"
    assert question == "expired", "nobody is asked any longer"


def test_a_task_that_runs_ends_before_its_next_stage(tmp_path: Path) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    class Slow(ScriptedPlanner):
        async def classify(self, request: PlanRequest) -> Any:
            started.set()
            await go_on.wait()
            return await super().classify(request)

    home = home_in(tmp_path, Slow([classified()], [drafted()]))

    async def story() -> tuple[str, TaskView]:
        running = asyncio.create_task(home.start("Open a ticket"))
        await started.wait()
        (row,) = await home.store.read(lambda snapshot: snapshot.find(RUNS))
        asked = await home.tasks.cancel(row.id, LOCAL)
        # The keeper of the lease looks once a second.
        await asyncio.sleep(1.5)
        go_on.set()
        return asked.row.status, await running

    asked, ended = asyncio.run(story())

    assert asked == "cancelling"
    assert ended.status == "cancelled"
    assert home.executed is None


def test_two_that_resume_one_task_do_not_both_run_it(tmp_path: Path) -> None:
    home = home_in(tmp_path, AskingPlanner())

    async def story() -> Any:
        waiting = await home.start("Open a ticket")
        await home.answer(waiting.actions[0].id, "Login fails")
        task = waiting.state.task_id
        other = home.tasks_with(home.ports)
        return await asyncio.gather(home.tasks.resume(task, LOCAL), other.resume(task, LOCAL), return_exceptions=True)

    found = asyncio.run(story())

    assert sorted(type(each).__name__ for each in found) in (["TaskTaken", "TaskView"], ["TaskRefused", "TaskView"])
    assert home.executed is not None
    assert len(home.executed.calls) == 1


def test_no_lease_is_left_behind(tmp_path: Path) -> None:
    home = home_in(tmp_path)

    async def story() -> Any:
        view = await home.start("Open a ticket")
        return await home.store.claim(lease_name(view.state.task_id), 1.0)

    assert asyncio.run(story()) is not None


def test_a_planner_that_breaks_leaves_a_task_that_can_go_on(tmp_path: Path) -> None:
    class Broken(ScriptedPlanner):
        async def build(self, _request: PlanRequest) -> Drafted:
            raise RuntimeError("out of order")

    home = home_in(tmp_path, Broken([classified()]))

    async def story() -> tuple[str, TaskView]:
        with pytest.raises(RuntimeError, match="out of order"):
            await home.start("Open a ticket")
        (row,) = await home.store.read(lambda snapshot: snapshot.find(RUNS))
        view = await home.tasks.view(row.id, LOCAL)
        mended = ScriptedPlanner([classified()], [drafted()])
        return view.status, await home.tasks_with(structs.replace(home.ports, planner=mended)).resume(row.id, LOCAL)

    status, done = asyncio.run(story())

    assert status == "interrupted"
    assert done.status == "done"


def test_a_failed_call_ends_the_task_with_its_code(tmp_path: Path) -> None:
    home = home_in(tmp_path, ScriptedPlanner([classified()], [drafted(arguments={"title": 7})]))

    view = asyncio.run(home.start("Open a ticket"))

    assert (view.status, view.row.code) == ("failed", "INPUT_VALIDATION_FAILED")


def test_what_is_exported_has_every_content_and_record(tmp_path: Path) -> None:
    home = home_in(tmp_path)

    async def story() -> TaskEvidence:
        view = await home.start("Open a ticket")
        return await home.tasks.export(view.state.task_id, LOCAL)

    evidence = asyncio.run(story())

    assert set(evidence.references.values()) == set(evidence.contents)
    assert evidence.records[0].kind == "run.started"


class RestlessTasks(Tasks):
    """Tasks that another process changes while they are looked at; so often, and then no more."""

    changes = 0

    async def view(self, task: str, caller: Caller) -> TaskView:
        found = await super().view(task, caller)
        self.changes -= 1
        return structs.replace(found, output=self.changes) if self.changes > 0 else found


def test_an_export_is_of_one_state_though_the_task_goes_on(tmp_path: Path) -> None:
    home = home_in(tmp_path)
    task = asyncio.run(home.start("Open a ticket")).state.task_id
    tasks = RestlessTasks(home.home())
    tasks.changes = 3

    evidence = asyncio.run(tasks.export(task, LOCAL))

    assert evidence == asyncio.run(home.tasks.export(task, LOCAL))
    tasks.changes = 100
    with pytest.raises(TaskTaken):
        asyncio.run(tasks.export(task, LOCAL))


def test_the_state_holds_references_and_no_contents(tmp_path: Path) -> None:
    home = home_in(tmp_path)

    view = asyncio.run(home.start("Open a ticket"))
    written = str(encode_state(view.state))

    assert "input_mapping" not in written
    assert decode_state(encode_state(view.state)) == view.state


def test_no_text_of_a_task_is_readable_in_the_file(tmp_path: Path) -> None:
    home = home_in(tmp_path, AskingPlanner())

    async def story() -> None:
        waiting = await home.start("Reset Xylophone at once")
        await home.answer(waiting.actions[0].id, "Quetzalcoatl")
        await home.tasks.resume(waiting.state.task_id, LOCAL)

    asyncio.run(story())
    home.store.close()

    content = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    assert b"Xylophone" not in content
