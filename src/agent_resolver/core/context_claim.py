"""Decides whether a caller's token proves a claim, and so answers a question that waits for the claim."""

from agent_resolver.core.authorization import is_expired, is_requester
from agent_resolver.schema.caller import CONTEXT_CLAIMS, Caller
from agent_resolver.schema.pending import PendingAction


def proves_claim(caller: Caller, claim: str) -> bool:
    """True if an issuer vouches for the caller, and the token has this one of `CONTEXT_CLAIMS`.

    A caller may have a cost center that no token states, such as that of a blueprint, so the value alone is not enough.
    A caller that was kept before claims were noted has no division, so an empty value is not enough either.
    """
    if (
        not caller.is_verified
        or claim not in CONTEXT_CLAIMS
        or claim in caller.absent_claims
    ):
        return False
    values = {"division": caller.division, "cost_center": caller.cost_center}
    # There is always a clearance, `PUBLIC` at least.
    return bool(values.get(claim, caller.clearance))


def answers_by_token(action: PendingAction, caller: Caller, now: str) -> bool:
    """True if the caller's token answers an open question that waits for a claim.

    Only the requester's own token can: one of another person says nothing of the requester, and a worker that acts for
    the requester has none of theirs.
    """
    is_in_person = is_requester(action, caller) and not caller.via
    is_waiting = action.needed_claim != "" and action.state(now) == "open"
    return (
        is_waiting
        and is_in_person
        and not is_expired(caller, now)
        and proves_claim(caller, action.needed_claim)
    )
