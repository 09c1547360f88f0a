"""What a call comes to: done, failed, or waiting for a person."""

from enum import StrEnum
from typing import Any

from msgspec import Struct


class FailureCode(StrEnum):
    """Why a call failed; stable for machines."""

    FORBIDDEN_ACTION = "FORBIDDEN_ACTION"
    SCHEMA_UNUSABLE = "SCHEMA_UNUSABLE"
    SCOPE_NOT_LOCKED = "SCOPE_NOT_LOCKED"
    TOOL_NOT_MAPPED = "TOOL_NOT_MAPPED"
    UNKNOWN_TOOL = "UNKNOWN_TOOL"
    INPUT_VALIDATION_FAILED = "INPUT_VALIDATION_FAILED"
    RATE_LIMITED = "RATE_LIMITED"
    SERVER_UNAVAILABLE = "SERVER_UNAVAILABLE"
    UNAUTHORIZED = "UNAUTHORIZED"
    PROTOCOL_ERROR = "PROTOCOL_ERROR"
    TIMEOUT = "TIMEOUT"
    TOOL_ERROR = "TOOL_ERROR"
    OUTPUT_VALIDATION_FAILED = "OUTPUT_VALIDATION_FAILED"


class Done(Struct, frozen=True, kw_only=True, tag="done", tag_field="status", rename="camel"):
    """The tool ran and this is its result."""

    trace_id: str
    result: Any


class Failed(Struct, frozen=True, kw_only=True, tag="failed", tag_field="status", rename="camel"):
    """The tool was refused, or did not do what it should."""

    trace_id: str
    code: FailureCode
    message: str
    remedy: str
    details: tuple[str, ...] = ()


class Pending(Struct, frozen=True, kw_only=True, tag="pending", tag_field="status", rename="camel"):
    """The call waits for the pending action `id`; calling again once it is answered goes on."""

    trace_id: str
    id: str
    type: str
    message: str


Outcome = Done | Failed | Pending
