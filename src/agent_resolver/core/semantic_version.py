"""Versions as semver.org has them."""

import re

# https://semver.org, section "Is there a suggested regular expression", without its
# capture groups.
_SEMANTIC_VERSION = re.compile(
    r"(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)"
    r"(?:-(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)


def is_semantic_version(text: str) -> bool:
    """True if a text is a semantic version, such as `1.4.0` or `2.0.0-rc.1`."""
    return _SEMANTIC_VERSION.fullmatch(text) is not None
