"""Exceptions of code that is not ours, in words."""

from typing import Final

_LONGEST: Final = 500


def describe_exception(error: BaseException) -> str:
    """The type and the words of an exception; its words may be endless, or raise an exception themselves."""
    name = type(error).__name__
    try:
        words = str(error)
    except Exception:  # noqa: BLE001 - it is code of a plugin author
        words = ""
    if len(words) > _LONGEST:
        words = f"{words[:_LONGEST]}…"
    return f"{name}: {words}" if words else name
