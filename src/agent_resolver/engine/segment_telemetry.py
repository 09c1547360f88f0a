"""The port of segments to telemetry. It gets names, codes and numbers, never an argument or a result."""

from typing import Any, Protocol

from agent_resolver.registry.tool import CallContext
from agent_resolver.telemetry.ending import ReasoningEnd


class SegmentTelemetry(Protocol):
    """Lets others watch the segments of blueprints' runs."""

    def begin_segment(
        self,
        blueprint: str,
        classification: str,
        context: CallContext,
    ) -> Any:  # noqa: ANN401
        """A segment begins; what it returns is given back when the segment ends."""
        ...

    def end_segment(self, span: Any, ending: ReasoningEnd) -> None:  # noqa: ANN401
        """The segment ends: the run waits, was handed on, or has ended."""
        ...

    def traceparent(self, span: Any) -> str:  # noqa: ANN401
        """The place in its trace, in W3C's words."""
        ...
