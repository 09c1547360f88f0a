"""The cases under `tests/scenarios/run`: what an agent is made of, what its model says, and what its run comes to."""

import asyncio
import tomllib
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from agent_resolver.registry import CallContext, FixedClock, Inbox, MemorySecrets, Ports
from agent_resolver.runtime import (
    AgentRuntime,
    AgentRuntimeBuilder,
    AgentSpec,
    InferenceOverride,
    MediaBlock,
    Message,
    ModelSpec,
    Patience,
    RunBudget,
    RunEvent,
    RunRequest,
    RunResult,
    RunState,
    TextBlock,
    parse_spec,
    spent,
)
from agent_resolver.schema import ResolverError, local_caller, parse_json
from agent_resolver.storage import MemoryStore
from tests.runtime.run_part import (
    AnswerCase,
    Log,
    PluginCase,
    ScriptedModel,
    ScriptedPlugin,
    ScriptedTool,
    ToolCase,
)

SCENARIOS = Path(__file__).parents[1] / "scenarios" / "run"
LIN, ADA = local_caller("lin"), local_caller("ada")


class Step(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run, or how one goes on."""

    says: str = ""
    """What the user says; in a first step that says nothing it is `Go`."""
    shows: list[MediaBlock] = []
    decides: str = ""
    """What becomes of the action that the last step waits for, before this one: `approved`, `rejected`, or words."""
    changes: dict[str, Any] = {}
    """How the agent changes before this step."""
    changes_of: dict[str, dict[str, Any]] = {}
    """How other agents change, by their ids."""
    agent: str = "agent"
    budget: RunBudget = RunBudget()
    override: InferenceOverride = InferenceOverride()
    streams: bool = False
    with_changes: bool = False
    is_silent: bool = False
    """True for a run without a sink."""
    cancels: str = ""
    """`run` to cancel the run once something hangs, `task` to cancel its task."""
    sink: str = ""
    """What the sink does: `raises 3` at the third event, `hangs 3`, or `returns 3` something."""
    new: bool = False
    """True for a run that does not go on from the last step."""
    seconds: float = 0
    """How much later this step starts."""
    expect: dict[str, Any]


class Scenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What there is, and what the runs of it come to."""

    about: str
    agent: dict[str, Any] = {}
    others: list[dict[str, Any]] = []
    model: dict[str, Any] = {}
    """How the model `m` differs from the smallest that works."""
    models: list[dict[str, Any]] = []
    """Other models, by the same script."""
    tools: list[ToolCase] = []
    plugins: list[PluginCase] = []
    script: list[AnswerCase] = []
    patience: Patience = Patience()
    is_recorded: bool = True
    steps: list[Step] = field(default_factory=list)
    expect: dict[str, Any] = {}
    """For a scenario of one step that says nothing special."""


def run_scenarios() -> list[Path]:
    return sorted(SCENARIOS.glob("*/*.toml"))


def name_of(path: Path) -> str:
    return path.relative_to(SCENARIOS).with_suffix("").as_posix()


def load(path: Path) -> Scenario:
    return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Scenario)


