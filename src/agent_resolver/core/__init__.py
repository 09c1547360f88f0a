"""The pure part: values in, values out."""

from agent_resolver.core.choice import rejections
from agent_resolver.core.explanation_json import explanation_json
from agent_resolver.core.notice import agent_file_notices, index_notices
from agent_resolver.core.resolution import EPOCH, Resolution, explain, resolve
from agent_resolver.core.server import Server, by_category, in_order, servers_of

__all__ = [
    "EPOCH",
    "Resolution",
    "Server",
    "agent_file_notices",
    "by_category",
    "explain",
    "explanation_json",
    "in_order",
    "index_notices",
    "rejections",
    "resolve",
    "servers_of",
]
