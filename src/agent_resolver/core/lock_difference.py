"""The kinds of fault that a lock can have, and the remedy for each."""

from enum import StrEnum
from typing import Final

from msgspec import Struct


class DifferenceKind(StrEnum):
    """The kinds of statement in a lock that do not hold.

    Below each member: its messages, then the cause and the remedy, as docs/reason-codes.md has them.
    """

    AGENT_CHANGED = "agent-changed"
    """Locked for '<agent>', but the file says '<agent>'

    The name or the version in the agent file is not that in the lock. Resolve again after each change of the version.
    """
    ENDPOINT_MOVED = "endpoint-moved"
    """Locked at '<endpoint>', but the index says '<endpoint>'

    The index gives the server another address. For a server that is started it is [`launch-changed`](#launch-changed)
    instead.
    """
    FOREIGN_FILE = "foreign-file"
    """It was not written by `agent resolve`

    The file is of another program, or its first key is not `agentName`. Other tools also write a file called
    `agents.lock`. If it is the lock of this agent in which only some marks of a merge were settled, remove the file and
    resolve again.
    """
    FORMAT_EDITED = "format-edited"
    """Its bytes are not the ones that `agent resolve` writes

    The lock pins what it should, but not in the form that `agent resolve` gives it: another indentation, entries out of
    order, a key that does not belong there, a `lockVersion` that its entries do not need, a `resolvedAt` that is not a
    time in UTC. An editor or a formatter may have done that: exclude locks from it.
    """
    HASH_EDITED = "hash-edited"
    """Its hash is <hash>, but what it pins hashes to <hash>
    Its integrity is <digest>, but should be <digest>

    An entry was edited, or its digest was. The first hash in the message is the one in the lock, the second is that of
    the entry as it is now. `agent resolve` never writes such a lock, so find out who did before you replace it.
    """
    LAUNCH_CHANGED = "launch-changed"
    """The endpoint is not that of the launch record
    Locked as '<command>', but the index says '<command>'

    What would be started is not what was locked, or not what the index says; both commands are in the message, with the
    variables they see and the transport. It is also the kind of a server that was started and is now called, or the
    other way round. Take this one seriously: a foreign command would come in this way.
    """
    MALFORMED = "malformed"
    """The file is empty
    <place>: <problem>

    The file is empty, or begins as a lock does and does not [follow its format](file-formats.md#agentslock): it is not
    JSON, lacks a key, or has a value of the wrong type. Every fault is one difference. Nothing else is verified then.
    """
    MERGE_CONFLICT = "merge-conflict"
    """Line <line> opens a merge conflict between `<branch>` and `<branch>`

    In a lock, do not choose a side: settle the agent file and the index first, then let `agent resolve` write the lock
    again. See [troubleshooting](troubleshooting.md#a-merge-conflict-in-the-lock).
    """
    NEWER_FORMAT = "newer-format"
    """It was written by a newer version of `agent`

    The lock has a `lockVersion` that this version does not know. Upgrade, or move the file away and resolve again.
    """
    NOT_ELIGIBLE = "not-eligible"
    """<reason>

    The server breaks a rule of the agent file as it is now. The reason is one of those
    [above](#why-a-server-was-not-chosen): the constraints have become narrower, or the index says less of the server
    than it did.
    """
    REQUIREMENT_CHANGED = "requirement-changed"
    """The agent file requires it, and the lock has no server for it
    The lock has <server> for it, and the agent file does not require it
    The lock has <server> for it, and another entry answers that requirement already
    The scopes are not listed as the agent file lists them

    The agent file has another number of requirements than when it was locked, the lock has an entry twice, or the
    scopes of an entry are in another order.
    """
    SCOPES_NARROWED = "scopes-narrowed"
    """Locked without scopes the agent file asks for: <scopes>

    The agent file asks for more than it did.
    """
    SCOPES_WIDENED = "scopes-widened"
    """Locked with scopes the agent file does not ask for: <scopes>

    The agent file asks for less than it did, or a person gave the agent more in the lock.
    """
    SERVER_VANISHED = "server-vanished"
    """The index does not have this server any more

    No entry of the index has this id and version. If the server moved to another version, resolve again. If you use
    several indexes, check that `--index` names the one that the lock was made with.
    """
    TOOL_CHANGED = "tool-changed"
    """The definition of the tool `<tool>` was <kind> since it was locked
    The index pins the definitions of its tools, and the lock does not
    The lock pins the definitions of its tools, and the index does not any more

    The index states another digest for the definition of a tool than the lock: its name, description, schemas or hints
    changed, or the tool came or went. Look at the new definition before you resolve again: a model relies on what a
    tool says of itself.
    """
    TOOL_SCOPES_CHANGED = "tool-scopes-changed"
    """Which scopes open its tools is not what the index says

    `toolScopes` of the index and of the lock differ.
    """


class Difference(Struct, frozen=True):
    """One thing that the lock says and that is not so."""

    kind: DifferenceKind
    subject: str
    """The server or category it is about, or the agent, or the lock itself."""
    message: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.message}"


_REVIEW: Final = "review what changed, then run `agent resolve`"
_REMEDIES: Final = {
    DifferenceKind.FOREIGN_FILE: "name another file, or move it away and run `agent resolve`",
    DifferenceKind.HASH_EDITED: "the lock was edited: find out by whom and why before you run `agent resolve`",
    DifferenceKind.MERGE_CONFLICT: (
        "settle the agent file and the index, then run `agent resolve`: the lock is made of those two alone"
    ),
    DifferenceKind.NEWER_FORMAT: "upgrade `agent`, or move the file away",
}


def remedy(kind: DifferenceKind) -> str:
    """The remedy for a difference of this kind."""
    return _REMEDIES.get(kind, _REVIEW)
