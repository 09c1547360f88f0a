"""The rules about data: how sensitive it is, who may handle it, and where it may go."""

from collections.abc import Iterator

from agent_resolver.core.authorization import is_cleared
from agent_resolver.core.blueprint.tool_rule import blueprint_rules
from agent_resolver.core.egress import EVERY_HOST, unlisted_hosts
from agent_resolver.core.ops.draft import AuditedDraft, PlannedCall
from agent_resolver.core.ops.rule import ABOUT_STEP, ALLOWED, OpsFinding
from agent_resolver.core.ops.subject import OpsSubject
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.descriptor import Descriptor


def wrong_classifications(draft: AuditedDraft) -> Iterator[OpsFinding]:
    """Data that is declared less sensitive than it is, or that the initiator may not handle."""
    subject = draft.subject
    caller = draft.subject.caller
    declared = subject.blueprint.security_logic.data_classification or "PUBLIC"
    # The highest of the steps and of what is declared, so that it can only be the same
    # or more sensitive.
    highest = blueprint_rules(subject.blueprint, subject.tools).classification
    if declared != highest:
        yield OpsFinding(
            about="data_classification",
            message=f"The draft declares {declared} data, and its steps handle {highest} data",
            remedy=f"Declare `data_classification: {highest}`",
            action="raise-classification",
        )
    levels = {tool.rules.classification for _, tool in draft.known_calls}
    # Where a step has the declared level, the finding is about that step: leaving it
    # out may be all that it takes.
    if declared not in levels and not is_cleared(caller, declared):
        yield OpsFinding(
            about="initiator",
            message=f"The draft declares {declared} data, and the initiator is cleared for {caller.clearance} data",
            remedy=f"A person who is cleared for {declared} data has to ask for this plan",
            choices=(ALLOWED,),
        )
    for call, tool in draft.known_calls:
        yield from _refused_data(call, tool, caller)


def _refused_data(
    call: PlannedCall,
    tool: Descriptor,
    caller: Caller,
) -> Iterator[OpsFinding]:
    level = tool.rules.classification
    if not is_cleared(caller, level):
        why = f"the initiator is cleared for {caller.clearance} data"
        remedy = f"Leave the step out, or let a person who is cleared for {level} data ask for this plan"
    elif level == "RESTRICTED" and not caller.is_verified:
        # Where no issuer vouches for a caller, the name and the clearance are only
        # claimed.
        why = "no issuer vouches for the initiator"
        remedy = "Leave the step out, or ask again with a token of the project's issuer"
    else:
        return
    message = f"{call} handles {level} data with `{tool.id}`, and {why}"
    yield OpsFinding(
        about=call.about,
        step=call.step,
        message=message,
        remedy=remedy,
        choices=ABOUT_STEP,
    )


def unlisted_egress(draft: AuditedDraft) -> Iterator[OpsFinding]:
    """Calls that may send data to hosts that `[reasoner] egress` does not list."""
    for call, tool in draft.known_calls:
        target = _unlisted_target(draft.subject, tool)
        if target:
            level = tool.rules.classification
            yield OpsFinding(
                about=call.about,
                step=call.step,
                message=f"{call} may send {level} data with `{tool.id}` to {target}",
                remedy="Leave the step out, or list the hosts in `[reasoner] egress` of the settings",
                choices=ABOUT_STEP,
            )


def _unlisted_target(subject: OpsSubject, tool: Descriptor) -> str:
    """The hosts that a tool reaches and the project does not list, in words; empty if all are listed."""
    patterns = subject.policy.egress
    hosts = subject.hosts.get(tool.id)
    if hosts is None:
        # A host that is not known is not a listed one, unless every host is.
        return "" if EVERY_HOST in patterns else "hosts that are not known"
    unlisted = unlisted_hosts(hosts, patterns)
    if unlisted:
        return f"hosts that are not listed: {', '.join(unlisted)}"
    return ""
