"""The identity of a worker: tokens of its own, by the client credentials grant of OAuth 2.0 (RFC 6749, 4.4)."""

import asyncio
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Annotated, Final
from urllib.parse import quote_plus

import anyio
import msgspec
from msgspec import Meta, Struct

from agent_resolver.identity.errors import (
    InvalidToken,
    KeysUnavailable,
    WorkerUnavailable,
)
from agent_resolver.identity.issuer_http import (
    OK,
    Answer,
    Get,
    Post,
    get_over_http,
    post_over_http,
)
from agent_resolver.identity.issuer_metadata import (
    Metadata,
    check_issuer,
    is_safe_endpoint,
    metadata_of,
)
from agent_resolver.identity.keys import PAUSE_SECONDS
from agent_resolver.identity.verifier import Verifier
from agent_resolver.schema.caller import Caller

RENEW_SECONDS: Final = 30.0
"""Seconds before its end at which a token is renewed, or half of its life if that is shorter."""
_BASIC: Final = "client_secret_basic"
_POST: Final = "client_secret_post"
_REFUSAL_CODES: Final = frozenset(
    "invalid_request invalid_client invalid_grant unauthorized_client unsupported_grant_type "  # noqa: SIM905 - a list
    "invalid_scope invalid_target".split()
)
"""RFC 6749, 5.2, and RFC 8707, 2: no other words of an answer are shown, since they may repeat the secret."""


class _TokenMetadata(Metadata):
    token_endpoint: Annotated[str, Meta(max_length=2048)]
    # RFC 8414, 2: what an issuer supports that does not say so.
    token_endpoint_auth_methods_supported: tuple[str, ...] = (_BASIC,)


class _Granted(Struct):
    access_token: str
    token_type: str


class _Refused(Struct):
    error: str


class _HeldCaller(Struct, frozen=True):
    caller: Caller
    renew_at: float
    ends_at: float


class _FailedFetch(Struct, frozen=True):
    problem: WorkerUnavailable
    at: float


