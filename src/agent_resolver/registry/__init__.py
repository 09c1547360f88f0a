"""Tools: what exists, who may call it, and the one way to call it."""

from agent_resolver.registry.capability import Capability, capabilities_of, capability
from agent_resolver.registry.errors import NeedsAction, ToolFailure, ToolIdConflict, UnsafeCapability
from agent_resolver.registry.outcome import Done, Failed, FailureCode, Outcome, Pending
from agent_resolver.registry.pipeline import Ports
from agent_resolver.registry.registry import ToolRegistry
from agent_resolver.registry.secret import Secret
from agent_resolver.registry.tool import CallContext, Descriptor, Labels, Rules, Tool

__all__ = [
    "CallContext",
    "Capability",
    "Descriptor",
    "Done",
    "Failed",
    "FailureCode",
    "Labels",
    "NeedsAction",
    "Outcome",
    "Pending",
    "Ports",
    "Rules",
    "Secret",
    "Tool",
    "ToolFailure",
    "ToolIdConflict",
    "ToolRegistry",
    "UnsafeCapability",
    "capabilities_of",
    "capability",
]
