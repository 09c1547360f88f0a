"""A model that says what a file says, and a project of notes that it works in."""

import json
from pathlib import Path
from typing import Any

CONFIG = """\
[providers.script]
adapter = "scripted"
script = "script.json"

[models.default]
data = { residency = ["eu-only"], maxSensitivity = "confidential" }
provider = "script"
"""


AGENT = """\
---
name: keeper
description: Keeps notes
---
You keep notes.
"""
MODULE = '''\
"""Tools for tests."""

import asyncio
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver import CallContext, capability


class Note(Struct):
    """A note."""

    name: Annotated[str, Meta(description="Its name", examples=["welcome"])]
    pin: Annotated[str, Meta(description="What opens it", examples=["0000"])] = ""


class Kept(Struct):
    """What is kept."""

    text: Annotated[str, Meta(description="Its text")]


@capability("notes.read", examples=[{"name": "welcome"}], secret_fields=["pin"])
def read(note: Note) -> Kept:
    """Read a note."""
    return Kept(f"{note.name}: hello")


@capability("notes.write", approval=True, examples=[{"name": "welcome"}], secret_fields=["pin"])
def write(note: Note) -> Kept:
    """Write a note."""
    return Kept("written")


@capability("notes.file", examples=[{"name": "welcome"}])
def file(note: Note, context: CallContext) -> Kept:
    """File a note."""
    return Kept(context.ask("Into which drawer?"))


@capability("notes.seal", secrets=["SEAL"], examples=[{"name": "welcome"}])
def seal(note: Note, context: CallContext) -> Kept:
    """Seal a note."""
    return Kept("sealed")


@capability("notes.hang", examples=[{"name": "welcome"}])
async def hang(note: Note) -> Kept:
    """Never end."""
    Path("hanging").touch()
    await asyncio.sleep(3600)
    return Kept("")
'''
NOTES = "notes_of_test"
"""The name of that module."""


def asking(tool: str, said: str = "", **arguments: Any) -> dict[str, Any]:
    """An answer that asks for a call; `tool` is its name on the wire."""
    usage = {"input_tokens": 20, "output_tokens": 5}
    return {"text": said, "calls": [{"name": tool, "arguments": arguments}], "usage": usage}


def saying(text: str) -> dict[str, Any]:
    """An answer in words."""
    return {"text": text, "usage": {"input_tokens": 10, "output_tokens": 2}}


def write_script(folder: Path, *answers: dict[str, Any]) -> None:
    """Let the model give these answers, one after the other, in each process that asks it."""
    (folder / "script.json").write_text(json.dumps(answers), encoding="utf-8")


def write_notes(folder: Path) -> None:
    """Write a project of one agent, with tools of its own code; its model has no answers yet."""
    write_script(folder)
    (folder / "agents.md").write_text(AGENT)
    (folder / f"{NOTES}.py").write_text(MODULE)
    (folder / "agent.toml").write_text(f'{CONFIG}\n[tools]\nmodules = ["{NOTES}"]\n')
