"""The issues about chosen servers, for the commands that resolve."""

from collections.abc import Iterable

from msgspec import Struct, structs

from agent_resolver.core.chosen_notice import chosen_notices, has_notices
from agent_resolver.core.resolution import Resolution
from agent_resolver.project.open_index import OpenIndex
from agent_resolver.schema.index import Server
from agent_resolver.schema.issue import Issue
from agent_resolver.schema.tree import Node, find


class SourceIssues(Struct, frozen=True):
    """Warnings and hints about the servers of one JSON file."""

    path: str
    issues: tuple[Issue, ...]


def chosen_issues(
    index: OpenIndex, resolutions: Iterable[Resolution]
) -> list[SourceIssues]:
    """Warnings and hints about the servers that resolutions choose, each with its place, by file."""
    # By its key, a server that several requirements or agents choose is remarked on
    # once.
    picked = {
        choice.key: choice.server
        for each in resolutions
        for choice in each.choices
        if choice.server
    }
    remarked = [server for server in picked.values() if has_notices(server)]
    # A compiled index may come from several files, and each server has its place in one
    # of them.
    by_source: dict[str, list[Server]] = {}
    for server in remarked:
        by_source.setdefault(index.source_of(server), []).append(server)
    return [
        SourceIssues(path, _issues_of(index, servers))
        for path, servers in sorted(by_source.items())
    ]


def _issues_of(index: OpenIndex, servers: list[Server]) -> tuple[Issue, ...]:
    entries = index.entries_at(servers)
    by_position = {
        index.servers.position(server): entries[server.id, server.version].tree
        for server in servers
    }
    issues = chosen_notices(index.servers, servers)
    return tuple(_place_issue(issue, by_position[int(issue.at[0])]) for issue in issues)


def flattened(found: Iterable[SourceIssues]) -> list[Issue]:
    """The issues of all files, one after the other."""
    return [issue for each in found for issue in each.issues]


def _place_issue(issue: Issue, tree: Node) -> Issue:
    # The path begins with the position of the server in the index, and the tree with
    # its entry.
    node = find(tree, issue.at[1:])
    return structs.replace(issue, line=node.line, column=node.column)
