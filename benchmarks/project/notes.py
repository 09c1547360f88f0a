"""Capabilities to measure: each looks up one note, in each of the ways that a function can run."""

from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver.capability import capability
from agent_resolver.registry import CallContext

NOTES = {"welcome": "Hello", "parting": "Goodbye"}


class Wanted(Struct, frozen=True, kw_only=True):
    """The note to look for."""

    name: Annotated[str, Meta(description="Its name.", examples=["welcome"], min_length=1)]
    page: Annotated[int, Meta(description="The page to begin with.", examples=[3], ge=0)] = 0
    tags: Annotated[tuple[str, ...], Meta(description="Words to find it by.", examples=[["a", "b"]])] = ()


class Note(Struct, frozen=True, kw_only=True):
    """A note."""

    text: Annotated[str, Meta(description="What it says.")]
    page: Annotated[int, Meta(description="The page.")]


@capability("notes.find", read_only=True, idempotent=True, examples=[{"name": "welcome"}])
def find(request: Wanted) -> Note:
    """Find a note, in a thread."""
    return Note(text=NOTES[request.name], page=request.page)


@capability("notes.await", read_only=True, idempotent=True, examples=[{"name": "welcome"}])
async def find_async(request: Wanted) -> Note:
    """Find a note, on an event loop."""
    return Note(text=NOTES[request.name], page=request.page)


@capability("notes.fetch", read_only=True, idempotent=True, isolated=True, examples=[{"name": "welcome"}])
def fetch(request: Wanted, context: CallContext) -> Note:
    """Find a note, in a process of its own."""
    return Note(text=f"{NOTES[request.name]} {context.caller.id}", page=request.page)
