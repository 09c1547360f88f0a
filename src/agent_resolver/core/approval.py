"""Who may answer what waits for a person, and for how long it waits."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, Literal

from msgspec import Struct

from agent_resolver.schema.caller import Caller
from agent_resolver.schema.pending import PendingAction, Priority

Verdict = Literal["approved", "rejected"]

LIFETIME_MINUTES: Final[dict[Priority, int]] = {"P1": 5, "P2": 15, "P3": 30, "P4": 60}


class AnswerCode(StrEnum):
    """Why an answer is not taken; stable for machines."""

    UNKNOWN_ACTION = "UNKNOWN_ACTION"
    UNAUTHORIZED = "UNAUTHORIZED"
    NOT_AN_APPROVAL = "NOT_AN_APPROVAL"
    NOT_A_QUESTION = "NOT_A_QUESTION"
    ANSWERED_BY_READINESS = "ANSWERED_BY_READINESS"
    ALREADY_ANSWERED = "ALREADY_ANSWERED"
    EXPIRED = "EXPIRED"
    UNVERIFIED_APPROVER = "UNVERIFIED_APPROVER"
    OWN_CALL = "OWN_CALL"
    MISSING_ROLE = "MISSING_ROLE"


class AnswerRefusal(Struct, frozen=True):
    """Why an answer is not taken, and what would have to change."""

    code: AnswerCode
    message: str
    remedy: str


def expiry(asked_at: str, priority: Priority) -> str:
    """When what is asked for now is too late to be approved."""
    return instant(datetime.fromisoformat(asked_at) + timedelta(minutes=LIFETIME_MINUTES[priority]))


def instant(moment: datetime) -> str:
    """A moment as text in UTC that sorts by time."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def refuse_verdict(action: PendingAction, verdict: Verdict, by: Caller, now: str) -> AnswerRefusal | None:
    """Why `by` may not approve or reject, or None when they may.

    1. It must be an approval that still waits.
    2. Taking back one's own question is always allowed.
    3. What is RESTRICTED takes somebody that an issuer vouches for, and never whoever asked for it.
    4. Whoever is vouched for needs the role; without any issuer there are no roles.
    """
    if refused := _not_waiting(action, now):
        return refused
    if action.type != "APPROVAL":
        return _wrong_kind(action)
    is_own = by.id == action.requester
    return None if verdict == "rejected" and is_own else _not_entitled(action, by, is_own=is_own)


def is_usable(action: PendingAction | None) -> bool:
    """True if an approval or answer was given and no call has used it yet; it is good for one start."""
    return action is not None and action.answer is not None and action.used_at is None


def _not_entitled(action: PendingAction, by: Caller, *, is_own: bool) -> AnswerRefusal | None:
    is_restricted = action.classification == "RESTRICTED"
    if is_restricted and not by.is_verified:
        message = f"{by.id} is not verified, and a RESTRICTED call takes an approver that an issuer vouches for"
        return AnswerRefusal(AnswerCode.UNVERIFIED_APPROVER, message, "set `[identity]` in agent.toml and AGENT_TOKEN")
    if is_restricted and is_own:
        message = f"{by.id} asked for this RESTRICTED call, and cannot approve it"
        return AnswerRefusal(AnswerCode.OWN_CALL, message, f"ask somebody else with the role `{action.role}`")
    if by.is_verified and action.role not in by.roles:
        message = f"{by.id} does not have the role `{action.role}`"
        return AnswerRefusal(AnswerCode.MISSING_ROLE, message, "ask somebody who has it")
    return None


def refuse_words(action: PendingAction, by: Caller, now: str) -> AnswerRefusal | None:
    """Why `by` may not answer in words, or None when they may.

    An answer may let a call be made a second time, so about a RESTRICTED one only whoever may approve it is asked.
    """
    if refused := _not_waiting(action, now):
        return refused
    if action.type != "CLARIFICATION":
        return _wrong_kind(action)
    is_own = by.id == action.requester
    return _not_entitled(action, by, is_own=is_own) if action.classification == "RESTRICTED" else None


def _not_waiting(action: PendingAction, now: str) -> AnswerRefusal | None:
    match action.state(now):
        case "open":
            return None
        case "expired":
            message = f"{action.id} expired at {action.expires_at}"
            return AnswerRefusal(AnswerCode.EXPIRED, message, "make the call again: it asks anew")
        case _:
            message = f"{action.id} was answered by {action.answered_by}: {action.answer}"
            return AnswerRefusal(AnswerCode.ALREADY_ANSWERED, message, "an answer is given once; make the call again")


def _wrong_kind(action: PendingAction) -> AnswerRefusal:
    match action.type:
        case "APPROVAL":
            message, remedy = f"{action.id} waits for an approval", f"`agent inbox approve {action.id}`, or `reject`"
            return AnswerRefusal(AnswerCode.NOT_A_QUESTION, message, remedy)
        case "CLARIFICATION":
            message, remedy = f"{action.id} waits for an answer in words", f"`agent inbox answer {action.id} TEXT`"
            return AnswerRefusal(AnswerCode.NOT_AN_APPROVAL, message, remedy)
        case _:
            message = f"{action.id} is answered by what it waits for being there; a secret is never typed in here"
            return AnswerRefusal(AnswerCode.ANSWERED_BY_READINESS, message, action.message)
