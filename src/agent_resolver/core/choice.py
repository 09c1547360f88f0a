"""One requirement against many servers: which one is chosen, and why not the others."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from agent_resolver.core.rule import eligible, judge, preference
from agent_resolver.schema.agent_file import Limits, Requirement
from agent_resolver.schema.explanation import Reason, Rejection, RejectionCode, Selection
from agent_resolver.schema.index import Server


class Choice(Struct, frozen=True, kw_only=True):
    """The server chosen for one requirement, or None."""

    requirement: Requirement
    server: Server | None
    is_only: bool
    """Whether no other server was eligible."""


def choose(requirement: Requirement, limits: Limits, offering: Iterable[Server]) -> Choice:
    """Choose among the servers that offer the category."""
    fitting = eligible(requirement, limits, offering)
    return Choice(
        requirement=requirement,
        server=min(fitting, key=preference, default=None),
        is_only=len(fitting) == 1,
    )


def selection(choice: Choice) -> Selection | None:
    """What an explanation says of the chosen server."""
    server = choice.server
    if server is None:
        return None
    signed = "signed, " if server.signed else ""
    return Selection(
        server_id=server.id,
        version=server.version,
        endpoint=server.address,
        scopes=choice.requirement.permissions,
        selection_reason=(
            "Only matching candidate" if choice.is_only else f"Selected by tie-break: {signed}id='{server.id}'"
        ),
    )


def rejections(choice: Choice, limits: Limits, ordered: Iterable[Server]) -> Iterator[Rejection]:
    """Why each server but the chosen one is not chosen, in the order of `ordered`."""
    first_broken = judge(choice.requirement, limits)
    lost = lost_tie_break(choice)
    for server in ordered:
        reason = first_broken(server)
        if reason is not None:
            yield Rejection(server.id, server.version, reason)
        elif server is not choice.server:
            yield Rejection(server.id, server.version, lost)


def lost_tie_break(choice: Choice) -> Reason:
    """The reason against a server that breaks no rule and is not the chosen one."""
    return Reason(RejectionCode.LOST_TIE_BREAK, f"Not selected: lost tie-break to '{choice.server}'")
