"""Carries runs with Temporal: one workflow for each, which any worker of the project may go on with.

The store stays the truth. A workflow can be ended and begun again at any time: it takes the run up from the store.
"""

import asyncio
from collections.abc import Awaitable, Collection
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker, WorkerDeploymentConfig, WorkerDeploymentVersion
from temporalio.worker.workflow_sandbox import (
    SandboxedWorkflowRunner,
    SandboxRestrictions,
)

from agent_resolver.engine import temporal_message as message
from agent_resolver.engine.errors import (
    DamagedRun,
    EngineRefused,
    EngineServerAway,
    EngineUnreachable,
)
from agent_resolver.engine.journal import BlueprintJournal
from agent_resolver.engine.segment import Segments
from agent_resolver.engine.temporal_client import (
    CONNECT_SECONDS,
    connect,
    plain_words,
    words_of,
)
from agent_resolver.engine.temporal_codec import SealedCodec, sealed_converter
from agent_resolver.engine.temporal_deployment import (
    require_namespace,
    require_one_machine,
    set_current_version,
    stay_on_one_machine,
)
from agent_resolver.engine.temporal_host import SegmentHost
from agent_resolver.engine.temporal_place import TemporalPlace
from agent_resolver.engine.temporal_workflow import BlueprintWorkflow
from agent_resolver.registry.port import Seal
from agent_resolver.schema.state import FINISHED, LEASES, RUNS, WAITS
from agent_resolver.storage.gone import find_gone
from agent_resolver.storage.lease import lease_name
from agent_resolver.storage.port import Snapshot

if TYPE_CHECKING:
    from temporalio.client import Client

_CALL_SECONDS: Final = 5.0
_SIGNAL_SECONDS: Final = 2.0
_MOST_SIGNAL_SECONDS: Final = 30.0
"""After these seconds a workflow is woken again that does not go on; each pause is twice as long, up to the second.

A server with more to do than it can must not get even more of it.
"""
_AWAY_SECONDS: Final = 60.0
"""After so much silence of the server, the operator hears of it. Workers go on asking."""
_UNREGISTERED: Final = "it does not register this worker"
_ROOM_HINT: Final = (
    "a namespace has room for so many projects (`matching.maxDeployments`, by default 100): "
    "`temporal worker deployment list` shows them, and `delete` removes one"
)
_STICKY_SECONDS: Final = 1
"""How long a workflow waits for the process that has it in memory: that one may be gone."""
_BEAT_SECONDS: Final = 2
_PASSED_THROUGH: Final = (
    "agent_resolver.core",
    "agent_resolver.schema",
    "agent_resolver.engine",
    "msgspec",
)
_MOST_ACTIVITIES: Final = 1_000
_MOST_WORKFLOWS: Final = 1_000
"""The most workflows that are kept in memory. Each of the others is replayed when it goes on."""
_PASSING: Final = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.CANCELLED,
        RPCStatusCode.RESOURCE_EXHAUSTED,
        RPCStatusCode.ABORTED,
        RPCStatusCode.INTERNAL,
        RPCStatusCode.UNKNOWN,
    }
)
"""Failures of a request that may pass by themselves."""
_REFUSING: Final = frozenset(
    {
        RPCStatusCode.NOT_FOUND,
        RPCStatusCode.PERMISSION_DENIED,
        RPCStatusCode.UNAUTHENTICATED,
        RPCStatusCode.UNIMPLEMENTED,
    }
)
"""Failures that every request has: the namespace is gone, or the key does not hold. All others concern one workflow."""
Answer = TypeVar("Answer")


class _Look(Struct, frozen=True):
    """The state of a run that a worker wants to go on, as the store has it."""

    is_settled: bool
    holder: str = ""
    """The living process that has it."""
    gone: str = ""
    """The process that had it, where that is known to be gone, or gave it back."""


