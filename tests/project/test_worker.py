"""A worker of a project, in this process."""

import asyncio
from pathlib import Path

from agent_resolver.project.identity import ProcessIdentity
from agent_resolver.project.session import Session
from agent_resolver.project.worker import ProjectWorker, WorkerUse
from agent_resolver.project.worker_count import WorkerWatch
from agent_resolver.schema.state import Run

TURNS = 500


class Silent(WorkerWatch):
    """Hears what a worker does, and says nothing."""

    def note_taken(self, row: Run, *, is_adopted: bool) -> None:
        """Nothing."""

    def note_ended(self, row: Run) -> None:
        """Nothing."""

    def note_problem(self, run: str, problem: str) -> None:
        """Nothing."""


def test_a_worker_for_blueprints_alone_rests_while_nothing_is_due(tmp_path: Path) -> None:
    with Session(str(tmp_path / "agents.md"), str(tmp_path / "i.json"), environment={}, trusts=True) as session:
        use = WorkerUse(
            identity=ProcessIdentity(session, None),
            kinds=frozenset({"blueprint"}),
            capacity=1,
            open_catalog=session.catalog,
            watch=Silent(),
        )

        looks = asyncio.run(looks_of(ProjectWorker(session, use)))

    assert looks <= 3


async def looks_of(worker: ProjectWorker) -> int:
    """How often a worker looks at the state in so many turns of the loop."""
    running = asyncio.create_task(worker.run())
    seen = set()
    for _ in range(TURNS):
        await asyncio.sleep(0)
        seen.add(worker.turned_at)
    worker.stop()
    await running
    return len(seen)
