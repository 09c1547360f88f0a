"""Files: bounded reading, atomic writing."""

from agent_resolver.storage.errors import FileError, OversizeFile, UnreadableFile, UnwritableFile
from agent_resolver.storage.file import Batch, read_bounded, read_head, same_content, write_atomic

__all__ = [
    "Batch",
    "FileError",
    "OversizeFile",
    "UnreadableFile",
    "UnwritableFile",
    "read_bounded",
    "read_head",
    "same_content",
    "write_atomic",
]
