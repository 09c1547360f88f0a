"""What waits for a person, or for something only a person can provide."""

from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

from agent_resolver.schema.classification import Classification

PendingType = Literal["APPROVAL", "CLARIFICATION", "OAUTH", "SECRET"]
Need = Literal["CLARIFICATION", "OAUTH", "SECRET"]
"""What a tool can wait for by itself; whether it may be called at all is asked before."""
PendingState = Literal["open", "expired", "approved", "rejected", "answered", "used"]
Priority = Literal["P1", "P2", "P3", "P4"]
"""How urgent it is; what is urgent expires soon."""

CLAIM_NEED: Final = "claim/"
"""What `PendingAction.needs` begins with where a claim of the requester's token answers it, and not a secret."""
_MAX_CLOCK_DIFFERENCE: Final = timedelta(minutes=1)
"""How far the clocks of two machines that share a state may differ."""


class PendingAction(Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that must happen before work goes on."""

    id: str
    """A digest of what is asked: asking for the same thing again is the same action."""
    type: PendingType
    subject: str
    """What waits: a tool, or a server."""
    message: str
    asked_at: str
    binding: str = ""
    """A digest of the one thing that an answer is good for: for an approval its tool, arguments, trace and caller."""
    expires_at: str | None = None
    requester: str = ""
    trace_id: str = ""
    arguments: str = ""
    """The digest of the arguments of the call that waits."""
    classification: Classification = "INTERNAL"
    role: str = ""
    """The role that answers it, for people an issuer vouches for."""
    needs: str = ""
    """The secret that answers this by being there, or `claim/<name>` for a claim that only a token of the requester can
    bring. Neither is ever typed in."""
    answer: str | None = None
    reason: str | None = None
    answered_by: str | None = None
    answered_at: str | None = None
    used_at: str | None = None
    """When the one call that an answer was good for began."""
    content: bytes | None = None
    """The sealed text of the arguments, with their secret fields masked, for the approver; removed with the answer."""
    connection: str = ""
    """The connection over which the call came; empty for a call from a terminal."""
    agent: str = ""
    """The agent that the call was made for, such as `note-keeper@1.0.0`."""
    lock: str = ""
    """The digest of the agent's lock."""
    code: str = ""
    """The digest of the code or definition of the tool; an approval holds for this code alone."""
    effects: str = ""
    """What the tool declares about its effects, in words."""
    takes_approver: bool = False
    """True for a question about a call that takes an approval: only those who may approve the call may answer."""
    via: str = ""
    """The worker that makes the call for a requester whose token has expired; empty if the requester acts in person."""
    issuer: str = ""
    """The issuer that vouches for the requester, whose id is unique for that issuer only; empty where none does."""

    @property
    def is_open(self) -> bool:
        """True while it has no answer."""
        return self.answer is None

    @property
    def needed_claim(self) -> str:
        """The claim that the requester's token has to have; empty for what is not a question about a claim."""
        is_about_claim = self.type == "CLARIFICATION" and self.needs.startswith(
            CLAIM_NEED
        )
        return self.needs.removeprefix(CLAIM_NEED) if is_about_claim else ""

    def state(self, now: str) -> PendingState:
        """Its state at the time `now`."""
        if self.used_at is not None:
            return "used"
        # Only the one word approves; a question may well be answered with the word that
        # rejects.
        if self.type == "APPROVAL" and self.answer not in {None, "approved"}:
            return "rejected"
        if self.expires_at is not None and (
            self.expires_at <= now or self._is_from_ahead(now)
        ):
            return "expired"
        if self.answer is None:
            return "open"
        return "approved" if self.type == "APPROVAL" else "answered"

    def _is_from_ahead(self, now: str) -> bool:
        """True if it was asked while the clock was ahead: an approval would otherwise last until the clock is there."""
        if self.asked_at <= now:
            return False
        return (
            datetime.fromisoformat(self.asked_at) - datetime.fromisoformat(now)
            > _MAX_CLOCK_DIFFERENCE
        )
