"""MCP tasks: a call that starts a run is answered with the id of the run, and the client asks for the run later.

This is the extension `io.modelcontextprotocol/tasks` of 2026-07-28. A task is a run in the state, and nothing else is
kept of it: any process of the project answers for it, also after a restart. Only the caller who started a run finds it;
the run of another caller looks like one that is not there. What goes on with a run, and what returns its end, is a call
of the same tool through the registry.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from msgspec import structs

from agent_resolver.core.approval import refuse_words
from agent_resolver.core.authorization import (
    is_cleared,
    is_expired,
    is_same_caller,
    may_use,
)
from agent_resolver.engine.runs import MAX_RUN_ID
from agent_resolver.registry.inbox import MAX_WORDS
from agent_resolver.registry.registry import ToolRegistry
from agent_resolver.registry.tool import CallContext, RunHandle
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.outcome import Done, Failed, FailureCode, Outcome
from agent_resolver.schema.pending import PendingAction
from agent_resolver.schema.state import FINISHED, RUNS, Run
from agent_resolver.server.call_result import make_result
from agent_resolver.server.protocol_revision import is_modern
from agent_resolver.server.run_tool import RUN_AGENT
from agent_resolver.server.task_run import TaskRun, TaskRuns
from agent_resolver.storage.port import Store
from agent_resolver.storage.run_listing import ListedRun, look_at_run

Context = ServerRequestContext[Any, Any]

EXTENSION: Final = "io.modelcontextprotocol/tasks"
PENDING_KEY: Final = "agent-resolver/pending"
_ANSWER_TOOL: Final = "inbox_answer"
_POLL_MS: Final = 1_000
_POLL_PERSON_MS: Final = 5_000
"""People take longer than runs."""
_MOST_RESPONSES: Final = 100
_OF_THE_RUN: Final = frozenset(
    {FailureCode.TOOL_ERROR, FailureCode.OUTPUT_VALIDATION_FAILED}
)
"""Failures that are the end of a run. Any other one says that its end cannot be returned now."""
_REQUIRED: Final[dict[str, Any]] = {
    "requiredCapabilities": {"extensions": {EXTENSION: {}}}
}


class UpdateTaskRequestParams(types.RequestParams):
    """The parameters of tasks/update."""

    task_id: str
    input_responses: dict[str, Any]


class Tasks:
    """Answers tasks/get, tasks/update and tasks/cancel, and starts calls as tasks."""

    def __init__(
        self,
        registry: ToolRegistry,
        store: Store,
        context: CallContext,
        caller_of: Callable[[Context], Caller],
        runs: Mapping[str, TaskRuns],
    ) -> None:
        """Tasks over the runs of a state.

        Args:
            registry: The registry, whose calls start runs and go on with them.
            store: The state.
            context: What calls of this server have in common.
            caller_of: Finds the caller of a request.
            runs: The runs that can be tasks, by their kind.
        """
        self._registry = registry
        self._store = store
        self._context = context
        self._caller_of = caller_of
        self._runs = runs
        self._ending = asyncio.Event()
        self._going_on: dict[str, asyncio.Future[Outcome]] = {}
        """The calls that go on with a run in this process."""

    def stop(self) -> None:
        """Let agents' runs be interrupted: this server ends, and another process goes on with them."""
        self._ending.set()

    # Starting -------------------------------------------------------------------------

    def handle_for(self, ctx: Context, tool: Descriptor | None) -> RunHandle | None:
        """A handle if a call of this tool starts a run, and the client can take a task for its result."""
        if tool is not None and starts_run(tool) and _has_extension(ctx):
            return RunHandle()
        return None

    def left_alone(self, context: CallContext, handle: RunHandle) -> CallContext:
        """The context of a call that its caller does not wait for; the extension has no progress for such calls."""
        quiet = CallContext.for_caller(context.caller).progress
        return structs.replace(
            context, handle=handle, given_up=self._ending, progress=quiet
        )

    async def created(self, run: str) -> dict[str, Any]:
        """The answer to a call whose run the state has."""
        row = await self._store.read(lambda snapshot: snapshot.get(RUNS, run))
        if row is None:
            raise _unknown_task()
        return {
            "resultType": "task",
            **_task_of(row, "working", f"Run {run} of {row.agent}"),
        }

    # Asking ---------------------------------------------------------------------------

    async def get(
        self, ctx: Context, params: types.GetTaskRequestParams
    ) -> dict[str, Any]:
        """The state of a task, with its result once it has ended.

        A run that can go on, and that no process has, goes on here.
        """
        caller = self._require_caller(ctx, "tasks/get")
        listed, run = await self._own_run(params.task_id, caller)
        row = listed.row
        if row.status == "cancelled":
            return _task_of(row, "cancelled", "The run was cancelled")
        if row.status in FINISHED:
            outcome = await self._registry.call(
                run.tool, run.arguments, self._context_of(run, row.id, caller)
            )
            return {
                **_task_of(row, "completed", row.status),
                "result": _result_of(outcome),
            }
        if run.question is not None:
            return self._input_required(ctx, row, run, run.question, caller)
        if run.is_due:
            self._go_on(row.id, run, caller)
        ending = "; is to end" if row.status == "cancelling" else ""
        return _task_of(row, "working", f"{run.message}{ending}")

    def _input_required(
        self,
        ctx: Context,
        row: Run,
        run: TaskRun,
        question: PendingAction,
        caller: Caller,
    ) -> dict[str, Any]:
        """A task that waits for a person. The client is asked only what its caller may answer, and where it can."""
        asked = {}
        if _can_ask(ctx) and self._may_answer(question, caller):
            asked[question.id] = _elicitation(question)
        command = "approve" if question.type == "APPROVAL" else "answer"
        message = f"{question.type}_REQUIRED: {question.message}"
        task = _task_of(row, "input_required", message, poll_ms=_POLL_PERSON_MS)
        known = {
            "id": question.id,
            "type": question.type,
            "subject": question.subject,
            "traceId": run.trace_id,
            "remedy": f"`agent inbox {command} {question.id}`",
            "expiresAt": question.expires_at,
        }
        return {**task, "inputRequests": asked, "_meta": {PENDING_KEY: known}}

    def _may_answer(self, question: PendingAction, caller: Caller) -> bool:
        """True if the inbox is served, and would take an answer in words from this caller."""
        tool = self._registry.get(_ANSWER_TOOL)
        is_open = tool is not None and may_use(tool.rules, caller)
        return is_open and refuse_words(question, caller, self._registry.now()) is None

    # Changing -------------------------------------------------------------------------

    async def update(
        self, ctx: Context, params: UpdateTaskRequestParams
    ) -> dict[str, Any]:
        """Answer the question that a task waits for, through the inbox; responses to anything else are ignored."""
        caller = self._require_caller(ctx, "tasks/update")
        if len(params.input_responses) > _MOST_RESPONSES:
            raise MCPError(
                types.INVALID_PARAMS,
                f"At most {_MOST_RESPONSES} responses are taken at once",
            )
        listed, run = await self._own_run(params.task_id, caller)
        question = run.question
        if question is None:
            return {}
        words = _words_of(params.input_responses.get(question.id))
        if words is None or not self._may_answer(question, caller):
            return {}
        context = structs.replace(
            self._context,
            trace_id=run.trace_id,
            caller=caller,
            connection="tasks/update",
        )
        answered = await self._registry.call(
            _ANSWER_TOOL, {"id": question.id, "text": words}, context
        )
        if not isinstance(answered, Done):
            raise MCPError(
                types.INVALID_PARAMS, f"The answer was not taken: {answered.message}"
            )
        _, run = await self._own_run(listed.row.id, caller)
        if run.is_due:
            self._go_on(listed.row.id, run, caller)
        return {}

    async def cancel(
        self, ctx: Context, params: types.CancelTaskRequestParams
    ) -> dict[str, Any]:
        """Ask for the end of a task. One that has ended stays as it is."""
        caller = self._require_caller(ctx, "tasks/cancel")
        listed, run = await self._own_run(params.task_id, caller)
        row = listed.row
        if row.status not in FINISHED:
            context = structs.replace(
                self._context, trace_id=run.trace_id, caller=caller
            )
            await self._runs[row.kind].cancel(row.id, context)
            listed, run = await self._own_run(row.id, caller)
            # What a blueprint did is taken back, which a process has to do.
            if run.is_due and listed.row.status not in FINISHED:
                self._go_on(row.id, run, caller)
        return {}

    def _go_on(
        self,
        run_id: str,
        run: TaskRun,
        caller: Caller,
    ) -> None:
        """Let a run go on in this process, unless a call here does so already; no client waits for it."""
        if run_id in self._going_on or self._ending.is_set():
            return
        context = self._context_of(run, run_id, caller)
        calling = self._registry.start_call(run.tool, run.arguments, context)
        self._going_on[run_id] = calling
        calling.add_done_callback(lambda ended: self._forget(run_id, ended))

    def _forget(self, run_id: str, ended: "asyncio.Future[Outcome]") -> None:
        self._going_on.pop(run_id, None)
        # The outcome is in the state; an exception was recorded by the pipeline.
        if not ended.cancelled():
            ended.exception()

    # Who may --------------------------------------------------------------------------

    def _require_caller(self, ctx: Context, method: str) -> Caller:
        """The caller of a request, where the revision and the client have the extension."""
        if not is_modern(ctx):
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", method)
        if not _has_extension(ctx):
            raise MCPError(
                types.MISSING_REQUIRED_CLIENT_CAPABILITY,
                "Missing required client capability",
                _REQUIRED,
            )
        caller = self._caller_of(ctx)
        if is_expired(caller, self._registry.now()):
            raise MCPError(
                types.INVALID_REQUEST, f"The token of {caller.id} has expired"
            )
        return caller

    async def _own_run(self, run_id: str, caller: Caller) -> tuple[ListedRun, TaskRun]:
        """A run that the caller started, and may still use.

        Raises:
            MCPError: There is none; it does not say whether another caller has one.
        """
        listed = None
        if 0 < len(run_id) <= MAX_RUN_ID:
            listed = await look_at_run(self._store, time.time(), run_id)
        if listed is None or not self._is_task(listed.row):
            raise _unknown_task()
        run = await self._runs[listed.row.kind].look(listed)
        # The sealed starter decides, never the row.
        if (
            run is None
            or not is_same_caller(run.starter, caller)
            or not self._is_open_to(run, caller)
        ):
            raise _unknown_task()
        return listed, run

    def _is_open_to(self, run: TaskRun, caller: Caller) -> bool:
        """True if the caller could make the call today: a token may have fewer rights than the one before."""
        tool = self._registry.get(run.tool)
        is_usable = tool is None or may_use(tool.rules, caller)
        return is_usable and is_cleared(caller, run.classification)

    def _is_task(self, row: Run) -> bool:
        # A part of another run was started by that run, and not by a call of the
        # client.
        return row.kind in self._runs and not row.parent

    def _context_of(
        self,
        run: TaskRun,
        run_id: str,
        caller: Caller,
    ) -> CallContext:
        context = structs.replace(
            self._context, trace_id=run.trace_id, caller=caller, connection="tasks"
        )
        return self.left_alone(context, RunHandle(run_id))


