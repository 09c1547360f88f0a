"""Egress: the hosts that data may leave for when a tool is called, and the patterns that list the allowed ones."""

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from agent_resolver.core.pattern import matches
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.lockfile import LockedServer

EVERY_HOST: Final = "*"
"""The pattern that lists every host, those that are not known included."""
_MAX_HOST: Final = 253
_LABEL: Final = re.compile(
    r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?", re.ASCII
)
_SCHEMES: Final = frozenset({"http", "https", "ws", "wss"})


def is_host(text: str) -> bool:
    """True for the name of a machine or its address, without a port; IPv6 without brackets."""
    # An IPv6 address has colons, which no label may have.
    try:
        ip_address(text)
    except ValueError:
        return len(text) <= _MAX_HOST and all(
            _LABEL.fullmatch(label) for label in text.split(".")
        )
    return True


def egress_hosts(
    descriptor: Descriptor,
    server_hosts: Mapping[str, str],
) -> tuple[str, ...] | None:
    """The hosts that a tool reaches, sorted; empty if it stays on this machine, None if they are not known.

    Args:
        descriptor: The tool.
        server_hosts: Maps the source of a locked server's tools to the host of its endpoint, as `hosts_of_servers`
            does. A server that is a process on this machine is not in it: what such a program reaches is not known.
    """
    labels = descriptor.labels
    if labels.hosts:
        return tuple(sorted(labels.hosts))
    if labels.kind == "TOOL":
        host = server_hosts.get(descriptor.source)
        return None if host is None else (host,)
    # Code of the project that names no hosts stays on this machine only if it promises
    # to.
    if labels.allow_outbound:
        return None
    return ()


def hosts_of_servers(servers: Iterable[LockedServer]) -> dict[str, str]:
    """Maps the source of each locked server's tools, such as `server acme@3.0.0`, to the host of its endpoint."""
    return {
        f"server {server.server_id}@{server.version}": host
        for server in servers
        if (host := _endpoint_host(server))
    }


def _endpoint_host(server: LockedServer) -> str:
    """The host of a server's endpoint; empty if the server is started as a process."""
    if server.launch:
        return ""
    try:
        parts = urlsplit(server.endpoint)
    except ValueError:
        # An endpoint that is no address names no host, so what the tool reaches counts
        # as not known.
        return ""
    if parts.scheme in _SCHEMES:
        return parts.hostname or ""
    return ""


def unlisted_hosts(hosts: Iterable[str], patterns: Iterable[str]) -> tuple[str, ...]:
    """The hosts that no pattern lists, sorted. Host names have no case."""
    lowered = [pattern.lower() for pattern in patterns]
    return tuple(
        sorted(
            host
            for host in hosts
            if not any(matches(pattern, host.lower()) for pattern in lowered)
        )
    )
