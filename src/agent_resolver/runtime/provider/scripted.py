"""A model that says what a script says: for tests, demonstrations and dry runs, without any network."""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, field, structs

from agent_resolver.runtime.executor import FailureKind, InferenceFailure
from agent_resolver.runtime.inference import (
    CallDelta,
    ChatAnswer,
    ChatRequest,
    Piece,
    TextDelta,
    Usage,
    answer_message,
)
from agent_resolver.runtime.message import Message, ToolCall
from agent_resolver.schema.source import Unreadable, decode
from agent_resolver.schema.tree import plain
from agent_resolver.schema.yaml_tree import parse_yaml

_PIECES: Final = 4
Said = ChatAnswer | InferenceFailure | tuple[Piece | InferenceFailure, ...]
"""A whole answer, a failure, or the pieces of a stream one by one, which may end in a failure."""
Step = Said | Callable[[ChatRequest], Said]
"""One answer of a script, or a function that makes it of the request."""


class ScriptedExecutor:
    """Answers from a script, one step for each request; a function alone answers every request."""

    def __init__(self, script: Iterable[Step] | Callable[[ChatRequest], Said]) -> None:
        # Runs that share an executor would take steps from each other; a function has
        # no steps.
        self._every = script if callable(script) else None
        self._steps = iter(()) if callable(script) else iter(script)
        self.requests: list[ChatRequest] = []
        """What was asked so far."""

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """The next answer of the script.

        Raises:
            InferenceFailure: The script says so, or it has come to its end.
        """
        said = self._next(request)
        # Of an answer that was written in pieces, the whole is the last.
        last = said[-1] if isinstance(said, tuple) and said else said
        if isinstance(last, InferenceFailure):
            raise last
        if not isinstance(last, ChatAnswer):
            raise InferenceFailure("stream_interrupted", "the script breaks off here")
        return last

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Piece]:
        """The next answer of the script, cut into pieces.

        Raises:
            InferenceFailure: The script says so, or it has come to its end.
        """
        said = self._next(request)
        for piece in said if isinstance(said, tuple) else cut_answer(said):
            if isinstance(piece, InferenceFailure):
                raise piece
            yield piece

    def _next(self, request: ChatRequest) -> Said:
        self.requests.append(request)
        step = self._every or next(self._steps, None)
        if step is None:
            raise InferenceFailure(
                "invalid_request", "the script has no further answer"
            )
        return step(request) if callable(step) else step


class ResumingScript(ScriptedExecutor):
    """Answers from a script of a file. A run that another process began goes on where its script stopped.

    The first request tells: where the answers since the user last spoke are those of the script, in its order, the
    next one follows. Otherwise it is the script of another run, and starts from its beginning.
    """

    def __init__(self, script: Sequence[ChatAnswer | InferenceFailure]) -> None:
        super().__init__(script)
        self._script = script

    def _next(self, request: ChatRequest) -> Said:
        # Only the first request is looked at: from there on, the script goes on by
        # itself.
        if not self.requests:
            had = _answers_since_user(request)
            begun = [
                answer_message(step)
                for step in self._script[: len(had)]
                if isinstance(step, ChatAnswer)
            ]
            if begun == had:
                self._steps = iter(self._script[len(had) :])
        return super()._next(request)


def _answers_since_user(request: ChatRequest) -> list[Message]:
    answers: list[Message] = []
    for message in reversed(request.messages):
        if message.role == "user":
            break
        if message.role == "assistant":
            answers.insert(0, message)
    return answers


def cut_answer(
    said: ChatAnswer | InferenceFailure,
) -> Iterable[Piece | InferenceFailure]:
    """An answer as a stream gives it: a few pieces of each text, then the whole."""
    if isinstance(said, ChatAnswer):
        yield from map(TextDelta, _cut_text(said.text))
        for index, call in enumerate(said.calls):
            yield CallDelta(index, call.id, call.name)
            yield from (
                CallDelta(index, arguments=part) for part in _cut_text(call.arguments)
            )
    yield said


def _cut_text(text: str) -> Iterable[str]:
    # The two signs make the division round up, so that there are at most `_PIECES`
    # pieces.
    size = max(1, -(-len(text) // _PIECES))
    return (text[start : start + size] for start in range(0, len(text), size))


# Scripts in files ---------------------------------------------------------------------


class _WrittenCall(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)
    """An object, or the text of what a model wrote instead."""
    id: str = ""


class _WrittenFailure(Struct, frozen=True, forbid_unknown_fields=True):
    kind: FailureKind
    message: str = "the script says so"
    retry_after_ms: int | None = None


class _WrittenUsage(Struct, frozen=True, forbid_unknown_fields=True):
    # Keys that people write are in snake_case here as in all settings.
    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0


class _WrittenStep(Struct, frozen=True, forbid_unknown_fields=True):
    text: str = ""
    calls: tuple[_WrittenCall, ...] = ()
    finish: Literal["stop", "tool_calls", "length"] | None = None
    usage: _WrittenUsage | None = None
    failure: _WrittenFailure | None = None


def read_script(content: bytes) -> list[ChatAnswer | InferenceFailure]:
    """The steps of a script in YAML or JSON: a list with `text`, `calls`, `usage` and `finish`, or `failure`, in each.

    Raises:
        ValueError: It is not such a list.
    """
    try:
        # JSON is YAML, and the parser has limits for both.
        document = plain(parse_yaml(decode(content)))
        written = msgspec.convert(document, list[_WrittenStep])
    except Unreadable as stop:
        raise ValueError(str(stop.issue)) from None
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    return [_step_of(number, step) for number, step in enumerate(written, start=1)]


def _step_of(number: int, step: _WrittenStep) -> ChatAnswer | InferenceFailure:
    if failure := step.failure:
        return InferenceFailure(failure.kind, failure.message, failure.retry_after_ms)
    calls = tuple(
        _call_of(f"call_{number}_{index}", call)
        for index, call in enumerate(step.calls, start=1)
    )
    finish = step.finish or ("tool_calls" if calls else "stop")
    usage = Usage(*structs.astuple(step.usage)) if step.usage else None
    return ChatAnswer(
        text=step.text, calls=calls, usage=usage, finish=finish, model="scripted"
    )


def _call_of(number: str, call: _WrittenCall) -> ToolCall:
    is_text = isinstance(call.arguments, str)
    arguments = (
        call.arguments if is_text else msgspec.json.encode(call.arguments).decode()
    )
    return ToolCall(call.id or number, call.name, str(arguments))
