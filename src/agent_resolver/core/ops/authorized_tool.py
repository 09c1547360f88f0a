"""The rule about the tools of a plan."""

from collections.abc import Iterator

from agent_resolver.core.ops.draft import AuditedDraft
from agent_resolver.core.ops.rule import ABOUT_STEP, OpsFinding


def unauthorized_tools(draft: AuditedDraft) -> Iterator[OpsFinding]:
    """Calls of tools that the plan may not use, or that do not exist."""
    # A tool must be authorised and exist: an id that is only listed cannot be called.
    usable = draft.subject.policy.authorized & draft.subject.tools.keys()
    for call in draft.calls:
        if call.tool not in usable:
            yield OpsFinding(
                about=call.about,
                step=call.step,
                message=f"{call} calls `{call.tool}`, which is not among the tools that this plan may use",
                remedy="Leave the step out, or authorise the tool for the agent",
                choices=ABOUT_STEP,
            )
