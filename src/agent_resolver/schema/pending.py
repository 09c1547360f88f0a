"""What waits for a person, or for something only a person can provide."""

from typing import Literal

from msgspec import Struct

PendingType = Literal["APPROVAL", "CLARIFICATION", "OAUTH", "SECRET"]


class PendingAction(Struct, frozen=True, kw_only=True):
    """One thing that must happen before work goes on."""

    id: str
    """The digest of type, subject and message: asking for the same thing again is the same action."""
    type: PendingType
    subject: str
    """What waits: a tool, or a server."""
    message: str
    asked_at: str
    answer: str | None = None
    answered_by: str | None = None
    answered_at: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether nobody has answered yet."""
        return self.answer is None
