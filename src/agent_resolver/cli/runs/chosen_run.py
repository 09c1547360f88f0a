"""Finds the run that a person means by the beginning of its id."""

import shlex
from typing import Final

from agent_resolver.cli.errors import Refusal
from agent_resolver.cli.reader import MayUse
from agent_resolver.schema.state import RUNS, Run
from agent_resolver.schema.walker import suggestion
from agent_resolver.storage.port import Snapshot

_MOST_NAMES: Final = 5
"""The number of runs that are named when several fit."""


def find_run(snapshot: Snapshot, given: str, may_use: MayUse | None = None) -> str:
    """The id of the one run of an agent or a workflow whose id is `given`, or begins with it.

    Args:
        snapshot: The state.
        given: What a person typed.
        may_use: The runs that are there for the person; None for all.

    Raises:
        Refusal: No run has such an id, several have, or it is the run of a blueprint or a task.
    """
    row = _find(snapshot, given, "`agent runs list` shows those there are", may_use)
    # Runs of all kinds share one table, and each kind has commands of its own that know
    # how it ends and goes on.
    if row.kind == "blueprint":
        message = f"Run {row.id} is a run of the blueprint {row.agent}"
        raise Refusal(
            message,
            f"`agent blueprint status {shlex.quote(row.id)}` shows it",
            "RUN_OF_A_BLUEPRINT",
        )
    if row.kind == "task":
        raise Refusal(
            f"{row.id} is a task",
            f"`agent task show {shlex.quote(row.id)}` shows it",
            "RUN_IS_A_TASK",
        )
    return row.id


def find_blueprint_run(
    snapshot: Snapshot, given: str, may_use: MayUse | None = None
) -> str:
    """The id of the one run of a blueprint whose id is `given`, or begins with it.

    Args:
        snapshot: The state.
        given: What a person typed.
        may_use: The runs that are there for the person; None for all.

    Raises:
        Refusal: No run has such an id, several have, or it is not the run of a blueprint.
    """
    row = _find(
        snapshot, given, "`agent blueprint list` shows those there are", may_use
    )
    if row.kind != "blueprint":
        message = f"Run {row.id} is not a run of a blueprint"
        raise Refusal(
            message,
            f"`agent runs show {shlex.quote(row.id)}` shows it",
            "NOT_A_BLUEPRINT",
        )
    return row.id


def _find(snapshot: Snapshot, given: str, hint: str, may_use: MayUse | None) -> Run:
    # The whole id is tried first: it may also be the beginning of another.
    exact = snapshot.get(RUNS, given)
    if exact is not None and (may_use is None or may_use(exact)):
        return exact
    # Runs of others are not there, so that no message names one of theirs.
    known = {
        row.id: row for row in snapshot.find(RUNS) if may_use is None or may_use(row)
    }
    # Ids are sorted, so that the message names the same ones each time.
    found = sorted(each for each in known if each.startswith(given))
    if not found:
        raise Refusal(
            f"There is no run {given}",
            suggestion(given, list(known)) or hint,
            "UNKNOWN_RUN",
        )
    if len(found) > 1:
        raise _refuse_ambiguous(given, found)
    return known[found[0]]


def _refuse_ambiguous(given: str, found: list[str]) -> Refusal:
    names = ", ".join(found[:_MOST_NAMES])
    rest = len(found) - _MOST_NAMES
    more = f" and {rest} more" if rest > 0 else ""
    return Refusal(
        f"Several runs begin with {given}: {names}{more}",
        "give more of the id",
        "AMBIGUOUS_RUN",
    )
