"""The pattern language of `forbid`: `*` stands for any run of characters, all else for itself."""

from agent_resolver.core.star_match import parts_match


def matches(pattern: str, text: str) -> bool:
    """Whether `pattern` parts_match the whole of `text`."""
    return parts_match(tuple(pattern.split("*")), text)
