"""Verifies that a lock still holds: against itself, against the agent file and against the index."""

import re
from collections.abc import Iterable, Iterator

from msgspec import UNSET, Struct, structs

from agent_resolver.core.constraint import limits_of, requirements_of
from agent_resolver.core.lock import (
    address,
    called_at,
    integrity_of,
    lock_entry,
    server_hash,
)
from agent_resolver.core.lock_difference import Difference, DifferenceKind
from agent_resolver.core.pairing import pair_by_likeness
from agent_resolver.core.rule import judge
from agent_resolver.core.server import KnownServers, known_servers
from agent_resolver.core.tool_definition import definition_changes
from agent_resolver.schema.agent_file import AgentFile, Limits, Requirement
from agent_resolver.schema.conflict import find_conflict
from agent_resolver.schema.errors import InvalidLockfile
from agent_resolver.schema.index import Server
from agent_resolver.schema.lockfile import (
    LockedServer,
    Lockfile,
    is_newer,
    is_ours,
    parse_lockfile,
    to_json,
)

_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)


class Examined(Struct, frozen=True):
    """The bytes of a lock, as far as they could be read, and all about them that does not hold."""

    lockfile: Lockfile | None
    """None when the bytes are no lock."""
    differences: tuple[Difference, ...]


def examine(
    raw: bytes,
    agent: AgentFile,
    servers: KnownServers | Iterable[Server],
) -> Examined:
    """Everything about the lock with these bytes that does not hold; nothing means that it may govern a run.

    `servers` may be given by `known_servers`, which serves many locks.
    """
    # An unfit file is named as such first: read as a lock, a merge conflict would only
    # be a fault in the JSON.
    problem = unusable(raw)
    if problem:
        return Examined(None, (problem,))
    try:
        lockfile = parse_lockfile(raw)
    except InvalidLockfile as error:
        return Examined(
            None,
            tuple(
                Difference(DifferenceKind.MALFORMED, "lock", str(found))
                for found in error.issues
            ),
        )
    differences = verify(lockfile, agent, servers)
    # The form is looked at last: any other difference says more than that the bytes are
    # others.
    if not differences and not is_as_written(raw, lockfile):
        message = "Its bytes are not the ones that `agent resolve` writes"
        differences = (Difference(DifferenceKind.FORMAT_EDITED, "lock", message),)
    return Examined(lockfile, differences)


def unusable(raw: bytes) -> Difference | None:
    """Why these bytes must not be read as a lock, or overwritten as one, without a person."""
    if not raw:
        return Difference(DifferenceKind.MALFORMED, "lock", "The file is empty")
    conflict = find_conflict(raw)
    if conflict and any(map(is_ours, conflict.sides)):
        sides = f"between `{conflict.ours}` and `{conflict.theirs}`"
        return Difference(
            DifferenceKind.MERGE_CONFLICT,
            "lock",
            f"Line {conflict.line} opens a merge conflict {sides}",
        )
    if not is_ours(raw):
        return Difference(
            DifferenceKind.FOREIGN_FILE,
            "lock",
            "It was not written by `agent resolve`",
        )
    if is_newer(raw):
        return Difference(
            DifferenceKind.NEWER_FORMAT,
            "lock",
            "It was written by a newer version of `agent`",
        )
    return None


def verify(
    lockfile: Lockfile,
    agent: AgentFile,
    servers: KnownServers | Iterable[Server],
) -> tuple[Difference, ...]:
    """Everything about `lockfile` that does not hold; nothing means that it may govern a run.

    1. The lock is for this agent.
    2. Every entry has the hash and the integrity of what it pins.
    3. Every entry answers a requirement of the agent file with exactly its scopes, and every requirement has one.
    4. The index has that server, unchanged, and it breaks none of the agent's rules.

    A better server in the index is not a difference: a lock is there to keep what was chosen.
    """
    known = known_servers(servers)
    limits = limits_of(agent)
    return (
        *_agent_differences(lockfile, agent),
        *(found for entry in lockfile.servers for found in _hash_differences(entry)),
        *_requirement_differences(lockfile, agent),
        *(
            found
            for entry in lockfile.servers
            for found in _server_differences(entry, known, limits)
        ),
    )


def is_as_written(raw: bytes, lockfile: Lockfile) -> bool:
    """True if the bytes of a lock are the ones that were written, but for line ends that a checkout may change."""
    # The order and the version are those that `resolve` writes.
    in_order = sorted(
        lockfile.servers, key=lambda entry: (entry.category, entry.scopes)
    )
    version = 2 if any(entry.integrity for entry in in_order) else UNSET
    written = structs.replace(lockfile, servers=tuple(in_order), lock_version=version)
    return bool(_INSTANT.fullmatch(lockfile.resolved_at)) and raw.replace(
        b"\r\n", b"\n"
    ) == to_json(written)


def _agent_differences(lockfile: Lockfile, agent: AgentFile) -> Iterator[Difference]:
    locked = f"{lockfile.agent_name}@{lockfile.agent_version}"
    current = f"{agent.name}@{agent.version}"
    if locked != current:
        yield Difference(
            DifferenceKind.AGENT_CHANGED,
            "agent",
            f"Locked for '{locked}', but the file says '{current}'",
        )


