"""Tells the kind of a failure from what LangChain and the clients of providers raise."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from langchain_core import exceptions

from agent_resolver.runtime.executor import FailureKind, InferenceFailure
from agent_resolver.runtime.provider.http_failure import (
    ProviderError,
    clean_words,
    failure_of,
    read_error,
    retry_after_of,
)

_KINDS: Final[tuple[tuple[type[Exception], FailureKind], ...]] = (
    (exceptions.ContextOverflowError, "context_overflow"),
    (exceptions.ModelTimeoutError, "timeout"),
    (exceptions.ModelConnectionError, "provider"),
    (TimeoutError, "timeout"),
    (ConnectionError, "provider"),
)
"""The exceptions that say more than a status does, the more exact first."""


def failure_in(
    who: str, error: Exception, *, secrets: Iterable[str] = (), has_pieces: bool = False
) -> InferenceFailure:
    """The failure that an exception is. Once there were pieces, a connection that ends has interrupted the stream."""
    if isinstance(error, InferenceFailure):
        return error
    # Clients of providers have classes of their own, which are not imported here: what
    # they all have is looked at.
    status = _status_of(error)
    said = _read_body(error, status) or ProviderError(status=status, message=str(error))
    by_type = next(
        (kind for exception, kind in _KINDS if isinstance(error, exception)), None
    )
    # A known class says more than a status, and a status more than the name of an
    # unknown class.
    if by_type is None and status is not None:
        # Not every client keeps the response, whose headers may say when to come back.
        headers = getattr(getattr(error, "response", None), "headers", {})
        return failure_of(
            who, said, retry_after_ms=retry_after_of(headers), secrets=secrets
        )
    kind = by_type or _kind_by_name(error, said)
    # Trying again is right for both; a reader who saw pieces must be sent `Restarted`.
    if has_pieces and kind in {"provider", "timeout"}:
        kind = "stream_interrupted"
    words = clean_words(said.message, secrets)
    return InferenceFailure(
        kind, ": ".join(filter(None, [who, type(error).__name__, words]))
    )


def _status_of(error: Exception) -> int | None:
    """The HTTP status that an exception has; clients of providers call it one of two names."""
    found = getattr(error, "status_code", None) or getattr(error, "code", None)
    # The attribute `code` may also hold a text, which is not a status.
    return found if isinstance(found, int) else None


def _read_body(error: Exception, status: int | None) -> ProviderError | None:
    """What the provider said, which its client has read already; some take the object `error` out of it."""
    body: Any = getattr(error, "body", None)
    if not isinstance(body, dict):
        return None
    document = body if "error" in body else {"error": body}
    # Written and read again, so that one table reads the bodies of all providers.
    return read_error(msgspec.json.encode(document, enc_hook=str), status)


def _kind_by_name(error: Exception, said: ProviderError) -> FailureKind:
    """The kind of an exception of a client that is not known here; what Python itself raises is a fault of ours."""
    name = type(error).__name__
    if said.kind != "provider":
        return said.kind
    if "Timeout" in name:
        return "timeout"
    is_of_python = type(error).__module__ == "builtins" or "Validation" in name
    return "invalid_request" if is_of_python else "provider"
