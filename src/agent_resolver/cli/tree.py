"""`agent tree`: what a lock lets the agent reach, drawn as a tree."""

import argparse
import shlex
from collections.abc import Iterator, Sequence

from msgspec import UNSET, Struct, structs

from agent_resolver.cli.errors import Refusal
from agent_resolver.cli.input import INDEX, load
from agent_resolver.cli.option import (
    Commands,
    add_agents,
    add_command,
    add_index,
    add_json,
    add_lock,
)
from agent_resolver.cli.output import err, out, out_json, safe
from agent_resolver.core.admission import Grant, grants_of
from agent_resolver.core.constraint import limits_of
from agent_resolver.core.count import counted
from agent_resolver.core.lock_difference import remedy
from agent_resolver.core.server import KnownServers
from agent_resolver.core.verification import examine
from agent_resolver.schema.artifact_path import lock_path_of
from agent_resolver.schema.index import Server
from agent_resolver.schema.limit import MAX_LOCKFILE_BYTES
from agent_resolver.schema.lockfile import LockedServer
from agent_resolver.storage.file import read_bounded

_EXAMPLES = """\
  agent tree
  agent tree -a agents/crm.md
  agent tree --json | jq '.categories[].servers[].serverId'
"""


class Branch(Struct, frozen=True):
    """A line, and the lines below it."""

    line: str
    below: "tuple[Branch, ...]" = ()


