"""The changes between two locks, and how much of a risk each of them is."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Literal

from msgspec import UNSET, Struct

from agent_resolver.core.constraint import limits_of
from agent_resolver.core.lock import address, called_at, integrity_of, server_hash
from agent_resolver.core.pairing import pair_by_likeness
from agent_resolver.core.server import KnownServers
from agent_resolver.core.tool_definition import DefinitionChange, definition_changes
from agent_resolver.schema.agent_file import AgentFile, Limits
from agent_resolver.schema.index import Server
from agent_resolver.schema.lockfile import LockedServer, Lockfile
from agent_resolver.schema.vocabulary import SENSITIVITY_RANK


class Risk(StrEnum):
    """The degrees of risk of a change, the least first."""

    SAFE = "safe"
    """The agent may do less than before, or nothing else than before."""
    REVIEW = "review"
    """Nothing is known to be worse, but a person should have a look."""
    RISK = "risk"
    """The agent may reach or do what it could not, or a promise about a server is gone."""


class ChangeKind(StrEnum):
    """The kinds of change between two locks.

    Below each member: the line that `agent diff` prints and its meaning, as docs/reason-codes.md has them. A kind that
    `DifferenceKind` has too gets its meaning alone.
    """

    ACTION_ALLOWED = "action-allowed"
    """constraints: action-allowed - <pattern>

    A pattern is no longer in `constraints.actions.forbid`. What it forbade may be asked for and called again. Patterns
    are compared as text: one that was replaced by a wider one is listed too.
    """
    ACTION_FORBIDDEN = "action-forbidden"
    """constraints: action-forbidden + <pattern>

    A pattern was added to `constraints.actions.forbid`.
    """
    AGENT_CHANGED = "agent-changed"
    """Another name or another version of the agent."""
    ENDPOINT_MOVED = "endpoint-moved"
    """The same server at another address."""
    FACTS_UNKNOWN = "facts-unknown"
    """<category>: facts-unknown + <servers>

    The index beside a lock does not have the server that the lock pins, so the facts of the two servers cannot be
    compared. `agent verify` reports [`server-vanished`](#server-vanished) for that lock.
    """
    HASH_EDITED = "hash-edited"
    """The hash in the *new* lock is not that of its entry. The value before the arrow is what it should be."""
    LAUNCH_CHANGED = "launch-changed"
    """The same server, started by another command, with other arguments or other variables."""
    MAX_SENSITIVITY_CHANGED = "max-sensitivity-changed"
    """<category>: max-sensitivity-changed <sensitivity> → <sensitivity>

    The index states another `maxSensitivity` for the server, or the new server has another. The resolution decides if
    it is still enough.
    """
    REQUIRE_SIGNED_DROPPED = "require-signed-dropped"
    """constraints: require-signed-dropped - true

    The agent file no longer asks for signed servers.
    """
    REQUIRE_SIGNED_SET = "require-signed-set"
    """constraints: require-signed-set + true

    The agent file asks for signed servers now.
    """
    REQUIREMENT_ADDED = "requirement-added"
    """<category>: requirement-added + <server> with <scopes>

    The agent reaches a server for something that it did not need before.
    """
    REQUIREMENT_REMOVED = "requirement-removed"
    """<category>: requirement-removed - <server> with <scopes>

    The lock no longer has a server for this.
    """
    RESIDENCY_LOOSENED = "residency-loosened"
    """constraints: residency-loosened <residency> → <residency>
    <category>: residency-loosened <residencies> → <residencies>

    The data may now be in a region where it could not be before: by the agent file, if the line is about `constraints`,
    or by what the index says of the server. Another region counts as well, `eu-only` for `us-only`: the data goes where
    it did not go. An agent file without a residency counts as `any`.
    """
    RESIDENCY_TIGHTENED = "residency-tightened"
    """constraints: residency-tightened <residency> → <residency>
    <category>: residency-tightened <residencies> → <residencies>

    The data may be in fewer regions than before, and in no new one.
    """
    RESIDENCY_WITHDRAWN = "residency-withdrawn"
    """<category>: residency-withdrawn <residencies> → <residencies>

    The index no longer promises a region that it promised for the server, and nothing takes its place. An agent that
    relied on the promise has lost it, also where its file does not ask for a region.
    """
    RESOLVED_AT_CHANGED = "resolved-at-changed"
    """agent: resolved-at-changed <time> → <time>

    Only the [time](resolution.md#resolvedat) that the lock carries differs.
    """
    SCOPES_NARROWED = "scopes-narrowed"
    """Scopes that the new lock does not have any more."""
    SCOPES_WIDENED = "scopes-widened"
    """Scopes that the old lock did not have. When an agent file asks for more, the old lock does not hold, with
    [`scopes-narrowed`](#scopes-narrowed), and the step to the new lock is `scopes-widened`."""
    SENSITIVITY_LOWERED = "sensitivity-lowered"
    """constraints: sensitivity-lowered <sensitivity> → <sensitivity>
    constraints: sensitivity-lowered - <sensitivity>

    The agent file declares its data to be less sensitive than before, or no longer states it. Servers may be chosen
    that could not be trusted with it.
    """
    SENSITIVITY_RAISED = "sensitivity-raised"
    """constraints: sensitivity-raised <sensitivity> → <sensitivity>
    constraints: sensitivity-raised + <sensitivity>

    The agent file declares its data to be more sensitive, so fewer servers fit.
    """
    SERVER_CHANGED = "server-changed"
    """<category>: server-changed <server> → <server>

    Another server serves the requirement. Its address differs too, and is not listed again.
    """
    SIGNED_NOW = "signed-now"
    """<category>: signed-now not signed → signed

    The index says that the server is signed, and did not say so of the one before.
    """
    SIGNER_CHANGED = "signer-changed"
    """<category>: signer-changed <publisher> → <publisher>

    The index names another publisher.
    """
    TOOL_CHANGED = "tool-changed"
    """A tool of the same server with another definition, by its digest."""
    TOOLS_CLOSED = "tools-closed"
    """<category>: tools-closed - <tools>

    By `toolScopes` in the lock, the locked scopes no longer open these tools.
    """
    TOOLS_OPENED = "tools-opened"
    """<category>: tools-opened + <tools>

    By `toolScopes` in the lock, the locked scopes open these tools now. `constraints.actions.forbid` may still refuse
    them.
    """
    UNSIGNED_NOW = "unsigned-now"
    """<category>: unsigned-now signed → not signed

    The index said that the server was signed, and no longer does, or does not of the new one.
    """
    VERSION_CHANGED = "version-changed"
    """<category>: version-changed <server> → <server>

    The same server in another version. Other changes that came with it have their own lines.
    """


_RISKS = {
    ChangeKind.ACTION_FORBIDDEN: Risk.SAFE,
    ChangeKind.AGENT_CHANGED: Risk.REVIEW,
    ChangeKind.FACTS_UNKNOWN: Risk.REVIEW,
    ChangeKind.MAX_SENSITIVITY_CHANGED: Risk.REVIEW,
    ChangeKind.REQUIRE_SIGNED_SET: Risk.SAFE,
    ChangeKind.REQUIREMENT_REMOVED: Risk.SAFE,
    ChangeKind.RESIDENCY_TIGHTENED: Risk.SAFE,
    ChangeKind.RESOLVED_AT_CHANGED: Risk.SAFE,
    ChangeKind.SCOPES_NARROWED: Risk.SAFE,
    ChangeKind.SENSITIVITY_RAISED: Risk.SAFE,
    ChangeKind.SIGNED_NOW: Risk.SAFE,
    ChangeKind.TOOLS_CLOSED: Risk.SAFE,
    ChangeKind.VERSION_CHANGED: Risk.REVIEW,
}
"""Every other kind is a risk: a developer who adds one has to say that it is not."""


class Change(Struct, frozen=True):
    """One thing that changed."""

    kind: ChangeKind
    subject: str
    """The category it is about, or the agent."""
    before: str | None
    """None where there was nothing."""
    after: str | None
    """None where there is nothing any more."""

    @property
    def risk(self) -> Risk:
        """The degree of risk of this change."""
        return _RISKS.get(self.kind, Risk.RISK)


class Side(Struct, frozen=True):
    """A lock, with the facts that belong to it as far as they are known."""

    lockfile: Lockfile
    agent: AgentFile | None = None
    servers: KnownServers | None = None


def diff(old: Side, new: Side) -> tuple[Change, ...]:
    """Everything that changed from `old` to `new`.

    1. The agent, and the constraints in its file.
    2. Each requirement that was added or removed.
    3. Of each that is in both: the server, its address, the scopes, the tools they open.
    4. What the indexes say of the two servers: residency, signature, publisher, sensitivity.
    """
    return (
        *_agent_changes(old, new),
        *_constraint_changes(old, new),
        *_requirement_changes(old, new),
    )


def worst(changes: tuple[Change, ...]) -> Risk | None:
    """The greatest risk among the changes; None where nothing changed."""
    order = list(Risk)
    return max((change.risk for change in changes), key=order.index, default=None)


def _agent_changes(old: Side, new: Side) -> Iterator[Change]:
    before = old.lockfile
    after = new.lockfile
    yield from _value_changes(
        ChangeKind.AGENT_CHANGED,
        "agent",
        f"{before.agent_name}@{before.agent_version}",
        f"{after.agent_name}@{after.agent_version}",
    )
    yield from _value_changes(
        ChangeKind.RESOLVED_AT_CHANGED,
        "agent",
        before.resolved_at,
        after.resolved_at,
    )


def _constraint_changes(old: Side, new: Side) -> Iterator[Change]:
    if old.agent is None or new.agent is None:
        return
    before = limits_of(old.agent)
    after = limits_of(new.agent)
    # Without a residency the data may go anywhere, as with `any`.
    was_asked: set[str] = {before.residency or "any"}
    is_asked: set[str] = {after.residency or "any"}
    yield from _residency_changes(
        "constraints",
        was_asked,
        is_asked,
        is_promise_gone=False,
    )
    yield from _sensitivity_changes(before, after)
    if before.require_signed and not after.require_signed:
        yield Change(ChangeKind.REQUIRE_SIGNED_DROPPED, "constraints", "true", None)
    if after.require_signed and not before.require_signed:
        yield Change(ChangeKind.REQUIRE_SIGNED_SET, "constraints", None, "true")
    yield from _forbid_changes({*before.forbid}, {*after.forbid})


def _forbid_changes(before: set[str], after: set[str]) -> Iterator[Change]:
    for pattern in sorted(before - after):
        yield Change(ChangeKind.ACTION_ALLOWED, "constraints", pattern, None)
    for pattern in sorted(after - before):
        yield Change(ChangeKind.ACTION_FORBIDDEN, "constraints", None, pattern)


def _sensitivity_changes(before: Limits, after: Limits) -> Iterator[Change]:
    """A lower sensitivity, or none, lets servers in that may not hold the data."""
    was = _sensitivity_rank(before)
    now = _sensitivity_rank(after)
    if was != now:
        kind = (
            ChangeKind.SENSITIVITY_LOWERED
            if now < was
            else ChangeKind.SENSITIVITY_RAISED
        )
        yield Change(kind, "constraints", before.sensitivity, after.sensitivity)


def _sensitivity_rank(limits: Limits) -> int:
    # Without a level an agent file accepts every server, so that counts as the lowest.
    if limits.sensitivity is None:
        return -1
    return SENSITIVITY_RANK[limits.sensitivity]


def _requirement_changes(old: Side, new: Side) -> Iterator[Change]:
    for before, after in _pair_entries(old.lockfile.servers, new.lockfile.servers):
        if after is None:
            # One side of a pair is always there, which the type checker cannot know.
            yield from (
                Change(
                    ChangeKind.REQUIREMENT_REMOVED,
                    entry.category,
                    _describe_entry(entry),
                    None,
                )
                for entry in [before]
                if entry
            )
        elif before is None:
            yield Change(
                ChangeKind.REQUIREMENT_ADDED,
                after.category,
                None,
                _describe_entry(after),
            )
            # Only the new lock is going to govern runs, so only its hashes are checked.
            yield from _hash_changes(after)
        else:
            yield from _entry_changes(before, after)
            yield from _fact_changes(before, after, old, new)


Pair = tuple[LockedServer | None, LockedServer | None]


def _pair_entries(
    old: tuple[LockedServer, ...],
    new: tuple[LockedServer, ...],
) -> Iterator[Pair]:
    """The entries of both locks side by side, sorted: those most alike stand together."""
    left = sorted(old, key=_entry_sort_key)
    right = sorted(new, key=_entry_sort_key)
    found: list[Pair] = []
    # From the most alike to the least: each pass pairs only what the passes before it
    # left over.
    for likeness in (
        lambda entry: (entry.category, entry.server_id, entry.version, entry.scopes),
        lambda entry: (entry.category, entry.scopes),
        lambda entry: (entry.category, entry.server_id),
        lambda entry: entry.category,
    ):
        pairs, right = pair_by_likeness(left, right, likeness, likeness)
        left = [before for before, after in pairs if after is None]
        found += [pair for pair in pairs if pair[1] is not None]
    found += [(before, None) for before in left]
    found += [(None, after) for after in right]
    yield from sorted(found, key=_pair_sort_key)


def _entry_sort_key(entry: LockedServer) -> tuple[object, ...]:
    launch = "" if entry.launch is UNSET else str(entry.launch)
    return (
        entry.category,
        entry.scopes,
        entry.server_id,
        entry.version,
        entry.endpoint,
        entry.hash,
        launch,
    )


def _pair_sort_key(pair: Pair) -> tuple[object, ...]:
    before, after = pair
    return _sort_key_if_any(before or after), _sort_key_if_any(after)


def _sort_key_if_any(entry: LockedServer | None) -> tuple[object, ...]:
    if entry is None:
        return ()
    return _entry_sort_key(entry)


def _entry_changes(before: LockedServer, after: LockedServer) -> Iterator[Change]:
    category = after.category
    names = (
        f"{before.server_id}@{before.version}",
        f"{after.server_id}@{after.version}",
    )
    if before.server_id != after.server_id:
        yield from _value_changes(ChangeKind.SERVER_CHANGED, category, *names)
    else:
        # The address of another server differs in any case, and is not listed again.
        yield from _value_changes(ChangeKind.VERSION_CHANGED, category, *names)
        if before.launch != after.launch:
            yield Change(
                ChangeKind.LAUNCH_CHANGED,
                category,
                address(before),
                address(after),
            )
        else:
            yield from _value_changes(
                ChangeKind.ENDPOINT_MOVED,
                category,
                called_at(before),
                called_at(after),
            )
        # Another server has other tools.
        for change in definition_changes(before.tools or {}, after.tools or {}):
            yield Change(
                ChangeKind.TOOL_CHANGED,
                category,
                _definition(change, "before"),
                _definition(change, "after"),
            )
    yield from _set_changes(
        (ChangeKind.SCOPES_WIDENED, ChangeKind.SCOPES_NARROWED),
        category,
        {*before.scopes},
        {*after.scopes},
    )
    yield from _set_changes(
        (ChangeKind.TOOLS_OPENED, ChangeKind.TOOLS_CLOSED),
        category,
        _open_tools(before),
        _open_tools(after),
    )
    yield from _hash_changes(after)


def _definition(
    change: DefinitionChange,
    when: Literal["before", "after"],
) -> str | None:
    digest = change.before if when == "before" else change.after
    if digest:
        return f"{change.tool} {digest}"
    return None


def _hash_changes(entry: LockedServer) -> Iterator[Change]:
    """The hashes of an entry that do not fit its content, since the entry was edited by hand."""
    expected = server_hash(entry.server_id, entry.version, entry.endpoint, entry.scopes)
    yield from _value_changes(
        ChangeKind.HASH_EDITED,
        entry.category,
        expected,
        entry.hash,
    )
    integrity = integrity_of(entry)
    if entry.integrity != integrity:
        yield Change(
            ChangeKind.HASH_EDITED,
            entry.category,
            integrity or None,
            entry.integrity or None,
        )


def _fact_changes(
    before: LockedServer,
    after: LockedServer,
    old: Side,
    new: Side,
) -> Iterator[Change]:
    """The changes of the facts that the indexes state, where both are at hand."""
    if old.servers is None or new.servers is None:
        return
    was = old.servers.get((before.server_id, before.version))
    now = new.servers.get((after.server_id, after.version))
    category = after.category
    if was is None or now is None:
        missing = [
            f"{entry.server_id}@{entry.version}"
            for entry, facts in ((before, was), (after, now))
            if not facts
        ]
        # Both sides may name the same server, which is reported once.
        names = ", ".join(dict.fromkeys(missing))
        yield Change(ChangeKind.FACTS_UNKNOWN, category, None, names)
        return
    yield from _residency_changes(
        category,
        _regions_of(was),
        _regions_of(now),
        is_promise_gone=_withdraws_residency(was, now),
    )
    yield from _signature_changes(category, was, now)
    yield from _value_changes(
        ChangeKind.SIGNER_CHANGED,
        category,
        was.publisher,
        now.publisher,
    )
    yield from _value_changes(
        ChangeKind.MAX_SENSITIVITY_CHANGED,
        category,
        was.max_sensitivity,
        now.max_sensitivity,
    )


def _signature_changes(category: str, was: Server, now: Server) -> Iterator[Change]:
    if was.signed and not now.signed:
        after = _unsigned_in_words(now)
        yield Change(ChangeKind.UNSIGNED_NOW, category, "signed", after)
    if now.signed and not was.signed:
        before = _unsigned_in_words(was)
        yield Change(ChangeKind.SIGNED_NOW, category, before, "signed")


def _unsigned_in_words(server: Server) -> str:
    """The words for a server that is not signed, or of which the index does not say so."""
    if server.signed is False:
        return "not signed"
    return "not known"


def _regions_of(server: Server) -> set[str]:
    """The regions in which a server may keep data; `any` also where the index does not state them."""
    return (
        {*server.residency}
        if server.residency is not None and "any" not in server.residency
        else {"any"}
    )


def _withdraws_residency(was: Server, now: Server) -> bool:
    """True if the index no longer promises a region that it promised: an agent that relied on it has lost it."""
    promised = {*(was.residency or ())}
    kept = {*(now.residency or ())}
    if promised and not kept:
        return True
    # Giving way to `any` counts as loosened, and `any` itself names no region that
    # could be withdrawn.
    return "any" not in kept and bool(promised - kept - {"any"})


def _residency_changes(
    subject: str,
    before: set[str],
    after: set[str],
    *,
    is_promise_gone: bool,
) -> Iterator[Change]:
    if before == after:
        return
    is_new = "any" in after or not after <= before
    # `any` covers every region, so nothing is wider.
    if is_new and "any" not in before:
        kind = ChangeKind.RESIDENCY_LOOSENED
    elif is_promise_gone:
        kind = ChangeKind.RESIDENCY_WITHDRAWN
    else:
        kind = ChangeKind.RESIDENCY_TIGHTENED
    yield Change(
        kind,
        subject,
        ", ".join(sorted(before)) or None,
        ", ".join(sorted(after)) or None,
    )


def _open_tools(entry: LockedServer) -> set[str]:
    """The tools that the locked scopes open."""
    if entry.tool_scopes is UNSET:
        return set()
    held = {*entry.scopes}
    tools = entry.tool_scopes.items()
    return {tool for tool, scopes in tools if held.issuperset(scopes)}


def _set_changes(
    kinds: tuple[ChangeKind, ChangeKind],
    subject: str,
    before: set[str],
    after: set[str],
) -> Iterator[Change]:
    if more := sorted(after - before):
        yield Change(kinds[0], subject, None, ", ".join(more))
    if fewer := sorted(before - after):
        yield Change(kinds[1], subject, ", ".join(fewer), None)


def _value_changes(
    kind: ChangeKind,
    subject: str,
    before: str | None,
    after: str | None,
) -> Iterator[Change]:
    if before != after:
        yield Change(kind, subject, before, after)


def _describe_entry(entry: LockedServer) -> str:
    return f"{entry.server_id}@{entry.version} with {', '.join(entry.scopes)}"
