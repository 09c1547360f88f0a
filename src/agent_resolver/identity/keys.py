"""The keys that an issuer signs with, found by its metadata and kept for a while."""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import anyio
import httpx2
import msgspec
from joserfc.jwk import JWKRegistry, Key
from joserfc.util import base64_to_int
from msgspec import Struct

from agent_resolver.identity.errors import KeysUnavailable, UnusableIdentity
from agent_resolver.identity.issuer_address import address, past_any_proxy

Keys = tuple[Key, ...]

LIFETIME_SECONDS: Final = 600.0
"""How long keys are believed before the issuer is asked again: so long a key lives on that it took back."""
PAUSE_SECONDS: Final = 15.0
"""How often the issuer is asked at the most, whatever tokens come."""
MAX_DOCUMENT_BYTES: Final = 256 * 1024
MAX_KEYS: Final = 100
_ANSWER_SECONDS: Final = 10.0
_OK: Final = 200
_MOST_SHOWN: Final = 200
"""How much of what others wrote is shown."""
_SHORTEST_RSA_BITS: Final = 2048
_PUBLIC: Final = ("kty", "kid", "use", "key_ops", "alg", "n", "e", "crv", "x", "y")


class Answer(Struct, frozen=True):
    """What stands at an address."""

    status: int
    body: bytes


Get = Callable[[str], Answer]
"""Looks what stands at an address, or raises `KeysUnavailable`."""


class _Metadata(Struct):
    issuer: str
    jwks_uri: str


class _KeySet(Struct):
    keys: list[dict[str, Any]]


class _Held(Struct, frozen=True):
    keys: Keys
    at: float


class _Failed(Struct, frozen=True):
    problem: KeysUnavailable
    at: float


def check_issuer(issuer: str) -> None:
    """Refuse an issuer whose word could be changed on the way.

    Raises:
        UnusableIdentity: It is one.
    """
    parts = address(issuer)
    if parts is None or parts.query or parts.fragment:
        # What stands before the host may be a password.
        message = f"The issuer {issuer.rpartition('@')[2]} is neither an `https` address nor one on this machine"
        raise UnusableIdentity(message, "correct `identity.issuer` in agent.toml")


def get_over_http(url: str, seconds: float = _ANSWER_SECONDS) -> Answer:
    """What stands at an address, in bounded time and size; redirects are answers like others, and not followed."""
    return anyio.run(_get_over_http, url, seconds)


async def _get_over_http(url: str, seconds: float) -> Answer:
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    try:
        with anyio.fail_after(seconds):  # All of it: timeouts of single steps would let an answer trickle for ever.
            async with (
                httpx2.AsyncClient(headers=headers, mounts=past_any_proxy(), timeout=None) as client,
                client.stream("GET", url) as response,
            ):
                return Answer(response.status_code, await _read_bounded(response, url))
    except TimeoutError:
        raise KeysUnavailable(f"{url} did not answer within {seconds:g} seconds") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise KeysUnavailable(f"{url} cannot be reached: {str(error) or type(error).__name__}") from error


async def _read_bounded(response: httpx2.Response, url: str) -> bytes:
    body = bytearray()
    # As it comes: a few bytes that unpack to many would pass every bound.
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > MAX_DOCUMENT_BYTES:
            raise KeysUnavailable(f"{url} answers with more than {MAX_DOCUMENT_BYTES:,} bytes")
    return bytes(body)


def keys_of(issuer: str, get: Get) -> Keys:
    """The keys that an issuer lists now.

    Raises:
        KeysUnavailable: It cannot be reached, or does not say clearly which they are.
    """
    metadata = _fetch_metadata(issuer, get)
    if metadata.issuer != issuer:
        message = f"The issuer at {issuer} calls itself {metadata.issuer[:_MOST_SHOWN]}"
        raise KeysUnavailable(message, "write it in `identity.issuer` to the letter, with or without the last slash")
    parts = address(metadata.jwks_uri)
    # Only an issuer on this machine may send us to a place on this machine.
    if parts is None or (parts.scheme == "http" and not issuer.startswith("http:")):
        raise KeysUnavailable(f"The issuer {issuer} keeps its keys where anybody on the way could change them")
    answer = get(metadata.jwks_uri)
    if answer.status != _OK:
        raise KeysUnavailable(f"{metadata.jwks_uri} answers with HTTP {answer.status}")
    keys = read_keys(answer.body)
    if not keys:
        raise KeysUnavailable(f"{metadata.jwks_uri} lists no key that verifies signatures")
    return keys


