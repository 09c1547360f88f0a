"""Decides who may answer an action that waits for a person, and how long it waits."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, Literal

from msgspec import Struct

from agent_resolver.core.authorization import is_requester, may_see_action
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.pending import PendingAction, Priority

Verdict = Literal["approved", "rejected"]

MAX_OPEN_QUESTIONS: Final = 100
"""The most questions that one caller may have open: people have to read each of them."""
LIFETIME_MINUTES: Final[dict[Priority, int]] = {
    "P1": 5,
    "P2": 15,
    "P3": 30,
    "P4": 60,
}


class AnswerCode(StrEnum):
    """The reasons for which an answer is not taken; stable for machines."""

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
    """A refusal of an answer: the reason, and what would have to change."""

    code: AnswerCode
    message: str
    remedy: str


def expiry(asked_at: str, priority: Priority) -> str:
    """The time from which an action that is asked for now can no longer be approved."""
    return instant(
        datetime.fromisoformat(asked_at) + timedelta(minutes=LIFETIME_MINUTES[priority])
    )


def instant(moment: datetime) -> str:
    """A moment as text in UTC that sorts by time."""
    # Texts of one length and one zone compare as the moments do, so a store can sort
    # them.
    return (
        moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def effects_of(descriptor: Descriptor) -> str:
    """The effects that a tool declares, in words for an approver."""
    hints = descriptor.hints or {}
    rules = descriptor.rules
    is_server_tool = descriptor.labels.kind == "TOOL"
    if hints.get("readOnlyHint", False):
        words = ["only reads"]
    # What a server leaves unsaid has the protocol's default, which for this hint is
    # true.
    elif hints.get("destructiveHint", is_server_tool):
        words = ["may destroy data"]
    else:
        words = ["may change data"]
    if hints.get("idempotentHint", rules.is_idempotent):
        words.append("is safe to repeat")
    if hints.get("openWorldHint", is_server_tool or descriptor.labels.allow_outbound):
        words.append("may reach other machines")
    if rules.secrets:
        words.append(f"is given {', '.join(rules.secrets)}")
    # Nothing confirms what a server declares about its tools; what a server leaves
    # unsaid counts as the worst.
    claimed = " (as its server declares, unchecked)" if is_server_tool else ""
    return f"{', '.join(words)}{claimed}"


def refuse_verdict(
    action: PendingAction,
    verdict: Verdict,
    by: Caller,
    now: str,
    connection: str = "",
) -> AnswerRefusal | None:
    """Return the reason why `by` may not approve or reject, or None when they may.

    1. It must be an approval that still waits.
    2. Taking back one's own question is always allowed.
    3. What is RESTRICTED takes an approver that an issuer vouches for.
    4. An approver acts in person: a worker that acts for a caller whose token expired cannot approve for them.
    5. The caller, the worker that acts for the caller, and the connection that made the call cannot approve it. There
       is one exception: without an issuer, the local user approves at the terminal what is not RESTRICTED, since there
       is no other person to ask.
    6. A verified approver needs the role; without an issuer there are no roles.

    Args:
        action: What waits.
        verdict: The answer.
        by: Who answers.
        now: The time.
        connection: The connection over which the answer comes; empty for one from a terminal.
    """
    if refused := _not_waiting(action, now):
        return refused
    if action.type != "APPROVAL":
        return _wrong_kind(action)
    is_taken_back = verdict == "rejected" and is_requester(action, by)
    if is_taken_back:
        return None
    return _not_entitled(action, by, connection)


def is_usable(action: PendingAction | None) -> bool:
    """True if an approval or answer was given and no call has used it yet; it is good for one start."""
    return action is not None and action.answer is not None and action.used_at is None


def is_answered_by_worker(action: PendingAction, caller: Caller) -> bool:
    """True if the worker that acts for the caller gave an answer that only an approver may give.

    While the caller acted in person, the worker was another identity and could approve. Once it makes the call itself,
    its own approval no longer counts.
    """
    takes_approver = (
        action.type == "APPROVAL"
        or action.takes_approver
        or action.classification == "RESTRICTED"
    )
    return takes_approver and caller.via != "" and action.answered_by == caller.via


def _not_entitled(
    action: PendingAction,
    by: Caller,
    connection: str,
) -> AnswerRefusal | None:
    """The reason why `by` may not decide about a call, or None if they may."""
    is_restricted = action.classification == "RESTRICTED"
    if is_restricted and not by.is_verified:
        message = f"{by.id} is not verified, and a RESTRICTED call takes an approver that an issuer vouches for"
        remedy = "name an issuer in `[identity]` of agent.toml and give a token of it: docs/inbox.md shows a trial"
        return AnswerRefusal(AnswerCode.UNVERIFIED_APPROVER, message, remedy)
    if by.via:
        message = f"{by.via} acts for {by.id}, whose token expired, and an approval takes the token of the approver"
        return AnswerRefusal(
            AnswerCode.UNVERIFIED_APPROVER,
            message,
            f"approve it with a new token of {by.id}",
        )
    if _is_own_call(action, by, connection):
        # Without an issuer and a connection, the answer comes from the user of this
        # machine.
        is_at_terminal = not by.is_verified and not connection
        if is_restricted or not is_at_terminal:
            return _own_call(action, by)
    if by.is_verified and action.role not in by.roles:
        return _without_role(action, by)
    return None


def _is_own_call(action: PendingAction, by: Caller, connection: str) -> bool:
    """True if `by` asked for the call or makes it, or the connection is the one that it came over."""
    # The names are compared without their issuers, unlike those of requesters: this can
    # only refuse more.
    if by.id in {action.requester, action.via}:
        return True
    return connection != "" and connection == action.connection


def _own_call(action: PendingAction, by: Caller) -> AnswerRefusal:
    role_in_call = "asked for" if by.id != action.via else "makes"
    message = f"{by.id} {role_in_call} this call, and cannot approve it"
    remedy = "approve it with `agent inbox` in a terminal"
    if action.classification == "RESTRICTED" or by.is_verified:
        remedy = f"ask another person with the role `{action.role}`"
    return AnswerRefusal(AnswerCode.OWN_CALL, message, remedy)


def _without_role(action: PendingAction, by: Caller) -> AnswerRefusal:
    message = f"{by.id} does not have the role `{action.role}`"
    return AnswerRefusal(AnswerCode.MISSING_ROLE, message, "ask a person who has it")


def refuse_words(
    action: PendingAction,
    by: Caller,
    now: str,
    connection: str = "",
) -> AnswerRefusal | None:
    """Return the reason why `by` may not answer in words, or None when they may.

    1. It must be a question that still waits, and not one that a claim in the requester's token answers.
    2. An answer may let a call be made a second time, or change what it does. So a question about a call that takes an
       approval is answered only by those who may approve the call.
    3. Any other question is answered by those who may see it: the caller who asked, or a person with its role.
    """
    if refused := _not_waiting(action, now):
        return refused
    if action.type != "CLARIFICATION" or action.needed_claim:
        return _wrong_kind(action)
    if action.takes_approver or action.classification == "RESTRICTED":
        return _not_entitled(action, by, connection)
    if may_see_action(action, by):
        return None
    return _without_role(action, by)


def _not_waiting(action: PendingAction, now: str) -> AnswerRefusal | None:
    match action.state(now):
        case "open":
            return None
        case "expired":
            message = f"{action.id} expired at {action.expires_at}"
            return AnswerRefusal(
                AnswerCode.EXPIRED,
                message,
                "make the call again: it asks again",
            )
        case _:
            message = (
                f"{action.id} was answered by {action.answered_by}: {action.answer}"
            )
            return AnswerRefusal(
                AnswerCode.ALREADY_ANSWERED,
                message,
                "an answer is given once; make the call again",
            )


def _wrong_kind(action: PendingAction) -> AnswerRefusal:
    if action.needed_claim:
        # Words would let people state their own clearance, and who pays.
        claim = action.needed_claim
        message = f"{action.id} is answered by a token that has the claim `{claim}`; a claim is never typed in here"
        remedy = f"have the issuer put `{claim}` into tokens of {action.requester}, then resume the task with a new one"
        return AnswerRefusal(AnswerCode.ANSWERED_BY_READINESS, message, remedy)
    match action.type:
        case "APPROVAL":
            message = f"{action.id} waits for an approval"
            remedy = f"`agent inbox approve {action.id}`, or `reject`"
            return AnswerRefusal(AnswerCode.NOT_A_QUESTION, message, remedy)
        case "CLARIFICATION":
            message = f"{action.id} waits for an answer in words"
            remedy = f"`agent inbox answer {action.id} TEXT`"
            return AnswerRefusal(AnswerCode.NOT_AN_APPROVAL, message, remedy)
        case _:
            message = f"{action.id} is answered by what it waits for being there; a secret is never typed in here"
            return AnswerRefusal(
                AnswerCode.ANSWERED_BY_READINESS,
                message,
                action.message,
            )
