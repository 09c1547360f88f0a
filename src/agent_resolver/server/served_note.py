"""Notes on clients that the servers of a project share: kept in the state, for a time."""

import time
from hashlib import sha256
from typing import Final

from agent_resolver.schema.state import SERVED, ServedRow
from agent_resolver.storage.port import Snapshot, Transaction

_SWEPT: Final = 20
"""The rows that are looked at with each write, to remove those whose time is over."""


def short_digest(text: str) -> str:
    """Stands for a text in a key: the text cannot be computed from it."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def milliseconds_now() -> int:
    """The time, in milliseconds since 1970."""
    return int(time.time() * 1000)


def read_note(snapshot: Snapshot, key: str) -> str | None:
    """The note under a key; None if there is none, or if its time is over."""
    row = snapshot.get(SERVED, key)
    if row is not None and row.until > milliseconds_now():
        return row.body
    return None


def put_note(
    transaction: Transaction,
    key: str,
    until: int,
    body: str = "",
) -> None:
    """Keep something until a time. Some of what is of no use any more goes."""
    transaction.put(SERVED, ServedRow(key=key, until=until, body=body))
    now = milliseconds_now()
    # Keys are digests: the rows after a new one are anywhere, and every row is looked
    # at once in a while.
    for row in transaction.find(SERVED, after=(key,), limit=_SWEPT):
        if row.until <= now:
            transaction.drop(SERVED, row.key)
