"""The kind of a failure, from what a provider answers."""

import json

import pytest

from agent_resolver.runtime.provider.http_failure import (
    ProviderError,
    clean_words,
    failure_of,
    read_error,
    retry_after_of,
)


def kind_of(status: int | None, body: object) -> str:
    error = read_error(json.dumps(body), status)
    assert error is not None
    return error.kind


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"error": {"code": "context_length_exceeded", "message": "m"}}, "context_overflow"),
        (400, {"error": {"type": "exceed_context_size_error", "code": 400}}, "context_overflow"),
        (400, {"error": {"message": "This model's maximum context length is 8192 tokens"}}, "context_overflow"),
        (400, {"error": {"message": "prompt is too long: 212345 tokens > 200000 maximum"}}, "context_overflow"),
        (400, {"message": "The input token count exceeds the maximum"}, "context_overflow"),
        (422, {"detail": "too many tokens"}, "context_overflow"),
        (400, {"error": {"code": "content_filter"}}, "content_filtered"),
        (400, {"error": {"code": "ResponsibleAIPolicyViolation"}}, "content_filtered"),
        (400, {"error": {"code": "content_policy_violation", "type": "invalid_request_error"}}, "content_filtered"),
        (400, {"error": {"type": "invalid_request_error"}}, "invalid_request"),
        (400, {"error": "a sentence"}, "invalid_request"),
        (403, {"error": {"code": "moderation_blocked"}}, "content_filtered"),
        (429, {"error": {"code": "insufficient_quota"}}, "rate_limited"),
        (429, {"error": {"status": "RESOURCE_EXHAUSTED", "code": 429}}, "rate_limited"),
        (500, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded"),
        (500, {"error": {"message": "maximum context length"}}, "provider"),
        (503, {"error": {"status": "UNAVAILABLE"}}, "overloaded"),
        (400, {"error": {"type": "authentication_error"}}, "unauthorized"),
        (400, {"error": {"status": "DEADLINE_EXCEEDED"}}, "timeout"),
        (None, {"error": {"code": 503}}, "overloaded"),
        (None, {"error": {"code": "unknown", "message": "too many tokens"}}, "context_overflow"),
        (None, {"error": {"message": None}}, "provider"),
    ],
)
def test_code_type_status_and_words_say_the_kind(status: int | None, body: object, kind: str) -> None:
    assert kind_of(status, body) == kind


@pytest.mark.parametrize("content", ["", "null", "[]", "{}", '{"error": null}', "{" * 10_000, b"\xff"])
def test_a_body_that_speaks_of_no_failure_says_nothing(content: str | bytes) -> None:
    assert read_error(content, 200) is None


def test_words_are_short_and_without_secrets_even_where_they_are_cut() -> None:
    words = clean_words("x" * 295 + " s3cr3t-key " + "y" * 100_000, ["s3cr3t-key", ""])

    assert len(words) <= 300
    assert "s3cr3t" not in words


def test_a_provider_that_refuses_a_key_is_not_quoted() -> None:
    failure = failure_of("acme", ProviderError(status=401, message="Incorrect key sk-12..89"))

    assert (failure.kind, str(failure)) == ("unauthorized", "acme: HTTP 401")


NOON = 1_700_000_000.0


@pytest.mark.parametrize(
    ("headers", "milliseconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7_000),
        ({"retry-after": "0.5"}, 500),
        ({"retry-after": " 2 "}, 2_000),
        ({"retry-after": "999999999"}, 86_400_000),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "٣"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 250),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9_000),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:30 GMT"}, 10_000),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:30 -0000"}, 10_000),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:00 GMT"}, 0),
        ({"retry-after": "Tue, 99 Nov 2023 22:13:00 GMT"}, None),
        ({"retry-after": "x" * 100_000}, None),
    ],
)
def test_when_to_come_back_is_said_in_seconds_or_as_a_date(headers: dict[str, str], milliseconds: int | None) -> None:
    assert retry_after_of(headers, NOON) == milliseconds
