"""What a call comes to: done, failed, or waiting for a person."""

from enum import StrEnum
from typing import Any

from msgspec import UNSET, Struct, UnsetType


class FailureCode(StrEnum):
    """Why a call failed; stable for machines."""

    UNAUTHORIZED = "UNAUTHORIZED"
    UNKNOWN_TOOL = "UNKNOWN_TOOL"
    FORBIDDEN_ACTION = "FORBIDDEN_ACTION"
    SCHEMA_UNUSABLE = "SCHEMA_UNUSABLE"
    SCOPE_NOT_LOCKED = "SCOPE_NOT_LOCKED"
    TOOL_CHANGED = "TOOL_CHANGED"
    TOOL_ID_RESERVED = "TOOL_ID_RESERVED"
    TOOL_NAME_REPEATED = "TOOL_NAME_REPEATED"
    TOOL_NAME_UNUSABLE = "TOOL_NAME_UNUSABLE"
    TOOL_NOT_MAPPED = "TOOL_NOT_MAPPED"
    INPUT_VALIDATION_FAILED = "INPUT_VALIDATION_FAILED"
    MISSING_SCOPE = "MISSING_SCOPE"
    CLEARANCE_TOO_LOW = "CLEARANCE_TOO_LOW"
    APPROVAL_REJECTED = "APPROVAL_REJECTED"
    RATE_LIMITED = "RATE_LIMITED"
    TOO_MANY_QUESTIONS = "TOO_MANY_QUESTIONS"
    CODE_CHANGED = "CODE_CHANGED"
    STATE_UNAVAILABLE = "STATE_UNAVAILABLE"
    KEY_REUSED = "KEY_REUSED"
    ALREADY_RUNNING = "ALREADY_RUNNING"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
    NOT_CONFIGURED = "NOT_CONFIGURED"
    SERVER_UNAVAILABLE = "SERVER_UNAVAILABLE"
    PROTOCOL_ERROR = "PROTOCOL_ERROR"
    TIMEOUT = "TIMEOUT"
    TOOL_ERROR = "TOOL_ERROR"
    RUNNER_ERROR = "RUNNER_ERROR"
    OUTPUT_VALIDATION_FAILED = "OUTPUT_VALIDATION_FAILED"


class Done(Struct, frozen=True, kw_only=True, tag="done", tag_field="status", rename="camel"):
    """The tool ran and this is its result."""

    trace_id: str
    result: Any
    traceparent: str | UnsetType = UNSET
    """The call's own place in its trace, where somebody watches."""


class Failed(Struct, frozen=True, kw_only=True, tag="failed", tag_field="status", rename="camel"):
    """The tool was refused, or did not do what it should."""

    trace_id: str
    code: FailureCode
    message: str
    remedy: str
    details: tuple[str, ...] = ()
    question: str | UnsetType = UNSET
    """The id of the open question whose answer lets the same call go on, where there is one."""
    traceparent: str | UnsetType = UNSET


class Pending(Struct, frozen=True, kw_only=True, tag="pending", tag_field="status", rename="camel"):
    """The call waits for the pending action `id`; calling again once it is answered goes on."""

    trace_id: str
    id: str
    type: str
    code: str
    """`APPROVAL_REQUIRED`, `SECRET_REQUIRED`, …: its type, in the words of the failures."""
    message: str
    remedy: str
    expires_at: str | None = None
    traceparent: str | UnsetType = UNSET


Outcome = Done | Failed | Pending
