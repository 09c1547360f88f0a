"""Finds the blueprints that a person means, by file or by id."""

import argparse
import os
from collections.abc import Sequence

from agent_resolver.cli.errors import Refusal, Usage
from agent_resolver.cli.option import session_of
from agent_resolver.project.blueprint import ExaminedBlueprint, examine_blueprints
from agent_resolver.schema.walker import suggestion

_SUFFIXES = (".yaml", ".yml", ".json")


def open_chosen(
    options: argparse.Namespace, chosen: Sequence[str]
) -> list[ExaminedBlueprint]:
    """Read and check the blueprints that are named, all of the settings where none is.

    Raises:
        Refusal: There is no blueprint of a name.
        Usage: None is named, and the settings name none either.
    """
    files = [name for name in chosen if _is_file(name)]
    with session_of(options) as session:
        # The blueprints of the settings are examined too, since those that are named
        # may call them.
        examined = examine_blueprints(session, files)
    if not chosen:
        if not examined:
            raise Usage(
                "There are no blueprints here",
                "name a file, or folders in `[tools] blueprints` of agent.toml",
            )
        return examined
    # A file may be named by another path than the settings have for it, or through a
    # link.
    by_file = {os.path.realpath(each.file): each for each in examined}
    by_id = {each.blueprint.id: each for each in examined if each.blueprint is not None}
    found: dict[str, ExaminedBlueprint] = {}
    for name in chosen:
        each = (
            by_file.get(os.path.realpath(name)) if _is_file(name) else by_id.get(name)
        )
        if each is None:
            raise _unknown(name, examined)
        # By file and by id, a blueprint may be named twice.
        found[each.file] = each
    return list(found.values())


def _unknown(name: str, examined: Sequence[ExaminedBlueprint]) -> Refusal:
    known = [each.blueprint.id for each in examined if each.blueprint is not None]
    unread = [each.file for each in examined if each.blueprint is None]
    hint = "`agent blueprint check` lists them"
    if unread:
        # The file that is meant may be one whose id could not be read.
        hint = f"`agent blueprint check` shows the faults of {', '.join(unread)}"
    return Refusal(
        f"There is no blueprint {name}",
        suggestion(name, known) or hint,
        "UNKNOWN_BLUEPRINT",
    )


def _is_file(name: str) -> bool:
    """True if a name is that of a file: ids have no such ending, and a file that is missing is reported as that."""
    return name.endswith(_SUFFIXES) or os.path.sep in name
