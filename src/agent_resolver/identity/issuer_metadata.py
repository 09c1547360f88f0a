"""The metadata that an issuer publishes, by OpenID Connect Discovery or RFC 8414."""

from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from agent_resolver.identity.errors import KeysUnavailable, UnusableIdentity
from agent_resolver.identity.issuer_address import address
from agent_resolver.identity.issuer_http import OK, Get

_MOST_SHOWN: Final = 200
"""The number of characters that an error shows of a text from outside."""


class Metadata(Struct):
    """The part of an issuer's metadata that a reader asks for; each reader adds what it needs."""

    issuer: str


Asked = TypeVar("Asked", bound=Metadata)


def check_issuer(issuer: str) -> None:
    """Refuse an issuer whose word could be changed on the way.

    Raises:
        UnusableIdentity: It is one.
    """
    parts = address(issuer)
    if parts is None or parts.query or parts.fragment:
        # The part before the host may be a password.
        message = f"The issuer {issuer.rpartition('@')[2]} is neither an `https` address nor one on this machine"
        raise UnusableIdentity(message, "correct `identity.issuer` in agent.toml")


def metadata_of(issuer: str, get: Get, asked: type[Asked]) -> Asked:
    """The metadata that an issuer publishes now.

    Raises:
        KeysUnavailable: It cannot be reached, does not say what is asked for, or is another issuer.
    """
    metadata = _fetch_metadata(issuer, get, asked)
    # RFC 8414, 3.3: metadata under another name may be that of another issuer, and is
    # not used.
    if metadata.issuer != issuer:
        message = f"The issuer at {issuer} calls itself {metadata.issuer[:_MOST_SHOWN]}"
        raise KeysUnavailable(
            message,
            "write it in `identity.issuer` to the letter, with or without the last slash",
        )
    return metadata


def is_safe_endpoint(url: str, issuer: str) -> bool:
    """True if an endpoint that the issuer names is safe from being read or changed on the way."""
    parts = address(url)
    # Only an issuer on this machine may send us to a place on this machine.
    return parts is not None and (parts.scheme == "https" or issuer.startswith("http:"))


def _fetch_metadata(issuer: str, get: Get, asked: type[Asked]) -> Asked:
    status = 0
    for url in _metadata_addresses(issuer):
        answer = get(url)
        status = answer.status
        if status == OK:
            try:
                return msgspec.json.decode(answer.body, type=asked)
            except (ValueError, RecursionError):
                needed = [
                    f"`{field.name}`"
                    for field in msgspec.structs.fields(asked)
                    if field.required
                ]
                raise KeysUnavailable(
                    f"{url} has no metadata with {' and '.join(needed)}"
                ) from None
    raise KeysUnavailable(
        f"The issuer {issuer} has no metadata: HTTP {status}", "check `identity.issuer`"
    )


def _metadata_addresses(issuer: str) -> Iterator[str]:
    """The addresses that may have the metadata: by OpenID Connect Discovery 4.1, then by RFC 8414, 3.1."""
    base = issuer.removesuffix("/")
    yield f"{base}/.well-known/openid-configuration"
    scheme, _, rest = base.partition("://")
    host, slash, path = rest.partition("/")
    # RFC 8414, 3.1: the well-known part stands between the host and the path.
    yield f"{scheme}://{host}/.well-known/oauth-authorization-server{slash}{path}"
