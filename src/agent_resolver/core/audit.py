"""The chain of an audit trail: what each record is hashed to, and what a broken chain tells."""

import hmac
from collections.abc import Iterable, Iterator
from hashlib import sha256

import msgspec
from msgspec import structs

from agent_resolver.schema.audit import AuditRecord


def chained(record: AuditRecord) -> AuditRecord:
    """The record with its hash."""
    return structs.replace(record, hash=_hash(record))


def sealed(root: str, record: AuditRecord, key: bytes | None) -> str:
    """The root over all records once `record` is added; with a key, only its holder can compute it."""
    message = f"{root}{record.hash}".encode()
    return hmac.new(key, message, sha256).hexdigest() if key else sha256(message).hexdigest()


def chain_faults(
    records: Iterable[AuditRecord], count: int, root: str, key: bytes | None, noted: str = ""
) -> Iterator[str]:
    """What is wrong with a trail that claims `count` records under `root`; nothing for an untouched one.

    A root that was `noted` earlier must be the one after some record: the trail may have grown since, and only grown.
    """
    heads: dict[str, AuditRecord] = {}
    computed, seen, is_noted = "", 0, not noted
    for record in records:
        seen += 1
        name = f"record {record.position} (run {record.run}, {record.kind})"
        if record.position != seen:
            yield f"{name} stands where record {seen} should: records were removed or reordered"
            seen = record.position
        if record.hash != _hash(record):
            yield f"{name} was changed"
        before = heads.get(record.run)
        if (record.sequence, record.previous) != ((before.sequence + 1, before.hash) if before else (1, "")):
            yield f"{name} does not follow the record before it in its run: records were changed, removed or reordered"
        heads[record.run] = record
        computed = sealed(computed, record, key)
        is_noted = is_noted or computed == noted
    if seen != count:
        yield f"{count} records were sealed and {seen} are there: records were removed or added"
    if not is_noted:
        yield f"the trail never had the root {noted}: records before it were changed, removed or reordered"
    if computed != root:
        yield "the sealed root is not that of the records" + ("" if key else ", or they were sealed with a key")


def _hash(record: AuditRecord) -> str:
    content = (record.position, record.run, record.sequence, record.at, record.kind, record.body, record.previous)
    return sha256(msgspec.json.encode(content, order="sorted")).hexdigest()
