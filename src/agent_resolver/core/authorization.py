"""Decides what a caller may use: tools by scopes and clearance, waiting actions by role."""

from collections.abc import Mapping
from typing import Final

from msgspec import structs

from agent_resolver.schema.caller import Caller
from agent_resolver.schema.classification import CLASSIFICATION_RANK, Classification
from agent_resolver.schema.descriptor import Rules
from agent_resolver.schema.pending import PendingAction
from agent_resolver.schema.state import Run

AUDITOR: Final = "auditor"
"""The role that may read every task and every record of the trail."""


def missing_scopes(rules: Rules, caller: Caller) -> list[str]:
    """The scopes that a tool asks for and the caller does not hold, sorted."""
    held = caller.scopes
    # None is every scope: the caller runs their own code on their own machine.
    if held is None:
        return []
    return sorted(scope for scope in rules.required_scopes if scope not in held)


def is_cleared(caller: Caller, needed: Classification) -> bool:
    """True if the caller may touch data of this classification."""
    return CLASSIFICATION_RANK[needed] <= CLASSIFICATION_RANK[caller.clearance]


def may_use(rules: Rules, caller: Caller) -> bool:
    """True if a call by this caller would not be refused for its scopes or its clearance."""
    if not is_cleared(caller, rules.classification):
        return False
    return not missing_scopes(rules, caller)


def is_expired(caller: Caller, now: str) -> bool:
    """True if the token of the caller, or of the worker that acts for them, is no longer valid."""
    # Both are texts in UTC of one form, which sort by time.
    return caller.expires_at is not None and caller.expires_at <= now


def narrowed(starter: Caller, acting: Caller) -> Caller:
    """The caller of a run that goes on under another identity: `starter`, with the rights that both have.

    The id stays, because approvals and the keys of calls are bound to it, and so do the division and where the costs
    go. `via` names the identity that acts, whose token now decides until when calls are taken.
    """
    clearances = (starter.clearance, acting.clearance)
    return structs.replace(
        starter,
        is_verified=starter.is_verified and acting.is_verified,
        scopes=_scopes_of_both(starter.scopes, acting.scopes),
        roles=starter.roles & acting.roles,
        clearance=min(clearances, key=CLASSIFICATION_RANK.__getitem__),
        expires_at=acting.expires_at,
        via=acting.id,
        via_issuer=acting.issuer,
    )


def _scopes_of_both(
    one: frozenset[str] | None,
    other: frozenset[str] | None,
) -> frozenset[str] | None:
    # None is every scope.
    if one is None:
        return other
    if other is None:
        return one
    return one & other


def may_see_action(action: PendingAction, caller: Caller) -> bool:
    """True if a waiting action concerns the caller, who may then answer it in words.

    1. The caller asked for it: the same name of the same issuer.
    2. The caller runs their own code on their own machine, and holds every scope.
    3. An issuer vouches for the caller, who has the role that answers it.
    """
    if is_requester(action, caller) or caller.scopes is None:
        return True
    return caller.is_verified and action.role in caller.roles


def is_requester(action: PendingAction, caller: Caller) -> bool:
    """True if the caller asked: the same name of the same issuer."""
    return (caller.id, caller.issuer) == (action.requester, action.issuer)


def may_read_action(action: PendingAction, caller: Caller) -> bool:
    """True if the caller may read an action: it concerns them, or they may read everything."""
    return may_see_action(action, caller) or may_read_all(caller)


def is_same_caller(one: Caller, other: Caller) -> bool:
    """True for the same name of the same issuer: an id is unique for one issuer only."""
    return (one.id, one.issuer) == (other.id, other.issuer)


def may_see_run(starter: Caller, caller: Caller) -> bool:
    """True if a run concerns the caller, who may then send it signals and cancel it.

    1. The caller started it: the same name of the same issuer.
    2. The caller runs their own code on their own machine, and holds every scope.
    """
    return is_same_caller(starter, caller) or caller.scopes is None


def may_read_all(caller: Caller) -> bool:
    """True if the caller may read the tasks and records of others.

    1. The caller runs their own code on their own machine, and holds every scope.
    2. An issuer vouches for the caller, who is an auditor.
    """
    if caller.scopes is None:
        return True
    return caller.is_verified and AUDITOR in caller.roles


def is_own_run(row: Run, caller: Caller) -> bool:
    """True if the caller started a run: the same name of the same issuer."""
    return (row.caller, row.issuer) == (caller.id, caller.issuer)


def may_read_run(row: Run, caller: Caller) -> bool:
    """True if the caller may read a run or a task with this row: any, or their own."""
    return may_read_all(caller) or is_own_run(row, caller)


def may_read_record(body: Mapping[str, object], caller: Caller) -> bool:
    """True if the caller may read a record of the trail with this body: any, or one about the caller."""
    if may_read_all(caller):
        return True
    started_by = (body.get("caller"), body.get("issuer", ""))
    return started_by == (caller.id, caller.issuer)


def acting_for(starter: Caller, acting: Caller) -> Caller:
    """The caller of a run that `starter` began and `acting` lets go on.

    The same caller has the rights of today. Another one adds nothing: the rights are the smaller of both.
    """
    if is_same_caller(starter, acting):
        return acting
    return narrowed(starter, acting)
