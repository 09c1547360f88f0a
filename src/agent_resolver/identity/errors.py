"""Errors about the identity of a caller. None of these holds a token, a secret, or any part of one.

ResolverError
├── InvalidToken          a token is refused
├── KeysUnavailable       the keys of the issuer cannot be fetched, so that no token can be judged
├── UnusableIdentity      the settings do not say whom to believe
│   └── MissingToken      they do, and no token was given
└── WorkerUnavailable     the worker has no token of its own, so that it cannot act
"""

from enum import StrEnum

from agent_resolver.schema.errors import ResolverError


class TokenCode(StrEnum):
    """Why a token is refused; stable for machines."""

    TOO_LARGE = "TOO_LARGE"
    MALFORMED = "MALFORMED"
    ALGORITHM_REFUSED = "ALGORITHM_REFUSED"
    WRONG_TYPE = "WRONG_TYPE"
    ID_TOKEN = "ID_TOKEN"  # noqa: S105 - a code
    BOUND_TOKEN = "BOUND_TOKEN"  # noqa: S105 - a code
    UNKNOWN_KEY = "UNKNOWN_KEY"
    BAD_SIGNATURE = "BAD_SIGNATURE"
    MISSING_CLAIM = "MISSING_CLAIM"
    INVALID_CLAIM = "INVALID_CLAIM"
    WRONG_ISSUER = "WRONG_ISSUER"
    NO_AUDIENCE = "NO_AUDIENCE"
    WRONG_AUDIENCE = "WRONG_AUDIENCE"
    EXPIRED = "EXPIRED"
    NOT_YET_VALID = "NOT_YET_VALID"


class InvalidToken(ResolverError):
    """A token is refused."""

    def __init__(
        self,
        code: TokenCode,
        message: str,
        remedy: str = "ask the issuer for a new token",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.remedy = remedy
        self.hint = f"{remedy} ({code})"


class KeysUnavailable(ResolverError):
    """The keys of the issuer cannot be fetched."""

    def __init__(
        self, message: str, hint: str = "check that the issuer can be reached from here"
    ) -> None:
        super().__init__(message)
        self.hint = hint


class UnusableIdentity(ResolverError):
    """The settings do not say whom to believe, or what they say cannot be."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class MissingToken(UnusableIdentity):
    """An issuer vouches for callers here, and no token was given."""


class WorkerUnavailable(ResolverError):
    """The worker has no token of its own."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint
