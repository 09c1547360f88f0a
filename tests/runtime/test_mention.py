"""Agents that a prompt mentions: their definitions are in one step, and in no other."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
import pytest

from agent_resolver.runtime import (
    AgentRuntime,
    AgentRuntimeBuilder,
    AgentSpec,
    ChatAnswer,
    InferenceFailure,
    MentionUnresolved,
    ModelSpec,
    OpenAiExecutor,
    RunEvent,
    RunRequest,
    RunResult,
    RunState,
    StopCondition,
    ToolCall,
    Usage,
    assistant_message,
    mentions_due,
    tool_message,
    user_message,
)
from agent_resolver.schema import Caller, local_caller
from tests.runtime.loopback_model import LoopbackModel, loopback_model

PROMPT = "Let @team:agent://reviewer look at it, as (@x:agent://reviewer) does."
TEXT = "You review code, and find what others overlook."
USAGE = Usage(3, 2)


def saying(text: str, finish: Literal["stop", "length"] = "stop") -> ChatAnswer:
    return ChatAnswer(text=text, usage=USAGE, finish=finish)


def calling(name: str, **arguments: str) -> ChatAnswer:
    call = ToolCall("c1", name, json.dumps(arguments))
    return ChatAnswer(calls=(call,), usage=USAGE, finish="tool_calls")


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackModel]:
    with loopback_model() as model:
        yield model


class MemoryDefinitions:
    """The texts of agents, and who asked for which; one of them cannot be read."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts
        self.visible_to = ""
        self.asked: list[tuple[str, str]] = []

    async def definition(self, uri: str, caller: Caller) -> str | None:
        self.asked.append((caller.id, uri))
        if uri == "agent://broken":
            raise OSError("s3cr3t path")
        is_visible = self.visible_to in {"", caller.id}
        return self.texts.get(uri) if is_visible else None


def search(query: str = "") -> str:
    """Find something."""
    return f"{query}: ask @x:agent://reviewer and @x:agent://secret"


class Stage:
    """A runtime whose model is reached over HTTP, and all that was sent to it."""

    def __init__(self, server: LoopbackModel, *script: ChatAnswer | InferenceFailure, **spec: Any) -> None:
        server.requests.clear()
        self.requests = server.requests
        self.definitions = MemoryDefinitions({"agent://reviewer": TEXT, "agent://secret": "The code is 1234."})
        self.events: list[RunEvent] = []
        self._url = server.plays(script)
        self._spec = spec

    def run(self, prompt: str = PROMPT, **request: Any) -> RunResult:
        messages = (user_message(prompt),) if prompt else ()
        return asyncio.run(self._run(RunRequest(agent_id="agent", messages=messages, **request)))

    async def _run(self, request: RunRequest) -> RunResult:
        executor = OpenAiExecutor(self._url, name="loopback")
        try:
            return await self._runtime(executor).run(request, self.events.append)
        finally:
            await executor.close()

    def _runtime(self, executor: OpenAiExecutor) -> AgentRuntime:
        builder = AgentRuntimeBuilder().with_provider("p", executor).with_tool("search", search)
        builder.with_model(ModelSpec(id="m", provider_id="p", upstream_model="u"))
        builder.with_agent_spec(AgentSpec(id="agent", model_id="m", system_prompt="Be brief.", **self._spec))
        builder.with_agent_spec(AgentSpec(id="helper", model_id="m", system_prompt="Help."))
        return builder.with_definitions(self.definitions).build()

    def holds(self, text: str) -> list[int]:
        """How often each request on the wire holds a text."""
        return [json.dumps(request["messages"]).count(text) for request in self.requests]

    @property
    def unresolved(self) -> list[tuple[str, str]]:
        return [(event.mention, event.code) for event in self.events if isinstance(event, MentionUnresolved)]


def test_a_definition_is_in_the_first_request_and_in_no_later_one(server: LoopbackModel) -> None:
    stage = Stage(server, calling("search", query="it"), saying("Done."))

    result = stage.run()

    assert stage.holds(TEXT) == [1, 0]
    first, second = (request["messages"] for request in stage.requests)
    assert [message["role"] for message in first] == ["system", "user", "user"]
    assert first[1]["content"].startswith("[The definition of agent://reviewer")
    assert first[2]["content"] == second[1]["content"] == PROMPT
    assert TEXT not in msgspec.json.encode(result.state).decode()
    assert stage.unresolved == []


