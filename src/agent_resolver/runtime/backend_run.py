"""A run that a backend carries out elsewhere."""

import asyncio
from contextlib import suppress

from agent_resolver.runtime.backend import ExecutionBackend
from agent_resolver.runtime.event import RunEvent, Sink
from agent_resolver.runtime.loop.foreign_code import is_being_cancelled, settle
from agent_resolver.runtime.patience import Patience
from agent_resolver.runtime.plan import ResolvedBackendAgent
from agent_resolver.runtime.run import RunRequest, RunResult, RunState, Termination
from agent_resolver.schema.foreign_error import describe_exception


class BackendRun:
    """One run on a backend, from its start to its end."""

    def __init__(
        self,
        backend: ExecutionBackend,
        agent: ResolvedBackendAgent,
        request: RunRequest,
        patience: Patience,
    ) -> None:
        self._backend = backend
        self._agent = agent
        self._request = request
        self._patience = patience
        self._budget = agent.spec.budget.narrowed_by(request.budget)
        # A deadline without a time: `cancel` and the budget of seconds move it.
        self._scope = asyncio.timeout(None)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        """End the run as cancelled, from any thread; its backend is asked to abort it."""
        self._is_cancelled = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._leave_scope)

    def interrupt(self) -> None:
        """End the run as cancelled: what a backend runs cannot be taken up again here."""
        self.cancel()

    def _leave_scope(self) -> None:
        # A run that is about to end has left its scope, or is leaving it.
        with suppress(RuntimeError):
            self._scope.reschedule(asyncio.get_running_loop().time())

    async def execute(self, sink: Sink | None, *, is_delegate: bool) -> RunResult:
        """Let the backend run it. One that raises, or gives anything but a result, has failed.

        Raises:
            asyncio.CancelledError: The task that runs it was cancelled.
        """
        self._loop = asyncio.get_running_loop()
        try:
            async with self._scope:
                if self._budget.max_seconds is not None:
                    self._scope.reschedule(self._loop.time() + self._budget.max_seconds)
                result: object = await self._executed(
                    sink or _ignore, is_delegate=is_delegate
                )
        except asyncio.CancelledError as error:
            if not is_being_cancelled():
                return self._failed(error)
            # The backend could go on by itself, so it is asked to stop before the
            # cancellation passes on.
            await self._abort()
            raise
        except TimeoutError as error:
            if not self._scope.expired():
                return self._failed(error)
            await self._abort()
            return self._ended(self._at_deadline())
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a backend is code of others
            return self._failed(error)
        if isinstance(result, RunResult):
            return result
        return self._failed(
            TypeError(f"it gave a `{type(result).__name__}`, not a RunResult")
        )

    async def _executed(self, sink: Sink, *, is_delegate: bool) -> RunResult:
        if is_delegate:
            return await self._backend.execute_delegate(
                self._request, self._agent.limits, sink
            )
        return await self._backend.execute_root(self._request, sink)

    async def _abort(self) -> None:
        # The run ends as it does, whether or not its backend can stop.
        with suppress(Exception):
            await settle(
                self._backend.abort(self._request.run_id),
                self._patience.closing_seconds,
            )

    def _at_deadline(self) -> Termination:
        if self._is_cancelled:
            return Termination(reason="cancelled", message="The run was cancelled")
        message = f"The budget of {self._budget.max_seconds:g} s is used up"
        return Termination(reason="stopped", code="budget_seconds", message=message)

    def _failed(self, error: BaseException) -> RunResult:
        message = f"backend {self._agent.endpoint.backend} failed: {describe_exception(error)}"
        return self._ended(
            Termination(reason="error", code="backend_failed", message=message)
        )

    def _ended(self, termination: Termination) -> RunResult:
        """A result without an answer; what the backend used until then is not known."""
        request = self._request
        # Without a result of the backend, the state of the beginning is all that is
        # known.
        state = request.resume or RunState(
            run=request.run_id,
            trace_id=request.trace_id,
            agent_id=request.agent_id,
            plan="",
            messages=list(request.messages),
        )
        return RunResult(
            run=state.run,
            agent_id=state.agent_id,
            plan=state.plan,
            termination=termination,
            text="",
            rounds=state.round,
            usage=state.usage,
            cost=None,
            state=state,
        )


def _ignore(event: RunEvent) -> None:
    """Take an event that no one asked for."""
