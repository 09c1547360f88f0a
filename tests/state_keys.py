"""State files as a project without a key in its settings opens them: with the key in the file beside it."""

import os
from pathlib import Path

from agent_resolver.storage import KeyRing, SqliteStore


def keys_beside(path: str | os.PathLike[str]) -> KeyRing:
    """The keys of the state at this path."""
    return KeyRing(str(path), str(Path(path).with_suffix(".key")))


def project_store(path: str | os.PathLike[str]) -> SqliteStore:
    """The store of a project."""
    return SqliteStore(str(path), keys=keys_beside(path))
