"""What waits for a person is asked once and answered once."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from agent_resolver.schema.pending import PendingAction
from agent_resolver.storage.database import Database
from agent_resolver.storage.pending import SqlitePending

ACTION = PendingAction(
    id="sha256-0", type="SECRET", subject="acme@1.0.0", message="Set ACME_TOKEN", asked_at="2026-01-01T00:00:00.000Z"
)

ANSWERS = """
import sys
from agent_resolver.storage.database import Database
from agent_resolver.storage.pending import SqlitePending

pending = SqlitePending(Database(sys.argv[1]))
print(sum(pending.answer(str(number), "yes", sys.argv[2], "now") for number in range(20)))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def pending(path: Path) -> Iterator[SqlitePending]:
    database = Database(str(path))
    yield SqlitePending(database)
    database.close()


def test_what_is_asked_is_kept_and_open(pending: SqlitePending) -> None:
    assert pending.ask(ACTION) == ACTION
    assert pending.get(ACTION.id) == ACTION
    assert pending.all() == [ACTION]
    assert ACTION.is_open


def test_what_nobody_asked_is_not_there(pending: SqlitePending) -> None:
    assert pending.get("absent") is None
    assert pending.all() == []
    assert not pending.answer("absent", "yes", "local:ada", "2026-01-02T00:00:00.000Z")


def test_asking_again_is_the_same_action_as_it_was_asked_first(pending: SqlitePending) -> None:
    pending.ask(ACTION)

    again = pending.ask(structs.replace(ACTION, asked_at="2026-02-01T00:00:00.000Z"))

    assert again == ACTION
    assert pending.all() == [ACTION]


def test_an_answer_is_kept_and_seen_by_whoever_asks_again(pending: SqlitePending) -> None:
    pending.ask(ACTION)

    assert pending.answer(ACTION.id, "yes", "local:ada", "2026-01-02T00:00:00.000Z")

    answered = pending.ask(ACTION)
    assert not answered.is_open
    assert (answered.answer, answered.answered_by, answered.answered_at) == (
        "yes",
        "local:ada",
        "2026-01-02T00:00:00.000Z",
    )


@pytest.mark.parametrize("first", ["yes", "no", ""])
def test_an_action_is_answered_once(pending: SqlitePending, first: str) -> None:
    pending.ask(ACTION)
    pending.answer(ACTION.id, first, "local:ada", "2026-01-02T00:00:00.000Z")

    assert not pending.answer(ACTION.id, "other", "local:eve", "2026-01-03T00:00:00.000Z")

    kept = pending.get(ACTION.id)
    assert kept
    assert (kept.answer, kept.answered_by) == (first, "local:ada")


def test_an_answer_cannot_come_with_the_question(pending: SqlitePending) -> None:
    asked = pending.ask(structs.replace(ACTION, answer="yes", answered_by="the asker", answered_at="at once"))

    assert asked == ACTION


def test_actions_are_listed_oldest_first(pending: SqlitePending) -> None:
    for name, day in (("c", 2), ("b", 1), ("a", 2)):
        pending.ask(structs.replace(ACTION, id=name, asked_at=f"2026-01-0{day}T00:00:00.000Z"))

    assert [action.id for action in pending.all()] == ["b", "a", "c"]


def test_what_was_asked_survives_the_process(path: Path, pending: SqlitePending) -> None:
    odd = structs.replace(ACTION, id="'; DROP TABLE pending; --", message='a\n"é😀')
    pending.ask(odd)

    database = Database(str(path))
    assert SqlitePending(database).all() == [odd]
    database.close()


def test_two_processes_that_answer_at_once_never_both_do(path: Path, pending: SqlitePending) -> None:
    for number in range(20):
        pending.ask(structs.replace(ACTION, id=str(number)))

    processes = [
        subprocess.Popen([sys.executable, "-c", ANSWERS, str(path), name], stdout=subprocess.PIPE)
        for name in ("p", "q")
    ]
    answered = [int(process.communicate()[0]) for process in processes]

    assert sum(answered) == 20
    assert [sum(action.answered_by == name for action in pending.all()) for name in ("p", "q")] == answered
