"""The answer with which a person asks for another attempt."""

from typing import Final

RETRY_ANSWER: Final = "retry"
"""Any other answer says that there is nothing to try again: a person has done it, or it stays as it is."""


def asks_for_retry(answer: str | None) -> bool:
    """True if a person answered `retry`, in any spelling that can only mean this."""
    return answer is not None and answer.strip().lower() == RETRY_ANSWER
