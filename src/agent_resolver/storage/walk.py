"""The files below a folder, and what tells each from itself after a change."""

import os
from collections.abc import Iterable, Iterator

Identity = tuple[int, int, int]
"""When a file was written, its size, and its number on the disk."""

_NOT_SEARCHED = {"node_modules", "__pycache__"}


def files_below(
    folder: str, suffix: str, unreadable: list[OSError] | None = None, others: list[str] | None = None
) -> dict[str, Identity]:
    """The regular files below `folder` whose name ends like this, by their path below it, with `/` between the parts.

    Hidden folders, folders of installed packages and symbolic links are left alone, and what goes away meanwhile is
    not there. In no order: whoever needs one sorts the paths.

    Args:
        unreadable: Takes the folders below that cannot be read, with the reasons.
        others: Takes the paths of everything else but folders: symbolic links, and files with other names.

    Raises:
        OSError: The folder cannot be read, or one below it and nobody takes that.
    """
    found: dict[str, Identity] = {}
    folders = [(folder, "")]
    while folders:
        place, prefix = folders.pop()
        try:
            with os.scandir(place) as entries:
                folders += _look_into(entries, prefix, suffix, found, others)
        except OSError as error:
            if prefix and isinstance(error, FileNotFoundError | NotADirectoryError):
                continue
            if not prefix or unreadable is None:
                raise
            unreadable.append(error)
    return found


def _look_into(
    entries: Iterable["os.DirEntry[str]"],
    prefix: str,
    suffix: str,
    found: dict[str, Identity],
    others: list[str] | None,
) -> Iterator[tuple[str, str]]:
    """The folders to look into next; the files go to `found`."""
    for entry in entries:
        name = entry.name
        if name.endswith(suffix) and entry.is_file(follow_symlinks=False):
            try:
                found[prefix + name] = identity(entry.stat(follow_symlinks=False))
            except FileNotFoundError:
                continue  # Gone since it was listed.
        elif entry.is_dir(follow_symlinks=False):
            if not name.startswith(".") and name not in _NOT_SEARCHED:
                yield entry.path, f"{prefix}{name}/"
        elif others is not None:
            others.append(prefix + name)


def identity(found: os.stat_result) -> Identity:
    """What tells a file from itself after a change."""
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def identity_of(path: str) -> Identity | None:
    """The identity of the file at `path`, a symbolic link for itself; None where nothing is."""
    try:
        return identity(os.stat(path, follow_symlinks=False))
    except OSError:
        return None
