"""Tells the kind of a failure from what a provider answers over HTTP.

A provider says what went wrong in up to four ways: a status, a code, a type and a sentence. The code is the most exact,
then the type; the sentence is looked at only for requests that are too long, which many servers tell in no other way.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import time
from typing import Any, Final

import msgspec
from msgspec import Struct

from agent_resolver.core.shorten import shorten
from agent_resolver.runtime.executor import FailureKind, InferenceFailure

_LONGEST_MESSAGE: Final = 300
_LONGEST_WAIT_MS: Final = 24 * 60 * 60 * 1000
_MASK: Final = "***"

_KIND_OF_STATUS: Final[Mapping[int, FailureKind]] = {
    401: "unauthorized",
    402: "rate_limited",  # The account has no money left: another member of a pool may have some.
    403: "unauthorized",
    404: "model_not_found",
    408: "timeout",
    413: "context_overflow",
    429: "rate_limited",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}
_KIND_OF_CODE: Final[Mapping[str, FailureKind]] = {
    "authentication_error": "unauthorized",
    "billing_hard_limit_reached": "rate_limited",
    "content_filter": "content_filtered",
    "content_policy_violation": "content_filtered",
    "context_length_exceeded": "context_overflow",
    "context_window_exceeded": "context_overflow",
    "deadline_exceeded": "timeout",
    "engine_overloaded": "overloaded",
    "exceed_context_size_error": "context_overflow",
    "insufficient_quota": "rate_limited",
    "invalid_api_key": "unauthorized",
    "model_not_found": "model_not_found",
    "moderation_blocked": "content_filtered",
    "not_found_error": "model_not_found",
    "overloaded_error": "overloaded",
    "permission_denied": "unauthorized",
    "permission_error": "unauthorized",
    "rate_limit_error": "rate_limited",
    "rate_limit_exceeded": "rate_limited",
    "request_too_large": "context_overflow",
    "resource_exhausted": "rate_limited",
    "responsibleaipolicyviolation": "content_filtered",
    "server_overloaded": "overloaded",
    "service_unavailable": "overloaded",
    "string_above_max_length": "context_overflow",
    "timeout": "timeout",
    "timeout_error": "timeout",
    "unauthenticated": "unauthorized",
    "unavailable": "overloaded",
    "unavailable_error": "overloaded",
}
_TOO_LONG: Final = re.compile(
    r"context[ _](length|window|size)|(prompt|input) is too long|too many (input )?tokens|input token count",
    re.IGNORECASE,
)


class ProviderError(Struct, frozen=True, kw_only=True):
    """What a provider says of a failure."""

    status: int | None = None
    codes: tuple[str, ...] = ()
    """Its code and its type, the more exact one first."""
    message: str = ""

    @property
    def kind(self) -> FailureKind:
        """The kind of the failure."""
        # OpenAI gives 400 for half of these, and some servers give 500 for all of them:
        # a code says more.
        for code in self.codes:
            if kind := _KIND_OF_CODE.get(code.lower()):
                return kind
        by_status = _kind_of_status(self.status)
        # A server that is broken may speak of tokens as well; a request that was
        # refused is what counts.
        is_of_request = (
            by_status in {"invalid_request", "context_overflow"} or self.status is None
        )
        # The search is bounded, so that no body can make it slow.
        if is_of_request and _TOO_LONG.search(self.message[:_LONGEST_MESSAGE]):
            return "context_overflow"
        return by_status


def _kind_of_status(status: int | None) -> FailureKind:
    if status is None:
        return "provider"
    is_of_client = 400 <= status < 500  # noqa: PLR2004 - HTTP's classes of statuses
    return _KIND_OF_STATUS.get(
        status, "invalid_request" if is_of_client else "provider"
    )


class _SaidError(Struct, frozen=True):
    """The object `error` of a body, as OpenAI, Anthropic, Google and llama.cpp write it."""

    # Any type is taken, because a server that writes a field otherwise must still be
    # understood.
    message: Any = ""
    code: Any = None
    type: Any = None
    status: Any = None


class _Body(Struct, frozen=True):
    error: _SaidError | str | None = None
    message: Any = ""
    detail: Any = ""


def read_error(content: bytes | str, status: int | None = None) -> ProviderError | None:
    """The failure that a JSON body reports; None if it reports none. Without a status, HTTP says that all is well."""
    try:
        body = msgspec.json.decode(content, type=_Body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    error = body.error
    # Servers built with FastAPI, and Mistral, have no object `error`.
    if error is None:
        said = body.message or body.detail
        # FastAPI writes a list of faults as `detail`, which is shown as it is.
        return ProviderError(status=status, message=str(said)) if said else None
    if isinstance(error, str):
        return ProviderError(status=status, message=error)
    # A number in `code` is a status, which is read below.
    codes = tuple(
        str(each)
        for each in (error.code, error.type, error.status)
        if isinstance(each, str)
    )
    # A gateway may answer in good order and hand on the status that it was given
    # itself.
    inner = error.code if status is None and isinstance(error.code, int) else status
    return ProviderError(status=inner, codes=codes, message=str(error.message or ""))


def failure_of(
    who: str,
    error: ProviderError,
    *,
    retry_after_ms: int | None = None,
    secrets: Iterable[str] = (),
) -> InferenceFailure:
    """The failure that an error of a provider is, in words that are bounded and hold no secret.

    A provider that refuses a key may quote it, so its words are left out there.
    """
    kind = error.kind
    status = f"HTTP {error.status}" if error.status is not None else ""
    words = "" if kind == "unauthorized" else clean_words(error.message, secrets)
    return InferenceFailure(
        kind, ": ".join(filter(None, [who, status, words])), retry_after_ms
    )


def clean_words(text: str, secrets: Iterable[str] = ()) -> str:
    """Words of a provider: one short line without the secrets that it was sent."""
    # The secrets first: a cut could leave the beginning of one. What is cut off before
    # that is never looked at.
    text = text[: 64 * _LONGEST_MESSAGE]
    for secret in filter(None, secrets):
        text = text.replace(secret, _MASK)
    return shorten(text, _LONGEST_MESSAGE)


def retry_after_of(headers: Mapping[str, str], now: float | None = None) -> int | None:
    """The milliseconds after which a provider wants to be asked again: from seconds, or from a date."""
    # OpenAI and Azure send both, and this one is not rounded.
    if (exact := _number(headers.get("retry-after-ms"))) is not None:
        return _bounded_wait(exact)
    said = headers.get("retry-after")
    if said is None:
        return None
    if (seconds := _number(said)) is not None:
        return _bounded_wait(seconds * 1000)
    try:
        # A date in a header is short: what comes after that many characters cannot be
        # part of one.
        at = parsedate_to_datetime(said[:64])
    except ValueError:
        return None
    # A date without a zone is in UTC, as HTTP says.
    due = at if at.tzinfo else at.replace(tzinfo=UTC)
    since = datetime.fromtimestamp(time() if now is None else now, UTC)
    return _bounded_wait((due - since).total_seconds() * 1000)


def _number(text: str | None) -> float | None:
    # Digits alone are taken: `float` would also read `nan`, `inf` and exponents.
    if text is None or not re.fullmatch(r"\s*\d{1,9}(\.\d{1,9})?\s*", text, re.ASCII):
        return None
    return float(text)


def _bounded_wait(milliseconds: float) -> int:
    # A date may have passed on the way, and a clock may be wrong by years.
    return int(min(max(milliseconds, 0), _LONGEST_WAIT_MS))
