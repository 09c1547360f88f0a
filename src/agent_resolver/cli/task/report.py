"""A task in words: how far it is, what it made, what it waits for, and what to do next."""

from typing import TYPE_CHECKING

import msgspec

from agent_resolver.cli.output import err, out, out_json, safe

if TYPE_CHECKING:
    from agent_resolver.reasoner.task_view import TaskView

_MAX_OUTPUT = 2_000
_SIGNS = {"done": "✓", "failed": "✗", "cancelled": "✗"}


def report_end(view: "TaskView", *, is_json: bool) -> int:
    """Print where a task stands after it was driven; returns the exit code."""
    if is_json:
        out_json(view.document())
    else:
        _print_end(view)
    return 0 if view.status == "done" else 1


def _print_end(view: "TaskView") -> None:
    state = view.state
    sign = _SIGNS.get(view.status, "◇")
    show = err if view.status in {"failed", "cancelled"} else out
    words = state.reason or view.row.code
    place = "" if state.stage in {"done", "failed"} else f" at {state.stage}"
    show(
        safe(
            f"{sign} Task {state.task_id} {view.status}{place}{f': {words}' if words else ''}"
        )
    )
    for name, artifact in sorted(state.artifacts.items()):
        out(safe(f"  {artifact.type} {name} {artifact.status}"))
    if view.status == "done" and view.output is not None:
        out(
            safe(f"  Output: {msgspec.json.encode(view.output).decode()[:_MAX_OUTPUT]}")
        )
    _print_waiting(view)


def _print_waiting(view: "TaskView") -> None:
    """Print each open question with the command that answers it, and then how to go on."""
    state = view.state
    if view.status in {"done", "failed", "cancelled"}:
        return
    for action in view.actions:
        out(safe(f"  {action.type} {action.id}: {action.message}"))
        err(safe(f"hint: {_answer_command(action.id, action.type, action.needs)}"))
    # A halted task waits for no answer: only a higher limit lets it go on.
    if state.halted:
        option = (
            "--max-iterations"
            if state.halted == "MAX_ITERATIONS_EXCEEDED"
            else "--token-limit"
        )
        err(
            safe(
                f"hint: `agent task resume {state.task_id} {option} N` goes on with a higher limit"
            )
        )
        return
    if state.waits_for_run:
        err(
            safe(
                f"hint: `agent blueprint status {state.waits_for_run}` shows the run of the plan"
            )
        )
    err(safe(f"hint: then `agent task resume {state.task_id}`"))


def _answer_command(action_id: str, kind: str, needs: str) -> str:
    # A claim comes with a token, and cannot be typed into the inbox.
    if needs.startswith("claim/"):
        return f"resume the task with a token that has the claim `{needs.removeprefix('claim/')}`"
    if needs:
        return f"provide {needs}"
    if kind == "APPROVAL":
        return f"`agent inbox approve {action_id}`, by another person, or `agent inbox reject {action_id}`"
    return f"`agent inbox answer {action_id} TEXT`"


def print_task(view: "TaskView") -> None:
    """Print all of a task that a person may want to know."""
    state = view.state
    row = view.row
    _print_end(view)
    facts = {
        "Request": state.intent,
        "Environment": state.environment,
        "Asked by": state.initiator.id,
        "Trace": state.trace_id,
        "Kind": state.kind or "",
        "Tools": ", ".join(state.chosen),
        "Cycles": str(state.cycles),
        "Tokens": str(state.tokens),
        "Started at": row.started_at,
        "Changed at": row.changed_at,
        "Result": state.result,
    }
    for label, value in facts.items():
        if value:
            out(safe(f"  {label}: {value}"))
