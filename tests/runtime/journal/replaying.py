"""Replays runs on a stage on which nothing may act."""

from collections.abc import Mapping
from typing import Any, Never

from agent_resolver.registry import CallContext
from agent_resolver.runtime import ChatRequest, Replay, ResolvedRunPlan, read_recording, replay_run
from agent_resolver.schema import Descriptor
from agent_resolver.storage import AesSeal, Store
from tests.runtime.journal.lasting import KEY, CountingModel, Stage


class Untouchable:
    """A tool that no replay may call."""

    def __init__(self, descriptor: Descriptor) -> None:
        self.descriptor = descriptor

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Never:
        raise AssertionError(f"a replay called {self.descriptor.id} with {arguments} in run {context.run}")


def forbidden_answer(request: ChatRequest) -> Never:
    raise AssertionError(f"a replay asked {request.model}")


def later_stage(
    store: Store,
    tools: list[Any],
    agents: Mapping[str, Mapping[str, Any]] | None = None,
    plugins: tuple[Any, ...] = (),
) -> Stage:
    """The same agents in another process, where no model and no tool may be touched."""
    untouchable = [Untouchable(tool.descriptor) for tool in tools]
    return Stage(store, CountingModel(forbidden_answer), untouchable, agents, plugins)


async def replay_now(stage: Stage, run: str = "r", plan: ResolvedRunPlan | None = None) -> Replay:
    recording = await stage.store.read(lambda snapshot: read_recording(snapshot, run, AesSeal(KEY)))
    plan = plan or stage.runtime.resolve(recording.row.agent, is_dry_run=True)
    replay = await replay_run(recording, plan)
    assert stage.model.asked == []
    return replay
