"""Attacks on runs by callers: keys of other calls, runs of other callers, rights that a step lacks."""

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_resolver.engine import BlueprintRuns, BlueprintTool, RunView, UnknownRun, describe_blueprint
from agent_resolver.registry import AnswerRefused, CallContext, FailureCode, ToolFailure
from agent_resolver.schema import Caller, Done, Failed, Pending, PendingAction
from tests.engine.stage import Journaled, Stage, blueprint, run
from tests.engine.test_tool import ASK, SEAT, offer
from tests.engine.test_worker import Identity

EVE = Caller(id="eve", scopes=frozenset({"seat", "pay"}), clearance="RESTRICTED", is_verified=True)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = Stage(tmp_path)
    stage.add("shop.seat")
    stage.add("shop.pay")
    return stage


def test_a_key_of_a_run_that_waits_is_not_taken_for_other_arguments(stage: Stage) -> None:
    offer(stage, blueprint(SEAT, ASK, output="${steps.seat.n}"), "shop.book")

    async def story() -> None:
        await stage.engine.open()
        context = stage.context(key="k-1")
        waits = await stage.registry.call("shop.book", {"n": 7}, context)
        assert isinstance(waits, Pending)
        other = await stage.registry.call("shop.book", {"n": 8}, context)
        assert isinstance(other, Failed), other
        assert "key" in other.message

    run(story())
    assert len(stage.calls()) == 1


def test_an_input_that_is_too_large_is_refused_in_words(stage: Stage) -> None:
    offer(stage, blueprint(SEAT), "shop.book")

    async def story() -> None:
        await stage.engine.open()
        failed = await stage.registry.call("shop.book", {"n": "x" * 1_100_000}, stage.context())
        assert isinstance(failed, Failed)
        assert (failed.code, "1,000,000 bytes" in failed.message) == ("INPUT_VALIDATION_FAILED", True)
        assert await stage.engine.list() == ()

    run(story())


@pytest.mark.parametrize("key", [None, "k-1"])
def test_the_key_or_trace_of_another_caller_leads_to_a_run_of_its_own(stage: Stage, key: str | None) -> None:
    offer(stage, blueprint(SEAT, ASK, output="${steps.ask}"), "shop.book")

    async def story() -> None:
        await stage.engine.open()
        mine = await stage.registry.call("shop.book", {"n": 7}, stage.context(key=key))
        other = await stage.registry.call("shop.book", {"n": 7}, stage.context(EVE, key=key))
        assert isinstance(mine, Pending)
        assert isinstance(other, Pending)
        assert mine.id != other.id
        await stage.inbox.answer(mine.id, "mine", stage.context())
        still = await stage.registry.call("shop.book", {"n": 7}, stage.context(EVE, key=key))
        assert isinstance(still, Pending)
        done = await stage.registry.call("shop.book", {"n": 7}, stage.context(key=key))
        assert isinstance(done, Done), done

    run(story())


@pytest.mark.parametrize("caller", [EVE, Caller(id="ada", issuer="https://other.example")], ids=["eve", "issuer"])
def test_another_caller_can_neither_signal_nor_cancel_a_run(stage: Stage, caller: Caller) -> None:
    async def story() -> None:
        await stage.start(blueprint({"id": "wait", "wait": {"kind": "signal", "signal": "paid"}}))
        await stage.drain()
        with pytest.raises(UnknownRun):
            await stage.engine.signal("run-1", "paid", None, stage.context(caller))
        with pytest.raises(UnknownRun):
            await stage.engine.cancel("run-1", stage.context(caller))
        assert (await stage.waiting()).row.status == "waiting"

    run(story())


def test_a_run_id_of_another_caller_starts_nothing_and_changes_nothing(stage: Stage) -> None:
    async def story() -> None:
        await stage.start(blueprint(ASK))
        await stage.drain()
        before = await stage.waiting()
        assert not await stage.engine.start(blueprint(SEAT), {}, stage.context(EVE), "run-1")
        await stage.drain()
        assert await stage.waiting() == before

    run(story())
    assert stage.calls() == []


@pytest.mark.parametrize(
    ("rules", "code"),
    [({"required_scopes": ("admin",)}, "MISSING_SCOPE"), ({"classification": "RESTRICTED"}, "CLEARANCE_TOO_LOW")],
)
def test_a_caller_with_fewer_rights_than_a_late_step_starts_nothing(
    stage: Stage, rules: dict[str, Any], code: str
) -> None:
    stage.add("shop.admin", **rules)
    inner = blueprint({"id": "admin", "capability": "shop.admin"})
    offer(stage, inner, "shop.inner")
    offer(stage, blueprint(SEAT, {"id": "inner", "capability": "shop.inner"}), "shop.book")
    low = Caller(id="eve", scopes=frozenset({"seat"}), clearance="INTERNAL")

    async def story() -> None:
        await stage.engine.open()
        failed = await stage.registry.call("shop.book", {}, stage.context(low))
        assert isinstance(failed, Failed)
        assert failed.code == code
        # Around the blueprint's own rules, the step itself refuses.
        await stage.start(blueprint({"id": "inner", "capability": "shop.inner"}), caller=low)
        await stage.drain()
        assert (await stage.ended()).code == code

    run(story())
    assert stage.calls() == []


