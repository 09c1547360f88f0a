"""The chain of an audit trail: what each record is hashed to, and what a broken chain tells."""

import hmac
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import structs

from agent_resolver.core.count import counted
from agent_resolver.schema.audit import SHOWN, AuditRecord, Head, Record, Seal

_NO_RECORD: Final = Head(0, "")


def chained(record: AuditRecord) -> AuditRecord:
    """The record with its hash."""
    return structs.replace(record, hash=_hash_record(record))


def sealed(root: str, record: AuditRecord, key: bytes | None) -> str:
    """The root over all records once `record` is added; with a key, only its holder can compute it."""
    return _hash_or_hmac(f"{root}{record.hash}".encode(), key)


def extended(
    seal: Seal,
    heads: Mapping[str, Head],
    records: Sequence[Record],
    at: str,
    key: bytes | None,
) -> tuple[list[AuditRecord], Seal]:
    """The chained form of new records, and the seal once they are added.

    Args:
        seal: The seal as it is.
        heads: The last record of every run that a new record belongs to; runs without one are new.
        records: The new records, in order.
        at: When they were recorded.
        key: What seals the trail.
    """
    # Without a new record the seal keeps its number, and nothing has to be written.
    if not records:
        return [], seal
    last = dict(heads)
    added: list[AuditRecord] = []
    count = seal.count
    root = seal.root
    for new in records:
        # Each record is chained twice: to the one before it in its run, and by the root
        # to all before it.
        head = last.get(new.run, _NO_RECORD)
        count += 1
        record = chained(
            AuditRecord(
                position=count,
                run=new.run,
                sequence=head.sequence + 1,
                at=at,
                kind=new.kind,
                body=dict(new.body),
                previous=head.hash,
                sealed=new.sealed,
            )
        )
        last[new.run] = Head(record.sequence, record.hash)
        root = sealed(root, record, key)
        added.append(record)
    return added, _sealed_again(
        seal,
        key,
        number=seal.number + 1,
        count=count,
        root=root,
    )


def anchored(
    seal: Seal,
    records: Iterable[AuditRecord],
    through: int,
    key: bytes | None,
) -> Seal:
    """The seal once the records up to the position `through` are removed.

    Args:
        seal: The seal as it is.
        records: Every record that is kept now, oldest first.
        through: The position of the last record to remove.
        key: What seals the trail.
    """
    root = seal.anchor_root
    heads = dict(seal.anchor_heads)
    runs_after = set()
    for record in records:
        if record.position > through:
            runs_after.add(record.run)
        else:
            root = sealed(root, record, key)
            heads[record.run] = Head(record.sequence, record.hash)
    # A run with no record after the anchor starts a new chain if it ever goes on; the
    # root covers both.
    straddling = {run: head for run, head in heads.items() if run in runs_after}
    unsealed = structs.replace(
        seal,
        anchor=through,
        anchor_root=root,
        anchor_heads=straddling,
    )
    return resealed(
        structs.replace(unsealed, anchor_seal=_anchor_seal(unsealed, key)), key
    )


def rekeyed(seal: Seal, records: Iterable[AuditRecord], key: bytes | None) -> Seal:
    """The seal of the same records under another key.

    The root that pruning left is kept as a value: the records behind it are gone, and the seal of the anchor vouches
    for it from here on. The caller has verified the trail under its key before.

    Args:
        seal: The seal as it is.
        records: Every record that is kept, oldest first.
        key: The key that seals the trail from here on.
    """
    root = seal.anchor_root
    for record in records:
        root = sealed(root, record, key)
    # The anchor is sealed with the new key too, or its root would still be vouched for
    # by the old one alone.
    return resealed(
        structs.replace(seal, root=root, anchor_seal=_anchor_seal(seal, key)), key
    )


def new_seal(key: bytes | None) -> Seal:
    """The seal of a trail that never had a record."""
    return _sealed_again(Seal(), key)


def resealed(seal: Seal, key: bytes | None) -> Seal:
    """The seal, made again after a change."""
    return _sealed_again(seal, key, number=seal.number + 1)


def is_sealed(seal: Seal, key: bytes | None) -> bool:
    """True if the holder of the key made this seal, and no other one after it as far as the mark tells."""
    return _digests_of(seal, key) == (seal.seal, seal.mark)


