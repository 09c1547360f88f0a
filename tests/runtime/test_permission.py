"""Permission rules in a run: what is denied ends it, what is asked waits in the inbox, what is hidden is not shown."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, TypeVar

import pytest

from agent_resolver import MissingExtra
from agent_resolver.registry import CallContext, FixedClock, Inbox, MemorySecrets, Ports
from agent_resolver.runtime import (
    AgentRuntime,
    AgentRuntimeBuilder,
    AgentSpec,
    Block,
    ChatAnswer,
    ChatRequest,
    Command,
    ModelSpec,
    PermissionConfig,
    PermissionGate,
    PermissionRule,
    PhaseContext,
    Piece,
    PlannedCall,
    Registrar,
    RunRequest,
    RunResult,
    SetResult,
    Suspend,
    ToolCall,
    ValidationFailed,
    parse_permissions,
    resolve_local,
    user_message,
)
from agent_resolver.schema import Caller, Descriptor, local_caller
from agent_resolver.storage import MemoryStore

NOW = "2026-03-01T12:00:00.000Z"
LIN = local_caller("lin")
OBEYS = "I obey"
"""The last text of the model that does as it is told."""
Value = TypeVar("Value")


class Obeying:
    """A model that asks for calls, one a round, and then ends. It keeps which tools it was shown."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self._calls = calls
        self.shown: list[list[str]] = []

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        self.shown.append([tool.name for tool in request.tools])
        made = sum(len(message.calls) for message in request.messages)
        if made == len(self._calls):
            return ChatAnswer(text=OBEYS)
        tool, arguments = self._calls[made]
        return ChatAnswer(calls=(ToolCall(f"c{made}", tool, json.dumps(arguments)),), finish="tool_calls")

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Piece, None]:
        yield await self.complete(request)


class Bash:
    """A tool that keeps the commands that it was given."""

    def __init__(self, tool_id: str = "Bash") -> None:
        shape = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
        self.descriptor = Descriptor(id=tool_id, description="Runs.", input_schema=shape, source="memory")
        self.commands: list[str] = []

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ARG002
        self.commands.append(arguments["command"])
        return "ok"


class Answering:
    """A plugin that answers every call itself."""

    id = "answering"

    def register(self, registrar: Registrar) -> None:
        registrar.phase_hook("tool_gate", lambda _: Command(gate=SetResult("made up")))


class Stage:
    """A runtime with one agent, its tool, its model and its inbox."""

    def __init__(self, model: Obeying, permission: dict[str, Any] | None, **spec: Any) -> None:
        self.bash, self.model, self.store = Bash(), model, MemoryStore()
        sections = {} if permission is None else {"permission": permission}
        agent = AgentSpec(id="agent", model_id="m", sections=sections, **spec)
        builder = AgentRuntimeBuilder().with_model(ModelSpec(id="m", provider_id="p", upstream_model="u"))
        builder.with_provider("p", model).with_plugin(Answering()).with_agent_spec(agent).with_caller(LIN)
        builder.with_tool("Bash", self.bash).with_tool("Read", Bash("Read"))
        clock = FixedClock(NOW)
        builder.with_ports(Ports(store=self.store, clock=clock))
        self.runtime: AgentRuntime = builder.build()
        self.inbox = Inbox(self.store, MemorySecrets(), clock)

    def run(self, result: RunResult | None = None) -> RunResult:
        """A run from its beginning, or one that goes on."""
        messages = (user_message("Go"),) if result is None else ()
        state = None if result is None else result.state
        request = RunRequest(agent_id="agent", messages=messages, resume=state)
        return run(self.runtime.run_to_completion(request))

    def decide(self, result: RunResult, verdict: Any, by: Caller = LIN) -> None:
        assert result.pending is not None
        context = CallContext(run="r", trace_id="f" * 32, caller=by)
        run(self.inbox.decide(result.pending.id, verdict, context, None))


def run(work: Coroutine[Any, Any, Value]) -> Value:
    return asyncio.run(work)


def rules(*texts: str, default: str = "allow") -> dict[str, Any]:
    parsed = [text.partition(" ") for text in texts]
    return {
        "default_behavior": default,
        "rules": [{"tool": tool, "behavior": behavior} for behavior, _, tool in parsed],
    }


def command(text: str, tool: str = "Bash") -> tuple[str, dict[str, Any]]:
    return tool, {"command": text}


def test_a_call_that_is_allowed_is_made() -> None:
    stage = Stage(Obeying(command("npm test")), rules("allow Bash(npm *)", default="deny"))
    result = stage.run()

    assert (result.termination.reason, result.text, stage.bash.commands) == ("natural_end", OBEYS, ["npm test"])


def test_without_the_section_every_call_is_made() -> None:
    stage = Stage(Obeying(command("rm -rf /")), None)

    assert stage.run().termination.reason == "natural_end"
    assert stage.bash.commands == ["rm -rf /"]


def test_a_call_that_is_denied_ends_the_run_and_is_not_made() -> None:
    stage = Stage(Obeying(command("npm test"), command("rm -rf /")), rules("deny Bash(rm *)"))
    result = stage.run()

    assert result.termination.reason == "blocked"
    assert result.termination.message == "Tool 'Bash' denied by permission rules"
    assert stage.bash.commands == ["npm test"]


