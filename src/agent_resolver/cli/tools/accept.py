"""`agent tools accept` shows changed definitions, and pins them in the index once a person agrees."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from agent_resolver.cli.errors import Refusal
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out, out_json, safe
from agent_resolver.cli.tools.execution import err_problems, with_tools
from agent_resolver.core.drafted_scope import with_pins
from agent_resolver.core.tool_definition import (
    definition_diff,
    definition_digest,
    definition_parts,
    exceeded_limit,
)
from agent_resolver.project.definition import (
    confirmed_tools,
    read_definitions,
    write_pins,
)
from agent_resolver.schema.audit import AuditKind, Record
from agent_resolver.schema.index_edit import entry_documents, with_entries
from agent_resolver.schema.limit import MAX_INDEX_BYTES
from agent_resolver.storage.exclusive import exclusively_in_folder
from agent_resolver.storage.file import read_bounded
from agent_resolver.storage.trail import append_record

if TYPE_CHECKING:
    from agent_resolver.project.session import Session
    from agent_resolver.project.tools import OpenTools

_RENEW = "run `agent resolve` to renew the lock: until then it does not hold, and no server is connected"


class Change(Struct, frozen=True, kw_only=True):
    """A tool that is not what the lock pins."""

    server: str
    """Its id and version."""
    tool: str
    pinned: str | None
    before: Mapping[str, Any] | None
    """The pinned definition, where its text is kept."""
    after: Mapping[str, Any] | None
    """The definition as it is now; None if the tool is gone."""

    @property
    def id(self) -> str:
        """The name of the tool among the tools of all servers."""
        # The version is taken off from the right: an id may hold no `@`, and tools are
        # named after the id alone.
        return f"{self.server.rpartition('@')[0]}.{self.tool}"

    @property
    def kind(self) -> str:
        """One word for it."""
        if self.after is None:
            return "removed"
        return "added" if self.pinned is None else "changed"

    @property
    def document(self) -> dict[str, object]:
        """The change for a program."""
        return {
            "id": self.id,
            "server": self.server,
            "kind": self.kind,
            "pinned": self.pinned,
            "found": None if self.after is None else definition_digest(self.after),
            "diff": definition_diff(self.before, self.after),
        }


def run_accept(options: argparse.Namespace) -> int:
    """Show every change that was asked for, ask, and write."""
    session = session_of(options)

    async def work(tools: "OpenTools") -> int:
        changes = _chosen_changes(_changes_of(session, tools), options.names)
        if not options.json:
            _print_changes(changes)
        code = err_problems(tools)
        _refuse_unreviewable(changes)
        # The question comes after the review: no operator should be asked about a
        # change that cannot be shown.
        is_agreed = bool(changes) and _is_agreed(options, len(changes))
        # What is written is what was shown, even if the server says something else now.
        with exclusively_in_folder(session.index_path):
            written = _write_changes(session, changes) if is_agreed else []
        # The record follows the write: the trail must not claim what did not happen.
        if is_agreed:
            await append_record(
                session.store,
                Record(tools.context.run, AuditKind.TOOLS_ACCEPTED, _record(changes)),
            )
        _report(options, changes, written, is_agreed=is_agreed)
        return code if is_agreed or not changes else 1

    return with_tools(options, work, opened=session)


def _changes_of(session: "Session", tools: "OpenTools") -> list[Change]:
    # A lock without pins of a server says nothing about its tools, so none of them
    # counts as changed.
    pinned = {
        f"{entry.server_id}@{entry.version}": entry.tools or {}
        for entry in session.lockfile.servers
    }
    kept = read_definitions(session.index_path)
    changes = []
    for server, found in tools.servers.changed_definitions().items():
        for tool, definition in sorted(found.items()):
            pin = pinned[server].get(tool)
            change = Change(
                server=server,
                tool=tool,
                pinned=pin,
                before=_believed(kept.get(server, {}).get(tool), pin),
                after=None if definition is None else definition_parts(definition),
            )
            changes.append(change)
    return changes


def _believed(
    kept: Mapping[str, Any] | None, pinned: str | None
) -> Mapping[str, Any] | None:
    """The kept text, unless it was edited: then it is not what was pinned."""
    if kept is not None and definition_digest(kept) == pinned:
        return kept
    return None


def _chosen_changes(changes: Sequence[Change], names: Sequence[str]) -> list[Change]:
    if not names:
        return list(changes)
    known = {
        name
        for change in changes
        for name in (change.id, change.server.rpartition("@")[0])
    }
    if unknown := [name for name in names if name not in known]:
        raise Refusal(
            f"Nothing has changed at `{unknown[0]}`",
            "`agent tools accept` alone shows every change",
        )
    return [
        change
        for change in changes
        if change.id in names or change.server.rpartition("@")[0] in names
    ]


def _print_changes(changes: Sequence[Change]) -> None:
    for change in changes:
        out(f"{safe(change.id)} ({safe(change.server)}): {change.kind}")
        if change.before is None and change.kind != "added":
            out(
                "  the text that was pinned is not kept here, so only the present one is shown"
            )
        for line in definition_diff(change.before, change.after):
            out(f"  {safe(line)}")


def _refuse_unreviewable(changes: Sequence[Change]) -> None:
    # What a person cannot read must not be accepted in their name, not even with
    # `--yes`.
    for change in changes:
        if change.after is None:
            continue
        hint = "name the other tools, to accept them alone"
        if limit := exceeded_limit(change.after):
            message = f"The definition of {change.id} is larger than {limit}, more than a person can review"
            raise Refusal(message, hint)
        # The difference may be in parts that a diff of lines does not show.
        if not definition_diff(change.before, change.after):
            raise Refusal(
                f"The change of {change.id} cannot be shown, so it cannot be reviewed",
                hint,
            )


def _is_agreed(options: argparse.Namespace, count: int) -> bool:
    """True if the operator has said yes, on the command line or at the terminal: no file or variable can."""
    if options.yes:
        return True
    if options.json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    definitions = "this definition" if count == 1 else f"these {count} definitions"
    sys.stderr.write(f"Accept {definitions}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _write_changes(session: "Session", changes: Sequence[Change]) -> list[str]:
    raw = session.index_content
    # The bytes are compared under the lock: an edit that another program made meanwhile
    # must not be lost.
    if read_bounded(session.index_path, MAX_INDEX_BYTES) != raw:
        raise Refusal(
            f"`{session.index_path}` has changed meanwhile",
            "look at the change, and accept again",
        )
    documents = entry_documents(raw)
    kept = read_definitions(session.index_path)
    edited: dict[int, dict[str, Any]] = {}
    texts: dict[str, dict[str, Any]] = {}
    for position, server in enumerate(session.listed_servers):
        found = {
            change.tool: change.after
            for change in changes
            if change.server == str(server)
        }
        if not found:
            continue
        confirmed = confirmed_tools(session.overlay_content, server.id)
        edited[position] = with_pins(documents[position], found, confirmed)
        # Texts of other tools stay as they are, and those of tools that are gone are
        # dropped.
        remaining = {
            tool: text
            for tool, text in kept.get(str(server), {}).items()
            if tool not in found
        }
        texts[str(server)] = {
            **remaining,
            **{tool: text for tool, text in found.items() if text is not None},
        }
    return write_pins(
        session.index_path,
        with_entries(raw, edited),
        texts,
        project=session.root,
        users=session.users,
    )


def _record(changes: Sequence[Change]) -> dict[str, object]:
    # A record of the trail stays small, however many tools are accepted at once; the
    # count tells how many were left out.
    most = 100
    named = {change.id: change.document["found"] for change in changes[:most]}
    return {"accepted": len(changes), "tools": named}


def _report(
    options: argparse.Namespace,
    changes: Sequence[Change],
    written: Sequence[str],
    *,
    is_agreed: bool,
) -> None:
    if options.json:
        documents = [change.document for change in changes]
        out_json(
            {
                "success": is_agreed or not changes,
                "changes": documents,
                "files": written,
            }
        )
    elif not changes:
        out("✓ Every tool is what the lock pins")
    elif not is_agreed:
        err("✗ Nothing was accepted")
        err("hint: review the changes, then say yes at a terminal, or add `--yes`")
    else:
        tools = "1 definition" if len(changes) == 1 else f"{len(changes)} definitions"
        out(f"✓ Accepted {tools}: wrote {', '.join(safe(path) for path in written)}")
        err(f"hint: {_RENEW}")
