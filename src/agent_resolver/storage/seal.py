"""What nobody may read in the state file, encrypted."""

import os
import secrets
from contextlib import suppress
from hashlib import sha256
from typing import Final

from agent_resolver.storage.errors import UnreadableFile, UnwritableFile
from agent_resolver.storage.file import create_beside, read_bounded, sweep_temporary, tighten

_NONCE_BYTES: Final = 12
_KEY_BYTES: Final = 32


class AesSeal:
    """AES-256-GCM, each content bound to its purpose."""

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        # The same key also seals the trail: what is derived for one use is of no use for another.
        self._cipher = AESGCM(derived_key(key, "seal"))

    def close(self, content: bytes, purpose: str) -> bytes:
        """The content, readable only with the key and for this purpose."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, content, purpose.encode())

    def open(self, sealed: bytes, purpose: str) -> bytes:
        """The content again.

        Raises:
            ValueError: It was changed, or closed with another key or for another purpose.
        """
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], purpose.encode())
        except (InvalidTag, ValueError):
            raise ValueError("it was changed, or sealed with another key") from None


def derived_key(key: bytes, use: str) -> bytes:
    """A key for one use, from which neither the key that it is made of nor one for another use can be found."""
    return sha256(f"agent-resolver {use}\0".encode() + key).digest()


def key_beside(path: str) -> bytes:
    """The key in this file, which only its owner may read; made at the first use, by whoever is first.

    Raises:
        UnreadableFile: It is no key, or may not be read.
        UnwritableFile: It cannot be made.
    """
    if not os.path.lexists(path):
        try:
            _make_key(path)
        except OSError as error:
            problem = f"cannot be made: {error.strerror}; name a variable with a key in `state.key_env` instead"
            raise UnwritableFile(path, problem) from error
    tighten(path, 0o600)
    key = read_bounded(path, _KEY_BYTES)
    if len(key) != _KEY_BYTES:
        problem = f"is no key of {_KEY_BYTES} bytes: put back the one that was there, or results cannot be told again"
        raise UnreadableFile(path, problem)
    return key


def _make_key(path: str) -> None:
    """Make the file with all of its content, unless another process does so first."""
    sweep_temporary(os.path.dirname(path) or ".")
    file = create_beside(path, mode=0o600)
    try:
        with file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(file.name, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(file.name)
