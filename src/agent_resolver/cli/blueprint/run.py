"""The command `agent blueprint run`."""

import argparse
import asyncio
import re
import shlex
import signal
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from agent_resolver.cli.blueprint.given_json import read_given_object
from agent_resolver.cli.blueprint.status import step_line
from agent_resolver.cli.blueprint.waiting import (
    WORKER,
    actions_of,
    next_commands,
    wait_text,
)
from agent_resolver.cli.errors import Refusal, Usage
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out_json
from agent_resolver.cli.progress import status_line
from agent_resolver.cli.tools.execution import end_on_sigterm, err_outcome
from agent_resolver.engine.port import RunView, StepView
from agent_resolver.project.engine import EngineUse, require_driver
from agent_resolver.project.identity import caller_of
from agent_resolver.project.tools import OpenTools, open_tools
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.outcome import Done, Failed, Outcome, Pending
from agent_resolver.schema.state import FINISHED, RUNS
from agent_resolver.schema.walker import suggestion

if TYPE_CHECKING:
    from agent_resolver.project.session import Session

# The exit codes by which a shell reports a process that one of these signals ended.
_INTERRUPTED: Final = 128 + signal.SIGINT
_TERMINATED: Final = 128 + signal.SIGTERM
_LOOK_SECONDS: Final = 0.3
"""Seconds between two looks at how far the run is."""
_PAUSES_PER_LOOK: Final = 10
"""How many times as long as a look the pause after it is at least."""


def run(options: argparse.Namespace) -> int:
    """Run a blueprint to its end, or until it has to wait: one call of a tool, as any other."""
    arguments = read_given_object(options.input, "--input")
    if options.trace_id is not None and not re.fullmatch(
        "[0-9a-f]{32}", options.trace_id
    ):
        raise Usage(
            "`--trace-id` has 32 hexadecimal digits",
            "the call that waits has printed it",
        )
    watcher = _Watcher(is_shown=not options.json)
    with session_of(options) as session:
        # Nothing begins that this process could not drive. A detached run is left to a
        # worker anyway.
        if not options.detach:
            require_driver(session)
        try:
            return asyncio.run(_run_to_end(session, arguments, watcher, options))
        except asyncio.CancelledError:
            # `end_on_sigterm` cancels the task, where Ctrl-C comes out of `asyncio.run`
            # as it is.
            code = _TERMINATED
        except KeyboardInterrupt:
            code = _INTERRUPTED
        _report_interruption(session, watcher.run, options)
        return code


async def _run_to_end(
    session: "Session",
    arguments: dict[str, Any],
    watcher: "_Watcher",
    options: argparse.Namespace,
) -> int:
    end_on_sigterm()
    caller = await caller_of(session, options.token_file, session.environment)
    opening = open_tools(
        session,
        caller=caller,
        # A server is connected only once a step calls one of its tools.
        is_connected=False,
        seconds=options.timeout,
        verbose=options.verbose,
        engine=EngineUse(drives=not options.detach),
    )
    async with AsyncExitStack() as stack:
        tools = await stack.enter_async_context(opening)
        _require_blueprint(tools, options.id)
        trace_id = options.trace_id or tools.context.trace_id
        context = structs.replace(tools.context, trace_id=trace_id, key=options.key)
        # The id of the run is known before the call, so that its steps can be shown
        # while it runs. A blueprint that this agent may not use has no entry here, and
        # its call begins no run.
        if (tool := tools.blueprints.get(options.id)) is not None:
            watcher.run = await tool.run_of(arguments, context)
        outcome = await _call(tools, arguments, context, watcher, options)
        view = await watcher.look(tools)
        return _report(session, outcome, view, options)


def _require_blueprint(tools: OpenTools, tool_id: str) -> None:
    """Refuse a name that is not that of a blueprint; a refused one is left to the call, which says why."""
    blueprints = [each.id for each in tools.own if each.labels.kind == "BLUEPRINT"]
    if tool_id not in blueprints:
        hint = (
            suggestion(tool_id, blueprints)
            or "`agent blueprint check` lists them; `agent tools call` calls tools"
        )
        raise Refusal(f"There is no blueprint {tool_id}", hint, "UNKNOWN_BLUEPRINT")


