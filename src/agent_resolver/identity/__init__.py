"""Tokens and who vouches for a caller."""

from agent_resolver._export import lazy_exports

__getattr__ = lazy_exports(__name__)
