"""Answers to HTTP bodies that are not messages, in words of ours."""

import re
from typing import TYPE_CHECKING, Final

import mcp_types as types
import msgspec

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BAD_REQUEST: Final = 400
_LIBRARY_TEXT = re.compile(r"(Validation|Parse) error: ")
_ANSWERS: Final = {
    "Validation": (
        types.INVALID_REQUEST,
        "Invalid request: the body is not one JSON-RPC message",
    ),
    "Parse": (types.PARSE_ERROR, "Parse error"),
}


def plain_errors(app: "ASGIApp") -> "ASGIApp":
    """The application, whose answers to bodies that are not messages do not quote the library that read them."""

    async def answer(scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        start: Message | None = None

        async def send_plain(message: "Message") -> None:
            nonlocal start
            if (
                message["type"] == "http.response.start"
                and message["status"] == _BAD_REQUEST
            ):
                start = message  # Its length is known once the body is.
                return
            if start is None:
                await send(message)
                return
            body = _plain_body(message.get("body", b""))
            headers = [
                pair
                for pair in start.get("headers", ())
                if pair[0].lower() != b"content-length"
            ]
            if not message.get("more_body"):
                headers.append((b"content-length", str(len(body)).encode()))
            await send({**start, "headers": headers})
            start = None
            await send({**message, "body": body})

        await app(scope, receive, send_plain)

    return answer


def _plain_body(body: bytes) -> bytes:
    try:
        document = msgspec.json.decode(body)
        found = _LIBRARY_TEXT.match(document["error"]["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return body
    if found is None:
        return body
    code, message = _ANSWERS[found[1]]
    return msgspec.json.encode(
        {**document, "error": {"code": code, "message": message}}
    )
