"""Lets Temporal's library speak in our log alone: a line for each message, without tracebacks and without values."""

import logging
import time
from functools import cache
from typing import Final

from temporalio.exceptions import ApplicationError
from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)

from agent_resolver.core.shorten import shorten
from agent_resolver.schema.errors import ResolverError

_log = logging.getLogger(__name__)
_MESSAGE_LENGTH: Final = 300
_CORE: Final = "temporalio.core"
"""The logger for the part of the library that is not written in Python."""
_POLL: Final = "gRPC call poll_"
"""The library's message about a server that does not answer, which comes many times a second, begins with this."""
_AWAY_SECONDS: Final = 60.0


class _TemporalLog(logging.Handler):
    """Passes on what the library says."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._next_away = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if record.name.startswith(_CORE) and record.levelno < logging.ERROR:
            self._note_away(message)
            return
        error = record.exc_info[1] if record.exc_info else None
        # An activity reports by itself why it fails, unless its order could not be
        # read: then there is a cause.
        if isinstance(error, ApplicationError) and error.__cause__ is None:
            return
        # Behind the first words, the library lists everything that it knows about the
        # workflow.
        words = message.partition(" ({")[0]
        _log.log(
            record.levelno,
            "%s",
            shorten(f"{words}{_reason_of(error)}", _MESSAGE_LENGTH),
        )

    def _note_away(self, message: str) -> None:
        now = time.monotonic()
        # Once a minute is enough of a message that comes many times a second.
        if _POLL in message and now >= self._next_away:
            self._next_away = now + _AWAY_SECONDS
            _log.warning(
                "The Temporal server does not answer; this worker asks again until it does"
            )


def _reason_of(error: BaseException | None) -> str:
    """The words of an error that is ours. Of others the kind alone: their words may quote arguments."""
    cause = error
    while cause is not None:
        if isinstance(cause, ResolverError):
            return f": {cause}"
        cause = cause.__cause__
    return f": {type(error).__name__}" if error is not None else ""


@cache
def quiet_runtime() -> Runtime:
    """The runtime of the library for this process, which writes nothing to the terminal by itself."""
    logger = logging.getLogger("temporalio")
    # With a handler of its own, nothing of it reaches those of the program.
    logger.handlers[:] = [_TemporalLog()]
    logger.propagate = False
    filtering = TelemetryFilter(core_level="WARN", other_level="ERROR")
    forwarding = LogForwardingConfig(
        logger=logging.getLogger(_CORE),
        append_target_to_name=False,
        prepend_target_on_message=False,
        append_log_fields_to_message=False,
    )
    return Runtime(
        telemetry=TelemetryConfig(
            logging=LoggingConfig(filter=filtering, forwarding=forwarding)
        )
    )
