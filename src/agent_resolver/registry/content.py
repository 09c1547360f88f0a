"""Excerpts of arguments and results for people, in the trail and in the inbox; they show no secret."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from agent_resolver.core.count import counted
from agent_resolver.core.masking import MASK, SecretFields, excerpt
from agent_resolver.registry.secret import Secret, redacted

MAX_SHOWN_BYTES: Final = 16 * 1024
"""How much of the arguments an approver is shown."""


def content_of(value: Any, fields: SecretFields, secrets: Sequence[Secret]) -> str:  # noqa: ANN401 - a JSON value
    """The value as JSON text, cut to a bounded length.

    Args:
        value: Arguments, or a result, which may be any value that can be written as JSON.
        fields: The fields whose values are hidden.
        secrets: The secrets that the tool was given, which are hidden wherever they are.
    """
    try:
        # A result may be a struct, whose fields only show once it is plain.
        plain = msgspec.to_builtins(value, str_keys=True)
    except (TypeError, ValueError, RecursionError):
        return MASK
    masked = fields.mask(plain)
    # Before it is cut: half of a secret would not be found.
    return excerpt(redacted(masked, secrets) if secrets else masked)


def arguments_for_approver(
    arguments: dict[str, Any],
    fields: SecretFields,
    secrets: Sequence[Secret],
) -> str:
    """The arguments as JSON text, and after it in brackets how much of them is not shown.

    The caller chooses the arguments, their order and their length, so what is not shown must never look as if it were
    not there.
    """
    masked = redacted(fields.mask(arguments), secrets)
    text = excerpt(masked, MAX_SHOWN_BYTES)
    if text == MASK or not isinstance(masked, dict):
        return f"{MASK} (all arguments are hidden)"
    hidden = fields.count_in(arguments)
    notes = [f"{counted(hidden, 'field is', 'fields are')} hidden"] if hidden else []
    size = len(msgspec.json.encode(masked))
    if size > MAX_SHOWN_BYTES:
        notes.insert(0, f"only {MAX_SHOWN_BYTES:,} of {size:,} bytes are shown")
    return f"{text} ({', '.join(notes)})" if notes else text


def without_surrogates(text: str) -> str:
    """The text as it can be written: file names may hold what is no character."""
    return text.encode("utf-8", "replace").decode()
