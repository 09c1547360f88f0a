"""From a token to a caller, with the keys that an issuer has at the time."""

import asyncio

import pytest

from agent_resolver.identity import InvalidToken, Keys, KeysUnavailable, TokenCode, Verifier
from agent_resolver.schema import Caller
from tests.identity.issued import AUDIENCE, ISSUER, NOW, claims, key, public, token


class Rotating:
    """Has one set of keys after another; the last one stays."""

    def __init__(self, *sets: Keys) -> None:
        self._sets = sets
        self.asked = ""

    async def current(self) -> Keys:
        self.asked += "c"
        return self._sets[0]

    async def newer(self) -> Keys:
        self.asked += "n"
        self._sets = self._sets[1:] or self._sets
        return self._sets[0]


class Down:
    """Has no keys."""

    async def current(self) -> Keys:
        raise KeysUnavailable("The issuer cannot be reached")

    newer = current


def caller(keys: Rotating | Down, text: str) -> Caller:
    return asyncio.run(Verifier(ISSUER, AUDIENCE, keys, lambda: NOW).caller(text))


def test_a_known_key_needs_no_newer_ones() -> None:
    keys = Rotating(public())

    assert caller(keys, token()).id == "u-17"
    assert keys.asked == "c"


def test_a_key_that_the_issuer_has_begun_to_use_is_found() -> None:
    keys = Rotating(public(), public(key(), key("ES256", "next")))

    assert caller(keys, token(signer=key("ES256", "next"))).id == "u-17"
    assert keys.asked == "cn"


def test_a_key_that_stays_unknown_is_refused_after_one_look() -> None:
    keys = Rotating(public())

    with pytest.raises(InvalidToken) as caught:
        caller(keys, token(signer=key("ES256", "stranger")))
    assert caught.value.code is TokenCode.UNKNOWN_KEY
    assert keys.asked == "cn"


def test_a_token_that_is_refused_for_another_reason_makes_nobody_look_for_keys() -> None:
    keys = Rotating(public())

    for text in (
        token(claims(exp=NOW)),
        token(claims(iss="https://other.example"), signer=key("ES256", "x")),
        "opaque",
    ):
        with pytest.raises(InvalidToken):
            caller(keys, text)
    assert keys.asked == "ccc"


def test_without_keys_nobody_is_told_that_their_token_is_bad() -> None:
    with pytest.raises(KeysUnavailable):
        caller(Down(), token())