def test_a_call_that_is_asked_about_waits_and_is_made_once_a_person_approves_it() -> None:
    stage = Stage(Obeying(command("npm test")), rules("ask Bash(npm *)"))
    waiting = stage.run()

    assert (waiting.termination.reason, waiting.status, stage.bash.commands) == ("suspended", "waiting", [])
    assert waiting.pending is not None
    assert waiting.pending.type == "APPROVAL"
    assert waiting.pending.message.endswith(": permission rule `Bash(npm *)` asks before this call")
    assert stage.run(waiting).termination.reason == "suspended"
    stage.decide(waiting, "approved")
    done = stage.run(waiting)
    assert (done.termination.reason, done.text, stage.bash.commands) == ("natural_end", OBEYS, ["npm test"])


def test_what_a_person_rejects_is_not_made_and_the_model_learns_of_it() -> None:
    stage = Stage(Obeying(command("npm test")), rules("ask Bash"))
    waiting = stage.run()
    stage.decide(waiting, "rejected")

    assert stage.run(waiting).text == OBEYS
    assert stage.bash.commands == []


def test_an_approval_of_one_command_is_none_of_the_next() -> None:
    stage = Stage(Obeying(command("npm test"), command("npm publish")), {})
    first = stage.run()
    stage.decide(first, "approved")
    second = stage.run(first)

    assert second.pending is not None
    assert first.pending is not None
    assert second.pending.id != first.pending.id
    assert second.pending.message.endswith("no permission rule is about this call, and the default is to ask")
    assert stage.bash.commands == ["npm test"]


def test_the_model_is_not_shown_what_is_denied_and_cannot_call_it_all_the_same() -> None:
    """A prompt injection may name the tool: a model that obeys it gets nowhere."""
    stage = Stage(Obeying(command("cat /etc/passwd")), rules("deny Bash", "allow *"))
    result = stage.run()

    assert stage.model.shown == [["Read"]]
    assert (result.termination.reason, stage.bash.commands) == ("blocked", [])


def test_a_filter_of_hooks_does_not_switch_the_rules_off() -> None:
    named = {"plugin_ids": ("answering",), "active_hook_filter": ("answering",)}
    stage = Stage(Obeying(command("rm -rf /")), rules("deny Bash(rm *)"), **named)

    assert stage.run().termination.reason == "blocked"


def test_a_plugin_cannot_answer_a_call_that_is_denied_or_asked_about() -> None:
    for behavior, reason in (("deny", "blocked"), ("ask", "suspended"), ("allow", "natural_end")):
        stage = Stage(Obeying(command("x")), rules(f"{behavior} Bash(*x)"), plugin_ids=("answering",))
        assert stage.run().termination.reason == reason
        assert stage.bash.commands == []


@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("rm x", Block("Tool 'Bash' denied by permission rules")),
        ("curl x", Suspend('permission rule `/^B/(command =~ "^curl")` asks before this call')),
        ("npm x", None),
        ("other", Suspend("no permission rule is about this call, and the default is to ask")),
    ],
)
def test_the_gate_says_what_the_rules_say(text: str, gate: Any) -> None:
    section = rules("deny Bash(rm *)", 'ask /^B/(command =~ "^curl")', "allow Bash(npm *)", default="ask")
    agent = resolve_local(Stage(Obeying(), section).runtime.snapshot, "agent")
    (hook,) = agent.env.phase_hooks["tool_gate"]
    assert isinstance(hook.call, PermissionGate)
    context = PhaseContext(phase="tool_gate", run=None, call=PlannedCall("c", *command(text)))  # type: ignore[arg-type]

    assert hook.call(context) == (None if gate is None else Command(gate=gate))
    assert hook.call(PhaseContext(phase="tool_gate", run=None)) is None  # type: ignore[arg-type]


def test_a_text_cannot_make_an_expression_slow() -> None:
    """Python's own engine would not end before the machine does."""
    section = rules('deny Bash(command =~ "^(a+)+$")', "ask Bash")
    stage = Stage(Obeying(command("a" * 50_000 + "b")), section)

    assert stage.run().termination.reason == "suspended"


def test_a_bad_expression_is_a_fault_of_the_plan() -> None:
    with pytest.raises(ValidationFailed, match=r"rules\.0\.tool: `\(a\)\\1`: no regular expression"):
        Stage(Obeying(), rules(r"deny /(a)\1/"))


def test_without_the_expression_engine_the_extra_is_named_and_patterns_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    monkeypatch.delitem(sys.modules, "agent_resolver.registry.linear_regex", raising=False)
    patterns = PermissionConfig(rules=(PermissionRule(tool="without-*", behavior="deny"),))
    expression = PermissionConfig(rules=(PermissionRule(tool="/without/", behavior="deny"),))

    assert parse_permissions(patterns).rules[0].text == "without-*"
    with pytest.raises(MissingExtra, match="jsonschema_rs"):
        parse_permissions(expression)


def test_equal_sections_are_compiled_once() -> None:
    first, second = (resolve_local(Stage(Obeying(), rules("deny x")).runtime.snapshot, "agent") for _ in range(2))
    gates = [each.env.phase_hooks["tool_gate"][0].call for each in (first, second)]

    assert first.permissions is second.permissions
    assert all(isinstance(gate, PermissionGate) for gate in gates)
    assert len({id(gate.judge) for gate in gates if isinstance(gate, PermissionGate)}) == 1
