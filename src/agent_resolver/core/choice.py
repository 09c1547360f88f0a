"""One requirement against many servers: which one is chosen, and why not the others."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from agent_resolver.core.rule import judge
from agent_resolver.core.server import Servers
from agent_resolver.schema.agent_file import Limits, Requirement
from agent_resolver.schema.explanation import (
    Reason,
    Rejection,
    RejectionCode,
    Selection,
)
from agent_resolver.schema.index import Server


class Choice(Struct, frozen=True, kw_only=True):
    """The server chosen for one requirement, or None."""

    requirement: Requirement
    server: Server | None
    is_only: bool
    """True if no other server was eligible."""

    @property
    def key(self) -> tuple[str, str] | None:
        """The id and version of the chosen server, by which it is known: the same server may be read twice."""
        if self.server:
            return (self.server.id, self.server.version)
        return None


def choose(requirement: Requirement, limits: Limits, servers: Servers) -> Choice:
    """Choose a server: the first by preference that breaks no rule."""
    server, is_only = servers.first_passing(requirement, limits)
    return Choice(requirement=requirement, server=server, is_only=is_only)


def selection(choice: Choice) -> Selection | None:
    """The part of an explanation about the chosen server."""
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
            "Only matching candidate"
            if choice.is_only
            else f"Selected by tie-break: {signed}id='{server.id}'"
        ),
    )


def rejections(
    choice: Choice,
    limits: Limits,
    ordered: Iterable[Server],
) -> Iterator[Rejection]:
    """The reason against each server but the chosen one, in the order of `ordered`."""
    # The rules are prepared once for all servers, of which there may be very many.
    first_broken = judge(choice.requirement, limits)
    lost = lost_tie_break(choice)
    chosen = choice.key
    for server in ordered:
        reason = first_broken(server)
        if reason is not None:
            yield Rejection(server.id, server.version, reason)
        elif (server.id, server.version) != chosen:
            yield Rejection(server.id, server.version, lost)


def lost_tie_break(choice: Choice) -> Reason:
    """The reason against a server that breaks no rule and is not the chosen one."""
    return Reason(
        RejectionCode.LOST_TIE_BREAK,
        f"Not selected: lost tie-break to '{choice.server}'",
    )
