"""A project of the reasoner in a folder: a state file, a registry with some tools, a planner that can be scripted."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from agent_resolver.core.egress import egress_hosts
from agent_resolver.core.guardrail import GuardrailLimits
from agent_resolver.engine.tool import describe_blueprint
from agent_resolver.reasoner.artifact import Artifacts
from agent_resolver.reasoner.context_binder import bind_context
from agent_resolver.reasoner.memory import MemoryHealth, MemoryRetriever
from agent_resolver.reasoner.port import Planner
from agent_resolver.reasoner.stage.request_intake import first_state
from agent_resolver.reasoner.task_context import Needed, ReasonerPorts, Surface, TaskContext
from agent_resolver.reasoner.task_tool import INSTALL, SCAFFOLD
from agent_resolver.reasoner.task_view import TaskView
from agent_resolver.reasoner.tasks import TaskHome, TaskRequest, Tasks
from agent_resolver.registry import CallContext, Inbox, MemorySecrets, Ports, Tool, ToolRegistry
from agent_resolver.schema import Caller, Descriptor, local_caller
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.descriptor import Labels, Rules
from agent_resolver.schema.golden_context import Environment, Incident
from agent_resolver.schema.golden_path import Stage, TaskState
from agent_resolver.schema.planning import AuditAdvice, Classified, Drafted, PlanRequest
from agent_resolver.storage import AesSeal, Store, SystemClock
from tests.state_place import open_state

KEY = bytes(32)
TEXT = {"type": "string", "description": "A text.", "examples": ["a"], "minLength": 1, "maxLength": 200}
NUMBER = {"type": "integer", "description": "A number.", "examples": [1]}


def schema(**fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


class FakeTool:
    """A tool that remembers its calls."""

    def __init__(self, tool_id: str, description: str, **more: Any) -> None:
        outputs = more.pop("outputs", {"done": {"type": "boolean", "description": "Done.", "examples": [True]}})
        inputs = more.pop("inputs", {})
        labels = Labels(
            kind="CAPABILITY",
            domain=tool_id.partition(".")[0],
            hosts=more.pop("hosts", ()),
            allow_outbound=more.pop("outbound", False),
        )
        self.result = more.pop("result", {"done": True})
        self.descriptor = Descriptor(
            id=tool_id,
            description=description,
            input_schema=schema(**inputs),
            output_schema=schema(**outputs),
            source="module fake",
            labels=labels,
            rules=Rules(**more),
        )
        self.calls: list[dict[str, Any]] = []

    async def invoke(self, arguments: dict[str, Any], _context: CallContext) -> Any:
        self.calls.append(arguments)
        return self.result


class ScriptedPlanner:
    """Gives back the answers that it was given, the last one again and again; remembers what it was asked."""

    def __init__(self, classified: list[Classified] | None = None, drafted: list[Drafted] | None = None) -> None:
        self.classified = classified or []
        self.drafted = drafted or []
        self.advice = AuditAdvice()
        self.asked: list[tuple[str, PlanRequest]] = []

    async def classify(self, request: PlanRequest) -> Classified:
        self.asked.append(("classify", request))
        return self.classified.pop(0) if len(self.classified) > 1 else self.classified[0]

    async def build(self, request: PlanRequest) -> Drafted:
        self.asked.append(("build", request))
        return self.drafted.pop(0) if len(self.drafted) > 1 else self.drafted[0]

    async def audit(self, request: PlanRequest) -> AuditAdvice:
        self.asked.append(("audit", request))
        return self.advice


class Assembler:
    """Installs a blueprint into the registry itself: it is called as a tool of one call."""

    def __init__(self, home: "Home", tool_id: str) -> None:
        self._home = home
        self.calls: list[dict[str, Any]] = []
        self.descriptor = Descriptor(
            id=tool_id,
            description="Assemble.",
            input_schema={"type": "object"},
            source="test",
            rules=Rules(is_idempotent=True),
            labels=Labels(kind="CAPABILITY"),
        )

    async def invoke(self, arguments: dict[str, Any], _context: CallContext) -> Any:
        self.calls.append(arguments)
        if self.descriptor.id == INSTALL:
            blueprint = await self._home.artifacts.load(arguments["task"], arguments["artifact"], Blueprint)
            if self._home.registry.get(blueprint.id) is None:
                tool = FakeTool(blueprint.id, "A plan.")
                tool.descriptor = self._home.describe(blueprint, {each.id: each for each in self._home.registry.list()})
                tool.descriptor = structs.replace(tool.descriptor, output_schema=None)
                self._home.executed = tool
                self._home.registry.add(tool)
        return {"file": "drafts/tool.py"}


class Home:
    """Everything that tasks stand on, in one folder."""

    def __init__(self, folder: Path, planner: Planner, *tools: FakeTool, **settings: Any) -> None:
        self.store: Store = settings.get("store") or open_state(folder, key=KEY)
        self.seal = AesSeal(KEY)
        self.secrets = MemorySecrets()
        self.planner = planner
        self.registry = ToolRegistry(Ports(store=self.store, seal=self.seal, clock=SystemClock(), secrets=self.secrets))
        for tool in tools:
            self.registry.add(tool)
        self.artifacts = Artifacts(self.store, self.seal)
        self.executed: FakeTool | None = None
        self.install = Assembler(self, INSTALL)
        self.scaffold = Assembler(self, SCAFFOLD)
        self.inbox = Inbox(self.store, self.secrets, SystemClock(), seal=self.seal)
        credentials: Mapping[str, tuple[Needed, ...]] = settings.get("credentials", {})
        self.surface = Surface(
            is_authorised=settings.get("is_authorised", lambda _tool: True),
            hosts_of=lambda tool: egress_hosts(tool, {}),
            credentials_of=lambda tool: credentials.get(tool.id, ()),
            describe=self.describe,
            egress=settings.get("egress", ()),
            required=settings.get("required", ()),
        )
        self.ports = ReasonerPorts(
            registry=self.registry,
            artifacts=self.artifacts,
            secrets=self.secrets,
            planner=planner,
            retriever=MemoryRetriever(settings.get("documents", {})),
            health=MemoryHealth(settings.get("health", {})),
            surface=self.surface,
            own_tools=(self.install, self.scaffold),
            limits=settings.get("limits", GuardrailLimits()),
        )
        self.tasks = self.tasks_with(self.ports)

    def ports_with(self, install: Tool) -> ReasonerPorts:
        """The ports with another tool that installs plans."""
        return structs.replace(self.ports, own_tools=(install, self.scaffold))

    def tasks_with(self, ports: ReasonerPorts) -> Tasks:
        return Tasks(self.home(), ports)

    def home(self) -> TaskHome:
        return TaskHome(
            store=self.store,
            seal=self.seal,
            clock=SystemClock(),
            seconds=lambda: 0.0,
            inbox=self.inbox,
            app_id="test",
        )

    @staticmethod
    def describe(blueprint: Blueprint, tools: Mapping[str, Descriptor]) -> Descriptor:
        return describe_blueprint(blueprint, tools.get, "test")

    def context(self, state: TaskState, caller: Caller | None = None) -> TaskContext:
        """The context in which a stage is run by itself."""
        acting = caller or state.initiator
        golden = bind_context(acting, state.environment, "test", state.trace_id, state.incident, state.classification)
        return TaskContext(ports=self.ports, golden=golden, caller=acting)

    async def start(self, text: str, caller: Caller | None = None, **more: Any) -> TaskView:
        return await self.tasks.start(TaskRequest(text=text, **more), caller or LOCAL)

    async def answer(self, action_id: str, words: str, caller: Caller | None = None) -> None:
        await self.inbox.answer(action_id, words, CallContext.for_caller(caller or LOCAL))

    async def approve(self, action_id: str, caller: Caller) -> None:
        await self.inbox.decide(action_id, "approved", CallContext.for_caller(caller))


LOCAL = local_caller("ada")


def person(name: str, **more: Any) -> Caller:
    """A person that an issuer vouches for, with every claim that a task needs."""
    known: dict[str, Any] = {
        "is_verified": True,
        "issuer": "https://issuer.test",
        "scopes": frozenset(),
        "clearance": "RESTRICTED",
        "division": "it",
        "cost_center": "CC-17",
    }
    return Caller(id=name, **{**known, **more})


def state_at(stage: Stage, text: str = "Do it", caller: Caller | None = None, **more: Any) -> TaskState:
    """A state in the middle of a task."""
    environment: Environment = more.pop("environment", "dev")
    incident: Incident = more.pop("incident", Incident())
    state = first_state(
        text,
        task_id="t1",
        trace_id="1" * 32,
        environment=environment,
        caller=caller or LOCAL,
        incident=incident,
    )
    return structs.replace(state.at(stage), **more)
