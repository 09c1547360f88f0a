"""The text that a model reads of a call's outcome."""

from typing import Any, Final

import msgspec

from agent_resolver.schema.outcome import Done, Failed

MAX_RESULT: Final = 400_000
"""The number of characters of a result that the model is shown."""


def text_of(outcome: Done | Failed) -> str:
    """The text for an outcome: the result, or what went wrong as a JSON object."""
    if isinstance(outcome, Done):
        return text_of_result(outcome.result)
    document = {"error": outcome.code.value, "message": outcome.message}
    if outcome.details:
        document["details"] = "; ".join(outcome.details)
    return bounded(msgspec.json.encode(document).decode())


def text_of_result(result: Any) -> str:  # noqa: ANN401 - a JSON value
    """The text for a result: a text as it is, anything else as JSON."""
    if isinstance(result, str):
        return bounded(result)
    encoded = msgspec.json.encode(result)
    # A date and the like are texts once they were kept, and a model reads the same
    # before and after that.
    if encoded.startswith(b'"'):
        return bounded(msgspec.json.decode(encoded, type=str))
    return bounded(encoded.decode())


def bounded(text: str) -> str:
    """A text with no more characters than a model is shown."""
    if len(text) <= MAX_RESULT:
        return text
    return f"{text[:MAX_RESULT]}\n[{len(text) - MAX_RESULT:,} further characters are not shown]"
