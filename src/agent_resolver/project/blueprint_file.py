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
        for file in _files_in_folder(path) if os.path.isdir(path) else [path]:
            # A file may be named twice, as itself and with its folder.
            found.setdefault(os.path.realpath(file), file)
    if len(found) > MAX_BLUEPRINT_FILES:
        raise UnusableBlueprints(f"There are more than {MAX_BLUEPRINT_FILES:,} blueprints")
    return list(found.values())


def _files_in_folder(folder: str) -> list[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise UnreadableFile(folder, f"cannot be read: {error.strerror}") from error
    # A hidden file is a leftover of an editor or of the file system.
    files = [name for name in names if name.endswith(_SUFFIXES) and not name.startswith(".")]
    if not files:
        raise UnusableBlueprints(f"`{folder}` has no blueprints", "they are YAML or JSON files")
    return [os.path.join(folder, name) for name in files]
