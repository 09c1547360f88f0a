"""Who may call over HTTP where an issuer vouches for callers, and what the others are told."""

import re
from typing import Any

import httpx2
import pytest
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from agent_resolver.identity import InvalidToken, KeysUnavailable, TokenCode
from agent_resolver.schema import Caller
from agent_resolver.server import CALLER_KEY, Authentication, authenticated, metadata_routes, resource_of

ISSUER = "https://login.example.com"
RESOURCE = "https://agents.example/mcp"
METADATA = "https://agents.example/.well-known/oauth-protected-resource/mcp"
PERSON = Caller(id="u-17", is_verified=True, app_id="console")
DOCUMENT = {"resource": RESOURCE, "authorization_servers": [ISSUER], "bearer_methods_supported": ["header"]}

pytestmark = pytest.mark.anyio


class Known:
    """Knows one token; another one makes the issuer disappear."""

    async def caller(self, token: str) -> Caller:
        if token == "away":
            raise KeysUnavailable("https://login.example.com cannot be reached: canary-problem")
        if token != "u-17":
            raise InvalidToken(TokenCode.EXPIRED, 'The token has "expired" \\ é', "ask again")
        return PERSON


async def whoami(request: Request) -> JSONResponse:
    known = get_access_token()
    assert known is not None
    assert known.token == ""
    found = request.scope[CALLER_KEY]
    principal = [known.client_id, known.subject, known.claims]
    return JSONResponse({"caller": found and found.id, "principal": principal})


async def call(
    path: str = "/mcp", *, scopes: tuple[str, ...] = (), headers: Any = None, **more: Any
) -> httpx2.Response:
    authentication = Authentication(
        verifier=Known(), issuer=ISSUER, resource=more.pop("resource", RESOURCE), scopes=scopes
    )
    routes = [Route("/mcp", whoami, methods=["GET", "POST"]), *metadata_routes(authentication)]
    security = TransportSecuritySettings(allowed_hosts=["agents.example"], allowed_origins=["https://agents.example"])
    guarded = authenticated(Starlette(routes=routes), authentication, security)
    transport = httpx2.ASGITransport(app=guarded)
    async with httpx2.AsyncClient(transport=transport, base_url="https://agents.example") as client:
        return await client.request(more.pop("method", "GET"), path, headers=headers, **more)


def challenge(answer: httpx2.Response) -> dict[str, str]:
    """The parameters of the challenge, each between quotes."""
    scheme, _, said = answer.headers["www-authenticate"].partition(" ")
    assert scheme == "Bearer"
    found = dict(re.findall(r'(\w+)="([^"\\]*)"', said))
    assert ", ".join(f'{name}="{value}"' for name, value in found.items()) == said
    return found


@pytest.mark.parametrize("credentials", ["Bearer u-17", "bearer u-17", "BEARER  u-17 "])
async def test_a_valid_token_is_let_through_and_its_caller_is_known(credentials: str) -> None:
    answer = await call(headers={"Authorization": credentials})

    assert answer.json() == {"caller": "u-17", "principal": ["console", "u-17", {"iss": ISSUER}]}


@pytest.mark.parametrize("credentials", [None, "Basic YTpi", "Bearer", "", "Beareru-17", "DPoP u-17"])
async def test_without_a_token_one_is_asked_for_and_nothing_is_called_an_error(credentials: str | None) -> None:
    answer = await call(headers={} if credentials is None else {"Authorization": credentials})

    assert answer.status_code == 401
    assert challenge(answer) == {"resource_metadata": METADATA}
    assert answer.json() == {"remedy": f"send a bearer token of {ISSUER}"}


async def test_the_scopes_that_are_worth_asking_for_are_named() -> None:
    answer = await call(scopes=("tickets:read", "tickets:write"))

    assert challenge(answer) == {"scope": "tickets:read tickets:write", "resource_metadata": METADATA}


async def test_a_token_that_is_refused_is_told_why() -> None:
    answer = await call(headers={"Authorization": "Bearer canary-token"}, scopes=("use",))

    assert answer.status_code == 401
    assert challenge(answer) == {
        "error": "invalid_token",
        "error_description": "The token has 'expired' ? ?",
        "scope": "use",
        "resource_metadata": METADATA,
    }
    assert answer.json()["code"] == "EXPIRED"
    assert answer.json()["remedy"] == "ask again"
    assert "canary" not in answer.text + str(answer.headers)


async def test_two_tokens_are_none() -> None:
    answer = await call(headers=[("Authorization", "Bearer u-17"), ("Authorization", "Bearer u-18")])

    assert answer.status_code == 400
    assert challenge(answer)["error"] == "invalid_request"


async def test_a_token_in_the_address_is_not_looked_at() -> None:
    assert (await call("/mcp?access_token=u-17")).status_code == 401


async def test_an_issuer_that_cannot_be_reached_is_nobodys_fault() -> None:
    answer = await call(headers={"Authorization": "Bearer away"})

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "15")
    assert answer.json()["error"] == "temporarily_unavailable"
    assert "www-authenticate" not in answer.headers
    assert "canary" not in answer.text


@pytest.mark.parametrize("path", ["/mcp/", "/other", "/.well-known/other", "/.well-known/oauth-protected-resource/x"])
async def test_every_other_path_needs_a_token_too(path: str) -> None:
    assert (await call(path)).status_code == 401


@pytest.mark.parametrize("path", ["", "/mcp"])
async def test_everybody_may_read_who_gives_out_tokens(path: str) -> None:
    answer = await call(f"/.well-known/oauth-protected-resource{path}")

    assert answer.json() == DOCUMENT


async def test_the_metadata_names_the_scopes_and_is_where_the_challenge_says() -> None:
    resource = "https://agents.example/team/mcp"
    place = challenge(await call(resource=resource))["resource_metadata"]

    assert place == "https://agents.example/.well-known/oauth-protected-resource/team/mcp"
    answer = await call(place, resource=resource, scopes=("use",))
    assert answer.json() == {**DOCUMENT, "resource": resource, "scopes_supported": ["use"]}


async def test_a_foreign_host_or_origin_is_refused_before_anybody_is_asked_who_they_are() -> None:
    valid = {"Authorization": "Bearer u-17"}

    assert (await call(headers={"Host": "evil.example"})).status_code == 421
    assert (await call(headers={"Host": "evil.example", **valid})).status_code == 421
    assert (await call(headers={"Origin": "https://evil.example", **valid})).status_code == 403


@pytest.mark.parametrize(
    ("audience", "expected"),
    [
        ("https://agents.example/mcp", "https://agents.example/mcp"),
        ("http://127.0.0.1:8765/mcp", "http://127.0.0.1:8765/mcp"),
        ("http://localhost/mcp", "http://localhost/mcp"),
        ("https://other.example/mcp", "served"),
        ("http://agents.example/mcp", "served"),
        ("agent-resolver", "served"),
    ],
)
def test_an_audience_that_is_an_address_of_the_server_is_what_clients_know_it_by(audience: str, expected: str) -> None:
    assert resource_of(audience, "served", ["agents.example"]) == expected
