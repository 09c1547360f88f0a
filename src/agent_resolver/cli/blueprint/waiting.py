"""Says what a run of a blueprint waits for, and which command lets it go on."""

import shlex
from collections.abc import Iterator, Mapping

from agent_resolver.cli.run.ending import answer_command
from agent_resolver.core.moment import moment_of
from agent_resolver.engine.port import AwaitedThing, RunView
from agent_resolver.schema.pending import PendingAction
from agent_resolver.schema.state import FINISHED, PENDING
from agent_resolver.storage.port import Snapshot

WORKER = "`agent worker`"

Actions = Mapping[str, PendingAction]
"""The pending actions that a run waits for, by id."""


def actions_of(snapshot: Snapshot, view: RunView) -> Actions:
    """The pending actions that a run waits for."""
    # Signals, times and other runs have no row among the pending actions.
    found = (
        snapshot.get(PENDING, waits.id)
        for waits in view.waits
        if waits.kind in {"action", "person"}
    )
    return {action.id: action for action in found if action is not None}


def wait_text(waits: AwaitedThing, actions: Actions) -> str:
    """One thing that a run waits for, in words."""
    until = f", until {moment_of(waits.due)} at most" if waits.due else ""
    match waits.kind:
        case "action" | "person":
            return f"waits for {_action_text(waits.id, actions)}{until}"
        case "signal":
            return f"waits for the signal {waits.id}{until}"
        case "run":
            return f"waits for run {waits.id}"
        # The one kind that is left is a time.
        case _:
            return f"waits until {moment_of(waits.due)}"


def _action_text(action_id: str, actions: Actions) -> str:
    """A pending action in words, with its message where the action is still there."""
    action = actions.get(action_id)
    if action is None:
        return f"an answer to {action_id}"
    return f"{action.type} {action_id}: {action.message}"


def next_commands(view: RunView, actions: Actions) -> Iterator[str]:
    """The commands that let a run go on, each once, in the order in which they are to be run."""
    if view.row.status in FINISHED:
        return
    given: set[str] = set()
    # A run that is being cancelled no longer needs what it waited for.
    waiting = () if view.row.status == "cancelling" else view.waits
    for waits in waiting:
        command = _command_for(waits, view.row.id, actions)
        if command and command not in given:
            given.add(command)
            yield command
    # Whatever ends the wait, a worker goes on with the run.
    yield WORKER


def _command_for(waits: AwaitedThing, run: str, actions: Actions) -> str:
    match waits.kind:
        case "action" | "person":
            action = actions.get(waits.id)
            if action:
                return answer_command(action.type, action.id)
            return ""
        case "signal":
            return (
                f"`agent blueprint signal {shlex.quote(run)} {shlex.quote(waits.id)}`"
            )
        case "run":
            return f"`agent blueprint status {shlex.quote(waits.id)}`"
        # A time passes without a command.
        case _:
            return ""