class ClientCredentials:
    """The worker as a client of the issuer that vouches for callers; for any number of threads and loops.

    What its token says is kept in memory, and the token itself is not kept. One thread of its own fetches it, so that
    the issuer is asked once however many runs wait, and a run that is cancelled takes no other's answer along.
    """

    def __init__(  # noqa: PLR0913 - each is one part of a client
        self,
        verifier: Verifier,
        client_id: str,
        client_secret: str,
        *,
        scopes: Sequence[str] = (),
        get: Get = get_over_http,
        post: Post = post_over_http,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """A client that is known to the issuer by this secret.

        Raises:
            UnusableIdentity: What is sent to the issuer could be read on the way.
        """
        check_issuer(verifier.issuer)
        self._verifier = verifier
        self._client_id = client_id
        self._client_secret = client_secret
        self._scopes = tuple(scopes)
        self._get = get
        self._post = post
        self._clock = clock
        self._held: _HeldCaller | None = None
        self._failed: _FailedFetch | None = None
        self._fetcher = ThreadPoolExecutor(1, thread_name_prefix="worker-token")

    async def caller(self) -> Caller:
        """The worker, as its token says, which is verified like every other.

        Raises:
            WorkerUnavailable: It has no token that is valid.
        """
        if caller := self._fresh():
            return caller
        return await asyncio.get_running_loop().run_in_executor(
            self._fetcher, self._renew
        )

    def _fresh(self) -> Caller | None:
        held = self._held
        if held is not None and self._clock() < held.renew_at:
            return held.caller
        return None

    def _renew(self) -> Caller:
        # The one before in the queue may have done it.
        if caller := self._fresh():
            return caller
        try:
            return self._keep(self._fetch())
        except WorkerUnavailable:
            held = self._held
            # It was to be renewed ahead of time, and still holds.
            if held is not None and self._clock() < held.ends_at:
                return held.caller
            raise

    def _keep(self, caller: Caller) -> Caller:
        now = self._clock()
        # Every verified token says when it ends.
        ends_at = datetime.fromisoformat(caller.expires_at or "").timestamp()
        renew_at = ends_at - min(RENEW_SECONDS, (ends_at - now) / 2)
        self._held = _HeldCaller(caller, renew_at, ends_at)
        return caller

    def _fetch(self) -> Caller:
        """The worker of a new token; an issuer that just failed is left in peace for a while."""
        failed = self._failed
        if failed is not None and self._clock() - failed.at < PAUSE_SECONDS:
            raise WorkerUnavailable(str(failed.problem), failed.problem.hint)
        try:
            caller = self._fetch_caller()
        except WorkerUnavailable as problem:
            self._failed = _FailedFetch(problem, self._clock())
            raise
        self._failed = None
        return caller

    def _fetch_caller(self) -> Caller:
        try:
            # The keys of the issuer serve every loop, so that this thread may have one
            # of its own.
            return anyio.run(self._verifier.caller, self._fetch_token())
        except KeysUnavailable as error:
            raise self._unavailable(str(error), error.hint) from error
        except InvalidToken as error:
            raise self._unavailable(
                f"the one that the issuer gave is refused: {error}", error.hint
            ) from error

    def _fetch_token(self) -> str:
        issuer = self._verifier.issuer
        metadata = metadata_of(issuer, self._get, _TokenMetadata)
        if not is_safe_endpoint(metadata.token_endpoint, issuer):
            problem = f"the issuer {issuer} takes secrets over a connection that others could read"
            raise self._unavailable(
                problem,
                "let the issuer name an `https` address as its `token_endpoint`",
            )
        form, headers = self._request(metadata.token_endpoint_auth_methods_supported)
        return self._read_answer(
            self._post(metadata.token_endpoint, form, headers), metadata.token_endpoint
        )

    def _request(
        self, methods: tuple[str, ...]
    ) -> tuple[dict[str, str], dict[str, str]]:
        """The form and the headers that ask for a token."""
        form = {"grant_type": "client_credentials"}
        if self._scopes:
            form["scope"] = " ".join(self._scopes)
        if self._verifier.audience.startswith(("https://", "http://")):
            # RFC 8707: what the token is for. Issuers that do not know the parameter
            # ignore it.
            form["resource"] = self._verifier.audience
        # RFC 6749, 2.3.1, advises against secrets in the form, so they go there only if
        # the issuer takes no header.
        if _BASIC not in methods and _POST in methods:
            return {
                **form,
                "client_id": self._client_id,
                "client_secret": self._client_secret,
            }, {}
        # RFC 6749, 2.3.1: both are encoded like fields of a form first.
        pair = f"{quote_plus(self._client_id)}:{quote_plus(self._client_secret)}"
        encoded = b64encode(pair.encode()).decode()
        return form, {"Authorization": f"Basic {encoded}"}

    def _read_answer(self, answer: Answer, endpoint: str) -> str:
        if answer.status != OK:
            problem = (
                f"{endpoint} answers with HTTP {answer.status}{_reason_in(answer.body)}"
            )
            raise self._unavailable(
                problem, "check `client_id`, its secret and `scopes` of `[identity]`"
            )
        try:
            granted = msgspec.json.decode(answer.body, type=_Granted)
        except (ValueError, RecursionError):
            problem = f"{endpoint} answers with no `access_token` and `token_type`"
            raise self._unavailable(problem, "check the issuer") from None
        # RFC 6749, 5.1: the type of a token is compared without regard to case.
        if granted.token_type.lower() != "bearer":
            raise self._unavailable(
                f"{endpoint} gives a token that is not a bearer token",
                "ask the issuer for one",
            )
        return granted.access_token

    def _unavailable(self, problem: str, hint: str) -> WorkerUnavailable:
        return WorkerUnavailable(
            f"The worker {self._client_id} has no token: {problem}", hint
        )


def _reason_in(body: bytes) -> str:
    """The code of a refusal, if it is one of those that the standards have."""
    try:
        code = msgspec.json.decode(body, type=_Refused).error
    except (ValueError, RecursionError):
        return ""
    return f" ({code})" if code in _REFUSAL_CODES else ""
