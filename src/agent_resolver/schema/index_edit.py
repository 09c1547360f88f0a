"""Replaces single entries of an index file, and leaves every other byte as it is."""

from collections.abc import Mapping
from typing import Any

import msgspec

from agent_resolver.schema.index_tree import entry_spans


def entry_documents(raw: bytes) -> list[dict[str, Any]]:
    """The entries of a valid index as they are written, unknown keys included."""
    return [msgspec.json.decode(raw[start:end]) for start, end in entry_spans(raw)]


def with_entries(raw: bytes, documents: Mapping[int, dict[str, Any]]) -> bytes:
    """A valid index with other documents at some of its positions; one that says the same is not written again."""
    pieces: list[bytes] = []
    copied = 0
    for position, (start, end) in enumerate(entry_spans(raw)):
        document = documents.get(position)
        if document is None or document == msgspec.json.decode(raw[start:end]):
            continue
        pieces += [
            raw[copied:start],
            _indented(document, _indentation_before(raw, start)),
        ]
        copied = end
    return b"".join((*pieces, raw[copied:]))


def _indentation_before(raw: bytes, start: int) -> bytes:
    """The white space that the line of an entry begins with."""
    line = raw[raw.rfind(b"\n", 0, start) + 1 : start]
    return line[: len(line) - len(line.lstrip())]


def _indented(document: dict[str, Any], indentation: bytes) -> bytes:
    text = msgspec.json.format(msgspec.json.encode(document), indent=2)
    return text.replace(b"\n", b"\n" + indentation)
