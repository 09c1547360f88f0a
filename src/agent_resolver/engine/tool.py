"""A blueprint as a tool: a call of it starts a run, or finds the one that the same call has started."""

import asyncio
from typing import Any, Final

from agent_resolver.engine.errors import EngineRefused
from agent_resolver.engine.port import RunResult, RunView
from agent_resolver.engine.stored import StoredEngine
from agent_resolver.registry.errors import ToolFailure, WaitsFor
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.outcome import FailureCode, Pending

_LOOK_SECONDS: Final = 0.5


def run_id_of(tool_id: str, arguments: dict[str, Any], context: CallContext) -> str:
    """The id of the run that a call starts: the same for the same call, in every process."""
    same = context.key if context.key is not None else [arguments, context.trace_id]
    return digest([context.caller.id, tool_id, same])[-32:]


class BlueprintTool:
    """A blueprint as a tool."""

    def __init__(self, engine: StoredEngine, blueprint: Blueprint, descriptor: Descriptor, *, drives: bool) -> None:
        self.descriptor = descriptor
        self._engine = engine
        self._blueprint = blueprint
        self._drives = drives

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401 - a JSON value
        """Start the run, and wait until it ends or has to wait."""
        run = run_id_of(self.descriptor.id, arguments, context)
        try:
            await self._engine.start(self._blueprint, arguments, context, run)
        except EngineRefused as refused:
            raise ToolFailure(FailureCode.INPUT_VALIDATION_FAILED, str(refused), refused.hint) from refused
        if self._drives:
            await self._drive(run, context)
        found = await self._engine.result(run, 0.0)
        if isinstance(found, RunView):
            raise WaitsFor(_pending(found, context))
        return _output(found)

    async def _drive(self, run: str, context: CallContext) -> None:
        driving = asyncio.ensure_future(self._engine.worker.drive(run))
        total = len(self._blueprint.dag.steps)
        while not (await asyncio.wait([driving], timeout=_LOOK_SECONDS))[0]:
            view = await self._engine.query(run)
            if view is not None:
                done = sum(step.state == "done" for step in view.steps)
                running = ", ".join(step.path for step in view.steps if step.state == "running")
                await context.progress(done, total, running)
        await driving


def _output(result: RunResult) -> Any:  # noqa: ANN401 - a JSON value
    if result.status == "done":
        return result.output
    step = f" in {result.step}" if result.step else ""
    known = set(FailureCode)
    code = FailureCode(result.code) if result.code in known else FailureCode.TOOL_ERROR
    message = result.message or f"The run was {result.status}"
    raise ToolFailure(code, f"{message}{step}", f"`agent blueprint history {result.run}` has all of it")


def _pending(view: RunView, context: CallContext) -> Pending:
    asked = next((each for each in view.waits if each.kind in {"action", "person"}), None)
    row = view.row
    return Pending(
        trace_id=context.trace_id,
        id=asked.id if asked else row.id,
        type="CLARIFICATION" if asked else "RUN",
        code="RUN_WAITS",
        message=f"Run {row.id} of {row.agent} waits",
        remedy=f"`agent blueprint status {row.id}` says for what",
    )
