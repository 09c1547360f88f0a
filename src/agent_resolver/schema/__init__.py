"""Frozen values that rooms share, readers that locate every fault, and JSON Schemas."""

from agent_resolver._export import lazy_exports

__getattr__ = lazy_exports(__name__)
