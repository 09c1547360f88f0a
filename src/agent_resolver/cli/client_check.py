"""The servers that the clients of a project start, for the commands that report them."""

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from agent_resolver.cli.client_command import own_command, project_folder
from agent_resolver.cli.output import err, out, safe
from agent_resolver.storage.errors import FileError

if TYPE_CHECKING:
    from agent_resolver.exchange.client.check import ClientFinding, Governing
    from agent_resolver.exchange.client.direct import Access
    from agent_resolver.exchange.client.project_settings import ClientProblem
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
        token_variables={
            name: access.token_env
            for name, access in servers.items()
            if access.token_env
        },
        oauth=frozenset(name for name, access in servers.items() if access.oauth),
    )


def real_paths(paths: Iterable[str]) -> frozenset[str]:
    """The files, however they are named."""
    return frozenset(map(os.path.realpath, paths))


def check_project_clients(
    folders: Iterable[str],
    locks: Iterable[tuple["Lockfile", "Limits"]],
    access: "Access",
    files: Iterable[str],
) -> tuple[Sequence["ClientFinding"], Sequence["ClientProblem"]]:
    """The servers that clients opened in one of these folders start, compared with locks that were verified.

    Args:
        folders: Where a client may be opened.
        locks: The locks that hold, each with the limits of its agent file.
        access: The settings that decide about locked servers.
        files: The agent files, locks and indexes that were verified.
    """
    # Imported late, because commands that look at no client use this module too.
    from agent_resolver.exchange.client.check import Governing
    from agent_resolver.exchange.client.direct import uses_of
    from agent_resolver.exchange.client.project_settings import check_clients

    # An entry of a client may be covered by any lock of the project, not only by the
    # one beside it.
    uses = tuple(
        use for lockfile, limits in locks for use in uses_of(lockfile, limits, access)
    )
    verified = real_paths(files)
    findings: list[ClientFinding] = []
    problems: list[ClientProblem] = []
    # Real paths, so that one folder under two names is reported once.
    for folder in sorted(real_paths(folders)):
        governing = Governing(
            project=project_folder(folder),
            folder=folder,
            command=own_command(),
            uses=uses,
            files=verified,
        )
        for look in (check_clients, _check_agent_files):
            found, unreadable = look(governing)
            findings += found
            problems += unreadable
    return findings, problems


def _check_agent_files(
    governing: "Governing",
) -> tuple[list["ClientFinding"], list["ClientProblem"]]:
    """The servers that agent files bring along, in folders that a client loads whole."""
    from agent_resolver.catalog.client_folder import client_folders
    from agent_resolver.exchange.agent_use import inline_servers
    from agent_resolver.exchange.client.check import judge_entry
    from agent_resolver.exchange.client.known import CLIENTS
    from agent_resolver.exchange.client.project_settings import ClientProblem
    from agent_resolver.project.agent_files import find_agents

    findings: list[ClientFinding] = []
    problems: list[ClientProblem] = []
    by_title = {client.title: client for client in CLIENTS.values()}
    # Clients follow links, so what lies behind them starts servers too.
    for folder, title in client_folders(
        os.path.relpath(governing.folder), follows_links=True
    ):
        # Copilot runs in VS Code, and expands the same references.
        client = by_title.get(title, CLIENTS["vscode"])
        try:
            agents, _skipped = find_agents([folder], follows_links=True)
        except FileError as error:
            # What cannot be read may start anything, so it must not pass for nothing.
            problems.append(
                ClientProblem(path=folder, client=client.name, problem=str(error))
            )
            continue
        for agent in agents:
            servers = inline_servers(agent.entry.front_matter)
            findings += (
                judge_entry(client, name, values, governing, agent.path)
                for name, values in servers.items()
            )
    return findings, problems


def print_clients(
    findings: Sequence["ClientFinding"], problems: Sequence["ClientProblem"]
) -> None:
    """Each server of each client."""
    for finding in findings:
        what = f"{finding.path}: {safe(finding.name)}"
        if finding.kind == "outside":
            err(f"✗ {what} is outside of the lock: {safe(finding.why)}")
            err(f"    starts {safe(finding.starts)}")
        else:
            out(f"✓ {what} is {finding.kind}")
            # The server itself is locked, but the client may offer tools of it that the
            # lock keeps closed.
            if finding.why and finding.kind == "direct":
                err(f"warning: {what}: {safe(finding.why)}")
    for problem in problems:
        err(f"✗ {safe(problem.problem)}")
    if any(finding.kind == "outside" for finding in findings):
        err(f"hint: {HINT}")