def starts_run(tool: Descriptor) -> bool:
    """True for a tool whose work is a run that the state keeps."""
    return tool.labels.kind == "BLUEPRINT" or tool.id == RUN_AGENT


async def run_or_outcome(
    calling: "asyncio.Future[Outcome]", handle: RunHandle
) -> str | None:
    """The id of the run that a call has started; None if the call came to its outcome without one."""
    kept = asyncio.ensure_future(handle.kept())
    try:
        waiting: list[asyncio.Future[Any]] = [calling, kept]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        return kept.result() if kept.done() else None
    finally:
        kept.cancel()


def _has_extension(ctx: Context) -> bool:
    declared = ctx.session.client_capabilities
    return (
        is_modern(ctx)
        and declared is not None
        and EXTENSION in (declared.extensions or {})
    )


def _can_ask(ctx: Context) -> bool:
    declared = ctx.session.client_capabilities
    return declared is not None and declared.elicitation is not None


def _task_of(
    row: Run,
    status: str,
    message: str,
    poll_ms: int = _POLL_MS,
) -> dict[str, Any]:
    return {
        "taskId": row.id,
        "status": status,
        "statusMessage": message,
        "createdAt": row.started_at,
        "lastUpdatedAt": row.changed_at,
        # A run is kept until an operator prunes the state.
        "ttlMs": None,
        "pollIntervalMs": poll_ms,
    }


