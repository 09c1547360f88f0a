"""The catalog of a project: its folders, the index in the user's cache, and what its `requires` resolve to."""

import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from agent_resolver.catalog.catalog import Catalog
from agent_resolver.catalog.index import CatalogIndex
from agent_resolver.catalog.listing import Verdict
from agent_resolver.catalog.query import Judge
from agent_resolver.core.resolution import Resolution, resolve, resolver
from agent_resolver.project.open_index import OpenIndex, open_index
from agent_resolver.schema.agent_file import AgentFile, parse_agent_file
from agent_resolver.schema.errors import InvalidAgentFile
from agent_resolver.storage.errors import UnreadableFile

if TYPE_CHECKING:
    from agent_resolver.project.session import Session


def open_catalog(
    roots: Sequence[str],
    environment: Mapping[str, str],
    judge: Judge | None = None,
    index_path: str = "",
) -> Catalog:
    """The catalog of these folders, its index kept in the user's cache.

    Each index of servers has a catalog of its own: what resolves by one may not resolve by another.
    """
    absolute = list(dict.fromkeys(os.path.abspath(root) for root in roots))
    keys = [*absolute, os.path.abspath(index_path)] if index_path else absolute
    return Catalog(absolute, CatalogIndex(_cache_path(keys, environment)), judge=judge)


def _cache_path(keys: Sequence[str], environment: Mapping[str, str]) -> str:
    base = environment.get("XDG_CACHE_HOME", "")
    # The XDG Base Directory specification: a path that is not absolute is ignored.
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    # The name of a folder need not be UTF-8.
    name = sha256("\0".join(keys).encode(errors="surrogateescape")).hexdigest()[:16]
    return os.path.join(base, "agent-resolver", f"catalog-{name}.db")


def judge_of(index_path: str) -> Judge | None:
    """Tells whether agent files resolve against the index at `index_path`; None where there is none.

    Raises:
        InvalidIndex: With every error in the file.
        InvalidOverlay: With every error in the overlay.
    """
    try:
        return _judge_by(open_index(index_path, os.environ))
    except UnreadableFile as error:
        if error.missing:
            return None
        raise


def judge_in(session: "Session") -> Judge | None:
    """Tells whether agent files resolve against the index of a session; None where there is none.

    Raises:
        InvalidIndex: With every error in the file.
        InvalidOverlay: With every error in the overlay.
    """
    try:
        return _judge_by(session.index)
    except UnreadableFile as error:
        if error.missing:
            return None
        raise


def _judge_by(index: OpenIndex) -> Judge:
    # It is prepared once, since a catalog may judge thousands of files by the same
    # index.
    resolve_one = resolver(index.servers)

    def judge(content: bytes) -> Verdict:
        try:
            resolution = resolve_one(parse_agent_file(content))
        except InvalidAgentFile as error:
            return Verdict(
                "unresolved", f"the agent file is invalid: {error.issues[0]}"
            )
        return (
            Verdict("resolved")
            if resolution.success
            else Verdict("unresolved", unresolved_reason(resolution))
        )

    # By the digest the catalog knows if a verdict that it keeps was made by the same
    # index.
    return Judge(index.digest, judge)


def unresolved_reason(resolution: Resolution) -> str:
    """The reason why an agent file does not resolve, in a sentence."""
    categories = dict.fromkeys(
        requirement.category for requirement in resolution.failed
    )
    return f"no candidates for categories: {', '.join(categories)}"


def resolve_against(index_path: str, agent: AgentFile) -> Resolution | None:
    """The resolution of an agent file against the index as it is now; None where there is no index."""
    try:
        index = open_index(index_path, os.environ)
    except UnreadableFile:
        return None
    return resolve(agent, index.servers)
