"""How far a workflow has come, in its journal: for whom it goes on, and in which process."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_resolver.project import WorkflowRequest, begin_progress, take_up_progress
from agent_resolver.runtime import Journal, ResumeRequest, RunRefused, RunResult, RunState, Termination, Usage
from agent_resolver.schema import Caller, WorkflowStep, WorkflowSteps
from agent_resolver.storage import AesSeal, SqliteStore, SystemClock

STEP = WorkflowStep(number=1, heading="Plan", text="Plan it.", agent="analyst", line=1)
WORKFLOW = WorkflowSteps(title="", file="/nowhere/feature.md", digest="sha256-0", steps=(STEP,))
REQUEST = WorkflowRequest(prompt="Go", run_id="flow", trace_id="0" * 32)
STARTER = Caller(id="anna", is_verified=True, scopes=frozenset({"read", "write"}), roles=frozenset({"dev"}))
OTHER = Caller(id="bert", is_verified=True, scopes=frozenset({"read"}), roles=frozenset({"dev", "boss"}))
RAN = RunResult(
    run="flow.1",
    agent_id="analyst",
    plan="",
    termination=Termination(reason="natural_end"),
    text="Planned.",
    rounds=1,
    usage=Usage(10, 2),
    cost=0.0,
    state=RunState(run="flow.1", trace_id="0" * 32, agent_id="analyst", plan=""),
)


class Late:
    """A clock for leases that can be set forward."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Late:
    return Late()


@pytest.fixture
def journal(tmp_path: Path, clock: Late) -> Iterator[Journal]:
    store = SqliteStore(str(tmp_path / "state.db"))
    yield Journal(store, AesSeal(bytes(32)), SystemClock(), clock)
    store.close()


def test_another_caller_lets_it_go_on_with_the_rights_of_both(journal: Journal) -> None:
    async def go() -> Caller:
        begun = await begin_progress(journal, WORKFLOW, REQUEST, STARTER)
        await begun.release()
        _, progress = await take_up_progress(journal, ResumeRequest(run="flow"), OTHER)
        await progress.release()
        return progress.caller

    acting = asyncio.run(go())

    assert (acting.id, acting.via) == ("anna", "bert")
    assert (acting.scopes, acting.roles) == (frozenset({"read"}), frozenset({"dev"}))


def test_a_process_that_lost_the_workflow_begins_no_other_step(tmp_path: Path, journal: Journal, clock: Late) -> None:
    """It slept for longer than its lease; another process went on."""

    async def go() -> None:
        slept = await begin_progress(journal, WORKFLOW, REQUEST, STARTER)
        clock.now += 1_000.0
        store = SqliteStore(str(tmp_path / "state.db"))
        other = Journal(store, journal.seal, SystemClock(), clock)
        _, progress = await take_up_progress(other, ResumeRequest(run="flow"), STARTER)
        with pytest.raises(RunRefused, match="another process has taken workflow flow up, and goes on with it"):
            await slept.finish_step(RAN)
        await progress.finish_step(RAN)
        await progress.release()
        store.close()

    asyncio.run(go())

    folded = asyncio.run(journal.look_up("flow"))
    assert folded is not None
    assert [message.text for message in folded.state.messages] == ["Go", "Planned."]