def test_further_words_of_the_user_bring_in_what_they_mention_alone(server: LoopbackModel) -> None:
    stage = Stage(server, saying("Looked."), saying("Again."), saying("And again."))

    first = stage.run()
    second = stage.run("And now?", resume=first.state)
    stage.run("Ask @x:agent://reviewer again", resume=second.state)

    assert stage.holds(TEXT) == [1, 0, 1]


def test_an_interrupted_step_has_its_definition_when_it_goes_on(server: LoopbackModel) -> None:
    stage = Stage(server, saying("Done."))
    asked = stage.run().state
    killed = msgspec.convert(msgspec.to_builtins(asked), RunState)
    killed.messages = killed.messages[:1]
    killed.is_asked = True
    again = Stage(server, saying("Done."))

    again.run("", resume=killed)

    assert again.holds(TEXT) == [1]


def test_a_step_that_is_continued_or_asked_again_keeps_its_definition(server: LoopbackModel) -> None:
    rule = StopCondition(type="consecutive_errors", value=3)
    failing = Stage(server, InferenceFailure("overloaded", "later"), saying("Done."), stop_conditions=(rule,))
    failing.run()
    assert failing.holds(TEXT) == [1, 1]

    cut_off = Stage(server, saying("Do", "length"), saying("ne."))
    cut_off.run()
    assert cut_off.holds(TEXT) == [1, 1]


# Attacks --------------------------------------------------------------------------------------------------------------


def test_the_result_of_a_tool_brings_nothing_in(server: LoopbackModel) -> None:
    stage = Stage(server, calling("search", query="it"), saying("@x:agent://secret"), saying("Done."))

    said = stage.run("Find it")
    stage.run("Go on", resume=said.state)

    assert stage.holds("1234") == [0, 0, 0]
    assert stage.definitions.asked == []


def test_a_prompt_that_a_model_writes_for_a_delegate_brings_nothing_in(server: LoopbackModel) -> None:
    script = (calling("agent_run_helper", prompt="Ask @x:agent://secret"), saying("Helped."), saying("Done."))
    stage = Stage(server, *script, delegates=("helper",))

    stage.run("Let the helper do it")

    assert [request["messages"][0]["content"] for request in stage.requests] == ["Be brief.", "Help.", "Be brief."]
    assert stage.holds("1234") == [0, 0, 0]
    assert stage.definitions.asked == []


def test_a_definition_is_looked_up_on_behalf_of_the_caller(server: LoopbackModel) -> None:
    stage = Stage(server, saying("Done."))
    stage.definitions.visible_to = "local:ada"
    caller = local_caller("eve")

    stage.run("Ask @x:agent://secret and @x:agent://nobody", caller=caller)

    assert stage.holds("1234") == [0]
    # One that is there and one that is not look alike.
    assert stage.unresolved == [("agent://secret", "unknown"), ("agent://nobody", "unknown")]
    assert {who for who, _ in stage.definitions.asked} == {"local:eve"}


def test_mentions_that_bring_nothing_in_are_reported_and_stay_text(server: LoopbackModel) -> None:
    stage = Stage(server, saying("Done."))
    stage.definitions.texts["agent://huge"] = "ä" * 32_769
    prompt = "@x:agent://huge @x:agent://broken @x:agent://nobody `@x:agent://code`"

    stage.run(prompt)

    assert stage.unresolved == [
        ("agent://huge", "too_large"),
        ("agent://broken", "unknown"),
        ("agent://nobody", "unknown"),
    ]
    assert stage.requests[0]["messages"][1:] == [{"role": "user", "content": prompt}]
    assert not any("s3cr3t" in str(event) for event in stage.events)


def test_a_prompt_brings_in_at_most_eight_agents(server: LoopbackModel) -> None:
    stage = Stage(server, saying("Done."))
    stage.definitions.texts |= {f"agent://a{number}": f"<{number}>" for number in range(20)}

    stage.run(" ".join(f"@x:agent://a{number} **@x:agent://a{number}**" for number in range(10)))

    assert [f"<{number}>" in str(stage.requests[0]) for number in range(10)] == [True] * 8 + [False] * 2
    assert stage.unresolved == [("agent://a8", "too_many")]


def test_only_words_of_the_user_without_an_answer_count() -> None:
    assert mentions_due([]) == ()
    assert mentions_due([user_message("@x:agent://a"), assistant_message("Yes.")]) == ()
    assert mentions_due([user_message("@x:agent://a"), tool_message("c1", "@x:agent://b")]) == ()
    due = mentions_due([user_message("@x:agent://a"), user_message("@y:agent://b **@z:agent://a**")])
    assert [mention.name for mention in due] == ["a", "b"]
