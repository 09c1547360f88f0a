"""What was started and what was done: every way a call can stand, and every way it can go on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from msgspec import Struct, structs

from agent_resolver.storage import Database, Ending, LedgerCall, SqliteLedger

AT = "2026-01-01T00:00:00.000Z"
CALL = LedgerCall(
    key="k", tool="tickets.close", arguments="sha256-1", is_idempotent=False, caller="local:ada", trace_id="0" * 32
)
AGAIN = structs.replace(CALL, is_idempotent=True)


class Machine:
    """A state file that several processes share; each can be ended."""

    def __init__(self, path: str) -> None:
        self.database = Database(path)
        self.gone: set[str] = set()

    def process(self, name: str) -> SqliteLedger:
        return SqliteLedger(self.database, name, self.gone.__contains__)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(str(tmp_path / "state.db"))
    yield machine
    machine.database.close()


def test_a_key_that_nobody_used_is_new(machine: Machine) -> None:
    ledger = machine.process("p")

    assert ledger.look(CALL) == ("new", None)
    assert not ledger.knows("k")
    assert ledger.interrupted() == []


@pytest.mark.parametrize("call", [CALL, AGAIN])
def test_what_started_runs_for_everybody(machine: Machine, call: LedgerCall) -> None:
    machine.process("p").start(call, AT)

    for name in "pq":
        ledger = machine.process(name)
        assert ledger.look(call) == ("running", None)
        assert ledger.look(call, is_new_attempt=True) == ("running", None)
        assert ledger.knows("k")
        assert ledger.interrupted() == []
        assert not ledger.give_up("k")


@pytest.mark.parametrize("call", [CALL, AGAIN])
def test_what_is_done_stays_done_with_its_result(machine: Machine, call: LedgerCall) -> None:
    machine.process("p").start(call, AT)
    machine.process("p").finish("k", "done", b"sealed")
    machine.gone.add("p")

    ledger = machine.process("q")
    assert ledger.look(call) == ("done", b"sealed")
    assert ledger.look(call, is_new_attempt=True) == ("done", b"sealed")
    assert ledger.interrupted() == []
    assert not ledger.give_up("k")


@pytest.mark.parametrize("change", [{"tool": "tickets.open"}, {"arguments": "sha256-2"}])
@pytest.mark.parametrize("ending", [None, "done", "unknown"])
def test_a_key_is_for_one_call(machine: Machine, change: dict[str, str], ending: Ending | None) -> None:
    ledger = machine.process("p")
    ledger.start(CALL, AT)
    if ending:
        ledger.finish("k", ending, b"sealed")

    other = structs.replace(CALL, **change)
    assert ledger.look(other) == ("reused", None)
    assert ledger.look(other, is_new_attempt=True) == ("reused", None)


def test_another_key_is_another_call(machine: Machine) -> None:
    ledger = machine.process("p")
    ledger.start(CALL, AT)

    assert ledger.look(structs.replace(CALL, key="l")) == ("new", None)


def test_what_is_forgotten_may_start_again_with_anything(machine: Machine) -> None:
    ledger = machine.process("p")
    ledger.start(CALL, AT)
    ledger.finish("k", "forgotten", None)

    assert ledger.look(structs.replace(CALL, arguments="sha256-2")) == ("new", None)
    assert not ledger.knows("k")


def interrupted(machine: Machine, call: LedgerCall, how: str) -> SqliteLedger:
    """A process that meets this call after it was interrupted."""
    first = machine.process("p")
    first.start(call, AT)
    if how == "process gone":
        machine.gone.add("p")
    elif how == "given up":
        machine.gone.add("p")
        assert machine.process("q").give_up("k")
    elif how == "ended unknown":
        first.finish("k", "unknown", None)
    else:
        first.lose("k")
        return first
    return machine.process("q")


INTERRUPTIONS = ("process gone", "given up", "ended unknown", "end not written")


@pytest.mark.parametrize("how", INTERRUPTIONS)
def test_what_was_interrupted_goes_on_only_if_it_is_idempotent_or_a_person_says_so(machine: Machine, how: str) -> None:
    ledger = interrupted(machine, CALL, how)

    assert ledger.look(CALL) == ("unknown", None)
    assert ledger.look(CALL, is_new_attempt=True) == ("resumable", None)
    assert ledger.knows("k")


@pytest.mark.parametrize("how", INTERRUPTIONS)
def test_what_is_idempotent_goes_on_by_itself_and_then_runs(machine: Machine, how: str) -> None:
    ledger = interrupted(machine, AGAIN, how)

    assert ledger.look(AGAIN) == ("resumable", None)
    ledger.start(AGAIN, AT)
    assert ledger.look(AGAIN) == ("running", None)
    ledger.finish("k", "done", b"sealed")
    assert ledger.look(AGAIN) == ("done", b"sealed")


@pytest.mark.parametrize("how", INTERRUPTIONS)
@pytest.mark.parametrize("ran", [CALL, AGAIN])
def test_what_ran_and_what_would_run_must_both_be_idempotent(machine: Machine, ran: LedgerCall, how: str) -> None:
    """A tool may be changed between the two."""
    would = structs.replace(ran, is_idempotent=not ran.is_idempotent)

    assert interrupted(machine, ran, how).look(would) == ("unknown", None)


@pytest.mark.parametrize(("how", "is_listed"), [*zip(INTERRUPTIONS, (True, False, False, True), strict=True)])
@pytest.mark.parametrize("call", [CALL, AGAIN])
def test_what_was_interrupted_is_listed_until_it_is_given_up(
    machine: Machine, call: LedgerCall, how: str, *, is_listed: bool
) -> None:
    ledger = interrupted(machine, call, how)

    assert ledger.interrupted() == ([call] if is_listed else [])
    assert ledger.give_up("k") is is_listed
    assert not ledger.give_up("k")
    assert ledger.interrupted() == []


def test_what_was_taken_up_again_is_not_given_up(machine: Machine) -> None:
    ledger = interrupted(machine, AGAIN, "process gone")
    (found,) = machine.process("r").interrupted()

    ledger.start(AGAIN, AT)

    assert not machine.process("r").give_up(found.key)
    assert ledger.look(AGAIN) == ("running", None)


@pytest.mark.parametrize("ending", ["done", "unknown", "forgotten"])
def test_a_process_that_was_taken_for_gone_does_not_end_what_another_took_up(machine: Machine, ending: Ending) -> None:
    first, second = machine.process("p"), machine.process("q")
    first.start(AGAIN, AT)
    machine.gone.add("p")
    second.start(AGAIN, AT)

    first.finish("k", ending, b"late")

    assert second.look(AGAIN) == ("running", None)
    second.finish("k", "done", b"sealed")
    assert first.look(AGAIN) == ("done", b"sealed")


def test_the_interrupted_are_listed_by_key_with_whose_they_were(machine: Machine) -> None:
    calls = [
        structs.replace(CALL, key=key, is_idempotent=key == "b", caller=f"local:{key}", trace_id=key * 32)
        for key in "cab"
    ]
    for call, owner in zip(calls, "pqp", strict=True):
        machine.process(owner).start(call, AT)
    machine.gone.add("p")

    assert machine.process("r").interrupted() == [calls[2], calls[0]]
    machine.gone.add("q")
    assert machine.process("r").interrupted() == [calls[1], calls[2], calls[0]]


def test_a_new_start_under_a_lost_key_is_not_lost(machine: Machine) -> None:
    ledger = interrupted(machine, AGAIN, "end not written")

    ledger.start(AGAIN, AT)

    assert ledger.look(AGAIN) == ("running", None)
    assert ledger.interrupted() == []


def test_a_start_that_is_taken_back_leaves_what_was_there(machine: Machine) -> None:
    ledger = interrupted(machine, AGAIN, "process gone")

    with pytest.raises(ZeroDivisionError), machine.database.transaction():
        start_and_fail(ledger)

    assert machine.process("r").interrupted() == [AGAIN]


def start_and_fail(ledger: SqliteLedger) -> None:
    ledger.start(AGAIN, AT)
    raise ZeroDivisionError


def test_bytes_that_are_no_text_are_kept_as_escapes(machine: Machine) -> None:
    machine.process("p").start(structs.replace(CALL, trace_id="\udcff"), AT)
    machine.gone.add("p")

    assert [call.trace_id for call in machine.process("q").interrupted()] == ["\\udcff"]


def test_a_result_that_somebody_edited_is_none(machine: Machine) -> None:
    ledger = machine.process("p")
    ledger.start(CALL, AT)
    ledger.finish("k", "done", b"sealed")
    with machine.database.transaction() as connection:
        connection.execute("UPDATE ledger SET result = 'text'")

    assert ledger.look(CALL) == ("done", None)


# Against a model ------------------------------------------------------------------------------------------------------


class Known(Struct):
    """What the model knows of a key."""

    call: LedgerCall
    state: Literal["started", "done", "unknown"]
    owner: str
    result: bytes | None = None


KEYS = st.sampled_from("kl")
PROCESSES = st.sampled_from("pqr")
CALLS = st.builds(
    LedgerCall,
    key=KEYS,
    tool=st.sampled_from(["a", "b"]),
    arguments=st.sampled_from(["1", "2"]),
    is_idempotent=st.booleans(),
    caller=st.just("local:ada"),
    trace_id=st.just("0"),
)


class LedgerAgainstModel(RuleBasedStateMachine):
    """Processes start, finish, lose and give up calls, and end, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine(":memory:")
        self.generation = dict.fromkeys("pqr", 0)
        self.ledgers = {name: self.machine.process(f"{name}0") for name in "pqr"}
        self.model: dict[str, Known] = {}
        self.lost: set[tuple[str, str]] = set()

    def owner(self, process: str) -> str:
        return f"{process}{self.generation[process]}"

    def is_interrupted(self, key: str, process: str) -> bool:
        """Whether that process can know: an end that could not be written is lost only where that happened."""
        known = self.model[key]
        is_mine = known.owner == self.owner(process)
        return known.owner in self.machine.gone or (is_mine and (key, known.owner) in self.lost)

    def standing(self, call: LedgerCall, process: str, *, is_new_attempt: bool) -> tuple[str, bytes | None]:
        known = self.model.get(call.key)
        if known is None:
            return "new", None
        if (known.call.tool, known.call.arguments) != (call.tool, call.arguments):
            return "reused", None
        if known.state == "done":
            return "done", known.result
        if known.state == "started" and not self.is_interrupted(call.key, process):
            return "running", None
        may_go_on = is_new_attempt or (call.is_idempotent and known.call.is_idempotent)
        return ("resumable" if may_go_on else "unknown"), None

    @rule(process=PROCESSES, call=CALLS, is_new_attempt=st.booleans())
    def start(self, process: str, call: LedgerCall, *, is_new_attempt: bool) -> None:
        expected = self.standing(call, process, is_new_attempt=is_new_attempt)
        assert self.ledgers[process].look(call, is_new_attempt=is_new_attempt) == expected
        if expected[0] in {"new", "resumable"}:
            self.ledgers[process].start(call, AT)
            self.model[call.key] = Known(call, "started", self.owner(process))
            self.lost.discard((call.key, self.owner(process)))

    @rule(key=KEYS, ending=st.sampled_from(["done", "unknown", "forgotten"]), result=st.binary(max_size=3))
    def finish(self, key: str, ending: Ending, result: bytes) -> None:
        known = self.model.get(key)
        if known is None or known.state != "started" or known.owner in self.machine.gone:
            return
        self.ledgers[known.owner[0]].finish(key, ending, result if ending == "done" else None)
        if ending == "forgotten":
            del self.model[key]
        else:
            known.state, known.result = ending, result if ending == "done" else None

    @rule(key=KEYS)
    def lose(self, key: str) -> None:
        known = self.model.get(key)
        if known is not None and known.state == "started" and known.owner not in self.machine.gone:
            self.ledgers[known.owner[0]].lose(key)
            self.lost.add((key, known.owner))

    @rule(process=PROCESSES, key=KEYS)
    def give_up(self, process: str, key: str) -> None:
        known = self.model.get(key)
        expected = known is not None and known.state == "started" and self.is_interrupted(key, process)
        assert self.ledgers[process].give_up(key) is expected
        if known is not None and expected:
            known.state = "unknown"

    @rule(process=PROCESSES)
    def end(self, process: str) -> None:
        self.machine.gone.add(self.owner(process))
        self.generation[process] += 1
        self.ledgers[process] = self.machine.process(self.owner(process))

    @invariant()
    def all_agree(self) -> None:
        for key in "kl":
            assert all(ledger.knows(key) == (key in self.model) for ledger in self.ledgers.values())
        for process, ledger in self.ledgers.items():
            assert ledger.interrupted() == [
                known.call
                for key, known in sorted(self.model.items())
                if known.state == "started" and self.is_interrupted(key, process)
            ]

    def teardown(self) -> None:
        self.machine.database.close()


def test_whatever_processes_do_the_ledger_says_what_a_simple_model_says() -> None:
    steps = settings(max_examples=60, stateful_step_count=30, deadline=None)
    run_state_machine_as_test(LedgerAgainstModel, settings=steps)
