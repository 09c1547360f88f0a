"""An MCP server over Streamable HTTP that wants to know who calls: `streamable.py [--port N] [MODE VALUE]`.

`token VALUE` takes that one bearer token, `issuer VALUE` takes what that issuer signs for this server, `redirect VALUE`
sends everybody on to that address. It listens on loopback and prints its port.
"""

import argparse
import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from typing import Annotated, Any
from urllib.request import urlopen

import anyio
import jwt
import mcp_types as types
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.lowlevel import Server
from pydantic import AnyHttpUrl, TypeAdapter
from pydantic.networks import UrlConstraints

# An issuer is compared to the letter, and without this it would get a slash at its end.
ADDRESS: TypeAdapter[AnyHttpUrl] = TypeAdapter(Annotated[AnyHttpUrl, UrlConstraints(preserve_empty_path=True)])
ANYTHING: dict[str, Any] = {"type": "object"}
TOOLS = ("echo", "hang", "whoami")


class OneToken:
    """Takes one token."""

    def __init__(self, token: str, resource: str) -> None:
        self._token, self._resource = token, resource

    async def verify_token(self, token: str) -> AccessToken | None:
        """Who brings this token."""
        if token != self._token:
            return None
        return AccessToken(token=token, client_id="tests", scopes=["use"], resource=self._resource)


class SignedByIssuer:
    """Takes what an issuer signed for this server."""

    def __init__(self, issuer: str, resource: str) -> None:
        self._issuer, self._resource = issuer, resource

    async def verify_token(self, token: str) -> AccessToken | None:
        """Who brings this token."""
        try:
            claims = await anyio.to_thread.run_sync(self._claims, token)
        except jwt.PyJWTError:
            return None
        scopes = claims.get("scope", "").split()
        client = claims.get("azp") or claims.get("client_id") or claims["sub"]
        return AccessToken(token=token, client_id=client, scopes=scopes, resource=self._resource, claims=claims)

    def _claims(self, token: str) -> dict[str, Any]:
        with urlopen(f"{self._issuer}/.well-known/openid-configuration") as answer:  # noqa: S310 - loopback
            keys = json.load(answer)["jwks_uri"]
        key = jwt.PyJWKClient(keys).get_signing_key_from_jwt(token)
        claims: dict[str, Any] = jwt.decode(
            token, key.key, algorithms=["RS256"], audience=self._resource, issuer=self._issuer
        )
        return claims


async def list_tools(_context: object, _parameters: object) -> types.ListToolsResult:
    """Every tool."""
    return types.ListToolsResult(tools=[types.Tool(name=name, input_schema=ANYTHING) for name in TOOLS])


async def call_tool(_context: object, parameters: types.CallToolRequestParams) -> types.CallToolResult:
    """Do what the tool is called."""
    if parameters.name == "hang":
        await asyncio.Event().wait()
    caller = get_access_token()
    known: dict[str, Any] = {"client": caller.client_id, "scopes": caller.scopes} if caller else {}
    result = known if parameters.name == "whoami" else parameters.arguments or {}
    return types.CallToolResult(content=[], structured_content=result)


Send = Callable[[dict[str, Any]], Awaitable[None]]


def redirect(to: str) -> Any:
    """An application that sends everybody on."""

    async def application(_scope: object, _receive: object, send: Send) -> None:
        await send({"type": "http.response.start", "status": 307, "headers": [(b"location", to.encode())]})
        await send({"type": "http.response.body", "body": b""})

    return application


def application(mode: str, value: str, url: str) -> Any:
    """What answers the requests."""
    if mode == "redirect":
        return redirect(value)
    server: Server[Any] = Server("http", version="1.0.0", on_list_tools=list_tools, on_call_tool=call_tool)
    if mode == "open":
        return server.streamable_http_app(host="127.0.0.1")
    verifier = OneToken(value, url) if mode == "token" else SignedByIssuer(value, url)
    settings = AuthSettings(
        issuer_url=ADDRESS.validate_python(value if mode == "issuer" else "http://127.0.0.1:9"),
        resource_server_url=AnyHttpUrl(url),
        required_scopes=["use"],
        validate_token_resource=True,
    )
    return server.streamable_http_app(host="127.0.0.1", auth=settings, token_verifier=verifier)


def main() -> None:
    """Serve until somebody ends us."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--folder", help="only there to be seen in the list of processes")
    parser.add_argument("mode", nargs="?", default="open", choices=["open", "token", "issuer", "redirect"])
    parser.add_argument("value", nargs="?", default="")
    options = parser.parse_args()
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", options.port))
        port = listener.getsockname()[1]
        url = f"http://127.0.0.1:{port}/mcp"
        served = uvicorn.Server(uvicorn.Config(application(options.mode, options.value, url), log_level="error"))
        # Who reads the port may connect at once, while the server still loads its protocols.
        listener.listen()
        print(f"PORT {port}", flush=True)  # noqa: T201 - whoever started us reads it
        served.run(sockets=[listener])


if __name__ == "__main__":
    main()
