"""A process that is killed at any step of any call loses nothing, and nothing that may be done once is done twice."""

import asyncio
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec import Struct

from agent_resolver.registry import CallContext, Inbox, MemorySecrets
from agent_resolver.schema import Caller, Done, Failed, Outcome, Pending, PendingAction
from agent_resolver.storage import SqliteStore, SystemClock, trail_faults
from tests.integration.killed import CALLS, STEPS, TOOLS, call, call_all, opened, trace_of

SCRIPT = Path(__file__).parent / "killed.py"
POINTS = [f"{step}:{when}" for step in (*STEPS, "effect") for when in ("before", "after")]
GRACE = Caller(id="grace", is_verified=True, roles=frozenset({"approver"}))
ANSWERING = CallContext(run="answers", trace_id="e" * 32, caller=GRACE)
KEY_OF = {trace_of(key): key for key in CALLS}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state in which every call that takes an approval was asked for and approved."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "effects").mkdir()
    (folder / "tried").mkdir()

    async def story() -> None:
        for key in CALLS:
            if TOOLS[CALLS[key]].needs_approval:
                asked = await call(registry, key)
                assert isinstance(asked, Pending)
                await inbox.decide(asked.id, "approved", ANSWERING)

    with opened(folder) as (registry, store):
        inbox = Inbox(store, MemorySecrets(), SystemClock())
        asyncio.run(story())
    return folder


@pytest.fixture
def folder(prepared: Path, tmp_path: Path) -> Path:
    return shutil.copytree(prepared, tmp_path / "state")


def die(folder: Path, point: str, number: int) -> bool:
    """Whether a process that makes all calls was killed there; else it came to its end."""
    ended = subprocess.run([sys.executable, SCRIPT, folder, point, str(number)], check=False, timeout=60)
    assert ended.returncode in {0, -signal.SIGKILL}
    return ended.returncode != 0


class Seen(Struct):
    """What the disk says of the calls."""

    started: Counter[str]
    """How often each was recorded as started."""
    done: set[str]
    """What the ledger knows as done."""
    interrupted: set[str]
    """What started and did not end."""
    tried: Counter[str]
    effects: Counter[str]
    actions: list[tuple[Any, ...]]


def look(folder: Path) -> Seen:
    """Look at the disk; the trail must hold, and every effect must have a record."""
    store = SqliteStore(str(folder / "state.db"))
    assert store.read_now(lambda snapshot: trail_faults(snapshot, None))[0] == []
    records = store.read_now(lambda snapshot: list(snapshot.records()))
    store.close()
    with closing(sqlite3.connect(folder / "state.db")) as state:
        rows = state.execute("SELECT state, trace_id FROM ledger").fetchall()
        actions = state.execute("SELECT type, trace_id, answer, used_at IS NOT NULL FROM pending").fetchall()
    seen = Seen(
        started=Counter(KEY_OF[record.body["trace"]] for record in records if record.kind == "call.started"),
        done={KEY_OF[str(trace)] for state, trace in rows if state == "done"},
        interrupted={KEY_OF[str(trace)] for state, trace in rows if state != "done"},
        tried=_counted(folder / "tried"),
        effects=_counted(folder / "effects"),
        actions=actions,
    )
    assert all(seen.started[key] for key in seen.tried)
    assert all(seen.tried[key] for key in seen.effects)
    return seen


def _counted(folder: Path) -> Counter[str]:
    return Counter(path.name.partition(".")[0] for path in folder.iterdir())


def is_idempotent(key: str) -> bool:
    return TOOLS[CALLS[key]].is_idempotent


def restart(folder: Path) -> tuple[dict[str, Outcome], list[PendingAction]]:
    """What a new process makes of all calls, and what then waits for a person."""
    with opened(folder) as (registry, store):
        outcomes = asyncio.run(call_all(registry))
        inbox = Inbox(store, MemorySecrets(), SystemClock())
        return outcomes, asyncio.run(inbox.list(ANSWERING))


