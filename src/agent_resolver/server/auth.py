"""Finds the caller of each HTTP request by its bearer token, as RFC 6750 and MCP's authorization have it."""

import logging
import re
from collections.abc import Sequence
from typing import Annotated, Final, Protocol

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.routes import (
    build_resource_metadata_url,
    create_protected_resource_routes,
)
from mcp.server.transport_security import (
    TransportSecurityMiddleware,
    TransportSecuritySettings,
)
from msgspec import Struct
from pydantic import AnyHttpUrl, TypeAdapter
from pydantic.networks import UrlConstraints
from starlette.authentication import AuthCredentials
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agent_resolver.core.loopback import is_loopback
from agent_resolver.identity.errors import InvalidToken, KeysUnavailable
from agent_resolver.identity.issuer_address import address
from agent_resolver.schema.caller import Caller
from agent_resolver.server.tool import CALLER_KEY

_log = logging.getLogger(__name__)

# An issuer is compared to the letter, and without this it would get a slash at its end.
_ADDRESS: Final[TypeAdapter[AnyHttpUrl]] = TypeAdapter(
    Annotated[AnyHttpUrl, UrlConstraints(preserve_empty_path=True)]
)
_WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
_RETRY_SECONDS: Final = 15


class Verifies(Protocol):
    """Tells from a token who is asking."""

    async def caller(self, token: str) -> Caller:
        """The caller that a token vouches for.

        Raises:
            InvalidToken: It vouches for no caller.
            KeysUnavailable: The keys of the issuer cannot be fetched now.
        """
        ...


class Authentication(Struct, frozen=True, kw_only=True):
    """The proof of identity that a server asks of its callers."""

    verifier: Verifies
    issuer: str
    resource: str
    """The address by which clients know the server, and ask the issuer for tokens."""
    scopes: tuple[str, ...] = ()
    """The scopes that are worth asking for; every call is held against those of its tool, whatever these are."""


def resource_of(audience: str, served: str, names: Sequence[str]) -> str:
    """The address that clients know a server by: its audience where that is one of it, else where it is served.

    `names` are the hosts that clients may call it by, besides this machine.
    """
    parts = address(audience)
    is_ours = parts is not None and (
        is_loopback(parts.hostname or "") or parts.hostname in names
    )
    return audience if is_ours else served


def metadata_routes(authentication: Authentication) -> list[Route]:
    """The routes that name the issuer of tokens for this server, by RFC 9728: below its path, and at the root."""
    resource = _ADDRESS.validate_python(authentication.resource)
    [route] = create_protected_resource_routes(
        resource,
        [_ADDRESS.validate_python(authentication.issuer)],
        list(authentication.scopes) or None,
    )
    others = {_WELL_KNOWN, f"{_WELL_KNOWN}/mcp"} - {route.path}
    return [
        route,
        *(
            Route(path, endpoint=route.endpoint, methods=["GET", "OPTIONS"])
            for path in sorted(others)
        ),
    ]


def authenticated(
    app: ASGIApp, authentication: Authentication, security: TransportSecuritySettings
) -> ASGIApp:
    """The application, for callers with a valid token alone; what `metadata_routes` serves is for everybody."""
    return _Guarded(app, authentication, security)


class _User(AuthenticatedUser):
    """The caller as the SDK knows users, without the token: nobody behind this needs it."""

    def __init__(self, caller: Caller, issuer: str) -> None:
        claims = {"iss": issuer}
        super().__init__(
            AccessToken(
                token="",
                client_id=caller.app_id,
                scopes=[],
                subject=caller.id,
                claims=claims,
            )
        )


class _Guarded:
    """Asks for a token before anything else is looked at.

    The SDK's own guard calls a request without a token an invalid one, names no scopes, and cannot tell a bad token
    from an issuer that does not answer. What the SDK does for a user whom it knows stays with it: a session belongs to
    whoever opened it.
    """

    def __init__(
        self,
        app: ASGIApp,
        authentication: Authentication,
        security: TransportSecuritySettings,
    ) -> None:
        self._app = AuthContextMiddleware(app)
        self._authentication = authentication
        self._security = TransportSecurityMiddleware(security)
        self._open = {route.path for route in metadata_routes(authentication)}
        self._metadata = str(
            build_resource_metadata_url(
                _ADDRESS.validate_python(authentication.resource)
            )
        )

    async def __call__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        # The life of the application is announced in a message without a request.
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        # Before the token: a page that rebinds its host's name must learn nothing, not
        # even the issuer.
        answer = await self._security.validate_request(request)
        if answer is None and scope["path"] in self._open:
            await self._app(scope, receive, send)
            return
        caller = answer or await self._caller_or_refusal(request)
        if isinstance(caller, Caller):
            user = _User(caller, self._authentication.issuer)
            await self._app(
                {**scope, "user": user, "auth": AuthCredentials(), CALLER_KEY: caller},
                receive,
                send,
            )
        else:
            await caller(scope, receive, send)

    async def _caller_or_refusal(self, request: Request) -> Caller | Response:
        """The caller of a request, or the answer that refuses it."""
        match request.headers.getlist("authorization"):
            case [credentials] if credentials.lower().startswith("bearer "):
                return await self._verified(credentials[len("bearer ") :].strip())
            case [_, _, *_]:
                # RFC 6750, 3.1: a request that is malformed is answered with 400 and
                # `invalid_request`.
                return self._refusal(
                    400,
                    "invalid_request",
                    "There is more than one Authorization header",
                )
            case _:
                # RFC 6750, 3.1: where no token came there is no error to tell of.
                return self._refusal(
                    401,
                    "",
                    "",
                    remedy=f"send a bearer token of {self._authentication.issuer}",
                )

    async def _verified(self, token: str) -> Caller | Response:
        try:
            return await self._authentication.verifier.caller(token)
        except InvalidToken as refused:
            _log.info("A token was refused: %s", refused.code)
            # RFC 6750, 3.1: a token that is expired, revoked or malformed is
            # `invalid_token`, with 401.
            return self._refusal(
                401,
                "invalid_token",
                str(refused),
                code=refused.code,
                remedy=refused.remedy,
            )
        except KeysUnavailable as problem:
            _log.warning("No token can be verified: %s", problem)
            told = {
                "error": "temporarily_unavailable",
                "error_description": "The issuer's keys cannot be fetched now",
            }
            # Not 401: the client would throw away a token that may be good.
            return JSONResponse(told, 503, {"Retry-After": str(_RETRY_SECONDS)})

    def _refusal(
        self,
        status: int,
        error: str,
        description: str,
        **details: str,
    ) -> Response:
        told = {"error": error, "error_description": description}
        challenge = {
            **told,
            "scope": " ".join(self._authentication.scopes),
            "resource_metadata": self._metadata,
        }
        said = ", ".join(
            f'{name}="{_quotable_text(value)}"'
            for name, value in challenge.items()
            if value
        )
        body = {name: value for name, value in {**told, **details}.items() if value}
        return JSONResponse(body, status, {"WWW-Authenticate": f"Bearer {said}"})


def _quotable_text(text: str) -> str:
    """A text as RFC 6750, 3 lets it stand between quotes."""
    return re.sub(r"[^ !#-\[\]-~]", "?", text.replace('"', "'"))