def chain_faults(
    records: Iterable[AuditRecord],
    seal: Seal,
    key: bytes | None,
    noted: str = "",
) -> Iterator[str]:
    """The faults of a trail under its seal; none for an untouched one.

    A root that was `noted` earlier must be the one after some record: the trail may have grown since, and only grown.
    What was pruned is not there to be checked: the chain begins at the anchor that pruning left.
    """
    # Without the key, a seal that was made with one looks like a changed one.
    or_sealed = "" if key else ", or it was sealed with a key"
    heads = dict(seal.anchor_heads)
    root = seal.anchor_root
    position = seal.anchor
    if seal.anchor_seal != _anchor_seal(seal, key):
        yield f"the anchor that pruning left was changed{or_sealed}"
    is_noted_root_found = noted in {"", root}
    for record in records:
        position += 1
        yield from _record_faults(record, position, heads.get(record.run, _NO_RECORD))
        # A gap is one fault: what follows is held against the place where it is.
        position = record.position
        heads[record.run] = Head(record.sequence, record.hash)
        root = sealed(root, record, key)
        is_noted_root_found = is_noted_root_found or root == noted
    if position != seal.count:
        was_sealed = counted(seal.count, "record was", "records were")
        are_there = counted(position, "is", "are")
        yield f"{was_sealed} sealed and {are_there} there: records were removed or added"
    if not is_noted_root_found:
        pruned = (
            f", or it is older than record {seal.anchor}, up to which records were pruned"
            if seal.anchor
            else ""
        )
        yield f"the trail never had the root {noted}: records before it were changed, removed or reordered{pruned}"
    yield from _seal_faults(seal, root, key)


def _seal_faults(seal: Seal, root: str, key: bytes | None) -> Iterator[str]:
    """The faults of a seal over records that have this root."""
    if root != seal.root:
        or_sealed = "" if key else ", or they were sealed with a key"
        yield f"the sealed root is not that of the records{or_sealed}"
    # A wrong root makes the seal wrong as well, so that would be the same fault
    # reported twice.
    elif not is_sealed(seal, key):
        another = "with another key" if key else "with a key"
        yield f"the seal is not the last one that was made: records were removed, or it was changed or made {another}"


def had_root(
    records: Iterable[AuditRecord],
    seal: Seal,
    key: bytes | None,
    noted: str,
) -> bool:
    """True if a trail had a root that was noted while another key sealed the trail.

    Args:
        records: Every record that is kept, oldest first, verified under the present key.
        seal: The seal. Records that were pruned since the key was changed leave nothing to compute the root from.
        key: The key that sealed the trail when the root was noted.
        noted: The root.
    """
    root = seal.anchor_root
    roots = {root}
    for record in records:
        root = sealed(root, record, key)
        roots.add(root)
    return noted in roots


def _record_faults(record: AuditRecord, position: int, before: Head) -> Iterator[str]:
    """The faults of one record.

    Args:
        record: The record.
        position: Where it should be in the trail.
        before: The record before it in its run.
    """
    name = f"record {record.position} (run {record.run}, {record.kind})"
    if record.position != position:
        yield f"{name} stands where record {position} should: records were removed or reordered"
    if record.hash != _hash_record(record):
        yield f"{name} was changed"
    if SHOWN in record.body and record.sealed is None:
        yield f"{name} has lost its excerpt"
    is_next = record.sequence == before.sequence + 1
    if not is_next or record.previous != before.hash:
        yield f"{name} does not follow the record before it in its run: records were changed, removed or reordered"


def _anchor_seal(seal: Seal, key: bytes | None) -> str:
    """The seal of the anchor alone; empty where nothing was pruned.

    Without it, an attacker who has seen an earlier root could remove the records before it, and call that root the
    anchor.
    """
    content = (seal.anchor, seal.anchor_root, seal.anchor_heads)
    if content == (0, "", {}):
        return ""
    # The first word tells the kinds of digest apart: a seal or a mark can never pass as
    # that of an anchor.
    return _hash_or_hmac(b"anchor" + msgspec.json.encode(content, order="sorted"), key)


def _sealed_again(seal: Seal, key: bytes | None, **changes: Any) -> Seal:  # noqa: ANN401 - fields of the seal
    changed = structs.replace(seal, **changes)
    digest, mark = _digests_of(changed, key)
    return structs.replace(changed, seal=digest, mark=mark)


def _digests_of(seal: Seal, key: bytes | None) -> tuple[str, str]:
    """The seal and its mark."""
    # The seal of the anchor stands for its heads, which may be many.
    content = (
        f"seal {seal.number} {seal.count} {seal.root} {seal.anchor} {seal.anchor_seal}"
    )
    digest = _hash_or_hmac(content.encode(), key)
    return digest, _hash_or_hmac(f"mark {seal.number} {digest}".encode(), key)


def _hash_or_hmac(message: bytes, key: bytes | None) -> str:
    # Without a key, an attacker who can write the trail can make its seal as well: it
    # then shows accidents alone.
    return (
        hmac.digest(key, message, "sha256").hex()
        if key
        else sha256(message).hexdigest()
    )


def _hash_record(record: AuditRecord) -> str:
    # The excerpt is not hashed: a document of evidence holds the record without it, and
    # can still be verified. Members are sorted, since their order in a body means
    # nothing.
    content = (
        record.position,
        record.run,
        record.sequence,
        record.at,
        record.kind,
        record.body,
        record.previous,
    )
    return sha256(msgspec.json.encode(content, order="sorted")).hexdigest()
