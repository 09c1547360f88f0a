"""What was started and what was done: every way a call can stand, and every way it can go on."""

import asyncio
from collections.abc import Awaitable
from typing import Any, Literal

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from msgspec import Struct, structs

from agent_resolver.registry import Ledger, PendingActions
from agent_resolver.schema import LEDGER, AuditKind, Begun, Ending, LedgerEntry, PendingAction, Record, Start
from agent_resolver.storage import MemoryStore, Store
from tests.registry.stores import CANNOT_RECORD, SHELVES, ProcessStore, Shelf, at_once, open_shelf, run

AT = "2026-01-15T10:30:00.000Z"
LATER = "2026-01-15T10:31:00.000Z"
ACTION = PendingAction(id="a1", type="APPROVAL", subject="acme", message="May it?", asked_at=AT, binding="b")
START = Start(
    key="k",
    tool="a.b",
    arguments="sha256-1",
    is_idempotent=False,
    caller="local:ada",
    trace_id="0" * 32,
    at=AT,
    record=Record("run", AuditKind.CALL_STARTED, {"tool": "a.b"}),
)
AGAIN = structs.replace(START, is_idempotent=True)
DONE_RECORD = Record("run", AuditKind.CALL_DONE, {"tool": "a.b"})
ANSWER_RECORD = Record("run", AuditKind.ACTION_APPROVED, {})
STARTED, DONE = str(AuditKind.CALL_STARTED), str(AuditKind.CALL_DONE)


