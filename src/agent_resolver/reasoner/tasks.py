"""Tasks: started, resumed, cancelled and looked at. One process works on a task at a time, under a lease."""

import asyncio
import secrets as randomness
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct, structs

from agent_resolver.core.authorization import (
    acting_for,
    is_expired,
    may_read_all,
    may_see_run,
)
from agent_resolver.reasoner.artifact import Artifacts
from agent_resolver.reasoner.checkpoint import StoreSaver
from agent_resolver.reasoner.context_binder import bind_context
from agent_resolver.reasoner.errors import (
    DamagedTask,
    TaskLost,
    TaskRefused,
    TaskTaken,
    UnknownTask,
)
from agent_resolver.reasoner.evidence import gather_evidence, with_seal
from agent_resolver.reasoner.sealed_purpose import FIRST, first_purpose
from agent_resolver.reasoner.stage.hitl_resolution import GivenAnswer
from agent_resolver.reasoner.stage.request_intake import first_state
from agent_resolver.reasoner.stage_telemetry import StageTelemetry
from agent_resolver.reasoner.stage_watch import (
    StageWatch,
    TaskCancelled,
    TaskHandedOver,
)
from agent_resolver.reasoner.task_context import ReasonerPorts, TaskContext
from agent_resolver.reasoner.task_row import (
    CANCELLED,
    first_row,
    keep_task,
    row_fault,
    status_of,
    task_record,
    was_cancelled,
)
from agent_resolver.reasoner.task_view import TaskView
from agent_resolver.registry.errors import AnswerRefused
from agent_resolver.registry.inbox import Inbox
from agent_resolver.registry.port import Clock, Seal
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.audit import AuditKind
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.evidence import TaskEvidence
from agent_resolver.schema.golden_context import Environment, GoldenContext, Incident
from agent_resolver.schema.golden_path import (
    MAX_ANSWER,
    DecisionRecord,
    InvalidState,
    TaskState,
    decode_state,
    encode_state,
)
from agent_resolver.schema.pending import PendingAction
from agent_resolver.schema.state import (
    ARTIFACTS,
    FINISHED,
    PENDING,
    RUNS,
    ArtifactRow,
    Run,
)
from agent_resolver.storage.errors import LeaseLost
from agent_resolver.storage.lease import LEASE_SECONDS, claim_in, lease_name, release_in
from agent_resolver.storage.lease_keeper import LeaseKeeper
from agent_resolver.storage.port import Lease, Snapshot, Store, Transaction
from agent_resolver.storage.run_listing import look_at_run

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

    from agent_resolver.reasoner.graph import TaskGraph

_MAX_TASK_ID: Final = 64
_EXPORT_ATTEMPTS: Final = 5


class TaskRequest(Struct, frozen=True, kw_only=True):
    """The request of a person."""

    text: str
    environment: Environment = "dev"
    incident: Incident = Incident()
    trace_id: str = ""
    """The trace that the task belongs to; left out, it has one of its own."""


class TaskHome(Struct, frozen=True, kw_only=True):
    """The store of tasks, with its clocks and its inbox."""

    store: Store
    seal: Seal
    clock: Clock
    seconds: Callable[[], float]
    """The time, as leases measure it."""
    inbox: Inbox
    app_id: str
    only_verified: bool = False
    """True if an issuer must vouch for every caller."""
    telemetry: StageTelemetry | None = None
    has_keyed_trail: bool = False
    """True if the root of the audit trail takes a key to compute."""
    evidence_key: bytes = b""
    """Seals the evidence of tasks; empty where it is not sealed."""


