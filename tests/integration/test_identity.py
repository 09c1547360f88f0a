"""Tokens of a real issuer, `nanoidp`: verified over HTTP, and asked for by a server that the SDK's client calls."""

import asyncio
import base64
import http.client
import json
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from msgspec import Struct

from agent_resolver.connection import TokensInMemory
from agent_resolver.identity import (
    MAX_DOCUMENT_BYTES,
    PAUSE_SECONDS,
    InvalidToken,
    IssuerKeys,
    KeysUnavailable,
    TokenCode,
    Verifier,
    get_over_http,
)
from agent_resolver.project import Session, caller_of
from agent_resolver.reasoner import missing_claims
from agent_resolver.registry import AnswerRefused, CallContext, Inbox, MemorySecrets, PendingActions
from agent_resolver.schema import CONTEXT_CLAIMS, Caller, PendingAction
from agent_resolver.server import (
    AgentServer,
    Authentication,
    Notices,
    caller_of_request,
    open_listener,
    resource_of,
    serve_http,
)
from agent_resolver.storage import MemoryStore, SystemClock
from tests.integration.conftest import BUILD
from tests.integration.test_oauth import answers
from tests.loopback import free_port
from tests.process import eventually
from tests.server.conftest import ERAS, INITIALIZE

SECRET = "canary-secret-81c2"
AUDIENCE = "http://127.0.0.1:1/mcp"
SETTINGS = """\
config_version: 1
server: {{ host: 127.0.0.1, port: {port} }}
oauth:
  issuer: {issuer}
  audience: default-audience
  token_expiry_minutes: {minutes}
  scopes_supported: [openid, use, admin]
  clients:
    - {{ client_id: ours, client_secret: {secret}, description: Tests }}
    - {{ client_id: other, client_secret: {secret}, description: Tests }}
"""
USERS = """\
users:
  u-17: { password: canary-password, roles: [approver] }
  u-18: { password: canary-password, roles: [approver] }
  u-19: { password: canary-password, roles: [auditor] }
"""


class Issuer(Struct, frozen=True):
    """An issuer that listens on loopback."""

    name: str
    """What it calls itself."""
    address: str

    def post(self, path: str, **form: str) -> Any:
        """What it answers to a form."""
        client = form.pop("client", "ours")
        credentials = base64.b64encode(f"{client}:{SECRET}".encode()).decode()
        asked = Request(f"{self.address}{path}", urlencode(form).encode(), {"Authorization": f"Basic {credentials}"})  # noqa: S310
        with urlopen(asked, timeout=10) as answer:  # noqa: S310 - loopback
            return json.load(answer)

    def token(self, **form: str) -> str:
        """An access token for client credentials."""
        usual = {"grant_type": "client_credentials", "scope": "use", "resource": AUDIENCE}
        return str(self.post("/token", **{**usual, **form})["access_token"])

    def of_person(self, **form: str) -> Any:
        """Every token that a user gets."""
        usual = {"grant_type": "password", "username": "u-17", "password": "canary-password", "resource": AUDIENCE}
        return self.post("/token", **{**usual, **form})


@contextmanager
def running(folder: Path, name: str | None = None, minutes: int = 5, users: str = USERS) -> Iterator[Issuer]:
    """An issuer, which may call itself like another; its tokens live for some minutes."""
    command = BUILD / "idp" / "bin" / "nanoidp"
    assert command.exists(), "run `make integration`, which installs it"
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    settings = SETTINGS.format(port=port, issuer=name or address, secret=SECRET, minutes=minutes)
    (folder / "settings.yaml").write_text(settings)
    (folder / "users.yaml").write_text(users)
    line = [str(command), "--config", str(folder), "--port", str(port)]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder) as process:
        try:
            assert eventually(lambda: answers(f"{address}/.well-known/openid-configuration"), 30)
            yield Issuer(name or address, address)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with running(tmp_path_factory.mktemp("issuer")) as found:
        yield found