BOSS = Caller(id="boss", scopes=None, clearance="RESTRICTED", roles=frozenset({"approver"}))
"""Approves what others ask for."""
PAY = {"id": "pay", "capability": "shop.pay", "input_mapping": {"to": "${input.to}"}}
NEEDED = [{"step": "pay", "reason": "Money"}]


async def approve(stage: Stage, action: str, caller: Caller = BOSS) -> None:
    await stage.inbox.decide(action, "approved", stage.context(caller))


async def awaited(stage: Stage, run_id: str = "run-1") -> str:
    """The one thing that a run waits for."""
    [thing] = (await stage.waiting(run_id)).waits
    return thing.id


def test_an_approval_of_one_item_is_not_good_for_another(stage: Stage) -> None:
    fan = {**PAY, "for_each": {"items": "${input.to}"}, "input_mapping": {"to": "${item}"}}

    async def story() -> None:
        # Two items are alike: one question is about both of them, and its answer is good for one call.
        await stage.start(blueprint(fan, hitl_requirements=NEEDED), to=["a", "a", "b"])
        await stage.drain()
        await approve(stage, (await stage.waiting()).waits[0].id)
        await stage.drain()
        assert len((await stage.waiting()).waits) == 2

    run(story())
    assert len(stage.calls()) == 1


def test_an_approval_of_one_run_is_not_good_for_another(stage: Stage) -> None:
    async def story() -> None:
        plan = blueprint(PAY, hitl_requirements=NEEDED)
        for name in ("run-1", "run-2"):
            assert await stage.engine.start(plan, {"to": "a"}, stage.context(), name)
        await stage.drain()
        await approve(stage, await awaited(stage))
        await stage.drain()
        ended = [row.status for row in await stage.engine.list()]
        assert sorted(ended) == ["done", "waiting"]

    run(story())
    assert len(stage.calls()) == 1


def test_a_further_attempt_takes_a_further_approval(stage: Stage) -> None:
    async def fail(_: dict[str, Any], __: CallContext) -> Any:
        raise ToolFailure(FailureCode.TOOL_ERROR, "No")

    stage.add("shop.fail", fail)
    step = {**PAY, "capability": "shop.fail", "retry": {"max_attempts": 3, "first_delay_seconds": 0}}

    async def story() -> None:
        await stage.start(blueprint(step, hitl_requirements=NEEDED), to="a")
        await stage.drain()
        await approve(stage, await awaited(stage))
        await stage.drain()
        assert [thing.path for thing in (await stage.waiting()).waits] == ["pay#2"]

    run(story())
    assert stage.calls() == ["shop.fail pay"]


def test_an_approval_of_a_tool_is_not_good_for_its_changed_code(tmp_path: Path) -> None:
    def stage_with(code: str) -> Stage:
        stage = Stage(tmp_path)
        tool = Journaled("shop.pay", stage.effects)
        tool.descriptor = msgspec.structs.replace(tool.descriptor, code=code)
        stage.registry.add(tool)
        return stage

    before, after = stage_with("sha256-a"), stage_with("sha256-b")

    async def story() -> None:
        await before.start(blueprint(PAY, hitl_requirements=NEEDED), to="a")
        await before.drain()
        asked = await awaited(before)
        await approve(before, asked)
        await after.drain()
        assert await awaited(after) != asked

    run(story())
    assert after.calls() == []
    for stage in (before, after):
        stage.close()


def test_nobody_approves_a_step_of_their_own_run(stage: Stage) -> None:
    eve = Caller(id="eve", scopes=None, clearance="RESTRICTED", roles=frozenset({"approver"}), is_verified=True)

    async def story() -> None:
        await stage.start(blueprint(PAY, hitl_requirements=NEEDED), caller=eve, to="eve")
        await stage.drain()
        with pytest.raises(AnswerRefused):
            await approve(stage, await awaited(stage), eve)
        await stage.drain()
        assert (await stage.waiting()).row.status == "waiting"

    run(story())
    assert stage.calls() == []


