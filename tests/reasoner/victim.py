"""Twenty tasks in flight over one state file, in a process that is killed at any boundary of any of them.

`python -m tests.reasoner.victim` is a mother of such processes; see `tests.mother`.
"""

from itertools import count
from pathlib import Path

from msgspec import Struct

from tests.mother import Mother, serve
from tests.reasoner.lasting import AT_ONCE, NotedDeath, bring_to_end, name_of


class Job(Struct, frozen=True, kw_only=True):
    """The tasks of one process, and the boundary at which it is killed, if any."""

    folder: str
    point: str = ""
    """The boundary at which the process kills itself, such as `stage.builder.waiting:before`."""
    number: int = 1
    """It dies where it reaches the boundary for the `number`th time."""
    seconds: float | None = None
    """The time after which its mother kills it, in the middle of whatever it does."""
    tasks: int | None = AT_ONCE
    """How many tasks there are, 20 of them at a time; None for tasks without end."""


def mother_of_victims() -> Mother:
    return Mother("tests.reasoner.victim")


def kill_at(mother: Mother, folder: Path, point: str, number: int = 1) -> bool:
    """Bring 20 tasks of a folder to their end; True if the process was killed at its boundary before that."""
    return not mother.do(Job(folder=str(folder), point=point, number=number))


def finish(mother: Mother, folder: Path, tasks: int = AT_ONCE) -> None:
    """Bring all tasks of a folder to their end."""
    assert mother.do(Job(folder=str(folder), tasks=tasks))


def _bring_to_end(job: Job) -> None:
    numbers = count() if job.tasks is None else range(job.tasks)
    bring_to_end(Path(job.folder), NotedDeath(job.point, job.number), map(name_of, numbers))


def _serve() -> None:
    # Imported before the first fork, so that no process has to do it again.
    import langsmith  # noqa: F401

    import agent_resolver.reasoner.graph  # noqa: F401

    serve(Job, _bring_to_end, patience_seconds=300)


if __name__ == "__main__":
    _serve()
