"""`agent workspace`: what the locks below a folder say together."""

import argparse
from collections.abc import Iterator, Sequence

from msgspec import Struct

from agent_resolver.cli.option import (
    Commands,
    add_command,
    add_group,
    add_json,
    folder_of,
)
from agent_resolver.cli.output import err, out, out_json, safe
from agent_resolver.cli.progress import shown_progress
from agent_resolver.core.count import counted, plural
from agent_resolver.core.verification import unusable
from agent_resolver.project.workspace import Member, members
from agent_resolver.schema.artifact_path import lock_path_of
from agent_resolver.schema.errors import InvalidLockfile
from agent_resolver.schema.limit import MAX_LOCKFILE_BYTES
from agent_resolver.schema.lockfile import LockedServer, Lockfile, parse_lockfile
from agent_resolver.storage.errors import FileError
from agent_resolver.storage.file import read_bounded

_GROUP_EXAMPLES = """\
  agent workspace users acme-reporting          which agents use it, with which scopes?
"""
_EXAMPLES = """\
  agent workspace users acme-reporting          which agents use it, with which scopes?
  agent workspace users acme-reporting@3.0.0 agents
  agent workspace users acme-reporting --json | jq '.users[].agents'
"""

_MOST_SHOWN = 20


class User(Struct, frozen=True):
    """An agent file whose lock pins the server, and for what."""

    path: str
    lockfile: Lockfile
    entries: tuple[LockedServer, ...]


def add_to(commands: Commands) -> None:
    """Declare the commands."""
    group = add_group(
        commands,
        "workspace",
        "see what the locks below a folder say together",
        _GROUP_EXAMPLES,
    )
    parser = add_command(
        group,
        "users",
        "list the agents that use a server, with the scopes each has",
        _EXAMPLES,
    )
    parser.add_argument("server", metavar="SERVER", help="a server id, or id@version")
    parser.add_argument(
        "folder",
        metavar="DIR",
        nargs="?",
        default=".",
        help="the folder to search (default: .)",
    )
    add_json(parser)
    parser.set_defaults(run=run_users)


def run_users(options: argparse.Namespace) -> int:
    """List every user. A lock that cannot be read is named: who uses a server must not be a guess."""
    read = list(
        shown_progress(_read_locks(folder_of(options.folder)), "Reading locks:")
    )
    unread = [(member, found) for member, found in read if isinstance(found, str)]
    locks = [(member, found) for member, found in read if isinstance(found, Lockfile)]
    users = [
        User(member.path, lockfile, entries)
        for member, lockfile in locks
        if (
            entries := tuple(
                entry for entry in lockfile.servers if _is_server(entry, options.server)
            )
        )
    ]
    if options.json:
        document = {"server": options.server, "users": list(map(_user_document, users))}
        problems = [
            {"agents": member.path, "problem": problem} for member, problem in unread
        ]
        out_json({"success": not unread, **document, "unread": problems})
    else:
        _print_users(users, options.server, len(read), len(unread))
        # Unread locks are named after the list, as they decide how far it can be
        # trusted.
        _err_unread(unread)
    return 1 if unread else 0


def _read_locks(folder: str) -> Iterator[tuple[Member, Lockfile | str]]:
    """Each agent file with its lock, or with why that cannot be read."""
    for member in members(folder):
        try:
            raw = read_bounded(lock_path_of(member.path), MAX_LOCKFILE_BYTES)
            # Marks of a merge and a newer format get words of their own; the parser
            # could only call them broken.
            problem = unusable(raw)
            yield (
                member,
                f"{lock_path_of(member.path)}: {problem.message}"
                if problem
                else parse_lockfile(raw),
            )
        except FileError as error:
            yield member, str(error)
        except InvalidLockfile as error:
            faults = "; ".join(map(str, error.issues))
            yield member, f"{lock_path_of(member.path)} is not a lock: {faults}"


def _is_server(entry: LockedServer, server: str) -> bool:
    return server in {entry.server_id, f"{entry.server_id}@{entry.version}"}


def _user_document(user: User) -> dict[str, object]:
    uses = [
        {"category": entry.category, "version": entry.version, "scopes": entry.scopes}
        for entry in user.entries
    ]
    lockfile = user.lockfile
    return {
        "agents": user.path,
        "agentName": lockfile.agent_name,
        "agentVersion": lockfile.agent_version,
        "uses": uses,
    }


def _print_users(users: Sequence[User], server: str, total: int, unread: int) -> None:
    for user in users:
        out(
            f"{user.path} ({safe(f'{user.lockfile.agent_name}@{user.lockfile.agent_version}')})"
        )
        for entry in user.entries:
            scopes = ", ".join(entry.scopes)
            out(
                safe(
                    f"  {entry.category}: {entry.server_id}@{entry.version} with {scopes}"
                )
            )
    # With locks unread the count is only a lower bound.
    least = "at least " if unread else ""
    use = plural(len(users), "uses", "use")
    out(f"{least}{len(users)} of {counted(total, 'agent file')} {use} {safe(server)}")


def _err_unread(unread: Sequence[tuple[Member, str]]) -> None:
    for member, problem in unread[:_MOST_SHOWN]:
        err(f"✗ {member.path}: {safe(problem)}")
    if len(unread) > _MOST_SHOWN:
        err(f"  … and {len(unread) - _MOST_SHOWN} more: `--json` has every one")
    if unread:
        err(
            "hint: Who uses the server is not certain before every lock can be read: run `agent resolve --workspace`"
        )
