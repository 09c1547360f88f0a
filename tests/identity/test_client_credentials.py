"""The token of a worker: how it is asked for, which one is believed, and when it is renewed."""

import asyncio
import base64
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from agent_resolver.identity import (
    MAX_DOCUMENT_BYTES,
    PAUSE_SECONDS,
    RENEW_SECONDS,
    Answer,
    ClientCredentials,
    IssuerKeys,
    KeysUnavailable,
    UnusableIdentity,
    Verifier,
    WorkerUnavailable,
    post_over_http,
)
from agent_resolver.schema import Caller
from tests.identity.issued import AUDIENCE, ISSUER, NOW, claims, key, key_set, token
from tests.loopback import loopback_server

CONFIGURATION = f"{ISSUER}/.well-known/openid-configuration"
ENDPOINT = f"{ISSUER}/token"
SECRET = "canary secret/51%:é"
LIFE = 300


class Issuer:
    """Gives a worker tokens that live for five minutes by a clock that is set by hand."""

    def __init__(self, **metadata: Any) -> None:
        self.now = float(NOW)
        self.claims: dict[str, Any] = {"sub": "worker", "scope": "read write", "clearance_level": "internal"}
        self.header: dict[str, Any] = {}
        self.answer: Callable[[], Answer] = self.granted
        self.posted: list[tuple[str, Mapping[str, str], Mapping[str, str]]] = []
        self.documents = {
            CONFIGURATION: {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/certs", "token_endpoint": ENDPOINT, **metadata},
            f"{ISSUER}/certs": json.loads(key_set(key())),
        }

    def clock(self) -> float:
        return self.now

    def granted(self) -> Answer:
        times = {"iat": self.now, "exp": self.now + LIFE}
        access_token = token(claims(**{**times, **self.claims}), **self.header)
        return Answer(200, json.dumps({"access_token": access_token, "token_type": "Bearer"}).encode())

    def get(self, url: str) -> Answer:
        found = self.documents.get(url)
        return Answer(404, b"") if found is None else Answer(200, json.dumps(found).encode())

    def post(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> Answer:
        self.posted.append((url, form, headers))
        return self.answer()

    def worker(self, secret: str = SECRET, audience: str = AUDIENCE, **more: Any) -> ClientCredentials:
        verifier = Verifier(ISSUER, audience, IssuerKeys(ISSUER, self.get), self.clock)
        return ClientCredentials(
            verifier, "agents", secret, **{"get": self.get, "post": self.post, "clock": self.clock, **more}
        )


def found(worker: ClientCredentials) -> Caller:
    return asyncio.run(worker.caller())


def problem(worker: ClientCredentials) -> str:
    """Why there is no token; that never has the secret or a token in it."""
    with pytest.raises(WorkerUnavailable) as caught:
        found(worker)
    assert caught.value.hint
    words = f"{caught.value!r} {caught.value.hint} {caught.value.__cause__!r}"
    assert "canary" not in words
    assert "eyJ" not in words
    return str(caught.value)


# How it is asked for --------------------------------------------------------------------------------------------------


def test_a_worker_is_whom_its_verified_token_names() -> None:
    caller = found(Issuer().worker())

    assert (caller.id, caller.issuer, caller.is_verified) == ("worker", ISSUER, True)
    assert (caller.scopes, caller.clearance) == (frozenset({"read", "write"}), "INTERNAL")


def test_the_token_is_asked_for_at_the_endpoint_with_the_secret_in_the_header() -> None:
    issuer = Issuer()

    found(issuer.worker(scopes=("read", "write")))

    ((url, form, headers),) = issuer.posted
    assert url == ENDPOINT
    assert form == {"grant_type": "client_credentials", "scope": "read write", "resource": AUDIENCE}
    scheme, _, encoded = headers["Authorization"].partition(" ")
    # RFC 6749, 2.3.1: encoded like fields of a form, so that a colon or a blank stays part of the secret.
    assert (scheme, base64.b64decode(encoded)) == ("Basic", b"agents:canary+secret%2F51%25%3A%C3%A9")


def test_an_issuer_that_takes_secrets_in_the_form_alone_gets_it_there() -> None:
    issuer = Issuer(token_endpoint_auth_methods_supported=["client_secret_post", "private_key_jwt"])

    found(issuer.worker())

    ((_, form, headers),) = issuer.posted
    assert (form["client_id"], form["client_secret"], headers) == ("agents", SECRET, {})


def test_no_scopes_and_no_resource_are_asked_for_where_there_are_none() -> None:
    issuer = Issuer()
    issuer.claims["aud"] = "agents-api"

    found(issuer.worker(audience="agents-api"))

    assert issuer.posted[0][1] == {"grant_type": "client_credentials"}


@pytest.mark.parametrize(
    "endpoint", ["http://login.example.com/token", "http://127.0.0.1:9/token", "https://u:p@a.example/", "token"]
)
def test_a_secret_is_not_sent_where_others_could_read_it(endpoint: str) -> None:
    issuer = Issuer(token_endpoint=endpoint)

    assert "takes secrets over a connection that others could read" in problem(issuer.worker())
    assert issuer.posted == []


def test_a_secret_is_not_sent_to_an_issuer_that_calls_itself_otherwise() -> None:
    issuer = Issuer(issuer="https://other.example.com")

    assert "calls itself https://other.example.com" in problem(issuer.worker())
    assert issuer.posted == []


def test_an_issuer_that_others_could_read_along_with_is_refused() -> None:
    with pytest.raises(UnusableIdentity):
        ClientCredentials(Verifier("http://login.example.com", AUDIENCE, IssuerKeys(ISSUER)), "agents", SECRET)


@pytest.mark.parametrize("endpoint", [None, 7, "https://a.example/" + "x" * 3000])
def test_metadata_without_a_usable_endpoint_is_told(endpoint: Any) -> None:
    assert "has no metadata with `issuer` and `token_endpoint`" in problem(Issuer(token_endpoint=endpoint).worker())


# Which one is believed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"iss": "https://other.example.com"}, "from another issuer"),
        ({"aud": "https://other.example.com/mcp"}, "not meant for"),
        ({"exp": NOW - 1}, "expired"),
        ({"sub": "local:root"}, "name kept for callers without a token"),
        ({"cnf": {"jkt": "x"}}, "bound to a key"),
        ({"at_hash": "x"}, "ID token"),
    ],
)
def test_a_token_that_no_caller_could_use_is_not_the_workers_either(changes: dict[str, Any], words: str) -> None:
    issuer = Issuer()
    issuer.claims |= changes

    told = problem(issuer.worker())

    assert told.startswith("The worker agents has no token: the one that the issuer gave is refused: ")
    assert words in told


