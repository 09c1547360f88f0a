"""Workers on two machines, which share a database and no folder."""

from pathlib import Path

from agent_resolver.schema import FINISHED
from tests.dying import Effects
from tests.engine.conformance.aftermath import look
from tests.engine.conformance.mother import Task, mother_of_workers
from tests.engine.conformance.stage import Stage
from tests.engine.conformance.test_lasting import start
from tests.process import eventually
from tests.state_place import use_postgres

RUNS = tuple(f"{family}-{number}" for number in range(5) for family in ("plain", "long", "group"))


def machine(folder: Path, url: str) -> Path:
    folder.mkdir()
    use_postgres(folder, url)
    return folder


def test_a_worker_elsewhere_ends_the_runs_of_one_that_was_killed(tmp_path: Path, url: str) -> None:
    here, there = machine(tmp_path / "here", url), machine(tmp_path / "there", url)
    start(here, *RUNS)
    with mother_of_workers() as mother:
        worker = mother.fork(Task(folder=str(here), driver="dbos", does="serve"))
        # Some calls have ended, and others are under way.
        assert eventually(lambda: sum(line[0] == "effect" for line in Effects(here).read()) > len(RUNS) // 2)
        mother.kill(worker)
        left = look(here)
        assert any(run.status not in FINISHED for run in left.runs.values())

        task = Task(folder=str(there), driver="dbos", does="work")
        assert mother.do(task), (there / "errors").read_text()
        # A call that may not be repeated, and that was under way, is for a person to decide about.
        assert mother.do(Task(folder=str(there), driver="dbos", does="finish", runs=RUNS))

    after = look(there)
    assert {run.status for run in after.runs.values()} <= FINISHED
    repeated = [call for call in after.tried if Stage.ledger_key_of(*call) in left.finished]
    assert repeated == []
    assert after.tried, "the worker there did nothing"


def test_two_workers_on_two_machines_share_the_runs(tmp_path: Path, url: str) -> None:
    folders = [machine(tmp_path / name, url) for name in ("here", "there")]
    with mother_of_workers() as mother:
        for round_number in range(2):
            start(folders[0], *(f"plain-{round_number}{number:02}" for number in range(30)))
            # A quick worker may end all runs before the other has begun: each is the first once.
            in_turn = folders if round_number == 0 else folders[::-1]
            tasks = [Task(folder=str(folder), driver="dbos", does="work", capacity=3) for folder in in_turn]
            workers = [mother.fork(task) for task in tasks]
            assert [mother.wait(worker) for worker in workers] == [0, 0]

    looks = [look(folder) for folder in folders]
    assert {run.status for run in looks[0].runs.values()} == {"done"}
    calls = [call for each in looks for call in each.tried.elements()]
    assert len(calls) == len(set(calls)), "a call was made on both machines"
    assert all(each.tried for each in looks), "one of the machines did nothing"
