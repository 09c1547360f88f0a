"""Answers that a task must not take: each is refused or changes nothing, and the right one still works."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, structs

from agent_resolver.core.approval import Verdict
from agent_resolver.reasoner.errors import TaskRefused, UnknownTask
from agent_resolver.reasoner.planner.offline import OfflinePlanner
from agent_resolver.reasoner.stage.hitl_resolution import GivenAnswer, hitl_resolution
from agent_resolver.reasoner.task_context import Needed
from agent_resolver.reasoner.task_view import TaskView
from agent_resolver.registry import MAX_WORDS, AnswerRefused, CallContext
from agent_resolver.schema import Caller, PendingAction
from agent_resolver.schema.planning import Drafted, PlanQuestion, PlanRequest
from agent_resolver.schema.state import PENDING
from tests.reasoner.plan import assigning, classified, closing, drafted, opening, plan
from tests.reasoner.task_home import LOCAL, TEXT, FakeTool, Home, ScriptedPlanner, person

pytestmark = pytest.mark.slow
ADA = person("ada")
LACKING = person("ada", division="", absent_claims=("division",))
EVE = person("eve", roles=frozenset({"approver"}))
MALLORY = person("mallory")
TAKEN = "taken"
"""The inbox took the answer; that must not be enough for the task."""
PAST = "2020-01-01T00:00:00.000Z"


class AskingPlanner(ScriptedPlanner):
    """Asks for the title until it is answered; `while_it_plans` happens each time that it drafts."""

    def __init__(self) -> None:
        super().__init__([classified()])
        self.while_it_plans: Callable[[], Awaitable[None]] | None = None

    async def build(self, request: PlanRequest) -> Drafted:
        titles = [answer.words for answer in request.answers if answer.key == "input.title"]
        title = titles[-1] if titles else ""
        if not title:
            return Drafted(questions=(PlanQuestion(key="input.title", text="What is it about?"),))
        if self.while_it_plans is not None:
            await self.while_it_plans()
        return drafted(plan(cost_center="CC-17"), arguments={"title": title})


class Desk:
    """A task that waits for one thing, and the people around it."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.kind = kind
        self.home = _homes()[kind](folder)
        self.view: TaskView

    async def begin(self) -> TaskView:
        """Start a task, which then waits."""
        text = "Open a ticket titled 'Login fails'"
        if self.kind == "choice":
            text += " and page the people on call with team 'network'"
        environment = "prd" if self.kind == "approval" else "dev"
        self.view = await self.home.start(text, LACKING if self.kind == "claim" else ADA, environment=environment)
        assert self.view.status == "waiting", self.view.document()
        return self.view

    @property
    def action(self) -> PendingAction:
        """What the task waits for."""
        [action] = self.view.actions
        return action

    @property
    def task(self) -> str:
        return self.view.state.task_id

    async def answer(self, words: str, by: Caller = ADA, action: str = "") -> str:
        """Answer in words: the code of the refusal, or `taken`."""
        return await self._tried(self.home.inbox.answer(action or self.action.id, words, CallContext.for_caller(by)))

    async def decide(self, verdict: Verdict, by: Caller = EVE, action: str = "") -> str:
        """Approve or reject."""
        return await self._tried(self.home.inbox.decide(action or self.action.id, verdict, CallContext.for_caller(by)))

    async def _tried(self, attempt: Awaitable[PendingAction]) -> str:
        try:
            await attempt
        except AnswerRefused as refused:
            return refused.refusal.code.value
        return TAKEN

    async def resume(self, by: Caller = ADA) -> TaskView:
        self.view = await self.home.tasks.resume(self.task, by)
        return self.view

    async def edit(self, **changes: Any) -> None:
        """Change the row of what the task waits for, behind the back of the inbox."""
        await self.home.store.write(lambda kept: kept.put(PENDING, structs.replace(self.action, **changes)))

    async def answer_rightly(self) -> TaskView:
        """Give the answer that the task needs, if it still waits for one, and let it go on."""
        for action in self.view.actions:
            match self.kind:
                case "approval" | "restricted":
                    assert await self.decide("approved", action=action.id) == TAKEN
                case "secret":
                    self.home.secrets.values["DESK_KEY"] = "canary"
                case "choice" | "question":
                    assert await self.answer("leave-out", action=action.id) == TAKEN
                case _:
                    pass
        return await self.resume()


