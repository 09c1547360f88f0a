"""`agent verify`: whether a lock still holds."""

import argparse
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from agent_resolver.cli.client_check import (
    access_of,
    check_project_clients,
    print_clients,
)
from agent_resolver.cli.client_command import project_folder
from agent_resolver.cli.input import INDEX, load, load_index, warnings_of
from agent_resolver.cli.option import (
    Commands,
    add_agents,
    add_command,
    add_index,
    add_json,
    add_lock,
    add_workspace,
    workspace_of,
)
from agent_resolver.cli.output import err, err_warnings, out, out_json, safe
from agent_resolver.core.constraint import limits_of
from agent_resolver.core.count import counted, plural
from agent_resolver.core.lock_difference import Difference, DifferenceKind, remedy
from agent_resolver.core.server import KnownServers
from agent_resolver.core.verification import Examined, examine
from agent_resolver.schema.agent_file import AgentFile
from agent_resolver.schema.artifact_path import lock_path_of
from agent_resolver.schema.issue import only_errors
from agent_resolver.schema.limit import MAX_LOCKFILE_BYTES
from agent_resolver.schema.lockfile import Lockfile
from agent_resolver.storage.errors import FileError, UnreadableFile
from agent_resolver.storage.file import read_bounded

if TYPE_CHECKING:
    from agent_resolver.exchange.client.check import ClientFinding
    from agent_resolver.exchange.client.project_settings import ClientProblem

_EXAMPLES = """\
  agent verify                       is ./agents.lock what ./agents.md and ./mcp.index.json say?
  agent verify -a agents/crm.md      the lock is agents/crm.lock
  agent verify --workspace           every lock below this folder
  agent verify --clients             and does a client of this project start servers outside of the lock?
  agent verify --json | jq '.locks[].differences[].kind'
"""


