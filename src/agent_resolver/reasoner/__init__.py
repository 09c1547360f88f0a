"""The reasoner: from a vague request to an approved, executed, audited plan."""

from agent_resolver._export import lazy_exports

__getattr__ = lazy_exports(__name__)
