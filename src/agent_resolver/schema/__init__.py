"""Frozen values, readers that locate every fault, and JSON Schemas."""

from agent_resolver.schema.agent_file import AgentFile, Requirement, parse_agent_file, read_agent_file
from agent_resolver.schema.digest import digest
from agent_resolver.schema.errors import (
    InvalidAgentFile,
    InvalidIndex,
    InvalidInput,
    InvalidLockfile,
    ResolverError,
)
from agent_resolver.schema.explanation import (
    AppliedConstraints,
    Explanation,
    Reason,
    Rejection,
    RejectionCode,
    RequirementExplanation,
    Selection,
)
from agent_resolver.schema.index import Index, IndexEntry, Launch
from agent_resolver.schema.index_reader import parse_index, read_index, unremarkable_index
from agent_resolver.schema.issue import Issue, IssueCode, Severity
from agent_resolver.schema.lockfile import LockedServer, Lockfile, parse_lockfile, to_json
from agent_resolver.schema.vocabulary import SENSITIVITY_RANK, Residency, Sensitivity

__all__ = [
    "SENSITIVITY_RANK",
    "AgentFile",
    "AppliedConstraints",
    "Explanation",
    "Index",
    "IndexEntry",
    "InvalidAgentFile",
    "InvalidIndex",
    "InvalidInput",
    "InvalidLockfile",
    "Issue",
    "IssueCode",
    "Launch",
    "LockedServer",
    "Lockfile",
    "Reason",
    "Rejection",
    "RejectionCode",
    "Requirement",
    "RequirementExplanation",
    "Residency",
    "ResolverError",
    "Selection",
    "Sensitivity",
    "Severity",
    "digest",
    "parse_agent_file",
    "parse_index",
    "parse_lockfile",
    "read_agent_file",
    "read_index",
    "to_json",
    "unremarkable_index",
]