class Verified(Struct, frozen=True):
    """A lock and all about it that does not hold."""

    path: str
    agent_path: str
    differences: tuple[Difference, ...] = ()
    problem: str = ""
    """Why the lock or its agent file cannot be read."""
    is_missing: bool = False
    """Whether there is no lock."""
    lockfile: Lockfile | None = None
    agent: AgentFile | None = None

    @property
    def holds(self) -> bool:
        """True if it may govern a run."""
        return not self.differences and not self.problem


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "verify",
        "check a lock against itself, the agent file and the index",
        _EXAMPLES,
    )
    add_agents(parser)
    add_index(parser)
    add_lock(parser)
    add_workspace(parser, "verify")
    parser.add_argument(
        "--clients",
        action="store_true",
        help="also report every server that a client of the project starts outside of the locks",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Verify what was asked for, and name each difference."""
    verified = (
        list(_verify_workspace(options))
        if options.workspace is not None
        else [_verify_one(options)]
    )
    # Clients are held only against locks that hold, so verification comes first.
    findings, problems = (
        _check_clients(options, verified) if options.clients else ((), ())
    )
    is_covered = not problems and all(finding.kind != "outside" for finding in findings)
    success = all(lock.holds for lock in verified) and is_covered
    if options.json:
        document: dict[str, object] = {
            "success": success,
            "locks": list(map(_lock_document, verified)),
        }
        if options.clients:
            document["clients"] = {"servers": findings, "problems": problems}
        out_json(document)
    else:
        _print_verified(verified)
        print_clients(findings, problems)
    return 0 if success else 1


def _check_clients(
    options: argparse.Namespace, verified: Sequence[Verified]
) -> tuple[Sequence["ClientFinding"], Sequence["ClientProblem"]]:
    """The servers of clients, compared with the locks that hold."""
    from agent_resolver.project.session import Session

    # A client may be opened in the project's folder or in the one of the command.
    folders = {project_folder(), os.getcwd()}
    if options.workspace is not None:
        folders = {
            options.workspace,
            *(os.path.dirname(lock.agent_path) for lock in verified),
        }
    # A lock that does not hold must not vouch for a server that a client starts.
    locks = [
        (lock.lockfile, limits_of(lock.agent))
        for lock in verified
        if lock.holds and lock.lockfile and lock.agent
    ]
    with Session(
        verified[0].agent_path, options.index or INDEX, environment=os.environ
    ) as session:
        access = access_of(session)
    # The verified files are handed on: an entry that serves a lock is governed only if
    # that lock was verified here.
    files = {path for lock in verified for path in (lock.path, lock.agent_path)}
    return check_project_clients(folders, locks, access, {*files, _index_of(options)})


def _index_of(options: argparse.Namespace) -> str:
    return (
        workspace_of(options, "lock")[1]
        if options.workspace is not None
        else options.index or INDEX
    )


def _verify_one(options: argparse.Namespace) -> Verified:
    inputs = load(options.agents, options.index or INDEX)
    path = options.lock or lock_path_of(options.agents)
    # A lock that cannot be read ends this command; in a workspace it is one problem
    # among others.
    raw = read_bounded(path, MAX_LOCKFILE_BYTES)
    if not options.json:
        err_warnings(options.agents, inputs.warnings)
    return _verify_content(
        path, options.agents, inputs.agent, examine(raw, inputs.agent, inputs.servers)
    )


def _verify_content(
    path: str, agent_path: str, agent: AgentFile, examined: Examined
) -> Verified:
    return Verified(
        path, agent_path, examined.differences, lockfile=examined.lockfile, agent=agent
    )


def _verify_workspace(options: argparse.Namespace) -> Iterator[Verified]:
    from agent_resolver.cli.progress import shown_progress
    from agent_resolver.project.workspace import members

    folder, index = workspace_of(options, "lock")
    # The servers of the index are prepared once for all locks.
    known = load_index(index).servers
    for member in shown_progress(members(folder), "Verifying locks:"):
        path = lock_path_of(member.path)
        agent = member.reading.agent
        if member.problem:
            yield Verified(path, member.path, problem=str(member.problem))
        elif agent is None:
            faults = "; ".join(map(str, only_errors(member.reading.issues)))
            yield Verified(
                path, member.path, problem=f"`{member.path}` is invalid: {faults}"
            )
        else:
            if not options.json:
                err_warnings(member.path, warnings_of(member.reading))
            yield _verify_beside(path, member.path, agent, known)


def _verify_beside(
    path: str, agent_path: str, agent: AgentFile, known: KnownServers
) -> Verified:
    try:
        raw = read_bounded(path, MAX_LOCKFILE_BYTES)
    except FileError as error:
        # A missing lock has an advice of its own, while one that cannot be read needs a
        # look.
        is_missing = isinstance(error, UnreadableFile) and error.missing
        return Verified(path, agent_path, problem=str(error), is_missing=is_missing)
    return _verify_content(path, agent_path, agent, examine(raw, agent, known))


def _lock_document(lock: Verified) -> dict[str, object]:
    differences = [
        {
            "kind": found.kind,
            "subject": found.subject,
            "message": found.message,
            "hint": remedy(found.kind),
        }
        for found in lock.differences
    ]
    return {
        "path": lock.path,
        "agents": lock.agent_path,
        "holds": lock.holds,
        "problem": lock.problem or None,
        "differences": differences,
    }


def _print_verified(verified: Sequence[Verified]) -> None:
    for lock in verified:
        if lock.holds:
            out(f"✓ {lock.path} holds")
            continue
        if lock.problem:
            err(f"✗ {lock.problem}")
            continue
        err(f"✗ {lock.path} does not hold")
        for found in lock.differences:
            err(f"  - {found.kind}: {safe(str(found))}")
    for advice in _advise(verified):
        err(f"hint: {advice}")
    if len(verified) != 1:
        held = sum(lock.holds for lock in verified)
        out(
            f"{held} of {counted(len(verified), 'lock')} {plural(held, 'holds', 'hold')}"
        )


def _advise(verified: Sequence[Verified]) -> list[str]:
    """The advice; where a lock was edited, nothing may be done before that is cleared up."""
    kinds = {found.kind for lock in verified for found in lock.differences}
    # An edited lock may be an attack: to resolve again would wipe the traces away.
    if DifferenceKind.HASH_EDITED in kinds:
        return [remedy(DifferenceKind.HASH_EDITED)]
    is_missing = any(lock.is_missing for lock in verified)
    missing = (
        ["`agent resolve --workspace` writes every lock that is missing"]
        if is_missing
        else []
    )
    # The order of the enum decides, and a remedy that several kinds share is given
    # once.
    return [
        *dict.fromkeys(remedy(kind) for kind in DifferenceKind if kind in kinds),
        *missing,
    ]
