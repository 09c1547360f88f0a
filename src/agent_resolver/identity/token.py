"""Verifies access tokens: JWTs that an issuer signed, by RFC 7519, 8725 and 9068."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwa import JWSAlgModel
from joserfc.jwk import Key
from joserfc.util import urlsafe_b64decode

from agent_resolver.identity.claim import Claims, caller_of, moment, required
from agent_resolver.identity.errors import InvalidToken, TokenCode
from agent_resolver.identity.purpose import check_purpose
from agent_resolver.schema.caller import Caller

MAX_TOKEN_BYTES: Final = 16 * 1024
LEEWAY_SECONDS: Final = 60
"""How far the clock of the issuer may be ahead of ours."""
ALGORITHMS: Final = frozenset(
    "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519".split()  # noqa: SIM905 - reads as a list
)
"""Signatures that are made with one key and verified with another; what a token says of itself never widens this."""
_PARTS: Final = 3


class _Pinned(jws.JWSRegistry):
    """The pinned algorithms, with bounds of our own."""

    max_header_length = MAX_TOKEN_BYTES
    max_signature_length = MAX_TOKEN_BYTES

    def get_alg(self, name: str) -> JWSAlgModel:
        """An algorithm; the library would also warn of the older name of Ed25519, which issuers still use."""
        if name not in ALGORITHMS:
            raise UnsupportedAlgorithmError
        return self.algorithms[name]


# Issuers put members of their own into headers; what may change the meaning of a token
# is refused below.
_REGISTRY: Final = _Pinned(strict_check_header=False)


def verify(
    token: str,
    keys: Sequence[Key],
    *,
    issuer: str,
    audience: str,
    now: float,
) -> Caller:
    """The caller that a token vouches for, `now` being seconds since 1970.

    1. It must be a bounded, signed JWT, under an algorithm that is pinned here, and a bearer token meant for access.
    2. It must claim to be from this issuer. Nobody believes that yet: it spares a look for keys elsewhere.
    3. One of the issuer's keys must have signed it.
    4. It must be meant for this audience, and be valid now.
    5. It must say who the caller is.

    Raises:
        InvalidToken: With the first of these that does not hold.
    """
    header, claims = _read_token(token)
    _check_header(header)
    check_purpose(header, claims)
    _check_issuer(claims, issuer)
    _check_signature(token, header, keys)
    _check_audience(claims, audience)
    _check_time(claims, now)
    return caller_of(claims)


def _read_token(token: str) -> tuple[dict[str, Any], Claims]:
    # The bound comes first: nothing of a token that is too long is decoded.
    if len(token) > MAX_TOKEN_BYTES:
        message = (
            f"The token is longer than {MAX_TOKEN_BYTES:,} bytes, the most that is read"
        )
        raise InvalidToken(
            TokenCode.TOO_LARGE, message, "let the issuer put fewer claims into it"
        )
    parts = token.split(".")
    if not token.isascii() or len(parts) != _PARTS:
        raise _malformed_token(
            "is not a signed JWT, which is three parts of base64url with dots between them"
        )
    return _decode_object(parts[0], "header"), _decode_object(parts[1], "payload")


def _decode_object(part: str, name: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(
            urlsafe_b64decode(part.encode()), type=dict[str, Any]
        )
    except (ValueError, RecursionError):
        # What the decoder says would quote the token.
        raise _malformed_token(
            f"has a {name} that is not a JSON object in base64url"
        ) from None


def _check_header(header: dict[str, Any]) -> None:
    if str(header.get("alg")) not in ALGORITHMS:
        message = f"The token is not signed with one of {', '.join(sorted(ALGORITHMS))}"
        raise InvalidToken(
            TokenCode.ALGORITHM_REFUSED, message, "let the issuer sign with one of them"
        )
    if not isinstance(header.get("kid", ""), str):
        raise _malformed_token("names its key by something other than text")
    # RFC 7515, 4.1.11: what is critical and not understood makes the token invalid; we
    # understand no extension.
    if "crit" in header or "b64" in header:
        raise _malformed_token("asks for extensions of JWS")


def _check_issuer(claims: Claims, issuer: str) -> None:
    # RFC 7519, 4.1.1: compared to the letter.
    if required(claims, "iss") != issuer:
        message = f"The token is from another issuer than {issuer}"
        raise InvalidToken(
            TokenCode.WRONG_ISSUER,
            message,
            "get it from this one, or correct `identity.issuer`",
        )


def _check_signature(token: str, header: dict[str, Any], keys: Sequence[Key]) -> None:
    # A token that names no key may be signed with any of them.
    named = [key for key in keys if "kid" not in header or key.kid == header["kid"]]
    if not named:
        raise InvalidToken(
            TokenCode.UNKNOWN_KEY,
            "The token is signed with a key that the issuer does not list",
        )
    # RFC 8725, 3.1: the algorithm that the token names must be one that the key is made
    # for.
    fitting = [key for key in named if _is_for(key, header["alg"])]
    if not fitting:
        message = "The token is signed with an algorithm that its key is not for"
        raise InvalidToken(TokenCode.ALGORITHM_REFUSED, message)
    if not any(_is_signed(token, key) for key in fitting):
        raise InvalidToken(
            TokenCode.BAD_SIGNATURE, "The signature of the token does not hold"
        )


def _is_for(key: Key, algorithm: str) -> bool:
    try:
        _REGISTRY.get_alg(algorithm).check_key(key)
        key.check_key_op("verify")
    except JoseError:
        return False
    return True


def _is_signed(token: str, key: Key) -> bool:
    try:
        return jws.validate_compact(
            jws.extract_compact(token.encode(), registry=_REGISTRY),
            key,
            registry=_REGISTRY,
        )
    except (JoseError, ValueError, RecursionError):
        return False


def _check_audience(claims: Claims, audience: str) -> None:
    said = claims.get("aud")
    # RFC 7519, 4.1.3: a single audience may be a text instead of a list.
    audiences = said if isinstance(said, list) else [said]
    if not any(isinstance(one, str) and one for one in audiences):
        message = f"The token is meant for nobody, and {audience} is expected"
        remedy = f"let the issuer add the audience {audience}; in Keycloak, with an audience mapper"
        raise InvalidToken(TokenCode.NO_AUDIENCE, message, remedy)
    if audience not in audiences:
        message = f"The token is not meant for {audience}"
        remedy = "ask the issuer for one that is, or correct `identity.audience`"
        raise InvalidToken(TokenCode.WRONG_AUDIENCE, message, remedy)


def _check_time(claims: Claims, now: float) -> None:
    # The end of a token has no leeway: what has expired is never accepted.
    if moment(claims, "exp") <= now:
        raise InvalidToken(TokenCode.EXPIRED, "The token has expired")
    for name in ("nbf", "iat"):
        if claims.get(name) is not None and moment(claims, name) > now + LEEWAY_SECONDS:
            message = f"The token is not valid yet, as its claim `{name}` says"
            raise InvalidToken(
                TokenCode.NOT_YET_VALID, message, "set the clocks, or wait"
            )


def _malformed_token(problem: str) -> InvalidToken:
    return InvalidToken(
        TokenCode.MALFORMED,
        f"The token {problem}",
        "send the token as the issuer gave it",
    )
