"""The calls that runs make to telemetry: names, codes and numbers, and never a prompt, an answer or an argument."""

from typing import Any, Protocol

from agent_resolver.registry.tool import CallContext
from agent_resolver.telemetry.ending import ReasoningEnd


class RunTelemetry(Protocol):
    """Lets others watch runs and the questions that they ask models."""

    def begin_run(self, agent: str, classification: str, context: CallContext) -> Any:  # noqa: ANN401
        """A run begins; what it returns is given back when the run ends."""
        ...

    def begin_chat(
        self, model: str, provider: str, classification: str, context: CallContext
    ) -> Any:  # noqa: ANN401
        """A model is asked; what it returns is given back when it has answered, or failed to."""
        ...

    def end_reasoning(self, span: Any, ending: ReasoningEnd) -> None:  # noqa: ANN401
        """The run ends, or the model has answered or failed to."""
        ...

    def traceparent(self, span: Any) -> str:  # noqa: ANN401
        """The place in its trace, in W3C's words."""
        ...
