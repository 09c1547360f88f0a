"""Requests to an issuer, bounded in time and size. Redirects are answers like others, and are not followed."""

from collections.abc import Callable, Mapping
from typing import Final

import anyio
import httpx2
from msgspec import Struct

from agent_resolver.identity.errors import KeysUnavailable
from agent_resolver.identity.issuer_address import past_any_proxy

MAX_DOCUMENT_BYTES: Final = 256 * 1024
ANSWER_SECONDS: Final = 10.0
OK: Final = 200


class Answer(Struct, frozen=True):
    """The answer of an address."""

    status: int
    body: bytes


Get = Callable[[str], Answer]
"""Looks what is at an address, or raises `KeysUnavailable`."""
Post = Callable[[str, Mapping[str, str], Mapping[str, str]], Answer]
"""Sends a form with headers to an address, or raises `KeysUnavailable`."""


def get_over_http(url: str, seconds: float = ANSWER_SECONDS) -> Answer:
    """The document at an address."""
    return anyio.run(_answer_to, "GET", url, {}, None, seconds)


def post_over_http(
    url: str,
    form: Mapping[str, str],
    headers: Mapping[str, str],
    seconds: float = ANSWER_SECONDS,
) -> Answer:
    """The answer of an address to a form."""
    return anyio.run(_answer_to, "POST", url, headers, form, seconds)


async def _answer_to(
    method: str,
    url: str,
    headers: Mapping[str, str],
    form: Mapping[str, str] | None,
    seconds: float,
) -> Answer:
    every = {"Accept": "application/json", "Accept-Encoding": "identity", **headers}
    try:
        with anyio.fail_after(
            seconds
        ):  # All of it: timeouts of single steps would let an answer trickle for ever.
            async with (
                httpx2.AsyncClient(
                    headers=every, mounts=past_any_proxy(), timeout=None
                ) as client,
                client.stream(method, url, data=form) as response,
            ):
                return Answer(response.status_code, await _read_bounded(response, url))
    except TimeoutError:
        raise KeysUnavailable(
            f"{url} did not answer within {seconds:g} seconds"
        ) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise KeysUnavailable(
            f"{url} cannot be reached: {str(error) or type(error).__name__}"
        ) from error


async def _read_bounded(response: httpx2.Response, url: str) -> bytes:
    body = bytearray()
    # As it comes: a few bytes that unpack to many would pass every bound.
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > MAX_DOCUMENT_BYTES:
            raise KeysUnavailable(
                f"{url} answers with more than {MAX_DOCUMENT_BYTES:,} bytes"
            )
    return bytes(body)
