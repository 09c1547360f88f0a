"""The pure part: values in, values out."""

from agent_resolver.core.choice import rejections
from agent_resolver.core.explanation_json import explanation_json
from agent_resolver.core.resolution import EPOCH, Resolution, explain, resolve
from agent_resolver.core.server import Server, by_category, in_order, servers_of

__all__ = [
    "EPOCH",
    "Resolution",
    "Server",
    "by_category",
    "explain",
    "explanation_json",
    "in_order",
    "rejections",
    "resolve",
    "servers_of",
]
