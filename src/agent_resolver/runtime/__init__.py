"""From the id of an agent to a plan."""

from agent_resolver._export import lazy_exports

__getattr__ = lazy_exports(__name__)
