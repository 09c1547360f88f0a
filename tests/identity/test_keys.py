"""The keys of an issuer: where they are looked for, which are believed, and how often the issuer is asked."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest
from joserfc.util import urlsafe_b64encode

from agent_resolver.identity import (
    LIFETIME_SECONDS,
    MAX_KEYS,
    PAUSE_SECONDS,
    Answer,
    IssuerKeys,
    KeysUnavailable,
    UnusableIdentity,
    check_issuer,
    get_over_http,
    keys_of,
    read_keys,
)
from tests.connection.servers.hostile_http import hostile_server
from tests.identity.issued import ISSUER, key, key_set

CONFIGURATION = f"{ISSUER}/.well-known/openid-configuration"
KEYS = f"{ISSUER}/certs"
MISSING = Answer(404, b"Not found")


class Web:
    """Addresses and what stands there; counts how often each is looked at."""

    def __init__(self, **more: Any) -> None:
        self.at: dict[str, Answer] = {
            CONFIGURATION: metadata(**more),
            KEYS: Answer(200, key_set(key())),
        }
        self.asked: Counter[str] = Counter()
        self.is_down = False

    def __call__(self, url: str) -> Answer:
        self.asked[url] += 1
        if self.is_down:
            raise KeysUnavailable(f"{url} cannot be reached", "wait")
        return self.at.get(url, MISSING)


def metadata(**more: Any) -> Answer:
    return Answer(200, json.dumps({"issuer": ISSUER, "jwks_uri": KEYS, "token_endpoint": "x", **more}).encode())


def ids(keys: Any) -> list[str]:
    return [one.kid for one in keys]


def problem(web: Callable[[str], Answer], issuer: str = ISSUER) -> str:
    with pytest.raises(KeysUnavailable) as caught:
        keys_of(issuer, web)
    assert caught.value.hint
    return str(caught.value)


# Where they are -------------------------------------------------------------------------------------------------------


def test_the_keys_are_where_the_metadata_says() -> None:
    web = Web()

    assert ids(keys_of(ISSUER, web)) == ["key-1"]
    assert web.asked == {CONFIGURATION: 1, KEYS: 1}


@pytest.mark.parametrize(
    ("issuer", "first", "second"),
    [
        (
            "https://a.example",
            "https://a.example/.well-known/openid-configuration",
            "https://a.example/.well-known/oauth-authorization-server",
        ),
        (
            "https://a.example/",
            "https://a.example/.well-known/openid-configuration",
            "https://a.example/.well-known/oauth-authorization-server",
        ),
        (
            "https://a.example:8443/realms/acme",
            "https://a.example:8443/realms/acme/.well-known/openid-configuration",
            "https://a.example:8443/.well-known/oauth-authorization-server/realms/acme",
        ),
    ],
)
def test_metadata_is_looked_for_by_both_standards(issuer: str, first: str, second: str) -> None:
    web = Web()
    for place in (first, second):
        web.at = {place: metadata(issuer=issuer), KEYS: web.at.get(KEYS, MISSING)}
        assert ids(keys_of(issuer, web)) == ["key-1"]

    web.at = {}
    assert problem(web, issuer) == f"The issuer {issuer} has no metadata: HTTP 404"


def test_an_issuer_that_calls_itself_something_else_is_not_believed() -> None:
    web = Web(issuer=f"{ISSUER}/")

    assert problem(web) == f"The issuer at {ISSUER} calls itself {ISSUER}/"
    assert web.asked[KEYS] == 0


@pytest.mark.parametrize(
    "place",
    ["http://login.example.com/certs", "http://127.0.0.1/certs", "file:///etc/passwd", "", "//x", "https://u@h/"],
)
def test_keys_from_a_place_that_could_be_changed_on_the_way_are_not_fetched(place: str) -> None:
    web = Web(jwks_uri=place)

    assert "where they could be changed on the way" in problem(web)
    assert list(web.asked) == [CONFIGURATION]


def test_an_issuer_on_this_machine_may_keep_its_keys_there() -> None:
    issuer = "http://127.0.0.1:9"
    web = Web()
    web.at[f"{issuer}/.well-known/openid-configuration"] = metadata(issuer=issuer, jwks_uri=f"{issuer}/keys")
    web.at[f"{issuer}/keys"] = web.at[KEYS]

    assert ids(keys_of(issuer, web)) == ["key-1"]


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"issuer": 7, "jwks_uri": ""}', b"[" * 5000, b"\xff"])
def test_metadata_that_cannot_be_read_is_told(body: bytes) -> None:
    web = Web()
    web.at[CONFIGURATION] = Answer(200, body)

    assert problem(web) == f"{CONFIGURATION} has no metadata with `issuer` and `jwks_uri`"


def test_a_redirect_is_not_followed() -> None:
    web = Web()
    web.at[KEYS] = Answer(302, b"")

    assert problem(web) == f"{KEYS} answers with HTTP 302"


@pytest.mark.parametrize(
    ("mode", "problem"),
    [
        ("gzip", "answers with more than 262,144 bytes"),
        ("large", "answers with more than 262,144 bytes"),
        ("drip", "did not answer within 0.5 seconds"),
        ("drip_headers", "did not answer within 0.5 seconds"),
        ("large_header", "cannot be reached"),
    ],
)
def test_an_answer_that_is_packed_too_large_or_too_slow_is_told(mode: str, problem: str) -> None:
    with hostile_server() as url, pytest.raises(KeysUnavailable, match=problem):
        get_over_http(f"{url}/.well-known/oauth-protected-resource/{mode}", 0.5 if "drip" in mode else 10.0)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"keys": {}}', b'{"keys": [7]}', b'{"keys":' + b"[" * 5000])
def test_keys_that_are_no_key_set_are_told(body: bytes) -> None:
    with pytest.raises(KeysUnavailable, match="no JWK Set"):
        read_keys(body)


@pytest.mark.parametrize(
    "issuer",
    ["", "login", "http://login.example.com", "https://a.example?x=1", "https://a.example#x", "https://u:p@a.example"],
)
def test_an_issuer_is_https_or_on_this_machine(issuer: str) -> None:
    with pytest.raises(UnusableIdentity) as caught:
        IssuerKeys(issuer)

    assert "identity.issuer" in caught.value.hint
    assert "u:p" not in str(caught.value)
    check_issuer("https://login.example.com/realms/acme")
    check_issuer("http://localhost:8080/realms/acme")


# Which are believed ---------------------------------------------------------------------------------------------------


def test_what_is_not_understood_is_left_aside() -> None:
    good = json.loads(key_set(key()))["keys"][0]
    rsa = json.loads(key_set(key("RS256", "rsa")))["keys"][0]
    short = {**rsa, "n": urlsafe_b64encode(b"\xff" * 128).decode()}
    others: list[dict[str, Any]] = [
        {},
        {"kty": 7},
        {"kty": "AKP", "alg": "ML-DSA-65", "pub": "AA"},
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": "P-000", "x": good["x"], "y": good["y"]},
        {"kty": "OKP", "crv": "Ed0", "x": "AA"},
        {**good, "use": "enc"},
        {**good, "use": 7},
        {**good, "kid": 7},
        {**rsa, "n": "*"},
        {**rsa, "n": 7},
        {**rsa, "e": ""},
        short,
        {**short, "n": urlsafe_b64encode(bytes(128) + b"\xff" * 128).decode()},
    ]

    found = read_keys(json.dumps({"keys": [*others, good, rsa]}).encode())

    assert ids(found) == ["key-1", "rsa"]


def test_an_issuer_without_a_usable_key_is_told() -> None:
    web = Web()
    web.at[KEYS] = Answer(200, b'{"keys": []}')

    assert problem(web) == f"{KEYS} lists no key that verifies signatures"


def test_a_private_key_is_never_held() -> None:
    listed = json.dumps({"keys": [key().as_dict(private=True)]}).encode()

    assert [one.is_private for one in read_keys(listed)] == [False]


def test_the_number_of_keys_is_bounded() -> None:
    assert len(read_keys(key_set(*[key()] * (MAX_KEYS + 1)))) == MAX_KEYS


# How often the issuer is asked ----------------------------------------------------------------------------------------


class Clock:
    """Stands still until it is moved."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Kept:
    """An issuer, its keys as they are kept here, and the time."""

    def __init__(self) -> None:
        self.web = Web()
        self.clock = Clock()
        self.keys = IssuerKeys(ISSUER, self.web, self.clock)

    def current(self) -> list[str]:
        return ids(asyncio.run(self.keys.current()))

    def newer(self) -> list[str]:
        return ids(asyncio.run(self.keys.newer()))

    @property
    def fetched(self) -> int:
        return self.web.asked[KEYS]