def _result_of(outcome: Outcome) -> dict[str, Any]:
    """The result of the call that the task was.

    Raises:
        MCPError: It cannot be returned now: the tool is gone, or the state cannot be read.
    """
    if isinstance(outcome, Done) or (
        isinstance(outcome, Failed) and outcome.code in _OF_THE_RUN
    ):
        result = make_result(outcome, None, "")
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)
    raise MCPError(
        types.INTERNAL_ERROR,
        f"The result cannot be returned: {outcome.code}: {outcome.message}",
    )


def _elicitation(question: PendingAction) -> dict[str, Any]:
    answer = {
        "type": "string",
        "title": "Answer",
        "minLength": 1,
        "maxLength": MAX_WORDS,
    }
    schema = {
        "type": "object",
        "properties": {"answer": answer},
        "required": ["answer"],
    }
    params = {"mode": "form", "message": question.message, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def _words_of(response: object) -> str | None:
    """The words of a response that accepts; None for any other."""
    try:
        given = msgspec.convert(response, dict[str, Any])
        content = msgspec.convert(given.get("content"), dict[str, str])
    except msgspec.ValidationError:
        return None
    words = content.get("answer", "")
    if given.get("action") == "accept" and words:
        return words
    return None


def _unknown_task() -> MCPError:
    return MCPError(types.INVALID_PARAMS, "Task not found")
