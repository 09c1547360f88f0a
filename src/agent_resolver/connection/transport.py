"""Reaches a locked server: starts it by its launch record, or calls it at its endpoint."""

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TextIO
from urllib.parse import SplitResult, urlsplit

import httpx2
from mcp.client.auth import TokenStorage
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from msgspec import Struct

from agent_resolver.connection.http_client import MAX_ANSWER_BYTES, HttpClient
from agent_resolver.connection.launch import Command, launched
from agent_resolver.connection.mcp_connection import OpenTransport
from agent_resolver.core.loopback import is_loopback
from agent_resolver.registry.errors import NeedsAction, ToolFailure
from agent_resolver.schema.index import Launch
from agent_resolver.schema.lockfile import LockedServer
from agent_resolver.schema.outcome import FailureCode


class Credentials(Struct, frozen=True, kw_only=True):
    """The credentials for one server: names of environment variables, never values."""

    token_env: str | None = None
    client_id: str | None = None
    client_secret_env: str | None = None
    issuer: str | None = None


class Surroundings(Struct, frozen=True, kw_only=True):
    """The folder, variables and time limits with which a server is started or called."""

    folder: str
    """Where launch records run."""
    environment: Mapping[str, str]
    errors: TextIO
    """Where the stderr of a launched server goes."""
    connect_seconds: float = 20.0
    call_seconds: float = 60.0


def transport_of(
    entry: LockedServer,
    scopes: frozenset[str],
    credentials: Credentials,
    around: Surroundings,
) -> OpenTransport:
    """The function that opens the transport to a locked server.

    Raises:
        NeedsAction: A secret is missing.
        ToolFailure: The endpoint cannot be called, or not safely.
    """
    if entry.launch and entry.launch.transport != "stdio":
        message = f"{entry.server_id} is to be started and then called over HTTP, which is not done yet"
        raise ToolFailure(
            FailureCode.SERVER_UNAVAILABLE,
            message,
            "start it yourself, and lock its `endpoint`",
        )
    if entry.launch:
        return _stdio_transport(entry, entry.launch, around)
    if entry.transport == "sse":
        message = (
            f"{entry.server_id} speaks the older protocol SSE, which is not spoken here"
        )
        raise ToolFailure(
            FailureCode.SERVER_UNAVAILABLE,
            message,
            "look for its address for Streamable HTTP",
        )
    _check_endpoint(entry, credentials)
    headers, auth = _authentication_for(entry, scopes, credentials, around)
    # No request waits for longer than this, whatever it asks.
    seconds = max(around.connect_seconds, around.call_seconds)
    return lambda: _http_transport(
        entry.endpoint,
        HttpClient(entry.endpoint, headers, auth, answer_seconds=seconds),
    )


def _stdio_transport(
    entry: LockedServer, launch: Launch, around: Surroundings
) -> OpenTransport:
    # Besides the few variables that every command needs, the server gets those that its
    # launch record names.
    environment = {
        name: _secret_from_environment(name, entry, around) for name in launch.env
    }
    if sys.platform == "win32":
        # Windows has no process groups of this kind, so there the transport of the SDK
        # starts and ends the server.
        parameters = StdioServerParameters(
            command=launch.command,
            args=list(launch.args),
            env=environment,
            cwd=around.folder,
        )
        return lambda: stdio_client(parameters, errlog=around.errors)
    command = Command(
        line=(launch.command, *launch.args),
        environment=environment,
        folder=around.folder,
        errors=around.errors,
    )
    return lambda: launched(command)


@asynccontextmanager
async def _http_transport(url: str, client: HttpClient) -> AsyncIterator[Any]:
    async with (
        client,
        streamable_http_client(
            url, http_client=client, max_sse_event_size=MAX_ANSWER_BYTES
        ) as streams,
    ):
        yield streams


def _secret_from_environment(
    name: str, entry: LockedServer, around: Surroundings
) -> str:
    value = around.environment.get(name)
    if not value:
        message = f"Set the environment variable {name} for {entry.server_id}"
        raise NeedsAction("SECRET", entry.server_id, message, needs=name)
    return value


def _check_endpoint(entry: LockedServer, credentials: Credentials) -> None:
    parts = _endpoint_address(entry.endpoint)
    if parts is None:
        message = f"{entry.server_id} is locked at '{entry.endpoint}', which is no HTTP address"
        raise ToolFailure(
            FailureCode.SERVER_UNAVAILABLE,
            message,
            "correct it in the index, and resolve again",
        )
    # A credential in plain HTTP could be read on the way; only an address on this
    # machine is exempt.
    if (credentials.token_env or credentials.client_secret_env) and not _is_private(
        parts
    ):
        message = f"{entry.server_id} is locked at '{entry.endpoint}', and credentials never travel in the clear"
        raise ToolFailure(FailureCode.UNAUTHORIZED, message, "use an `https` endpoint")


def _check_issuer(issuer: str | None, entry: LockedServer) -> None:
    # Without an issuer, the server that is called would say where the client secret is
    # sent.
    parts = _endpoint_address(issuer or "")
    if parts is None or not _is_private(parts):
        message = f"The issuer of the credentials for {entry.server_id} is not an `https` address: {issuer or '(none)'}"
        remedy = f'set `oauth.issuer` of `[servers."{entry.server_id}"]` in agent.toml'
        raise ToolFailure(FailureCode.UNAUTHORIZED, message, remedy)


def _endpoint_address(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme in {"http", "https"} and parts.hostname:
        return parts
    return None


def _is_private(parts: SplitResult) -> bool:
    """True if messages to this address cannot be read on the way."""
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def _authentication_for(
    entry: LockedServer,
    scopes: frozenset[str],
    credentials: Credentials,
    around: Surroundings,
) -> tuple[dict[str, str], httpx2.Auth | None]:
    if credentials.token_env:
        return {
            "Authorization": f"Bearer {_secret_from_environment(credentials.token_env, entry, around)}"
        }, None
    if credentials.client_id and credentials.client_secret_env:
        _check_issuer(credentials.issuer, entry)
        provider = ClientCredentialsOAuthProvider(
            server_url=entry.endpoint,
            storage=TokensInMemory(),
            client_id=credentials.client_id,
            client_secret=_secret_from_environment(
                credentials.client_secret_env, entry, around
            ),
            # Least privilege: what the lock grants, and nothing else the server may
            # offer.
            scope=" ".join(sorted(scopes)),
            issuer=credentials.issuer,
        )
        return {}, provider
    return {}, None


class TokensInMemory(TokenStorage):
    """Keeps tokens for as long as the process lives."""

    def __init__(self) -> None:
        self._tokens: OAuthToken | None = None
        self._client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info