def test_keys_are_kept_for_a_while() -> None:
    kept = Kept()

    for seconds in (0, 1, LIFETIME_SECONDS - 2):
        kept.clock.now += seconds
        assert kept.current() == ["key-1"]
    assert kept.fetched == 1

    kept.clock.now += 1
    kept.web.at[KEYS] = Answer(200, key_set(key("ES256", "next")))
    assert kept.current() == ["next"]
    assert kept.fetched == 2


def test_newer_keys_are_fetched_at_once_but_not_again_and_again() -> None:
    kept = Kept()
    kept.current()
    kept.web.at[KEYS] = Answer(200, key_set(key("ES256", "next")))

    assert kept.newer() == ["key-1"]
    kept.clock.now += PAUSE_SECONDS
    assert [kept.newer(), kept.newer(), kept.current()] == [["next"]] * 3
    assert kept.fetched == 2


def test_an_issuer_that_is_down_is_not_asked_again_and_again() -> None:
    kept = Kept()
    kept.web.is_down = True

    for _ in range(3):
        with pytest.raises(KeysUnavailable, match="cannot be reached") as caught:
            kept.current()
        assert caught.value.hint == "wait"
    assert kept.web.asked.total() == 1

    kept.clock.now += PAUSE_SECONDS
    kept.web.is_down = False
    assert kept.current() == ["key-1"]


def test_keys_that_are_still_good_outlive_an_issuer_that_is_down() -> None:
    kept = Kept()
    kept.current()
    kept.web.is_down = True
    kept.clock.now += PAUSE_SECONDS

    with pytest.raises(KeysUnavailable):
        kept.newer()
    assert kept.current() == ["key-1"]


def test_many_at_once_ask_the_issuer_once() -> None:
    kept = Kept()

    async def ask() -> list[list[str]]:
        return [ids(keys) for keys in await asyncio.gather(*(kept.keys.current() for _ in range(50)))]

    assert asyncio.run(ask()) == [["key-1"]] * 50
    assert kept.fetched == 1


def test_whoever_goes_away_takes_nobody_elses_answer_along() -> None:
    let_go, begun = Event(), Event()
    web = Web()

    def slowly(url: str) -> Answer:
        begun.set()
        assert let_go.wait(10)
        return web(url)

    keys = IssuerKeys(ISSUER, slowly, Clock())

    async def ask() -> list[str]:
        gone, other = asyncio.ensure_future(keys.current()), asyncio.ensure_future(keys.current())
        await asyncio.to_thread(begun.wait, 10)
        gone.cancel()
        await asyncio.wait([gone])
        let_go.set()
        return ids(await other)

    assert asyncio.run(ask()) == ["key-1"]
    assert web.asked[KEYS] == 1
