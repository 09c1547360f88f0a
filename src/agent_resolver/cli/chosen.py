"""What the commands that resolve say about the servers that are chosen."""

from collections.abc import Iterable, Sequence

from msgspec import structs

from agent_resolver.core.chosen_notice import chosen_notices
from agent_resolver.core.resolution import Resolution
from agent_resolver.schema.index import Server
from agent_resolver.schema.index_tree import entry_trees
from agent_resolver.schema.issue import Issue
from agent_resolver.schema.tree import Node, find


def chosen_issues(index: bytes, servers: Sequence[Server], resolutions: Iterable[Resolution]) -> list[Issue]:
    """Warnings and hints about the servers that resolutions choose, each with its place in the index.

    Args:
        index: The bytes of the index.
        servers: Its servers, in its order.
        resolutions: What was resolved against it.
    """
    picked = (choice.server for resolution in resolutions for choice in resolution.choices if choice.server)
    issues = chosen_notices(servers, picked)
    if not issues:
        return []
    trees = entry_trees(index, {int(issue.at[0]) for issue in issues})
    return [_place_issue(issue, trees[int(issue.at[0])]) for issue in issues]


def _place_issue(issue: Issue, tree: Node) -> Issue:
    node = find(tree, issue.at[1:])
    return structs.replace(issue, line=node.line, column=node.column)
