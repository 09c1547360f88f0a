"""A process that forks workers of blueprints; see `tests.mother`."""

from msgspec import Struct

from tests.engine.conformance.families import IN_FLIGHT
from tests.mother import Mother, serve


class Task(Struct, frozen=True, kw_only=True):
    """What a forked process does."""

    folder: str
    driver: str
    does: str = "finish"
    """`finish`: start the runs that are not there, answer for people, work until all have ended. `work`: work until no
    run is left that could go on. `serve`: work until it is killed."""
    runs: tuple[str, ...] = IN_FLIGHT
    point: str = ""
    """The boundary at which it kills itself; empty for a process that lives."""
    number: int = 1
    offset: float = 0.0
    """The seconds by which its clocks are ahead."""
    capacity: int = 100
    """The most runs that it drives at once."""


def mother_of_workers() -> Mother:
    return Mother("tests.engine.conformance.mother")


def _serve() -> None:
    # Imported before the first fork, so that no process has to do it again; neither starts a thread.
    import dbos  # noqa: F401

    from tests.engine.conformance.stage import do_task

    serve(Task, do_task, patience_seconds=60)


if __name__ == "__main__":
    _serve()
