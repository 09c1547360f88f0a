"""Where a project is."""

import os

from agent_resolver.storage.file import read_bounded, read_head

CONFIG_NAME = "agent.toml"

_MAX_BYTES = 1024 * 1024


def find_config(start: str) -> str | None:
    """The nearest `agent.toml` in `start` or above it."""
    folder = os.path.realpath(start)
    while True:
        path = os.path.join(folder, CONFIG_NAME)
        # Opened only to say what it is where it is not a file: it is read later, once.
        if os.path.isfile(path) or read_head(path, 1) is not None:
            return path
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def read_config(path: str) -> bytes:
    """The bytes of an `agent.toml`."""
    return read_bounded(path, _MAX_BYTES)
