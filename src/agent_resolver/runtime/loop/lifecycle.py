"""Starts a run, closes in reverse order what it opened, and says how it ended."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

from msgspec import Struct, structs

from agent_resolver.registry.call import place_of
from agent_resolver.registry.pending_actions import TooManyQuestions
from agent_resolver.registry.tool import CallContext
from agent_resolver.registry.worker_identity import WorkerIdentity
from agent_resolver.runtime.errors import StateFailure
from agent_resolver.runtime.event import (
    HandlerFailed,
    PlanWarned,
    RunEnded,
    RunStarted,
    Sink,
)
from agent_resolver.runtime.journal.journal import RunJournal
from agent_resolver.runtime.loop.call_port import CallPort
from agent_resolver.runtime.loop.calling import INTERRUPTED_HERE, cancelled, ended
from agent_resolver.runtime.loop.emitter import Emitter, SinkFailed
from agent_resolver.runtime.loop.foreign_code import is_being_cancelled, settle
from agent_resolver.runtime.loop.journaling import JournalFailed, note_end
from agent_resolver.runtime.loop.live_run import LiveRun
from agent_resolver.runtime.loop.phase import run_phase
from agent_resolver.runtime.loop.rounds import run_rounds
from agent_resolver.runtime.loop.sound_answer import RequestRefused
from agent_resolver.runtime.mention import Definitions
from agent_resolver.runtime.patience import Patience
from agent_resolver.runtime.plan import ResolvedAgent
from agent_resolver.runtime.plugin import ActivePlugin
from agent_resolver.runtime.run import (
    RunRequest,
    RunResult,
    RunState,
    Termination,
    close_calls,
    is_resumable,
    spent,
)
from agent_resolver.runtime.state_key import KeyValues
from agent_resolver.schema.foreign_error import describe_exception
from agent_resolver.schema.outcome import Pending
from agent_resolver.storage.joint_writer import WriteStopped
from agent_resolver.telemetry.ending import ReasoningEnd

_TASK_CANCELLED: Final = Termination(
    reason="cancelled", message="The task of the run was cancelled"
)


class Start(Struct, frozen=True, kw_only=True):
    """What a run starts from, once all of it is known to be sound."""

    agent: ResolvedAgent
    request: RunRequest
    state: RunState
    registry: CallPort
    context: CallContext
    sink: Sink | None = None
    journal: RunJournal | None = None
    patience: Patience = Patience()
    definitions: Definitions | None = None
    clock: Callable[[], float] = time.monotonic
    worker: WorkerIdentity | None = None


class Cancellable(Protocol):
    """A run that can be ended from outside."""

    def cancel(self) -> None:
        """End it as cancelled."""
        ...

    def interrupt(self) -> None:
        """Stop it here: it can be taken up again later."""
        ...


class PluginState:
    """The state of a run as one plugin sees it when it starts or ends its part."""

    def __init__(self, plugin: str, values: KeyValues) -> None:
        self._plugin = plugin
        self._values = values

    def get(self, key: str) -> Any:  # noqa: ANN401 - a JSON value
        """The value of a key; None for one that is not registered."""
        return self._values.current.get(key)

    def update(self, key: str, value: Any) -> None:  # noqa: ANN401 - a JSON value
        """Update a key by its rule.

        Raises:
            StateFailure: It is not registered, or the value does not fit its rule.
        """
        self._values.update(self._plugin, {key: value})


class Lifecycle:
    """One run, from its start to its end."""

    __slots__ = (
        "_active",
        "_has_started",
        "_is_end_recorded",
        "_is_end_sent",
        "_loop",
        "_scope",
        "delegates",
        "run",
    )

    def __init__(self, start: Start) -> None:
        emitter = Emitter(start.sink, start.state.run, start.patience.sink_seconds)
        self.run = LiveRun(
            agent=start.agent,
            request=start.request,
            state=start.state,
            registry=start.registry,
            context=start.context,
            emitter=emitter,
            patience=start.patience,
            journal=start.journal,
            clock=start.clock,
            worker=start.worker,
            definitions=start.definitions,
        )
        self.delegates: tuple[Cancellable, ...] = ()
        """The runs of agents that this one delegates to now."""
        self._active = 0
        """The number of plugins, the first ones of the plan, that started their parts and did not end them yet."""
        # A deadline without a time: `cancel` and the budget of seconds move it.
        self._scope = asyncio.timeout(None)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_started = False
        self._is_end_recorded = False
        self._is_end_sent = False

    def cancel(self) -> None:
        """End the run as cancelled, at the next point where it waits for something; from any thread."""
        self.run.is_cancelled = True
        # Before `execute` there is no loop to wake: the flag ends the run before its
        # first question.
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._leave_scope)

    def interrupt(self) -> None:
        """Stop the run here. One that has a journal can be taken up again; any other is cancelled."""
        self.run.is_interrupted = self.run.journal is not None
        self.cancel()

    def hand_over(self) -> None:
        """Stop the run before its next question or call, so that another process can take it up."""
        if self.run.journal is not None:
            self.run.is_interrupted = self.run.is_cancelled = True

    def lose(self) -> None:
        """Stop the run here: another process has taken it up, and nothing of it may be written any longer."""
        self.run.is_journal_lost = True
        self.cancel()

    def _leave_scope(self) -> None:
        # A run that is about to end has left its scope, or is leaving it.
        with suppress(RuntimeError):
            self._scope.reschedule(asyncio.get_running_loop().time())

    async def execute(self) -> RunResult:
        """Run it. However it ends, its plugins end their parts, and its last event is sent.

        Raises:
            asyncio.CancelledError: The task that runs it was cancelled.
        """
        self._loop = asyncio.get_running_loop()
        run = self.run
        telemetry = self.run.telemetry
        span = None
        if telemetry is not None:
            span = telemetry.begin_run(run.spec.id, run.classification, run.context)
            # What the run asks and calls belongs below it in the trace.
            run.context = structs.replace(
                run.context, parent=telemetry.traceparent(span)
            )
        # Holds if even the first step is cancelled: every way out of the block has a
        # termination.
        termination = _TASK_CANCELLED
        try:
            termination = await self._guarded(self._begin)
            while termination.reason == "suspended" and _has_put_off_question(run):
                termination = await self._wait_for_question(termination)
            return await self._close(termination)
        except asyncio.CancelledError:
            if termination is _TASK_CANCELLED:
                # The task of the caller is cancelled. A run that is kept does not end
                # for that: it can go on later.
                run.is_interrupted = run.journal is not None
                termination = INTERRUPTED_HERE if run.is_interrupted else termination
            # Plugins end their parts even now; the cancellation is passed on after
            # that.
            await self._close_despite_cancellation(termination)
            raise
        finally:
            run.emitter.close()
            if telemetry is not None:
                telemetry.end_reasoning(span, _span_end(run, termination))

    async def _begin(self) -> Termination:
        """Start all that belongs to the run, and run its rounds."""
        await self._announce()
        await self._activate()
        # Only a run whose plugins have all started has a phase `run_end`.
        self._has_started = True
        start = await run_phase(self.run, "run_start")
        return ended(start.end) or await run_rounds(self.run)

    async def _wait_for_question(self, waiting: Termination) -> Termination:
        """Write down that the run waits for a person, together with the question, which was put off until here.

        Nothing watches a run that puts its question off, and none of its plugins has a part in its end: so this can
        come before the plugins end their parts, while the run can still go on.
        """
        run = self.run
        if end := cancelled(run):
            return end
        try:
            await note_end(run, result_of(run.save(), waiting, run.pending))
        except TooManyQuestions:
            # Other processes have asked for the same caller meanwhile. The call is made
            # again, and reports that.
            run.pending = None
            return await self._guarded(partial(run_rounds, run))
        except JournalFailed as failure:
            return Termination(reason="error", code=failure.code, message=str(failure))
        except WriteStopped as error:
            return self._stopped_by(error)
        # The end is in the journal together with the question, so `_send_end` must not
        # write it again.
        self._is_end_recorded = True
        return waiting

    async def _guarded(self, work: Callable[[], Awaitable[Termination]]) -> Termination:
        """The end of the run: whatever happens in it becomes a termination."""
        run = self.run
        # A timeout can be entered only once, and a run comes here again after a
        # question that could not be asked.
        self._scope = asyncio.timeout(None)
        try:
            async with self._scope:
                # Earlier stretches have used a part of the budget, so only the rest of
                # it is left.
                if run.budget.max_seconds is not None:
                    left = max(0.0, run.budget.max_seconds - run.seconds)
                    self._scope.reschedule(asyncio.get_running_loop().time() + left)
                return await work()
        except asyncio.CancelledError as error:
            # Without a request to cancel this task, the exception was raised by code of
            # others: that is a fault.
            if is_being_cancelled():
                raise
            return _internal_error(error)
        except SinkFailed as failure:
            return Termination(
                reason="cancelled", code=failure.code, message=str(failure)
            )
        except (StateFailure, RequestRefused, JournalFailed) as failure:
            return Termination(reason="error", code=failure.code, message=str(failure))
        except (TimeoutError, WriteStopped) as error:
            return self._stopped_by(error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a run ends in a defined state, whatever went wrong
            return _internal_error(error)

    def _stopped_by(self, error: TimeoutError | WriteStopped) -> Termination:
        if isinstance(error, WriteStopped):
            # Another process asked for the end of the run, which was found before a
            # call started.
            self.run.is_cancelled = True
        elif not self._scope.expired():
            return _internal_error(error)
        # The scope also expires when the run is cancelled, and that reason comes before
        # the budget.
        if end := cancelled(self.run):
            return end
        message = f"The budget of {self.run.budget.max_seconds:g} s is used up"
        return Termination(reason="stopped", code="budget_seconds", message=message)

    async def _announce(self) -> None:
        run = self.run
        if not run.emitter.is_heard:
            return
        agent = run.agent
        state = run.state
        await run.emitter.send(
            RunStarted,
            run.round,
            agent=agent.spec.id,
            plan=state.plan,
            lock=run.context.lock,
            model=agent.model.id,
            trace_id=state.trace_id,
            is_resumed=run.request.resume is not None,
        )
        for warning in agent.warnings:
            await run.emitter.send(
                PlanWarned,
                run.round,
                code=warning.code.value,
                subject=warning.subject,
                message=warning.message,
            )

    # Plugins --------------------------------------------------------------------------

    async def _activate(self) -> None:
        """Let each plugin start its part, in order.

        Raises:
            StateFailure: One of them failed.
        """
        run = self.run
        patience = run.patience.hook_seconds
        for active in run.agent.env.plugins:
            state = PluginState(active.id, run.values)
            # From here on it is ended as well, also if its start fails halfway.
            self._active += 1
            try:
                await _call_if_there(active.plugin, "bind", patience, run.facts)
                await _call_if_there(
                    active.plugin, "on_activate", patience, run.spec, state
                )
            except (Exception, SystemExit) as error:
                message = (
                    f"plugin {active.id} could not start: {describe_exception(error)}"
                )
                raise StateFailure("plugin_failed", message) from error

    async def _close_despite_cancellation(self, termination: Termination) -> None:
        """Close the run though its task is being cancelled, maybe more than once while it closes.

        This ends: each time, closing goes on after the step that was interrupted.
        """
        while True:
            try:
                await self._close(termination)
            except asyncio.CancelledError:
                continue
            return

    async def _close(self, termination: Termination) -> RunResult:
        """End what was started, in reverse order, and say how the run ended."""
        run = self.run
        # Each mark is cleared before its step, so that a close which is interrupted
        # goes on with the next step.
        if self._has_started:
            self._has_started = False
            await self._run_end()
        while self._active:
            self._active -= 1
            await self._deactivate(run.agent.env.plugins[self._active])
        # A run that can go on keeps its open calls: they are made when it does.
        if not (is_resumable(termination) or run.is_interrupted):
            close_calls(run.state)
        pending = run.pending if termination.reason == "suspended" else None
        result = result_of(run.save(), termination, pending)
        await self._send_end(result)
        return result

    async def _run_end(self) -> None:
        try:
            # Hooks of the end get less time than others: the run is over, and its
            # caller waits for the result.
            await settle(
                run_phase(self.run, "run_end"), self.run.patience.closing_seconds
            )
        except Exception as error:  # noqa: BLE001 - the plugins end their parts all the same
            await self._note("", "run_end", error)

    async def _deactivate(self, active: ActivePlugin) -> None:
        state = PluginState(active.id, self.run.values)
        try:
            await _call_if_there(
                active.plugin, "on_deactivate", self.run.patience.closing_seconds, state
            )
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the other plugins end their parts all the same
            await self._note(active.id, "on_deactivate", error)

    async def _note(self, plugin: str, handler: str, error: BaseException) -> None:
        message = describe_exception(error)
        # The sink may be the very part that failed.
        with suppress(SinkFailed):
            await self.run.emitter.send(
                HandlerFailed,
                self.run.round,
                plugin=plugin,
                handler=handler,
                message=message,
            )

    async def _send_end(self, result: RunResult) -> None:
        if not self._is_end_recorded:
            # Recorded before the event: a reader who saw the end must find it in the
            # journal.
            await self._record_end(result)
            self._is_end_recorded = True
        if self._is_end_sent:
            return
        self._is_end_sent = True
        # The run has ended; if its last event is not taken, that changes nothing about
        # how.
        with suppress(SinkFailed):
            await self.run.emitter.send(
                RunEnded,
                self.run.round,
                status=result.termination.status,
                termination=result.termination,
                text=result.text,
                usage=result.usage,
                cost=result.cost,
                uncertain=spent(result.state).uncertain,
                pending=result.pending.id if result.pending else "",
            )

    async def _record_end(self, result: RunResult) -> None:
        try:
            await note_end(self.run, result)
        except JournalFailed as error:
            # The run has ended, and its caller must know how.
            await self._note("", "journal", error)


def _has_put_off_question(run: LiveRun) -> bool:
    """True if the question that the run waits for is not in the store yet."""
    return run.journal is not None and run.journal.writes.has_dependent


def _span_end(run: LiveRun, termination: Termination) -> ReasoningEnd:
    usage = spent(run.state).usage
    is_error = termination.reason in {"error", "blocked"}
    # A span has codes and numbers alone, and never words of a model or a tool.
    return ReasoningEnd(
        error=(termination.code or termination.reason) if is_error else "",
        outcome=termination.reason.upper(),
        usage=(usage.input_tokens, usage.output_tokens, usage.cached_input_tokens),
    )


async def _call_if_there(
    plugin: object, name: str, patience: float, /, *arguments: object
) -> None:
    """Call a method that a plugin may leave out; it may be plain or asynchronous."""
    method = getattr(plugin, name, None)
    if method is None:
        return
    returned = method(*arguments)
    if inspect.isawaitable(returned):
        await settle(returned, patience)


def _internal_error(error: BaseException) -> Termination:
    """The end of a run in which something broke that should not; its words may hold anything, so they are left out."""
    return Termination(
        reason="error",
        code="internal",
        message=f"{type(error).__name__}{place_of(error)}",
    )


def result_of(
    state: RunState, termination: Termination, pending: Pending | None = None
) -> RunResult:
    """The result of a run that ended in this state."""
    used = spent(state)
    # The last message may only make calls, so the newest one with words is looked for.
    spoken = (
        message.text
        for message in reversed(state.messages)
        if message.role == "assistant"
    )
    return RunResult(
        run=state.run,
        agent_id=state.agent_id,
        plan=state.plan,
        termination=termination,
        text=next((text for text in spoken if text), ""),
        rounds=state.round,
        usage=used.usage,
        cost=used.cost,
        pending=pending,
        state=state,
    )