class _World(Struct, frozen=True):
    """The index and the agent file, as far as the entries of a lock are compared with them."""

    known: KnownServers
    grants: dict[str, Grant]
    """What each locked server may be used for, by `id@version`."""

    def grant_of(self, entry: LockedServer) -> Grant:
        """The grant of the server of an entry, with the scopes of all its entries."""
        return self.grants[f"{entry.server_id}@{entry.version}"]


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands, "tree", "draw what a lock lets the agent reach", _EXAMPLES
    )
    add_agents(parser)
    add_index(parser)
    add_lock(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Draw the lock; whether it holds is said too, since a drawing is easily believed."""
    inputs = load(options.agents, options.index or INDEX)
    path = options.lock or lock_path_of(options.agents)
    examined = examine(
        read_bounded(path, MAX_LOCKFILE_BYTES), inputs.agent, inputs.servers
    )
    # A file that is not a lock at all cannot be drawn; one that does not hold is drawn,
    # and its faults are counted below.
    if examined.lockfile is None:
        problem = examined.differences[0]
        raise Refusal(
            f"`{path}` cannot be drawn: {problem.message}", remedy(problem.kind)
        )
    lockfile = examined.lockfile
    # Tools that the project admits by name are left out: they need settings, and the
    # tree shows the lock alone.
    grants = grants_of(lockfile.servers, limits_of(inputs.agent).forbid, ())
    world = _World(inputs.servers, grants)
    grouped: dict[str, list[LockedServer]] = {}
    for entry in lockfile.servers:
        grouped.setdefault(entry.category, []).append(entry)
    if options.json:
        categories = [
            _category_document(category, entries, world)
            for category, entries in grouped.items()
        ]
        out_json(
            {
                "success": not examined.differences,
                "agentName": lockfile.agent_name,
                "agentVersion": lockfile.agent_version,
                "lock": path,
                "categories": categories,
            }
        )
    else:
        out(safe(f"{lockfile.agent_name}@{lockfile.agent_version} ({path})"))
        branches = [
            _category_branch(category, entries, world)
            for category, entries in grouped.items()
        ]
        for line in _render_branches(branches, ""):
            out(safe(line))
    if examined.differences:
        err(
            f"✗ {path} does not hold: {counted(len(examined.differences), 'difference')}"
        )
        err("hint: `agent verify` names them")
        return 1
    return 0


def _category_document(
    category: str, entries: Sequence[LockedServer], world: _World
) -> dict[str, object]:
    servers = [_entry_document(entry, world) for entry in entries]
    return {"category": category, "servers": servers}


def _category_branch(
    category: str, entries: Sequence[LockedServer], world: _World
) -> Branch:
    return Branch(category, tuple(_server_branch(entry, world) for entry in entries))


def _tools_by_scope(entry: LockedServer, grant: Grant) -> dict[str, list[str]]:
    """The tools that each scope helps to open, where the lock says so, without those that the agent file forbids."""
    is_open = [tool for tool in grant.tool_scopes if not grant.refuse_as_pinned(tool)]
    return {
        scope: [tool for tool in is_open if scope in grant.tool_scopes[tool]]
        for scope in entry.scopes
    }


def _forbidden_tools(entry: LockedServer, grant: Grant) -> list[str]:
    """The tools that a scope of the entry would open, if the agent file did not forbid them."""
    # Without `forbid`, the grant tells which tools the scopes alone would open; the
    # difference is what is forbidden.
    allowed = structs.replace(grant, forbid=())
    # A grant holds the scopes of all entries of a server, so a tool counts here only if
    # a scope of this entry opens it.
    return [
        tool
        for tool, scopes in grant.tool_scopes.items()
        if grant.refuse_as_pinned(tool)
        and not allowed.refuse_as_pinned(tool)
        and not {*scopes}.isdisjoint(entry.scopes)
    ]


def _server_in_index(entry: LockedServer, known: KnownServers) -> Server | None:
    """The server as the index has it, if it is the one that is locked."""
    server = known.get((entry.server_id, entry.version))
    # The facts of the index are about this server only if the address is the locked
    # one.
    if server and server.address == entry.endpoint:
        return server
    return None


def _entry_document(entry: LockedServer, world: _World) -> dict[str, object]:
    server = _server_in_index(entry, world.known)
    grant = world.grant_of(entry)
    signed = publisher = residency = None
    if server is not None:
        signed = server.signed
        publisher = server.publisher
        residency = server.residency
    return {
        "serverId": entry.server_id,
        "version": entry.version,
        "endpoint": entry.endpoint,
        "launch": None if entry.launch is UNSET else entry.launch,
        "signed": signed,
        "publisher": publisher,
        "residency": residency,
        "scopes": [
            {"scope": scope, "tools": tools}
            for scope, tools in _tools_by_scope(entry, grant).items()
        ],
        "forbidden": _forbidden_tools(entry, grant),
    }


def _server_branch(entry: LockedServer, world: _World) -> Branch:
    grant = world.grant_of(entry)
    remark = _remark_on(entry, world.known)
    launch = None if entry.launch is UNSET else entry.launch
    address = shlex.join((launch.command, *launch.args)) if launch else entry.endpoint
    scopes = [
        _scope_branch(scope, tools)
        for scope, tools in _tools_by_scope(entry, grant).items()
    ]
    forbidden = _forbidden_tools(entry, grant)
    closed = [Branch(f"[forbidden] {', '.join(forbidden)}")] if forbidden else []
    return Branch(
        f"{entry.server_id}@{entry.version}{remark} {address}", (*scopes, *closed)
    )


def _remark_on(entry: LockedServer, known: KnownServers) -> str:
    """The signature that the index claims for a locked server, or why the index says nothing of it."""
    server = _server_in_index(entry, known)
    if server is not None:
        return " [signed (claimed)]" if server.signed else ""
    is_known = known.get((entry.server_id, entry.version)) is not None
    return " [not what the index has]" if is_known else " [not in the index]"


def _scope_branch(scope: str, tools: Sequence[str]) -> Branch:
    return Branch(f"{scope}: {', '.join(tools)}" if tools else scope)


def _render_branches(branches: Sequence[Branch], indent: str) -> Iterator[str]:
    for position, branch in enumerate(branches, 1):
        is_last = position == len(branches)
        corner, side = ("└── ", "    ") if is_last else ("├── ", "│   ")
        yield f"{indent}{corner}{branch.line}"
        yield from _render_branches(branch.below, f"{indent}{side}")
