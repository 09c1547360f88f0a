"""The telemetry of stages. It gets names, codes and numbers, never a request, an answer or an argument."""

from typing import Any, Protocol, runtime_checkable

from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.classification import Classification
from agent_resolver.telemetry.ending import ReasoningEnd


@runtime_checkable
class StageTelemetry(Protocol):
    """Lets others watch the stages of tasks."""

    def begin_stage(
        self,
        stage: str,
        classification: Classification,
        context: CallContext,
    ) -> Any:  # noqa: ANN401
        """A stage begins; what it returns is given back when the stage ends.

        Args:
            stage: The stage that runs.
            classification: How sensitive the data of the task is.
            context: `run` is the id of the task, and `trace_id` that of the task as well.
        """
        ...

    def end_stage(self, span: Any, ending: ReasoningEnd) -> None:  # noqa: ANN401
        """The stage ends: it is done (no outcome), waits for a person (`WAITS`), or failed with a code."""
        ...

    def traceparent(self, span: Any) -> str:  # noqa: ANN401
        """The place in its trace, in W3C's words: the parent of the calls that the stage makes."""
        ...
