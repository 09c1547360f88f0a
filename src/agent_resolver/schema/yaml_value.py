"""The value of a plain scalar, by the core schema of YAML 1.2."""

import math
import re
from functools import cache

from agent_resolver.schema.limit import MAX_INTEGER_DIGITS

_OTHER_THAN_STRINGS = "nNtTfF~+-."
"""The characters, digits apart, that a plain scalar which is not a string begins with."""


@cache
def _core_schema() -> re.Pattern[str]:
    """The value of a plain scalar: YAML 1.2, section 10.3.2. Anything else is a string."""
    # Compiled when the first scalar needs it: most commands read words alone.
    return re.compile(
        r"""(?P<null>null|Null|NULL|~|)
        |(?P<bool>true|True|TRUE|false|False|FALSE)
        |(?P<int>[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)
        |(?P<float>[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?
            |[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))""",
        re.VERBOSE,
    )


def plain_value(source: str) -> tuple[str, str | float | bool | None]:
    """The tag of a plain scalar, without its prefix, and its value."""
    first = source[:1]
    is_word = first not in _OTHER_THAN_STRINGS and not first.isdecimal()
    # No number has two points, as versions do.
    if is_word or source.count(".") > 1:
        return "str", source
    found = _core_schema().fullmatch(source)
    tag = (found.lastgroup if found else None) or "str"
    return tag, _parse_scalar(source, tag)


def _parse_scalar(source: str, tag: str) -> str | float | bool | None:
    match tag:
        case "null":
            return None
        case "bool":
            return source.lower() == "true"
        case "int" if len(source) <= MAX_INTEGER_DIGITS:
            return int(source, 0 if source[:2] in {"0o", "0x"} else 10)
        case "int":
            return math.inf
        case "float":
            return float(source.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return source