async def _call(
    tools: OpenTools,
    arguments: dict[str, Any],
    context: CallContext,
    watcher: "_Watcher",
    options: argparse.Namespace,
) -> Outcome:
    """Make the call, and show meanwhile how far the run is.

    A call waits for a run only for so long. One that still goes on is called again, which finds the same run.
    """
    with status_line(f"Running {options.id}", is_shown=watcher.is_shown) as status:
        while True:
            calling = asyncio.ensure_future(
                tools.registry.call(options.id, arguments, context)
            )
            pause = _LOOK_SECONDS
            # `asyncio.wait` returns the futures that are done, and leaves the call
            # alone when the pause is over.
            while not (await asyncio.wait([calling], timeout=pause))[0]:
                began = time.monotonic()
                if running := await watcher.look_at_running(tools):
                    status.text = f"Running {options.id}: {running}"
                # Most of the time belongs to the run itself, also where a look at it
                # takes long.
                pause = max(
                    _LOOK_SECONDS, _PAUSES_PER_LOOK * (time.monotonic() - began)
                )
            outcome = calling.result()
            if tools.engine is not None and tools.engine.worker.broken is not None:
                # The run has begun, and stays; nothing here can drive it.
                raise tools.engine.worker.broken
            view = await watcher.look(tools)
            if options.detach or not await _goes_on(tools, outcome, view):
                return outcome


async def _goes_on(tools: OpenTools, outcome: Outcome, view: RunView | None) -> bool:
    """True if another call would wait for more of the run."""
    if not isinstance(outcome, Pending) or view is None or tools.engine is None:
        return False
    # A run that waits for a person or a signal is left, since to call it again would
    # change nothing.
    if view.row.status not in {"running", "cancelling"}:
        return False
    # A call does not wait for a run that nothing drives: calls would follow each other
    # without a pause.
    return await tools.engine.has_driver()


class _Watcher:
    """Shows the steps of a run as they come to their end."""

    def __init__(self, *, is_shown: bool) -> None:
        self.run = ""
        self.is_shown = is_shown
        self._shown: dict[str, str] = {}
        """The state in which each step was shown."""

    async def look_at_running(self, tools: OpenTools) -> str:
        """Show what ended since the last look; the steps that run now, in words."""
        view = await self.look(tools)
        if view is None:
            return ""
        return ", ".join(step.path for step in view.steps if step.state == "running")

    async def look(self, tools: OpenTools) -> RunView | None:
        """The progress of the run; None if it has not begun."""
        view = await tools.engine.query(self.run) if tools.engine is not None else None
        if view is not None and self.is_shown:
            self._show(view.steps)
        return view

    def _show(self, steps: tuple[StepView, ...]) -> None:
        for step in steps:
            if (
                step.state in {"done", "failed", "skipped", "waiting"}
                and self._shown.get(step.path) != step.state
            ):
                self._shown[step.path] = step.state
                err(f"  {step_line(step)}")


# How it ended -------------------------------------------------------------------------


def _report(
    session: "Session",
    outcome: Outcome,
    view: RunView | None,
    options: argparse.Namespace,
) -> int:
    # A detached run is pending by its nature, which is not a failure.
    is_begun = options.detach and isinstance(outcome, Pending) and view is not None
    code = 0 if isinstance(outcome, Done) or is_begun else 1
    if options.json:
        out_json({"run": view.row.id if view else None, "outcome": outcome})
    elif isinstance(outcome, Done):
        out_json(outcome.result)
    elif view is None or view.row.status in FINISHED:
        # Where no run is under way, the outcome of the call says all there is.
        err_outcome(outcome)
    else:
        _report_unfinished(session, outcome, view, is_begun=is_begun)
    return code


def _report_unfinished(
    session: "Session", outcome: Outcome, view: RunView, *, is_begun: bool
) -> None:
    """Report a run that is still under way, and what makes it go on."""
    if isinstance(outcome, Failed):
        # The call was refused, such as one that waited for longer than its token lasts;
        # the run is not.
        err_outcome(outcome)
        err(f"hint: {WORKER} goes on with run {view.row.id}")
    elif is_begun:
        err(f"✓ Run {view.row.id} has begun")
        err(f"hint: {WORKER} drives it")
    else:
        _report_waiting(session, view)


def _report_waiting(session: "Session", view: RunView) -> None:
    actions = session.store.read_now(lambda snapshot: actions_of(snapshot, view))
    err(f"◇ Run {view.row.id} of {view.row.agent} waits")
    for waits in view.waits:
        err(f"  {waits.path} {wait_text(waits, actions)}")
    err(f"hint: {'; then '.join(next_commands(view, actions))}")


def _report_interruption(
    session: "Session", run_id: str, options: argparse.Namespace
) -> None:
    """Say how a run goes on that was interrupted; nothing of one that had not begun, or has ended."""
    if options.json or not (run_id and session.has_state):
        return
    row = session.store.read_now(lambda snapshot: snapshot.get(RUNS, run_id))
    if row is not None and row.status not in FINISHED:
        cancel = f"`agent blueprint cancel {shlex.quote(run_id)}`"
        err(f"interrupted: {WORKER} goes on with run {run_id}; {cancel} ends it")
