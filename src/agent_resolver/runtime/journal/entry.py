"""Entries of a run's journal, and how each is written as bytes."""

import zlib
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from agent_resolver.registry.port import Seal
from agent_resolver.runtime.budget import RunBudget
from agent_resolver.runtime.inference import InferenceOverride, Usage
from agent_resolver.runtime.journal.change import StateChange
from agent_resolver.runtime.run import RunState, Termination
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.outcome import Pending
from agent_resolver.schema.state import JournalRow

_RAW: Final = b"\0"
_PACKED: Final = b"\1"
_WORTH_PACKING: Final = 160
"""Fewer bytes than this do not become fewer by packing."""
_QUICK: Final = 1
MAX_ENTRY_BYTES: Final = 64 * 1024 * 1024
"""The most that an entry may unpack to: a file that was edited must not fill the memory."""

EntryKind = Literal[
    "run.started", "run.resumed", "model.asked", "model.answered", "model.failed", "run.waiting", "run.ended"
]


class Beginning(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run started from."""

    state: RunState
    """The state of a run before its first round, without its messages: those are in the entry's change."""
    caller: Caller
    budget: RunBudget = RunBudget()
    override: InferenceOverride = InferenceOverride()
    continues: str = ""
    """The run whose conversation comes before this one's."""


class Question(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A question to a model, as digests of its parts: enough to find out which of them differs later."""

    model: str
    system: str = ""
    messages: str = ""
    count: int = 0
    """The number of messages, system messages left out."""
    tools: str = ""
    settings: str = ""


class Reply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of an answer besides its words."""

    model: str = ""
    finish: str = ""
    usage: Usage | None = None
    cost: float | None = None
    text: str = ""
    """The words of an answer that is not part of the conversation, such as a summary of it."""


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a run: what changed in its state, and what the step was."""

    change: StateChange = field(default_factory=StateChange)
    beginning: Beginning | UnsetType = UNSET
    caller: Caller | UnsetType = UNSET
    """Who acts from here on, where that is another caller than the one before."""
    budget: dict[str, Any] | UnsetType = UNSET
    """The budget from here on, where that is another one; nothing may be left of that of a delegate."""
    question: Question | UnsetType = UNSET
    reply: Reply | UnsetType = UNSET
    failure: str | UnsetType = UNSET
    """Why the model did not answer."""
    pending: Pending | UnsetType = UNSET
    termination: Termination | UnsetType = UNSET


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Entry)


def encode_entry(entry: Entry) -> bytes:
    """An entry as bytes, packed where that makes it smaller."""
    content = _ENCODER.encode(entry)
    if len(content) < _WORTH_PACKING:
        return _RAW + content
    return _PACKED + zlib.compress(content, _QUICK)


def decode_entry(row: JournalRow, seal: Seal) -> Entry:
    """The entry in a row.

    Raises:
        ValueError: It was edited, sealed with another key, or written by a newer version.
    """
    return _DECODER.decode(unpack(seal.open(row.body, entry_purpose(row.run, row.number))))


def unpack(content: bytes) -> bytes:
    """What was packed.

    Raises:
        ValueError: It is damaged, or too large.
    """
    form, packed = content[:1], content[1:]
    if form == _RAW:
        return packed
    unpacker = zlib.decompressobj()
    try:
        unpacked = unpacker.decompress(packed, MAX_ENTRY_BYTES)
    except zlib.error as error:
        raise ValueError(f"an entry of the journal is damaged: {error}") from error
    if unpacker.unconsumed_tail:
        raise ValueError("an entry of the journal is too large")
    return unpacked


def pack(content: bytes) -> bytes:
    """Bytes packed as those of entries are."""
    return _PACKED + zlib.compress(content, _QUICK)


def entry_purpose(run: str, number: int) -> str:
    """What an entry is sealed for: at another place, or in another run, it cannot be opened."""
    return f"journal/{run}/{number}"
