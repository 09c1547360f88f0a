"""Decides from its marks whether a token is an access token that every bearer may use.

An ID token tells a program who signed in. It is shown around, and is signed with the same keys as an access token. By
OpenID Connect it needs no mark, so a token without any mark of an access token is not taken for one.
"""

from collections.abc import Mapping
from typing import Any, Final

from agent_resolver.identity.errors import InvalidToken, TokenCode

_TYPES: Final = frozenset({"jwt", "at+jwt"})
"""RFC 9068 has `at+jwt`, and many issuers write `JWT`; tokens for other purposes have types of their own."""
_OTHER_USES: Final = frozenset({"refresh", "offline", "logout"})
"""What Keycloak has in the claim `typ` of tokens that are neither for access nor ID tokens."""
_ONLY_IN_ID_TOKENS: Final = ("at_hash", "c_hash", "s_hash")
"""OpenID Connect Core, 3.3.2.11, and FAPI: each binds an ID token to what was given out with it."""
_ONLY_IN_ACCESS_TOKENS: Final = ("scope", "scp", "scopes", "client_id", "cid", "appid")
"""RFC 9068, 2.2, and the words that Okta and Microsoft have for the same."""
_CLIENTS: Final = ("azp", "client_id", "cid", "appid")


def check_purpose(header: Mapping[str, Any], claims: Mapping[str, Any]) -> None:
    """Refuse a token that is not for access, or that only the holder of a key may use.

    Raises:
        InvalidToken: It is one.
    """
    kind = str(header.get("typ", "JWT")).lower().removeprefix("application/")
    uses = _stated_uses(claims)
    token_use = str(claims.get("token_use", "access")).lower()
    is_for_other_use = bool(uses & _OTHER_USES) or token_use not in {"access", "id"}
    # RFC 8417, 2.2: what happened, as in a logout token.
    if kind not in _TYPES or is_for_other_use or claims.get("events") is not None:
        message = "The token is signed, and is not an access token"
        raise InvalidToken(
            TokenCode.WRONG_TYPE,
            message,
            "send the `access_token` of the issuer's answer",
        )
    is_marked = kind == "at+jwt" or bool(uses & {"bearer", "access"})
    if "id" in uses or _is_like_an_id_token(claims, is_marked=is_marked):
        message = "The token is signed, and does not show that it is an access token: an ID token looks like it"
        remedy = "send the `access_token` of the issuer's answer, or let the issuer write `at+jwt` into its header"
        raise InvalidToken(TokenCode.ID_TOKEN, message, remedy)
    if claims.get("cnf") is not None or "dpop" in uses:
        # RFC 7800: only who holds that key may use the token, and no proof of it is
        # looked at here.
        message = "The token is bound to a key (`cnf`), and no proof of that key can be verified here"
        raise InvalidToken(
            TokenCode.BOUND_TOKEN,
            message,
            "ask the issuer for a bearer token, which is not bound",
        )


def _stated_uses(claims: Mapping[str, Any]) -> set[str]:
    """The words in the claims for the kind of a token, in small letters.

    Keycloak has the same header for all its tokens, and states in the claim `typ` what each is; Cognito in `token_use`.
    """
    stated = (claims.get(name) for name in ("typ", "token_use", "token_type"))
    return {str(use).lower() for use in stated if use is not None}


def _is_like_an_id_token(claims: Mapping[str, Any], *, is_marked: bool) -> bool:
    if any(name in claims for name in _ONLY_IN_ID_TOKENS):
        return True
    if is_marked:
        return False
    # The audience of an ID token is the program that asked for it.
    clients = [claims[name] for name in _CLIENTS if name in claims]
    is_for_its_client = any(
        claims.get("aud") in (client, [client]) for client in clients
    )
    has_access_claim = any(
        claims.get(name) is not None for name in _ONLY_IN_ACCESS_TOKENS
    )
    return "nonce" in claims or is_for_its_client or not has_access_claim
