"""What a process left behind that ended in the middle of its calls, and how the next one goes on."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.registry import CallContext, Inbox, Ledger, MemorySecrets, Ports, ToolRegistry
from agent_resolver.schema import (
    Caller,
    Done,
    Failed,
    FailureCode,
    Outcome,
    Pending,
    PendingAction,
    Rules,
    digest,
    local_caller,
)
from agent_resolver.storage import SqliteStore, SystemClock, trail_faults
from tests.registry.sample import TRACE, MemoryTool
from tests.registry.stage import answering, code_of, run, seal_beside

PAY = "bank.pay"
ADA = local_caller("ada")
GRACE = Caller(id="grace", is_verified=True, roles=frozenset({"approver"}))
LATE = "2026-01-01T00:00:00.000Z"
LATER = CallContext(run="run-later", trace_id="f" * 32, caller=local_caller("root"))


class Process:
    """One that uses the state file: what it owns is gone when it is closed."""

    def __init__(self, path: Path, *tools: MemoryTool) -> None:
        self.store = SqliteStore(str(path))
        clock = SystemClock()
        self.registry = ToolRegistry(Ports(store=self.store, seal=seal_beside(path), clock=clock))
        self.inbox = Inbox(self.store, MemorySecrets(), clock)
        for tool in tools:
            self.registry.add(tool)

    def call(self, key: str | None = "k", **arguments: Any) -> Outcome:
        context = CallContext(run="run", trace_id=TRACE, caller=ADA, key=key)
        return run(self.registry.call(PAY, arguments, context))

    def leave_in_the_middle(self, key: str | None = "k", **arguments: Any) -> None:
        """Start a call, and end before the tool has answered."""
        rules = self.registry.list()[0].rules

        async def story() -> None:
            reached = asyncio.Event()

            async def work(_: dict[str, Any]) -> Any:
                reached.set()
                await asyncio.Event().wait()

            self.registry.replace("memory", (), {})
            self.registry.add(MemoryTool(PAY, work, rules=rules))
            context = CallContext(run="run", trace_id=TRACE, caller=ADA, key=key)
            call = asyncio.create_task(self.registry.call(PAY, arguments, context))
            waiting = asyncio.create_task(reached.wait())
            await asyncio.wait([call, waiting], return_when=asyncio.FIRST_COMPLETED)
            assert waiting.done(), call.result()

        run(story())

    def recover(self) -> int:
        return run(self.registry.recover(LATER))

    def questions(self) -> list[PendingAction]:
        return run(self.inbox.list(LATER))

    def answer(self, words: str) -> None:
        (question,) = self.questions()
        run(self.inbox.answer(question.id, words, answering(GRACE)))

    def kinds(self) -> list[str]:
        assert self.store.read_now(lambda snapshot: trail_faults(snapshot, None))[0] == []
        return [record.kind for record in self.store.read_now(lambda snapshot: list(snapshot.records()))]

    def close(self) -> None:
        self.store.close()


@contextmanager
def process(path: Path, *tools: MemoryTool) -> Iterator[Process]:
    made = Process(path, *tools)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def tool(**rules: Any) -> MemoryTool:
    return MemoryTool(PAY, rules=Rules(**rules))


def interrupted(path: Path, pay: MemoryTool, key: str | None = "k") -> None:
    """A process made the call, and is gone."""
    with process(path, pay) as first:
        first.leave_in_the_middle(key, to="acme")


DONE = Done(trace_id=TRACE, result={"to": "acme"})


def test_what_is_idempotent_is_done_when_it_is_called_again(path: Path) -> None:
    interrupted(path, pay := tool(is_idempotent=True))

    with process(path, pay) as second:
        assert second.recover() == 1
        assert second.questions() == []
        assert second.call(to="acme") == second.call(to="acme") == DONE
        assert second.kinds() == ["call.started", "call.interrupted", "call.started", "call.done", "call.done"]
    assert pay.calls == 1


def test_what_is_not_becomes_a_question_that_says_whose_call_it_was(path: Path) -> None:
    interrupted(path, pay := tool())

    with process(path, pay) as second:
        assert second.recover() == 1
        (question,) = second.questions()
        assert second.kinds() == ["call.started", "action.asked", "call.interrupted"]
        assert code_of(second.call(to="acme")) == "OUTCOME_UNKNOWN"
        assert second.questions() == [question]
    assert (question.type, question.subject, question.requester) == ("CLARIFICATION", PAY, "local:ada")
    assert (question.trace_id, question.arguments) == (TRACE, digest({"to": "acme"}))
    assert pay.calls == 0


def test_what_a_person_says_to_try_again_is_done_once(path: Path) -> None:
    interrupted(path, pay := tool())

    with process(path, pay) as second:
        second.recover()
        second.answer("retry")
        assert second.call(to="acme") == second.call(to="acme") == DONE
    assert pay.calls == 1


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_the_call_itself_finds_out_when_nobody_recovered(path: Path, *, is_idempotent: bool) -> None:
    interrupted(path, pay := tool(is_idempotent=is_idempotent))

    with process(path, pay) as second:
        assert code_of(second.call(to="acme")) == ("DONE" if is_idempotent else "OUTCOME_UNKNOWN")
        assert len(second.questions()) == (0 if is_idempotent else 1)
        assert second.recover() == (0 if is_idempotent else 1)
        assert len(second.questions()) == (0 if is_idempotent else 1)


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_a_call_without_a_key_is_not_lost_either(path: Path, *, is_idempotent: bool) -> None:
    interrupted(path, pay := tool(is_idempotent=is_idempotent), key=None)

    with process(path, pay) as second:
        assert second.recover() == 1
        assert len(second.questions()) == (0 if is_idempotent else 1)
        assert second.kinds()[-1] == "call.interrupted"
        assert second.recover() == 0


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_recovering_again_finds_nothing_and_asks_nothing(path: Path, *, is_idempotent: bool) -> None:
    interrupted(path, pay := tool(is_idempotent=is_idempotent))

    with process(path, pay) as second:
        second.recover()
        before = second.kinds(), second.questions()
        assert second.recover() == 0
        assert (second.kinds(), second.questions()) == before
    with process(path, pay) as third:
        assert third.recover() == 0
        assert (third.kinds(), third.questions()) == before


def test_what_another_process_still_does_is_left_to_it(path: Path) -> None:
    with process(path, pay := tool(is_idempotent=True)) as first:
        first.leave_in_the_middle(to="acme")
        with process(path, pay) as second:
            assert second.recover() == 0
            assert code_of(second.call(to="acme")) == "ALREADY_RUNNING"
    assert pay.calls == 0


def test_processes_that_recover_at_once_note_each_call_once(path: Path) -> None:
    with process(path, tool()) as first:
        for number in range(10):
            first.leave_in_the_middle(f"k{number}", to="acme")

    with process(path, tool()) as second, process(path, tool()) as third:

        async def story() -> None:
            await asyncio.gather(*(each.registry.recover(LATER) for each in (second, third, second)))

        run(story())
        assert sorted(second.kinds()) == ["action.asked"] * 10 + ["call.interrupted"] * 10 + ["call.started"] * 10
        assert len(third.questions()) == 10


def test_what_was_taken_up_while_somebody_recovers_is_left_to_whoever_took_it_up(path: Path) -> None:
    interrupted(path, pay := tool(is_idempotent=True))

    with process(path, pay) as second, process(path, pay) as third:
        ledger = Ledger(third.store)
        found = run(ledger.interrupted())
        second.leave_in_the_middle(to="acme")
        assert [run(ledger.give_up(each.key, LATE, None)) for each in found] == [False]
        assert code_of(third.call(to="acme")) == "ALREADY_RUNNING"


# With an approval -----------------------------------------------------------------------------------------------------


def approved(path: Path, pay: MemoryTool, key: str | None) -> None:
    with process(path, pay) as first:
        asked = first.call(key, to="acme")
        assert isinstance(asked, Pending)
        run(first.inbox.decide(asked.id, "approved", answering(GRACE)))


@pytest.mark.parametrize("key", ["k", None])
def test_an_approval_that_was_not_used_is_not_lost(path: Path, key: str | None) -> None:
    approved(path, pay := tool(needs_approval=True), key)

    with process(path, pay) as second:
        assert second.recover() == 0
        assert second.call(key, to="acme") == DONE
    assert pay.calls == 1


@pytest.mark.parametrize("recovers", [True, False])
@pytest.mark.parametrize("key", ["k", None])
def test_what_was_approved_and_interrupted_goes_on_once_under_the_same_approval(
    path: Path, key: str | None, *, recovers: bool
) -> None:
    approved(path, pay := tool(needs_approval=True, is_idempotent=True), key)
    interrupted(path, pay, key)

    with process(path, pay) as second:
        if recovers:
            assert second.recover() == 1
        assert second.call(key, to="acme") == DONE
        assert second.questions() == []
        again = second.call(key, to="acme")
        assert code_of(again) == ("DONE" if key else "APPROVAL_REQUIRED")
    assert pay.calls == 1


@pytest.mark.parametrize("key", ["k", None])
def test_an_approved_possible_effect_takes_a_decision_and_no_second_approval(path: Path, key: str | None) -> None:
    approved(path, pay := tool(needs_approval=True), key)
    interrupted(path, pay, key)

    with process(path, pay) as second:
        assert second.recover() == 1
        assert code_of(second.call(key, to="acme")) == "OUTCOME_UNKNOWN"
        second.answer("retry")
        assert second.call(key, to="acme") == DONE
        assert second.questions() == []
    assert pay.calls == 1


# In the same process --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_a_disk_that_is_full_at_the_end_of_a_call_leaves_one_that_was_interrupted(
    path: Path, *, is_idempotent: bool
) -> None:
    async def fill(_: dict[str, Any]) -> Any:
        first.store.database._connection.execute("PRAGMA max_page_count = 1")
        return "x" * 1_000_000

    pay = MemoryTool(PAY, fill, rules=Rules(is_idempotent=is_idempotent))
    with process(path, pay) as first:
        outcome = first.call(to="acme")
        assert isinstance(outcome, Failed)
        assert outcome.code is FailureCode.STATE_UNAVAILABLE
        assert outcome.message == "The state cannot be used: database or disk is full"
        assert "look before you call it again" in outcome.remedy
        first.store.database._connection.execute("PRAGMA max_page_count = 100000")

        assert first.kinds() == ["call.started"]
        assert first.recover() == 1
        assert len(first.questions()) == (0 if is_idempotent else 1)
        if not is_idempotent:
            assert code_of(first.call(to="acme")) == "OUTCOME_UNKNOWN"
            first.answer("retry")
        pay._work = _small
        assert first.call(to="acme") == Done(trace_id=TRACE, result="small")
    assert pay.calls == 2


async def _small(_: dict[str, Any]) -> Any:
    return "small"


def test_a_registry_in_memory_has_nothing_to_recover() -> None:
    assert run(ToolRegistry().recover(LATER)) == 0


def test_an_answer_that_was_asked_for_without_the_tool_repeats_no_approved_call(path: Path) -> None:
    """A process that does not have the tool cannot know who may answer; the caller could answer it then."""
    pay = tool(needs_approval=True)
    with process(path, pay) as first:
        waiting = first.call(None, to="acme")
        assert isinstance(waiting, Pending)
        run(first.inbox.decide(waiting.id, "approved", answering(GRACE)))
        first.leave_in_the_middle(None, to="acme")
    with process(path) as without_tool:
        without_tool.recover()
        (weak,) = without_tool.questions()
        run(without_tool.inbox.answer(weak.id, "retry", answering(ADA)))

    with process(path, pay) as third:
        assert code_of(third.call(None, to="acme")) == "OUTCOME_UNKNOWN"
        (question,) = third.questions()
    assert (weak.takes_approver, question.takes_approver) == (False, True)
    assert pay.calls == 0


def test_a_worker_cannot_let_itself_repeat_a_call_that_takes_an_approval(path: Path) -> None:
    pay = tool(needs_approval=True)
    worker = structs.replace(GRACE, id="worker")
    with process(path, pay) as first:
        waiting = first.call("k", to="acme")
        assert isinstance(waiting, Pending)
        run(first.inbox.decide(waiting.id, "approved", answering(GRACE)))
        first.leave_in_the_middle("k", to="acme")

    with process(path, pay) as second:
        second.recover()
        (before,) = second.questions()
        run(second.inbox.answer(before.id, "retry", answering(worker)))
        through_worker = CallContext(run="run", trace_id=TRACE, caller=structs.replace(ADA, via="worker"), key="k")
        assert code_of(run(second.registry.call(PAY, {"to": "acme"}, through_worker))) == "OUTCOME_UNKNOWN"
        (again,) = second.questions()

    assert (again.id == before.id, again.via) == (False, "worker")
    assert pay.calls == 0