class _Waking(Struct, kw_only=True):
    """The attempts of one process to have the workflow of a run go on; times are those of the event loop."""

    held_at: float
    """The last moment at which a living process had the run; patience counts from it."""
    next_signal: float
    pause: float = _SIGNAL_SECONDS
    """The time between this signal and the next one; each is twice as long as the one before."""
    away_since: float = 0.0
    """The first of the attempts in a row that the server did not answer; 0 if it answered the last one."""
    replaces: bool = False
    """True if the workflow did nothing for so long that another one is to take its place."""


class TemporalCarrier:
    """Lets workflows of a Temporal server carry runs, and this process take them up."""

    def __init__(
        self,
        place: TemporalPlace,
        seal: Seal,
        build: str = message.BUILD_ID,
    ) -> None:
        """Not open yet.

        Args:
            place: The server, and the names of this project there.
            seal: Seals everything that the server keeps.
            build: The version of the workflow's order; workflows of another one do not go on here.
        """
        self._place = place
        self._seal = seal
        self._build = build
        self._client: Client | None = None
        self._host: SegmentHost | None = None
        self._segments: Segments | None = None
        self._owner = ""
        """The name of this process in leases."""
        self._tasks: list[asyncio.Task[Any]] = []
        self._workers: list[Worker] = []
        self._broken: EngineUnreachable | None = None

    # Opening and closing --------------------------------------------------------------

    async def open(self, segments: Segments, capacity: int) -> None:
        """Connect to the server, and begin to take runs up.

        Raises:
            EngineUnreachable: The server cannot be reached, or does not know the namespace.
            EngineRefused: A worker of another machine is there, and the state is a file of this one.
        """
        place = self._place
        store = segments.journal.store
        self._owner = store.owner
        identity = f"{place.machine}/{self._owner}"
        codec = SealedCodec(store, self._seal, f"{place.queue}/")
        self._segments = segments
        self._client = client = await connect(place, sealed_converter(codec), identity)
        self._host = host = SegmentHost(segments, place, capacity)
        await self._answered(require_namespace(client))
        is_alone = place.is_versioned and not place.is_shared
        if is_alone:
            # Before the first poll, which the server remembers for minutes: a worker
            # that is refused must not keep those of the other machine from beginning.
            await self._answered(require_one_machine(client, place))
        # One worker listens to the queue of the project, and one to the queue of this
        # process alone.
        self._workers = [
            Worker(
                client,
                task_queue=place.queue,
                workflows=[BlueprintWorkflow],
                activities=host.shared_activities,
                workflow_runner=workflow_sandbox(),
                # A server that cannot notice a lost process must find no workflow in
                # the memory of one.
                max_cached_workflows=_MOST_WORKFLOWS if place.is_versioned else 0,
                sticky_queue_schedule_to_start_timeout=timedelta(
                    seconds=_STICKY_SECONDS
                ),
                max_heartbeat_throttle_interval=timedelta(seconds=_BEAT_SECONDS),
                deployment_config=self._deployment(),
                identity=identity,
                on_fatal_error=self._break,
            ),
            Worker(
                client,
                task_queue=host.queue,
                activities=host.own_activities,
                max_concurrent_activities=_MOST_ACTIVITIES,
                max_heartbeat_throttle_interval=timedelta(seconds=_BEAT_SECONDS),
                identity=identity,
                on_fatal_error=self._break,
            ),
        ]
        self._tasks = [asyncio.create_task(worker.run()) for worker in self._workers]
        self._tasks.append(asyncio.create_task(host.sweep()))
        try:
            if is_alone:
                # Once more, for workers that begin together.
                await self._answered(
                    stay_on_one_machine(client, place), _UNREGISTERED, _ROOM_HINT
                )
            if place.is_versioned:
                await self._answered(
                    set_current_version(client, place.deployment, self._build),
                    _UNREGISTERED,
                    _ROOM_HINT,
                )
        except BaseException:
            # A worker that is refused must not go on polling.
            await self.close()
            raise

    async def settle(self) -> None:
        """Return once no segment is open here any more."""
        host = self._host
        while host is not None and host.runs:
            await host.changed(_SIGNAL_SECONDS)

    async def close(self) -> None:
        """End. What still runs is interrupted, and stays for another process."""
        # Taken away first, so that `carry` returns and does not wait for what ends
        # here.
        host, self._host = self._host, None
        for worker in self._workers:
            with suppress(RuntimeError):  # It has not begun, or has failed.
                await worker.shutdown()
        self._workers = []
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if host is not None:
            await host.close()
        self._client = None

    # Carrying -------------------------------------------------------------------------

    def open_runs(self) -> Collection[str]:
        """The runs that are open in this process, or about to be, whichever worker asked for them."""
        return () if self._host is None else self._host.runs

    async def carry(self, run: str) -> bool:
        """Wake the workflow of a run, or begin it, until a process has taken the run up.

        Where that is this process, go on until the store says that the run waits or has ended.

        Raises:
            EngineUnreachable: The server refuses this worker.
            EngineServerAway: The server has not answered for too long.
            EngineRefused: The server takes no workflow for this run.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        waking = _Waking(held_at=began, next_signal=began)
        while True:
            host = self._host
            if self._broken is not None:
                raise self._broken
            look = await self._look(run)
            if host is None or look.is_settled:
                return True
            # What another process has takes no room here: if that one ends, the run is
            # found as interrupted. A process that is to end only waits for runs that
            # are open here, until they are handed on.
            is_elsewhere = look.holder not in {"", self._owner}
            if (is_elsewhere or self._is_stopping()) and run not in host.runs:
                return False
            now = loop.time()
            if look.holder:
                waking.held_at = now
            elif now >= waking.next_signal:
                await self._try_to_wake(run, look.gone, waking, now)
            await host.changed(0.5)

    async def _try_to_wake(
        self,
        run: str,
        gone: str,
        waking: _Waking,
        now: float,
    ) -> None:
        """Send a signal, or replace a workflow that heeds none; note in `waking` what came of it.

        Raises:
            EngineUnreachable: The server refuses this worker.
            EngineServerAway: The server has not answered for too long.
            EngineRefused: The server takes no workflow for this run.
        """
        waking.next_signal = now + waking.pause
        waking.pause = min(2 * waking.pause, _MOST_SIGNAL_SECONDS)
        # A workflow that did nothing for so long is replaced by one that takes the run
        # up from the store.
        if now - waking.held_at > self._place.patience_seconds:
            waking.replaces = True
        try:
            await self._wake(run, gone, replaces=waking.replaces)
        except RPCError as error:
            waking.away_since = self._judge(
                error, waking.away_since or now, is_last=waking.replaces
            )
            if not waking.away_since:
                # A workflow that takes no signal has, for example, as many as it may
                # have.
                waking.replaces = True
                waking.next_signal = now
            return
        waking.away_since = 0.0
        if waking.replaces:
            # The new one has as much time as the one before.
            waking.held_at = now
            waking.replaces = False

    def _judge(self, error: RPCError, away_since: float, *, is_last: bool) -> float:
        """Returns the time since which the server does not answer; 0 if it does not want to wake this workflow.

        Raises:
            EngineUnreachable: It refuses this worker.
            EngineServerAway: It has not answered for too long.
            EngineRefused: It refuses to begin a workflow for this run too.
        """
        address = self._place.address
        words = words_of(error)
        if error.status in _REFUSING:
            raise EngineUnreachable(address, words) from None
        if error.status in _PASSING:
            if asyncio.get_running_loop().time() - away_since > _AWAY_SECONDS:
                raise EngineServerAway(address, words) from None
            return away_since
        if is_last:
            raise EngineRefused(
                f"The Temporal server at `{address}` does not take it: {words}"
            ) from None
        return 0.0

    async def _wake(self, run: str, gone: str, *, replaces: bool) -> None:
        """Send the signal, to a workflow that begins with it where there is none."""
        client = self._client
        place = self._place
        if client is None:
            return
        carried = message.Carried(
            run=run, state=place.state, most_events=place.most_events
        )
        conflict = WorkflowIDConflictPolicy.USE_EXISTING
        signal: str | None = message.WAKE
        arguments = [gone]
        if replaces:
            # It cannot be read, or belongs to a version that no worker has. The store
            # knows how the run goes on.
            conflict = WorkflowIDConflictPolicy.TERMINATE_EXISTING
            # A workflow that begins takes the run up by itself.
            signal = None
            arguments = []
        await client.start_workflow(
            message.WORKFLOW,
            message.encode(carried),
            id=f"{place.queue}/{run}",
            task_queue=place.queue,
            id_conflict_policy=conflict,
            # An earlier workflow of the run may have ended, and the store says that
            # there is more to do.
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            start_signal=signal,
            start_signal_args=arguments,
            rpc_timeout=timedelta(seconds=_CALL_SECONDS),
        )

    def _is_stopping(self) -> bool:
        return self._segments is not None and self._segments.owner.is_stopping

    async def _look(self, run: str) -> _Look:
        if self._segments is None:
            return _Look(is_settled=True)
        journal = self._segments.journal
        now = journal.now()
        is_settled, owner, left_by = await journal.store.read(
            lambda snapshot: _read_progress(snapshot, journal, run, now)
        )
        if owner in await find_gone(journal.store, [owner]):
            return _Look(is_settled, gone=owner)
        return _Look(is_settled, holder=owner, gone=left_by)

    # Parts ----------------------------------------------------------------------------

    async def _answered(
        self,
        request: Awaitable[Answer],
        silence: str = "no answer",
        hint: str = "",
    ) -> Answer:
        """The answer of the server.

        Raises:
            EngineUnreachable: It gave none, for which `silence` is the word, or refused.
        """
        try:
            return await asyncio.wait_for(request, 2 * CONNECT_SECONDS)
        except TimeoutError:
            raise EngineUnreachable(
                self._place.address, silence, hint, may_be_starting=True
            ) from None
        except RPCError as error:
            raise EngineUnreachable(
                self._place.address,
                words_of(error),
                may_be_starting=error.status in _PASSING,
            ) from None

    def _deployment(self) -> WorkerDeploymentConfig | None:
        if not self._place.is_versioned:
            return None
        version = WorkerDeploymentVersion(self._place.deployment, self._build)
        return WorkerDeploymentConfig(version=version, use_worker_versioning=True)

    async def _break(self, error: BaseException) -> None:
        self._broken = EngineUnreachable(self._place.address, plain_words(str(error)))


def _read_progress(
    snapshot: Snapshot,
    journal: BlueprintJournal,
    run: str,
    now: int,
) -> tuple[bool, str, str]:
    """True if the run waits or has ended; the process that holds it; and the one that left it, if none holds it."""
    row = snapshot.get(RUNS, run)
    if row is None or row.status in FINISHED:
        return True, "", ""
    waits = snapshot.find(WAITS, {"run": run})
    # A row that is due belongs to a run that can go on, although its status is still
    # `waiting`.
    is_due = any(each.due <= now for each in waits)
    is_waiting = row.status == "waiting" and bool(waits) and not is_due
    owner = _holder(snapshot, run, journal.seconds())
    if row.status == "waiting" or owner:
        return is_waiting, owner, ""
    return is_waiting, owner, _left_by(snapshot, journal, run)


def _holder(snapshot: Snapshot, run: str, seconds: float) -> str:
    """The process that holds a run; empty if none does."""
    lease = snapshot.get(LEASES, lease_name(run))
    return lease.owner if lease is not None and lease.until > seconds else ""


def _left_by(snapshot: Snapshot, journal: BlueprintJournal, run: str) -> str:
    """The process that gave a run back in the middle of a segment, or lost it."""
    try:
        history = journal.read(snapshot, run)
    except DamagedRun:
        return ""  # The process that takes it up sets it aside.
    newest = history.segment if history is not None else None
    return newest.executor if newest is not None else ""


def workflow_sandbox() -> SandboxedWorkflowRunner:
    """Modules that are pure are not imported again for every workflow."""
    return SandboxedWorkflowRunner(
        restrictions=SandboxRestrictions.default.with_passthrough_modules(
            *_PASSED_THROUGH
        )
    )