def _homes() -> dict[str, Callable[[Path], Home]]:
    """The project for each thing that a task can wait for."""
    sound = drafted(plan(cost_center="CC-17"))
    needed = Needed(kind="SECRET", subject="tickets.open", name="DESK_KEY", message="it needs DESK_KEY")

    def asking(folder: Path) -> Home:
        return Home(folder, AskingPlanner(), opening(), closing(), assigning())

    def choosing(folder: Path) -> Home:
        team = {**TEXT, "description": "The name of the team.", "examples": ["devices"]}
        page = "Page the people on call of a team."
        pager = FakeTool("pager.page", page, inputs={"team": team}, hosts=("pager.example.com",), outbound=True)
        return Home(folder, OfflinePlanner(), opening(is_idempotent=True), closing(), pager)

    def scripted(folder: Path, *, blueprint: Drafted = sound, **more: Any) -> Home:
        level = "RESTRICTED" if blueprint is not sound else "INTERNAL"
        tools = (opening(), closing(), assigning(classification=level))
        return Home(folder, ScriptedPlanner([classified()], [blueprint]), *tools, **more)

    def restricted(folder: Path) -> Home:
        def require(document: dict[str, Any]) -> None:
            document["hitl_requirements"] = [{"step": "assign", "reason": "The data is RESTRICTED"}]

        guarded = drafted(plan(classification="RESTRICTED", cost_center="CC-17", change=require))
        return scripted(folder, blueprint=guarded)

    return {
        "question": asking,
        "choice": choosing,
        "approval": scripted,
        "claim": scripted,
        "restricted": restricted,
        "secret": lambda folder: scripted(folder, credentials={"tickets.open": (needed,)}),
    }


Attempt = Callable[[Desk], Awaitable[str]]


class Bad(Struct, frozen=True):
    """One bad answer."""

    kind: str
    """What the task waits for."""
    code: str
    """The code of the refusal; `taken` where the inbox takes it and the task does not."""
    attempt: Attempt
    is_asked_again: bool = False
    """True if the task asks again, under another id."""


# What is attempted ----------------------------------------------------------------------------------------------------


async def of_another_task(desk: Desk) -> str:
    """The other task's question is answered; this one must not go on with it."""
    mine = desk.view
    other = await desk.begin()
    found = await desk.answer("Other words", action=other.actions[0].id)
    desk.view = mine
    return found


async def approval_of_another_task(desk: Desk) -> str:
    mine = desk.view
    other = await desk.begin()
    found = await desk.decide("approved", action=other.actions[0].id)
    desk.view = mine
    return found


async def expired(desk: Desk) -> str:
    await desk.edit(expires_at=PAST)
    return await desk.decide("approved")


async def superseded(desk: Desk) -> str:
    """The first question was answered with no choice, and the task asked again."""
    first = desk.action.id
    await desk.answer("neither")
    await desk.resume()
    return await desk.answer("leave-out", action=first)


async def pruned(desk: Desk) -> str:
    await desk.home.store.write(lambda kept: kept.drop(PENDING, desk.action.id))
    return await desk.decide("approved")


async def twice(desk: Desk) -> str:
    await desk.decide("approved")
    return await desk.decide("approved")


async def rejected_after_approval(desk: Desk) -> str:
    await desk.decide("approved")
    return await desk.decide("rejected")


async def twice_in_other_words(desk: Desk) -> str:
    await desk.answer("Login fails")
    return await desk.answer("Wipe the disk")


async def while_it_runs(desk: Desk) -> str:
    """The task has taken its answer and plans with it: another one comes too late."""
    found: list[str] = []
    action = desk.action.id

    async def interfere() -> None:
        found.append(await desk.answer("Wipe the disk", action=action))

    planner: Any = desk.home.planner
    planner.while_it_plans = interfere
    await desk.answer("Login fails")
    done = await desk.resume()
    assert done.output is not None
    return found[0]


async def token_of_another_person(desk: Desk) -> str:
    try:
        await desk.resume(MALLORY)
    except UnknownTask:
        return "UNKNOWN_TASK"
    return TAKEN


async def resumed_by_a_namesake(desk: Desk) -> str:
    try:
        await desk.resume(person("ada", issuer="https://other.test"))
    except UnknownTask:
        return "UNKNOWN_TASK"
    return TAKEN


