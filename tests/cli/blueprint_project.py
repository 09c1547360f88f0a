"""A project with blueprints over capabilities that note in a file what they did."""

import importlib
import sys
from pathlib import Path

import pytest

MODULE = "shop_of_test"
CODE = '''\
"""A shop that notes what is done in a file."""

import asyncio
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver.capability import capability
from agent_resolver.registry import ToolFailure
from agent_resolver.schema import FailureCode

NOTES = Path(__file__).with_name("notes.txt")


class Order(Struct):
    """An order."""

    item: Annotated[str, Meta(description="What is ordered", examples=["lamp"])]


class Kept(Struct):
    """What is kept of an order."""

    id: Annotated[str, Meta(description="Its id", examples=["lamp-1"])]


def note(words: str) -> None:
    with NOTES.open("a") as file:
        file.write(words + "\\n")


@capability("shop.reserve", scopes=["shop:write"], examples=[{"item": "lamp"}])
def reserve(order: Order) -> Kept:
    """Reserve an item."""
    note(f"reserve {order.item}")
    return Kept(f"{order.item}-1")


@capability("shop.release", scopes=["shop:write"], idempotent=True, examples=[{"id": "lamp-1"}])
def release(kept: Kept) -> Kept:
    """Give a reserved item back."""
    note(f"release {kept.id}")
    return kept


@capability("shop.send", idempotent=True, examples=[{"id": "lamp-1"}])
def send(kept: Kept) -> Kept:
    """Send a reserved item."""
    if kept.id.startswith("broken"):
        raise ToolFailure(FailureCode.TOOL_ERROR, "It is broken", "reserve another one")
    note(f"send {kept.id}")
    return kept


@capability("shop.pack", idempotent=True, examples=[{"id": "lamp-1"}])
async def pack(kept: Kept) -> Kept:
    """Pack an item, which takes until there is a file `packed`."""
    note(f"pack {kept.id}")
    while not NOTES.with_name("packed").exists():
        await asyncio.sleep(0.02)
    return kept


@capability("shop.wipe", classification="RESTRICTED", idempotent=True, examples=[{"id": "lamp-1"}])
def wipe(kept: Kept) -> Kept:
    """Forget an order."""
    return kept
'''
ORDER = """\
blueprint_metadata: { id: shop.order, version: 1.0.0, description: Reserve an item and send it. }
dag:
  input_schema: { type: object, properties: { item: { type: string } }, required: [item], additionalProperties: false }
  steps:
    - id: reserve
      capability: shop.reserve
      input_mapping: { item: "${input.item}" }
      compensation: { capability: shop.release, input_mapping: { id: "${result.id}" } }
    - id: send
      capability: shop.send
      input_mapping: { id: "${steps.reserve.id}" }
  output_mapping: { sent: "${steps.send.id}" }
"""
ASK = """\
blueprint_metadata: { id: shop.ask, version: 1.0.0, description: Send an item once a person agrees. }
dag:
  input_schema: { type: object, properties: { item: { type: string } }, required: [item], additionalProperties: false }
  steps:
    - id: reserve
      capability: shop.reserve
      input_mapping: { item: "${input.item}" }
      compensation: { capability: shop.release, input_mapping: { id: "${result.id}" } }
    - id: agree
      wait: { kind: person, question: "Send ${input.item}?" }
    - id: send
      condition: steps.agree == 'yes'
      capability: shop.send
      input_mapping: { id: "${steps.reserve.id}" }
  output_mapping: { answer: "${steps.agree}", sent: "${steps.send.id}" }
"""
PARCEL = """\
blueprint_metadata: { id: shop.parcel, version: 1.0.0, description: Wait until a parcel is there. }
dag:
  steps:
    - id: arrived
      wait:
        kind: signal
        signal: arrived
        schema: { type: object, properties: { parcel: { type: string } }, required: [parcel] }
  output_mapping: { parcel: "${steps.arrived.parcel}" }
"""
PACK = """\
blueprint_metadata: { id: shop.pack_and_send, version: 1.0.0, description: Pack an item and send it. }
dag:
  steps:
    - { id: pack, capability: shop.pack, input_mapping: { id: lamp-1 } }
    - { id: send, capability: shop.send, input_mapping: { id: "${steps.pack.id}" } }
  output_mapping: { sent: "${steps.send.id}" }
"""
CONFIG = f"""\
[tools]
modules = ["{MODULE}"]
blueprints = ["blueprints"]

[engine]
kind = "memory"
"""


class BlueprintProject:
    """Writes blueprints and settings into the current folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def notes(self) -> list[str]:
        """What the capabilities did, in order."""
        path = self.folder / "notes.txt"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def write(self, name: str, text: str) -> Path:
        """Write a blueprint."""
        path = self.folder / "blueprints" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


def write_shop(folder: Path) -> BlueprintProject:
    """Write a project with three blueprints into a folder."""
    (folder / f"{MODULE}.py").write_text(CODE, encoding="utf-8")
    (folder / "agent.toml").write_text(CONFIG, encoding="utf-8")
    made = BlueprintProject(folder)
    for name, text in (("order.yaml", ORDER), ("ask.yaml", ASK), ("parcel.yaml", PARCEL)):
        made.write(name, text)
    return made


def write_packing_shop(folder: Path) -> BlueprintProject:
    """Write the same with a fourth blueprint, which packs until there is a file."""
    made = write_shop(folder)
    made.write("pack.yaml", PACK)
    return made


def packing_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str) -> BlueprintProject:
    """A project with that blueprint in a folder of its own, for commands that use this engine."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("AGENT_ENGINE_KIND", engine)
    folder = tmp_path / "shop"
    folder.mkdir()
    return write_packing_shop(folder)


def blueprint_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BlueprintProject:
    """The same, as the current folder."""
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("AGENT_TOKEN", raising=False)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(folder)
    sys.modules.pop(MODULE, None)
    importlib.invalidate_caches()
    return write_shop(folder)
