"""Notes, as tools of an agent."""

from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver import capability

NOTES = {"welcome": "The lock governs the run."}


class Name(Struct):
    """Which note."""

    name: Annotated[str, Meta(description="The name of the note", examples=["welcome"], max_length=80)]


class Note(Struct):
    """A note."""

    text: Annotated[str, Meta(description="What it says")]


@capability("notes.read", read_only=True, examples=[{"name": "welcome"}])
def read(request: Name) -> Note:
    """Read a note."""
    return Note(NOTES.get(request.name, "There is no such note."))


@capability("notes.write", approval=True, examples=[{"name": "welcome"}])
def write(request: Name) -> Note:
    """Write an empty note, once a person approves."""
    NOTES[request.name] = ""
    return Note(NOTES[request.name])
