"""The keys that an issuer signs with, found by its metadata and kept for a while."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import msgspec
from joserfc.jwk import JWKRegistry, Key
from joserfc.util import base64_to_int
from msgspec import Struct

from agent_resolver.identity.errors import KeysUnavailable
from agent_resolver.identity.issuer_http import OK, Get, get_over_http
from agent_resolver.identity.issuer_metadata import (
    Metadata,
    check_issuer,
    is_safe_endpoint,
    metadata_of,
)

Keys = tuple[Key, ...]

LIFETIME_SECONDS: Final = 600.0
"""How long keys are believed before the issuer is asked again: so long a key lives on that it took back."""
PAUSE_SECONDS: Final = 15.0
"""How often the issuer is asked at the most, whatever tokens come."""
MAX_KEYS: Final = 100
_SHORTEST_RSA_BITS: Final = 2048
_PUBLIC: Final = ("kty", "kid", "use", "key_ops", "alg", "n", "e", "crv", "x", "y")


class _KeyMetadata(Metadata):
    jwks_uri: str


class _KeySet(Struct):
    keys: list[dict[str, Any]]


class _Held(Struct, frozen=True):
    keys: Keys
    at: float


class _Failed(Struct, frozen=True):
    problem: KeysUnavailable
    at: float


def keys_of(issuer: str, get: Get) -> Keys:
    """The keys that an issuer lists now.

    Raises:
        KeysUnavailable: It cannot be reached, or does not say clearly which they are.
    """
    metadata = metadata_of(issuer, get, _KeyMetadata)
    if not is_safe_endpoint(metadata.jwks_uri, issuer):
        raise KeysUnavailable(
            f"The issuer {issuer} keeps its keys where they could be changed on the way"
        )
    answer = get(metadata.jwks_uri)
    if answer.status != OK:
        raise KeysUnavailable(f"{metadata.jwks_uri} answers with HTTP {answer.status}")
    keys = read_keys(answer.body)
    if not keys:
        raise KeysUnavailable(
            f"{metadata.jwks_uri} lists no key that verifies signatures"
        )
    return keys


def read_keys(document: bytes) -> Keys:
    """The keys of a JWK Set that can verify signatures; RFC 7517, 5: what is not understood is left aside."""
    try:
        listed = msgspec.json.decode(document, type=_KeySet).keys
    except (ValueError, RecursionError):
        raise KeysUnavailable("The issuer's keys are no JWK Set") from None
    return tuple(
        key for one in listed[:MAX_KEYS] if (key := _import_key(one)) is not None
    )


def _import_key(listed: dict[str, Any]) -> Key | None:
    try:
        # RFC 7517, 4.2: a key that is meant for encryption verifies no signature.
        if (
            listed["kty"] not in {"RSA", "EC", "OKP"}
            or listed.get("use", "sig") != "sig"
        ):
            return None
        if (
            listed["kty"] == "RSA"
            and base64_to_int(listed["n"]).bit_length() < _SHORTEST_RSA_BITS
        ):
            return None
        # Only public members are handed on: the private part of a key never reaches the
        # library.
        return JWKRegistry.import_key(
            {name: listed[name] for name in _PUBLIC if name in listed}
        )
    except Exception:  # noqa: BLE001 - whatever is wrong with one key, the others may be right
        return None


class IssuerKeys:
    """The keys of one issuer, for any number of threads and loops.

    They are kept in memory, and fetched by one thread of its own: so the issuer is asked once however many wait, and a
    caller who goes away takes nobody else's answer along.
    """

    def __init__(
        self,
        issuer: str,
        get: Get = get_over_http,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
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
            KeysUnavailable: They cannot be fetched.
        """
        return self._younger_than(LIFETIME_SECONDS) or await self._fetched(
            LIFETIME_SECONDS
        )

    async def newer(self) -> Keys:
        """The keys for a token that none of the current ones fits: fetched again, unless that was just done.

        Raises:
            KeysUnavailable: They cannot be fetched.
        """
        return self._younger_than(PAUSE_SECONDS) or await self._fetched(PAUSE_SECONDS)

    async def _fetched(self, age: float) -> Keys:
        return await asyncio.get_running_loop().run_in_executor(
            self._fetcher, partial(self._fetch, age)
        )

    def _fetch(self, age: float) -> Keys:
        # Another thread may have fetched them meanwhile.
        if keys := self._younger_than(age):
            return keys
        # A failure is repeated for a while, so that tokens with made-up keys cannot
        # make us flood the issuer.
        failed = self._failed
        if failed is not None and self._clock() - failed.at < PAUSE_SECONDS:
            raise KeysUnavailable(str(failed.problem), failed.problem.hint)
        try:
            keys = keys_of(self.issuer, self._get)
        except KeysUnavailable as problem:
            self._failed = _Failed(problem, self._clock())
            raise
        self._held = _Held(keys, self._clock())
        self._failed = None
        return keys

    def _younger_than(self, seconds: float) -> Keys | None:
        held = self._held
        if held is not None and self._clock() - held.at < seconds:
            return held.keys
        return None
