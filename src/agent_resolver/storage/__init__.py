"""Files and the state: bounded reading, atomic writing, the store."""

from agent_resolver._export import lazy_exports

__getattr__ = lazy_exports(__name__)
