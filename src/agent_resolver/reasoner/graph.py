"""The graph of a task: it wires the stages, and decides nothing itself.

Each stage is a node. A stage that asks people something leads to the gate, the one node that interrupts; behind it
stage 6 takes the answers, and the stage that asked runs again. What runs next is read from the state alone, so that a
process that takes a task up goes on as the one before would have.
"""

from functools import cache
from typing import Annotated, Any, Final, TypedDict

import msgspec
from langgraph.channels import Topic
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from agent_resolver.reasoner.stage.assembly import assembly
from agent_resolver.reasoner.stage.builder import builder
from agent_resolver.reasoner.stage.context_bind import context_bind
from agent_resolver.reasoner.stage.execution import execution
from agent_resolver.reasoner.stage.hitl_resolution import GivenAnswer, hitl_resolution
from agent_resolver.reasoner.stage.intent_classification import intent_classification
from agent_resolver.reasoner.stage.ops_audit import ops_audit
from agent_resolver.reasoner.stage.request_intake import request_intake
from agent_resolver.reasoner.stage.tool_surface import tool_surface
from agent_resolver.reasoner.stage_watch import RunStage, StageWatch
from agent_resolver.reasoner.task_context import TaskContext
from agent_resolver.reasoner.update import Update
from agent_resolver.schema.golden_path import (
    MAX_ANSWER,
    Stage,
    TaskState,
    decode_state,
    encode_state,
)

GATE: Final = "gate"
RESOLUTION: Final = "hitl_resolution"
_NODES_IN_A_CYCLE: Final = 8
"""More nodes than one cycle of the planner runs through, with its gates."""

STAGES: Final[dict[Stage, RunStage]] = {
    "request_intake": request_intake,
    "context_bind": context_bind,
    "tool_surface": tool_surface,
    "intent_classification": intent_classification,
    "builder": builder,
    "ops_audit": ops_audit,
    "assembly": assembly,
    "execution": execution,
}


class Channels(TypedDict, total=False):
    """The channels that LangGraph keeps: the state of a task as one value, new answers, and the records of a step."""

    task: dict[str, Any]
    given: list[dict[str, str]]
    # Not accumulated: the channel has the records of one step, and they are appended to
    # the trail with its checkpoint.
    records: Annotated[list[dict[str, Any]], Topic(dict, False)]  # noqa: FBT003 - LangGraph's


class ActionAnswer(BaseModel):
    """The answer to one action of a task."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(min_length=1, max_length=200)
    words: str = Field(default="", max_length=MAX_ANSWER)


class GateAnswer(BaseModel):
    """The answers that a gate accepts, each with the id of the action that it answers."""

    model_config = ConfigDict(extra="forbid")

    answers: list[ActionAnswer] = Field(default_factory=list, max_length=200)


class TaskRun(Struct, frozen=True):
    """The objects that every stage gets beside the state while one process works on a task."""

    context: TaskContext
    watch: StageWatch
    """Runs each stage."""


TaskGraph = CompiledStateGraph[Any, TaskRun, Any, Any]


def task_graph(saver: BaseCheckpointSaver[str]) -> TaskGraph:
    """The graph of a task, whose checkpoints `saver` keeps."""
    return _wired_graph().copy({"checkpointer": saver})


# To compile the graph takes longer than most stages, and it is the same for every task.
@cache
def _wired_graph() -> TaskGraph:
    graph = StateGraph(Channels, context_schema=TaskRun)
    for name, run_stage in STAGES.items():
        graph.add_node(name, _stage_node(name, run_stage))
    graph.add_node(GATE, _gate)
    graph.add_node(RESOLUTION, _resolve)
    # Any stage may lead to any other, since the state alone says which one runs next.
    targets = [*STAGES, GATE, END]
    graph.add_edge(START, "request_intake")
    for name in STAGES:
        graph.add_conditional_edges(name, _next_node, targets)
    graph.add_edge(GATE, RESOLUTION)
    graph.add_conditional_edges(RESOLUTION, _next_node, targets)
    return graph.compile()


def recursion_limit(max_iterations: int) -> int:
    """LangGraph's own limit: so high that the guardrail in the state always comes first."""
    return (max_iterations + 2) * _NODES_IN_A_CYCLE + len(STAGES)


def _next_node(channels: Channels) -> str:
    """The node that runs next: the stage of the state, unless the task waits or has ended."""
    state = decode_state(channels["task"])
    if state.stage in {"done", "failed"}:
        return END
    # A halted task waits at the gate as well: a higher limit lets it go on, and no
    # answer is needed for that.
    if state.unresolved or state.halted or state.waits_for_run:
        return GATE
    return state.stage


def _stage_node(name: Stage, run_stage: RunStage) -> Any:  # noqa: ANN401 - a node of LangGraph
    async def run_node(channels: Channels, runtime: Runtime[TaskRun]) -> Channels:
        state = decode_state(channels["task"])
        run = runtime.context
        return _written(await run.watch.run(name, state, run.context, run_stage))

    return run_node


def _gate(state: Channels) -> Channels:
    """Wait for people. Nothing else is in this node: it runs again from its top when the task goes on."""
    task = decode_state(state["task"])
    question = {
        "actions": [action.id for action in task.unresolved],
        "halted": task.halted,
        "run": task.waits_for_run,
    }
    answer = interrupt(question, response_schema=GateAnswer)
    return {"given": [each.model_dump() for each in answer.answers]}


async def _resolve(state: Channels, runtime: Runtime[TaskRun]) -> Channels:
    """Run stage 6 with the answers that the gate let through."""
    given = tuple(GivenAnswer(**each) for each in state.get("given", []))

    async def resolve(task: TaskState, context: TaskContext) -> Update:
        return await hitl_resolution(task, context, given)

    run = runtime.context
    written = _written(
        await run.watch.run(
            RESOLUTION, decode_state(state["task"]), run.context, resolve
        )
    )
    # The answers are in the state now. Left in their channel, a later resolution would
    # take them again.
    return {**written, "given": []}


def _written(update: Update) -> Channels:
    """An update as LangGraph keeps it, once the state is checked."""
    return {
        "task": encode_state(update.state),
        "records": [msgspec.to_builtins(each) for each in update.records],
    }
