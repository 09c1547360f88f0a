"""The file with the settings of a client: read with a limit, and written only where the operator expects it."""

import os

from agent_resolver.exchange.client.check import decode_settings
from agent_resolver.exchange.client.settings import UnusableSettings
from agent_resolver.schema.limit import MAX_CLIENT_SETTINGS_BYTES
from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.file import read_bounded, write_atomic
from agent_resolver.storage.ownership import require_own


def require_safe_target(path: str, project: str, users: frozenset[int], *, is_named: bool) -> None:
    """Refuse to write where a link or another user decides what is changed.

    Args:
        path: The file.
        project: The folder of the project.
        users: Those whose files may decide what runs.
        is_named: True if the operator named the file. Then it may be anywhere, but it may not be a link out of the
            project. The file of a project must be in the project, whatever its folders are links to.

    Raises:
        ForeignFile: The file or its folder belongs to another user.
        UnusableSettings: A link leads out of the project.
    """
    target, root = os.path.realpath(path), os.path.realpath(project)
    is_within = os.path.commonpath([target, root]) == root
    if not is_within and (os.path.islink(path) or not is_named):
        raise UnusableSettings(path, f"a link leads out of the project, to `{target}`")
    for owned in (os.path.dirname(path) or ".", path, target):
        require_own(owned, users)


def read_settings(path: str, users: frozenset[int]) -> str:
    """The text of the settings; empty if there are none yet."""
    try:
        return decode_settings(read_bounded(path, MAX_CLIENT_SETTINGS_BYTES, users), path)
    except UnreadableFile as error:
        if error.missing:
            return ""
        raise


def write_settings(path: str, text: str) -> bool:
    """Write the settings, whole or not at all; True if that changed anything."""
    try:
        return write_atomic(path, [text.encode()])
    except UnicodeEncodeError as error:
        raise UnusableSettings(path, "a path that it would have to name is not UTF-8") from error
