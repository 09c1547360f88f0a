"""What waits for a person is asked once and answered once, and each change has its record."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs

from agent_resolver.registry import PendingActions
from agent_resolver.schema import PENDING, AuditKind, PendingAction, Record
from agent_resolver.storage import SqliteStore
from tests.registry.stores import CANNOT_RECORD, SHELVES, Shelf, at_once, open_shelf, run

AT = "2026-01-15T10:30:00.000Z"
ACTION = PendingAction(id="a1", type="APPROVAL", subject="acme", message="May it?", asked_at=AT, binding="b")
ANSWERED = structs.replace(ACTION, answer="approved", reason="fine", answered_by="local:ada", answered_at=AT)
ASKED_RECORD = Record("run", AuditKind.ACTION_ASKED, {"tool": "a.b"})
ANSWER_RECORD = Record("run", AuditKind.ACTION_APPROVED, {"tool": "a.b"})
ASKED, GIVEN = str(AuditKind.ACTION_ASKED), str(AuditKind.ACTION_APPROVED)

ANSWERS = """
import asyncio, sys
from msgspec import structs
from agent_resolver.registry import PendingActions
from agent_resolver.schema import AuditKind, Record
from agent_resolver.storage import SqliteStore

store = SqliteStore(sys.argv[1])
pending = PendingActions(store)
async def story():
    given = 0
    for action in await pending.all():
        answered = structs.replace(action, answer="yes", answered_by=sys.argv[2])
        given += await pending.answer(answered, Record("run", AuditKind.ACTION_ANSWERED, {}))
    return given
