"""Runs of blueprints on the store alone: they are started, signalled, cancelled and looked at.

Nothing here drives a run, and nothing here needs an engine: what is asked for is written, and a worker is woken.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, structs

from agent_resolver.core.authorization import is_expired, may_see_run
from agent_resolver.core.blueprint.wave import INTERPRETER_VERSION
from agent_resolver.engine.entry import CancelAsked, RunStarted, SignalReceived
from agent_resolver.engine.errors import EngineRefused, UnknownRun
from agent_resolver.engine.fold import fold, outcome_reader, prepared_blueprint
from agent_resolver.engine.journal import BlueprintJournal, History
from agent_resolver.engine.port import RunResult, RunView
from agent_resolver.engine.record import cancel_record, signalled_record, started_record
from agent_resolver.engine.view import view_of
from agent_resolver.engine.waiting import signal_key
from agent_resolver.registry.compiled_schema import compile_schema, schema_faults
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.blueprint import Blueprint, Wait
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.classification import Classification
from agent_resolver.schema.pending import PendingAction
from agent_resolver.schema.state import FINISHED, PENDING, PLANS, RUNS, WAITS, Run
from agent_resolver.storage.port import Snapshot, Transaction
from agent_resolver.storage.wait_queue import end_waits, make_due

MAX_INPUT_BYTES: Final = 1_000_000
MAX_SIGNAL_BYTES: Final = 64 * 1024
MAX_SIGNALS: Final = 100
MAX_RUN_ID: Final = 64
_LOOK_SECONDS: Final = 1.0
_DELIVERED: Final = "delivered"


class BlueprintRuns:
    """The runs of blueprints in the store of a project."""

    def __init__(
        self, journal: BlueprintJournal, *, only_verified: bool = False
    ) -> None:
        """The runs that a journal keeps.

        Args:
            journal: The journal.
            only_verified: True if an issuer must vouch for every caller.
        """
        self._journal = journal
        self._only_verified = only_verified

    async def start(
        self,
        blueprint: Blueprint,
        arguments: Mapping[str, Any],
        context: CallContext,
        run: str,
        classification: Classification | None = None,
    ) -> bool:
        """Begin a run under this id, and let a worker take it up; False if there is one.

        Args:
            blueprint: The blueprint, which the run keeps.
            arguments: Its input.
            context: The call that starts it.
            run: The id.
            classification: That of the tool which the blueprint is. Left out, that which the blueprint names itself.

        Raises:
            EngineRefused: The id, the arguments or the blueprint cannot be used.
        """
        journal = self._journal
        _require_run_id(run)
        _require_input(blueprint, arguments)
        plan = journal.plan_row(blueprint)
        # A blueprint that cannot be prepared is refused here, where its caller hears of
        # it.
        try:
            prepared_blueprint(plan.digest, blueprint)
        except ValueError as error:
            raise EngineRefused(
                f"{blueprint.id} cannot be run: {error}", "`agent blueprint check`"
            ) from error
        level = (
            classification or blueprint.security_logic.data_classification or "INTERNAL"
        )
        begun = _first_entry(
            plan.digest, arguments, context, level, journal.clock.now()
        )

        def write(transaction: Transaction) -> bool:
            if transaction.get(RUNS, run) is not None:
                return False
            started = structs.replace(
                begun, part_of=_blueprint_run(transaction, context.run)
            )
            # All runs of one definition share it.
            transaction.put(PLANS, plan, only_new=True)
            row = _first_row(run, blueprint, started)
            transaction.put(RUNS, journal.append(transaction, row, started))
            transaction.append(started_record(run, started, blueprint))
            # Due at once: a worker finds the run by its row in the queue.
            make_due(transaction, run)
            return True

        return await journal.store.write(write)

    async def signal(
        self,
        run: str,
        name: str,
        data: Any,  # noqa: ANN401 - JSON
        context: CallContext,
    ) -> None:
        """Send a signal to a run, whether or not it waits for it yet, and whether or not a worker is there.

        Raises:
            EngineRefused: There is no such run that concerns the caller, it has ended, it never waits for this signal,
                it has it already, or the data is too large or does not follow the signal's schema.
        """
        journal = self._journal
        self._require_valid(context.caller)
        content = _encoded(data, "The data of a signal")
        if len(content) > MAX_SIGNAL_BYTES:
            raise EngineRefused(
                f"A signal has at most {MAX_SIGNAL_BYTES:,} bytes, and this one has {len(content):,}"
            )

        def write(transaction: Transaction) -> None:
            history = self._require_going_on(transaction, run, context.caller)
            _require_signal(history, name, data)
            received = SignalReceived(name=name, data=data, by=context.caller)
            transaction.put(RUNS, journal.append(transaction, history.row, received))
            transaction.append(
                signalled_record(run, context.caller, history.started.trace_id, name)
            )
            # A run that waits for the signal becomes due. One that does not wait yet
            # finds it in its journal.
            end_waits(transaction, signal_key(run, name))

        await journal.store.write(write)

    async def cancel(self, run: str, context: CallContext) -> None:
        """Ask for the end of a run: what it has done is taken back, as far as its blueprint says how.

        Raises:
            EngineRefused: There is no such run that concerns the caller, or it has ended.
        """
        self._require_valid(context.caller)

        def write(transaction: Transaction) -> None:
            history = self._require_going_on(transaction, run, context.caller)
            # To ask twice is not an error, and changes nothing.
            if history.cancel is None:
                cancel_in(transaction, self._journal, history, context.caller)

        await self._journal.store.write(write)

    async def query(self, run: str) -> RunView | None:
        """How far a run is; None if there is no such run.

        Raises:
            DamagedRun: What is kept of it cannot be read.
        """

        def read(snapshot: Snapshot) -> RunView | None:
            history = self._journal.read(snapshot, run)
            if history is None:
                return None
            folded = fold(
                history, outcome_reader(history, snapshot, self._journal.seal)
            )
            return view_of(history, folded, snapshot)

        return await self._journal.store.read(read)

    async def history(self, run: str) -> History | None:
        """All entries of a run's journal; None if there is no such run.

        Raises:
            DamagedRun: What is kept of it cannot be read.
        """
        return await self._journal.store.read(
            lambda snapshot: self._journal.read(snapshot, run)
        )

    async def result(self, run: str, seconds: float) -> RunResult | RunView:
        """How a run ended; how far it is, once it waits or the time is over.

        Raises:
            EngineRefused: There is no such run, or what is kept of it cannot be read.
        """
        store = self._journal.store
        deadline = time.monotonic() + seconds
        while True:
            # Looked at before any waiting: the run may have ended already, or wait for
            # a person for days.
            is_settled = await store.read(
                lambda snapshot: self._is_settled(snapshot, run)
            )
            left = deadline - time.monotonic()
            if is_settled or left <= 0:
                break
            # Wake-ups of runs that ended before the first look are not heard of: the
            # look comes again by itself.
            await store.woken("run", min(left, _LOOK_SECONDS))
            # Others must get a turn, also where the store returns at once each time.
            await asyncio.sleep(0)
        history = await self.history(run)
        if history is not None and history.ended is not None:
            return history.ended
        view = await self.query(run)
        if view is None:
            raise UnknownRun(run)
        return view

    async def is_delivered(self, run: str) -> bool:
        """True if the end of a run was returned to a caller that gave no key."""
        row = await self._journal.store.read(lambda snapshot: snapshot.get(RUNS, run))
        return row is not None and row.status in FINISHED and row.reason == _DELIVERED

    async def mark_delivered(self, run: str) -> None:
        """Note that the end of a run was returned: the same call from now on is another run."""

        def write(transaction: Transaction) -> None:
            row = transaction.get(RUNS, run)
            if row is not None and row.status in FINISHED:
                # The status says how the run ended, so that the reason is free for this
                # note.
                transaction.put(RUNS, structs.replace(row, reason=_DELIVERED))

        await self._journal.store.write(write)

    async def action(self, action_id: str) -> PendingAction | None:
        """The question or approval with this id."""
        return await self._journal.store.read(
            lambda snapshot: snapshot.get(PENDING, action_id)
        )

    def _is_settled(self, snapshot: Snapshot, run: str) -> bool:
        """True if a run has ended, or waits for something that has not happened."""
        row = snapshot.get(RUNS, run)
        if row is None or row.status in FINISHED:
            return True
        # A row that is due belongs to a run that a worker is about to take up.
        waits = snapshot.find(WAITS, {"run": run})
        now = self._journal.now()
        return (
            row.status == "waiting"
            and bool(waits)
            and all(each.due > now for each in waits)
        )

    async def is_due(self, run: str) -> bool:
        """True if a run waits for nothing any more, and a worker can take it up."""
        now = self._journal.now()

        def read(snapshot: Snapshot) -> bool:
            row = snapshot.get(RUNS, run)
            is_left = row is not None and row.status in {"waiting", "cancelling"}
            return is_left and any(
                each.due <= now for each in snapshot.find(WAITS, {"run": run})
            )

        return await self._journal.store.read(read)

    async def list(self) -> tuple[Run, ...]:
        """The runs of blueprints, the newest first."""
        rows = await self._journal.store.read(lambda snapshot: snapshot.find(RUNS))
        found = [row for row in rows if row.kind == "blueprint"]
        # The id decides between runs of the same moment, so that the order is always
        # the same.
        return tuple(
            sorted(found, key=lambda row: (row.started_at, row.id), reverse=True)
        )

    def _require_valid(self, caller: Caller) -> None:
        is_known = caller.is_verified or not self._only_verified
        if not is_known or is_expired(caller, self._journal.clock.now()):
            raise EngineRefused(
                f"{caller.id} has no valid token, and this project has an issuer",
                "give a valid token",
            )

    def _require_going_on(
        self,
        snapshot: Snapshot,
        run: str,
        caller: Caller,
    ) -> History:
        history = self._journal.read(snapshot, run)
        # The sealed starter decides, never the row. Others do not learn that there is
        # such a run.
        if history is None or not may_see_run(history.started.starter, caller):
            raise UnknownRun(run)
        if history.ended is not None:
            raise EngineRefused(
                f"Run {run} has ended: {history.ended.status}",
                f"`agent blueprint status {run}`",
            )
        return history


def cancel_in(
    transaction: Transaction,
    journal: BlueprintJournal,
    history: History,
    by: Caller,
) -> None:
    """Write down that a run is to end, and let a worker take it up if none has it."""
    row = history.row
    # The entry asks for the end; the status only lets others find the wish without
    # opening the journal.
    changed = journal.append(transaction, row, CancelAsked(by=by))
    transaction.put(RUNS, structs.replace(changed, status="cancelling"))
    transaction.append(cancel_record(row.id, by, history.started.trace_id))
    if history.is_in_segment:
        # The process that has it looks before each call; if that is gone, the process
        # that takes over does.
        transaction.wake("run", row.id)
    else:
        make_due(transaction, row.id)


def _blueprint_run(snapshot: Snapshot, run: str) -> str:
    """The run around a call; empty if it is not that of a blueprint, since only those wait for their parts."""
    around = snapshot.get(RUNS, run)
    return run if around is not None and around.kind == "blueprint" else ""


def _first_entry(
    blueprint: str,
    arguments: Mapping[str, Any],
    context: CallContext,
    classification: Classification,
    now: str,
) -> RunStarted:
    return RunStarted(
        blueprint=blueprint,
        input=dict(arguments),
        starter=context.caller,
        trace_id=context.trace_id,
        parent=context.parent,
        connection=context.connection,
        agent=context.agent,
        lock=context.lock,
        classification=classification,
        started_at=now,
        interpreter=INTERPRETER_VERSION,
    )


def _first_row(run: str, blueprint: Blueprint, started: RunStarted) -> Run:
    return Run(
        id=run,
        kind="blueprint",
        status="waiting",
        trace_id=started.trace_id,
        started_at=started.started_at,
        changed_at=started.started_at,
        agent=f"{blueprint.id}@{blueprint.version}",
        plan=started.blueprint,
        caller=started.starter.id,
        issuer=started.starter.issuer,
        parent=started.part_of,
    )


def _require_run_id(run: str) -> None:
    # The id is a part of keys, of the names of leases, and of the names that an engine
    # gives its rows.
    if not (run.isprintable() and run.isascii() and 0 < len(run) <= MAX_RUN_ID):
        raise EngineRefused(
            f"The id of a run has 1 to {MAX_RUN_ID} printable characters",
            "leave it out",
        )


def _require_input(blueprint: Blueprint, arguments: Mapping[str, Any]) -> None:
    content = _encoded(arguments, f"The input of {blueprint.id}")
    if len(content) > MAX_INPUT_BYTES:
        raise EngineRefused(
            f"An input has at most {MAX_INPUT_BYTES:,} bytes, and this one has {len(content):,}"
        )
    faults = schema_faults(
        compile_schema(input_schema_of(blueprint)), arguments, "input"
    )
    if faults:
        raise EngineRefused(
            f"The input does not follow the schema of {blueprint.id}", "; ".join(faults)
        )


def input_schema_of(blueprint: Blueprint) -> dict[str, Any]:
    """The schema of the arguments of a blueprint; one without any takes none."""
    return blueprint.dag.input_schema or {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


def _require_signal(history: History, name: str, data: Any) -> None:  # noqa: ANN401 - JSON
    run = history.row.id
    waits = _signal_waits(history, name)
    if name in history.signals:
        raise EngineRefused(
            f"Run {run} has the signal {name} already",
            f"`agent blueprint status {run}`",
        )
    if len(history.signals) >= MAX_SIGNALS:
        raise EngineRefused(f"Run {run} has {MAX_SIGNALS} signals, and takes no more")
    # Several steps may wait for one signal, and the data has to suit all of them.
    for wait in waits:
        schema = None if wait.schema is UNSET else compile_schema(wait.schema)
        if faults := schema_faults(schema, data, "data"):
            raise EngineRefused(
                f"The data does not follow the schema of the signal {name}",
                "; ".join(faults),
            )


def _signal_waits(history: History, name: str) -> list[Wait]:
    """The waits of the blueprint for a signal; a name that none waits for is refused."""
    run = history.row.id
    steps = history.blueprint.dag.steps
    waits = [step.wait for step in steps if step.wait is not UNSET]
    for_signals = [wait for wait in waits if wait.kind == "signal"]
    fitting = [wait for wait in for_signals if wait.signal == name]
    if not fitting:
        names = sorted({wait.signal for wait in for_signals})
        hint = f"it waits for {', '.join(names)}" if names else "it waits for none"
        raise EngineRefused(f"Run {run} never waits for the signal {name[:100]}", hint)
    return fitting


def _encoded(value: object, what: str) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise EngineRefused(f"{what} is not JSON: {error}") from error
