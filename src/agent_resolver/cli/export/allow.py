"""`agent export --format allowlist`: the servers of all locks of a workspace, for managed settings."""

import argparse
from collections.abc import Iterator

from msgspec import Struct

from agent_resolver.cli.client_check import real_paths
from agent_resolver.cli.errors import Refusal
from agent_resolver.cli.export.printed import print_or_write
from agent_resolver.cli.export.settings import governed_entry
from agent_resolver.cli.option import session_of, workspace_of
from agent_resolver.cli.output import err, out_json, safe
from agent_resolver.exchange.allowlist import allow_list
from agent_resolver.exchange.client.entry import ClientEntry
from agent_resolver.exchange.jsonc_edit import json_text
from agent_resolver.schema.lockfile import LockedServer


class _Member(Struct, frozen=True):
    servers: tuple[LockedServer, ...]
    entry: ClientEntry
    files: frozenset[str]
    """The real paths of the agent file, the lock and the index."""


def run(options: argparse.Namespace) -> int:
    """Print or write the list; a lock that does not hold gives none."""
    members = list(_members(options))
    servers = [server for member in members for server in member.servers]
    entries = [member.entry for member in members] if options.governed else []
    listed = allow_list(options.client, servers, entries)
    if options.json and not options.output:
        out_json(listed.settings)
    else:
        read = {path for member in members for path in member.files}
        print_or_write(options, f"{json_text(listed.settings, '  ')}\n", read)
    for loss in listed.losses:
        err(f"warning: {safe(str(loss))}")
    return 0


def _members(options: argparse.Namespace) -> Iterator[_Member]:
    if options.workspace is None:
        yield _member_of(options)
        return
    from agent_resolver.project.workspace import members

    folder, index = workspace_of(options, "lock")
    for member in members(folder):
        # A list without one of the members would keep clients from its servers, so one
        # fault stops the whole list.
        if member.problem or member.reading.agent is None:
            raise Refusal(
                f"`{member.path}` cannot be read", "run `agent verify --workspace`"
            )
        # Each member has options of its own, since `session_of` may change those that
        # it gets.
        yield _member_of(
            argparse.Namespace(
                **{**vars(options), "agents": member.path, "index": index}
            )
        )


def _member_of(options: argparse.Namespace) -> _Member:
    # To read the lock of a session is to verify it, so no server gets into the list
    # without a lock that holds.
    with session_of(options) as session:
        files = real_paths((session.agent_path, session.lock_path, session.index_path))
        return _Member(
            session.lockfile.servers, governed_entry(session, options), files
        )
