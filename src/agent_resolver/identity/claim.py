"""What the claims of a token say of a caller. Whatever they do not say clearly, the caller does not have."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from agent_resolver.identity.errors import InvalidToken, TokenCode
from agent_resolver.schema.caller import ANONYMOUS, CONTEXT_CLAIMS, Caller
from agent_resolver.schema.classification import CLASSIFICATION_RANK, Classification

Claims = Mapping[str, Any]

_LONGEST: Final = 255
"""How long a subject may be, as OpenID Connect has it; the same for names of scopes and roles."""
_RESERVED: Final = ("local:", ANONYMOUS.id)
"""How the callers are called that no issuer vouches for."""


def caller_of(claims: Claims) -> Caller:
    """The caller that these claims, already verified, are about.

    Raises:
        InvalidToken: They do not say clearly who that is, or until when.
    """
    stated = _read_context_claims(claims)
    return Caller(
        id=_read_subject(claims),
        is_verified=True,
        issuer=str(claims.get("iss", "")),
        scopes=frozenset(_read_scopes(claims)),
        roles=frozenset(_read_roles(claims)),
        # A level that no rule knows clears for nothing.
        clearance=_read_clearance(stated["clearance_level"]) or "PUBLIC",
        cost_center=stated["cost_center"],
        app_id=_text_or_empty(claims.get("azp"))
        or _text_or_empty(claims.get("client_id")),
        expires_at=_format_instant(moment(claims, "exp")),
        division=stated["division"],
        absent_claims=tuple(name for name in CONTEXT_CLAIMS if not stated[name]),
    )


def moment(claims: Claims, name: str) -> float:
    """A claim that is a time, in seconds since 1970.

    Raises:
        InvalidToken: It is missing, or is no time.
    """
    value = required(claims, name)
    # In Python `True` is an `int`, and would pass for the first second of 1970.
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _invalid_claim(name, "is not a time")
    return value


def required(claims: Claims, name: str) -> Any:  # noqa: ANN401 - a JSON value
    """A claim that must be there.

    Raises:
        InvalidToken: It is missing.
    """
    if claims.get(name) is None:
        message = f"The token has no claim `{name}`"
        raise InvalidToken(
            TokenCode.MISSING_CLAIM,
            message,
            f"let the issuer put `{name}` into its access tokens",
        )
    return claims[name]


def _read_subject(claims: Claims) -> str:
    subject = required(claims, "sub")
    if not _is_name(subject) or subject != subject.strip():
        raise _invalid_claim("sub", f"is not 1 to {_LONGEST} printable characters")
    if subject.casefold().startswith(_RESERVED):
        # It would be taken for somebody that nobody vouches for, in records and in
        # questions for approval.
        raise _invalid_claim("sub", "is a name kept for callers without a token")
    return str(subject)


def _read_scopes(claims: Claims) -> Iterator[str]:
    """The scopes: one text by RFC 9068, a list or a text under other names at some issuers."""
    said = next(
        (
            claims[name]
            for name in ("scope", "scp", "scopes")
            if claims.get(name) is not None
        ),
        "",
    )
    for scope in said.split() if isinstance(said, str) else _split_names(said):
        if _is_name(scope) and not any(map(str.isspace, scope)):
            yield scope


def _read_roles(claims: Claims) -> Iterator[str]:
    realm = claims.get("realm_access")
    yield from _split_names(realm.get("roles") if isinstance(realm, dict) else None)
    yield from _split_names(claims.get("roles"))


def _split_names(value: object) -> Iterator[str]:
    yield from filter(_is_name, value) if isinstance(value, list) else ()


def _is_name(value: object) -> bool:
    if not isinstance(value, str):
        return False
    return 0 < len(value) <= _LONGEST and value.isprintable()


def _text_or_empty(value: object) -> str:
    return str(value) if _is_name(value) else ""


def _read_context_claims(claims: Claims) -> dict[str, str]:
    """The text that the token states for each of `CONTEXT_CLAIMS`; empty for a claim that cannot be used."""
    stated = {}
    for name in CONTEXT_CLAIMS:
        text = _text_or_empty(_only_value(claims.get(name)))
        stated[name] = text if text.strip() else ""
    stated["clearance_level"] = _read_clearance(stated["clearance_level"]) or ""
    return stated


def _only_value(said: object) -> object:
    """The one value of a claim. Keycloak writes an attribute of a user as a text, or as a list of its values."""
    if isinstance(said, list) and len(said) == 1:
        return said[0]
    return said


def _read_clearance(said: str) -> Classification | None:
    # Upper-casing turns some foreign letters into ASCII ones, such as the dotless i of
    # Turkish.
    level = said.upper() if said.isascii() else ""
    return next((known for known in CLASSIFICATION_RANK if known == level), None)


def _format_instant(seconds: float) -> str:
    try:
        time = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        raise _invalid_claim("exp", "is not a time") from None
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _invalid_claim(name: str, problem: str) -> InvalidToken:
    return InvalidToken(
        TokenCode.INVALID_CLAIM,
        f"The claim `{name}` {problem}",
        "correct it at the issuer",
    )
