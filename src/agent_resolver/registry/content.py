"""What the trail keeps of arguments and results: an excerpt that shows no secret."""

from collections.abc import Sequence
from typing import Any

import msgspec

from agent_resolver.core.masking import MASK, SecretFields, excerpt
from agent_resolver.registry.secret import Secret, redacted


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
