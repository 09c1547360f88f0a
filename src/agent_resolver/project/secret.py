"""The places of a project's secrets: the environment, a file, or the keyring of the operating system."""

import asyncio
import os
from collections.abc import Mapping
from typing import Final

from agent_resolver.project.config import SecretPlace
from agent_resolver.registry.errors import ToolFailure
from agent_resolver.schema.outcome import FailureCode
from agent_resolver.storage.errors import FileError, UnreadableFile
from agent_resolver.storage.file import read_bounded

_MAX_BYTES: Final = 64 * 1024
KEYRING_SECONDS: Final = 60.0
"""How long a keyring may take to answer: a person may have to unlock it."""


class ProjectSecrets:
    """Finds a secret by the reference that `[secrets]` gives it; else in the variable of its name."""

    def __init__(
        self,
        places: Mapping[str, SecretPlace],
        environment: Mapping[str, str],
        root: str,
    ) -> None:
        self._places = places
        self._environment = environment
        self._root = root

    async def get(self, name: str) -> str | None:
        """The value of a secret, or None while it is not there.

        Raises:
            ToolFailure: Where it should be cannot be asked.
        """
        place = self._places.get(name, SecretPlace())
        if place.file:
            return _from_file(name, self._root, place.file)
        if place.keyring:
            return await _ask_keyring(name, place.keyring)
        # A variable that is empty counts as a secret that is missing.
        return self._environment.get(place.env or name) or None

    def place(self, name: str) -> str:
        """The place where it is looked for, in words for a person."""
        place = self._places.get(name, SecretPlace())
        if place.file:
            return f"write it into the file {place.file}"
        if place.keyring:
            service, _, user = place.keyring.rpartition("/")
            return f"`keyring set {service} {user}`"
        return f"set the environment variable {place.env or name}"


def _from_file(name: str, root: str, file: str) -> str | None:
    path = os.path.join(root, file)
    try:
        content = read_bounded(path, _MAX_BYTES)
    except UnreadableFile as error:
        if error.missing:
            return None
        raise _unusable_secret(name, str(error).replace(path, file)) from None
    except FileError as error:
        # The caller of a tool need not know where the project is.
        raise _unusable_secret(name, str(error).replace(path, file)) from None
    try:
        # Editors end a file with a line break, which is not part of the secret.
        return content.decode().rstrip("\r\n") or None
    except UnicodeDecodeError:
        raise _unusable_secret(name, "its file is not UTF-8") from None


async def _ask_keyring(name: str, reference: str) -> str | None:
    """Ask the keyring in a thread that is given up in time: one that hangs must not keep the command from ending."""
    from agent_resolver.capability.given_up import TooManyGivenUp
    from agent_resolver.capability.worker_thread import Pace, worker_threads

    try:
        async with asyncio.timeout(KEYRING_SECONDS):
            value: str | None = await worker_threads.run(
                Pace(), _from_keyring, name, reference
            )
    except (TimeoutError, TooManyGivenUp) as error:
        raise _unusable_secret(
            name, f"the keyring does not answer ({type(error).__name__})"
        ) from None
    return value


def _from_keyring(name: str, reference: str) -> str | None:
    try:
        import keyring
    except ImportError:
        raise _unusable_secret(
            name, "it is in the keyring", "install `agent-resolver[keyring]`"
        ) from None
    service, _, user = reference.rpartition("/")
    if not service:
        raise _unusable_secret(name, "its place in the keyring must be `service/user`")
    try:
        return keyring.get_password(service, user) or None
    except Exception as error:  # noqa: BLE001 - backends come from anywhere, and raise what they like
        # What it says may hold more than the name of the secret.
        raise _unusable_secret(
            name, f"the keyring does not answer ({type(error).__name__})"
        ) from None


def _unusable_secret(
    name: str, why: str, remedy: str = "see `[secrets]` in agent.toml"
) -> ToolFailure:
    return ToolFailure(
        FailureCode.NOT_CONFIGURED, f"The secret {name} cannot be read: {why}", remedy
    )
