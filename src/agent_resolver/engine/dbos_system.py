"""The one DBOS of a process, behind plain calls.

DBOS keeps a row for each segment and for each step of it in a place of its own, a SQLite file or a schema in Postgres,
and lets a segment go on after the end of the process that ran it. Nothing that it keeps is the truth about a run: the
place may be removed while no worker runs.
"""

import asyncio
import contextvars
import logging
import secrets
import sqlite3
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from msgspec import Struct

from agent_resolver._extra import needing_extra
from agent_resolver.core.shorten import shorten
from agent_resolver.engine.dbos_place import EnginePlace
from agent_resolver.engine.dbos_records import LAG_SECONDS, Recorder, SegmentRecords
from agent_resolver.engine.dbos_serializer import (
    SealedJson,
    SealedText,
    seal_every_format,
)
from agent_resolver.engine.errors import EditedRecord, EngineRefused, ReplayMismatch
from agent_resolver.registry.port import Seal
from agent_resolver.storage.errors import LeaseLost

if TYPE_CHECKING:
    from dbos import DBOSConfig

Result = TypeVar("Result")
RunWorkflow = Callable[[str, Any], Awaitable[None]]
"""Runs the segment of this id with its payload."""

_NAME: Final = "agent-resolver"
_WORKFLOW: Final = "segment"
_THREADS: Final = 16
"""How many threads `asyncio.to_thread` has while DBOS is there, which puts its own in the place of the loop's."""
_LISTENER_SECONDS: Final = 0.2
"""The pause after which a thread of DBOS notices its end. It waits for messages, which are never sent here."""
_MESSAGE_LENGTH: Final = 300
_CANCEL_SECONDS: Final = 10.0
"""How long a segment that does not heed its end is waited for."""
_ENDED: Final = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]
_NOT_RUNNING: Final = [*_ENDED, "ENQUEUED", "DELAYED"]
_MOST_LISTED: Final = 500

_log = logging.getLogger(__name__)
_current: contextvars.ContextVar["_Running | None"] = contextvars.ContextVar(
    "segment", default=None
)
"""The segment that runs, outside of its steps."""


class SegmentState(Struct, frozen=True, kw_only=True):
    """The state of a segment, as the engine's place has it."""

    status: Literal["queued", "running", "done", "failed"]
    """`queued` was being adopted by a process that ended; `running` may be at an executor that is gone."""
    executor: str
    version: str


class _Running(Struct, frozen=True):
    """A segment that runs here."""

    segment: str
    records: SegmentRecords | None
    """Takes the results of its steps, if it began here; None if DBOS may have some of them already."""


