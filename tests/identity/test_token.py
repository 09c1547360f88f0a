"""Which tokens are believed, and why not each of the others."""

import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from joserfc.jwk import OctKey, OKPKey
from joserfc.util import urlsafe_b64encode

from agent_resolver.identity import ALGORITHMS, LEEWAY_SECONDS, MAX_TOKEN_BYTES, InvalidToken, Keys, TokenCode, verify
from agent_resolver.schema import CONTEXT_CLAIMS, Caller
from tests.identity.issued import AUDIENCE, ISSUER, NOW, claims, key, public, token, unsigned

VALID = token()


def verified(text: str, keys: Keys | None = None, now: float = NOW) -> Caller:
    return verify(text, public() if keys is None else keys, issuer=ISSUER, audience=AUDIENCE, now=now)


def refusal(text: str, keys: Keys | None = None, now: float = NOW) -> InvalidToken:
    with pytest.raises(InvalidToken) as caught:
        verified(text, keys, now)
    return caught.value


def code(text: str, keys: Keys | None = None, now: float = NOW) -> TokenCode:
    refused = refusal(text, keys, now)
    assert str(refused)
    assert refused.remedy
    assert refused.hint == f"{refused.remedy} ({refused.code})"
    return refused.code


# What is believed -----------------------------------------------------------------------------------------------------


def test_a_token_of_the_issuer_for_us_that_is_valid_now_is_believed() -> None:
    assert verified(VALID) == Caller(
        id="u-17",
        is_verified=True,
        issuer=ISSUER,
        expires_at="2027-01-15T08:05:00.000Z",
        absent_claims=CONTEXT_CLAIMS,
    )


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_every_pinned_algorithm_verifies(algorithm: str) -> None:
    signer = key(algorithm)

    assert verified(token(algorithm=algorithm), public(signer)).id == "u-17"
    assert code(token(algorithm=algorithm)[:-8] + "AAAAAAAA", public(signer)) is TokenCode.BAD_SIGNATURE


def test_every_pinned_algorithm_is_asymmetric() -> None:
    assert {name[:2] for name in ALGORITHMS} == {"RS", "PS", "ES", "Ed"}


def test_a_key_is_found_by_its_id_among_others() -> None:
    keys = public(key("RS256", "old"), key(), key("ES256", "next"))

    assert verified(token(), keys).id == "u-17"
    assert verified(token(signer=key("ES256", "next")), keys).id == "u-17"


def test_without_a_key_id_every_key_that_fits_is_tried() -> None:
    keys = public(key("RS256", "old"), key("ES256", "next"), key())

    assert verified(token(kid=None), keys).id == "u-17"
    assert code(token(kid=None), public(key("ES256", "next"))) is TokenCode.BAD_SIGNATURE


@pytest.mark.parametrize("kind", ["JWT", "jwt", "at+jwt", "application/at+jwt", None])
def test_both_types_of_access_tokens_are_taken(kind: str | None) -> None:
    assert verified(token(claims(scope="read"), typ=kind)).id == "u-17"


def test_members_of_a_header_that_nobody_knows_change_nothing() -> None:
    assert verified(token(nonce="x", x5t="y", long="z" * 2000)).id == "u-17"


@pytest.mark.parametrize("audience", [AUDIENCE, [AUDIENCE], ["other", AUDIENCE]])
def test_a_token_may_be_meant_for_several(audience: object) -> None:
    assert verified(token(claims(aud=audience))).id == "u-17"


# What is refused ------------------------------------------------------------------------------------------------------


def test_a_token_that_is_too_large_is_refused_before_it_is_read() -> None:
    assert code("." * MAX_TOKEN_BYTES) is TokenCode.MALFORMED
    assert code("." * (MAX_TOKEN_BYTES + 1)) is TokenCode.TOO_LARGE
    assert code(token(claims(more="x" * MAX_TOKEN_BYTES))) is TokenCode.TOO_LARGE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "opaque",
        "a.b",
        "a.b.c.d.e",
        "é.b.c",
        "*.*.*",
        VALID + ".",
        f" {VALID}",
        unsigned(b"{", {}),
        unsigned([], {}),
        unsigned("alg", {}),
        unsigned(7, {}),
        unsigned(b'{"alg":"ES256"}\xff', {}),
        unsigned({"alg": "ES256"}, b"\xff\xfe"),
        unsigned({"alg": "ES256"}, "claims"),
        unsigned({"alg": "ES256"}, b'{"exp":NaN}'),
        unsigned({"alg": "ES256"}, b'{"exp":1e999}'),
        unsigned({"alg": "ES256"}, b'{"a":' * 2000),
        unsigned(b"[" * 4000, {}),
        unsigned({"alg": "ES256", "kid": 7}, {}),
        unsigned({"alg": "ES256", "kid": ["key-1"]}, {}),
        token(payload=b"not json"),
    ],
    ids=range(22),
)
def test_what_is_no_signed_jwt_is_malformed(text: str) -> None:
    assert code(text) is TokenCode.MALFORMED


