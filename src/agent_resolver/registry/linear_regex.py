"""Regular expressions that no text can make slow: their time grows with the text, and no faster."""

from collections.abc import Callable
from typing import Final

import jsonschema_rs

_MAX_BYTES: Final = 1024 * 1024
"""The most memory that one expression may take, compiled; `a{1000}{1000}` is refused."""


def compile_linear_regex(pattern: str) -> Callable[[str], bool]:
    """Compile a regular expression into a function that looks for it anywhere in a text.

    The expressions are those of JSON Schema, without looking around and without references to groups: Python's own
    engine takes time that doubles with each character for some of them.

    Raises:
        ValueError: It is not such an expression, or is too large.
    """
    # `RegexOptions` selects the engine that never backtracks.
    limits = jsonschema_rs.RegexOptions(
        size_limit=_MAX_BYTES, dfa_size_limit=_MAX_BYTES
    )
    try:
        return jsonschema_rs.validator_for(
            {"pattern": pattern}, pattern_options=limits
        ).is_valid
    except ValueError:
        raise ValueError(
            "no regular expression without lookaround and references, or too large"
        ) from None
