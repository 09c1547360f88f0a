"""A blueprint as a tool: in the manifest, over MCP, and as a step of other blueprints."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from msgspec import structs

from agent_resolver.core.authorization import is_same_caller
from agent_resolver.core.blueprint.tool_rule import blueprint_rules, calls_of
from agent_resolver.core.egress import egress_hosts
from agent_resolver.engine.calling import RUN_PENDING
from agent_resolver.engine.errors import DamagedRun, EngineRefused, UnknownRun
from agent_resolver.engine.port import RunResult, RunView
from agent_resolver.engine.runs import BlueprintRuns, input_schema_of
from agent_resolver.registry.errors import ToolFailure, WaitsFor
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.blueprint_file import blueprint_digest
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.descriptor import Descriptor, Labels
from agent_resolver.schema.outcome import FailureCode, Pending
from agent_resolver.schema.pending import PendingAction
from agent_resolver.telemetry.current_span import current_traceparent

PATIENCE_SECONDS: Final = 30.0
"""How long a call waits for a run that goes on; then it is pending, and the run goes on all the same."""
_LEFT_SECONDS: Final = 5.0
"""Seconds that a call takes part in a run whose caller has left; the run goes on all the same."""
_REPORT_SECONDS: Final = 0.5
"""Seconds between two reports of how far a run is."""
_PAUSES_PER_LOOK: Final = 10
"""How many times as long as a look at a run the pause after it is at least."""
_TIMEOUT_SECONDS: Final = 3600.0
_MOST_PARTS: Final = 20
"""How deep a question is looked for in runs that wait for other runs."""

FindTool = Callable[[str], Descriptor | None]
Finish = Callable[[str, float], Awaitable[RunResult | RunView]]
"""Brings a run to its end or to its next wait, as far as that is possible within some seconds."""


class BlueprintTool:
    """Starts a run of a blueprint with each call, and returns its output."""

    def __init__(
        self,
        blueprint: Blueprint,
        runs: BlueprintRuns,
        finish: Finish,
        descriptor: Descriptor,
    ) -> None:
        """A tool.

        Args:
            blueprint: What runs.
            runs: Where its runs are kept.
            finish: `StoredEngine.finish` where this process drives runs, `BlueprintRuns.result` where it does not.
            descriptor: What `describe_blueprint` says of it.
        """
        self._blueprint = blueprint
        self._runs = runs
        self._finish = finish
        self.descriptor = descriptor

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401 - a JSON value
        """Run the blueprint; a call that is made again under its key or trace goes on with the same run.

        Raises:
            ToolFailure: The run failed, or was cancelled.
            WaitsFor: The run waits for something, or goes on for longer than a call can wait.
        """
        handle = context.handle
        known = handle.run if handle is not None else ""
        run = known or await self.run_of(arguments, context)
        try:
            if known:
                await self._require_own_run(run, arguments, context.caller)
            else:
                await self._start(run, arguments, context)
            if handle is not None:
                handle.keep(run)
            found = await self._finish_and_report(run, context)
        except EngineRefused as refused:
            raise _failure_of_engine(refused) from refused
        if isinstance(found, RunView):
            raise WaitsFor(await self._pending(found, context))
        # A caller with a handle asks for the run by its id, and does not mean another
        # one by the same call.
        if context.key is None and handle is None:
            await self._runs.mark_delivered(run)
        if found.status == "done":
            return found.output
        raise _failure(found)

    async def _start(
        self,
        run: str,
        arguments: dict[str, Any],
        context: CallContext,
    ) -> None:
        """Start a run of this id, unless the same call has started it before."""
        # The segments of the run belong below the span of this call.
        below = structs.replace(context, parent=current_traceparent() or context.parent)
        is_new = await self._runs.start(
            self._blueprint, arguments, below, run, self.descriptor.rules.classification
        )
        if not is_new:
            await self._require_same_call(run, arguments)

    async def _require_same_call(self, run: str, arguments: dict[str, Any]) -> None:
        """Refuse a key under which a run began with other arguments.

        The ledger does not know such a call while it is pending.
        """
        history = await self._runs.history(run)
        if history is not None and history.started.input != arguments:
            message = f"The key was used for another call of {self.descriptor.id}"
            raise ToolFailure(
                FailureCode.KEY_REUSED,
                message,
                f"give each call a key of its own: this is run {run}",
            )

    async def _require_own_run(
        self,
        run: str,
        arguments: dict[str, Any],
        caller: Caller,
    ) -> None:
        """Refuse to go on with a run that another caller started, or that is not one of this call."""
        history = await self._runs.history(run)
        if history is None or not is_same_caller(history.started.starter, caller):
            raise UnknownRun(run)
        is_of_tool = history.blueprint.id == self.descriptor.id
        if not is_of_tool or history.started.input != arguments:
            raise EngineRefused(
                f"Run {run} is not one of this call", f"`agent blueprint status {run}`"
            )

    async def _finish_and_report(
        self, run: str, context: CallContext
    ) -> RunResult | RunView:
        """Wait for the run, and report meanwhile how many steps are done and which ones run."""
        if context.handle is not None:
            # No caller waits here, and the same key finds the run again only once this
            # call is over.
            return await self._finish(run, min(_LEFT_SECONDS, _patience(context)))
        finishing = asyncio.ensure_future(self._finish(run, _patience(context)))
        try:
            pause = _REPORT_SECONDS
            while not (await asyncio.wait([finishing], timeout=pause))[0]:
                began = time.monotonic()
                if (view := await self._runs.query(run)) is not None:
                    await context.progress(*_progress_of(view))
                # A look at a run with large inputs takes long: most of the time belongs
                # to the run itself.
                pause = max(
                    _REPORT_SECONDS, _PAUSES_PER_LOOK * (time.monotonic() - began)
                )
            return await finishing
        finally:
            # Only the waiting ends, also where the caller has left: the run goes on.
            finishing.cancel()

    async def run_of(self, arguments: dict[str, Any], context: CallContext) -> str:
        """The id of the run that belongs to a call.

        With a key it is that of the key. Without one, the same call under the same trace is the same run, until its
        end was returned.
        """
        caller = context.caller
        tool = self.descriptor.id
        if context.key is not None:
            return digest([caller.id, caller.issuer, tool, context.key])[-32:]
        # A caller without a key may mean the same call twice: after its end was
        # returned, it is the next one.
        number = 0
        while True:
            identity = [
                caller.id,
                caller.issuer,
                tool,
                digest(arguments),
                context.trace_id,
                number,
            ]
            run = digest(identity)[-32:]
            if not await self._runs.is_delivered(run):
                return run
            number += 1

    async def _pending(self, view: RunView, context: CallContext) -> Pending:
        """The answer to the caller of a run that has not ended: the question of a person where there is one."""
        run = view.row.id
        # A run that is a step of another wakes that one when it ends.
        action = (
            None
            if view.row.parent == context.run
            else await open_question(self._runs, view)
        )
        if action is not None:
            answer = f"agent inbox approve {action.id}"
            if action.type != "APPROVAL":
                answer = f"agent inbox answer {action.id} TEXT"
            return Pending(
                trace_id=context.trace_id,
                id=action.id,
                type=action.type,
                code=f"{action.type}_REQUIRED",
                message=action.message,
                remedy=f"`{answer}`, then make the same call under the same key or trace",
                expires_at=action.expires_at,
            )
        kinds = sorted({each.kind for each in view.waits})
        reason = f"waits for a {' and a '.join(kinds)}" if kinds else "goes on"
        return Pending(
            trace_id=context.trace_id,
            id=run,
            type=RUN_PENDING,
            code="RUN_WAITS",
            message=f"Run {run} of {self.descriptor.id} {reason}",
            remedy=f"`agent blueprint status {run}`; make the same call again once it has ended",
        )


async def open_question(runs: BlueprintRuns, view: RunView) -> PendingAction | None:
    """The first open question of a run, or of the runs that it waits for."""
    waiting = list(view.waits)
    for _ in range(_MOST_PARTS):
        thing = next(
            (each for each in waiting if each.kind in {"action", "person"}), None
        )
        part = next((each for each in waiting if each.kind == "run"), None)
        if thing is not None:
            action = await runs.action(thing.id)
            return action if action is not None and action.is_open else None
        if part is None:
            return None
        inner = await runs.query(part.id)
        waiting = [] if inner is None else list(inner.waits)
    return None


def describe_blueprint(
    blueprint: Blueprint,
    find_tool: FindTool,
    source: str,
) -> Descriptor:
    """A blueprint as a tool: with the highest classification and the union of the scopes of its steps.

    Args:
        blueprint: The blueprint.
        find_tool: Finds the tools of its steps; one that is not there adds nothing, and its step fails.
        source: The file that it comes from.
    """
    metadata = blueprint.blueprint_metadata
    called = [find_tool(call.tool) for call in calls_of(blueprint)]
    tools = [tool for tool in called if tool is not None]
    domain, _, _ = blueprint.id.partition(".")
    return Descriptor(
        id=blueprint.id,
        description=metadata.description,
        input_schema=input_schema_of(blueprint),
        output_schema=blueprint.dag.output_schema or None,
        source=source,
        timeout_seconds=_TIMEOUT_SECONDS,
        rules=blueprint_rules(blueprint, {tool.id: tool for tool in tools}),
        labels=Labels(
            kind="BLUEPRINT",
            domain=domain,
            tags=tuple(dict.fromkeys((domain, *metadata.tags))),
            maintainer=metadata.maintainer,
            examples=tuple(test.input for test in blueprint.acceptance_tests),
            allow_outbound=any(
                tool.labels.allow_outbound or tool.labels.kind == "TOOL"
                for tool in tools
            ),
            hosts=_declared_hosts(tools),
        ),
        code=blueprint_digest(blueprint),
    )


def _declared_hosts(tools: Sequence[Descriptor]) -> tuple[str, ...]:
    """The hosts that tools reach together; none if the hosts of one of them are not known."""
    reached = [egress_hosts(tool, {}) for tool in tools]
    if None in reached:
        return ()
    return tuple(sorted({host for hosts in reached if hosts for host in hosts}))


def _progress_of(view: RunView) -> tuple[float, float, str]:
    """The steps that are done, of how many that are known so far, and those that run."""
    done = sum(step.state in {"done", "skipped"} for step in view.steps)
    running = ", ".join(step.path for step in view.steps if step.state == "running")
    return done, len(view.steps), running


def _patience(context: CallContext) -> float:
    # A step that lets a run work for a shorter time waits for it afterwards: the run
    # itself is not cut off.
    limit = (
        PATIENCE_SECONDS
        if context.timeout_seconds is None
        else context.timeout_seconds / 2
    )
    return min(PATIENCE_SECONDS, limit)


def _failure_of_engine(refused: EngineRefused) -> ToolFailure:
    """The failure of a call that the engine refused: its arguments are at fault, unless the journal is damaged."""
    code = FailureCode.INPUT_VALIDATION_FAILED
    if isinstance(refused, DamagedRun):
        code = FailureCode.TOOL_ERROR
    return ToolFailure(code, str(refused), refused.hint)


def _failure(ended: RunResult) -> ToolFailure:
    back = f"; taken back: {', '.join(ended.compensated)}" if ended.compensated else ""
    remedy = f"`agent blueprint history {ended.run}` shows what happened"
    if ended.status == "cancelled":
        return ToolFailure(
            FailureCode.TOOL_ERROR, f"Run {ended.run} was cancelled{back}", remedy
        )
    where = f"step {ended.step} failed with " if ended.step else ""
    return ToolFailure(
        FailureCode.TOOL_ERROR, f"{where}{ended.code}: {ended.message}{back}", remedy
    )
