"""Finds the files of a project's blueprints."""

import os
from typing import Final

from agent_resolver.project.errors import UnusableBlueprints
from agent_resolver.project.session import Session
from agent_resolver.storage.errors import UnreadableFile

MAX_BLUEPRINT_FILES: Final = 1_000
_SUFFIXES: Final = (".yaml", ".yml", ".json")


def blueprint_files(session: Session) -> list[str]:
    """The files that `[tools] blueprints` of the settings names, as a person here would write them.

    Those of a folder come in the order of their names. The folders below it are not searched.

    Raises:
        UnreadableFile: One of the files or folders is not there, or cannot be read.
        UnusableBlueprints: A folder has no blueprints, or there are too many of them.
    """
    base = os.path.relpath(session.root)
    found: dict[str, str] = {}
    for named in session.config.tools.blueprints:
        path = os.path.normpath(os.path.join(base, named))
        for file in _files_of(session, path):
            # A file may be named twice, as itself and with its folder.
            found.setdefault(os.path.realpath(file), file)
    if len(found) > MAX_BLUEPRINT_FILES:
        raise UnusableBlueprints(
            f"There are more than {MAX_BLUEPRINT_FILES:,} blueprints"
        )
    return list(found.values())


def _files_of(session: Session, path: str) -> list[str]:
    """The files behind a path of the settings."""
    installs = os.path.realpath(
        os.path.join(session.root, session.config.reasoner.blueprints)
    )
    is_for_plans = os.path.realpath(path) == installs
    if is_for_plans and not os.path.lexists(path):
        # The folder that plans are installed into is made with the first of them.
        return []
    return (
        files_in_folder(path, may_be_empty=is_for_plans)
        if os.path.isdir(path)
        else [path]
    )


def files_in_folder(folder: str, *, may_be_empty: bool = False) -> list[str]:
    """The blueprints of a folder, in the order of their names; the folders below it are not searched.

    Raises:
        UnreadableFile: The folder cannot be read.
        UnusableBlueprints: It has no blueprints, and must have some.
    """
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise UnreadableFile(folder, f"cannot be read: {error.strerror}") from error
    # A hidden file is a leftover of an editor or of the file system.
    files = [
        name for name in names if name.endswith(_SUFFIXES) and not name.startswith(".")
    ]
    if not files and not may_be_empty:
        raise UnusableBlueprints(
            f"`{folder}` has no blueprints", "they are YAML or JSON files"
        )
    return [os.path.join(folder, name) for name in files]