@pytest.mark.parametrize("algorithm", ["none", "None", "HS256", "HS512", "ES256K", "RS1", "", None, 7, ["ES256"], {}])
def test_no_other_algorithm_is_taken_whatever_the_token_says(algorithm: object) -> None:
    assert code(unsigned({"alg": algorithm, "kid": "key-1"}, claims())) is TokenCode.ALGORITHM_REFUSED
    assert code(unsigned({"alg": algorithm, "kid": "key-1"}, claims(), b"")) is TokenCode.ALGORITHM_REFUSED


def test_a_token_without_an_algorithm_is_refused() -> None:
    assert code(unsigned({"kid": "key-1"}, claims())) is TokenCode.ALGORITHM_REFUSED


def test_a_public_key_is_no_shared_secret() -> None:
    """The oldest trick: sign with HMAC, and what everybody knows of the key as the secret."""
    signer = key("RS256")
    assert not isinstance(signer, OctKey)
    for secret in (signer.as_pem(private=False), json.dumps(signer.as_dict(private=False)).encode()):
        text = unsigned({"alg": "HS256", "kid": "key-1"}, claims()).rpartition(".")[0]
        mac = hmac.new(secret, text.encode(), hashlib.sha256).digest()
        assert code(f"{text}.{urlsafe_b64encode(mac).decode()}", public(signer)) is TokenCode.ALGORITHM_REFUSED


def test_a_key_is_used_for_what_it_is_for_alone() -> None:
    signed = token(algorithm="PS256")

    assert code(signed, public(key("PS256"), alg="RS256")) is TokenCode.ALGORITHM_REFUSED
    assert code(signed, public(key("PS256"), key_ops=["encrypt"])) is TokenCode.ALGORITHM_REFUSED
    assert code(token(algorithm="ES256"), public(key("ES384"))) is TokenCode.ALGORITHM_REFUSED
    assert code(token(algorithm="ES256"), public(key("RS256"))) is TokenCode.ALGORITHM_REFUSED


def test_a_key_that_cannot_sign_at_all_has_signed_nothing() -> None:
    exchange = OKPKey.generate_key("X25519", {"kid": "key-1"})

    assert code(token(algorithm="EdDSA"), public(exchange)) is TokenCode.BAD_SIGNATURE


def test_a_key_that_the_token_brings_along_is_not_looked_at() -> None:
    stranger = key("ES256", "stranger")
    brought = stranger.as_dict(private=False)

    text = token(signer=stranger, kid="key-1", jwk=brought, jku="https://evil.example/keys", x5u="https://evil.example")

    assert code(text) is TokenCode.BAD_SIGNATURE


def test_a_foreign_key_under_a_known_id_signs_nothing() -> None:
    assert code(token(signer=key("ES256", "stranger"), kid="key-1")) is TokenCode.BAD_SIGNATURE


def test_a_key_that_the_issuer_does_not_list_is_unknown() -> None:
    assert code(token(signer=key("ES256", "stranger"))) is TokenCode.UNKNOWN_KEY
    assert code(VALID, ()) is TokenCode.UNKNOWN_KEY


@pytest.mark.parametrize("header", [{"crit": ["exp"], "exp": 1}, {"crit": ["b64"], "b64": False}, {"b64": True}])
def test_extensions_are_refused(header: dict[str, Any]) -> None:
    assert code(unsigned({"alg": "ES256", "kid": "key-1", **header}, claims())) is TokenCode.MALFORMED


@pytest.mark.parametrize("kind", ["logout+jwt", "dpop+jwt", "secevent+jwt", "JWE", "", 7])
def test_tokens_for_other_purposes_are_refused(kind: object) -> None:
    text = unsigned({"alg": "ES256", "kid": "key-1", "typ": kind}, claims())

    assert code(text) is TokenCode.WRONG_TYPE


EVENTS: dict[str, object] = {"http://schemas.openid.net/event/backchannel-logout": {}}


