"""A runtime whose runs last: its model counts what it is asked, its tools what they do."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from agent_resolver.registry import CallContext, Inbox, MemorySecrets, Ports
from agent_resolver.runtime import (
    AgentRuntime,
    AgentRuntimeBuilder,
    AgentSpec,
    ChatAnswer,
    ChatRequest,
    Journal,
    ModelSpec,
    RunRequest,
    ToolCall,
    Usage,
    user_message,
)
from agent_resolver.schema import Descriptor, Rules, local_caller
from agent_resolver.storage import AesSeal, Store, SystemClock

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}, "prompt": {"type": "string"}}}
CALLER = local_caller("program")
KEY = bytes(range(32))


class CountingTool:
    """Does something that must be done once."""

    def __init__(self, name: str, does: Callable[[dict[str, Any]], Any] | None = None, **rules: Any) -> None:
        self.descriptor = Descriptor(
            id=name, description=name, input_schema=SCHEMA, source="test", rules=Rules(**rules)
        )
        self.made: list[dict[str, Any]] = []
        self._does = does

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ARG002 - the port
        self.made.append(arguments)
        return {"made": len(self.made)} if self._does is None else self._does(arguments)


Answer = Callable[[ChatRequest], ChatAnswer]


class CountingModel:
    """Answers as a function says, and keeps what it was asked."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.asked: list[ChatRequest] = []
        self.hangs = False
        self.hangs_at = 0
        """The number of the question that it does not answer, from 1."""

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        self.asked.append(request)
        if self.hangs or 0 < self.hangs_at == len(self.asked):
            await asyncio.Event().wait()
        return self._answer(request)

    async def stream(self, request: ChatRequest) -> Any:
        yield await self.complete(request)


def rounds_of(request: ChatRequest) -> int:
    """How many answers the conversation has since the user spoke."""
    count = 0
    for message in reversed(request.messages):
        if message.role == "user":
            break
        count += message.role == "assistant"
    return count


def calls_then_ends(rounds: int, tool: str = "act") -> Answer:
    """A model that makes one call a round, and then ends."""

    def answer(request: ChatRequest) -> ChatAnswer:
        made = rounds_of(request)
        if made >= rounds:
            return ChatAnswer(text="Done.", usage=Usage(10, 2))
        call = ToolCall(f"c{made}", tool, f'{{"n": {made}}}')
        return ChatAnswer(text=f"Round {made}", calls=(call,), finish="tool_calls", usage=Usage(10, 5))

    return answer


class Stage:
    """One process that runs agents on a store."""

    def __init__(
        self,
        store: Store,
        model: CountingModel,
        tools: list[Any],
        agents: Mapping[str, Mapping[str, Any]] | None = None,
        plugins: tuple[Any, ...] = (),
    ) -> None:
        self.store = store
        self.model = model
        seal = AesSeal(KEY)
        ports = Ports(store=store, seal=seal, clock=SystemClock())
        builder = AgentRuntimeBuilder().with_provider("p", model)
        spec = ModelSpec(
            id="m",
            provider_id="p",
            upstream_model="m",
            input_price=1.0,
            output_price=1.0,
        )
        builder.with_model(spec).with_ports(ports).with_caller(CALLER)
        for tool in tools:
            builder.with_tool(tool.descriptor.id, tool)
        for plugin in plugins:
            builder.with_plugin(plugin)
        for name, more in (agents or {"agent": {}}).items():
            builder.with_agent_spec(AgentSpec(id=name, model_id="m", system_prompt=f"You are {name}.", **more))
        self.journal = Journal(store, seal, SystemClock())
        builder.with_journal(lambda: self.journal)
        self.runtime: AgentRuntime = builder.build()
        self.inbox = Inbox(store, MemorySecrets(), SystemClock())


def go(agent: str = "agent", prompt: str = "Go", **more: Any) -> RunRequest:
    return RunRequest(agent_id=agent, messages=(user_message(prompt),), **more)