@pytest.fixture(scope="module")
def impostor(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    """An issuer that calls itself like the real one and has keys of its own."""
    with running(tmp_path_factory.mktemp("impostor"), issuer.name) as found:
        yield found


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def caller(issuer: Issuer, token: str, audience: str = AUDIENCE, later: float = 0) -> Caller:
    verifier = Verifier(issuer.name, audience, IssuerKeys(issuer.name), lambda: time.time() + later)
    return asyncio.run(verifier.caller(token))


def code(issuer: Issuer, token: str, audience: str = AUDIENCE, later: float = 0) -> TokenCode:
    with pytest.raises(InvalidToken) as caught:
        caller(issuer, token, audience, later)
    return caught.value.code


# Tokens ---------------------------------------------------------------------------------------------------------------


def test_a_program_is_known_by_its_credentials(issuer: Issuer) -> None:
    found = caller(issuer, issuer.token())

    assert (found.id, found.is_verified, found.app_id) == ("ours", True, "ours")
    assert (found.scopes, found.roles, found.clearance) == (frozenset({"use"}), frozenset(), "PUBLIC")
    assert found.expires_at is not None
    assert found.expires_at > "2025"


def test_a_person_has_roles_and_a_clearance(issuer: Issuer) -> None:
    found = caller(issuer, issuer.of_person(scope="use", extra='{"clearance_level": "restricted"}')["access_token"])

    assert (found.id, found.app_id, found.roles, found.clearance) == (
        "u-17",
        "ours",
        frozenset({"approver"}),
        "RESTRICTED",
    )


STATED: dict[str, Any] = {"division": "retail", "clearance_level": "INTERNAL", "cost_center": "CC-17"}


def claiming(issuer: Issuer, claims: Mapping[str, Any]) -> Caller:
    """The caller of a token into which the issuer put these claims."""
    return caller(issuer, issuer.of_person(scope="use", extra=json.dumps(claims))["access_token"])


@pytest.mark.parametrize("shape", ["text", "list"])
def test_the_claims_of_a_context_come_as_texts_or_as_lists_with_one_text(issuer: Issuer, shape: str) -> None:
    """Keycloak maps an attribute of a user to either."""
    found = claiming(issuer, {name: [value] if shape == "list" else value for name, value in STATED.items()})

    assert (found.division, found.clearance, found.cost_center) == ("retail", "INTERNAL", "CC-17")
    assert found.absent_claims == missing_claims(found) == ()


@pytest.mark.parametrize("claim", CONTEXT_CLAIMS)
@pytest.mark.parametrize("unusable", [None, "", ["a", "b"], 7])
def test_a_claim_that_a_token_lacks_or_states_unusably_is_absent(issuer: Issuer, claim: str, unusable: object) -> None:
    stated = {**STATED, claim: unusable}
    found = claiming(issuer, {name: value for name, value in stated.items() if value is not None})

    assert found.is_verified
    assert found.absent_claims == missing_claims(found) == (claim,)


def test_a_token_that_states_none_of_the_claims_lacks_all_of_them(issuer: Issuer) -> None:
    assert caller(issuer, issuer.token()).absent_claims == CONTEXT_CLAIMS


def test_only_a_fresh_token_of_the_requester_answers_a_question_about_a_claim(issuer: Issuer) -> None:
    lacking = claiming(issuer, {name: value for name, value in STATED.items() if name != "division"})
    whole = json.dumps(STATED)
    fresh = claiming(issuer, STATED)
    other = caller(issuer, issuer.of_person(username="u-18", scope="use", extra=whole)["access_token"])

    async def story() -> list[tuple[str, ...]]:
        store, clock = MemoryStore(), SystemClock()
        inbox = Inbox(store, MemorySecrets(), clock, only_verified=True)
        asked = PendingAction(
            id="a1",
            type="CLARIFICATION",
            subject="task-1",
            message="The token has no claim `division`",
            asked_at=clock.now(),
            requester=lacking.id,
            issuer=lacking.issuer,
            needs="claim/division",
        )
        await PendingActions(store).ask(asked)
        with pytest.raises(AnswerRefused):
            await inbox.answer("a1", "retail", CallContext.for_caller(lacking))
        return [await inbox.settle_claims(each, CallContext.for_caller(each)) for each in (lacking, other, fresh)]

    assert asyncio.run(story()) == [(), (), ("a1",)]


def test_other_tokens_of_the_same_issuer_are_not_for_access(issuer: Issuer) -> None:
    given = issuer.of_person(scope="openid use")

    # The issuer writes its usual audience into refresh tokens, and the client into ID tokens.
    assert code(issuer, given["refresh_token"], "default-audience") is TokenCode.WRONG_TYPE
    assert code(issuer, given["id_token"], "ours") is TokenCode.ID_TOKEN


def test_a_token_expires(issuer: Issuer) -> None:
    token = issuer.token()

    assert caller(issuer, token, later=290).id == "ours"
    assert code(issuer, token, later=301) is TokenCode.EXPIRED
    assert code(issuer, token, later=-3600) is TokenCode.NOT_YET_VALID


def test_a_token_for_somebody_else_is_refused(issuer: Issuer) -> None:
    token = issuer.token(resource="http://127.0.0.1:2/mcp")

    assert code(issuer, token) is TokenCode.WRONG_AUDIENCE
    assert caller(issuer, token, "http://127.0.0.1:2/mcp").id == "ours"


def test_a_token_that_a_foreign_key_signed_is_refused(issuer: Issuer, impostor: Issuer) -> None:
    assert code(issuer, impostor.token()) is TokenCode.UNKNOWN_KEY


def test_an_issuer_at_another_address_than_it_says_is_not_believed(impostor: Issuer) -> None:
    keys = IssuerKeys(impostor.address)

    with pytest.raises(KeysUnavailable, match="calls itself"):
        asyncio.run(keys.current())


def test_a_key_that_the_issuer_changes_to_is_found(tmp_path: Path) -> None:
    with running(tmp_path) as changing:
        now = [1000.0]
        keys = IssuerKeys(changing.name, clock=lambda: now[0])
        verifier = Verifier(changing.name, AUDIENCE, keys)
        before = changing.token()
        assert asyncio.run(verifier.caller(before)).id == "ours"

        assert changing.post("/api/keys/rotate")["success"]
        after = changing.token()
        with pytest.raises(InvalidToken):
            asyncio.run(verifier.caller(after))
        now[0] += PAUSE_SECONDS

        assert asyncio.run(verifier.caller(after)).id == "ours"
        assert asyncio.run(verifier.caller(before)).id == "ours"


def test_a_project_knows_its_caller_by_variable_and_by_file(issuer: Issuer, tmp_path: Path) -> None:
    settings = f'[identity]\nissuer = "{issuer.name}"\naudience = "{AUDIENCE}"\n'
    (tmp_path / "agent.toml").write_text(settings)
    (tmp_path / "token").write_text(issuer.of_person(scope="use")["access_token"] + "\n")
    project = Session(str(tmp_path / "agents.md"), "mcp.index.json", environment={}, trusts=True)
    variables = {"AGENT_TOKEN": issuer.token()}

    by_variable = asyncio.run(caller_of(project, None, variables))
    by_file = asyncio.run(caller_of(project, str(tmp_path / "token"), variables))

    assert (by_variable.id, by_file.id) == ("ours", "u-17")


# Fetching -------------------------------------------------------------------------------------------------------------


class _Odd(BaseHTTPRequestHandler):
    """Answers in ways that an issuer should not."""

    release = threading.Event()

    def do_GET(self) -> None:
        match self.path:
            case "/redirect":
                self.send_response(302)
                self.send_header("Location", "http://127.0.0.1:9/")
                self.end_headers()
            case "/large":
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"x" * (MAX_DOCUMENT_BYTES + 1))
            case "/encoding":
                self.send_response(200)
                self.end_headers()
                self.wfile.write((self.headers["Accept-Encoding"] or "").encode())
            case _:
                self.release.wait(30)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def odd() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Odd) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            _Odd.release.set()
            server.shutdown()
            thread.join()
            _Odd.release.clear()


