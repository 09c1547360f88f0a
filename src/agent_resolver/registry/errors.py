"""Errors around tools.

ResolverError
├── ToolIdConflict       two tools have one id
├── UnusableTool         something that was offered cannot be a tool
├── UnsafeCapability     a function cannot be offered as a tool; holds every reason
├── AnswerRefused        what waits may not be answered like this
├── ToolFailure          raised by a tool, becomes `Failed`
├── NeedsAction          raised by a tool, becomes `Pending`
└── WaitsFor             raised by a tool whose own call waits, becomes the same `Pending`
"""

from collections.abc import Sequence
from typing import get_args

from agent_resolver.core.approval import AnswerRefusal
from agent_resolver.schema.errors import ResolverError
from agent_resolver.schema.outcome import FailureCode, Pending
from agent_resolver.schema.pending import Need


class ToolIdConflict(ResolverError):
    """Two tools claim one id; both sources are named."""

    def __init__(self, tool_id: str, first: str, second: str) -> None:
        super().__init__(
            f'tool ID conflict: "{tool_id}" registered by both {first} and {second}'
        )
        self.tool_id = tool_id
        self.sources = (first, second)


class UnusableTool(ResolverError):
    """Something that was offered as a tool cannot be one."""

    def __init__(self, name: str, fault: str) -> None:
        super().__init__(f"tool '{name}' cannot be used: {fault}")
        self.name = name
        self.fault = fault


class AnswerRefused(ResolverError):
    """An answer that is not taken."""

    def __init__(self, refusal: AnswerRefusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class ToolFailure(ResolverError):
    """A foreseen failure of a tool.

    `message`, `remedy` and `details` go to the caller. `hint` is for an operator who runs `agent doctor`, where the
    remedy would be of no use.

    Raises:
        TypeError: The message or the remedy is not a text.
        ValueError: There is no such code.
    """

    details: tuple[str, ...]

    def __init__(
        self,
        code: FailureCode,
        message: str,
        remedy: str = "",
        *,
        details: Sequence[str] = (),
        hint: str = "",
    ) -> None:
        _check_words(message, remedy, hint, *details)
        super().__init__(message)
        # A tool may give the code as plain text; a code that does not exist raises
        # here, in the tool.
        self.code = FailureCode(code)
        self.remedy = str(remedy) or "ask the author of the tool"
        self.details = tuple(details)
        self.hint = hint


class NeedsAction(ResolverError):
    """A tool cannot start before a person has done something.

    Raises:
        TypeError: The message or the remedy is not a text.
        ValueError: It is nothing that a tool can wait for, or cannot be written.
    """

    def __init__(
        self,
        kind: Need,
        subject: str,
        message: str,
        *,
        needs: str = "",
    ) -> None:
        _check_words(subject, message, needs)
        if kind not in get_args(Need):
            raise ValueError(f"a tool can wait for {', '.join(get_args(Need))}")
        # Text with lone surrogates raises here, and not when the state writes it.
        f"{subject}{message}".encode()
        super().__init__(message)
        self.kind = kind
        self.subject = subject
        self.needs = needs
        """The secret that answers it by being there."""


class WaitsFor(ResolverError):
    """A tool made a call that waits for a person, and so waits itself; called again, it goes on with the answer."""

    def __init__(self, pending: Pending) -> None:
        super().__init__(pending.message)
        self.pending = pending


def _check_words(*words: object) -> None:
    if not all(isinstance(word, str) for word in words):
        raise TypeError("what a tool says is text")