def test_a_token_that_another_key_signed_is_refused() -> None:
    issuer = Issuer()
    issuer.header["signer"] = key("ES256", "other")

    assert "a key that the issuer does not list" in problem(issuer.worker())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            Answer(401, b'{"error": "invalid_client", "error_description": "canary secret"}'),
            "HTTP 401 (invalid_client)",
        ),
        (Answer(400, b'{"error": "canary secret"}'), "answers with HTTP 400"),
        (Answer(302, b"canary"), "answers with HTTP 302"),
        (Answer(500, b"[" * 5000), "answers with HTTP 500"),
        (Answer(200, b"canary"), "no `access_token` and `token_type`"),
        (Answer(200, b'{"access_token": "canary"}'), "no `access_token` and `token_type`"),
        (Answer(200, b'{"access_token": "canary", "token_type": "DPoP"}'), "not a bearer token"),
        (Answer(200, b'{"access_token": "canary", "token_type": "bearer"}'), "not a signed JWT"),
    ],
)
def test_an_answer_without_a_token_is_told_without_its_words(answer: Answer, words: str) -> None:
    issuer = Issuer()
    issuer.answer = lambda: answer

    assert words in problem(issuer.worker())


# When it is renewed ---------------------------------------------------------------------------------------------------


def test_a_token_is_kept_until_shortly_before_its_end() -> None:
    issuer = Issuer()
    worker = issuer.worker()
    first = found(worker)

    issuer.now += LIFE - RENEW_SECONDS - 1
    assert found(worker) == first
    issuer.now += 1
    second = found(worker)

    assert len(issuer.posted) == 2
    assert (second.expires_at or "") > (first.expires_at or "")


