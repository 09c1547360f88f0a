"""Every adapter of the registry's ports keeps the same promises, whether it keeps things in memory or in a file."""

import asyncio
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec import structs

from agent_resolver.project import ProjectSecrets, SecretPlace, StatePorts
from agent_resolver.registry import (
    Ledger,
    MemoryLedger,
    MemoryPendingActions,
    MemoryRate,
    MemorySecrets,
    MemoryTrail,
    OpenSeal,
    PendingActions,
    Rate,
    Seal,
    Secrets,
    Trail,
)
from agent_resolver.schema import Begun, PendingAction, Record, Start
from agent_resolver.storage import AesSeal, Database, SqliteTrail

AT = "2026-01-15T10:30:00.000Z"
ACTION = PendingAction(id="a1", type="APPROVAL", subject="acme", message="May it?", asked_at=AT, binding="b")
ANSWERED = structs.replace(ACTION, answer="approved", reason="fine", answered_by="local:ada", answered_at=AT)
RECORD = Record("run", "kind", {"tool": "a.b"})
START = Start(
    key="k",
    tool="a.b",
    arguments="sha256-1",
    is_idempotent=False,
    caller="local:ada",
    trace_id="0" * 32,
    at=AT,
    record=Record("run", "call.started", {"tool": "a.b"}),
)
DONE = Record("run", "call.done", {"tool": "a.b"})
Ending = Literal["done", "unknown", "forgotten"]


class Adapters(ABC):
    """One adapter of each port, over the same state, and a way to look into it."""

    trail: Trail
    pending: PendingActions
    rate: Rate
    ledger: Ledger

    @abstractmethod
    def kinds(self) -> list[str]:
        """The kinds of all records, oldest first."""

    @abstractmethod
    def break_trail(self) -> None:
        """From now on nothing can be recorded."""

    @abstractmethod
    def mend_trail(self) -> None:
        """Records are taken again."""


class BreakableTrail(MemoryTrail):
    """A trail that can be made to fail, and that lets others go first."""

    is_broken = False

    async def append(self, run: str, kind: str, body: Mapping[str, object]) -> None:
        await asyncio.sleep(0)
        if self.is_broken:
            raise OSError(28, "No space left on device")
        await super().append(run, kind, body)


class InMemory(Adapters):
    """The adapters that keep everything in memory."""

    def __init__(self) -> None:
        pending = MemoryPendingActions(trail := BreakableTrail())
        self.trail = self._trail = trail
        self.pending = pending
        self.rate = MemoryRate()
        self.ledger = MemoryLedger(pending, trail)

    def kinds(self) -> list[str]:
        return [kind for _, kind, _ in self._trail.records]

    def break_trail(self) -> None:
        self._trail.is_broken = True

    def mend_trail(self) -> None:
        self._trail.is_broken = False