class Tasks:
    """The tasks of a project."""

    def __init__(self, home: TaskHome, ports: ReasonerPorts | None = None) -> None:
        """The tasks that are kept in a home.

        Args:
            home: Where they are kept.
            ports: What their stages stand on; None for a process that only looks at tasks.
        """
        self._home = home
        self._ports = ports
        self._keeper = LeaseKeeper(home.store, home.seconds)
        self.is_stopping = False
        """True once the process is to end: each task is left to another one before its next stage."""

    # Starting and going on ------------------------------------------------------------

    async def start(self, request: TaskRequest, caller: Caller) -> TaskView:
        """Begin a task, and bring it to its end or to what it waits for.

        Raises:
            TaskRefused: The request or the environment cannot be used.
        """
        self._require_valid(caller)
        task = randomness.token_hex(8)
        state = first_state(
            request.text,
            task_id=task,
            trace_id=request.trace_id or randomness.token_hex(16),
            environment=request.environment,
            caller=caller,
            incident=request.incident,
        )
        # The context is bound before anything is written: a refused environment leaves
        # no task behind.
        golden = self._golden(state, caller)
        now = self._home.clock.now()
        first = self._first_artifact(state)

        def begin(transaction: Transaction) -> Lease | None:
            lease = self._claim(transaction, task)
            transaction.put(RUNS, first_row(state, now))
            # A process that ends before the first checkpoint leaves a task that can
            # begin again.
            transaction.put(ARTIFACTS, first)
            transaction.append(
                task_record(state, AuditKind.RUN_STARTED, {"kind": "task"})
            )
            return lease

        lease = await self._home.store.write(begin)
        assert lease is not None  # noqa: S101 - no other process knows the name of a task that begins
        await self._drive(state, caller, golden, lease, {"task": encode_state(state)})
        return await self._view(task)

    async def resume(
        self,
        task: str,
        caller: Caller,
        *,
        is_worker: bool = False,
    ) -> TaskView:
        """Go on with a task: with the answers that were given, or where its process ended.

        Args:
            task: The task.
            caller: The caller who lets it go on, as a token of today says.
            is_worker: True if the caller is the worker of the project, which acts for the person who asked.

        Raises:
            UnknownTask: There is no such task that concerns the caller.
            TaskTaken: Another process works on it.
            TaskRefused: It has ended.
        """
        self._require_valid(caller)
        state = await self._state(task)
        # A task of another caller is reported as unknown, so that ids cannot be probed.
        if not (is_worker or may_see_run(state.initiator, caller)):
            raise UnknownTask(task)
        # A fresh token is the only answer to a question about a claim, and it comes
        # with this very call.
        await self._home.inbox.settle_claims(caller, self._context_of(state, caller))
        if await self._still_waits(state, caller):
            return await self._view(task)
        lease = await self._take(task, state, caller)
        try:
            # Between the look and the claim another process may have brought it
            # further.
            state = await self._state(task)
            # A person with a fresh token has the rights of today; a worker adds none to
            # those of the initiator.
            acting = acting_for(state.initiator, caller)
            golden = self._golden(state, acting)
            move = await self._next_input(state, caller)
        # A cancellation gives the claim back as well; else the task would be taken
        # until its lease ran out.
        except BaseException:
            await self._home.store.release(lease)
            raise
        if move is _NOTHING_NEW:
            await self._put_back(state, lease)
        else:
            await self._drive(state, acting, golden, lease, move)
        view = await self._view(task)
        if (
            move is None
            and view.row.status == "running"
            and status_of(view.state) == "waiting"
        ):
            # The process before ended between a question and the gate. The graph waits
            # there now, and takes answers.
            return await self.resume(task, caller, is_worker=is_worker)
        return view

    async def _still_waits(self, state: TaskState, caller: Caller) -> bool:
        """True if a task waits for people, and none of them has answered: then nothing is written about it."""
        answers = [
            await self._given(action.id, state, caller) for action in state.unresolved
        ]
        return bool(answers) and not any(answers)

    async def _take(self, task: str, state: TaskState, caller: Caller) -> Lease:
        """Claim a task, and note that it goes on."""

        def take(transaction: Transaction) -> Lease | Run:
            row = transaction.get(RUNS, task)
            if row is None or row.kind != "task":
                raise UnknownTask(task)
            if row.status in FINISHED:
                return row
            # The row is not sealed, so that it could be edited to bring a cancelled
            # task back. The trail is chained.
            if was_cancelled(transaction, task):
                raise DamagedTask(
                    task,
                    f"its row says {row.status}, and the trail that it was cancelled",
                )
            lease = self._claim(transaction, task)
            if lease is None:
                raise TaskTaken(task)
            if row.status == "cancelling":
                # The process that was to hear of it is gone.
                self._end_cancelled(transaction, row, state, caller)
                release_in(transaction, lease)
                return structs.replace(row, status="cancelled")
            now = self._home.clock.now()
            transaction.put(
                RUNS,
                structs.replace(
                    row, status="running", lease=lease.number, changed_at=now
                ),
            )
            transaction.append(
                task_record(state, AuditKind.RUN_RESUMED, {"stage": row.stage}, caller)
            )
            return lease

        taken = await self._home.store.write(take)
        if isinstance(taken, Run):
            raise TaskRefused(
                f"Task {task} has ended: {taken.status}", f"`agent task show {task}`"
            )
        return taken

    async def _put_back(self, state: TaskState, lease: Lease) -> None:
        """Leave a task that still waits for what it waited for."""

        def put(transaction: Transaction) -> None:
            transaction.require(lease)
            keep_task(transaction, state, (), lease, self._home.clock.now())
            release_in(transaction, lease)

        await self._home.store.write(put)

    def _claim(self, transaction: Transaction, task: str) -> Lease | None:
        return claim_in(
            transaction,
            self._home.store,
            lease_name(task),
            self._home.seconds(),
            LEASE_SECONDS,
        )

    async def _next_input(self, state: TaskState, caller: Caller) -> Any:  # noqa: ANN401 - an input of LangGraph
        """The input that the graph goes on with: none where its process ended, else the answers for its gate."""
        from langgraph.types import Command

        graph_state = await self._graph().aget_state(_config(state))
        # The process ended before its first checkpoint, so that the task begins again
        # from its first state.
        if not graph_state.values:
            return {"task": encode_state(state)}
        # The process ended inside of a stage, which LangGraph runs again where no input
        # is given.
        if not graph_state.interrupts:
            return None
        given = [
            answer
            for action in state.unresolved
            if (answer := await self._given(action.id, state, caller))
        ]
        if state.unresolved and not given:
            return _NOTHING_NEW
        answers = [{"id": answer.id, "words": answer.words} for answer in given]
        # The answer names the interrupt that it belongs to: no other one takes it.
        return Command(resume={graph_state.interrupts[0].id: {"answers": answers}})

    async def _given(
        self,
        action_id: str,
        state: TaskState,
        caller: Caller,
    ) -> GivenAnswer | None:
        """The answer to an action; None while it is open."""
        action = await self._home.store.read(
            lambda snapshot: snapshot.get(PENDING, action_id)
        )
        if action is None:
            # It was pruned: the stage that asked finds out, and asks again.
            return GivenAnswer(action_id)
        if action.needs and action.is_open:
            # Being there is the answer, and the inbox looks for it.
            with suppress(AnswerRefused):
                action = await self._home.inbox.show(
                    action_id, self._context_of(state, caller)
                )
        if action.state(self._home.clock.now()) == "open":
            return None
        words = (
            action.answer
            if action.type == "CLARIFICATION" and not action.needs
            else None
        )
        # A person may have written more than a task takes.
        return GivenAnswer(action_id, (words or "")[:MAX_ANSWER])

    def _context_of(self, state: TaskState, caller: Caller) -> CallContext:
        return structs.replace(
            CallContext.for_caller(caller), run=state.task_id, trace_id=state.trace_id
        )

    # Driving --------------------------------------------------------------------------

    async def _drive(
        self,
        state: TaskState,
        caller: Caller,
        golden: GoldenContext,
        lease: Lease,
        move: Any,  # noqa: ANN401 - an input of LangGraph
    ) -> None:
        """Run the graph until it ends or waits, and give the lease back."""
        from langsmith import tracing_context

        from agent_resolver.reasoner.graph import TaskRun, recursion_limit

        ports = self._ports
        if ports is None:
            raise RuntimeError("these tasks can only be looked at")
        context = TaskContext(ports=ports, golden=golden, caller=caller, lease=lease)
        config = _config(state, recursion_limit(ports.limits.max_iterations))
        async with self._held(state, lease) as watch:
            graph = self._graph(lease)
            run = TaskRun(context, watch)
            # LangGraph would report to LangSmith where a variable asks for it: requests
            # stay on this machine.
            with tracing_context(enabled=False):
                # Each checkpoint is written before the next node, so that a killed
                # process repeats one stage at most.
                await graph.ainvoke(move, config, context=run, durability="sync")

    @asynccontextmanager
    async def _held(self, state: TaskState, lease: Lease) -> AsyncIterator[StageWatch]:
        """Keep the lease while the graph runs, and hear of a wish to cancel."""
        cancelled = asyncio.Event()
        lost = asyncio.Event()
        driving = asyncio.current_task()

        def lose() -> None:
            # Another process may work on the task already, so that whatever the stage
            # awaits is cancelled.
            lost.set()
            if driving is not None:
                driving.cancel()

        self._keeper.hold(state.task_id, lease, cancelled.set, lose)
        try:
            yield StageWatch(
                cancelled.is_set, self._home.telemetry, lambda: self.is_stopping
            )
        except TaskCancelled:
            await self._home.store.write(
                lambda transaction: self._cancel_held(transaction, state, lease)
            )
        except TaskHandedOver:
            # Its row says that it runs, and its lease is given back below: it counts as
            # interrupted.
            pass
        except LeaseLost:
            raise TaskLost(state.task_id) from None
        except asyncio.CancelledError:
            # A cancellation from outside goes on outwards; the one that `lose` caused
            # becomes an error of the task.
            if not lost.is_set():
                raise
            # The request to cancel was our own, and must not reach the code that awaits
            # this task.
            if driving is not None:
                driving.uncancel()
            # A task that has ended gives its lease back itself, which looks like a loss
            # to the keeper.
            if not await self._has_ended_under(lease, state.task_id):
                raise TaskLost(state.task_id) from None
        finally:
            self._keeper.drop(state.task_id)
            await self._home.store.release(lease)

    async def _has_ended_under(self, lease: Lease, task: str) -> bool:
        """True if a task ended under a lease, which it then gave back: no other process took it."""
        row = await self._home.store.read(lambda snapshot: snapshot.get(RUNS, task))
        return row is not None and row.status in FINISHED and row.lease == lease.number

    def _graph(self, lease: Lease | None = None) -> "TaskGraph":
        from agent_resolver.reasoner.graph import task_graph

        def keep_step(
            transaction: Transaction,
            checkpoint: Any,  # noqa: ANN401 - the saver
            new_versions: Any,  # noqa: ANN401
        ) -> None:
            values = checkpoint["channel_values"]
            # A gate changes nothing of the task: it only hands the answers on.
            if "task" not in values or "task" not in new_versions:
                return
            # A record is appended with the checkpoint of its own step, and with no
            # later one.
            new = values.get("records", ()) if "records" in new_versions else ()
            records = tuple(msgspec.convert(each, DecisionRecord) for each in new)
            keep_task(
                transaction,
                decode_state(values["task"]),
                records,
                lease,
                self._home.clock.now(),
            )

        saver = StoreSaver(
            self._home.store, self._home.seal, lease=lease, keep_step=keep_step
        )
        return task_graph(saver)

    def _golden(self, state: TaskState, caller: Caller) -> GoldenContext:
        return bind_context(
            caller,
            environment=state.environment,
            app_id=self._home.app_id,
            trace_id=state.trace_id,
            incident=state.incident,
            data_classification=state.classification,
        )

    # Cancelling -----------------------------------------------------------------------

    async def cancel(self, task: str, caller: Caller) -> TaskView:
        """End a task. One that a process works on ends before its next stage begins.

        Raises:
            UnknownTask: There is no such task that concerns the caller.
            TaskRefused: It has ended.
        """
        self._require_valid(caller)
        state = await self._state(task)
        # As for `resume`, a task of another caller is reported as unknown, so that ids
        # cannot be probed.
        if not may_see_run(state.initiator, caller):
            raise UnknownTask(task)

        def end(transaction: Transaction) -> Run:
            row = transaction.get(RUNS, task)
            if row is None or row.status in FINISHED:
                return row or first_row(state, "")
            lease = self._claim(transaction, task)
            if lease is None:
                # Another process works on it, hears of the wish, and ends the task
                # before its next stage.
                asked = structs.replace(
                    row, status="cancelling", changed_at=self._home.clock.now()
                )
                transaction.put(RUNS, asked)
                transaction.append(
                    task_record(state, AuditKind.RUN_CANCELLING, {}, caller)
                )
                transaction.wake("run", task)
                return asked
            ended = self._end_cancelled(transaction, row, state, caller)
            release_in(transaction, lease)
            return ended

        row = await self._home.store.write(end)
        # To cancel a cancelled task changes nothing, and is not refused.
        if row.status in FINISHED and row.code != CANCELLED:
            raise TaskRefused(
                f"Task {task} has ended: {row.status}", f"`agent task show {task}`"
            )
        return await self._view(task)

    def _cancel_held(
        self,
        transaction: Transaction,
        state: TaskState,
        lease: Lease,
    ) -> None:
        transaction.require(lease)
        row = transaction.get(RUNS, state.task_id)
        if row is not None:
            self._end_cancelled(transaction, row, state, None)

    def _end_cancelled(
        self,
        transaction: Transaction,
        row: Run,
        state: TaskState,
        by: Caller | None,
    ) -> Run:
        """End a task in its row, and withdraw its questions: no answer is needed any longer."""
        now = self._home.clock.now()
        ended = structs.replace(
            row, status="cancelled", code=CANCELLED, waits_for=None, changed_at=now
        )
        transaction.put(RUNS, ended)
        transaction.append(
            task_record(state, AuditKind.RUN_ENDED, {"status": "cancelled"}, by)
        )
        for action in state.unresolved:
            asked = transaction.get(PENDING, action.id)
            # What has to be there may be asked for by other tasks as well.
            if (
                asked is not None
                and asked.is_open
                and asked.trace_id == state.trace_id
                and not asked.needs
            ):
                transaction.put(
                    PENDING, structs.replace(asked, expires_at=now, content=None)
                )
        transaction.wake("run", state.task_id)
        return ended

    # Looking --------------------------------------------------------------------------

    async def view(self, task: str, caller: Caller) -> TaskView:
        """A task that concerns the caller: their own, or any for an auditor.

        Raises:
            UnknownTask: There is none.
        """
        self._require_valid(caller)
        found = await self._view(task)
        if not may_read_task(found.state, caller):
            raise UnknownTask(task)
        return found

    async def export(self, task: str, caller: Caller) -> TaskEvidence:
        """The evidence of a task: its state, what it made, its questions, and every record of it.

        The words of answers are in the export of the caller who asked; others have their digests.

        Raises:
            UnknownTask: There is no such task that concerns the caller.
            TaskTaken: Another process works on it, and changes it too fast.
        """
        view = await self.view(task, caller)
        contents = Artifacts(self._home.store, self._home.seal)
        is_own = may_see_run(view.state.initiator, caller)
        for _ in range(_EXPORT_ATTEMPTS):
            evidence = await gather_evidence(
                self._home.store, contents, view, self._home.app_id, has_words=is_own
            )
            before, view = view, await self.view(task, caller)
            # The records must be those of this state, and a stage may have ended in
            # between.
            if before == view:
                break
        else:
            raise TaskTaken(task)
        trail = structs.replace(evidence.trail, is_keyed=self._home.has_keyed_trail)
        return with_seal(
            structs.replace(evidence, trail=trail), self._home.evidence_key
        )

    async def _view(self, task: str) -> TaskView:
        listed = await look_at_run(self._home.store, self._home.seconds(), task)
        if listed is None or listed.row.kind != "task":
            raise UnknownTask(task)
        state = await self._state(task)
        now = self._home.clock.now()

        def read(snapshot: Snapshot) -> list[PendingAction]:
            found = [snapshot.get(PENDING, action.id) for action in state.unresolved]
            return [
                action
                for action in found
                if action is not None and action.state(now) == "open"
            ]

        actions = await self._home.store.read(read)
        output = None
        if state.result:
            output = await Artifacts(self._home.store, self._home.seal).plain(
                task, state.result
            )
        return TaskView(
            row=listed.row,
            status=listed.status,
            state=state,
            actions=tuple(actions),
            output=output,
        )

    async def _state(self, task: str) -> TaskState:
        """The newest state of a task.

        Raises:
            UnknownTask: There is none.
            DamagedTask: What is kept of it cannot be read.
        """
        saver = StoreSaver(self._home.store, self._home.seal)

        def read(
            transaction: Transaction,
        ) -> tuple[Run, "CheckpointTuple | None", ArtifactRow | None]:
            # In one transaction: a process that works on the task changes both at once.
            row = transaction.get(RUNS, task) if 0 < len(task) <= _MAX_TASK_ID else None
            if row is None or row.kind != "task":
                raise UnknownTask(task)
            found = saver.read_in(transaction, _thread(row.trace_id, task))
            return row, found, transaction.get(ARTIFACTS, task, FIRST)

        try:
            # Only a transaction lends the connection that the saver reads from, so that
            # this read goes through `write`.
            row, found, first = await self._home.store.write(read)
            state = self._decoded(task, found, first)
        except (InvalidState, ValueError) as error:
            raise DamagedTask(task, str(error)) from error
        if fault := row_fault(row, state):
            raise DamagedTask(task, fault)
        return state

    def _decoded(
        self,
        task: str,
        found: "CheckpointTuple | None",
        first: ArtifactRow | None,
    ) -> TaskState:
        """The state in a checkpoint; where there is none yet, the one that the task began with."""
        values = found.checkpoint["channel_values"] if found is not None else {}
        if "task" in values:
            return decode_state(values["task"])
        if first is None:
            raise DamagedTask(task, "it has no checkpoint")
        return decode_state(
            msgspec.json.decode(self._home.seal.open(first.body, first_purpose(task)))
        )

    def _first_artifact(self, state: TaskState) -> ArtifactRow:
        content = msgspec.json.encode(encode_state(state))
        body = self._home.seal.close(content, first_purpose(state.task_id))
        return ArtifactRow(task=state.task_id, digest=FIRST, body=body)

    def _require_valid(self, caller: Caller) -> None:
        is_known = caller.is_verified or not self._home.only_verified
        if not is_known or is_expired(caller, self._home.clock.now()):
            raise TaskRefused(
                f"{caller.id} has no valid token, and this project has an issuer",
                "give a valid token",
            )


class _NothingNew:
    """Stands for an input of the graph where nothing was answered since the task began to wait."""


_NOTHING_NEW: Final = _NothingNew()


def may_read_task(state: TaskState, caller: Caller) -> bool:
    """True if a task concerns the caller: it is their own, or they are an auditor."""
    return may_read_all(caller) or may_see_run(state.initiator, caller)


def _thread(trace_id: str, task: str) -> "RunnableConfig":
    """The thread of a task's checkpoints: `active_task_id` changes with each stage, and could not find them."""
    return {"configurable": {"thread_id": f"{trace_id}/{task}", "checkpoint_ns": ""}}


def _config(state: TaskState, limit: int = 25) -> "RunnableConfig":
    return {**_thread(state.trace_id, state.task_id), "recursion_limit": limit}
