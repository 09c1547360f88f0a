"""Agent files, found, checked and loaded when they are asked for."""

from agent_resolver._export import lazy_exports

__getattr__ = lazy_exports(__name__)