class Stage:
    """The runtime of a scenario, and all that can be seen of its runs."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.log = Log()
        self.model = ScriptedModel(scenario.script, self.log)
        self.store = MemoryStore()
        self.runtime = self._built()
        self.events: list[RunEvent] = []
        self.result: RunResult | None = None
        self.outcome: dict[str, Any] = {}
        """What the last step came to."""

    def _built(self) -> AgentRuntime:
        scenario, clock = self.scenario, FixedClock()
        store = self.store if scenario.is_recorded else None
        builder = AgentRuntimeBuilder().with_provider("p", self.model).with_caller(LIN)
        for model in ({"id": "m", **scenario.model}, *scenario.models):
            builder.with_model(msgspec.convert({"provider_id": "p", "upstream_model": "u", **model}, ModelSpec))
        builder.with_ports(Ports(store=store, clock=clock)).with_patience(scenario.patience)
        for tool in scenario.tools:
            builder.with_tool(tool.id, ScriptedTool(tool, self.log))
        for plugin in scenario.plugins:
            builder.with_plugin(ScriptedPlugin(plugin, self.log))
        own = {"plugin_ids": [plugin.id for plugin in scenario.plugins], **scenario.agent}
        builder.with_agent_specs([spec_of({"id": "agent", **own}), *map(spec_of, scenario.others)])
        return builder.build()

    async def play(self, step: Step) -> dict[str, Any]:
        """What a step comes to, in the words of scenarios."""
        self.outcome = await self._played(step)
        return self.outcome

    async def _played(self, step: Step) -> dict[str, Any]:
        before = len(self.events), len(self.log.made), len(self.log.lines)
        if step.decides:
            await self._decide(step.decides)
        if step.changes:
            self.runtime.replace(spec_of({"id": "agent", **self.scenario.agent, **step.changes}))
        for agent_id, changes in step.changes_of.items():
            self.runtime.replace(spec_of({"id": agent_id, **changes}))
        try:
            self.result = await self._run(step)
        except ResolverError as error:
            return {"error": type(error).__name__, "message": str(error), **self._seen(before)}
        except asyncio.CancelledError:
            return {"reason": "CancelledError", **self._seen(before)}
        return {**stated(self.result), **self._seen(before)}

    async def _run(self, step: Step) -> RunResult:
        resumed = None if step.new or self.result is None else round_trip(self.result.state)
        if resumed is not None:
            resumed.seconds += step.seconds
        says = step.says or ("Go" if resumed is None else "")
        content = ((TextBlock(says),) if says else ()) + tuple(step.shows)
        request = RunRequest(
            agent_id=step.agent,
            messages=(Message("user", content),) if content else (),
            budget=step.budget,
            override=step.override,
            streams=step.streams,
            with_changes=step.with_changes,
            resume=resumed,
            run_id="" if resumed else "run",
        )
        sink = None if step.is_silent else Sink(step.sink, self)
        running = asyncio.create_task(self.runtime.run(request, sink))
        if step.cancels:
            await self.log.hanging.wait()
            self.log.hanging.clear()
            assert self.runtime.cancel("run") if step.cancels == "run" else running.cancel()
        return await running

    async def _decide(self, words: str) -> None:
        assert self.result is not None
        assert self.result.pending is not None
        inbox = Inbox(self.store, MemorySecrets(), FixedClock())
        context = CallContext(run="r", trace_id="f" * 32, caller=ADA)
        if words in {"approved", "rejected"}:
            verdict: Any = words
            await inbox.decide(self.result.pending.id, verdict, context)
        else:
            await inbox.answer(self.result.pending.id, words, context)

    def _seen(self, before: tuple[int, int, int]) -> dict[str, Any]:
        events = self.events[before[0] :]
        documents = [msgspec.to_builtins(event) for event in events]
        return {
            "events": [document["type"] for document in documents],
            "ended": [
                " ".join(filter(None, (each["tool"], each["outcome"], each["code"])))
                for each in documents
                if each["type"] == "tool.done"
            ],
            "near": [f"{each['kind']} {each['tool']}".strip() for each in documents if each["type"] == "budget.near"],
            "warnings": [each["code"] for each in documents if each["type"] == "plan.warning"],
            "failed": [f"{each['plugin']} {each['handler']}" for each in documents if each["type"] == "handler.failed"],
            "numbers": [each["number"] for each in documents],
            "deltas": [each["text"] for each in documents if each["type"] == "text.delta"],
            "made": self.log.made[before[1] :],
            "log": self.log.lines[before[2] :],
            "asked": [[f"{message.role}: {message.text}" for message in asked.messages] for asked in self.model.asked],
            "offered": [[tool.name for tool in asked.tools] for asked in self.model.asked],
            "models": sorted({asked.model for asked in self.model.asked}),
            "temperatures": [asked.temperature for asked in self.model.asked if asked.temperature is not None],
            "descriptions": sorted({tool.description for asked in self.model.asked for tool in asked.tools}),
        }


class Sink:
    """Keeps events, until it does what it shall do at one of them."""

    def __init__(self, case: str, stage: Stage) -> None:
        self._does, _, place = case.partition(" ")
        self._place = int(place or 0)
        self._stage = stage
        self._count = 0

    def __call__(self, event: RunEvent) -> Any:
        self._stage.events.append(event)
        self._count += 1
        if self._count != self._place:
            return None
        if self._does == "raises":
            raise KeyError("full")
        return self._stage.log.hang() if self._does == "hangs" else 5


def spec_of(said: dict[str, Any]) -> AgentSpec:
    return parse_spec(parse_json(msgspec.json.encode({"model_id": "m", **said}).decode()))


def round_trip(state: RunState) -> RunState:
    """The state as it comes back from where it was kept."""
    kept = msgspec.json.decode(msgspec.json.encode(state), type=RunState)
    assert msgspec.json.encode(kept) == msgspec.json.encode(state)
    return kept


def stated(result: RunResult) -> dict[str, Any]:
    """A result in the words of scenarios."""
    end, state = result.termination, result.state
    return {
        "reason": end.reason,
        "code": end.code,
        "message": end.message,
        "status": result.status,
        "is_resumable": result.is_resumable,
        "rounds": result.rounds,
        "text": result.text,
        "tokens": result.usage.total_tokens,
        "cost": result.cost,
        "pending": result.pending.type if result.pending else "",
        "asks": result.pending.message if result.pending else "",
        "messages": [_line(message) for message in state.messages],
        "open": [f"{call.id} {call.name}" for call in state.open_calls],
        "values": {key: value for key, value in state.values.items() if not key.startswith("loop.")},
        "calls": spent(state).calls,
        "modalities": [block.modality for message in state.messages for block in message.content],
    }


def _line(message: Message) -> str:
    calls = "".join(f" [{call.id} {call.name}]" for call in message.calls)
    answers = f" {message.call_id}" if message.call_id else ""
    return f"{message.role}{answers}: {message.text}{calls}"


def steps_of(scenario: Scenario) -> list[Step]:
    return scenario.steps or [Step(expect=scenario.expect)]


async def outcomes(scenario: Scenario) -> list[dict[str, Any]]:
    """What each step comes to; a run that never ends fails its case instead of all of them."""
    stage = Stage(scenario)
    async with asyncio.timeout(30):
        return [await stage.play(step) for step in steps_of(scenario)]
