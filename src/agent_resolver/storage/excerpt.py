"""Excerpts of arguments and results, sealed beside the records of the audit trail."""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Protocol

import msgspec
from msgspec import structs

from agent_resolver.schema.audit import CONTENT, SHOWN, AuditRecord, Record
from agent_resolver.storage.seal import AesSeal


class _Opens(Protocol):
    def open(self, sealed: bytes, purpose: str) -> bytes: ...


def seal_excerpt(record: Record, seal: AesSeal) -> Record:
    """The record with its excerpt sealed beside it: only the digest of the excerpt is in what is chained."""
    text = record.body.get(CONTENT)
    if not isinstance(text, str):
        return record
    digest = _digest_of(text.encode())
    rest = {name: value for name, value in record.body.items() if name != CONTENT}
    body = {**rest, SHOWN: digest}
    return structs.replace(
        record,
        body=body,
        sealed=seal.close(text.encode(), excerpt_purpose(record.run, body)),
    )


def open_excerpt(record: AuditRecord, seal: _Opens) -> str | None:
    """The excerpt of a record; None if it has none, and a remark in brackets if it cannot be read."""
    if record.sealed is None:
        # Earlier versions kept it in the body.
        found = record.body.get(CONTENT)
        return found if isinstance(found, str) else None
    try:
        text = seal.open(record.sealed, excerpt_purpose(record.run, record.body))
    except ValueError:
        return "(it cannot be read: it was changed, or the key of the state is another one)"
    return text.decode("utf-8", "replace")


def excerpt_faults(records: Iterable[AuditRecord], seal: _Opens) -> Iterator[str]:
    """The records whose excerpts are not the ones that were sealed with them."""
    for record in records:
        if record.sealed is not None and not _is_as_sealed(record, record.sealed, seal):
            yield f"the excerpt of record {record.position} (run {record.run}, {record.kind}) was changed"


def _is_as_sealed(record: AuditRecord, sealed: bytes, seal: _Opens) -> bool:
    try:
        text = seal.open(sealed, excerpt_purpose(record.run, record.body))
    except ValueError:
        return False
    # The digest is a part of what the excerpt was sealed for, and of what is chained.
    return record.body.get(SHOWN) == _digest_of(text)


def _digest_of(text: bytes) -> str:
    return f"sha256-{sha256(text).hexdigest()}"


def excerpt_purpose(run: str, body: Mapping[str, object]) -> str:
    """The record that an excerpt is sealed for."""
    return f"excerpt {body.get(SHOWN)} of {run}"


def excerpt_purpose_of_text(run: str, body: str) -> str:
    """The same for a body as it is kept, as JSON."""
    try:
        found = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        found = {}
    return excerpt_purpose(run, found)


def record_document(record: AuditRecord, excerpt: str | None) -> dict[str, Any]:
    """A record as a JSON object: what is chained as it is, and after it the excerpt, opened."""
    document: dict[str, Any] = msgspec.to_builtins(structs.replace(record, sealed=None))
    del document["sealed"]
    return document if excerpt is None else {**document, CONTENT: excerpt}
