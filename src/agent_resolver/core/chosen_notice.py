"""Warnings about chosen servers: they may be used, although they can change or no person has confirmed their scopes."""

from collections.abc import Iterable, Iterator
from operator import itemgetter

from agent_resolver.core.server import Servers
from agent_resolver.schema.index import OVERLAY_NAME, Launch, Server
from agent_resolver.schema.issue import Issue, IssueCode, Severity

_MOST_NAMED = 3


def chosen_notices(servers: Servers, chosen: Iterable[Server]) -> list[Issue]:
    """Warnings and hints about chosen servers, each with its path in the index and without a line.

    Args:
        servers: The servers of the index.
        chosen: Those of them that were chosen.
    """
    # A server that is chosen for several requirements is warned about once.
    found = {str(server): (server, list(_notices_of(server))) for server in chosen}
    placed = [
        (servers.position(server), issues)
        for server, issues in found.values()
        if issues
    ]
    # No two servers have one position.
    placed.sort(key=itemgetter(0))
    return [issue.within(position) for position, issues in placed for issue in issues]


def has_notices(server: Server) -> bool:
    """True if there is a warning or a hint about a server, once it is chosen."""
    return next(_notices_of(server), None) is not None


def _notices_of(server: Server) -> Iterator[Issue]:
    if server.launch is not None:
        yield from _floating_package(server, server.launch)
    if server.status == "deprecated":
        yield Issue(
            at=("status",),
            code=IssueCode.DEPRECATED_SERVER,
            severity=Severity.WARNING,
            message=f"`{server}` is chosen, and its publisher has deprecated it",
            hint="look for the server that replaces it",
        )
    if server.drafted:
        yield _drafted_scopes(server)


def _floating_package(server: Server, launch: Launch) -> Iterator[Issue]:
    from agent_resolver.core.package import (
        floating_reason,
        pinned_form,
    )  # Slow to import, and not always needed.

    floating = floating_reason(launch)
    if floating is None:
        return
    pinned = pinned_form(launch, server.version)
    code = (
        IssueCode.TAG_WITHOUT_DIGEST
        if floating.is_weak_pin
        else IssueCode.FLOATING_PACKAGE
    )
    severity = Severity.HINT if floating.is_weak_pin else Severity.WARNING
    hint = (
        f"pin it: `{pinned}`"
        if pinned
        else "install it at one version, and start what is installed"
    )
    yield Issue(
        at=("launch",),
        code=code,
        severity=severity,
        message=f"`{server}` is chosen, and can be another program tomorrow: {floating.message}",
        hint=hint,
    )


def _drafted_scopes(server: Server) -> Issue:
    count = len(server.drafted)
    named = ", ".join(f"`{tool}`" for tool in sorted(server.drafted)[:_MOST_NAMED])
    more = f" and {count - _MOST_NAMED} more" if count > _MOST_NAMED else ""
    tools = "1 tool" if count == 1 else f"{count} tools"
    return Issue(
        at=("drafted",),
        code=IssueCode.DRAFTED_SCOPES,
        severity=Severity.WARNING,
        message=f"`{server}` is chosen, and no person has confirmed the drafted scopes of {tools}: {named}{more}",
        hint=f"name each under `toolScopes` of `{server.id}` in {OVERLAY_NAME}, with the scopes that it needs",
    )