def answer(folder: Path, questions: list[PendingAction]) -> None:
    """A person looks at the effects, and answers."""
    effects = _counted(folder / "effects")

    async def story() -> None:
        for question in questions:
            words = "done" if effects[KEY_OF[question.trace_id]] else "retry"
            await inbox.answer(question.id, words, ANSWERING)

    with opened(folder) as (_, store):
        inbox = Inbox(store, MemorySecrets(), SystemClock())
        asyncio.run(story())


def check_restart(folder: Path, before: Seen) -> None:
    """A new process brings every call to an end that is right for what the kill left."""
    outcomes, questions = restart(folder)
    after = look(folder)

    unknown = {key for key in before.interrupted if not is_idempotent(key)}
    assert {key for key, outcome in outcomes.items() if isinstance(outcome, Done)} == set(CALLS) - unknown
    assert {outcome.code for outcome in outcomes.values() if isinstance(outcome, Failed)} <= {"OUTCOME_UNKNOWN"}
    assert all(outcome.result == {"name": key} for key, outcome in outcomes.items() if isinstance(outcome, Done))
    assert sorted(question.trace_id for question in questions) == sorted(map(trace_of, unknown))
    assert {question.type for question in questions} <= {"CLARIFICATION"}

    for key in CALLS:
        again = key not in before.done and key not in unknown
        assert after.tried[key] == before.tried[key] + again
        assert after.started[key] == before.started[key] + again
        assert after.effects[key] <= 1
        assert after.effects[key] == 1 or key in unknown
    assert_every_approval_was_used_once(after)

    answer(folder, questions)
    check_answers(folder, unknown)


def check_answers(folder: Path, unknown: set[str]) -> None:
    """After the answers every effect is there, once; and calling again changes nothing."""
    has_effect = {key for key in unknown if _counted(folder / "effects")[key]}
    for _ in range(2):
        outcomes, questions = restart(folder)
        end = look(folder)
        assert {key for key, outcome in outcomes.items() if not isinstance(outcome, Done)} == has_effect
        assert questions == []
        assert end.effects == Counter([*CALLS])
        assert_every_approval_was_used_once(end)


def assert_every_approval_was_used_once(seen: Seen) -> None:
    """None was lost, so that it was asked for again; what may not be done twice started once under it."""
    approvals = sorted(row[1:] for row in seen.actions if row[0] == "APPROVAL")
    approved = [key for key in CALLS if TOOLS[CALLS[key]].needs_approval]
    assert approvals == [(trace_of(key), "approved", 1) for key in approved]


@pytest.mark.parametrize("number", [1, 10, 20])
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_step_of_any_call_loses_nothing_and_doubles_nothing(
    folder: Path, point: str, number: int
) -> None:
    assert die(folder, point, number)

    left = look(folder)

    assert all(left.tried[key] <= 1 for key in CALLS)
    assert left.done <= set(left.effects)
    check_restart(folder, left)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_kills_that_follow_each_other_also_while_recovering_lose_and_double_nothing(folder: Path, seed: int) -> None:
    random = Random(seed)
    for _ in range(4):
        die(folder, random.choice(POINTS), random.randint(1, 20))
        left = look(folder)
        assert all(left.effects[key] <= 1 for key in CALLS)
        assert all(left.tried[key] <= 1 for key in CALLS if not is_idempotent(key))

    check_restart(folder, look(folder))


def test_the_calls_that_nobody_killed_are_all_done_once(folder: Path) -> None:
    assert not die(folder, "", 0)

    left = look(folder)

    assert left.done == set(CALLS)
    assert left.effects == left.tried == left.started == Counter([*CALLS])
    check_restart(folder, left)


def test_a_state_file_that_was_killed_is_whole(folder: Path) -> None:
    die(folder, "start:after", 10)

    connection = sqlite3.connect(folder / "state.db")
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
