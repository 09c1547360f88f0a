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
from agent_resolver.schema.errors import ResolverError
from agent_resolver.schema.outcome import Pending
from agent_resolver.schema.state import JournalRow
from agent_resolver.schema.workflow import WorkflowSteps

_PACKED: Final = b"\1"
_QUICK: Final = 1
_WINDOW: Final = -15
"""The usual window, without zlib's own header and checksum: the seal finds every change."""
_PACKING_WINDOW: Final = -13
_PACKING_MEMORY: Final = 5
"""What packing takes in memory: 48 kB. With the usual 256 kB, getting the memory takes longer than packing."""
_COMMON: Final = (
    b'"},{"type":"image","media_type":"data":"url":"delegated":{"pieces":[{"repairs":{"consecutive_errors":'
    b'"uncertain":1,"is_cut_off":true,"lost_values":["pending":{"trace_id":"id":"type":"CLARIFICATION","APPROVAL",'
    b'"code":"APPROVAL_REQUIRED","message":"remedy":"once `agent inbox approve ` is done, make the same call under the '
    b'same trace","expires_at":null,"termination":{"reason":"suspended","code":"CLARIFICATION_REQUIRED","message":"'
    b'"termination":{"reason":"natural_end","code":"","message":""}}'
    b'{"change":{"messages":[{"role":"user","content":[{"type":"text","text":""}],"calls":[],"call_id":""}]},'
    b'"beginning":{"state":{"run":"","trace_id":"","agent_id":"","plan":"sha256-","messages":[],"round":0,'
    b'"usage":{"inputTokens":0,"outputTokens":0,"cachedInputTokens":0},"cost":0.0,"seconds":0.0,"calls":{},'
    b'"open_calls":[],"delegate":null,"delegated":{},"is_asked":false,"pieces":[],"uncertain":0,"is_cut_off":false,'
    b'"is_judged":true,"repairs":{},"consecutive_errors":0,"values":{}},"caller":{"id":"local:","is_verified":false,'
    b'"issuer":"","scopes":null,"roles":[],"clearance":"RESTRICTED","cost_center":"","app_id":"","expires_at":null,'
    b'"via":"","via_issuer":""},"budget":{"max_rounds":null,"max_tokens":null,"max_cost":null,"max_seconds":null,'
    b'"max_calls":{}},"override":{"temperature":null,"max_output_tokens":null,"reasoning_effort":null}}}'
    b'"values":{"loop.context_messages":[],"loop.inference_override":{},"loop.excluded_tools":[],"loop.only_tools":[]},'
    b'{"change":{"messages":[{"role":"assistant","content":[{"type":"text","text":"","calls":[{"id":"call_","name":"",'
    b'"arguments":"{\\"\\":\\"\\"}"}],"call_id":""}],"open_calls":1,"usage":{"inputTokens":,"outputTokens":,'
    b'"cachedInputTokens":0},"cost":0.0,"seconds":0.0,"is_asked":false,"is_judged":false},"reply":{"model":"",'
    b'"finish":"stop","finish":"tool_calls","usage":{"inputTokens":,"outputTokens":,"cachedInputTokens":0},"cost":0.0}}'
    b'{"change":{"messages":[{"role":"tool","content":[{"type":"text","text":""}],"calls":[],"call_id":"call_"}],'
    b'"results":{"0":"sha256-"},"open_calls":0,"round":,"seconds":0.,"calls":{"":1},"is_asked":true,"is_judged":true},'
    b'"question":{"model":"","system":"","messages":"","count":,"tools":"","settings":""}}'
)
"""Words of entries: an entry is short, and without them most of it would be the names of its fields. The words are
part of the format: with others, no entry that was written before can be read."""
MAX_ENTRY_BYTES: Final = 64 * 1024 * 1024
"""The most that an entry may unpack to: a file that was edited must not fill the memory."""

EntryKind = Literal[
    "run.started",
    "run.resumed",
    "model.asked",
    "model.answered",
    "model.failed",
    "step.ended",
    "run.waiting",
    "run.ended",
]


