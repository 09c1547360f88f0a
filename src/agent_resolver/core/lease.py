"""Decides who may hold a lease."""

from agent_resolver.schema.state import LeaseRow


def is_free(row: LeaseRow | None, now: float, *, is_owner_gone: bool) -> bool:
    """True if a lease can be claimed: it is new, was released, has run out, or its holder's process is gone."""
    return row is None or not row.owner or row.until <= now or is_owner_gone


def claimed(row: LeaseRow | None, name: str, owner: str, until: float) -> LeaseRow:
    """The row of a new holder; its number is higher than that of every holder before."""
    number = row.number + 1 if row else 1
    return LeaseRow(name=name, owner=owner, number=number, until=until)
