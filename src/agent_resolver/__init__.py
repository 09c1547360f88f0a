"""Resolve what an AI agent needs against the MCP servers that exist: deterministic, offline, explained."""

from agent_resolver._version import __version__
from agent_resolver.core.explanation_writer import explanation_json
from agent_resolver.core.resolution import EPOCH, Resolution, explain, resolve
from agent_resolver.core.server import servers_of
from agent_resolver.schema.agent_file import AgentFile, parse_agent_file
from agent_resolver.schema.errors import InvalidAgentFile, InvalidIndex, InvalidInput, InvalidLockfile, ResolverError
from agent_resolver.schema.explanation import Explanation, Rejection, RejectionCode
from agent_resolver.schema.index import Index, Server
from agent_resolver.schema.index_reader import parse_index
from agent_resolver.schema.issue import Issue
from agent_resolver.schema.lockfile import LockedServer, Lockfile, parse_lockfile, to_json

__all__ = [
    "EPOCH",
    "AgentFile",
    "Explanation",
    "Index",
    "InvalidAgentFile",
    "InvalidIndex",
    "InvalidInput",
    "InvalidLockfile",
    "Issue",
    "LockedServer",
    "Lockfile",
    "Rejection",
    "RejectionCode",
    "Resolution",
    "ResolverError",
    "Server",
    "__version__",
    "explain",
    "explanation_json",
    "parse_agent_file",
    "parse_index",
    "parse_lockfile",
    "resolve",
    "servers_of",
    "to_json",
]
