"""Keys and tokens of a made-up issuer, made in the test."""

import json
import warnings
from functools import cache
from typing import Any, Literal

from joserfc import jws
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, Key, KeyParameters, OKPKey, RSAKey
from joserfc.util import urlsafe_b64encode

from agent_resolver.identity import Keys, read_keys

ISSUER = "https://login.example.com/realms/acme"
AUDIENCE = "https://agents.example.com/mcp"
NOW = 1_800_000_000
KEY_ID = "key-1"


def key(algorithm: str = "ES256", name: str = KEY_ID) -> Key:
    """A key for an algorithm; another name is another key."""
    return _made(algorithm, name)


@cache
def _made(algorithm: str, name: str) -> Key:
    curves: dict[str, Literal["P-256", "P-384", "P-521"]] = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
    parameters: KeyParameters = {"kid": name}
    if algorithm in curves:
        return ECKey.generate_key(curves[algorithm], parameters)
    return (
        OKPKey.generate_key("Ed25519", parameters)
        if algorithm.startswith("Ed")
        else RSAKey.generate_key(2048, parameters)
    )


def key_set(*keys: Key, **more: Any) -> bytes:
    """What an issuer publishes of its keys."""
    return json.dumps({"keys": [{**one.as_dict(private=False), **more} for one in keys]}).encode()


def public(*keys: Key, **more: Any) -> Keys:
    """The keys as others know them."""
    return read_keys(key_set(*keys or (key(),), **more))


def claims(**changes: Any) -> dict[str, Any]:
    """The claims of a valid token with these changes; None leaves one out."""
    usual = {"iss": ISSUER, "aud": AUDIENCE, "sub": "u-17", "exp": NOW + 300, "iat": NOW}
    return {name: value for name, value in {**usual, **changes}.items() if value is not None}


def token(
    payload: dict[str, Any] | bytes | None = None, *, algorithm: str = "ES256", signer: Key | None = None, **header: Any
) -> str:
    """A signed token; in the header None leaves something out."""
    raw = payload if isinstance(payload, bytes) else json.dumps(claims() if payload is None else payload).encode()
    signer = signer or key(algorithm)
    usual = {"alg": algorithm, "typ": "at+jwt", "kid": signer.kid, **header}
    protected = {name: value for name, value in usual.items() if value is not None}
    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    registry.max_header_length = 100_000
    with warnings.catch_warnings(category=SecurityWarning, action="ignore"):
        return jws.serialize_compact(protected, raw, signer, registry=registry)


def unsigned(header: Any, payload: Any, signature: bytes = b"signature") -> str:
    """Three parts as in a token, of whatever is given."""
    parts = [part if isinstance(part, bytes) else json.dumps(part).encode() for part in (header, payload)]
    return ".".join(urlsafe_b64encode(part).decode() for part in (*parts, signature))
