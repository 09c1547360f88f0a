"""Finds the task that a person means by the beginning of its id."""

from typing import TYPE_CHECKING

from agent_resolver.cli.audit import existing_store
from agent_resolver.cli.errors import Refusal
from agent_resolver.core.authorization import may_read_run
from agent_resolver.schema.state import RUNS
from agent_resolver.schema.walker import suggestion
from agent_resolver.storage.port import Snapshot

if TYPE_CHECKING:
    from agent_resolver.project.session import Session
    from agent_resolver.schema.caller import Caller


def find_task(
    session: "Session", given: str, caller: "Caller", *, is_worker: bool = False
) -> str:
    """The id of the one task of the caller whose id is `given`, or begins with it.

    Args:
        session: The project.
        given: What a person typed.
        caller: The person.
        is_worker: True for the worker of the project, which acts for the initiators of all tasks.

    Raises:
        Refusal: No task that concerns the caller has such an id, or several have.
    """

    def find(snapshot: Snapshot) -> str:
        # The tasks of others are left out before the search, so that no message names
        # one of theirs.
        rows = [
            row
            for row in snapshot.find(RUNS, {"kind": "task"})
            if is_worker or may_read_run(row, caller)
        ]
        return _find([row.id for row in rows], given)

    return existing_store(session).read_now(find)


def _find(known: list[str], given: str) -> str:
    if given in known:
        return given
    found = sorted(each for each in known if each.startswith(given))
    if not found:
        hint = suggestion(given, known) or "`agent task list` shows those there are"
        raise Refusal(f"There is no task {given}", hint, "UNKNOWN_TASK")
    if len(found) > 1:
        raise Refusal(
            f"Several tasks begin with {given}: {', '.join(found[:5])}",
            "give more of the id",
            "AMBIGUOUS_TASK",
        )
    return found[0]