class InFile(Adapters):
    """The adapters on a state file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = Database(str(path))
        self.ports = StatePorts(self.database, None)
        self.trail = self.pending = self.rate = self.ledger = self.ports

    def kinds(self) -> list[str]:
        database = Database(str(self.path))
        trail = SqliteTrail(database)
        assert trail.verify()[0] == []
        kinds = [record.kind for record in trail.records()]
        database.close()
        return kinds

    def break_trail(self) -> None:
        self._execute("UPDATE audit_seal SET count = 'broken' || count")

    def mend_trail(self) -> None:
        self._execute("UPDATE audit_seal SET count = CAST(substr(count, 7) AS INTEGER)")

    def _execute(self, statement: str) -> None:
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute(statement)
        connection.close()

    def close(self) -> None:
        self.ports.close()
        self.database.close()


@pytest.fixture(params=["memory", "state file"])
def adapters(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Adapters]:
    if request.param == "memory":
        yield InMemory()
        return
    in_file = InFile(tmp_path / "state.db")
    yield in_file
    in_file.close()


def run(*steps: Awaitable[Any]) -> list[Any]:
    """What these come to, one after the other."""

    async def story() -> list[Any]:
        return [await step for step in steps]

    return asyncio.run(story())


def at_once(*steps: Awaitable[Any]) -> list[Any]:
    """What these come to, all at the same time."""

    async def story() -> list[Any]:
        return await asyncio.gather(*steps)

    return asyncio.run(story())


# The trail ------------------------------------------------------------------------------------------------------------


def test_a_record_of_anything_that_json_can_say_is_kept(adapters: Adapters) -> None:
    body = {"tool": "a.b", "list": [1, None, "é"], "deep": {"x": True}}

    run(adapters.trail.append("run", "call.done", body), adapters.trail.append("other", "call.failed", {}))

    assert adapters.kinds() == ["call.done", "call.failed"]


def test_records_that_come_at_once_are_all_kept(adapters: Adapters) -> None:
    at_once(*(adapters.trail.append("run", f"kind {number}", {}) for number in range(300)))

    assert sorted(adapters.kinds()) == sorted(f"kind {number}" for number in range(300))


def test_a_record_that_cannot_be_kept_is_told(adapters: Adapters) -> None:
    adapters.break_trail()

    with pytest.raises(Exception, match=r"No space left|was edited"):
        run(adapters.trail.append("run", "kind", {}))

    adapters.mend_trail()
    assert adapters.kinds() == []


# What waits for a person ----------------------------------------------------------------------------------------------


def test_what_is_asked_is_kept_with_its_record(adapters: Adapters) -> None:
    pending = adapters.pending

    assert run(pending.ask(ACTION, RECORD), pending.get("a1"), pending.all()) == [ACTION, ACTION, [ACTION]]
    assert adapters.kinds() == ["kind"]


def test_a_question_needs_no_record(adapters: Adapters) -> None:
    assert run(adapters.pending.ask(ACTION)) == [ACTION]
    assert adapters.kinds() == []


def test_asking_again_gives_the_action_that_is_there_and_records_nothing(adapters: Adapters) -> None:
    again = structs.replace(ACTION, asked_at="later", message="Something else")

    assert run(adapters.pending.ask(ACTION, RECORD), adapters.pending.ask(again, RECORD)) == [ACTION, ACTION]
    assert adapters.kinds() == ["kind"]


def test_of_those_who_ask_the_same_at_once_one_is_recorded(adapters: Adapters) -> None:
    assert at_once(*(adapters.pending.ask(ACTION, RECORD) for _ in range(20))) == [ACTION] * 20
    assert adapters.kinds() == ["kind"]


def test_an_answer_cannot_come_with_the_question(adapters: Adapters) -> None:
    forged = structs.replace(ANSWERED, used_at=AT)

    assert run(adapters.pending.ask(forged), adapters.pending.get("a1")) == [ACTION, ACTION]


def test_what_nobody_asked_is_not_there(adapters: Adapters) -> None:
    pending = adapters.pending

    assert run(pending.get("a1"), pending.all(), pending.newest("b")) == [None, [], (None, 0)]
    assert run(pending.answer(ANSWERED, RECORD)) == [False]
    assert adapters.kinds() == []


def test_the_newest_of_a_binding_is_the_one_that_was_asked_last(adapters: Adapters) -> None:
    pending = adapters.pending
    second = structs.replace(ACTION, id="a0", asked_at="2020-01-01T00:00:00.000Z")
    other = structs.replace(ACTION, id="a2", binding="c")
    run(pending.ask(ACTION), pending.ask(second), pending.ask(other))

    assert run(pending.newest("b"), pending.newest("c")) == [(second, 2), (other, 1)]
    assert run(pending.all()) == [[second, ACTION, other]]


def test_an_answer_is_kept_once_with_its_record(adapters: Adapters) -> None:
    pending = adapters.pending
    run(pending.ask(ACTION))
    late = structs.replace(ANSWERED, answer="rejected", answered_by="local:eve")

    assert run(pending.answer(ANSWERED, RECORD), pending.answer(late, RECORD)) == [True, False]
    assert run(pending.get("a1"), pending.newest("b")) == [ANSWERED, (ANSWERED, 1)]
    assert adapters.kinds() == ["kind"]


def test_of_those_who_answer_at_once_one_does(adapters: Adapters) -> None:
    run(adapters.pending.ask(ACTION))
    answers = [structs.replace(ANSWERED, answered_by=f"local:{number}") for number in range(20)]

    assert sorted(at_once(*(adapters.pending.answer(each, RECORD) for each in answers))) == [False] * 19 + [True]
    assert adapters.kinds() == ["kind"]


def test_a_question_is_kept_with_its_record_or_not_at_all(adapters: Adapters) -> None:
    adapters.break_trail()
    with pytest.raises(Exception, match=r"No space left|was edited"):
        run(adapters.pending.ask(ACTION, RECORD))
    adapters.mend_trail()

    assert run(adapters.pending.get("a1")) == [None]
    assert run(adapters.pending.ask(ACTION, RECORD)) == [ACTION]
    assert adapters.kinds() == ["kind"]


def test_an_answer_is_kept_with_its_record_or_not_at_all(adapters: Adapters) -> None:
    run(adapters.pending.ask(ACTION))
    adapters.break_trail()
    with pytest.raises(Exception, match=r"No space left|was edited"):
        run(adapters.pending.answer(ANSWERED, RECORD))
    adapters.mend_trail()

    assert run(adapters.pending.get("a1")) == [ACTION]
    assert run(adapters.pending.answer(ANSWERED, RECORD)) == [True]
    assert adapters.kinds() == ["kind"]


# How often ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, 1, 5, 5.5])
def test_no_more_uses_are_counted_than_the_limit_allows(adapters: Adapters, limit: float) -> None:
    waits = run(*(adapters.rate.take("server acme", limit) for _ in range(8)))

    assert waits[: int(limit)] == [0.0] * int(limit)
    assert all(0 < wait <= 60 for wait in waits[int(limit) :])


def test_each_subject_has_a_limit_of_its_own(adapters: Adapters) -> None:
    assert run(*(adapters.rate.take(subject, 1) for subject in ("a", "b", "c"))) == [0.0, 0.0, 0.0]


# What was done --------------------------------------------------------------------------------------------------------


def start(adapters: Adapters, **change: Any) -> Begun:
    (begun,) = run(adapters.ledger.start(structs.replace(START, **change)))
    assert isinstance(begun, Begun)
    return begun


def finish(adapters: Adapters, ending: Ending, sealed: bytes | None = None, key: str = "k") -> None:
    run(adapters.ledger.finish(key, ending, sealed, DONE))


def approve(adapters: Adapters, action_id: str = "a1", **change: Any) -> None:
    asked = structs.replace(ACTION, id=action_id, **change)
    answered = structs.replace(ANSWERED, id=action_id, **change)
    run(adapters.pending.ask(asked), adapters.pending.answer(answered, RECORD))


def used_at(adapters: Adapters, action_id: str = "a1") -> str | None:
    (action,) = run(adapters.pending.get(action_id))
    assert isinstance(action, PendingAction)
    return action.used_at


def knows(adapters: Adapters) -> bool:
    (is_known,) = run(adapters.ledger.knows("k"))
    return bool(is_known)


def test_a_call_starts_with_its_record_and_then_runs(adapters: Adapters) -> None:
    assert not knows(adapters)
    assert start(adapters) == Begun("started")
    assert knows(adapters)
    assert start(adapters) == start(adapters, is_idempotent=True) == Begun("running")
    assert adapters.kinds() == ["call.started"]


def test_what_is_done_is_told_again_and_never_started_again(adapters: Adapters) -> None:
    start(adapters)
    finish(adapters, "done", b"sealed")

    assert knows(adapters)
    assert start(adapters) == start(adapters, is_new_attempt=True) == Begun("done", b"sealed")
    assert adapters.kinds() == ["call.started", "call.done"]


def test_what_is_forgotten_may_start_again(adapters: Adapters) -> None:
    start(adapters)
    finish(adapters, "forgotten")

    assert not knows(adapters)
    assert start(adapters, arguments="sha256-2") == Begun("started")


def test_what_ended_nobody_knows_how_starts_again_only_if_both_are_idempotent_or_a_person_says_so(
    adapters: Adapters,
) -> None:
    start(adapters)
    finish(adapters, "unknown")

    assert knows(adapters)
    assert start(adapters) == start(adapters, is_idempotent=True) == Begun("unknown")
    assert start(adapters, is_new_attempt=True) == Begun("started")
    assert start(adapters) == Begun("running")


def test_what_is_idempotent_starts_again_by_itself(adapters: Adapters) -> None:
    start(adapters, is_idempotent=True)
    finish(adapters, "unknown")

    assert start(adapters) == Begun("unknown")
    assert start(adapters, is_idempotent=True) == Begun("started")


@pytest.mark.parametrize("ending", [None, "done", "unknown"])
@pytest.mark.parametrize("change", [{"tool": "a.c"}, {"arguments": "sha256-2"}])
def test_a_key_is_for_one_call(adapters: Adapters, ending: Ending | None, change: dict[str, str]) -> None:
    start(adapters)
    if ending:
        finish(adapters, ending, b"sealed" if ending == "done" else None)

    assert start(adapters, **change) == Begun("reused")


def test_of_those_who_start_the_same_at_once_one_does(adapters: Adapters) -> None:
    begun = at_once(*(adapters.ledger.start(START) for _ in range(20)))

    assert sorted(each.state for each in begun) == ["running"] * 19 + ["started"]
    assert adapters.kinds() == ["call.started"]


def test_an_approval_is_used_up_by_the_start(adapters: Adapters) -> None:
    approve(adapters)

    assert start(adapters, uses="a1") == Begun("started")
    assert used_at(adapters) == AT
    assert start(adapters, key="l", uses="a1") == Begun("refused")
    assert adapters.kinds() == ["kind", "call.started"]


def test_of_those_who_start_with_one_approval_at_once_one_does(adapters: Adapters) -> None:
    approve(adapters)
    starts = [structs.replace(START, key=f"k{number}", uses="a1") for number in range(20)]

    begun = at_once(*map(adapters.ledger.start, starts))

    assert sorted(each.state for each in begun) == ["refused"] * 19 + ["started"]


def test_a_question_that_nobody_answered_lets_nothing_start(adapters: Adapters) -> None:
    run(adapters.pending.ask(ACTION))

    assert start(adapters, uses="a1") == start(adapters, uses="absent") == Begun("refused")
    assert not knows(adapters)
    assert used_at(adapters) is None
    assert adapters.kinds() == []


@pytest.mark.parametrize("state", ["running", "done", "unknown", "reused"])
def test_what_does_not_start_uses_nothing_up(adapters: Adapters, state: str) -> None:
    approve(adapters)
    start(adapters, arguments="sha256-2" if state == "reused" else "sha256-1")
    if state in {"done", "unknown"}:
        run(adapters.ledger.finish("k", "done" if state == "done" else "unknown", b"", DONE))

    assert start(adapters, uses="a1").state == state
    assert used_at(adapters) is None


def test_what_was_interrupted_goes_on_with_the_approval_that_it_used(adapters: Adapters) -> None:
    approve(adapters)
    start(adapters, uses="a1", is_idempotent=True)
    finish(adapters, "unknown")

    assert start(adapters, uses="a1", is_idempotent=True) == Begun("started")


def test_what_was_forgotten_does_not_go_on_with_the_approval_that_it_used(adapters: Adapters) -> None:
    approve(adapters)
    start(adapters, uses="a1", is_idempotent=True)
    finish(adapters, "forgotten")

    assert start(adapters, uses="a1", is_idempotent=True) == Begun("refused")


def test_an_answer_that_says_to_try_again_is_good_for_one_attempt(adapters: Adapters) -> None:
    approve(adapters, type="CLARIFICATION")
    start(adapters)
    finish(adapters, "unknown")

    assert start(adapters, uses="a1", is_new_attempt=True) == Begun("started")
    finish(adapters, "unknown")
    assert start(adapters, uses="a1", is_new_attempt=True) == Begun("refused")


def test_a_start_is_kept_with_its_record_or_not_at_all(adapters: Adapters) -> None:
    approve(adapters)
    adapters.break_trail()
    with pytest.raises(Exception, match=r"No space left|was edited"):
        start(adapters, uses="a1")
    adapters.mend_trail()

    assert not knows(adapters)
    assert used_at(adapters) is None
    assert start(adapters, uses="a1") == Begun("started")
    assert adapters.kinds() == ["kind", "call.started"]


def test_a_start_that_goes_on_is_kept_with_its_record_or_not_at_all(adapters: Adapters) -> None:
    start(adapters)
    finish(adapters, "unknown")
    adapters.break_trail()
    with pytest.raises(Exception, match=r"No space left|was edited"):
        start(adapters, is_new_attempt=True)
    adapters.mend_trail()

    assert start(adapters) == Begun("unknown")


@pytest.mark.parametrize("ending", ["done", "unknown", "forgotten"])
def test_an_end_that_cannot_be_recorded_leaves_a_call_of_which_nobody_knows_how_it_ended(
    adapters: Adapters, ending: Ending
) -> None:
    start(adapters)
    adapters.break_trail()
    with pytest.raises(Exception, match=r"No space left|was edited"):
        finish(adapters, ending, b"sealed")
    adapters.mend_trail()

    assert start(adapters) == Begun("unknown")
    assert adapters.kinds() == ["call.started"]
    assert start(adapters, is_new_attempt=True) == Begun("started")
    assert start(adapters) == Begun("running")
    finish(adapters, "done", b"sealed")
    assert start(adapters) == Begun("done", b"sealed")


def test_what_runs_was_not_interrupted(adapters: Adapters) -> None:
    start(adapters)

    assert run(adapters.ledger.interrupted(), adapters.ledger.give_up("k", RECORD)) == [[], False]
    assert run(adapters.ledger.give_up("absent", RECORD)) == [False]
    assert start(adapters) == Begun("running")
    assert adapters.kinds() == ["call.started"]


def test_a_call_needs_no_record(adapters: Adapters) -> None:
    start(adapters, record=None)
    run(adapters.ledger.finish("k", "done", b"sealed", None))

    assert start(adapters) == Begun("done", b"sealed")
    assert adapters.kinds() == []


# Seals ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seal", [OpenSeal(), AesSeal(b"key")])
@pytest.mark.parametrize("content", [b"", b"content", bytes(range(256)) * 100])
def test_what_was_closed_opens_again(seal: Seal, content: bytes) -> None:
    assert seal.open(seal.close(content, "purpose"), "purpose") == content


# Secrets --------------------------------------------------------------------------------------------------------------


def in_memory(name: str, value: str | None, folder: Path) -> Secrets:
    return MemorySecrets({} if value is None else {name: value})


def in_environment(name: str, value: str | None, folder: Path) -> Secrets:
    return ProjectSecrets({}, {} if value is None else {name: value}, str(folder))


def in_file(name: str, value: str | None, folder: Path) -> Secrets:
    if value is not None:
        (folder / "secret").write_text(value + "\n")
    return ProjectSecrets({name: SecretPlace(file="secret")}, {}, str(folder))


@pytest.mark.parametrize("make", [in_memory, in_environment, in_file])
def test_a_secret_is_found_or_its_place_is_told_without_it(
    make: Callable[[str, str | None, Path], Secrets], tmp_path: Path
) -> None:
    missing = make("TOKEN", None, tmp_path)
    assert run(missing.get("TOKEN")) == [None]
    assert missing.place("TOKEN")

    there = make("TOKEN", "s3cr3t-value", tmp_path)
    assert run(there.get("TOKEN"), there.get("OTHER")) == ["s3cr3t-value", None]
    assert "s3cr3t" not in there.place("TOKEN")
