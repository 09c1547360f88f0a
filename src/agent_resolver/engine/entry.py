"""Entries of the journal of a blueprint's run, and how each is written as bytes.

No entry is written for a step that was simply called: the ledger has its outcome. An entry is written for what the
ledger does not know.
"""

from typing import Any, Final

import msgspec
from msgspec import Struct

from agent_resolver.core.blueprint.wave import StepFailed, StepOutcome
from agent_resolver.engine.port import AwaitedThing, RunResult
from agent_resolver.registry.port import Seal
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.classification import Classification
from agent_resolver.schema.state import JournalRow


class RunStarted(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag="run.started"
):
    """The start of a run: all that it takes to go on with it in another process."""

    blueprint: str
    """The digest of the blueprint, which is kept among the plans."""
    input: dict[str, Any]
    starter: Caller
    trace_id: str
    parent: str | None = None
    """The `traceparent` of the call that started it."""
    connection: str = ""
    agent: str = ""
    lock: str = ""
    part_of: str = ""
    """The run that it is a step of."""
    classification: Classification = "INTERNAL"
    """The highest of its steps. Its questions may quote their results, so only people who are cleared read them."""
    started_at: str
    interpreter: str
    """The version of the interpreter's order that the run keeps to."""


class SegmentStarted(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag="segment.started"
):
    """A process takes the run up."""

    segment: int
    attempt: int
    """From 1; a higher one where the process before was lost in the middle of the segment."""
    first: str = ""
    """The first path of the wave that the segment begins with; empty where the run has nothing left to do."""
    again: tuple[str, ...] = ()
    """The calls of that wave which the segment makes; the others have ended, or still wait."""
    known: int = 0
    """The number of waves of which the state had any trace."""
    executor: str
    """The process."""


class StepRefused(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag="step.refused"
):
    """A call whose failure the ledger does not keep: it was refused before it started, or may have been done."""

    path: str
    failed: StepFailed


class RunWaiting(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag="run.waiting"
):
    """The end of a segment: the run waits, or was handed on to another process."""

    segment: int
    waits: tuple[AwaitedThing, ...] = ()
    code: str = ""
    """Why a person has to look at the run, where that is not what a step asks for."""


class WaitEnded(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag="wait.ended"
):
    """A wait of the blueprint itself is over."""

    path: str
    outcome: StepOutcome


class SignalReceived(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag="signal.received"
):
    """A signal came, whether or not the run waits for it yet."""

    name: str
    data: Any = None
    by: Caller


class CancelAsked(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag="cancel.asked"
):
    """A caller wants the run to end."""

    by: Caller


class CancelSeen(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag="cancel.seen"
):
    """The wish to cancel was seen: from here on, the run takes back what it did."""

    segment: int
    """The segment that saw it. A segment with a higher number begins with this."""


class RunEnded(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="run.ended"):
    """The end of the run."""

    result: RunResult


Entry = (
    RunStarted
    | SegmentStarted
    | StepRefused
    | RunWaiting
    | WaitEnded
    | SignalReceived
    | CancelAsked
    | CancelSeen
    | RunEnded
)

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Entry)


def kind_of(entry: Entry) -> str:
    """The kind of an entry, as its row has it."""
    return str(entry.__struct_config__.tag)


def seal_entry(entry: Entry, run: str, number: int, at: int, seal: Seal) -> JournalRow:
    """The row of an entry, readable only with the key and at this place."""
    kind = kind_of(entry)
    body = seal.close(
        _ENCODER.encode(entry), blueprint_entry_purpose(run, number, kind, at)
    )
    return JournalRow(run=run, number=number, kind=kind, at=at, body=body)


def open_entry(row: JournalRow, seal: Seal) -> Entry:
    """The entry in a row.

    Raises:
        ValueError: It was edited, moved from another place, or sealed with another key.
    """
    entry: Entry = _DECODER.decode(
        seal.open(
            row.body, blueprint_entry_purpose(row.run, row.number, row.kind, row.at)
        )
    )
    return entry


def blueprint_purpose(digest: str) -> str:
    """The purpose that a blueprint is sealed for among the plans."""
    return f"blueprint/{digest}"


def blueprint_entry_purpose(run: str, number: int, kind: str, at: int) -> str:
    """The place that an entry is sealed for."""
    # The journal of an agent's run has another prefix: neither can take the other's
    # place.
    return f"blueprint-run/{run}/{number}/{kind}/{at}"