print(asyncio.run(story()))
store.close()
"""

shelf = pytest.fixture(params=SHELVES)(open_shelf)


@pytest.fixture
def pending(shelf: Shelf) -> PendingActions:
    return PendingActions(shelf.store)


def test_what_is_asked_is_kept_with_its_record(shelf: Shelf, pending: PendingActions) -> None:
    told = run(pending.ask(ACTION, ASKED_RECORD), pending.get("a1"), pending.all())

    assert told == [ACTION, ACTION, [ACTION]]
    assert shelf.kinds() == [ASKED]


def test_every_field_of_a_question_is_kept(pending: PendingActions) -> None:
    whole = PendingAction(
        id="'; DROP TABLE pending; --",
        type="APPROVAL",
        subject="tickets.close",
        message='a\n"é😀',
        asked_at=AT,
        binding="sha256-1",
        expires_at="2026-01-15T11:30:00.000Z",
        requester="local:ada",
        trace_id="0" * 32,
        arguments="sha256-2",
        classification="RESTRICTED",
        role="approver",
        needs="TOKEN",
    )

    assert run(pending.ask(whole), pending.get(whole.id)) == [whole, whole]


def test_a_question_needs_no_record(shelf: Shelf, pending: PendingActions) -> None:
    assert run(pending.ask(ACTION)) == [ACTION]
    assert shelf.kinds() == []


def test_asking_again_gives_the_action_that_is_there_and_records_nothing(shelf: Shelf, pending: PendingActions) -> None:
    again = structs.replace(ACTION, asked_at="later", message="Something else")

    assert run(pending.ask(ACTION, ASKED_RECORD), pending.ask(again, ASKED_RECORD)) == [ACTION, ACTION]
    assert shelf.kinds() == [ASKED]


def test_of_those_who_ask_the_same_at_once_one_is_recorded(shelf: Shelf, pending: PendingActions) -> None:
    assert at_once(*(pending.ask(ACTION, ASKED_RECORD) for _ in range(20))) == [ACTION] * 20
    assert shelf.kinds() == [ASKED]


def test_an_answer_cannot_come_with_the_question(pending: PendingActions) -> None:
    forged = structs.replace(ANSWERED, used_at=AT)

    assert run(pending.ask(forged), pending.get("a1")) == [ACTION, ACTION]


def test_what_nobody_asked_is_not_there(shelf: Shelf, pending: PendingActions) -> None:
    assert run(pending.get("a1"), pending.all(), pending.newest("b")) == [None, [], (None, 0)]
    assert run(pending.answer(ANSWERED, ANSWER_RECORD)) == [False]
    assert shelf.kinds() == []


@pytest.mark.parametrize("days", [(1, 2, 3), (1, 1, 1), (3, 2, 1)])
def test_the_newest_of_a_binding_is_the_last_asked_whatever_the_clock_says(
    pending: PendingActions, days: tuple[int, ...]
) -> None:
    for number, day in enumerate(days):
        asked = structs.replace(ACTION, id=f"z{9 - number}", asked_at=f"2026-01-0{day}T00:00:00.000Z")
        run(pending.ask(asked), pending.ask(structs.replace(ACTION, id=f"other{number}", binding="other")))

        assert run(pending.newest("b")) == [(asked, number + 1)]


def test_actions_are_listed_by_when_they_were_asked(pending: PendingActions) -> None:
    for name, day in (("c", 2), ("b", 1), ("a", 2)):
        run(pending.ask(structs.replace(ACTION, id=name, asked_at=f"2026-01-0{day}T00:00:00.000Z")))

    (listed,) = run(pending.all())
    assert [action.id for action in listed] == ["b", "a", "c"]


@pytest.mark.parametrize("count", [499, 500, 501, 1200])
def test_all_actions_are_listed_however_many(shelf: Shelf, pending: PendingActions, count: int) -> None:
    actions = [structs.replace(ACTION, id=f"{number:05}") for number in range(count)]
    run(shelf.store.write(lambda transaction: [transaction.put(PENDING, action) for action in actions]))

    assert run(pending.all()) == [actions]


def test_an_answer_is_kept_once_with_its_record_and_changes_nothing_of_the_question(
    shelf: Shelf, pending: PendingActions
) -> None:
    run(pending.ask(ACTION))
    other_question = structs.replace(ANSWERED, message="Something else", requester="local:eve", used_at=AT)
    late = structs.replace(ANSWERED, answer="rejected", answered_by="local:eve")

    assert run(pending.answer(other_question, ANSWER_RECORD), pending.answer(late, ANSWER_RECORD)) == [True, False]
    assert run(pending.get("a1"), pending.newest("b"), pending.ask(ACTION)) == [ANSWERED, (ANSWERED, 1), ANSWERED]
    assert shelf.kinds() == [GIVEN]


@pytest.mark.parametrize("first", ["yes", "no", ""])
def test_an_action_is_answered_once_whatever_the_answer(pending: PendingActions, first: str) -> None:
    answer = structs.replace(ANSWERED, answer=first)

    assert run(pending.ask(ACTION), pending.answer(answer, ANSWER_RECORD))[1]
    assert run(pending.answer(ANSWERED, ANSWER_RECORD), pending.get("a1")) == [False, answer]


def test_of_those_who_answer_at_once_one_does(shelf: Shelf, pending: PendingActions) -> None:
    run(pending.ask(ACTION))
    answers = [structs.replace(ANSWERED, answered_by=f"local:{number}") for number in range(20)]

    assert sorted(at_once(*(pending.answer(each, ANSWER_RECORD) for each in answers))) == [False] * 19 + [True]
    assert shelf.kinds() == [GIVEN]


def test_whoever_waits_for_an_answer_is_woken_by_it_and_not_by_a_refused_one(
    shelf: Shelf, pending: PendingActions
) -> None:
    async def story() -> list[frozenset[str]]:
        await pending.ask(ACTION)
        await shelf.store.woken(PENDING.name, 0)
        waiting = asyncio.create_task(shelf.store.woken(PENDING.name, 10))
        await asyncio.sleep(0.01)
        await pending.answer(ANSWERED, ANSWER_RECORD)
        woken = await waiting
        await pending.answer(ANSWERED, ANSWER_RECORD)
        return [woken, await shelf.store.woken(PENDING.name, 0)]

    assert asyncio.run(story()) == [frozenset({"a1"}), frozenset()]


def test_a_question_is_kept_with_its_record_or_not_at_all(shelf: Shelf, pending: PendingActions) -> None:
    shelf.break_trail()
    with pytest.raises(Exception, match=CANNOT_RECORD):
        run(pending.ask(ACTION, ASKED_RECORD))
    shelf.mend_trail()

    assert run(pending.get("a1"), pending.ask(ACTION, ASKED_RECORD)) == [None, ACTION]
    assert shelf.kinds() == [ASKED]


def test_an_answer_is_kept_with_its_record_or_not_at_all(shelf: Shelf, pending: PendingActions) -> None:
    run(pending.ask(ACTION))
    shelf.break_trail()
    with pytest.raises(Exception, match=CANNOT_RECORD):
        run(pending.answer(ANSWERED, ANSWER_RECORD))
    shelf.mend_trail()

    assert run(pending.get("a1"), pending.answer(ANSWERED, ANSWER_RECORD)) == [ACTION, True]
    assert shelf.kinds() == [GIVEN]


def test_bytes_that_are_no_text_are_asked_and_answered_like_any_other(pending: PendingActions) -> None:
    odd = structs.replace(ACTION, id="\udcff", message="Set \udcff")
    answer = structs.replace(odd, answer="\udc80")

    assert run(pending.ask(odd), pending.answer(answer, ANSWER_RECORD))[1]
    (kept,) = run(pending.get("\udcff"))
    assert isinstance(kept, PendingAction)
    assert not kept.is_open


def test_two_processes_that_answer_at_once_never_both_do(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = SqliteStore(str(path))
    pending = PendingActions(store)
    run(*(pending.ask(structs.replace(ACTION, id=str(number))) for number in range(20)))

    processes = [
        subprocess.Popen([sys.executable, "-c", ANSWERS, str(path), name], stdout=subprocess.PIPE)
        for name in ("p", "q")
    ]
    given = [int(process.communicate()[0]) for process in processes]

    (actions,) = run(pending.all())
    assert sum(given) == 20
    assert [sum(action.answered_by == name for action in actions) for name in ("p", "q")] == given
    store.close()
