"""Whether a lock still holds: against itself, against the agent file and against the index."""

from collections.abc import Iterable, Iterator
from enum import StrEnum

from msgspec import UNSET, Struct, structs

from agent_resolver.core.constraint import Limits, limits_of, requirements_of
from agent_resolver.core.lock import lock_entry, server_hash
from agent_resolver.core.rule import judge
from agent_resolver.core.server import Server
from agent_resolver.schema import AgentFile, LockedServer, Lockfile, Requirement, digest, to_json


class DifferenceKind(StrEnum):
    """What about a lock does not hold."""

    AGENT_CHANGED = "agent-changed"
    ENDPOINT_MOVED = "endpoint-moved"
    FORMAT_EDITED = "format-edited"
    HASH_EDITED = "hash-edited"
    LAUNCH_CHANGED = "launch-changed"
    NOT_ELIGIBLE = "not-eligible"
    REQUIREMENT_CHANGED = "requirement-changed"
    SCOPES_NARROWED = "scopes-narrowed"
    SCOPES_WIDENED = "scopes-widened"
    SERVER_VANISHED = "server-vanished"
    TOOL_SCOPES_CHANGED = "tool-scopes-changed"


class Difference(Struct, frozen=True):
    """One thing that the lock says and that is not so."""

    kind: DifferenceKind
    subject: str
    """The server or category it is about, or the agent."""
    message: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.message}"


def verify(lockfile: Lockfile, agent: AgentFile, servers: Iterable[Server]) -> tuple[Difference, ...]:
    """Everything about `lockfile` that does not hold; nothing means that it may govern a run.

    1. The lock is for this agent.
    2. Every entry has the hash and the integrity of what it pins.
    3. Every entry answers a requirement of the agent file with exactly its scopes, and every requirement has one.
    4. The index has that server, unchanged, and it breaks none of the agent's rules.

    That the index has a better server by now is no difference: a lock is there to keep what was chosen.
    """
    known = {(server.id, server.version): server for server in servers}
    limits = limits_of(agent)
    return (
        *_agent(lockfile, agent),
        *(found for entry in lockfile.servers for found in _hashes(entry)),
        *_requirements(lockfile, agent),
        *(found for entry in lockfile.servers for found in _server(entry, known, limits)),
    )


def is_as_written(raw: bytes, lockfile: Lockfile) -> bool:
    """Whether the bytes of a lock are the ones that were written, but for line ends that a checkout may change."""
    return raw.replace(b"\r\n", b"\n") == to_json(lockfile)


def format_difference() -> Difference:
    """The difference of a lock that says the same in other bytes."""
    return Difference(DifferenceKind.FORMAT_EDITED, "lock", "Its bytes are not the ones that `agent resolve` writes")


def _agent(lockfile: Lockfile, agent: AgentFile) -> Iterator[Difference]:
    locked, current = f"{lockfile.agent_name}@{lockfile.agent_version}", f"{agent.name}@{agent.version}"
    if locked != current:
        yield Difference(DifferenceKind.AGENT_CHANGED, "agent", f"Locked for '{locked}', but the file says '{current}'")


def _hashes(entry: LockedServer) -> Iterator[Difference]:
    expected = server_hash(entry.server_id, entry.version, entry.endpoint, entry.scopes)
    bare = structs.replace(entry, integrity=UNSET)
    uses_more = bare.launch is not UNSET or bare.tool_scopes is not UNSET
    if entry.hash != expected:
        yield Difference(
            DifferenceKind.HASH_EDITED, _name(entry), f"Its hash does not match what it pins, which is {expected}"
        )
    if entry.integrity != (digest(bare) if uses_more else UNSET):
        yield Difference(DifferenceKind.HASH_EDITED, _name(entry), "Its integrity does not match what it pins")
    if entry.launch and entry.launch.endpoint != entry.endpoint:
        yield Difference(DifferenceKind.LAUNCH_CHANGED, _name(entry), "The endpoint is not that of the launch record")


def _requirements(lockfile: Lockfile, agent: AgentFile) -> Iterator[Difference]:
    needs, entries = list(requirements_of(agent)), list(lockfile.servers)
    for need in [*needs]:
        exact = next((entry for entry in entries if _answers(entry, need)), None)
        if exact:
            needs.remove(need)
            entries.remove(exact)
    for need in needs:
        near = next((entry for entry in entries if entry.category == need.category), None)
        if near is None:
            message = "The agent file requires it, and the lock has no server for it"
            yield Difference(DifferenceKind.REQUIREMENT_CHANGED, need.category, message)
            continue
        entries.remove(near)
        yield from _scopes(near, need)
    for entry in entries:
        message = f"The lock has {_name(entry)} for it, and the agent file does not require it"
        yield Difference(DifferenceKind.REQUIREMENT_CHANGED, entry.category, message)


def _answers(entry: LockedServer, need: Requirement) -> bool:
    return (entry.category, entry.scopes) == (need.category, need.permissions)


def _scopes(entry: LockedServer, need: Requirement) -> Iterator[Difference]:
    wider = ", ".join(sorted(set(entry.scopes) - set(need.permissions)))
    narrower = ", ".join(sorted(set(need.permissions) - set(entry.scopes)))
    if wider:
        message = f"Locked with scopes the agent file does not ask for: {wider}"
        yield Difference(DifferenceKind.SCOPES_WIDENED, _name(entry), message)
    if narrower:
        message = f"Locked without scopes the agent file asks for: {narrower}"
        yield Difference(DifferenceKind.SCOPES_NARROWED, _name(entry), message)
    if not wider and not narrower:
        message = "The scopes are not listed as the agent file lists them"
        yield Difference(DifferenceKind.REQUIREMENT_CHANGED, _name(entry), message)


def _server(entry: LockedServer, known: dict[tuple[str, str], Server], limits: Limits) -> Iterator[Difference]:
    server = known.get((entry.server_id, entry.version))
    if server is None:
        yield Difference(DifferenceKind.SERVER_VANISHED, _name(entry), "The index does not have this server any more")
        return
    need = Requirement(category=entry.category, permissions=entry.scopes)
    fresh = lock_entry(need, server)
    if fresh.endpoint != entry.endpoint:
        message = f"Locked at '{entry.endpoint}', but the index says '{fresh.endpoint}'"
        yield Difference(DifferenceKind.ENDPOINT_MOVED, _name(entry), message)
    if fresh.launch != entry.launch:
        message = "The command that starts it is not the one in the index"
        yield Difference(DifferenceKind.LAUNCH_CHANGED, _name(entry), message)
    if fresh.tool_scopes != entry.tool_scopes:
        message = "Which scopes open its tools is not what the index says"
        yield Difference(DifferenceKind.TOOL_SCOPES_CHANGED, _name(entry), message)
    if reason := judge(need, limits)(server):
        yield Difference(DifferenceKind.NOT_ELIGIBLE, _name(entry), reason.message)


def _name(entry: LockedServer) -> str:
    return f"{entry.server_id}@{entry.version}"
