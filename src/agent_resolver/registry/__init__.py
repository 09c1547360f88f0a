"""Tools: which exist, who may call them, and the one way to call them."""

from agent_resolver._export import lazy_exports

__getattr__ = lazy_exports(__name__)
