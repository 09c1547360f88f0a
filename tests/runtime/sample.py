"""Parts that agents are made of, and the smallest runtime that has one."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any

from agent_resolver.registry import CallContext
from agent_resolver.runtime import (
    AgentRuntimeBuilder,
    AgentSpec,
    ChatAnswer,
    ChatRequest,
    ConfigSchema,
    ModelSpec,
    Phase,
    PhaseContext,
    Piece,
    Provider,
    Registrar,
    RegistrySet,
    TextDelta,
    Usage,
)
from agent_resolver.schema import Descriptor, Rules


class Echo:
    """Answers with what it was asked."""

    def __init__(self, name: str = "echo") -> None:
        self.name = name

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        return ChatAnswer(text=request.messages[-1].text, usage=Usage(1, 1))

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Piece]:
        answer = await self.complete(request)
        yield TextDelta(answer.text)
        yield answer


class MemoryTool:
    """A tool that gives back its arguments."""

    def __init__(self, tool_id: str, scopes: Iterable[str] = ()) -> None:
        self.descriptor = Descriptor(
            id=tool_id,
            description="For a test.",
            input_schema={"type": "object"},
            source="memory",
            rules=Rules(required_scopes=tuple(scopes)),
        )

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ARG002
        return arguments


def handler(*_: Any) -> None:
    """Do nothing."""


def unchanged(request: ChatRequest, _: PhaseContext) -> ChatRequest:
    """Transform nothing."""
    return request


class MemoryPlugin:
    """A plugin that registers what it was made of."""

    def __init__(self, plugin_id: str, **registers: Any) -> None:
        self.id = plugin_id
        self._hooks: Iterable[Phase] = registers.pop("hooks", ())
        self._actions: Iterable[str] = registers.pop("actions", ())
        self._effects: Iterable[str] = registers.pop("effects", ())
        self._keys: Iterable[str] = registers.pop("keys", ())
        self._profile_keys: Iterable[str] = registers.pop("profile_keys", ())
        self._transforms: int = registers.pop("transforms", 0)
        self._sections: Mapping[str, Any] = registers.pop("sections", {})
        self._tools = [MemoryTool(tool_id) for tool_id in registers.pop("tools", ())]
        assert not registers, registers

    def config_schemas(self) -> list[ConfigSchema]:
        return [ConfigSchema(key, schema) for key, schema in self._sections.items()]

    def register(self, registrar: Registrar) -> None:
        for phase in self._hooks:
            registrar.phase_hook(phase, handler)
        for name in self._actions:
            registrar.scheduled_action(name, handler)
        for name in self._effects:
            registrar.effect(name, handler)
        for name in self._keys:
            registrar.key(name)
        for name in self._profile_keys:
            registrar.key(name, scope="profile")
        for _ in range(self._transforms):
            registrar.request_transform(unchanged)
        for tool in self._tools:
            registrar.tool(tool)


MODEL = ModelSpec(id="m", provider_id="p", upstream_model="u")
AGENT = AgentSpec(id="agent", model_id="m")


def builder(*agents: AgentSpec) -> AgentRuntimeBuilder:
    """A builder with a model, a provider and these agents."""
    return (
        AgentRuntimeBuilder().with_model(MODEL).with_provider("p", Provider(executor=Echo())).with_agent_specs(agents)
    )


def registries(*agents: AgentSpec, tools: Iterable[str] = (), plugins: Iterable[MemoryPlugin] = ()) -> RegistrySet:
    """A snapshot with these agents, tools and plugins."""
    made = builder(*agents)
    for tool_id in tools:
        made.with_tool(tool_id, MemoryTool(tool_id))
    for plugin in plugins:
        made.with_plugin(plugin)
    return made.build_unchecked().snapshot
