"""Tools: what exists, who may call it, and the one way to call it."""

from agent_resolver.registry.errors import NeedsAction, ToolFailure, ToolIdConflict
from agent_resolver.registry.outcome import Done, Failed, FailureCode, Outcome, Pending
from agent_resolver.registry.registry import ToolRegistry
from agent_resolver.registry.tool import CallContext, Descriptor, Tool

__all__ = [
    "CallContext",
    "Descriptor",
    "Done",
    "Failed",
    "FailureCode",
    "NeedsAction",
    "Outcome",
    "Pending",
    "Tool",
    "ToolFailure",
    "ToolIdConflict",
    "ToolRegistry",
]
