"""The address of Temporal, and the names of a project there. It imports nothing of Temporal."""

import platform
import re
import uuid
from typing import Final

from msgspec import Struct

from agent_resolver.schema.canonical_digest import digest

_MADE_UP: Final = 1 << 40
"""The bit that no network card has in its address, and that Python sets in one that it makes up."""


class TemporalPlace(Struct, frozen=True, kw_only=True):
    """A server, and the names of one project there."""

    address: str
    namespace: str = "default"
    queue: str
    """The queue that all workers of the project listen to; the ids of its workflows begin with it."""
    state: str
    """Names the state. A run of one state is never taken up by a worker of another."""
    machine: str = ""
    is_shared: bool = False
    """True if processes of several machines can use the state."""
    is_versioned: bool = True
    """False for the server that skips time: it knows neither versions of workers, nor which of them are there, nor
    that one is gone which had a workflow in memory."""
    api_key: str = ""
    is_encrypted: bool = False
    root_certificate: bytes = b""
    patience_seconds: float = 120.0
    """How long a workflow may do nothing for a run that can go on, before another one takes its place."""
    most_events: int = 4_000
    """After so many events, the workflow of a run begins another history."""

    @property
    def deployment(self) -> str:
        """The name under which the server keeps the versions of the workers."""
        return self.queue.replace("/", "-")


def place_of(
    address: str,
    project: str,
    location: str,
    *,
    is_shared: bool,
    namespace: str = "default",
) -> TemporalPlace:
    """The place of a project.

    Args:
        address: That of the server.
        project: The name of the project.
        location: What tells its state from every other: its path on this machine, or the name of a database.
        is_shared: True if processes of several machines can use the state.
        namespace: The server's word for what is kept apart there.
    """
    machine = machine_name()
    name = re.sub("[^a-z0-9-]+", "-", project.lower())[:40].strip("-") or "project"
    # Two checkouts of a project on one machine have two states, and two queues.
    mark = digest(location)[-12:]
    state = mark if is_shared else f"{mark}@{machine}"
    return TemporalPlace(
        address=address,
        namespace=namespace,
        queue=f"agent-{name}-{mark}",
        state=state,
        machine=machine,
        is_shared=is_shared,
    )


def machine_name() -> str:
    """A name for this machine that others do not have."""
    card = uuid.getnode()
    # Without a network card, each process gets an address of its own.
    if card & _MADE_UP:
        return platform.node()
    return f"{platform.node()}-{card:012x}"


def payload_purpose(run: str, reference: str) -> str:
    """The place that a large payload is sealed for, in the store."""
    return f"temporal-payload/{run}/{reference}"
