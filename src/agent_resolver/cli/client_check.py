"""Which servers the clients of a project start, for the commands that report it."""

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from agent_resolver.cli.client_command import own_command
from agent_resolver.cli.output import err, out, safe

if TYPE_CHECKING:
    from agent_resolver.exchange.client.check import ClientFinding, ClientProblem
    from agent_resolver.exchange.client.direct import Access
    from agent_resolver.project.session import Session
    from agent_resolver.schema.agent_file import Limits
    from agent_resolver.schema.lockfile import Lockfile

HINT = "remove the entry, or let the lock decide: `agent index import`, `agent resolve`, `agent export --client`"


def access_of(session: "Session") -> "Access":
    """The settings of a project that decide about locked servers."""
    from agent_resolver.exchange.client.direct import Access

    servers = session.config.servers
    return Access(
        admitted=session.config.tools.admit,
        token_variables={name: access.token_env for name, access in servers.items() if access.token_env},
        oauth=frozenset(name for name, access in servers.items() if access.oauth),
    )


def real_paths(paths: Iterable[str]) -> frozenset[str]:
    """The files, however they are named."""
    return frozenset(map(os.path.realpath, paths))


def check_project_clients(
    folder: str, locks: Iterable[tuple["Lockfile", "Limits"]], access: "Access", files: Iterable[str]
) -> tuple[Sequence["ClientFinding"], Sequence["ClientProblem"]]:
    """What the clients of a project start, held against locks that were verified, in these files."""
    from agent_resolver.exchange.client.check import Governing, check_clients
    from agent_resolver.exchange.client.direct import uses_of

    uses = tuple(use for lockfile, limits in locks for use in uses_of(lockfile, limits, access))
    return check_clients(Governing(project=folder, command=own_command(), uses=uses, files=real_paths(files)))


def print_clients(findings: Sequence["ClientFinding"], problems: Sequence["ClientProblem"]) -> None:
    """Each server of each client."""
    for finding in findings:
        what = f"{finding.path}: {safe(finding.name)}"
        if finding.kind == "outside":
            err(f"✗ {what} is outside of the lock: {safe(finding.why)}")
            err(f"    starts {safe(finding.starts)}")
        else:
            out(f"✓ {what} is {finding.kind}")
            if finding.why:
                err(f"warning: {what}: {safe(finding.why)}")
    for problem in problems:
        err(f"✗ {safe(problem.problem)}")
    if any(finding.kind == "outside" for finding in findings):
        err(f"hint: {HINT}")