def _hash_differences(entry: LockedServer) -> Iterator[Difference]:
    expected = server_hash(entry.server_id, entry.version, entry.endpoint, entry.scopes)
    if entry.hash != expected:
        message = f"Its hash is {entry.hash}, but what it pins hashes to {expected}"
        yield Difference(DifferenceKind.HASH_EDITED, _entry_name(entry), message)
    if entry.integrity != integrity_of(entry):
        yield Difference(
            DifferenceKind.HASH_EDITED,
            _entry_name(entry),
            f"Its integrity is {entry.integrity or 'absent'}, but should be {integrity_of(entry) or 'absent'}",
        )
    # The hash covers the endpoint, and the command is what would be started: the two
    # must belong together.
    if entry.launch and entry.launch.endpoint != entry.endpoint:
        yield Difference(
            DifferenceKind.LAUNCH_CHANGED,
            _entry_name(entry),
            "The endpoint is not that of the launch record",
        )


def _requirement_differences(
    lockfile: Lockfile,
    agent: AgentFile,
) -> Iterator[Difference]:
    needs = requirements_of(agent)
    # Exact pairs come first, so that no entry counts as changed while it answers a
    # requirement as it is.
    exact, entries = pair_by_likeness(
        needs,
        lockfile.servers,
        _asked_by_need,
        _asked_by_entry,
    )
    needs_left = [need for need, entry in exact if entry is None]
    near, entries = pair_by_likeness(
        needs_left,
        entries,
        lambda need: need.category,
        lambda entry: entry.category,
    )
    for need, found in near:
        if found is None:
            message = "The agent file requires it, and the lock has no server for it"
            yield Difference(DifferenceKind.REQUIREMENT_CHANGED, need.category, message)
        else:
            yield from _scope_differences(found, need)
    required = set(map(_asked_by_need, needs))
    for entry in entries:
        is_surplus = _asked_by_entry(entry) in required
        why = (
            "another entry answers that requirement already"
            if is_surplus
            else "the agent file does not require it"
        )
        message = f"The lock has {_entry_name(entry)} for it, and {why}"
        yield Difference(DifferenceKind.REQUIREMENT_CHANGED, entry.category, message)


def _asked_by_need(need: Requirement) -> tuple[str, tuple[str, ...]]:
    return need.category, need.permissions


def _asked_by_entry(entry: LockedServer) -> tuple[str, tuple[str, ...]]:
    return entry.category, entry.scopes


def _scope_differences(entry: LockedServer, need: Requirement) -> Iterator[Difference]:
    locked = set(entry.scopes)
    asked = set(need.permissions)
    wider = ", ".join(sorted(locked - asked))
    narrower = ", ".join(sorted(asked - locked))
    if wider:
        message = f"Locked with scopes the agent file does not ask for: {wider}"
        yield Difference(DifferenceKind.SCOPES_WIDENED, _entry_name(entry), message)
    if narrower:
        message = f"Locked without scopes the agent file asks for: {narrower}"
        yield Difference(DifferenceKind.SCOPES_NARROWED, _entry_name(entry), message)
    if not wider and not narrower:
        message = "The scopes are not listed as the agent file lists them"
        yield Difference(
            DifferenceKind.REQUIREMENT_CHANGED,
            _entry_name(entry),
            message,
        )


def _server_differences(
    entry: LockedServer,
    known: KnownServers,
    limits: Limits,
) -> Iterator[Difference]:
    server = known.get((entry.server_id, entry.version))
    if server is None:
        yield Difference(
            DifferenceKind.SERVER_VANISHED,
            _entry_name(entry),
            "The index does not have this server any more",
        )
        return
    # The entry is judged by its own scopes; that they are those of the agent file is
    # checked elsewhere.
    need = Requirement(category=entry.category, permissions=entry.scopes)
    fresh = lock_entry(need, server)
    # Another command has another endpoint as well, which would be the same difference
    # twice.
    if fresh.launch != entry.launch:
        message = f"Locked as '{address(entry)}', but the index says '{address(fresh)}'"
        yield Difference(DifferenceKind.LAUNCH_CHANGED, _entry_name(entry), message)
    elif (fresh.endpoint, fresh.transport) != (entry.endpoint, entry.transport):
        message = (
            f"Locked at '{called_at(entry)}', but the index says '{called_at(fresh)}'"
        )
        yield Difference(DifferenceKind.ENDPOINT_MOVED, _entry_name(entry), message)
    if fresh.tool_scopes != entry.tool_scopes:
        message = "Which scopes open its tools is not what the index says"
        yield Difference(
            DifferenceKind.TOOL_SCOPES_CHANGED,
            _entry_name(entry),
            message,
        )
    for message in _tool_differences(entry, fresh):
        yield Difference(DifferenceKind.TOOL_CHANGED, _entry_name(entry), message)
    if reason := judge(need, limits)(server):
        yield Difference(
            DifferenceKind.NOT_ELIGIBLE,
            _entry_name(entry),
            reason.message,
        )


def _tool_differences(entry: LockedServer, fresh: LockedServer) -> Iterator[str]:
    if entry.tools is UNSET and fresh.tools is not UNSET:
        yield "The index pins the definitions of its tools, and the lock does not"
    elif fresh.tools is UNSET and entry.tools is not UNSET:
        yield "The lock pins the definitions of its tools, and the index does not any more"
    else:
        for change in definition_changes(entry.tools or {}, fresh.tools or {}):
            yield f"The definition of the tool `{change.tool}` was {change.kind} since it was locked"


def _entry_name(entry: LockedServer) -> str:
    return f"{entry.server_id}@{entry.version}"
