"""A bill of materials, whichever format it is written in: an agent, and the servers of its lock.

Nothing in it comes from a clock or from chance: the same lock and index give the same bill on every machine.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from uuid import NAMESPACE_URL, UUID, uuid5

from msgspec import Struct

from agent_resolver.core.package import package_of, package_url
from agent_resolver.core.server import known_servers
from agent_resolver.exchange.client.direct import wire_of_entry
from agent_resolver.exchange.jsonc_edit import json_text
from agent_resolver.schema.index import Server
from agent_resolver.schema.lockfile import LockedServer, Lockfile

Property = tuple[str, str]
"""A name that begins with `agent-resolver:`, and its value."""


class BillServer(Struct, frozen=True, kw_only=True):
    """A locked server as a part of an agent."""

    name: str
    version: str
    package_url: str | None
    """The package that it is started from; None if it is called, or started from something else."""
    address: str | None
    """Where it is called; None if it is started."""
    properties: tuple[Property, ...]
    """By name, then value."""


class Bill(Struct, frozen=True, kw_only=True):
    """An agent and its parts."""

    name: str
    version: str
    serial: UUID
    """Made of the digest of the lock."""
    time: datetime
    servers: tuple[BillServer, ...]
    """By name and version."""


def bill_of(
    lockfile: Lockfile,
    digest: str,
    servers: Iterable[Server],
    time: datetime,
) -> Bill:
    """The bill of a lock.

    Args:
        lockfile: The lock, which was verified.
        digest: The digest of its bytes.
        servers: The index that it was verified against, with facts that a lock does not have.
        time: When the bill says that it was made.
    """
    facts = known_servers(servers)
    entries: dict[str, list[LockedServer]] = {}
    for entry in lockfile.servers:
        entries.setdefault(f"{entry.server_id}@{entry.version}", []).append(entry)
    parts = (
        _server_of(found, facts.get(_key_of(found[0])))
        for _, found in sorted(entries.items())
    )
    return Bill(
        name=lockfile.agent_name,
        version=lockfile.agent_version,
        serial=uuid5(NAMESPACE_URL, f"agent-resolver:{digest}"),
        time=time,
        servers=tuple(parts),
    )


def _key_of(entry: LockedServer) -> tuple[str, str]:
    return entry.server_id, entry.version


def _server_of(entries: list[LockedServer], facts: Server | None) -> BillServer:
    first = entries[0]
    found = {
        ("agent-resolver:" + name, value)
        for entry in entries
        for name, value in _properties_of(entry, facts)
    }
    return BillServer(
        name=first.server_id,
        version=first.version,
        package_url=_package_url_of(first),
        address=_address_of(first),
        properties=tuple(sorted(found)),
    )


def _package_url_of(entry: LockedServer) -> str | None:
    """The URL of the package that a server is started from; None if there is no package."""
    package = package_of(entry.launch) if entry.launch else None
    return package_url(package) if package else None


def _address_of(entry: LockedServer) -> str | None:
    """The address of a server that is called; None if it is started, or if no client can call it."""
    is_called = not entry.launch and wire_of_entry(entry)
    return entry.endpoint if is_called else None


def _properties_of(entry: LockedServer, facts: Server | None) -> Iterator[Property]:
    yield from _locked_properties(entry)
    if facts:
        yield from _listed_properties(facts)


def _locked_properties(entry: LockedServer) -> Iterator[Property]:
    """The properties that the lock states."""
    yield "category", entry.category
    yield "endpoint", entry.endpoint
    yield "hash", entry.hash
    yield from (("scope", scope) for scope in entry.scopes)
    if entry.integrity:
        yield "integrity", entry.integrity
    if entry.transport:
        yield "transport", entry.transport
    if entry.launch:
        yield "command", json_text([entry.launch.command, *entry.launch.args])
        yield from (("variable", name) for name in entry.launch.env)
    # The names of tools are those of a foreign server, so they are quoted.
    yield from (
        ("tool", f"{json_text(tool)} {digest}")
        for tool, digest in (entry.tools or {}).items()
    )


def _listed_properties(facts: Server) -> Iterator[Property]:
    """The properties that only the index states."""
    yield from (("residency", region) for region in facts.residency or ())
    if facts.max_sensitivity:
        yield "max-sensitivity", facts.max_sensitivity
    if facts.signed is not None:
        yield "signed", "true" if facts.signed else "false"
    if facts.publisher:
        yield "publisher", facts.publisher
