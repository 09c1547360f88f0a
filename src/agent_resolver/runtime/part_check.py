"""Checks of what a builder is given: Python itself takes anything for a part."""

from typing import TypeVar

from agent_resolver.runtime.errors import ConfigValidation

Part = TypeVar("Part")


def require_type(part: Part, *kinds: type) -> Part:
    """The part, if it is of one of these types.

    Raises:
        ConfigValidation: It is something else.
    """
    if not isinstance(part, kinds):
        expected = " or ".join(f"`{kind.__name__}`" for kind in kinds)
        raise ConfigValidation(
            f"a `{type(part).__name__}` was given where {expected} belongs"
        )
    return part


def require_methods(part: Part, *names: str) -> Part:
    """The part, if it has these methods.

    Raises:
        ConfigValidation: One of them is missing.
    """
    missing = [name for name in names if not callable(getattr(part, name, None))]
    if missing:
        raise ConfigValidation(
            f"a `{type(part).__name__}` was given, which has no method `{missing[0]}`"
        )
    return part


def require_name(name: object) -> str:
    """The name, if it can be one.

    Raises:
        ConfigValidation: It is not text, or it is empty or cannot be printed.
    """
    if not isinstance(name, str) or not name or not name.isprintable():
        given = repr(name) if isinstance(name, str) else f"a `{type(name).__name__}`"
        raise ConfigValidation(f"{given} was given where a name belongs")
    return name
