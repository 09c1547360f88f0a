"""Blueprints: durable workflows over tools, and the engines that drive their runs."""

from agent_resolver._export import lazy_exports

__getattr__ = lazy_exports(__name__)