def test_a_caller_without_the_role_cannot_answer_for_a_step(stage: Stage) -> None:
    async def story() -> None:
        await stage.start(blueprint(PAY, ASK, hitl_requirements=NEEDED), to="a")
        await stage.drain()
        with pytest.raises(AnswerRefused):
            await approve(stage, await awaited(stage), EVE)
        await approve(stage, await awaited(stage))
        await stage.drain()
        with pytest.raises(AnswerRefused):
            await stage.inbox.answer(await awaited(stage), "yes", stage.context(EVE))

    run(story())


def test_of_two_answers_at_once_one_counts(stage: Stage) -> None:
    async def story() -> None:
        await stage.start(blueprint(ASK, output="${steps.ask}"))
        await stage.drain()
        asked = await awaited(stage)
        answers = [stage.inbox.answer(asked, words, stage.context(BOSS)) for words in ("a", "b", "c")]
        found = await asyncio.gather(*answers, return_exceptions=True)
        [kept] = [each.answer for each in found if isinstance(each, PendingAction)]
        await stage.drain()
        assert (await stage.ended()).output == kept

    run(story())


def test_a_step_cannot_reach_a_tool_that_is_gone_or_forbidden_since_the_run_began(tmp_path: Path) -> None:
    before, after = Stage(tmp_path), Stage(tmp_path)
    before.add("shop.pay")

    async def story() -> None:
        await before.start(blueprint(ASK, PAY), to="a")
        await before.drain()
        await before.inbox.answer(await awaited(before), "yes", before.context(BOSS))
        await after.drain()
        assert (await after.ended()).code == "UNKNOWN_TOOL"

    run(story())
    assert after.calls() == []
    for stage in (before, after):
        stage.close()


def test_a_question_of_a_run_with_restricted_steps_is_not_for_its_own_caller(stage: Stage) -> None:
    stage.add("shop.wipe", classification="RESTRICTED")
    wipe = {"id": "wipe", "capability": "shop.wipe"}
    offer(stage, blueprint(SEAT, ASK, wipe), "shop.book")
    boss = msgspec.structs.replace(BOSS, is_verified=True)

    async def story() -> None:
        await stage.engine.open()
        first = await stage.registry.call("shop.book", {}, stage.context(key="k"))
        assert isinstance(first, Pending)
        await approve(stage, first.id, boss)
        asked = await stage.registry.call("shop.book", {}, stage.context(key="k"))
        assert isinstance(asked, Pending)
        assert asked.type == "CLARIFICATION"
        with pytest.raises(AnswerRefused):
            await stage.inbox.answer(asked.id, "yes", stage.context())
        await stage.inbox.answer(asked.id, "yes", stage.context(boss))

    run(story())


@pytest.mark.parametrize("is_expired", [False, True], ids=["token", "expired token"])
def test_a_worker_answers_no_restricted_question_of_a_run_that_it_drives(tmp_path: Path, *, is_expired: bool) -> None:
    robot = Caller(
        id="robot", scopes=None, clearance="RESTRICTED", roles=frozenset({"approver"}), is_verified=True, issuer="i"
    )
    starter = Caller(id="ada", scopes=None, clearance="RESTRICTED", is_verified=True, issuer="i")
    identity = Identity(robot)
    stage = Stage(tmp_path, identity=identity, only_verified=True)
    security = {"data_classification": "RESTRICTED"}

    async def story() -> None:
        expired = msgspec.structs.replace(starter, expires_at="2020-01-01T00:00:00.000Z" if is_expired else None)
        await stage.start(blueprint(ASK, security_logic=security), caller=expired)
        await stage.drain()
        with pytest.raises(AnswerRefused):
            await stage.inbox.answer(await awaited(stage), "yes", stage.context(robot))

    run(story())
    stage.close()


class SlowRuns(BlueprintRuns):
    """Runs that take long to look at, as those with large inputs do."""

    looks = 0

    async def query(self, run: str) -> RunView | None:
        self.looks += 1
        time.sleep(0.3)  # noqa: ASYNC251 - it holds up the loop, as the work of a large look does
        return await super().query(run)


@pytest.mark.slow
def test_looking_at_a_large_run_takes_little_of_the_time_that_the_run_has(stage: Stage) -> None:
    async def story() -> None:
        goes_on = asyncio.Event()

        async def stay(_: dict[str, Any], __: CallContext) -> Any:
            await goes_on.wait()

        stage.add("shop.stay", stay)
        plan = blueprint({"id": "stay", "capability": "shop.stay"})
        runs = SlowRuns(stage.journal)
        descriptor = describe_blueprint(plan, stage.registry.get, "file")
        stage.registry.add(BlueprintTool(plan, runs, stage.engine.finish, descriptor))
        await stage.engine.open()
        calling = asyncio.create_task(stage.registry.call(plan.id, {}, stage.context(key="k")))
        await asyncio.wait([calling], timeout=2.5)
        goes_on.set()
        assert isinstance(await calling, Done)
        assert runs.looks == 1

    run(story())
