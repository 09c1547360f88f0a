"""A task as people and programs see it."""

from typing import Any

from msgspec import Struct, structs

from agent_resolver.schema.golden_path import TaskState
from agent_resolver.schema.pending import PendingAction
from agent_resolver.schema.state import Run
from agent_resolver.storage.run_listing import ShownStatus


class TaskView(Struct, frozen=True, kw_only=True):
    """A task: its row, its state, and what it waits for."""

    row: Run
    status: ShownStatus
    state: TaskState
    actions: tuple[PendingAction, ...] = ()
    """The open questions of the task, as the inbox has them."""
    output: Any = None
    """What the plan returned; None until it has."""

    def document(self) -> dict[str, Any]:
        """The task as JSON. The keys are those of the specification."""
        state = self.state
        return {
            "task_id": state.task_id,
            "trace_id": state.trace_id,
            "stage": state.stage,
            "status": self.status,
            "environment": state.environment,
            "initiator_id": state.initiator.id,
            "intent": state.intent,
            "kind": state.kind,
            "code": self.row.code,
            "reason": state.reason,
            "cycles": state.cycles,
            "tokens": state.tokens,
            "artifacts": {
                name: structs.asdict(artifact)
                for name, artifact in sorted(state.artifacts.items())
            },
            "pending_actions": [
                {
                    "id": action.id,
                    "type": action.type,
                    "message": action.message,
                    "resolved": action.resolved,
                }
                for action in state.pending_actions
            ],
            "reasoning_history": list(state.reasoning_history),
            "run": state.waits_for_run or None,
            "result": state.result or None,
            "output": self.output,
            "started_at": self.row.started_at,
            "changed_at": self.row.changed_at,
        }
