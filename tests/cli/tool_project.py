"""A project whose own code offers tools, which may change between two commands."""

import importlib
import sys
from pathlib import Path

import pytest

HEAD = '''\
"""Tools for tests."""

from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver.capability import capability


class Request(Struct):
    """A ticket to open."""

    title: Annotated[str, Meta(description="In a few words", examples=["Broken"], max_length=80)]
    urgent: Annotated[bool, Meta(description="Whether it cannot wait", examples=[True])] = False


class Result(Struct):
    """A ticket."""

    id: Annotated[int, Meta(description="Its number")]


'''
CREATE = '''\
@capability("tickets.create", scopes=["write:tickets"], examples=[{"title": "Broken"}])
def create(request: Request) -> Result:
    """Open a ticket."""
    return Result(len(request.title))


'''
CLOSE = '''\
@capability("tickets.close", classification="RESTRICTED", examples=[{"title": "Broken", "urgent": True}])
def close(request: Request) -> Result:
    """Close a ticket.

    For good.
    """
    return Result(len(request.title))
'''
SOURCE = HEAD + CREATE + CLOSE


class ToolProject:
    """Writes the code and the settings of a project into the current folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        monkeypatch.setenv("XDG_CONFIG_HOME", str(folder.parent / "config"))
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.chdir(folder)

    @property
    def manifest(self) -> Path:
        """Where the manifest is committed."""
        return self.folder / "tools.manifest.json"

    def offer(self, source: str = SOURCE, *more: str) -> None:
        """Offer these tools, each text as a module that is imported again."""
        names = [f"tools_of_test_{number}" for number, _ in enumerate((source, *more))]
        for name in names:
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        for name, text in zip(names, (source, *more), strict=True):
            (self.folder / f"{name}.py").write_text(text, encoding="utf-8")
        (self.folder / "agent.toml").write_text(f"[tools]\nmodules = {names}\n", encoding="utf-8")


def tool_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToolProject:
    """A project that offers two tools."""
    folder = tmp_path / "project"
    folder.mkdir()
    made = ToolProject(folder, monkeypatch)
    made.offer()
    return made