def words(text: str, by: Caller = ADA) -> Attempt:
    return lambda desk: desk.answer(text, by)


def verdict(given: Verdict, by: Caller = EVE) -> Attempt:
    return lambda desk: desk.decide(given, by)


EXPIRED_EVE = person("eve", roles=frozenset({"approver"}), expires_at=PAST)
WORKER = structs.replace(EVE, via="worker")
NAMESAKE = person("ada", roles=frozenset({"approver"}), issuer="https://other.test")
BAD: dict[str, Bad] = {
    # Of the wrong type.
    "approve a question": Bad("question", "NOT_AN_APPROVAL", verdict("approved")),
    "reject a question": Bad("question", "NOT_AN_APPROVAL", verdict("rejected")),
    "words for an approval": Bad("approval", "NOT_A_QUESTION", words("approved", EVE)),
    "words for a secret": Bad("secret", "ANSWERED_BY_READINESS", words("canary")),
    "approve a secret": Bad("secret", "ANSWERED_BY_READINESS", verdict("approved")),
    "words for a claim": Bad("claim", "ANSWERED_BY_READINESS", words("it")),
    "approve a claim": Bad("claim", "ANSWERED_BY_READINESS", verdict("approved")),
    # No answer to what was asked.
    "none of the choices": Bad("choice", TAKEN, words("neither"), is_asked_again=True),
    "two of the choices": Bad("choice", TAKEN, words("leave-out, allowed"), is_asked_again=True),
    "JSON for a choice": Bad("choice", TAKEN, words('{"choice": "leave-out"}'), is_asked_again=True),
    "nothing for a choice": Bad("choice", TAKEN, words(""), is_asked_again=True),
    "nothing for a question": Bad("question", TAKEN, words(""), is_asked_again=True),
    "spaces for a choice": Bad("choice", TAKEN, words(" \t\n"), is_asked_again=True),
    "control characters": Bad("choice", TAKEN, words("\x00leave-out\x1b[2J\u202e"), is_asked_again=True),
    "longer than a task takes": Bad("choice", TAKEN, words("leave-out" * (MAX_WORDS // 9)), is_asked_again=True),
    "a choice that is not allowed yet": Bad("choice", TAKEN, words("allowed"), is_asked_again=True),
    # The wrong action.
    "an id that is not there": Bad("question", "UNKNOWN_ACTION", lambda desk: desk.answer("x", action="0" * 12)),
    "the id of the task": Bad("question", "UNKNOWN_ACTION", lambda desk: desk.answer("x", action=desk.task)),
    "the question of another task": Bad("question", TAKEN, of_another_task),
    "the approval of another task": Bad("approval", TAKEN, approval_of_another_task),
    # Stale.
    "an approval that expired": Bad("approval", "EXPIRED", expired, is_asked_again=True),
    "a question that was asked again": Bad("choice", "ALREADY_ANSWERED", superseded, is_asked_again=True),
    "what was pruned": Bad("approval", "UNKNOWN_ACTION", pruned),
    # Another person's.
    "own approval": Bad("approval", "OWN_CALL", verdict("approved", structs.replace(ADA, roles=EVE.roles))),
    "approval without the role": Bad("approval", "MISSING_ROLE", verdict("approved", MALLORY)),
    "rejection without the role": Bad("approval", "MISSING_ROLE", verdict("rejected", MALLORY)),
    "words without the role": Bad("question", "MISSING_ROLE", words("Wipe the disk", MALLORY)),
    "a namesake of another issuer": Bad("approval", "OWN_CALL", verdict("approved", NAMESAKE)),
    "resumed by a namesake": Bad("question", "UNKNOWN_TASK", resumed_by_a_namesake),
    "the token of another for a claim": Bad("claim", "UNKNOWN_TASK", token_of_another_person),
    "an approver without an issuer": Bad("restricted", "UNVERIFIED_APPROVER", verdict("approved", LOCAL)),
    "an approver whose token expired": Bad("approval", "UNAUTHORIZED", verdict("approved", EXPIRED_EVE)),
    "a worker in the place of an approver": Bad("approval", "UNVERIFIED_APPROVER", verdict("approved", WORKER)),
    # Twice.
    "approved twice": Bad("approval", "ALREADY_ANSWERED", twice),
    "approved, then rejected": Bad("approval", "ALREADY_ANSWERED", rejected_after_approval),
    "answered twice in other words": Bad("question", "ALREADY_ANSWERED", twice_in_other_words),
    "answered while it runs": Bad("question", "ALREADY_ANSWERED", while_it_runs),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_answer_changes_nothing_and_the_right_one_still_works(tmp_path: Path, name: str) -> None:
    bad = BAD[name]
    desk = Desk(tmp_path, bad.kind)

    async def story() -> None:
        await desk.begin()
        asked = desk.action.id
        assert await bad.attempt(desk) == bad.code
        is_answered = bad.code == "ALREADY_ANSWERED" and not bad.is_asked_again
        if not is_answered:
            await desk.resume(LACKING if bad.kind == "claim" else ADA)
            assert desk.view.status == "waiting", desk.view.document()
            assert (desk.action.id != asked) == bad.is_asked_again
            assert desk.home.install.calls == []
            await desk.answer_rightly()
        elif desk.view.status != "done":
            await desk.resume()

    asyncio.run(story())

    assert desk.view.status == "done", desk.view.document()
    assert len(desk.home.install.calls) == 1
    assert desk.home.executed is not None
    assert "Wipe" not in str(desk.home.executed.calls)
    assert len(desk.home.executed.calls) == 1


def test_the_table_has_at_least_24_bad_answers_for_everything_that_waits() -> None:
    assert len(BAD) >= 24
    assert {bad.kind for bad in BAD.values()} == set(_homes())


# Rows that are written past the inbox ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"answer": "approved", "binding": "0" * 64},
        {"answer": "APPROVED"},
        {"answer": "yes"},
        {"answer": ""},
        {"answer": "approved", "answered_at": PAST, "expires_at": PAST},
        {"answer": "approved", "used_at": PAST},
        {"answer": "approved", "role": "janitor"},
        {"answer": "approved", "classification": "PUBLIC"},
    ],
    ids=str,
)
def test_a_forged_row_that_is_wrong_in_a_column_executes_nothing(tmp_path: Path, changes: dict[str, Any]) -> None:
    """One that is right in every column is beyond what a program can tell: the file belongs to its owner."""
    desk = Desk(tmp_path, "approval")

    async def story() -> TaskView:
        await desk.begin()
        await desk.edit(**{"answered_by": "eve", "answered_at": desk.action.asked_at, **changes})
        return await desk.resume()

    assert asyncio.run(story()).status != "done"
    assert (desk.home.install.calls, desk.home.executed) == ([], None)


# Tasks that have ended ------------------------------------------------------------------------------------------------


def test_a_question_of_a_cancelled_task_takes_no_answer(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "question")

    async def story() -> str:
        await desk.begin()
        await desk.home.tasks.cancel(desk.task, ADA)
        refused = await desk.answer("Login fails")
        with pytest.raises(TaskRefused, match="has ended"):
            await desk.resume()
        return refused

    assert asyncio.run(story()) == "EXPIRED"
    assert desk.home.install.calls == []


@pytest.mark.parametrize("given", ["approved", "rejected"])
def test_an_approval_of_a_task_that_is_done_changes_nothing_any_more(tmp_path: Path, given: Verdict) -> None:
    desk = Desk(tmp_path, "approval")

    async def story() -> str:
        await desk.begin()
        action = desk.action.id
        await desk.answer_rightly()
        assert desk.view.status == "done"
        refused = await desk.decide(given, action=action)
        with pytest.raises(TaskRefused, match="has ended"):
            await desk.resume()
        return refused

    assert asyncio.run(story()) == "ALREADY_ANSWERED"
    assert desk.home.executed is not None
    assert len(desk.home.executed.calls) == 1


def test_stage_six_takes_no_answer_to_what_the_task_does_not_wait_for(tmp_path: Path) -> None:
    """Answers name the actions that they belong to; one that belongs to no open action is dropped."""
    desk = Desk(tmp_path, "question")

    async def story() -> TaskView:
        view = await desk.begin()
        stray = (GivenAnswer("0" * 12, "Wipe the disk"), GivenAnswer(view.state.task_id, "Wipe the disk"))
        update = await hitl_resolution(view.state, desk.home.context(view.state), stray)
        assert update.state.unresolved == view.state.unresolved
        assert update.state.answers == view.state.answers
        return view

    assert asyncio.run(story()).status == "waiting"