@pytest.mark.parametrize(
    "mark",
    [
        {"typ": "Refresh"},
        {"typ": "Offline"},
        {"typ": "Logout"},
        {"token_use": "refresh"},
        {"token_use": "session"},
        {"token_type": "refresh"},
        {"events": EVENTS},
    ],
    ids=repr,
)
@pytest.mark.parametrize("header", ["JWT", "at+jwt"])
def test_a_token_that_its_claims_say_is_for_something_else_is_refused(mark: dict[str, Any], header: str) -> None:
    """As Keycloak and Cognito mark their tokens, and as logout tokens are by OpenID Connect."""
    assert code(token(claims(scope="read", **mark), typ=header)) is TokenCode.WRONG_TYPE


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"azp": "console"},
        {"auth_time": NOW, "acr": "1", "email": "ada@example.com"},
        {"scope": "openid", "nonce": "n-0S6"},
        {"scope": "openid", "typ": "ID"},
        {"scope": "openid", "token_use": "id"},
        {"scope": "openid", "at_hash": "77QmUPtjPfzWtF2AnpK9RQ"},
        {"scope": "openid", "c_hash": "77QmUPtjPfzWtF2AnpK9RQ"},
        {"scope": "openid", "azp": AUDIENCE},
        {"scope": "openid", "aud": [AUDIENCE], "client_id": AUDIENCE},
    ],
    ids=repr,
)
def test_an_id_token_is_refused_though_its_audience_is_ours(changes: dict[str, Any]) -> None:
    assert code(token(claims(**changes), typ="JWT")) is TokenCode.ID_TOKEN


@pytest.mark.parametrize("mark", [{"typ": "ID"}, {"token_use": "id"}, {"at_hash": "x"}, {"s_hash": "x"}], ids=repr)
def test_the_mark_of_an_id_token_counts_in_a_token_that_says_it_is_for_access(mark: dict[str, Any]) -> None:
    assert code(token(claims(scope="read", **mark), typ="at+jwt")) is TokenCode.ID_TOKEN


@pytest.mark.parametrize(
    "changes",
    [
        {"typ": "Bearer", "nonce": "n-0S6", "auth_time": NOW, "azp": AUDIENCE},
        {"token_use": "access", "client_id": AUDIENCE},
        {"scp": ["read"], "cid": "console"},
        {"appid": "3b9f", "roles": ["Task.Run"]},
        {"client_id": "console", "aud": [AUDIENCE, "console"]},
    ],
    ids=["Keycloak", "Cognito", "Okta", "Microsoft", "RFC 9068 without its type"],
)
def test_an_access_token_shows_it_in_the_words_of_its_issuer(changes: dict[str, Any]) -> None:
    assert verified(token(claims(**changes), typ="JWT")).id == "u-17"


