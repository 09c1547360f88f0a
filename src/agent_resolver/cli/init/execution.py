"""Runs `agent init`."""

import argparse
import os
import sys

from agent_resolver.cli.adopt.report import change_documents, print_changes
from agent_resolver.cli.errors import Refusal
from agent_resolver.cli.input import INDEX
from agent_resolver.cli.output import err, out, out_json, shown
from agent_resolver.exchange.server_id import mapped_id
from agent_resolver.project.adopted_config import (
    ConfigFile,
    client_at,
    config_paths,
    read_client_config,
)
from agent_resolver.project.adoption_change import read_or_none
from agent_resolver.project.agent_files import (
    CATALOG_FOLDER,
    find_agents,
    folders_of_clients,
)
from agent_resolver.project.file_change import write_changes
from agent_resolver.project.starter import Proposal, Surroundings, propose
from agent_resolver.schema.limit import MAX_INDEX_BYTES
from agent_resolver.storage.ownership import believed_users


def run(options: argparse.Namespace) -> int:
    """Propose, ask, write and report."""
    found = _look_around(options)
    _refuse_complete(found)
    proposal = propose(found)
    _refuse_empty(proposal)
    # In text mode the proposal is shown before the question, so that the operator
    # agrees to what is on the screen.
    if not options.json:
        _print_lines(proposal)
    is_written = (
        bool(proposal.changes) and not options.dry_run and _is_agreed(options, proposal)
    )
    if is_written:
        # Every file is written or none: an index without its agent file would be a
        # project that does not resolve.
        write_changes(
            proposal.changes, os.getcwd(), believed_users(os.environ), is_named=True
        )
    if options.json:
        out_json(_proposal_document(options, proposal, is_written=is_written))
    else:
        _print_files(options, proposal, is_written=is_written)
    return 0 if proposal.changes else 1


def _refuse_complete(found: Surroundings) -> None:
    """Refuse where both files are there: neither is ever overwritten, so there is nothing to propose."""
    if found.has_agent and found.index is not None:
        paths = " and ".join(
            f"`{shown(path)}`" for path in (found.agent_path, found.index_path)
        )
        raise Refusal(
            f"{paths} are there already",
            "what is there is never overwritten; try `agent validate`",
        )


def _refuse_empty(proposal: Proposal) -> None:
    """Refuse a proposal that neither writes a file nor says what keeps it from writing one."""
    if not proposal.changes and not proposal.lines:
        used = " and ".join(f"`{shown(path)}`" for path in proposal.used)
        raise Refusal(
            f"{used} is there already, and nothing else to go by",
            "see `agent index import --help`",
        )


def _look_around(options: argparse.Namespace) -> Surroundings:
    users = believed_users(os.environ)
    configs: list[ConfigFile] = []
    for path in config_paths():
        client = client_at(path)
        if client is not None:
            configs.append(read_client_config(path, client, users))
    # Agent files may also be in the folder of the catalog, which belongs to no client.
    folders = [
        *folders_of_clients(),
        *([CATALOG_FOLDER] if os.path.isdir(CATALOG_FOLDER) else []),
    ]
    agents, _skipped = find_agents(folders)
    return Surroundings(
        # The folder lends its name to the agent, in the alphabet of ids.
        agent_name=mapped_id(os.path.basename(os.getcwd())),
        agent_path=options.agents,
        index_path=INDEX,
        index=read_or_none(INDEX, MAX_INDEX_BYTES),
        # A broken link counts as a file that is there: writing through it would make a
        # file elsewhere.
        has_agent=os.path.lexists(options.agents),
        configs=tuple(configs),
        agents=tuple(agents),
    )


def _is_agreed(options: argparse.Namespace, proposal: Proposal) -> bool:
    """True unless an operator at a terminal says no to a proposal: a starter holds nothing to think about."""
    # Without a person at a terminal there is no answer to wait for: the command itself
    # is then the consent.
    is_watched = sys.stdin.isatty() and sys.stderr.isatty()
    if options.yes or options.json or proposal.is_starter or not is_watched:
        return True
    names = " and ".join(shown(change.path) for change in proposal.changes)
    sys.stderr.write(f"Write {names}? [y/N] ")
    sys.stderr.flush()
    # The end of input counts as no, and so does everything but a plain yes.
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _print_lines(proposal: Proposal) -> None:
    widest = max((len(line.what) for line in proposal.lines), default=0)
    for line in proposal.lines:
        # The column is bounded, so that one long path does not push the reasons off the
        # screen.
        out(f"{line.certainty:<8}  {line.what:<{min(widest, 60)}}  {line.why}")
    for path in proposal.used:
        out(f"- {shown(path)} is there already, and used as it is")
    for problem in proposal.problems:
        err(f"warning: {problem}")


def _print_files(
    options: argparse.Namespace, proposal: Proposal, *, is_written: bool
) -> None:
    if is_written or options.dry_run:
        print_changes(proposal.changes, is_dry_run=options.dry_run)
    else:
        out("Nothing was written")
    if proposal.unknown:
        err(
            f"note: nothing is required of {', '.join(proposal.unknown)} yet: the scopes are not known"
        )
        err(
            "hint: `agent adopt` asks the servers and does the rest; or `agent index probe --all`, then `agent init`"
        )
    elif is_written:
        err("hint: run `agent resolve`")


def _proposal_document(
    options: argparse.Namespace, proposal: Proposal, *, is_written: bool
) -> dict[str, object]:
    return {
        "success": bool(proposal.changes),
        "kind": "starter" if proposal.is_starter else "proposal",
        "written": is_written,
        "files": change_documents(proposal.changes, is_dry_run=options.dry_run),
        "used": proposal.used,
        "lines": proposal.lines,
        "problems": proposal.problems,
        "unknown": proposal.unknown,
    }
