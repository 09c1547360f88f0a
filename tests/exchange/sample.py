"""What the tests of importers share."""

from agent_resolver.exchange import Imported, NoteKind, Source, recognise
from agent_resolver.schema import IndexEntry, parse_index, to_json


def imported(content: object, name: str = "", tools: object = None) -> Imported:
    """What comes of parsed content, after recognising its format; what is imported can be read as an index."""
    found = recognise(content)
    assert found is not None
    result = found.read(Source(content, name, tools))
    versions = {(entry.id, entry.version) for entry in result.entries}
    assert len(versions) < len(result.entries) or parse_index(to_json(result.entries)) == result.entries
    return result


def only(content: object, name: str = "", tools: object = None) -> IndexEntry:
    """The one entry of a source without faults."""
    result = imported(content, name, tools)
    assert result.faults == ()
    (entry,) = result.entries
    return entry


def noted(result: Imported, kind: NoteKind) -> list[tuple[str, ...]]:
    """The names in the notes of a kind."""
    return [note.names for note in result.notes if note.kind is kind]


def started(entry: IndexEntry) -> list[str]:
    """The command line of a server that is started."""
    assert entry.launch
    return [entry.launch.command, *entry.launch.args]