class Machine:
    """A store that several processes share; each of them can be ended."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.gone: set[str] = set()

    def process(self, name: str) -> "Process":
        return Process(ProcessStore(self._store, name, self.gone))


class Process:
    """The ledger of one process; each step runs in a loop of its own."""

    def __init__(self, store: Store) -> None:
        self.ledger = Ledger(store)

    def start(self, start: Start = START, **change: Any) -> Begun:
        (begun,) = run(self.ledger.start(structs.replace(start, **change)))
        assert isinstance(begun, Begun)
        return begun

    def finish(self, ending: Ending, sealed: bytes | None = None, key: str = "k") -> None:
        run(self.ledger.finish(key, ending, LATER, sealed, DONE_RECORD))

    def give_up(self, key: str = "k") -> bool:
        (is_given_up,) = run(self.ledger.give_up(key, LATER, DONE_RECORD))
        return bool(is_given_up)

    def knows(self, key: str = "k") -> bool:
        (is_known,) = run(self.ledger.knows(key))
        return bool(is_known)

    def interrupted(self) -> list[LedgerEntry]:
        (entries,) = run(self.ledger.interrupted())
        return list(entries)


shelf = pytest.fixture(params=SHELVES)(open_shelf)


@pytest.fixture
def machine(shelf: Shelf) -> Machine:
    return Machine(shelf.store)


@pytest.fixture
def process(machine: Machine) -> Process:
    return machine.process("p")


@pytest.fixture
def pending(shelf: Shelf) -> PendingActions:
    return PendingActions(shelf.store)


def approve(pending: PendingActions, **change: Any) -> None:
    asked = structs.replace(ACTION, **change)
    answered = structs.replace(asked, answer="approved", answered_by="local:ada", answered_at=AT)
    run(pending.ask(asked), pending.answer(answered, ANSWER_RECORD))


def used_at(pending: PendingActions, action_id: str = "a1") -> str | None:
    (action,) = run(pending.get(action_id))
    assert isinstance(action, PendingAction)
    return action.used_at


def entry_of(start: Start, owner: str) -> LedgerEntry:
    return LedgerEntry(
        key=start.key,
        tool=start.tool,
        arguments=start.arguments,
        is_idempotent=start.is_idempotent,
        state="started",
        caller=start.caller,
        trace_id=start.trace_id,
        owner=owner,
        started_at=start.at,
    )


# One process ----------------------------------------------------------------------------------------------------------


def test_a_key_that_nobody_used_is_not_known(process: Process) -> None:
    assert (process.knows(), process.interrupted(), process.give_up()) == (False, [], False)


@pytest.mark.parametrize("start", [START, AGAIN])
def test_a_call_starts_with_its_record_and_then_runs_for_everybody(
    machine: Machine, shelf: Shelf, start: Start
) -> None:
    assert machine.process("p").start(start) == Begun("started")

    for name in "pq":
        process = machine.process(name)
        assert process.start(start) == process.start(start, is_new_attempt=True) == Begun("running")
        assert (process.knows(), process.interrupted(), process.give_up()) == (True, [], False)
    assert shelf.kinds() == [STARTED]


@pytest.mark.parametrize("start", [START, AGAIN])
@pytest.mark.parametrize("ending", ["done", "failed"])
def test_what_ended_is_told_again_and_never_started_again(
    machine: Machine, shelf: Shelf, start: Start, ending: Literal["done", "failed"]
) -> None:
    first = machine.process("p")
    first.start(start)
    first.finish(ending, b"sealed")
    machine.gone.add("p")

    for process in (first, machine.process("q")):
        assert process.start(start) == process.start(start, is_new_attempt=True) == Begun(ending, b"sealed")
        assert (process.knows(), process.interrupted(), process.give_up()) == (True, [], False)
    assert shelf.kinds() == [STARTED, DONE]


def test_what_has_ended_belongs_to_no_process_and_tells_when(process: Process, shelf: Shelf) -> None:
    process.start()
    process.finish("done", b"sealed")

    (kept,) = run(shelf.store.read(lambda snapshot: snapshot.get(LEDGER, "k")))
    ended = entry_of(START, "")
    assert kept == structs.replace(ended, state="done", ended_at=LATER, result=b"sealed")


def test_what_is_forgotten_may_start_again_with_anything(process: Process) -> None:
    process.start()
    process.finish("forgotten")

    assert not process.knows()
    assert process.start(arguments="sha256-2") == Begun("started")


@pytest.mark.parametrize("ending", [None, "done", "failed", "unknown"])
@pytest.mark.parametrize("change", [{"tool": "a.c"}, {"arguments": "sha256-2"}])
def test_a_key_is_for_one_call(process: Process, ending: Ending | None, change: dict[str, Any]) -> None:
    process.start()
    if ending:
        process.finish(ending)

    assert process.start(**change) == process.start(**change, is_new_attempt=True) == Begun("reused")
    assert process.start(**change, key="l") == Begun("started")


def test_of_those_who_start_the_same_at_once_one_does(process: Process, shelf: Shelf) -> None:
    begun = at_once(*(process.ledger.start(START) for _ in range(20)))

    assert sorted(each.state for each in begun) == ["running"] * 19 + ["started"]
    assert shelf.kinds() == [STARTED]


def test_a_call_needs_no_record(process: Process, shelf: Shelf) -> None:
    process.start(record=None)
    run(process.ledger.finish("k", "done", AT, b"sealed", None))

    assert process.start() == Begun("done", b"sealed")
    assert shelf.kinds() == []


# Interrupted ----------------------------------------------------------------------------------------------------------

INTERRUPTIONS = ("process gone", "given up", "ended unknown", "end not written")


def interrupt(machine: Machine, shelf: Shelf, start: Start, how: str) -> Process:
    """A process that meets this call after it was interrupted."""
    first = machine.process("p")
    first.start(start)
    if how == "process gone":
        machine.gone.add("p")
    elif how == "given up":
        machine.gone.add("p")
        assert machine.process("q").give_up()
    elif how == "ended unknown":
        first.finish("unknown")
    else:
        shelf.break_trail()
        with pytest.raises(Exception, match=CANNOT_RECORD):
            first.finish("done", b"lost")
        shelf.mend_trail()
        return first
    return machine.process("q")


@pytest.mark.parametrize("how", INTERRUPTIONS)
def test_what_was_interrupted_goes_on_only_if_it_is_idempotent_or_a_person_says_so(
    machine: Machine, shelf: Shelf, how: str
) -> None:
    process = interrupt(machine, shelf, START, how)

    assert process.start() == process.start(AGAIN) == Begun("unknown")
    assert process.knows()
    assert process.start(is_new_attempt=True) == Begun("started")
    assert process.start() == Begun("running")


@pytest.mark.parametrize("how", INTERRUPTIONS)
def test_what_is_idempotent_goes_on_by_itself_and_then_runs(machine: Machine, shelf: Shelf, how: str) -> None:
    process = interrupt(machine, shelf, AGAIN, how)

    assert process.start() == Begun("unknown"), "what would run now must be idempotent too"
    assert process.start(AGAIN) == Begun("started")
    assert process.start(AGAIN) == Begun("running")
    assert process.interrupted() == []
    process.finish("done", b"sealed")
    assert process.start(AGAIN) == Begun("done", b"sealed")


@pytest.mark.parametrize(("how", "is_listed"), [*zip(INTERRUPTIONS, (True, False, False, True), strict=True)])
@pytest.mark.parametrize("start", [START, AGAIN])
def test_what_was_interrupted_is_listed_until_it_is_given_up(
    machine: Machine, shelf: Shelf, start: Start, how: str, *, is_listed: bool
) -> None:
    process = interrupt(machine, shelf, start, how)

    assert process.interrupted() == ([entry_of(start, "p")] if is_listed else [])
    assert [process.give_up(), process.give_up()] == [is_listed, False]
    assert process.interrupted() == []


def test_giving_up_is_recorded_once_or_not_at_all(machine: Machine, shelf: Shelf) -> None:
    process = interrupt(machine, shelf, START, "process gone")
    shelf.break_trail()
    with pytest.raises(Exception, match=CANNOT_RECORD):
        process.give_up()
    shelf.mend_trail()

    assert [process.give_up(), process.give_up()] == [True, False]
    assert shelf.kinds() == [STARTED, DONE]


def test_giving_up_needs_no_record(machine: Machine, shelf: Shelf) -> None:
    process = interrupt(machine, shelf, START, "process gone")

    assert run(process.ledger.give_up("k", LATER, None)) == [True]
    assert process.start() == Begun("unknown")
    assert shelf.kinds() == [STARTED]


def test_what_was_taken_up_again_is_not_given_up(machine: Machine, shelf: Shelf) -> None:
    process = interrupt(machine, shelf, AGAIN, "process gone")
    (found,) = machine.process("r").interrupted()

    process.start(AGAIN)

    assert not machine.process("r").give_up(found.key)
    assert process.start(AGAIN) == Begun("running")


@pytest.mark.parametrize("ending", ["done", "failed", "unknown", "forgotten"])
def test_a_process_that_was_taken_for_gone_does_not_end_what_another_took_up(machine: Machine, ending: Ending) -> None:
    first, second = machine.process("p"), machine.process("q")
    first.start(AGAIN)
    machine.gone.add("p")
    second.start(AGAIN)

    first.finish(ending, b"late")

    assert second.start(AGAIN) == Begun("running")
    second.finish("done", b"sealed")
    assert first.start(AGAIN) == Begun("done", b"sealed")


def test_the_interrupted_are_listed_by_key_with_whose_they_were(machine: Machine) -> None:
    starts = {
        key: structs.replace(START, key=key, is_idempotent=key == "b", caller=f"local:{key}", trace_id=key * 32)
        for key in "cab"
    }
    for (key, owner), start in zip({"c": "p", "a": "q", "b": "p"}.items(), starts.values(), strict=True):
        assert start.key == key
        machine.process(owner).start(start)
    machine.gone.add("p")

    assert machine.process("r").interrupted() == [entry_of(starts["b"], "p"), entry_of(starts["c"], "p")]
    machine.gone.add("q")
    assert [entry.key for entry in machine.process("r").interrupted()] == ["a", "b", "c"]


def test_a_start_that_cannot_be_recorded_leaves_what_was_there(machine: Machine, shelf: Shelf) -> None:
    process = interrupt(machine, shelf, AGAIN, "process gone")
    shelf.break_trail()
    with pytest.raises(Exception, match=CANNOT_RECORD):
        process.start(AGAIN)
    shelf.mend_trail()

    assert machine.process("r").interrupted() == [entry_of(AGAIN, "p")]


# Approvals and answers ------------------------------------------------------------------------------------------------


def test_an_approval_is_used_up_by_the_start(process: Process, pending: PendingActions, shelf: Shelf) -> None:
    approve(pending)

    assert process.start(uses="a1") == Begun("started")
    assert used_at(pending) == AT
    assert process.start(key="l", uses="a1") == Begun("refused")
    assert shelf.kinds() == [str(AuditKind.ACTION_APPROVED), STARTED]


def test_of_those_who_start_with_one_approval_at_once_one_does(process: Process, pending: PendingActions) -> None:
    approve(pending)
    starts = [structs.replace(START, key=f"k{number}", uses="a1") for number in range(20)]

    begun = at_once(*map(process.ledger.start, starts))

    assert sorted(each.state for each in begun) == ["refused"] * 19 + ["started"]


def test_a_question_that_nobody_answered_lets_nothing_start(
    process: Process, pending: PendingActions, shelf: Shelf
) -> None:
    run(pending.ask(ACTION))

    assert process.start(uses="a1") == process.start(uses="absent") == Begun("refused")
    assert not process.knows()
    assert used_at(pending) is None
    assert shelf.kinds() == []


@pytest.mark.parametrize("state", ["running", "done", "failed", "unknown", "reused"])
def test_what_does_not_start_uses_nothing_up(process: Process, pending: PendingActions, state: str) -> None:
    approve(pending)
    process.start(arguments="sha256-2" if state == "reused" else "sha256-1")
    endings: dict[str, Ending] = {"done": "done", "failed": "failed", "unknown": "unknown"}
    if state in endings:
        process.finish(endings[state], b"")

    assert process.start(uses="a1").state == state
    assert used_at(pending) is None


def test_what_was_interrupted_goes_on_with_the_approval_that_it_used(process: Process, pending: PendingActions) -> None:
    approve(pending)
    process.start(AGAIN, uses="a1")
    process.finish("unknown")

    assert process.start(AGAIN, uses="a1", at=LATER) == Begun("started")
    assert used_at(pending) == AT


def test_what_goes_on_by_itself_does_not_use_a_question_up_before_it_is_answered(
    process: Process, pending: PendingActions
) -> None:
    run(pending.ask(ACTION))
    process.start(AGAIN)
    process.finish("unknown")

    assert process.start(AGAIN, uses="a1") == Begun("started")
    assert used_at(pending) is None


def test_what_was_forgotten_does_not_go_on_with_the_approval_that_it_used(
    process: Process, pending: PendingActions
) -> None:
    approve(pending)
    process.start(AGAIN, uses="a1")
    process.finish("forgotten")

    assert process.start(AGAIN, uses="a1") == Begun("refused")


def test_an_answer_that_says_to_try_again_is_good_for_one_attempt(process: Process, pending: PendingActions) -> None:
    approve(pending, type="CLARIFICATION")
    process.start()
    process.finish("unknown")

    assert process.start(uses="a1", is_new_attempt=True) == Begun("started")
    process.finish("unknown")
    assert process.start(uses="a1", is_new_attempt=True) == Begun("refused")


# What cannot be written, and who stops waiting ------------------------------------------------------------------------


def test_a_start_is_kept_with_its_record_or_not_at_all(process: Process, pending: PendingActions, shelf: Shelf) -> None:
    approve(pending)
    shelf.break_trail()
    with pytest.raises(Exception, match=CANNOT_RECORD):
        process.start(uses="a1")
    shelf.mend_trail()

    assert not process.knows()
    assert used_at(pending) is None
    assert process.start(uses="a1") == Begun("started")
    assert shelf.kinds() == [str(AuditKind.ACTION_APPROVED), STARTED]


def test_a_failed_start_does_not_mark_a_running_call_of_its_key_interrupted(process: Process, shelf: Shelf) -> None:
    process.start()
    shelf.break_trail()
    assert process.start() == Begun("running")
    run(shelf.store.write(lambda transaction: transaction.drop(LEDGER, "k")))
    with pytest.raises(Exception, match=CANNOT_RECORD):
        process.start()
    shelf.mend_trail()
    run(shelf.store.write(lambda transaction: transaction.put(LEDGER, entry_of(START, "p"))))

    assert process.start() == Begun("running")


@pytest.mark.parametrize("ending", ["done", "failed", "unknown", "forgotten"])
def test_an_end_that_cannot_be_recorded_leaves_the_outcome_unknown(
    process: Process, shelf: Shelf, ending: Ending
) -> None:
    process.start()
    shelf.break_trail()
    with pytest.raises(Exception, match=CANNOT_RECORD):
        process.finish(ending, b"sealed")
    shelf.mend_trail()

    assert process.start() == Begun("unknown")
    assert shelf.kinds() == [STARTED]
    assert process.start(is_new_attempt=True) == Begun("started")
    assert process.start() == Begun("running")
    process.finish("done", b"sealed")
    assert process.start() == Begun("done", b"sealed")


class HeldStore(ProcessStore):
    """A store whose work is done, and whose callers do not hear of it while it is held."""

    is_held = False
    is_done = False

    async def write(self, work: Any) -> Any:
        result = await super().write(work)
        self.is_done = True
        while self.is_held:  # noqa: ASYNC110 - whoever waits is cancelled
            await asyncio.sleep(0)
        return result

    def stop_waiting(self, step: Awaitable[object]) -> None:
        """Do a step, and stop waiting for it once its work is done."""

        async def story() -> None:
            task = asyncio.ensure_future(step)
            while not self.is_done:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self.is_held, self.is_done = True, False
        asyncio.run(story())
        self.is_held = False


@pytest.fixture
def held(shelf: Shelf) -> HeldStore:
    return HeldStore(shelf.store, "p", set())


def test_a_caller_that_stops_waiting_for_a_start_leaves_no_call_that_seems_to_run(held: HeldStore) -> None:
    process = Process(held)
    held.stop_waiting(process.ledger.start(AGAIN))

    assert process.start(AGAIN) == Begun("started")


def test_a_caller_that_stops_waiting_for_an_end_has_ended_the_call(held: HeldStore) -> None:
    process = Process(held)
    process.start(AGAIN)
    held.stop_waiting(process.ledger.finish("k", "done", AT, b"sealed", DONE_RECORD))

    assert process.start(AGAIN) == Begun("done", b"sealed")


# Against a model ------------------------------------------------------------------------------------------------------


class Known(Struct):
    """What the model knows of a key."""

    start: Start
    state: Literal["started", "done", "failed", "unknown"]
    owner: str
    result: bytes | None = None


KEYS = st.sampled_from("kl")
PROCESSES = st.sampled_from("pqr")
STARTS = st.builds(
    Start,
    key=KEYS,
    tool=st.sampled_from(["a", "b"]),
    arguments=st.sampled_from(["1", "2"]),
    is_idempotent=st.booleans(),
    caller=st.just("local:ada"),
    trace_id=st.just("0"),
    is_new_attempt=st.booleans(),
    at=st.just(AT),
    record=st.none(),
)


class LedgerAgainstModel(RuleBasedStateMachine):
    """Processes start, finish, lose and give up calls, and end, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine(MemoryStore())
        self.generation = dict.fromkeys("pqr", 0)
        self.processes = {name: self.machine.process(f"{name}0") for name in "pqr"}
        self.model: dict[str, Known] = {}
        self.lost: set[tuple[str, str]] = set()

    def owner(self, process: str) -> str:
        return f"{process}{self.generation[process]}"

    def is_interrupted(self, key: str, process: str) -> bool:
        """Whether that process can know: an end that could not be written is lost only where that happened."""
        known = self.model[key]
        is_mine = known.owner == self.owner(process)
        return known.owner in self.machine.gone or (is_mine and (key, known.owner) in self.lost)

    def expected(self, start: Start, process: str) -> Begun:
        known = self.model.get(start.key)
        if known is None:
            return Begun("started")
        if (known.start.tool, known.start.arguments) != (start.tool, start.arguments):
            return Begun("reused")
        if known.state in {"done", "failed"}:
            return Begun(known.state, known.result)
        if known.state == "started" and not self.is_interrupted(start.key, process):
            return Begun("running")
        may_go_on = start.is_new_attempt or (start.is_idempotent and known.start.is_idempotent)
        return Begun("started" if may_go_on else "unknown")

    @rule(process=PROCESSES, start=STARTS)
    def start(self, process: str, start: Start) -> None:
        expected = self.expected(start, process)
        assert self.processes[process].start(start) == expected
        if expected.state == "started":
            self.model[start.key] = Known(start, "started", self.owner(process))
            self.lost.discard((start.key, self.owner(process)))

    @rule(key=KEYS, ending=st.sampled_from(["done", "failed", "unknown", "forgotten"]), result=st.binary(max_size=3))
    def finish(self, key: str, ending: Any, result: bytes) -> None:
        known = self.model.get(key)
        if known is None or known.state != "started" or known.owner in self.machine.gone:
            return
        self.processes[known.owner[0]].finish(ending, result, key)
        if ending == "forgotten":
            del self.model[key]
        else:
            known.state, known.result = ending, result

    @rule(key=KEYS)
    def lose(self, key: str) -> None:
        known = self.model.get(key)
        if known is not None and known.state == "started" and known.owner not in self.machine.gone:
            unkeepable = Record("run", AuditKind.CALL_DONE, {"value": object()})
            with pytest.raises(TypeError):
                run(self.processes[known.owner[0]].ledger.finish(key, "done", AT, None, unkeepable))
            self.lost.add((key, known.owner))

    @rule(process=PROCESSES, key=KEYS)
    def give_up(self, process: str, key: str) -> None:
        known = self.model.get(key)
        expected = known is not None and known.state == "started" and self.is_interrupted(key, process)
        assert self.processes[process].give_up(key) is expected
        if known is not None and expected:
            known.state = "unknown"

    @rule(process=PROCESSES)
    def end(self, process: str) -> None:
        self.machine.gone.add(self.owner(process))
        self.generation[process] += 1
        self.processes[process] = self.machine.process(self.owner(process))

    @invariant()
    def all_agree(self) -> None:
        for name, process in self.processes.items():
            assert [process.knows(key) for key in "kl"] == [key in self.model for key in "kl"]
            assert [entry.key for entry in process.interrupted()] == [
                key
                for key, known in sorted(self.model.items())
                if known.state == "started" and self.is_interrupted(key, name)
            ]


@pytest.mark.slow
def test_whatever_processes_do_the_ledger_says_what_a_simple_model_says() -> None:
    steps = settings(max_examples=60, stateful_step_count=30, deadline=None)
    run_state_machine_as_test(LedgerAgainstModel, settings=steps)