def test_redirects_are_not_followed(odd: str) -> None:
    assert get_over_http(f"{odd}/redirect").status == 302


def test_an_answer_is_bounded_in_size_and_not_packed(odd: str) -> None:
    with pytest.raises(KeysUnavailable, match="answers with more than 262,144 bytes"):
        get_over_http(f"{odd}/large")
    assert get_over_http(f"{odd}/encoding").body == b"identity"


def test_an_answer_is_bounded_in_time(odd: str) -> None:
    with pytest.raises(KeysUnavailable, match=r"did not answer within 0\.2 seconds"):
        get_over_http(f"{odd}/hang", 0.2)


def test_this_machine_is_reached_past_any_proxy(odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    assert get_over_http(f"{odd}/encoding").status == 200


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/x", "http://exa mple/", "http://[::1]:9/x"])
def test_nobody_there_is_told(url: str) -> None:
    with pytest.raises(KeysUnavailable, match=r"cannot be reached: .+"):
        get_over_http(url)


def test_without_the_issuer_nobody_is_told_that_their_token_is_bad(tmp_path: Path) -> None:
    flags = ("identity.issuer=http://127.0.0.1:9", "identity.audience=agents")
    project = Session(str(tmp_path / "agents.md"), "mcp.index.json", environment={}, flags=flags)

    with pytest.raises(KeysUnavailable) as caught:
        asyncio.run(caller_of(project, None, {"AGENT_TOKEN": "canary.token.x"}))
    assert "canary" not in f"{caught.value!r}{caught.value.hint}"


# Serving --------------------------------------------------------------------------------------------------------------


async def list_tools(_context: object, _parameters: object) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name="whoami", input_schema={"type": "object"})])