class EntryRefused(ResolverError):
    """A step of a run cannot be kept."""


class Beginning(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The start of a run: all that it began with."""

    state: RunState
    """The state of a run before its first round, without its messages: those are in the entry's change."""
    caller: Caller
    budget: RunBudget = RunBudget()
    override: InferenceOverride = InferenceOverride()
    continues: str = ""
    """The run whose conversation comes before this one's."""
    thread: str = ""
    """The conversation that it belongs to, as the run's row has it: this one cannot be edited."""
    parent: str = ""
    """The run that delegates to it, likewise."""
    workflow: WorkflowSteps | UnsetType = UNSET
    """The steps, where the run is a workflow."""


class Question(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A question to a model, as digests of its parts: enough to find out which of them differs later.

    An entry leaves out the parts that are those of the question before it.
    """

    model: str = ""
    system: str = ""
    messages: str = ""
    count: int = 0
    """The number of messages, system messages left out."""
    tools: str = ""
    settings: str = ""


class Reply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The facts of an answer besides its words."""

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
    """The caller that acts from here on, if it is another one than before."""
    budget: dict[str, Any] | UnsetType = UNSET
    """The budget from here on, where that is another one. It is a plain mapping: the rest of a delegate's budget may be
    0, which a `RunBudget` from outside may not."""
    question: Question | UnsetType = UNSET
    reply: Reply | UnsetType = UNSET
    failure: str | UnsetType = UNSET
    """Why the model did not answer."""
    pending: Pending | UnsetType = UNSET
    termination: Termination | UnsetType = UNSET


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Entry)


def encode_entry(entry: Entry) -> bytes:
    """An entry as bytes.

    Raises:
        EntryRefused: It could not be read again.
    """
    try:
        content = _ENCODER.encode(entry)
    except (TypeError, ValueError, RecursionError) as error:
        raise EntryRefused(f"a step of the run cannot be written: {error}") from error
    # Refused here, because `unpack` would never give it back.
    if len(content) > MAX_ENTRY_BYTES:
        raise EntryRefused(
            f"a step of the run has {len(content):,} bytes, and {MAX_ENTRY_BYTES:,} is the most"
        )
    return pack(content)


def decode_entry(row: JournalRow, seal: Seal) -> Entry:
    """The entry in a row.

    Raises:
        ValueError: It was edited, sealed with another key, or written by a newer version.
    """
    purpose = entry_purpose(row.run, row.number, row.kind, row.at)
    return _DECODER.decode(unpack(seal.open(row.body, purpose)))


def unpack(content: bytes) -> bytes:
    """The bytes that were packed.

    Raises:
        ValueError: It is damaged, or too large.
    """
    # The first byte names the form, so that a later version can pack otherwise.
    form, packed = content[:1], content[1:]
    if form != _PACKED:
        raise ValueError("it was written by a newer version")
    unpacker = zlib.decompressobj(_WINDOW, zdict=_COMMON)
    try:
        unpacked = unpacker.decompress(packed, MAX_ENTRY_BYTES)
    except zlib.error as error:
        raise ValueError(f"it is damaged: {error}") from error
    # `decompress` stops at the limit without an error, and at the end of bytes that
    # were cut off.
    if not unpacker.eof:
        raise ValueError("it is too large, or was cut off")
    return unpacked


def pack(content: bytes) -> bytes:
    """Bytes in the fewest bytes."""
    packer = zlib.compressobj(
        _QUICK, zlib.DEFLATED, _PACKING_WINDOW, _PACKING_MEMORY, zdict=_COMMON
    )
    return b"".join((_PACKED, packer.compress(content), packer.flush()))


def entry_purpose(run: str, number: int, kind: str, at: int) -> str:
    """The place that an entry is sealed for: elsewhere, in another run or as another step, it cannot be opened."""
    return f"journal/{run}/{number}/{kind}/{at}"


def plan_purpose(digest: str) -> str:
    """The purpose that a plan is sealed for."""
    return f"plan/{digest}"
