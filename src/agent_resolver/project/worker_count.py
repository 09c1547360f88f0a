"""Counts what a worker does, for those who watch it."""

from collections import Counter
from typing import Protocol

from agent_resolver.schema.state import Run, RunKind


def is_handed_over(row: Run) -> bool:
    """True if a run that this worker lets go can go on at once, in another one."""
    if row.status in {"running", "cancelling"}:
        return True
    # A blueprint that is handed over between two waves waits for nothing: every wait
    # has a code.
    return row.kind == "blueprint" and row.status == "waiting" and not row.code


class WorkerWatch(Protocol):
    """Hears what a worker does."""

    def note_taken(self, row: Run, *, is_adopted: bool) -> None:
        """A run is taken up; `is_adopted` if the process that had it is gone or lost it."""
        ...

    def note_ended(self, row: Run) -> None:
        """A run was brought to its end, to its next wait, or is handed over: its row has the status."""
        ...

    def note_problem(self, run: str, problem: str) -> None:
        """A run was not driven as it should be; no id where the problem is not about one run."""
        ...


class WorkerCounts:
    """The work of one worker since it started, in numbers alone."""

    def __init__(self) -> None:
        self.taken: Counter[RunKind] = Counter()
        self.adopted: Counter[RunKind] = Counter()
        """The runs among them whose process was gone, or had lost them."""
        self.ended: Counter[tuple[RunKind, str]] = Counter()
        """By kind and status: `handed_over` where another worker goes on."""
        self.lost: Counter[RunKind] = Counter()
        """The runs that another process took because this one did not renew its lease in time."""
        self.state_errors = 0
        """How often the state could not be used."""

    def note_taken(self, kind: RunKind, *, is_adopted: bool) -> None:
        """Count a run that is taken up."""
        self.taken[kind] += 1
        self.adopted[kind] += is_adopted

    def note_ended(self, row: Run) -> None:
        """Count a run that this worker does not drive any longer."""
        status = "handed_over" if is_handed_over(row) else row.status
        self.ended[row.kind, status] += 1
