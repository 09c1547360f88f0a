"""One log record for each call and each stage of a task: as a line of JSON, or for a collector."""

import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, Literal, Protocol, Self, TextIO

import msgspec
from msgspec import Struct
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import (
    LogRecordLimits,
    LogRecordProcessor,
    ReadWriteLogRecord,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from agent_resolver._version import __version__
from agent_resolver.telemetry.attribute import (
    APP_ID,
    CLASSIFICATION,
    OUTCOME,
    SCOPE,
    STAGE,
    TOOL_NAME,
)

Level = Literal["INFO", "WARN", "ERROR"]

_SEVERITY: Final = {
    "INFO": SeverityNumber.INFO,
    "WARN": SeverityNumber.WARN,
    "ERROR": SeverityNumber.ERROR,
}


class Entry(Struct, frozen=True, kw_only=True):
    """The log entry of a call, or of a stage."""

    nanoseconds: int
    """When, since 1970."""
    level: Level
    message: str
    trace_id: int
    span_id: int
    app_id: str
    outcome: str
    classification: str
    tool: str = ""
    """The tool that was called; empty for a stage."""
    stage: str = ""
    """The stage of a task; empty for a call."""

    @property
    def subject(self) -> tuple[str, str]:
        """The attribute that says what the entry is about, and its value."""
        return (STAGE, self.stage) if self.stage else (TOOL_NAME, self.tool)


class Log(Protocol):
    """Takes entries; the span of the call or the stage is the current one while it does."""

    def write(self, entry: Entry) -> None:
        """Take an entry, whatever becomes of it."""
        ...


class JsonLines:
    """Writes each entry as one line of JSON, at once."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def write(self, entry: Entry) -> None:
        """Write a line; a stream that is closed or full costs the line, never the call."""
        # A program without a window, or a service, may have no standard error at all.
        if stream := self._stream or sys.stderr:
            with suppress(OSError, ValueError):
                stream.write(
                    f"{msgspec.json.encode(_entry_document(entry)).decode()}\n"
                )


class OtlpLog:
    """Hands each entry to OpenTelemetry."""

    def __init__(self, processor: LogRecordProcessor, resource: Resource) -> None:
        self._processor = processor
        self._resource = resource
        self._scope = InstrumentationScope(SCOPE, __version__)
        self._limits = LogRecordLimits()

    def write(self, entry: Entry) -> None:
        """Hand it over; the current span says which trace it is of."""
        subject, name = entry.subject
        record = _OwnRecord(
            timestamp=entry.nanoseconds,
            # The entry is made as the call ends, so the time of the event is that of
            # its observation.
            observed_timestamp=entry.nanoseconds,
            severity_text=entry.level,
            severity_number=_SEVERITY[entry.level],
            body=entry.message,
            attributes={
                APP_ID: entry.app_id,
                subject: name,
                OUTCOME: entry.outcome,
                CLASSIFICATION: entry.classification,
            },
        )
        self._processor.on_emit(
            _BoundedRecord(record, self._resource, self._scope, self._limits)
        )


class _OwnRecord(LogRecord):
    """A record that nobody else holds, so that it need not be copied to be kept."""

    def __copy__(self) -> Self:
        """Itself."""
        return self


class _BoundedRecord(ReadWriteLogRecord):
    """A record whose attributes need no check: they are ours, few and short."""

    # The SDK would copy the attributes into a mapping that checks each of them.
    def __post_init__(self) -> None:
        """Leave them as they are."""


def _entry_document(entry: Entry) -> dict[str, str]:
    instant = datetime.fromtimestamp(entry.nanoseconds / 1e9, UTC)
    about = {"stage": entry.stage} if entry.stage else {"tool": entry.tool}
    # GOS-001 demands the first six fields of every log line.
    return {
        "timestamp": instant.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": entry.level,
        "message": entry.message,
        "trace_id": f"{entry.trace_id:032x}",
        "span_id": f"{entry.span_id:016x}",
        APP_ID: entry.app_id,
        **about,
        "outcome": entry.outcome,
    }
