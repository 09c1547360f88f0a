"""Calls that were told to wait for a person."""

from collections import OrderedDict
from typing import Any, Final

from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.outcome import Done, Failed, FailureCode, Outcome, Pending

_MOST: Final = 1_000


class WaitingCalls:
    """Knows under which trace each of them waits, for clients that name none.

    An approval holds for one trace, and few clients can name the one that they were told of, or keep to it: the same
    call by the same caller goes on with it. The approval is bound as before, and is still used up by one call.
    """

    def __init__(self) -> None:
        self._traces: OrderedDict[str, str] = OrderedDict()

    def trace_of(self, caller_id: str, tool_id: str, arguments: dict[str, Any]) -> str | None:
        """The trace under which this very call waits, if it does."""
        if not self._traces:
            return None
        return self._traces.get(_key_of_call(caller_id, tool_id, arguments))

    def note(self, caller_id: str, tool_id: str, arguments: dict[str, Any], outcome: Outcome) -> None:
        """Remember a call that has to wait, the newest ones only; what is done or rejected waits no longer."""
        if isinstance(outcome, Pending):
            key = _key_of_call(caller_id, tool_id, arguments)
            self._traces[key] = outcome.trace_id
            self._traces.move_to_end(key)
            if len(self._traces) > _MOST:
                self._traces.popitem(last=False)
        elif self._traces and _is_over(outcome):
            self._traces.pop(_key_of_call(caller_id, tool_id, arguments), None)


def _is_over(outcome: Outcome) -> bool:
    return isinstance(outcome, Done) or (isinstance(outcome, Failed) and outcome.code is FailureCode.APPROVAL_REJECTED)


def _key_of_call(caller_id: str, tool_id: str, arguments: dict[str, Any]) -> str:
    try:
        return digest([caller_id, tool_id, arguments])
    except (TypeError, ValueError, RecursionError):
        return ""  # What is no JSON never comes to wait.
