"""Finds the run that a person means by the beginning of its id."""

from typing import Final

from agent_resolver.cli.errors import Refusal
from agent_resolver.schema.state import RUNS
from agent_resolver.schema.walker import suggestion
from agent_resolver.storage.port import Snapshot

_MOST_NAMES: Final = 5
"""The number of runs that are named when several fit."""
_HINT: Final = "`agent runs list` shows those there are"


def find_run(snapshot: Snapshot, given: str) -> str:
    """The id of the one run whose id is `given`, or begins with it.

    Raises:
        Refusal: No run has such an id, or several have.
    """
    if snapshot.get(RUNS, given) is not None:
        return given
    known = [row.id for row in snapshot.find(RUNS)]
    found = sorted(each for each in known if each.startswith(given))
    if not found:
        raise Refusal(f"There is no run {given}", suggestion(given, known) or _HINT, "UNKNOWN_RUN")
    if len(found) > 1:
        more = f" and {len(found) - _MOST_NAMES} more" if len(found) > _MOST_NAMES else ""
        names = ", ".join(found[:_MOST_NAMES])
        raise Refusal(f"Several runs begin with {given}: {names}{more}", "give more of the id", "AMBIGUOUS_RUN")
    return found[0]
