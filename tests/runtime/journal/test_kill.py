"""Runs whose process is killed at any boundary go on in another one: nothing is done twice, paid twice or lost."""

from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from random import Random

import msgspec
import pytest
from msgspec import Struct

from agent_resolver.runtime import fold_run, spent
from agent_resolver.schema import JOURNAL, LEDGER, RUNS
from agent_resolver.storage import AesSeal, Snapshot, SqliteStore, trail_faults
from tests.dying import Effects
from tests.mother import Mother
from tests.runtime.journal.lasting import KEY
from tests.runtime.journal.victim import RUNS_IN_FLIGHT, TOOLS, Job, bring_to_end, mother_of_victims

pytestmark = pytest.mark.slow
STEPS = (
    "run.started",
    "model.asked",
    "model",
    "model.answered",
    "call.started",
    "tool",
    "call.done",
    "call.forgotten",
    "action.asked",
    "run.waiting",
    "run.resumed",
    "run.ended",
)
EVERY_POINT = [f"{step}:{when}" for step in STEPS for when in ("before", "after")]
# The first time is about the beginning of a run, a later one about its middle. Then boundaries by the kind of run:
# between the answers of one that is continued, inside of a delegate, and between the end of a delegate and of its call.
BOUNDARIES = [
    *((point, number) for point in EVERY_POINT for number in (1, 3 if "forgotten" in point else 9)),
    *((f"continued.model.answered:{when}", number) for when in ("before", "after") for number in (1, 5)),
    *((f"child.{step}:after", 2) for step in ("run.started", "model.asked", "model.answered", "tool", "run.ended")),
    *((f"child.{step}:after", 2) for step in ("run.waiting", "run.resumed")),
    *((f"chained.{step}:{when}", 2) for step in ("run.waiting", "run.resumed") for when in ("before", "after")),
    *((f"plain.tool:{when}", number) for when in ("before", "after") for number in (6, 11)),
    *((f"clumsy.run.{step}:after", 1) for step in ("waiting", "resumed", "ended")),
]


@pytest.fixture(scope="module")
def mother() -> Iterator[Mother]:
    with mother_of_victims() as mother:
        yield mother


class Seen(Struct):
    """What the disk says after a process is gone."""

    answered: Counter[str]
    """How many answers the journal of each run has."""
    unanswered: Counter[str]
    """How many questions of each run have no answer and no end."""
    finished: set[str]
    """The digests of the arguments of calls that the ledger knows the end of."""
    asked: Counter[tuple[str, str]]
    """How often the model was asked each question, by the file of effects."""
    tried: Counter[tuple[str, str]]
    effects: Counter[tuple[str, str]]


def look(folder: Path) -> Seen:
    store = SqliteStore(str(folder / "state.db"), key=KEY)
    seen = store.read_now(_look)
    store.close()
    for line in Effects(folder).read():
        match line:
            case ("asked", run, question):
                seen.asked[run, question] += 1
            case ("tried", _, tool, call):
                seen.tried[tool, call] += 1
            case ("effect", _, tool, call):
                seen.effects[tool, call] += 1
    return seen


def _look(snapshot: Snapshot) -> Seen:
    assert trail_faults(snapshot, KEY)[0] == []
    answered, unanswered = Counter[str](), Counter[str]()
    before = ""
    for row in snapshot.find(JOURNAL):
        if row.kind == "model.answered":
            answered[row.run] += 1
        elif before == "model.asked" and row.number > 1:
            unanswered[row.run] += 1
        before = row.kind
    finished = {entry.arguments for entry in snapshot.find(LEDGER) if entry.state in {"done", "failed"}}
    return Seen(answered, unanswered, finished, Counter(), Counter(), Counter())


def check_nothing_is_repeated(before: Seen, after: Seen) -> None:
    """What was finished before a process began was not touched by it."""
    for (tool, call), tries in after.tried.items():
        if call in before.finished:
            assert tries == before.tried[tool, call]
    for (tool, _), effects in after.effects.items():
        # What may be done twice is tried again when it was killed between its effect and its record.
        assert effects == 1 or TOOLS[tool].is_idempotent


def check_end(folder: Path) -> Counter[str]:
    """Every run came to its end with the text it would have had, and each question is paid for or said to be uncertain.

    Returns:
        How many questions of each run are uncertain.
    """
    store = SqliteStore(str(folder / "state.db"), key=KEY)
    ended = {line[1]: line[3] for line in Effects(folder).read() if line[0] == "ended" and line[2] == "natural_end"}

    def read(snapshot: Snapshot) -> Counter[str]:
        uncertain = Counter[str]()
        for row in snapshot.find(RUNS):
            folded = fold_run(snapshot, row.id, AesSeal(KEY))
            assert folded is not None
            assert folded.termination is not None
            assert (row.status, row.reason) == ("done", "natural_end")
            name = folded.state.messages[0].text
            assert folded.state.messages[-1].text == f"Done {name}."
            digest = sha256(msgspec.json.encode(folded.state)).hexdigest()
            # A process that is killed right after the end of a run does not get to say how it ended.
            assert row.id not in RUNS_IN_FLIGHT or ended.get(row.id, digest) == digest
            assert row.uncertain == spent(folded.state).uncertain
            uncertain[name] = folded.state.uncertain
        return uncertain

    seen = look(folder)
    uncertain = store.read_now(read)
    names = store.read_now(lambda snapshot: {row.id for row in snapshot.find(RUNS)})
    assert names >= set(RUNS_IN_FLIGHT)
    assert len(names) == len(RUNS_IN_FLIGHT) + 9
    store.close()
    assert sum(uncertain.values()) == sum(seen.unanswered.values())
    asked = Counter[str]()
    for (name, _), times in seen.asked.items():
        asked[name] += times - 1
    # A question was asked again only where it is counted as uncertain.
    assert all(asked[name] <= uncertain[name] for name in asked)
    return uncertain


@pytest.mark.parametrize(("point", "number"), BOUNDARIES)
def test_a_kill_at_any_boundary_repeats_nothing_and_loses_nothing(
    mother: Mother, tmp_path: Path, point: str, number: int
) -> None:
    assert not mother.do(Job(folder=str(tmp_path), point=point, number=number))
    left = look(tmp_path)

    bring_to_end(tmp_path)

    check_nothing_is_repeated(left, look(tmp_path))
    check_end(tmp_path)


def test_kills_at_random_boundaries_also_while_runs_resume_repeat_and_lose_nothing(
    mother: Mother, tmp_path: Path
) -> None:
    """200 kills: each folder is killed again and again until its runs have all ended."""
    random = Random(17)
    kills = 0
    folders = 0
    while kills < 200:
        folders += 1
        folder = tmp_path / str(folders)
        folder.mkdir()
        is_killed = True
        while is_killed:
            left = look(folder)
            job = Job(folder=str(folder), point=random.choice(EVERY_POINT), number=random.randint(1, 12))
            is_killed = not mother.do(job)
            kills += is_killed
            check_nothing_is_repeated(left, look(folder))
        bring_to_end(folder)
        check_end(folder)