async def call_tool(context: Any, _parameters: object) -> types.CallToolResult:
    found = caller_of_request(context)
    assert found is not None
    told = {"id": found.id, "scopes": sorted(found.scopes or ()), "verified": found.is_verified}
    return types.CallToolResult(content=[], structured_content=told)


@asynccontextmanager
async def served(issuer: Issuer) -> AsyncIterator[str]:
    """The address of a server that takes what the issuer signs for it."""
    with closing(open_listener("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        authentication = Authentication(
            verifier=Verifier(issuer.name, url, IssuerKeys(issuer.name)),
            issuer=issuer.name,
            resource=resource_of(url, "elsewhere", []),
            scopes=("use",),
        )
        server = AgentServer("tests", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
        beside: Callable[[], Any] = anyio.sleep_forever
        serve = partial(serve_http, server, listening, [], Notices(), beside, authentication=authentication)
        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            yield url
            group.cancel_scope.cancel()


def credentials(issuer: Issuer, url: str, scope: str | None = "use") -> httpx2.Auth:
    return ClientCredentialsOAuthProvider(
        server_url=url,
        storage=TokensInMemory(),
        client_id="ours",
        client_secret=SECRET,
        scope=scope,
        issuer=issuer.name,
    )


async def whoami(url: str, mode: str, **options: Any) -> Any:
    async with (
        httpx2.AsyncClient(timeout=30, **options) as http_client,
        Client(streamable_http_client(url, http_client=http_client), mode=mode) as client,
    ):
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert tools == ["whoami"]
        return (await client.call_tool("whoami", {})).structured_content


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_of_the_sdk_finds_the_issuer_and_gets_in(issuer: Issuer, mode: str) -> None:
    async with served(issuer) as url:
        found = await whoami(url, mode, auth=credentials(issuer, url))
        # Without scopes of its own, the client asks for those that the challenge names.
        unasked = await whoami(url, mode, auth=credentials(issuer, url, None))

    assert found == unasked == {"id": "ours", "scopes": ["use"], "verified": True}


class Answer(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    body: Any


def ask(url: str, method: str = "POST", body: object = None, **headers: str) -> Answer:
    """What a server answers to a request without any help of the SDK."""
    host, _, path = url.removeprefix("http://").partition("/")
    usual = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    with closing(http.client.HTTPConnection(host, timeout=10)) as connection:
        connection.request(method, f"/{path}", json.dumps(body) if body else None, {**usual, **headers})
        with connection.getresponse() as response:
            told = {name.lower(): value for name, value in response.getheaders()}
            text = response.read().decode()
    is_stream = told.get("content-type", "").startswith("text/event-stream")
    data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {")]
    return Answer(response.status, told, json.loads(data[-1] if is_stream else text) if text else None)


async def asked(*arguments: Any, **more: Any) -> Answer:
    """The same, without keeping the server in this process from answering."""
    return await asyncio.to_thread(ask, *arguments, **more)


@pytest.mark.anyio
async def test_whoever_brings_no_token_is_told_where_to_get_one(issuer: Issuer) -> None:
    async with served(issuer) as url:
        place = url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
        refused = await asked(url, body=INITIALIZE)
        documents = [await asked(address, "GET") for address in (place, place.removesuffix("/mcp"))]

    assert refused.status == 401
    assert refused.headers["www-authenticate"] == f'Bearer scope="use", resource_metadata="{place}"'
    expected = {
        "resource": url,
        "authorization_servers": [issuer.name],
        "scopes_supported": ["use"],
        "bearer_methods_supported": ["header"],
    }
    assert [(document.status, document.body) for document in documents] == [(200, expected)] * 2


@pytest.mark.anyio
async def test_whoever_brings_another_token_is_told_what_is_wrong_with_it(issuer: Issuer, impostor: Issuer) -> None:
    async with served(issuer) as url:
        for token, expected in (
            (issuer.token(), "WRONG_AUDIENCE"),
            (impostor.token(resource=url), "UNKNOWN_KEY"),
            ("canary", "MALFORMED"),
        ):
            refused = await asked(url, body=INITIALIZE, Authorization=f"Bearer {token}")
            assert (refused.status, refused.body["code"]) == (401, expected)
            assert refused.headers["www-authenticate"].startswith('Bearer error="invalid_token", error_description="')
            assert token not in f"{refused.headers}{refused.body}"


@pytest.mark.anyio
async def test_a_session_belongs_to_whoever_opened_it_and_each_request_has_its_own_scopes(issuer: Issuer) -> None:
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "whoami", "arguments": {}}}
    async with served(issuer) as url:
        opened = await asked(
            url, body=INITIALIZE, Authorization=f"Bearer {issuer.token(resource=url, scope='use admin')}"
        )
        session = {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": opened.headers["mcp-session-id"]}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        less = {**session, "Authorization": f"Bearer {issuer.token(resource=url, scope='use')}"}
        await asked(url, body=ready, **less)
        same = await asked(url, body=call, **less)
        other = await asked(
            url, body=call, **session, Authorization=f"Bearer {issuer.token(resource=url, client='other')}"
        )
        nobody = await asked(url, body=call, **session)

    assert same.body["result"]["structuredContent"] == {"id": "ours", "scopes": ["use"], "verified": True}
    assert (other.status, nobody.status) == (404, 401)


@pytest.mark.anyio
async def test_without_an_issuer_nothing_is_asked_for(issuer: Issuer) -> None:
    server = AgentServer("tests", version="1", on_list_tools=list_tools)
    with closing(open_listener("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        beside: Callable[[], Any] = anyio.sleep_forever
        async with anyio.create_task_group() as group:
            serve = partial(serve_http, on_interrupt=lambda: None)
            group.start_soon(serve, server, listening, [], Notices(), beside)
            opened = await asked(url, body=INITIALIZE)
            missing = await asked(url.replace("/mcp", "/.well-known/oauth-protected-resource"), "HEAD")
            group.cancel_scope.cancel()

    assert (opened.status, missing.status) == (200, 404)