class DbosSystem:
    """Starts segments, records their steps, and takes over those of executors that are gone.

    A process has at most one that is open. All of it is to be called on the event loop in which it was opened.
    """

    def __init__(self, *, lag_seconds: float = LAG_SECONDS) -> None:
        """Not open yet.

        Args:
            lag_seconds: How long the record of a step may wait for others; 0 lets each step wait for its record.
        """
        self._lag_seconds = lag_seconds
        self._recorder = Recorder(lag_seconds)
        self._new: set[str] = set()
        """The segments that are being started here: as far as they begin, DBOS has nothing of them yet."""
        self._place: EnginePlace | None = None
        self._executor = ""
        self._version = ""
        self._serializer: SealedJson | None = None
        self._workflow: Any = None
        self._is_closing = False

    async def open(
        self,
        place: EnginePlace,
        seal: Seal,
        executor_id: str,
        version: str,
        workflow: RunWorkflow,
    ) -> None:
        """Open the place of the engine, making it if need be, and take part in the work on it.

        `workflow` is called for each segment that is started or adopted here. It begins without the context variables
        of the caller that started it.

        Args:
            place: Where DBOS keeps its rows.
            seal: Seals everything in it.
            executor_id: The name of this process.
            version: Segments of another version are left alone.
            workflow: Runs a segment. What it raises ends the segment.

        Raises:
            EngineBroken: The place cannot be used.
            EngineRefused: This process has an open one already.
            MissingExtra: DBOS is not installed.
        """
        with needing_extra("engine"):
            from dbos import DBOS, _dbos
        if _dbos._dbos_global_instance is not None:  # noqa: SLF001 - DBOS itself would hand out that one
            raise EngineRefused(
                "This process has an engine already, and can have one only"
            )
        self._place = place
        self._executor = executor_id
        self._version = version
        self._serializer = SealedJson(seal)
        # Before DBOS begins: it would read rows in its own formats, and look for work
        # at once.
        seal_every_format(self._serializer)
        _quieten()
        _leave_out_threads()
        with self._in_our_words():
            await asyncio.to_thread(place.prepare)
            DBOS(config=self._config(place))
            # Attempts are counted in the state, so that DBOS must not give a segment up
            # by itself.
            self._workflow = DBOS.workflow(name=_WORKFLOW, max_recovery_attempts=None)(
                self._enter(workflow)
            )
            try:
                # A server that is away is an error here, and the run is found as
                # interrupted when it is back. DBOS would wait for it without an end,
                # and would not let this process end either. Not in a thread: DBOS then
                # runs segments in the loop that it finds here.
                DBOS.launch()
                _dbos._get_dbos_instance()._sys_db._retry_connection_errors = False  # noqa: SLF001 - as below
            except BaseException:
                await self._destroy()
                raise

    async def start(self, segment: str, payload: Any = None) -> bool:  # noqa: ANN401 - JSON
        """Begin a segment in this process; False if the place has one of this id, however far that is.

        Raises:
            EngineBroken: The place cannot be used.
            EngineRefused: The payload is not JSON, or too large.
        """
        from dbos import DBOS, SetWorkflowID
        from dbos._core import WorkflowHandleAsyncTask

        async def start() -> bool:
            with SetWorkflowID(segment):
                handle = await DBOS.start_workflow_async(
                    self._workflow, {"of": [segment], "value": payload}
                )
            # The other kind of handle watches a segment that was there before.
            return isinstance(handle, WorkflowHandleAsyncTask)

        # Noted before it begins, since the segment may run before `start` returns.
        self._new.add(segment)
        is_new = False
        try:
            is_new = await self._outside(start())
        finally:
            if not is_new:
                self._new.discard(segment)
        return is_new

    async def step(self, name: str, body: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401 - JSON
        """The result of a step of the running segment: the recorded one, or that of `body`, which is then recorded.

        A segment that goes on must take the same steps in the same order. Steps may run at the same time, as long as
        they begin in that order, as those given to `asyncio.gather` do. What `body` raises is not recorded.

        Raises:
            EditedRecord: The recorded result is not what this program wrote.
            EngineRefused: No segment runs here, or the result is not JSON, or too large.
            LeaseLost: Another process has taken the segment over.
            ReplayMismatch: The segment recorded another step here.
        """
        running = _current.get()
        if running is None or self._serializer is None:
            # DBOS would call the body, and record nothing.
            raise EngineRefused(
                "A step can be taken only in a segment, and not inside another step"
            )
        segment = running.segment
        place = [running.segment, name]
        serializer = self._serializer

        async def do() -> SealedText:
            # The body of a step is not in the segment, so that it cannot take a further
            # step.
            outside = _current.set(None)
            try:
                # Sealed in here, so that a result that cannot be is an error like any
                # other.
                return serializer.serialize({"of": place, "value": await body()})
            finally:
                _current.reset(outside)

        if running.records is None:
            recorded = await self._replay(segment, name, do)
        else:
            recorded = await self._run_new(running.records, name, do)
        # Read back even if it was just made: the first time gives the same types as all
        # others.
        return _value_of(
            serializer.deserialize(recorded)
            if isinstance(recorded, SealedText)
            else recorded,
            place,
        )

    async def _run_new(
        self,
        records: SegmentRecords,
        name: str,
        do: Callable[[], Awaitable[SealedText]],
    ) -> SealedText:
        """Take a step of a segment that began here: there is no record to look for, and none to wait for."""
        self._require_recorded(records, name)
        # Steps have the numbers that DBOS would give them: a process that goes on with
        # the segment asks for these.
        number = records.begin_step()
        began = time.time()
        with _outside_dbos():
            result = await do()
        self._require_recorded(records, name)
        records.add(number, name, began, result)
        return result

    def _require_recorded(self, records: SegmentRecords, name: str) -> None:
        """Refuse to go on with a segment of which a record could not be written."""
        if records.failure is not None:
            with self._in_words_of(records.segment, name):
                raise records.failure

    async def _replay(
        self,
        segment: str,
        name: str,
        do: Callable[[], Awaitable[SealedText]],
    ) -> Any:  # noqa: ANN401 - sealed or JSON
        """Take a step of a segment that another process may have taken: DBOS looks for its record first."""
        from dbos import DBOS

        async def attempt() -> SealedText:
            try:
                return await do()
            except Exception as error:
                raise _NotRecorded(error) from error

        try:
            with self._in_words_of(segment, name):
                return await DBOS.run_step_async({"name": name}, attempt)
        except _NotRecorded as failed:
            raise failed.error from None

    @contextmanager
    def _in_words_of(self, segment: str, name: str) -> Iterator[None]:
        """Turn what DBOS raises about a step into an error of ours."""
        from dbos import error

        try:
            with self._in_our_words():
                yield
        except (
            error.DBOSUnexpectedStepError,
            error.DBOSStepNondeterminismError,
        ) as problem:
            raise ReplayMismatch(segment, name) from problem
        # DBOS asserts that a segment has a row; the row of one that was taken over may
        # be gone.
        except (
            error.DBOSWorkflowConflictIDError,
            error.DBOSWorkflowCancelledError,
            AssertionError,
        ) as problem:
            raise LeaseLost(f"the segment {segment}") from problem

    async def state(self, segment: str) -> SegmentState | None:
        """What the place says about a segment; None if it has none of this id.

        Raises:
            EngineBroken: The place cannot be used.
        """
        found = await self._rows(workflow_ids=[segment])
        if not found:
            return None
        (row,) = found
        statuses: dict[str, Literal["queued", "running", "done"]] = {
            "ENQUEUED": "queued",
            "PENDING": "running",
            "SUCCESS": "done",
        }
        return SegmentState(
            status=statuses.get(row.status, "failed"),
            executor=row.executor_id or "",
            version=row.app_version or "",
        )

    async def adopt(self, segment: str, executor: str) -> bool:
        """Go on in this process with a segment that was running at `executor`; False if it no longer is.

        Whatever still runs of it there cannot record anything from now on. It must not be running in this process. A
        segment of another version is left alone.

        Raises:
            EngineBroken: The place cannot be used.
        """
        # A segment of another version recorded other steps, and cannot go on here.
        if not await self._rows(workflow_ids=[segment], app_version=self._version):
            return False
        return await self._outside(asyncio.to_thread(self._claim, segment, executor))

    def _claim(self, segment: str, executor: str) -> bool:
        """Do for one segment, and at once, what a thread of DBOS would do for all of an executor.

        The segment goes through a queue of its own, so that no other process gets it. Not to be called on the event
        loop, which takes the segment.
        """
        from dbos import _dbos, _queue
        from dbos._core import execute_dequeued_workflow

        instance = _dbos._get_dbos_instance()  # noqa: SLF001 - no public call takes a single segment
        database = instance._sys_db  # noqa: SLF001
        queue = _queue.Queue(
            f"segment {segment}",
            token=_queue._INTERNAL_QUEUE_CONSTRUCTION,  # noqa: SLF001
        )
        token = secrets.token_hex(16)
        # Into a queue that only this call knows, and out of it as this executor: of two
        # processes, one wins.
        database.reenqueue_for_recovery(segment, [executor], queue.name)
        claimed, _ = database.start_queued_workflows(
            queue, self._executor, self._version, None, owner_xid=token
        )
        row = database.get_workflow_status(segment) if segment in claimed else None
        if row is None:
            return False
        try:
            execute_dequeued_workflow(instance, row, token)
        except EditedRecord:
            # DBOS has noted it as failed.
            return False
        return True

    async def ended(self, seconds: float) -> list[str]:
        """Some of the segments that ended at least so many seconds ago, the oldest first.

        Raises:
            EngineBroken: The place cannot be used.
        """
        before = datetime.now(UTC) - timedelta(seconds=seconds)
        rows = await self._rows(
            status=_ENDED, completed_before=before.isoformat(), limit=_MOST_LISTED
        )
        return [row.workflow_id for row in rows]

    async def forget(self, segments: Sequence[str]) -> None:
        """Delete what the place has of these segments, unless they are running; they can be started again then.

        Raises:
            EngineBroken: The place cannot be used.
        """
        from dbos import DBOS

        rows = await self._rows(workflow_ids=list(segments), status=_NOT_RUNNING)
        if rows:
            await self._outside(
                DBOS.delete_workflows_async([row.workflow_id for row in rows])
            )

    async def close(self, seconds: float = 0.0) -> None:
        """End, once the segments that run here have ended or the time is over; the others are left for `adopt`.

        Those are interrupted where they wait. A step that is interrupted begins again when its segment goes on.
        """
        from dbos import _dbos

        if _dbos._dbos_global_instance is None:  # noqa: SLF001 - it has no public name
            # It could not be opened, which was reported then.
            self._leave_place()
            return
        # A set that DBOS keeps up to date: every segment that runs here, and those that
        # are about to begin.
        tasks = _dbos._get_dbos_instance()._workflow_tasks  # noqa: SLF001 - it has no public name
        if tasks and seconds > 0:
            await asyncio.wait(set(tasks), timeout=seconds)
        # From here on, a segment that DBOS begins is left for another process.
        self._is_closing = True
        # DBOS warns of every task that is cancelled.
        logging.getLogger("dbos").setLevel(logging.ERROR)
        # A copy, since tasks leave the set of DBOS as they end.
        left = set(tasks)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_CANCEL_SECONDS)
        # Records that wait belong to segments which another process goes on with.
        await self._recorder.flush()
        await self._destroy()

    async def _destroy(self) -> None:
        from dbos import DBOS

        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as thread:
            # It waits for threads, and one of them may be waiting for this loop to take
            # a segment.
            await loop.run_in_executor(
                thread, lambda: DBOS.destroy(destroy_registry=True)
            )
        # DBOS has put its own threads behind `asyncio.to_thread`, and has just ended
        # them.
        loop.set_default_executor(ThreadPoolExecutor())
        self._leave_place()

    def _leave_place(self) -> None:
        if self._place is not None:
            self._place.close()

    def _enter(self, workflow: RunWorkflow) -> Callable[[Any], Awaitable[None]]:
        """The function that DBOS calls for each segment."""
        from dbos import DBOS

        async def run_segment(payload: Any) -> None:  # noqa: ANN401 - JSON
            segment = DBOS.workflow_id
            if self._is_closing or segment is None:
                # Not recorded: the segment is left for another process.
                raise asyncio.CancelledError
            # The row may have been copied from that of another segment, and the payload
            # names its own.
            value = _value_of(payload, [segment])
            records = self._records_of(segment)
            _current.set(_Running(segment, records))
            try:
                await workflow(segment, value)
                if records is not None:
                    records.drop()
            except LeaseLost:
                # DBOS would wait here for the other process to end the segment.
                raise asyncio.CancelledError from None

        return run_segment

    def _records_of(self, segment: str) -> SegmentRecords | None:
        """What takes the records of a segment that begins; None where DBOS itself has to look for those it has."""
        from dbos._context import get_local_dbos_context

        is_new = segment in self._new
        self._new.discard(segment)
        context = get_local_dbos_context()
        if (
            not is_new
            or self._lag_seconds <= 0
            or context is None
            or context.owner_xid is None
        ):
            return None
        return SegmentRecords(self._recorder, segment, context.owner_xid)

    async def _rows(self, **conditions: Any) -> list[Any]:  # noqa: ANN401 - DBOS has a type for each
        from dbos import DBOS

        return await self._outside(
            DBOS.list_workflows_async(load_input=False, load_output=False, **conditions)
        )

    async def _outside(self, call: Coroutine[Any, Any, Result]) -> Result:
        """Call DBOS in a context of its own: inside a segment, it would record the call as a step of that segment."""
        with self._in_our_words():
            return await asyncio.create_task(call, context=contextvars.Context())

    def _config(self, place: EnginePlace) -> "DBOSConfig":
        return {
            "name": _NAME,
            "serializer": self._serializer,  # type: ignore[typeddict-item]  # Its class would need DBOS to be imported.
            "application_version": self._version,
            "executor_id": self._executor,
            "log_level": "WARNING",
            "enable_otlp": False,
            "max_executor_threads": _THREADS,
            "notification_listener_polling_interval_sec": _LISTENER_SECONDS,
            **place.options(),
        }

    @contextmanager
    def _in_our_words(self) -> Iterator[None]:
        """Turn what DBOS and its database raise into an error of ours; others have a meaning, and are passed on."""
        from dbos import error
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        # These two are about one segment, and `_in_words_of` has words for them.
        except (error.DBOSStepNondeterminismError, error.DBOSUnexpectedStepError):
            raise
        except (error.DBOSException, SQLAlchemyError, sqlite3.Error) as problem:
            if self._place is None:
                raise
            raise self._place.as_our_error(
                problem, shorten(str(problem), _MESSAGE_LENGTH)
            ) from problem


