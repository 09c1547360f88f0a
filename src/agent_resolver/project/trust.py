"""Which folders a person trusts to run code: asked once, kept beside the user's other settings."""

import os
from collections.abc import Mapping

import msgspec

from agent_resolver.schema.lockfile import to_json
from agent_resolver.storage.errors import UnreadableFile, UnwritableFile
from agent_resolver.storage.file import read_bounded, write_atomic

_MAX_BYTES = 1024 * 1024


class TrustedFolders:
    """The folders of one user."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        base = environment.get("XDG_CONFIG_HOME", "")
        if not os.path.isabs(base):  # The standard says so; a project must not bring its own list either.
            base = os.path.join(os.path.expanduser("~"), ".config")
        self.path = os.path.join(base, "agent-resolver", "trusted-folders.json")

    def all(self) -> list[str]:
        """Every trusted folder, in order."""
        try:
            return sorted(msgspec.json.decode(read_bounded(self.path, _MAX_BYTES), type=list[str]))
        except UnreadableFile as error:
            if error.missing:
                return []
            raise
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise UnreadableFile(self.path, f"is damaged: {error}") from error

    def is_trusted(self, folder: str) -> bool:
        """Whether the folder itself was trusted; a folder above it does not count."""
        return os.path.realpath(folder) in self.all()

    def add(self, folder: str) -> bool:
        """Trust a folder; False when it was trusted already."""
        trusted, path = self.all(), os.path.realpath(folder)
        if path in trusted:
            return False
        self._write([*trusted, path])
        return True

    def remove(self, folder: str) -> bool:
        """Trust a folder no longer; False when it was not trusted."""
        trusted, path = self.all(), os.path.realpath(folder)
        if path not in trusted:
            return False
        self._write([each for each in trusted if each != path])
        return True

    def _write(self, folders: list[str]) -> None:
        try:
            content = to_json(sorted(folders))
        except UnicodeEncodeError as error:
            raise UnwritableFile(self.path, "cannot hold the name of a folder that is not UTF-8") from error
        write_atomic(self.path, [content])
