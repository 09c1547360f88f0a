"""The start of a page, as an opaque word that holds for one listing only."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Final

from agent_resolver.catalog.errors import BadCursor

_MARK: Final = 8


def encode_cursor(listing: str, last: str) -> str:
    """The cursor that goes on after the address `last` in the listing with this digest."""
    return (
        urlsafe_b64encode(_listing_marks(listing, last) + last.encode())
        .decode()
        .rstrip("=")
    )


def decode_cursor(cursor: str, listing: str) -> str:
    """The address after which a cursor of this listing goes on.

    Raises:
        BadCursor: It is none, or one of a listing that has changed since.
    """
    try:
        packed = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        last = packed[2 * _MARK :].decode()
    except ValueError:
        raise BadCursor("it was not given by this server") from None
    if encode_cursor(listing, last) == cursor:
        return last
    is_ours = packed[_MARK : 2 * _MARK] == _short_digest(packed[:_MARK] + last.encode())
    raise BadCursor(
        "the listing has changed" if is_ours else "it was not given by this server"
    )


def _listing_marks(listing: str, last: str) -> bytes:
    """The listing, and a check that listing and address belong together."""
    mark = _short_digest(listing.encode())
    return mark + _short_digest(mark + last.encode())


def _short_digest(value: bytes) -> bytes:
    return sha256(value).digest()[:_MARK]