class _NotRecorded(BaseException):
    """Carries what a step raised past DBOS, which records every `Exception` as the result of the step for ever."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class _ToOurLog(logging.Handler):
    """Passes on what DBOS says, without the values in tracebacks."""

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        # Said of every segment that was adopted once and is then started again, as a
        # driver does.
        if not message.startswith("Workflow already exists in queue"):
            _log.warning("%s", shorten(message, _MESSAGE_LENGTH))


@contextmanager
def _outside_dbos() -> Iterator[None]:
    """Hide the segment from DBOS: what a step calls is not a part of the segment."""
    from dbos._context import _set_local_dbos_context, get_local_dbos_context

    segment = get_local_dbos_context()
    _set_local_dbos_context(None)
    try:
        yield
    finally:
        _set_local_dbos_context(segment)


def _value_of(envelope: Any, place: list[str]) -> Any:  # noqa: ANN401 - JSON
    """The value in an envelope that belongs to this segment, or to this step of it.

    A sealed row may have been copied from another one: the seal does not know in which row it is.
    """
    match envelope:
        case {"of": found, "value": value} if found == place:
            return value
    raise EditedRecord


def _quieten() -> None:
    """Let DBOS speak only to our log, and keep its hosted service off, which a variable could turn on."""
    from dbos._utils import GlobalParams

    GlobalParams.dbos_cloud = False
    logger = logging.getLogger("dbos")
    # With a handler of its own, DBOS does not add one that writes to the console.
    logger.handlers[:] = [_ToOurLog(logging.WARNING)]
    logger.propagate = False


def _leave_out_threads() -> None:
    """Keep DBOS from looking for work by itself: what runs is decided in the store, and only there.

    Four of its threads would do so. They look at queues, schedules and timeouts, of which there are none, at a price of
    more than half a percent of a processor; and the segments that they find would run without a lease.
    """
    from dbos import _dbos

    def rest(*_: object) -> None:
        pass

    patched: Any = _dbos
    patched.queue_thread = rest
    patched.startup_recovery_thread = rest
    patched.dynamic_scheduler_loop = rest
    patched.workflow_timeout_thread = rest
