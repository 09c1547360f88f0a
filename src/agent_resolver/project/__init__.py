"""A project on disk: the one place where parts are put together."""

from agent_resolver._export import lazy_exports

__getattr__ = lazy_exports(__name__)
