"""The time for `resolvedAt`: a given one, else `SOURCE_DATE_EPOCH`, else the epoch."""

import os
from datetime import UTC, datetime

from agent_resolver.cli.errors import Usage
from agent_resolver.core.resolution import EPOCH


def resolved_at(asked: str | None) -> str:
    """The value of `resolvedAt` for the option `--resolved-at`.

    Raises:
        Usage: It is no time, or `SOURCE_DATE_EPOCH` is no number of seconds.
    """
    # The wall clock is read on request alone: by default, the same inputs give the same
    # bytes.
    if asked == "now":
        return _format_time(datetime.now(UTC))
    if asked is not None:
        return _format_time(_parse_time(asked))
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    # An empty variable counts as unset, as a CI job may clear it that way.
    if not epoch:
        return EPOCH
    return _format_time(_from_seconds(epoch))


def _parse_time(asked: str) -> datetime:
    try:
        instant = datetime.fromisoformat(asked)
    except ValueError:
        instant = None
    # A time without a zone would mean another instant on each machine.
    if instant is None or instant.tzinfo is None:
        raise Usage(
            f"`{asked}` is no time for `--resolved-at`",
            "use `now`, or an ISO 8601 time with its zone such as `2025-01-15T10:30:00Z`",
        )
    return instant.astimezone(UTC)


def _from_seconds(epoch: str) -> datetime:
    try:
        return datetime.fromtimestamp(int(epoch), UTC)
    except (ValueError, OverflowError, OSError):
        # The number may be no number, beyond what a date can hold, or beyond what the
        # system's clock functions take.
        raise Usage(
            f"SOURCE_DATE_EPOCH is `{epoch}`, which is no number of seconds since 1970",
            "unset it, or set it to a number",
        ) from None


def _format_time(instant: datetime) -> str:
    # A lock is verified to have exactly this form: three decimals, and `Z` for UTC.
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")
