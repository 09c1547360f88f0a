"""What waits for a person is asked once and answered once."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from agent_resolver.schema import PendingAction
from agent_resolver.storage import Database, SqlitePending, UnreadableFile

ACTION = PendingAction(
    id="sha256-0", type="SECRET", subject="acme@1.0.0", message="Set ACME_TOKEN", asked_at="2026-01-01T00:00:00.000Z"
)

AT = "2026-01-02T00:00:00.000Z"

ANSWERS = """
import sys
from msgspec import structs
from agent_resolver.storage.database import Database
from agent_resolver.storage.pending import SqlitePending

pending = SqlitePending(Database(sys.argv[1]))
answers = [structs.replace(action, answer="yes", answered_by=sys.argv[2]) for action in pending.all()]
print(sum(map(pending.answer, answers)))
"""


def answered(action: PendingAction = ACTION, answer: str = "yes", by: str = "local:ada") -> PendingAction:
    return structs.replace(action, answer=answer, reason="it is mine", answered_by=by, answered_at=AT)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def pending(path: Path) -> Iterator[SqlitePending]:
    database = Database(str(path))
    yield SqlitePending(database)
    database.close()


def test_what_is_asked_is_kept_and_open(pending: SqlitePending) -> None:
    assert pending.ask(ACTION) == (ACTION, True)
    assert pending.get(ACTION.id) == ACTION
    assert pending.all() == [ACTION]
    assert ACTION.is_open


def test_every_field_of_a_question_is_kept(pending: SqlitePending) -> None:
    whole = PendingAction(
        id="a1",
        type="APPROVAL",
        subject="tickets.close",
        message="May it?",
        asked_at=AT,
        binding="sha256-1",
        expires_at="2026-01-02T01:00:00.000Z",
        requester="local:ada",
        trace_id="0" * 32,
        arguments="sha256-2",
        classification="RESTRICTED",
        role="approver",
        needs="TOKEN",
    )

    pending.ask(whole)

    assert pending.get("a1") == whole


def test_what_nobody_asked_is_not_there(pending: SqlitePending) -> None:
    assert pending.get("absent") is None
    assert pending.all() == []
    assert pending.newest("absent") == (None, 0)
    assert not pending.answer(answered())
    assert not pending.use(ACTION.id, AT)


def test_asking_again_is_the_same_action_as_it_was_asked_first(pending: SqlitePending) -> None:
    pending.ask(ACTION)

    again = pending.ask(structs.replace(ACTION, asked_at="2026-02-01T00:00:00.000Z"))

    assert again == (ACTION, False)
    assert pending.all() == [ACTION]


def test_an_answer_is_kept_and_seen_by_whoever_asks_again(pending: SqlitePending) -> None:
    pending.ask(ACTION)

    assert pending.answer(answered())

    assert pending.ask(ACTION) == (answered(), False)


@pytest.mark.parametrize("first", ["yes", "no", ""])
def test_an_action_is_answered_once(pending: SqlitePending, first: str) -> None:
    pending.ask(ACTION)
    pending.answer(answered(answer=first))

    assert not pending.answer(answered(answer="other", by="local:eve"))

    assert pending.get(ACTION.id) == answered(answer=first)


def test_an_answer_changes_nothing_of_the_question(pending: SqlitePending) -> None:
    pending.ask(ACTION)

    pending.answer(answered(structs.replace(ACTION, message="Something else", requester="local:eve")))

    assert pending.get(ACTION.id) == answered()


def test_an_answer_cannot_come_with_the_question(pending: SqlitePending) -> None:
    forged = structs.replace(answered(), used_at=AT)

    assert pending.ask(forged) == (ACTION, True)
    assert pending.all() == [ACTION]


def test_an_answer_is_used_once_and_not_before_it_is_there(pending: SqlitePending) -> None:
    pending.ask(ACTION)

    assert not pending.use(ACTION.id, AT)
    pending.answer(answered())
    assert pending.use(ACTION.id, AT)
    assert not pending.use(ACTION.id, "2026-01-03T00:00:00.000Z")

    assert pending.get(ACTION.id) == structs.replace(answered(), used_at=AT)


def test_actions_are_listed_oldest_first(pending: SqlitePending) -> None:
    for name, day in (("c", 2), ("b", 1), ("a", 2)):
        pending.ask(structs.replace(ACTION, id=name, asked_at=f"2026-01-0{day}T00:00:00.000Z"))

    assert [action.id for action in pending.all()] == ["b", "a", "c"]


@pytest.mark.parametrize("days", [(1, 2, 3), (1, 1, 1), (3, 2, 1)])
def test_the_newest_is_the_one_that_was_asked_last_whatever_the_clock_said(
    pending: SqlitePending, days: tuple[int, ...]
) -> None:
    for number, day in enumerate(days):
        asked_at = f"2026-01-0{day}T00:00:00.000Z"
        asked, _ = pending.ask(structs.replace(ACTION, id=f"z{9 - number}", binding="b", asked_at=asked_at))
        pending.ask(structs.replace(ACTION, id=f"other{number}", binding="other"))
        pending.answer(answered(asked))
        assert pending.use(asked.id, AT)

        newest, count = pending.newest("b")

        assert newest
        assert (newest.id, count) == (asked.id, number + 1)


def test_what_was_asked_survives_the_process(path: Path, pending: SqlitePending) -> None:
    odd = structs.replace(ACTION, id="'; DROP TABLE pending; --", message='a\n"é😀')
    pending.ask(odd)

    database = Database(str(path))
    assert SqlitePending(database).all() == [odd]
    database.close()


def test_bytes_that_are_no_text_are_kept_as_escapes(pending: SqlitePending) -> None:
    asked, _ = pending.ask(structs.replace(ACTION, id="\udcff", message="Set \udcff"))

    assert pending.answer(answered(asked, answer="\udc80"))

    assert [(action.id, action.message, action.answer) for action in pending.all()] == [
        ("\\udcff", "Set \\udcff", "\\udc80")
    ]
    assert pending.get("\udcff") == pending.get("\\udcff")


@pytest.mark.parametrize("column", ["type", "classification"])
def test_an_action_that_somebody_edited_is_told_in_our_words(path: Path, pending: SqlitePending, column: str) -> None:
    pending.ask(ACTION)
    connection = sqlite3.connect(path)
    connection.execute(f"UPDATE pending SET {column} = 'nonsense'")  # noqa: S608 - one of the two above
    connection.commit()
    connection.close()

    with pytest.raises(UnreadableFile, match=f"has a pending action that was edited: .*{column}"):
        pending.all()


def test_two_processes_that_answer_at_once_never_both_do(path: Path, pending: SqlitePending) -> None:
    for number in range(20):
        pending.ask(structs.replace(ACTION, id=str(number)))

    processes = [
        subprocess.Popen([sys.executable, "-c", ANSWERS, str(path), name], stdout=subprocess.PIPE)
        for name in ("p", "q")
    ]
    given = [int(process.communicate()[0]) for process in processes]

    assert sum(given) == 20
    assert [sum(action.answered_by == name for action in pending.all()) for name in ("p", "q")] == given
