"""Runs `agent adopt --agents`."""

import argparse
import os

from agent_resolver.cli.adopt.report import change_documents, print_changes
from agent_resolver.cli.errors import Refusal
from agent_resolver.cli.input import INDEX
from agent_resolver.cli.option import folder_of
from agent_resolver.cli.output import err, out, out_json, shown
from agent_resolver.core.count import counted
from agent_resolver.exchange.jsonc_edit import CannotEdit
from agent_resolver.exchange.toml_edit import NotToml
from agent_resolver.project.agent_files import (
    CATALOG_FOLDER,
    find_agents,
    folders_of_clients,
)
from agent_resolver.project.agent_move import MovePlan, plan_move
from agent_resolver.project.file_change import write_changes
from agent_resolver.project.session import Session
from agent_resolver.storage.ownership import require_own


def run(options: argparse.Namespace) -> int:
    """Plan the moves, write them unless a file is in the way, and report."""
    # Without names, every folder here is meant that a client loads whole.
    folders = [
        folder_of(folder) for folder in options.agent_folders
    ] or folders_of_clients()
    _refuse_own_folder(folders)
    agents, skipped = find_agents(folders)
    with Session(
        options.agents, INDEX, environment=os.environ, flags=tuple(options.settings)
    ) as session:
        # Agent files of another user must not become a part of what this project
        # serves.
        for folder in folders:
            require_own(folder, session.users)
        try:
            plan = plan_move(session, agents, skipped)
        except (CannotEdit, NotToml) as error:
            # Only agent.toml is edited by its syntax, so a refusal to edit is about
            # that file.
            raise Refusal(
                f"agent.toml cannot be edited: {error}",
                f"add `{CATALOG_FOLDER}` to `catalog.roots`",
            ) from None
    # One file in the way stops the whole move: half of it would leave mentions that
    # lead nowhere. Only folders that the operator named may be outside of the project.
    if not (options.dry_run or plan.taken):
        write_changes(
            plan.changes,
            os.getcwd(),
            session.users,
            is_named=bool(options.agent_folders),
        )
    if options.json:
        out_json(_move_document(options, plan))
    else:
        _print_plan(options, plan)
    return 1 if plan.taken else 0


def _refuse_own_folder(folders: list[str]) -> None:
    served = os.path.realpath(CATALOG_FOLDER)
    for folder in folders:
        real = os.path.realpath(folder)
        # The common path of two folders is one of them only where they are the same, or
        # one holds the other.
        if os.path.commonpath([real, served]) in {served, real}:
            raise Refusal(
                f"`{folder}` cannot be moved into `{CATALOG_FOLDER}`",
                "name a folder of a client",
            )


def _print_plan(options: argparse.Namespace, plan: MovePlan) -> None:
    for skipped in plan.skipped:
        out(f"- {shown(skipped.path)} stays: {skipped.why}")
    if plan.taken:
        _err_taken(plan)
        return
    if not plan.moves:
        out("Nothing to move: no client loads agent files from a folder here")
        return
    sign = "→" if options.dry_run else "✓"
    for move in plan.moves:
        out(f"{sign} {shown(move.source)} → {shown(move.target)}")
    if options.dry_run:
        print_changes(plan.changes, is_dry_run=True)
    else:
        _print_further_changes(plan)
    _print_mentions(plan)
    if not options.dry_run:
        _err_undo(plan)


def _err_taken(plan: MovePlan) -> None:
    err("error: Nothing was moved, because files are in the way")
    for path in plan.taken:
        err(f"  ✗ {shown(path)} is there already, or two agents would move there")
    err("hint: rename one of them, and run the command again")


def _print_further_changes(plan: MovePlan) -> None:
    """Name the written files that are not moved files, since those are listed already."""
    moved = {path for move in plan.moves for path in (move.source, move.target)}
    print_changes(
        [change for change in plan.changes if change.path not in moved],
        is_dry_run=False,
    )


def _err_undo(plan: MovePlan) -> None:
    err("To undo it:")
    for command in plan.undo:
        err(f"  {command}")
    err(
        "hint: `agent catalog list` shows what is served; `agent export --client …` tells a client of it"
    )


def _print_mentions(plan: MovePlan) -> None:
    out(f"{counted(plan.rewritten, 'mention')} rewritten to the address that is served")
    for left in plan.left:
        out(
            f"- left as it is: {left.text} ({shown(left.path)}:{left.line}:{left.column}): {left.why}"
        )


def _move_document(options: argparse.Namespace, plan: MovePlan) -> dict[str, object]:
    return {
        "success": not plan.taken,
        "moves": plan.moves,
        "taken": plan.taken,
        "rewritten": plan.rewritten,
        "left": plan.left,
        "skipped": plan.skipped,
        # No file changes while one is in the way, also where the plan got as far as its
        # changes.
        "files": change_documents(
            [] if plan.taken else plan.changes, is_dry_run=options.dry_run
        ),
        "undo": plan.undo,
    }
