"""Answers a run from its recording: the answers of its model and the outcomes of its calls. Nothing here acts."""

from collections.abc import AsyncIterator, Awaitable, Mapping
from functools import partial
from typing import Any, Final, NoReturn, cast

import msgspec

from agent_resolver.core.masking import SecretFields
from agent_resolver.registry.port import Telemetry
from agent_resolver.registry.tool import CallContext
from agent_resolver.runtime.executor import FailureKind, InferenceFailure
from agent_resolver.runtime.inference import ChatAnswer, ChatRequest, Piece
from agent_resolver.runtime.journal.difference import (
    Compared,
    Difference,
    Part,
    describe_end,
    question_difference,
    shown,
)
from agent_resolver.runtime.journal.recording import (
    Answered,
    Asked,
    NotAnswered,
    PlanDocument,
    Recording,
    Step,
    Stretch,
)
from agent_resolver.runtime.loop.calling import GIVEN_BACK, PERSON_SAYS
from agent_resolver.runtime.loop.sound_answer import RequestRefused
from agent_resolver.runtime.run import NOT_MADE, TOKEN_EXPIRED, RunState, Termination
from agent_resolver.schema.outcome import Done, Failed, FailureCode, Outcome, Pending

_TIMED: Final = frozenset({"budget_seconds", "timeout"})
"""The ends that depend on how long something took, which no replay can find out."""
_AFTER_APPROVAL: Final = frozenset(
    {
        FailureCode.TOOL_ERROR,
        FailureCode.RUNNER_ERROR,
        FailureCode.TIMEOUT,
        FailureCode.SERVER_UNAVAILABLE,
        FailureCode.PROTOCOL_ERROR,
        FailureCode.OUTPUT_VALIDATION_FAILED,
    }
)
"""Failures of calls that were made: one that takes an approval had been approved."""


class ReplayEnded(RequestRefused):
    """The recording has nothing more for the run, or the run differs from it."""

    def __init__(self) -> None:
        super().__init__("replay_ended", "The replay ended here")


