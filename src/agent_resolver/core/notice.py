"""Warnings and hints about files that are valid."""

import re
from collections.abc import Iterable, Iterator

from msgspec import UNSET, structs

from agent_resolver.core.constraint import limits_of
from agent_resolver.core.overlay import unused_patterns
from agent_resolver.core.rule import forbidden_scopes
from agent_resolver.core.semantic_version import is_semantic_version
from agent_resolver.schema.agent_file import AgentFile
from agent_resolver.schema.index import Index, IndexEntry, Server
from agent_resolver.schema.issue import Issue, IssueCode, Severity
from agent_resolver.schema.overlay import Overlay
from agent_resolver.schema.tree import Node, find

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#]+.*")


def agent_file_notices(agent: AgentFile, tree: Node) -> list[Issue]:
    """Warnings and hints about a valid agent file, each with its place in `tree`."""
    found = [
        *_agent_hints(agent),
        *_forbidden_scope_warnings(agent),
        *_duplicate_scopes(agent),
    ]
    return [_place_issue(issue, tree) for issue in found]


def index_notices(index: Index, tree: Node) -> list[Issue]:
    """Warnings and hints about a valid index, each with its place in `tree`."""
    return [
        _place_issue(issue.within(position), tree)
        for position, entry in enumerate(index)
        for issue in _entry_notices(entry)
    ]


def overlay_notices(
    overlay: Overlay,
    servers: Iterable[Server],
    tree: Node,
) -> list[Issue]:
    """Warnings about a valid overlay, each with its place in `tree`."""
    return [
        _place_issue(_unused_pattern(pattern), tree)
        for pattern in unused_patterns(servers, overlay)
    ]


def _unused_pattern(pattern: str) -> Issue:
    return Issue(
        at=("servers", pattern),
        code=IssueCode.UNUSED_PATTERN,
        severity=Severity.WARNING,
        message=f"`{pattern}` fits no server of the index",
        hint="compare it with the ids that `agent discover` lists",
    )


def _place_issue(issue: Issue, tree: Node) -> Issue:
    node = find(tree, issue.at)
    return structs.replace(issue, line=node.line, column=node.column)


def _agent_hints(agent: AgentFile) -> Iterator[Issue]:
    if not is_semantic_version(agent.version):
        yield _version_hint(agent.version)
    if limits_of(agent).residency is None:
        yield Issue(
            at=("constraints", "data", "residency"),
            code=IssueCode.RESIDENCY_ABSENT,
            severity=Severity.HINT,
            message="Absent, so data may go to any region",
            hint="say `any`, `us-only` or `eu-only`",
        )


def _version_hint(version: str) -> Issue:
    return Issue(
        at=("version",),
        code=IssueCode.VERSION_NOT_SEMANTIC,
        severity=Severity.HINT,
        message=f"'{version}' is not a semantic version",
        hint="use a form such as `1.2.3`",
    )


def _forbidden_scope_warnings(agent: AgentFile) -> Iterator[Issue]:
    limits = limits_of(agent)
    for position, requirement in enumerate(agent.requires.mcp):
        for pattern, scope in forbidden_scopes(requirement, limits):
            yield Issue(
                at=(
                    "requires",
                    "mcp",
                    position,
                    "permissions",
                    requirement.permissions.index(scope),
                ),
                code=IssueCode.FORBIDDEN_SCOPE,
                severity=Severity.WARNING,
                message=f"'{scope}' is required, and forbidden by '{pattern}': no server can be chosen",
                hint="drop the permission, or narrow `constraints.actions.forbid`",
            )


def _duplicate_scopes(agent: AgentFile) -> Iterator[Issue]:
    for position, requirement in enumerate(agent.requires.mcp):
        seen: set[str] = set()
        for place, scope in enumerate(requirement.permissions):
            if scope in seen:
                yield Issue(
                    at=("requires", "mcp", position, "permissions", place),
                    code=IssueCode.DUPLICATE_SCOPE,
                    severity=Severity.WARNING,
                    message=f"'{scope}' is listed twice",
                )
            seen.add(scope)


def _entry_notices(entry: IndexEntry) -> Iterator[Issue]:
    if entry.version and not is_semantic_version(entry.version):
        yield _version_hint(entry.version)
    if not entry.launch and not _URL.fullmatch(entry.endpoint or ""):
        yield Issue(
            at=("endpoint",),
            code=IssueCode.ENDPOINT_NOT_URL,
            severity=Severity.HINT,
            message=f"'{entry.endpoint}' is not a URL",
        )
    yield from _unknown_scope_warnings(entry)


def _unknown_scope_warnings(entry: IndexEntry) -> Iterator[Issue]:
    known = entry.scopes
    # Where no scopes are stated, they are unknown, and nothing can be said about one of
    # them.
    if known is UNSET:
        return
    for tool, scopes in (entry.tool_scopes or {}).items():
        for scope in scopes:
            if scope not in known:
                yield Issue(
                    at=("toolScopes", tool),
                    code=IssueCode.UNKNOWN_SCOPE,
                    severity=Severity.WARNING,
                    message=f"'{scope}' is not among the scopes of the server",
                )
