"""Workers: several on one store, runs whose worker is lost, and an end that loses nothing."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.engine import MAX_ATTEMPTS, EngineBroken, EngineRefused, MemoryDriver, StepBody
from agent_resolver.engine.carrier import LeftToWorkers
from agent_resolver.schema import RUNS, Caller, ResolverError
from agent_resolver.storage import MemoryStore, RunFilter, list_runs
from tests.engine.stage import Stage, blueprint, run

RESERVE = {"id": "reserve", "capability": "shop.reserve", "compensation": {"capability": "shop.release"}}
PAY = {"id": "pay", "capability": "shop.pay"}
ISSUER = "https://login.example.com"
ADA = Caller(
    id="ada",
    is_verified=True,
    issuer=ISSUER,
    scopes=frozenset({"pay", "read"}),
    clearance="CONFIDENTIAL",
    expires_at="2026-03-01T12:05:00.000Z",
)
ROBOT = Caller(
    id="robot",
    is_verified=True,
    issuer=ISSUER,
    scopes=frozenset({"pay", "write"}),
    clearance="CONFIDENTIAL",
    expires_at="2026-03-01T18:00:00.000Z",
)


class Identity:
    """The identity of a worker, whose token can be missing."""

    def __init__(self, caller: Caller | None) -> None:
        self._caller = caller

    async def caller(self) -> Caller:
        if self._caller is None:
            raise ResolverError("The issuer gives no token")
        return self._caller


class Broken(MemoryDriver):
    """A driver whose process ends in the middle of each segment, as long as it is broken."""

    is_broken = True
    losses = 0
    """How many more of them it loses."""
    drives = 0

    async def drive(self, segment: str) -> None:
        self.drives += 1
        self.losses -= 1
        if self.is_broken or self.losses >= 0:
            raise RuntimeError("the process ends")
        await super().drive(segment)


def add_tools(stage: Stage, **rules: Any) -> None:
    for name in ("reserve", "release", "pay"):
        stage.add(f"shop.{name}", **rules)


def test_two_workers_share_the_runs_of_one_store(tmp_path: Path) -> None:
    stages = [Stage(tmp_path), Stage(tmp_path)]
    for stage in stages:
        add_tools(stage)

    async def story() -> None:
        for number in range(20):
            await stages[0].start(blueprint(RESERVE, PAY), f"run-{number}")
        for stage in stages:
            await stage.engine.open()
        working = [asyncio.create_task(stage.engine.worker.run()) for stage in stages]
        for number in range(20):
            found = await stages[0].engine.result(f"run-{number}", 20)
            assert getattr(found, "status", "") == "done"
        for stage in stages:
            stage.engine.worker.stop()
        await asyncio.gather(*working)

    run(story())
    assert sorted(stages[0].calls()) == sorted(["shop.reserve reserve", "shop.pay pay"] * 20)
    for stage in stages:
        stage.close()


@pytest.mark.parametrize("answer", ["retry", "give up"])
def test_a_run_that_ends_its_worker_every_time_is_set_aside(tmp_path: Path, answer: str) -> None:
    driver = Broken()
    stage = Stage(tmp_path, driver=driver)
    add_tools(stage)

    async def story() -> None:
        await stage.start(blueprint(RESERVE, PAY))
        await stage.drain()
        assert driver.drives == MAX_ATTEMPTS
        waiting = await stage.waiting()
        assert (waiting.row.status, waiting.row.code) == ("waiting", "WORKER_CRASHED")
        assert (await stage.kinds())[-1] == "run.aside"
        (action,) = await stage.inbox.list(stage.context())
        assert "give up" in action.message
        driver.is_broken = False
        await stage.inbox.answer(action.id, answer, stage.context())
        await stage.drain()
        ended = await stage.ended()
        expected = ("done", "") if answer == "retry" else ("failed", "WORKER_CRASHED")
        assert (ended.status, ended.code) == expected

    run(story())
    stage.close()


class WithoutFile(MemoryDriver):
    """A driver whose file cannot be used any more."""

    async def drive(self, segment: str) -> None:
        raise EngineBroken(f"{segment}.db", "disk full")


@pytest.mark.parametrize("is_drained", [False, True])
def test_a_worker_whose_engine_is_broken_ends_and_blames_no_run(tmp_path: Path, *, is_drained: bool) -> None:
    stage = Stage(tmp_path, driver=WithoutFile())
    add_tools(stage)

    async def story() -> None:
        for number in range(3):
            await stage.start(blueprint(RESERVE, PAY), f"run-{number}")
        await stage.engine.open()
        worker = stage.engine.worker
        with pytest.raises(EngineBroken, match="disk full"):
            await (worker.drain() if is_drained else worker.run())
        rows = await stage.engine.list()
        assert {row.code for row in rows} == {""}

    run(story())
    stage.close()
    # Another worker, whose engine works, goes on with all of them.
    other = Stage(tmp_path)
    add_tools(other)
    run(other.drain())
    assert len(other.calls()) == 6
    other.close()


def test_a_cancelled_run_whose_worker_is_lost_takes_back_all_the_same(tmp_path: Path) -> None:
    driver = Broken()
    driver.is_broken = False
    stage = Stage(tmp_path, driver=driver)
    add_tools(stage)
    wait = {"id": "wait", "wait": {"kind": "signal", "signal": "paid"}}

    async def story() -> None:
        await stage.start(blueprint(RESERVE, wait, PAY))
        await stage.drain()
        await stage.engine.cancel("run-1", stage.context())
        driver.losses = 2
        await stage.drain()
        ended = await stage.ended()
        assert (ended.status, ended.compensated) == ("cancelled", ("reserve",))

    run(story())
    assert stage.calls() == ["shop.reserve reserve", "shop.release compensate/reserve"]
    stage.close()


def test_a_run_that_is_set_aside_keeps_the_deadlines_of_its_waits(tmp_path: Path) -> None:
    driver = Broken()
    driver.is_broken = False
    stage = Stage(tmp_path, driver=driver)
    stage.add("shop.pay", needs_approval=True)
    steps = [
        {**PAY, "is_parallel": True},
        {"id": "wait", "is_parallel": True, "wait": {"kind": "signal", "signal": "paid", "timeout_seconds": 7200}},
    ]

    async def story() -> None:
        await stage.start(blueprint(*steps))
        await stage.drain()
        before = {thing.path: thing for thing in (await stage.waiting()).waits}
        stage.clock.forward(10)
        await stage.inbox.decide(before["pay"].id, "approved", stage.context())
        driver.losses = MAX_ATTEMPTS
        await stage.drain()
        question, still = (await stage.waiting()).waits
        assert (question.path, still) == ("", before["wait"])
        await stage.inbox.answer(question.id, "retry", stage.context())
        await stage.drain()
        assert (await stage.waiting()).waits == (before["wait"],)

    run(story())
    assert stage.calls() == ["shop.pay pay"]
    stage.close()


def test_a_run_that_comes_further_each_time_is_not_set_aside(tmp_path: Path) -> None:
    steps = [{"id": f"s{number}", "capability": "shop.pay"} for number in range(MAX_ATTEMPTS + 2)]
    effects = tmp_path / "effects.txt"

    class EndsAfterOne(MemoryDriver):
        """Its process ends once a step has had an effect."""

        before = 0

        async def _run_step(self, segment: str, name: str, body: StepBody) -> Any:
            count = len(effects.read_text().splitlines()) if effects.exists() else 0
            if count > self.before:
                self.before = count
                raise RuntimeError("the process ends")
            return await super()._run_step(segment, name, body)

    stage = Stage(tmp_path, driver=EndsAfterOne())
    add_tools(stage)

    async def story() -> None:
        await stage.start(blueprint(*steps))
        await stage.drain()
        assert (await stage.ended()).status == "done"

    run(story())
    # What the ledger knows is not done again.
    assert len(stage.calls()) == len(steps)
    stage.close()


def test_a_stopped_worker_finishes_its_calls_and_hands_its_runs_on(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    begun, go_on = stage.add_held("shop.slow")
    stage.add("shop.pay")

    async def story() -> None:
        await stage.engine.open()
        working = asyncio.create_task(stage.engine.worker.run())
        await stage.start(blueprint({"id": "slow", "capability": "shop.slow"}, PAY))
        await begun.wait()
        stage.engine.worker.stop()
        go_on.set()
        await working
        assert stage.calls() == ["shop.slow slow"]
        (listed,) = await list_runs(stage.store, 0.0, RunFilter())
        assert listed.status == "waiting"

    run(story())
    other = Stage(tmp_path)
    other.add("shop.slow")
    other.add("shop.pay")

    async def go() -> None:
        await other.drain()
        assert (await other.ended()).status == "done"

    run(go())
    assert other.calls() == ["shop.slow slow", "shop.pay pay"]
    other.close()
    stage.close()


def test_a_worker_acts_for_a_starter_whose_token_has_expired(tmp_path: Path) -> None:
    stage = Stage(tmp_path, identity=Identity(ROBOT), only_verified=True)
    add_tools(stage, required_scopes=("pay",))

    async def story() -> None:
        await stage.start(blueprint(PAY), caller=ADA)
        stage.clock.forward(60)
        await stage.drain()
        assert (await stage.ended()).status == "done"
        records = await stage.store.read(lambda snapshot: list(snapshot.records()))
        called = next(record.body for record in records if record.kind == "call.started")
        assert (called["caller"], called["via"]) == ("ada", "robot")
        ended = next(record.body for record in records if record.kind == "run.ended")
        assert (ended["caller"], ended["via"]) == ("ada", "robot")

    run(story())
    stage.close()


def test_a_worker_stands_in_once_the_token_of_a_starter_has_expired(tmp_path: Path) -> None:
    stage = Stage(tmp_path, stand_in=Identity(ROBOT), only_verified=True)
    add_tools(stage, required_scopes=("pay",))

    async def story() -> None:
        await stage.start(blueprint(PAY), "run-1", caller=ADA)
        await stage.drain()
        await stage.start(blueprint(PAY), "run-2", caller=ADA)
        stage.clock.forward(60)
        await stage.drain()
        records = await stage.store.read(lambda snapshot: list(snapshot.records()))
        ended = [record.body for record in records if record.kind == "run.ended"]
        assert [(body["caller"], body.get("via")) for body in ended] == [("ada", None), ("ada", "robot")]

    run(story())
    assert stage.calls() == ["shop.pay pay", "shop.pay pay"]
    stage.close()


@pytest.mark.parametrize("scope", ["read", "write"], ids=["the worker lacks it", "the starter lacks it"])
def test_a_run_has_no_right_that_starter_or_worker_lacks(tmp_path: Path, scope: str) -> None:
    stage = Stage(tmp_path, identity=Identity(ROBOT), only_verified=True)
    add_tools(stage, required_scopes=(scope,))

    async def story() -> None:
        await stage.start(blueprint(PAY), caller=ADA)
        await stage.drain()
        assert (await stage.ended()).code == "MISSING_SCOPE"

    run(story())
    assert stage.calls() == []
    stage.close()


@pytest.mark.parametrize("identity", [None, Identity(None)], ids=["no identity", "no token"])
def test_a_run_that_no_identity_can_act_for_is_set_aside(tmp_path: Path, identity: Identity | None) -> None:
    stage = Stage(tmp_path, identity=identity, only_verified=True)
    add_tools(stage)

    async def story() -> None:
        await stage.start(blueprint(PAY), caller=ADA)
        stage.clock.forward(60)
        await stage.drain()
        waiting = await stage.waiting()
        assert (waiting.row.status, waiting.row.code) == ("waiting", "NO_IDENTITY")

    run(story())
    assert stage.calls() == []
    stage.close()


def test_a_call_that_another_process_makes_is_waited_for(tmp_path: Path) -> None:
    """A process that was presumed dead still runs its call: the run takes that outcome."""
    stage = Stage(tmp_path)
    begun, go_on = stage.add_held("shop.slow", is_idempotent=False)

    async def story() -> None:
        context = stage.context(key="run-1/slow")
        first = asyncio.create_task(stage.registry.call("shop.slow", {}, context))
        await begun.wait()
        plan = blueprint({"id": "slow", "capability": "shop.slow"}, output="${steps.slow}")
        caller = context.caller
        await stage.start(plan, caller=caller)
        driving = asyncio.create_task(stage.drain())
        await asyncio.sleep(0.05)
        go_on.set()
        await asyncio.gather(first, driving)
        assert (await stage.ended()).output == {}

    run(story())
    assert len(stage.calls()) == 1
    stage.close()


def test_many_runs_are_kept_as_rows_alone(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def story() -> None:
        plan = blueprint({"id": "ask", "wait": {"kind": "signal", "signal": "paid"}})
        for number in range(50):
            await stage.start(plan, f"run-{number}")
        await stage.drain()
        rows = await stage.store.read(lambda snapshot: snapshot.find(RUNS, {"status": "waiting"}))
        assert len(rows) == 50
        assert stage.engine.worker.count == 0

    run(story())
    stage.close()


class _BrokenCarrier(LeftToWorkers):
    """A carrier that can carry no run now."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.attempts = 0

    async def carry(self, run: str) -> bool:
        self.attempts += 1
        raise EngineRefused(f"{run} is not taken")

    async def settle(self) -> None:
        """Nothing runs here."""


def test_a_run_that_cannot_be_carried_is_not_tried_again_and_again(tmp_path: Path) -> None:
    """It stays due. The operator hears of it, and the worker goes on with others."""

    async def story() -> tuple[int, list[str]]:
        carrier = _BrokenCarrier()
        stage = Stage(tmp_path, driver=carrier)
        heard: list[str] = []
        stage.engine.worker.report = lambda run, problem: heard.append(f"{run}: {problem}")
        await stage.start(blueprint(PAY))
        working = asyncio.create_task(stage.engine.worker.run())
        while not heard:  # noqa: ASYNC110 - it is about the worker
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        stage.engine.worker.stop()
        await working
        stage.close()
        return carrier.attempts, heard

    assert asyncio.run(story()) == (1, ["run-1: run-1 is not taken"])