class Course:
    """The position of a replay in one stretch: the steps that come next, and what differs."""

    def __init__(
        self,
        recording: Recording,
        stretch: Stretch,
        state: RunState,
        plan: PlanDocument,
    ) -> None:
        self.recording = recording
        self.stretch = stretch
        self.state = state
        """The state of the run that is replayed."""
        self.plan = plan
        """The parts that the agent is made of now."""
        self.steps: list[Step] = list(stretch.steps)
        self.difference: Difference | None = None
        self.is_over = False
        """True once the recording had nothing more to go by."""
        self.seconds = state.seconds
        """The seconds that the run had taken at the newest step."""
        # What comes before this place was replayed in an earlier stretch.
        self._first_place = len(state.messages)
        self._asked_for: set[int] = set()
        """The places of messages with results that the run asked for."""

    def result_at(self, place: int) -> Any:  # noqa: ANN401 - a JSON value
        """The recorded result of a call; the call then counts as made again."""
        self._asked_for.add(place)
        return self.recording.results[place]

    def next_step(self) -> Step:
        """The next step, which then is behind."""
        step = self.steps.pop(0)
        # The loop reads this as its clock, so that a replay takes the recorded time and
        # not its own.
        self.seconds = step.seconds
        return step

    def catch_up(self) -> None:
        """Count what delegates had used before the next step: they are not run again."""
        self.state.delegated = dict(
            self.steps[0].delegated if self.steps else self.stretch.delegated
        )

    def stop(self) -> NoReturn:
        """End the replay here without a difference.

        Raises:
            ReplayEnded: Always.
        """
        self.is_over = True
        raise ReplayEnded

    def differ(self, part: Part, before: str, after: str) -> NoReturn:
        """End the replay here with a difference.

        Raises:
            ReplayEnded: Always.
        """
        self.note(
            Difference(
                round=self.state.round,
                part=part,
                before=shown(before),
                after=shown(after),
            )
        )
        raise ReplayEnded

    def require_open(self) -> None:
        """See that the replay goes on: the loop may try something else after a question that failed.

        Raises:
            ReplayEnded: It has ended.
        """
        if self.is_over or self.difference is not None:
            raise ReplayEnded

    def note(self, difference: Difference) -> None:
        """Keep a difference, if it is the first."""
        self.difference = self.difference or difference

    def stop_where_the_recording_ends(self, after: str) -> NoReturn:
        """End the replay where the run wants something and the recording has nothing more.

        Args:
            after: What the run does now.

        Raises:
            ReplayEnded: Always; with a difference, if the agent itself had ended the run.
        """
        end = self.stretch.termination
        if end is None or self.is_from_outside(end):
            self.stop()
        self.differ("end", describe_end(end), after)

    def is_from_outside(self, end: Termination) -> bool:
        """True for an end that the agent had no part in: a person, a failed reader of events, or the clock."""
        if end.reason == "cancelled" or end.code == TOKEN_EXPIRED:
            return True
        # A stop by the clock is the agent's own only where it would have more time now:
        # no replay can take that time.
        return end.code in _TIMED and not self._has_more_time()

    def _has_more_time(self) -> bool:
        """True if the present agent would not have been stopped by the clock, as far as its limits say."""
        before, rules_before = time_limits(self.stretch.plan)
        limit, rules = time_limits(self.plan)
        is_longer = before is not None and (limit is None or limit > before)
        return is_longer or rules != rules_before

    def require_calls_made(self) -> None:
        """See that each call that was made is made now as well.

        Raises:
            ReplayEnded: One is not; a plugin gives its result, which may read the same.
        """
        for place in range(self._first_place, len(self.state.messages)):
            if place in self.recording.results and place not in self._asked_for:
                message = self.state.messages[place]
                name = f"call {message.call_id}"
                self.differ(
                    "call",
                    f"{name} was made",
                    f"{name} is not made: a plugin gives its result",
                )


def time_limits(plan: PlanDocument) -> tuple[float | None, list[object]]:
    """The rules of a plan that depend on the clock: the budget of seconds, and stop rules."""
    spec: Mapping[str, Any] = plan.get("spec") or {}
    conditions = spec.get("stop_conditions") or ()
    timed = [each for each in conditions if each["type"] == "timeout"]
    return (spec.get("budget") or {}).get("max_seconds"), timed


class RecordedModel:
    """Answers as the model did then, as long as the questions are the same."""

    def __init__(self, course: Course) -> None:
        self._course = course

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """The recorded answer.

        Raises:
            InferenceFailure: The model did not answer then either.
            ReplayEnded: The question is another one, or the recording ends here.
        """
        course = self._course
        course.require_open()
        course.require_calls_made()
        asked = course.next_step() if course.steps else None
        if not isinstance(asked, Asked):
            course.stop_where_the_recording_ends("asks the model again")
        self._require_time_left()
        self._compare(asked, request)
        if not course.steps:
            # Only the end of the run came after it, or nothing: what the model said is
            # not known.
            course.stop()
        if isinstance(course.steps[0], Asked):
            # The run went on without an answer, which happens with a summary that is
            # too long: it is not recorded.
            raise RequestRefused("answer_too_large", "The answer was too large then")
        reply = course.next_step()
        if isinstance(reply, NotAnswered):
            raise InferenceFailure(
                cast("FailureKind", reply.kind), "The model did not answer then either"
            )
        assert isinstance(reply, Answered)  # noqa: S101 - no other kind of step is left
        return reply.answer

    async def stream(self, request: ChatRequest) -> AsyncIterator[Piece]:
        """The recorded answer, in one piece."""
        yield await self.complete(request)

    def _require_time_left(self) -> None:
        """See that the present budget has room for the time that the run had taken."""
        course = self._course
        limit, _ = time_limits(course.plan)
        before, _ = time_limits(course.stretch.plan)
        # Under an unchanged limit the run had time left: it asked.
        if limit is not None and limit != before and course.seconds >= limit:
            course.differ(
                "end",
                "asked the model",
                f"stopped (budget_seconds): the budget of {limit:g} s is used up",
            )

    def _compare(self, asked: Asked, request: ChatRequest) -> None:
        course = self._course
        compared = Compared(
            round=course.state.round,
            recorded=asked.question,
            request=request,
            plan_before=course.stretch.plan,
            plan_after=course.plan,
            messages_before=course.stretch.messages[: asked.place],
            messages_after=course.state.messages,
        )
        difference = question_difference(compared)
        if difference is not None:
            course.note(difference)
            raise ReplayEnded