@pytest.mark.parametrize("bound", [{"cnf": {"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}}, {"cnf": {}}])
def test_a_token_that_is_bound_to_a_key_is_not_a_bearer_token(bound: dict[str, Any]) -> None:
    assert code(token(claims(**bound))) is TokenCode.BOUND_TOKEN
    assert code(token(claims(scope="read", typ="DPoP"), typ="JWT")) is TokenCode.BOUND_TOKEN


@pytest.mark.parametrize("issuer", [f"{ISSUER}/", ISSUER.upper(), "https://login.example.com", "", 7, [ISSUER]])
def test_the_issuer_is_compared_to_the_letter(issuer: object) -> None:
    assert code(token(claims(iss=issuer))) is TokenCode.WRONG_ISSUER


def test_a_token_of_another_issuer_is_told_apart_before_its_key_is_looked_for() -> None:
    text = token(claims(iss="https://other.example"), signer=key("ES256", "stranger"))

    assert code(text) is TokenCode.WRONG_ISSUER


@pytest.mark.parametrize("audience", [None, "", [], [None], {}, 7])
def test_a_token_for_nobody_is_refused(audience: object) -> None:
    assert code(token(claims(aud=audience))) is TokenCode.NO_AUDIENCE


@pytest.mark.parametrize("audience", ["account", f"{AUDIENCE}/", ["account", AUDIENCE[:-1]], [[AUDIENCE], "account"]])
def test_a_token_for_others_is_refused(audience: object) -> None:
    assert code(token(claims(aud=audience))) is TokenCode.WRONG_AUDIENCE


@pytest.mark.parametrize("name", ["iss", "exp", "sub"])
def test_a_claim_that_is_needed_is_missing(name: str) -> None:
    refused = refusal(token(claims(**{name: None})))

    assert (refused.code, str(refused)) == (TokenCode.MISSING_CLAIM, f"The token has no claim `{name}`")


def test_a_token_is_expired_from_the_very_second_on() -> None:
    assert verified(token(claims(exp=NOW + 0.5))).expires_at == "2027-01-15T08:00:00.500Z"
    assert code(token(claims(exp=NOW))) is TokenCode.EXPIRED
    assert code(token(claims(exp=NOW - 1))) is TokenCode.EXPIRED
    assert code(token(claims(exp=-(10**300)))) is TokenCode.EXPIRED


@pytest.mark.parametrize("name", ["nbf", "iat"])
def test_a_clock_may_be_a_little_ahead_and_no_more(name: str) -> None:
    assert verified(token(claims(**{name: NOW + LEEWAY_SECONDS}))).id == "u-17"
    assert code(token(claims(**{name: NOW + LEEWAY_SECONDS + 1}))) is TokenCode.NOT_YET_VALID
    assert code(token(claims(**{name: 10**300}))) is TokenCode.NOT_YET_VALID


@pytest.mark.parametrize("name", ["exp", "nbf", "iat"])
@pytest.mark.parametrize("value", ["1800000300", True, [], {}])
def test_a_time_is_a_number(name: str, value: object) -> None:
    assert code(token(claims(**{name: value}))) is TokenCode.INVALID_CLAIM


@pytest.mark.parametrize("moment", [10**12, 10**300, 1e300])
def test_a_token_that_never_expires_is_refused(moment: float) -> None:
    assert code(token(claims(exp=moment))) is TokenCode.INVALID_CLAIM


# What is never said ---------------------------------------------------------------------------------------------------


def test_every_code_is_met_here() -> None:
    met = {
        code("x" * (MAX_TOKEN_BYTES + 1)),
        code("x"),
        code(unsigned({"alg": "none"}, {})),
        code(token(typ="logout+jwt")),
        code(token(claims(nonce="x"), typ="JWT")),
        code(token(claims(cnf={"jkt": "x"}))),
        code(VALID, ()),
        code(VALID[:-8] + "AAAAAAAA"),
        code(token(claims(sub=None))),
        code(token(claims(sub=7))),
        code(token(claims(iss="other"))),
        code(token(claims(aud=None))),
        code(token(claims(aud="other"))),
        code(token(claims(exp=NOW))),
        code(token(claims(nbf=NOW + 3600))),
    }

    assert met == set(TokenCode)


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "canary-7"},
        {"aud": "canary-7"},
        {"aud": ["canary-7"]},
        {"sub": "local:canary-7"},
        {"sub": "canary-7" * 100},
        {"exp": "canary-7"},
        {"nbf": "canary-7"},
        {"typ": "ID", "sub": "canary-7"},
    ],
)
def test_a_refusal_holds_nothing_of_the_token(changes: dict[str, Any]) -> None:
    text = token(claims(**changes), canary="canary-7")
    refused = refusal(text)

    assert "canary-7" not in f"{refused!r}{refused}{refused.hint}{vars(refused)}"
    assert not any(part in f"{refused!r}{refused.hint}" for part in text.split("."))
    assert refused.__cause__ is None


def test_a_payload_that_cannot_be_read_is_not_quoted() -> None:
    refused = refusal(unsigned({"alg": "ES256"}, b'{"canary-7": canary-7}'))

    assert "canary-7" not in f"{refused!r}{refused.hint}"
    assert refused.__suppress_context__


# Properties -----------------------------------------------------------------------------------------------------------


@given(data=st.data(), algorithm=st.sampled_from(["ES256", "RS256", "Ed25519"]))
def test_any_single_changed_byte_is_refused(data: st.DataObject, algorithm: str) -> None:
    text = token(algorithm=algorithm).encode()
    place = data.draw(st.integers(0, len(text) - 1))
    byte = data.draw(st.integers(0, 127).filter(lambda other: other != text[place]))

    refusal((text[:place] + bytes([byte]) + text[place + 1 :]).decode(), public(key(algorithm)))


def test_every_changed_character_of_a_signature_is_refused() -> None:
    """Also the last one, of which base64 leaves bits unused."""
    signed, _, signature = VALID.rpartition(".")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for place, was in enumerate(signature):
        for other in alphabet if place == len(signature) - 1 else ("A" if was != "A" else "B"):
            if other != was:
                refusal(f"{signed}.{signature[:place]}{other}{signature[place + 1 :]}")


@given(st.text(max_size=200) | st.from_regex(r"[\w-]{0,80}\.[\w-]{0,80}\.[\w-]{0,80}", fullmatch=True))
def test_anything_else_is_refused_in_words(text: str) -> None:
    refusal(text)


@given(
    header=st.dictionaries(st.text(), st.none() | st.text() | st.integers() | st.lists(st.text())), payload=st.data()
)
def test_a_header_of_any_shape_is_refused_in_words(header: dict[str, Any], payload: st.DataObject) -> None:
    kept = payload.draw(st.sampled_from([{}, {"alg": "ES256"}, {"alg": "ES256", "kid": "key-1"}]))

    refusal(unsigned({**header, **kept}, claims()))
