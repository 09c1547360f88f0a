"""Encrypts what only the holder of a key may read in the state."""

import os
import secrets
from base64 import b64decode, b64encode
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from agent_resolver.storage.errors import UnreadableFile, UnwritableFile
from agent_resolver.storage.file import (
    create_beside,
    read_bounded,
    sweep_temporary,
    sync_folder,
    tighten,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

CIPHER: Final = "ares1"
"""The name of the cipher: AES-256-GCM, with the purpose and the name itself as associated data."""
_NONCE_BYTES: Final = 12
_KEY_BYTES: Final = 32
_ID_DIGITS: Final = 16
_NAME_BYTES: Final = len(CIPHER) + 1 + _ID_DIGITS
_CHANGED: Final = "it was changed, or sealed with another key"


def id_of_key(key: bytes) -> str:
    """The id of a key, by which sealed values name it; the key cannot be computed from it."""
    return sha256(b"agent-resolver key id\0" + key).hexdigest()[:_ID_DIGITS]


class AesSeal:
    """AES-256-GCM, each content bound to its purpose.

    A sealed value begins with the name of its cipher, which ends with the id of its key: `ares1.<id>:`. A value without
    such a name is refused, and so is one whose key is not known here.
    """

    def __init__(self, key: bytes, *others: bytes) -> None:
        """A seal that closes with `key`, and opens what was closed with it or with one of the others."""
        self.cipher = _name_of_cipher(key)
        """The name of the cipher that closes values."""
        self._ciphers = {
            _name_of_cipher(each).encode(): _aes_of(each) for each in (key, *others)
        }

    def close(self, content: bytes, purpose: str) -> bytes:
        """The content, readable only with the key and for this purpose."""
        name = self.cipher.encode()
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = self._ciphers[name].encrypt(nonce, content, _bound_to(name, purpose))
        return b"".join((name, b":", nonce, sealed))

    def open(self, sealed: bytes, purpose: str) -> bytes:
        """The content again.

        Raises:
            ValueError: It has no name of a cipher that is known here, was changed, or was closed for another purpose.
        """
        from cryptography.exceptions import InvalidTag

        name = sealed[:_NAME_BYTES]
        rest = sealed[_NAME_BYTES + 1 :]
        cipher = self._ciphers.get(name)
        if cipher is None or sealed[_NAME_BYTES : _NAME_BYTES + 1] != b":":
            raise ValueError(_CHANGED) from None
        try:
            return cipher.decrypt(
                rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], _bound_to(name, purpose)
            )
        except (InvalidTag, ValueError):
            raise ValueError(_CHANGED) from None

    def close_text(self, text: str, purpose: str) -> str:
        """The text, sealed, as text: for columns and files that hold no bytes."""
        return sealed_as_text(
            self.close(text.encode("utf-8", "surrogatepass"), purpose)
        )

    def open_text(self, sealed: str, purpose: str) -> str:
        """The text again.

        Raises:
            ValueError: As of `open`.
        """
        return self.open(sealed_from_text(sealed), purpose).decode(
            "utf-8", "surrogatepass"
        )


def sealed_as_text(sealed: bytes) -> str:
    """A sealed value in letters: the name of its cipher as it is, the rest in base64."""
    start = _NAME_BYTES + 1
    name = sealed[:start].decode("ascii")
    return name + b64encode(sealed[start:]).decode("ascii")


def sealed_from_text(text: str) -> bytes:
    """The sealed value that was written in letters.

    Raises:
        ValueError: It does not begin with the name of our cipher, or the rest is not base64.
    """
    start = _NAME_BYTES + 1
    if not (text.startswith(f"{CIPHER}.") and text[:start].isascii()):
        raise ValueError("it is not sealed")
    return text[:start].encode("ascii") + b64decode(text[start:], validate=True)


class UnnamedSeal:
    """Opens what earlier versions closed, without the name of a cipher. Nothing is closed that way any more."""

    def __init__(self, key: bytes) -> None:
        self._cipher = _aes_of(key)

    def open(self, sealed: bytes, purpose: str) -> bytes:
        """The content again.

        Raises:
            ValueError: It was changed, or closed with another key or for another purpose.
        """
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(
                sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], purpose.encode()
            )
        except (InvalidTag, ValueError):
            raise ValueError(_CHANGED) from None


def _name_of_cipher(key: bytes) -> str:
    return f"{CIPHER}.{id_of_key(key)}"


def _aes_of(key: bytes) -> "AESGCM":
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    # The same key also seals the trail: what is derived for one use is of no use for
    # another.
    return AESGCM(derived_key(key, "seal"))


def _bound_to(name: bytes, purpose: str) -> bytes:
    """The associated data: a value does not open under another name, nor for another purpose."""
    return b"\0".join((name, purpose.encode("utf-8", "surrogatepass")))


# Keys in files ------------------------------------------------------------------------


def derived_key(key: bytes, use: str) -> bytes:
    """A key for one use, from which neither the key that it is made of nor one for another use can be found."""
    return sha256(f"agent-resolver {use}\0".encode() + key).digest()


def evidence_key(key: bytes) -> bytes:
    """The key that seals the evidence of tasks, of use for nothing else."""
    return derived_key(key, "evidence")


def key_beside(path: str) -> bytes:
    """The key in this file, which only its owner may read; made at the first use, by the process that is first.

    Raises:
        UnreadableFile: It is not a key, or may not be read.
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
        # The state is about to name this key: the key must not be lost with the power.
        sync_folder(os.path.dirname(path) or ".")
    finally:
        with suppress(FileNotFoundError):
            os.unlink(file.name)
