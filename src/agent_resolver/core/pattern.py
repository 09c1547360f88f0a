"""The pattern language of `forbid`: `*` stands for any run of characters, all else for itself."""

from agent_resolver.core.starred import fits


def matches(pattern: str, text: str) -> bool:
    """Whether `pattern` fits the whole of `text`."""
    return fits(tuple(pattern.split("*")), text)