def _fetch_metadata(issuer: str, get: Get) -> _Metadata:
    status = 0
    for url in _metadata_addresses(issuer):
        answer = get(url)
        status = answer.status
        if status == _OK:
            try:
                return msgspec.json.decode(answer.body, type=_Metadata)
            except (ValueError, RecursionError):
                raise KeysUnavailable(f"{url} has no metadata with `issuer` and `jwks_uri`") from None
    raise KeysUnavailable(f"The issuer {issuer} has no metadata: HTTP {status}", "check `identity.issuer`")


def _metadata_addresses(issuer: str) -> Iterator[str]:
    """Where the metadata may be: by OpenID Connect Discovery 4.1, then by RFC 8414, 3.1."""
    base = issuer.removesuffix("/")
    yield f"{base}/.well-known/openid-configuration"
    scheme, _, rest = base.partition("://")
    host, slash, path = rest.partition("/")
    yield f"{scheme}://{host}/.well-known/oauth-authorization-server{slash}{path}"


def read_keys(document: bytes) -> Keys:
    """The keys of a JWK Set that can verify signatures; RFC 7517, 5: what is not understood is left aside."""
    try:
        listed = msgspec.json.decode(document, type=_KeySet).keys
    except (ValueError, RecursionError):
        raise KeysUnavailable("The issuer's keys are no JWK Set") from None
    return tuple(key for one in listed[:MAX_KEYS] if (key := _import_key(one)) is not None)


def _import_key(listed: dict[str, Any]) -> Key | None:
    try:
        if listed["kty"] not in {"RSA", "EC", "OKP"} or listed.get("use", "sig") != "sig":
            return None
        if listed["kty"] == "RSA" and base64_to_int(listed["n"]).bit_length() < _SHORTEST_RSA_BITS:
            return None
        return JWKRegistry.import_key({name: listed[name] for name in _PUBLIC if name in listed})
    except Exception:  # noqa: BLE001 - whatever is wrong with one key, the others may be right
        return None


class IssuerKeys:
    """The keys of one issuer, for any number of threads and loops.

    They are kept in memory, and fetched by one thread of its own: so the issuer is asked once however many wait, and a
    caller who goes away takes nobody else's answer along.
    """

    def __init__(self, issuer: str, get: Get = get_over_http, clock: Callable[[], float] = time.monotonic) -> None:
        check_issuer(issuer)
        self.issuer = issuer
        self._get = get
        self._clock = clock
        self._held: _Held | None = None
        self._failed: _Failed | None = None
        self._fetcher = ThreadPoolExecutor(1, thread_name_prefix="keys")

    async def current(self) -> Keys:
        """The keys.

        Raises:
            KeysUnavailable: They cannot be had.
        """
        return self._younger_than(LIFETIME_SECONDS) or await self._fetched(LIFETIME_SECONDS)

    async def newer(self) -> Keys:
        """The keys for a token that none of the current ones fits: fetched again, unless that was just done.

        Raises:
            KeysUnavailable: They cannot be had.
        """
        return self._younger_than(PAUSE_SECONDS) or await self._fetched(PAUSE_SECONDS)

    async def _fetched(self, age: float) -> Keys:
        return await asyncio.get_running_loop().run_in_executor(self._fetcher, partial(self._fetch, age))

    def _fetch(self, age: float) -> Keys:
        # Whoever was here before may have done it.
        if keys := self._younger_than(age):
            return keys
        failed = self._failed
        if failed is not None and self._clock() - failed.at < PAUSE_SECONDS:
            raise KeysUnavailable(str(failed.problem), failed.problem.hint)
        try:
            keys = keys_of(self.issuer, self._get)
        except KeysUnavailable as problem:
            self._failed = _Failed(problem, self._clock())
            raise
        self._held, self._failed = _Held(keys, self._clock()), None
        return keys

    def _younger_than(self, seconds: float) -> Keys | None:
        held = self._held
        return held.keys if held is not None and self._clock() - held.at < seconds else None
