"""The pattern language of `forbid`: `*` stands for any run of characters, all else for itself."""

from agent_resolver.core.star_match import parts_match


def matches(pattern: str, text: str) -> bool:
    """True if `pattern` matches the whole of `text`."""
    return parts_match(tuple(pattern.split("*")), text)