class RecordedCalls:
    """Gives each call the outcome that it had then; no tool is called, and no person is asked."""

    is_recorded: bool = True
    telemetry: Telemetry | None = None

    def __init__(self, course: Course) -> None:
        self._course = course

    def secret_arguments_of(self, tool_id: str) -> SecretFields:  # noqa: ARG002 - the port
        """No event is sent, so that nothing has to be masked."""
        return SecretFields()

    async def is_under_way(self, tool_id: str, context: CallContext) -> bool:  # noqa: ARG002 - the port
        """False: nothing runs in a replay."""
        return False

    def end_run(self) -> None:
        """Nothing was opened."""

    def now(self) -> str:
        """No token expires in a replay: it expired when it did, which is recorded."""
        return ""

    def start_call(
        self, tool_id: str, arguments: Mapping[str, Any], context: CallContext
    ) -> Awaitable[Outcome]:
        """The outcome of the first open call."""
        return self.call(tool_id, arguments, context)

    async def call(
        self,
        tool_id: str,
        arguments: Mapping[str, Any],  # noqa: ARG002
        context: CallContext,
    ) -> Outcome:
        """The outcome of the first open call.

        Raises:
            ReplayEnded: The call was not made then, was blocked, or would wait for a person now.
        """
        course = self._course
        course.require_open()
        text = self._recorded_text(tool_id, "is called")
        course.catch_up()
        if isinstance(text, Pending):
            self._require_still_asked(tool_id, text, context)
            return text
        # Every call adds one message, so that its place in the conversation tells which
        # of the recorded ones it is.
        place = len(course.state.messages)
        if place in course.recording.results:
            self._require_not_newly_asked(tool_id, context)
            return Done(trace_id=context.trace_id, result=course.result_at(place))
        # Only results are in the ledger. Hooks tell failures from results, and so they
        # must be failures again.
        failed = _failure_in(text, context)
        if failed is None:
            course.differ(
                "call",
                f"{tool_id} was not called: a plugin gave its result",
                f"{tool_id} is called",
            )
        if failed.code in _AFTER_APPROVAL:
            self._require_not_newly_asked(tool_id, context)
        return failed

    async def clarify(
        self,
        tool_id: str,
        arguments: Mapping[str, Any],  # noqa: ARG002 - the port
        question: str,  # noqa: ARG002 - as above
        context: CallContext,
    ) -> str | Pending | Failed:
        """The recorded answer of the person.

        Raises:
            ReplayEnded: No person was asked then.
        """
        after = f"a person is asked about {tool_id}"
        text = self._recorded_text(tool_id, "is asked about")
        if isinstance(text, Pending):
            return text
        if text.startswith(PERSON_SAYS):
            return text.removeprefix(PERSON_SAYS)
        failed = _failure_in(text, context)
        # Such a call went back to the model, and no person was asked.
        if failed is None or text.startswith(GIVEN_BACK[0]):
            self._course.differ("call", f"no person was asked about {tool_id}", after)
        return failed

    async def deny(self, tool_id: str, reason: str, context: CallContext) -> Failed:
        """The call is not made, as then.

        Raises:
            ReplayEnded: It was made then.
        """
        course = self._course
        place = len(course.state.messages)
        after = f"{tool_id} is blocked: {reason}"
        if place >= len(course.stretch.messages):
            # The run was interrupted before this call had an outcome.
            if course.stretch.pending is None:
                course.stop()
            course.differ(
                "call",
                f"{tool_id} had to wait: {course.stretch.pending.message}",
                after,
            )
        if not self._was_blocked(place):
            before = "called" if place in course.recording.results else "not blocked"
            course.differ("call", f"{tool_id} was {before}", after)
        return Failed(
            trace_id=context.trace_id,
            code=FailureCode.FORBIDDEN_ACTION,
            message=reason,
            remedy="",
        )

    def _recorded_text(self, tool_id: str, now: str) -> str | Pending:
        """The text that the model read of the first open call, or the action that the call had to wait for.

        Raises:
            ReplayEnded: The call had no outcome.
        """
        course = self._course
        place = len(course.state.messages)
        messages = course.stretch.messages
        pending = course.stretch.pending
        if place >= len(messages):
            if pending is not None:
                return pending
            course.stop_where_the_recording_ends(f"{tool_id} {now}")
        # The recorded run ended without this call, so it has no outcome to replay.
        if messages[place].text == NOT_MADE:
            course.stop_where_the_recording_ends(f"{tool_id} {now}")
        if self._was_blocked(place):
            course.differ(
                "call",
                f"{tool_id} was blocked: {messages[place].text}",
                f"{tool_id} {now}",
            )
        return messages[place].text

    def _was_blocked(self, place: int) -> bool:
        """True if the run ended because this call was blocked: those after it were not made."""
        stretch = self._course.stretch
        end = stretch.termination
        messages = stretch.messages
        is_end = end is not None and end.reason == "blocked"
        return is_end and all(
            message.text == NOT_MADE for message in messages[place + 1 :]
        )

    def _require_not_newly_asked(self, tool_id: str, context: CallContext) -> None:
        course = self._course
        call = course.state.open_calls[0]
        if (
            context.approval_reason
            and (call.name, call.arguments) not in course.recording.waited
        ):
            after = f"{tool_id} has to wait for an approval: {context.approval_reason}"
            course.differ("call", f"{tool_id} was called without asking", after)

    def _require_still_asked(
        self, tool_id: str, pending: Pending, context: CallContext
    ) -> None:
        """See that what asked then asks now; a tool may also ask by its own rules, which give no reason."""
        if pending.type != "APPROVAL" or context.approval_reason:
            return
        # Only the message tells who asked: a permission rule or a plugin adds its
        # reason after the classification.
        _, is_about_it, rest = pending.message.partition(f" asks to call {tool_id} (")
        if is_about_it and "): " in rest:
            self._course.differ(
                "call",
                f"{tool_id} had to wait: {pending.message}",
                f"{tool_id} is called",
            )


def _failure_in(text: str, context: CallContext) -> Failed | None:
    """The failure that a model read of; None if it read of something else."""
    fail = partial(Failed, trace_id=context.trace_id, remedy="")
    before, after = GIVEN_BACK
    if text.startswith(before):
        faults = text.removeprefix(before).removesuffix(after)
        return fail(
            code=FailureCode.INPUT_VALIDATION_FAILED, message="", details=(faults,)
        )
    if text.startswith(PERSON_SAYS):
        # The call came to the person by arguments that do not fit: which ones is not
        # kept.
        return fail(
            code=FailureCode.INPUT_VALIDATION_FAILED, message="", details=("as then",)
        )
    try:
        failure = msgspec.json.decode(text, type=dict[str, str])
        details = (failure["details"],) if "details" in failure else ()
        return fail(
            code=FailureCode(failure["error"]),
            message=failure["message"],
            details=details,
        )
    except (KeyError, ValueError):
        return None
