"""The file with the settings of a client: read with a limit, and written only where the operator expects it."""

from agent_resolver.exchange.client.check import decode_settings
from agent_resolver.exchange.client.settings import UnusableSettings
from agent_resolver.schema.limit import MAX_CLIENT_SETTINGS_BYTES
from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.file import read_bounded, write_atomic


def read_settings(path: str, users: frozenset[int]) -> str:
    """The text of the settings; empty if there are none yet."""
    try:
        return decode_settings(
            read_bounded(path, MAX_CLIENT_SETTINGS_BYTES, users), path
        )
    except UnreadableFile as error:
        if error.missing:
            return ""
        raise


def write_settings(path: str, text: str) -> bool:
    """Write the settings, whole or not at all; True if that changed anything."""
    try:
        return write_atomic(path, [text.encode()])
    except UnicodeEncodeError as error:
        raise UnusableSettings(
            path, "a path that it would have to name is not UTF-8"
        ) from error
