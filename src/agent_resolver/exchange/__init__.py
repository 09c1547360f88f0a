"""One file for each format that is imported or exported."""

from agent_resolver._export import lazy_exports

__getattr__ = lazy_exports(__name__)