def test_a_short_lived_token_is_kept_for_half_of_its_life() -> None:
    issuer = Issuer()
    issuer.claims["exp"] = NOW + 10
    worker = issuer.worker()

    for seconds in (0, 4.9):
        issuer.now = NOW + seconds
        found(worker)
    assert len(issuer.posted) == 1

    issuer.now = NOW + 5
    found(worker)
    assert len(issuer.posted) == 2


def test_a_token_that_still_holds_outlives_an_issuer_that_is_down() -> None:
    issuer = Issuer()
    worker = issuer.worker()
    first = found(worker)
    issuer.answer = lambda: Answer(503, b"")

    issuer.now += LIFE - 1
    assert found(worker) == first
    issuer.now += 1 + PAUSE_SECONDS

    assert "HTTP 503" in problem(worker)


def test_an_issuer_that_refuses_is_not_asked_again_and_again() -> None:
    issuer = Issuer()
    issuer.answer = lambda: Answer(401, b"")
    worker = issuer.worker()

    assert {problem(worker) for _ in range(5)} == {problem(worker)}
    assert len(issuer.posted) == 1
    issuer.now += PAUSE_SECONDS
    issuer.answer = issuer.granted

    assert found(worker).id == "worker"


def test_many_runs_at_once_ask_the_issuer_once() -> None:
    issuer = Issuer()
    worker = issuer.worker()

    async def ask() -> set[str]:
        return {caller.id for caller in await asyncio.gather(*(worker.caller() for _ in range(50)))}

    assert asyncio.run(ask()) == {"worker"}
    assert len(issuer.posted) == 1


# Over HTTP ------------------------------------------------------------------------------------------------------------


class Handler(BaseHTTPRequestHandler):
    """Answers forms in ways that an issuer should not."""

    over = threading.Event()
    seen: list[str]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.seen.append(f"{self.path} {self.headers['Content-Type']} {body}")
        match self.path:
            case "/redirect":
                self.send_response(307)
                self.send_header("Location", "/elsewhere")
                self.end_headers()
            case "/large":
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"x" * (MAX_DOCUMENT_BYTES + 1))
            case _:
                self.over.wait(30)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def odd_issuer() -> Iterator[str]:
    Handler.over.clear()
    Handler.seen = []
    with loopback_server(Handler) as url:
        try:
            yield url
        finally:
            # The server waits for its threads, and a slow one waits for this.
            Handler.over.set()


def test_a_form_is_not_sent_on_to_where_an_answer_redirects() -> None:
    with odd_issuer() as url:
        answer = post_over_http(f"{url}/redirect", {"grant_type": "client_credentials"}, {})

    assert answer.status == 307
    assert Handler.seen == ["/redirect application/x-www-form-urlencoded grant_type=client_credentials"]


@pytest.mark.parametrize(
    ("path", "words"),
    [("large", "answers with more than 262,144 bytes"), ("slow", r"did not answer within 0\.3 seconds")],
)
def test_an_answer_to_a_form_is_bounded_in_size_and_time(path: str, words: str) -> None:
    with odd_issuer() as url, pytest.raises(KeysUnavailable, match=words):
        post_over_http(f"{url}/{path}", {"client_secret": SECRET}, {}, 10 if path == "large" else 0.3)


def test_an_issuer_that_answers_badly_is_told_without_the_secret() -> None:
    with odd_issuer() as url:
        local = {"issuer": url, "jwks_uri": f"{url}/certs", "token_endpoint": f"{url}/slow"}
        document = Answer(200, json.dumps(local).encode())
        verifier = Verifier(url, AUDIENCE, IssuerKeys(url))
        post = partial(post_over_http, seconds=0.3)
        worker = ClientCredentials(verifier, "agents", SECRET, get=lambda _: document, post=post)

        assert "did not answer within 0.3 seconds" in problem(worker)
